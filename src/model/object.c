#include "model/object.h"

#include "base/error.h"
#include "base/file.h"

/* One request of a remote store; also what gathers before a write. */
#define PIECE_SIZE (256u * 1024)

struct BlObjectInput {
  BlStore *store;
  char *key;
  int fd;         /* -1 where the store gives none: then pieces are fetched */
  guint64 offset; /* of the next byte to fetch */
  gboolean at_end;
  guint8 *piece;
  gsize piece_pos, piece_size;
};

static gboolean fetch_piece(BlObjectInput *input, GError **error) {
  input->piece_pos = 0;
  if (!bl_store_get(input->store, input->key, input->offset, input->piece, PIECE_SIZE,
                    &input->piece_size, error))
    return FALSE;
  input->offset += input->piece_size;
  input->at_end = input->piece_size < PIECE_SIZE;
  return TRUE;
}

BlObjectInput *bl_object_input_open(BlStore *store, const char *key, GError **error) {
  g_autoptr(BlObjectInput) input = g_new0(BlObjectInput, 1);
  input->store = store;
  input->fd = -1;
  input->key = g_strdup(key);
  if (bl_store_can(store, BL_STORE_CAN_OPEN_FD)) {
    input->fd = bl_store_open_fd(store, key, error);
    return input->fd < 0 ? NULL : g_steal_pointer(&input);
  }
  input->piece = g_malloc(PIECE_SIZE);
  return fetch_piece(input, error) ? g_steal_pointer(&input) : NULL;
}

gssize bl_object_input_read(gpointer user, void *data, gsize size, GError **error) {
  BlObjectInput *input = user;
  if (input->fd >= 0) {
    if (input->at_end) return 0;
    gssize n = bl_pread_some(input->fd, data, size, input->offset, error);
    if (n < 0) {
      g_prefix_error(error, "object \"%s\": ", input->key);
      return -1;
    }
    input->offset += (guint64)n;
    input->at_end = (gsize)n < size;
    return n;
  }
  if (input->piece_pos == input->piece_size && !input->at_end && !fetch_piece(input, error))
    return -1;
  gsize n = MIN(size, input->piece_size - input->piece_pos);
  memcpy(data, input->piece + input->piece_pos, n);
  input->piece_pos += n;
  return (gssize)n;
}

void bl_object_input_free(BlObjectInput *input) {
  if (input == NULL) return;
  bl_fd_clear(&input->fd);
  g_free(input->key);
  g_free(input->piece);
  g_free(input);
}

struct BlObjectOutput {
  BlStoreWriter *writer;
  BlHasher *hasher;
  GString *text;
};

BlObjectOutput *bl_object_output_open(BlStore *store, const char *key, GError **error) {
  BlStoreWriter *writer =
      bl_store_writer_open(store, key, G_MAXUINT64, BL_PUT_REPLACE | BL_PUT_DURABLE, error);
  if (writer == NULL) return NULL;
  BlObjectOutput *output = g_new0(BlObjectOutput, 1);
  output->writer = writer;
  output->hasher = bl_hasher_new();
  output->text = g_string_new(NULL);
  return output;
}

GString *bl_object_output_text(BlObjectOutput *output) {
  return output->text;
}

static gboolean write_text(BlObjectOutput *output, GError **error) {
  bl_hasher_update(output->hasher, output->text->str, output->text->len);
  if (!bl_store_writer_write(output->writer, output->text->str, output->text->len, error))
    return FALSE;
  g_string_truncate(output->text, 0);
  return TRUE;
}

gboolean bl_object_output_flush(BlObjectOutput *output, GError **error) {
  return output->text->len < PIECE_SIZE || write_text(output, error);
}

gboolean bl_object_output_commit(BlObjectOutput *output, guint8 sha256[BL_SHA256_SIZE],
                                 GError **error) {
  if (!write_text(output, error) || !bl_store_writer_commit(output->writer, error)) return FALSE;
  guint8 digest[BL_SHA256_SIZE];
  bl_hasher_finish(output->hasher, sha256 != NULL ? sha256 : digest);
  return TRUE;
}

void bl_object_output_free(BlObjectOutput *output) {
  if (output == NULL) return;
  bl_store_writer_free(output->writer);
  bl_hasher_free(output->hasher);
  g_string_free(output->text, TRUE);
  g_free(output);
}

gboolean bl_object_do_without(GError *fault, BlJob *job, GError **error) {
  BlErrorCode code = bl_error_code(fault);
  if (code != BL_ERROR_CORRUPT && code != BL_ERROR_UNSUPPORTED) {
    g_propagate_error(error, fault);
    return FALSE;
  }
  bl_job_note(job, BL_NOTE_WARNING, "%s", fault->message);
  g_error_free(fault);
  return TRUE;
}

static json_t *parse_json(const char *data, gsize size, guint schema, const char *what,
                          GError **error) {
  g_autoptr(json_t) json = bl_json_parse(data, size, what, error);
  if (json == NULL) return NULL;
  guint64 found;
  if (!bl_json_get_uint64(json, "schema_version", &found, error)) {
    g_prefix_error(error, "%s: ", what);
    return NULL;
  }
  if (found > 0 && found <= schema) return g_steal_pointer(&json);
  bl_error_set(error, found > schema ? BL_ERROR_UNSUPPORTED : BL_ERROR_CORRUPT,
               "%s: schema %" G_GUINT64_FORMAT "; this version of ballast reads %u", what, found,
               schema);
  return NULL;
}

json_t *bl_object_load_json(BlStore *store, const char *key, gsize max_bytes, guint schema,
                            const char *what, GError **error) {
  g_autofree char *data = NULL;
  g_autoptr(GError) fault = NULL;
  gsize size;
  if (bl_store_load(store, key, max_bytes, &data, &size, &fault))
    return parse_json(data, size, schema, what, error);
  if (!g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
    g_propagate_prefixed_error(error, g_steal_pointer(&fault), "%s: ", what);
  return NULL;
}
