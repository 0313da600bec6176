#include "model/digests.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "model/digests_parse.h"
#include "model/key.h"
#include "model/object.h"

#define SCHEMA 1u
#define ALGORITHM "crc32c"
#define CRC_DIGITS 8
/* Room for unknown members of later versions. */
#define MAX_DEPTH 32
/* Strings but crc, which may be as long as the largest file asks for. */
#define MAX_STRING 65536

enum { D_ALGORITHM, D_BLOCK_SIZE, D_FILES, D_SCHEMA_VERSION, N_DOCUMENT };
static const char *const document_names[N_DOCUMENT] = {"algorithm", "block_size", "files",
                                                       "schema_version"};
enum { R_CRC, R_SHA256, R_SIZE, N_RECORD };
static const char *const record_names[N_RECORD] = {"crc", "sha256", "size"};

typedef struct {
  const BlManifest *manifest;
  BlDigests *digests;
  BlJsonReader *reader;
  const char *what;
  guint8 *is_read; /* by file: its record was met */
} Parse;

BlDigests *bl_digests_new(const BlManifest *manifest) {
  BlDigests *digests = g_new0(BlDigests, 1);
  digests->n_files = manifest->n_files;
  digests->first = g_new(guint64, manifest->n_files);
  for (guint64 i = 0; i < manifest->n_files; i++) digests->first[i] = G_MAXUINT64;
  digests->crcs = g_array_new(FALSE, FALSE, sizeof(guint32));
  return digests;
}

void bl_digests_free(BlDigests *digests) {
  if (digests == NULL) return;
  g_free(digests->first);
  g_array_free(digests->crcs, TRUE);
  g_free(digests);
}

void bl_digests_set(BlDigests *digests, guint64 file, const guint32 *crcs, guint64 n) {
  g_assert(file < digests->n_files && n <= G_MAXUINT - digests->crcs->len);
  if (n == 0) return;
  digests->first[file] = digests->crcs->len;
  g_array_append_vals(digests->crcs, crcs, (guint)n);
}

const guint32 *bl_digests_get(const BlDigests *digests, guint64 file) {
  g_assert(file < digests->n_files);
  if (digests->first[file] == G_MAXUINT64) return NULL;
  return &g_array_index(digests->crcs, guint32, digests->first[file]);
}

static gboolean fail(const Parse *parse, const char *path, GError **error, const char *fault) {
  g_autofree char *shown = bl_path_display(path);
  return bl_error_set(error, BL_ERROR_CORRUPT, "%s: file \"%s\": %s", parse->what, shown, fault);
}

static gboolean read_crcs(const Parse *parse, const char *path, GError **error) {
  if (!bl_json_reader_expect(parse->reader, BL_JSON_STRING, "crc", error)) return FALSE;
  gsize size;
  const char *text = bl_json_reader_text(parse->reader, &size);
  if (size % CRC_DIGITS != 0) return fail(parse, path, error, "\"crc\" is not 8 digits a block");
  for (gsize i = 0; i < size; i += CRC_DIGITS) {
    guint8 bytes[CRC_DIGITS / 2];
    if (!bl_hex_decode(text + i, CRC_DIGITS, bytes, sizeof bytes))
      return fail(parse, path, error, "\"crc\" is not lower-case hex");
    guint32 crc =
        (guint32)bytes[0] << 24 | (guint32)bytes[1] << 16 | (guint32)bytes[2] << 8 | bytes[3];
    g_array_append_val(parse->digests->crcs, crc);
  }
  return TRUE;
}

static gboolean read_sha256(const Parse *parse, const char *path, guint8 sha256[BL_SHA256_SIZE],
                            GError **error) {
  if (!bl_json_reader_expect(parse->reader, BL_JSON_STRING, "sha256", error)) return FALSE;
  gsize size;
  const char *text = bl_json_reader_text(parse->reader, &size);
  if (bl_hex_decode(text, size, sha256, BL_SHA256_SIZE)) return TRUE;
  return fail(parse, path, error, "\"sha256\" is not 64 digits of lower-case hex");
}

typedef struct {
  guint64 size;
  guint8 sha256[BL_SHA256_SIZE];
} Binding;

static gboolean read_record_member(const Parse *parse, const char *path, int member,
                                   Binding *binding, GError **error) {
  switch (member) {
    case R_CRC:
      return read_crcs(parse, path, error);
    case R_SHA256:
      return read_sha256(parse, path, binding->sha256, error);
    case R_SIZE:
      return bl_json_reader_read_uint64(parse->reader, "size", &binding->size, error);
    default:
      return FALSE; /* the reader's own error */
  }
}

/* One file's record. Its CRCs are appended at once, and taken back where the record turns out to be
 * of other bytes than the manifest's. */
static gboolean read_record(const Parse *parse, const BlManifestFile *file, GError **error) {
  GArray *crcs = parse->digests->crcs;
  guint first = crcs->len, seen = 0;
  Binding binding = {0};
  int member;
  if (!bl_json_reader_expect(parse->reader, BL_JSON_OBJECT_START, "files", error)) return FALSE;
  while ((member = bl_json_reader_next_member(parse->reader, record_names, N_RECORD, &seen, NULL,
                                              error)) != N_RECORD)
    if (!read_record_member(parse, file->path, member, &binding, error)) return FALSE;
  if (seen != (1u << N_RECORD) - 1) return fail(parse, file->path, error, "a member is missing");
  guint n = crcs->len - first;
  if (n != bl_digests_n_blocks(binding.size))
    return fail(parse, file->path, error, "\"crc\" does not fit its \"size\"");
  if (n > 0 && binding.size == file->size && file->has_sha256 &&
      memcmp(binding.sha256, file->sha256, sizeof file->sha256) == 0)
    parse->digests->first[file - parse->manifest->files] = first;
  else
    g_array_set_size(crcs, first);
  return TRUE;
}

/* Records of files that the manifest does not have are passed over. */
static gboolean read_files(const Parse *parse, GError **error) {
  BlJsonToken token;
  if (!bl_json_reader_expect(parse->reader, BL_JSON_OBJECT_START, "files", error)) return FALSE;
  for (;;) {
    if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) return TRUE;
    gsize size;
    const char *path = bl_json_reader_text(parse->reader, &size);
    const BlManifestFile *file =
        strlen(path) == size ? bl_manifest_find(parse->manifest, path) : NULL;
    if (file == NULL) {
      if (!bl_json_reader_next(parse->reader, &token, error) ||
          !bl_json_reader_skip(parse->reader, token, error))
        return FALSE;
      continue;
    }
    gsize i = (gsize)(file - parse->manifest->files);
    if (parse->is_read[i]) return fail(parse, file->path, error, "it is there twice");
    parse->is_read[i] = TRUE;
    if (!read_record(parse, file, error)) return FALSE;
  }
}

typedef struct {
  char *algorithm;
  guint64 block_size, schema;
} Header;

static gboolean read_document_member(const Parse *parse, int member, Header *header,
                                     GError **error) {
  switch (member) {
    case D_ALGORITHM:
      return bl_json_reader_read_string(parse->reader, "algorithm", &header->algorithm, error);
    case D_BLOCK_SIZE:
      return bl_json_reader_read_uint64(parse->reader, "block_size", &header->block_size, error);
    case D_FILES:
      return read_files(parse, error);
    case D_SCHEMA_VERSION:
      return bl_json_reader_read_uint64(parse->reader, "schema_version", &header->schema, error);
    default:
      return FALSE; /* the reader's own error */
  }
}

static gboolean check_header(const Parse *parse, guint seen, const Header *header, GError **error) {
  if (header->schema > SCHEMA)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        "%s: schema %" G_GUINT64_FORMAT "; this version of ballast reads %u",
                        parse->what, header->schema, SCHEMA);
  if (seen != (1u << N_DOCUMENT) - 1)
    return bl_error_set(error, BL_ERROR_CORRUPT, "%s: a member is missing", parse->what);
  if (header->schema == SCHEMA && header->block_size == BL_BLOCK_SIZE &&
      strcmp(header->algorithm, ALGORITHM) == 0)
    return TRUE;
  return bl_error_set(error, BL_ERROR_CORRUPT, "%s: not schema %u, %s, blocks of %u bytes",
                      parse->what, SCHEMA, ALGORITHM, BL_BLOCK_SIZE);
}

static gboolean read_document(const Parse *parse, Header *header, GError **error) {
  guint seen = 0;
  int member;
  if (!bl_json_reader_expect(parse->reader, BL_JSON_OBJECT_START, "digests", error)) return FALSE;
  while ((member = bl_json_reader_next_member(parse->reader, document_names, N_DOCUMENT, &seen,
                                              NULL, error)) != N_DOCUMENT)
    if (!read_document_member(parse, member, header, error)) return FALSE;
  BlJsonToken token;
  return bl_json_reader_next(parse->reader, &token, error) && /* nothing follows */
         check_header(parse, seen, header, error);
}

static gsize longest_crc_text(const BlManifest *manifest) {
  guint64 n = 0;
  for (guint64 i = 0; i < manifest->n_files; i++)
    n = MAX(n, bl_digests_n_blocks(manifest->files[i].size));
  return n * CRC_DIGITS;
}

BlDigests *bl_digests_parse(BlJsonInput input, gpointer user, const BlManifest *manifest,
                            GError **error) {
  g_autoptr(BlDigests) digests = bl_digests_new(manifest);
  g_autofree char *what = g_strdup_printf("digests of checkpoint \"%s\"", manifest->checkpoint_id);
  g_autofree guint8 *is_read = g_new0(guint8, manifest->n_files);
  g_autoptr(BlJsonReader) reader =
      bl_json_reader_new(input, user, MAX_DEPTH, MAX(MAX_STRING, longest_crc_text(manifest)), what);
  Parse parse = {
      .manifest = manifest, .digests = digests, .reader = reader, .what = what, .is_read = is_read};
  Header header = {0};
  gboolean done = read_document(&parse, &header, error);
  g_free(header.algorithm);
  return done ? g_steal_pointer(&digests) : NULL;
}

BlDigests *bl_digests_load(BlStore *store, const BlManifest *manifest, GError **error) {
  BlKeyBuffer key;
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlObjectInput) input =
      bl_object_input_open(store, bl_key_digests(key, manifest->checkpoint_id), &fault);
  if (input != NULL) return bl_digests_parse(bl_object_input_read, input, manifest, error);
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return bl_digests_new(manifest);
  g_propagate_prefixed_error(error, g_steal_pointer(&fault),
                             "digests of checkpoint \"%s\": ", manifest->checkpoint_id);
  return NULL;
}

BlDigests *bl_digests_load_usable(BlStore *store, const BlManifest *manifest, BlJob *job,
                                  GError **error) {
  g_autoptr(GError) fault = NULL;
  BlDigests *digests = bl_digests_load(store, manifest, &fault);
  if (digests != NULL || fault == NULL) return digests;
  if (!bl_object_do_without(g_steal_pointer(&fault), job, error)) return NULL;
  return bl_digests_new(manifest);
}

static void append_record(GString *out, const BlManifestFile *file, const guint32 *crcs) {
  bl_json_append_string(out, file->path);
  g_string_append(out, ":{\"crc\":\"");
  guint64 n = bl_digests_n_blocks(file->size);
  for (guint64 i = 0; i < n; i++) g_string_append_printf(out, "%08x", crcs[i]);
  char sha256[BL_SHA256_HEX_SIZE + 1];
  bl_hex_encode(file->sha256, sizeof file->sha256, sha256);
  g_string_append_printf(out, "\",\"sha256\":\"%s\",\"size\":%" G_GUINT64_FORMAT "}", sha256,
                         file->size);
}

static gboolean write_json(BlObjectOutput *output, const BlManifest *manifest,
                           const BlDigests *digests, GError **error) {
  GString *out = bl_object_output_text(output);
  g_string_append_printf(out, "{\"algorithm\":\"" ALGORITHM "\",\"block_size\":%u,\"files\":{",
                         BL_BLOCK_SIZE);
  const char *comma = "";
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const guint32 *crcs = bl_digests_get(digests, i);
    if (crcs == NULL) continue;
    g_string_append(out, comma);
    comma = ",";
    append_record(out, &manifest->files[i], crcs);
    if (!bl_object_output_flush(output, error)) return FALSE;
  }
  g_string_append_printf(out, "},\"schema_version\":%u}", SCHEMA);
  return TRUE;
}

gboolean bl_digests_save(BlStore *store, const BlManifest *manifest, const BlDigests *digests,
                         GError **error) {
  BlKeyBuffer key;
  g_autoptr(BlObjectOutput) output =
      bl_object_output_open(store, bl_key_digests(key, manifest->checkpoint_id), error);
  if (output != NULL && write_json(output, manifest, digests, error) &&
      bl_object_output_commit(output, NULL, error))
    return TRUE;
  g_prefix_error(error, "checkpoint \"%s\": writing its digests: ", manifest->checkpoint_id);
  return FALSE;
}
