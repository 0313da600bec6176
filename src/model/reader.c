#include "model/reader.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/chunk.h"

/* Pieces of one read that are asked of the store together. */
#define N_ITEMS 16
/* Block buffers kept for the next read; more readers at once allocate their own. */
#define N_KEPT 4u
/* Bytes read at a time of what is only passed over. */
#define SKIP_SIZE (64u * 1024)

struct BlReader {
  BlStore *store;
  const BlManifest *manifest;
  const BlDigests *digests;
  BlReader *fallback;       /* borrowed; NULL: none */
  guint8 *is_from_fallback; /* per file, atomic: bytes of it came from there */
  GMutex lock;              /* protects kept, n_kept */
  BlStoreBuffer kept[N_KEPT];
  guint n_kept;
};

BlReader *bl_reader_new(BlStore *store, const BlManifest *manifest, const BlDigests *digests) {
  BlReader *reader = g_new0(BlReader, 1);
  reader->store = store;
  reader->manifest = manifest;
  reader->digests = digests;
  g_mutex_init(&reader->lock);
  return reader;
}

void bl_reader_free(BlReader *reader) {
  if (reader == NULL) return;
  for (guint i = 0; i < reader->n_kept; i++) bl_store_buffer_free(reader->store, &reader->kept[i]);
  g_mutex_clear(&reader->lock);
  g_free(reader->is_from_fallback);
  g_free(reader);
}

void bl_reader_set_fallback(BlReader *reader, BlReader *fallback) {
  reader->fallback = fallback;
  reader->is_from_fallback = g_new0(guint8, MAX(reader->manifest->n_files, 1));
}

guint64 bl_reader_n_fallback_files(const BlReader *reader) {
  guint64 n = 0;
  for (guint64 i = 0; reader->fallback != NULL && i < reader->manifest->n_files; i++)
    n += __atomic_load_n(&reader->is_from_fallback[i], __ATOMIC_RELAXED);
  return n;
}

static void note_fallback(const BlReader *reader, const BlManifestFile *file) {
  __atomic_store_n(&reader->is_from_fallback[file - reader->manifest->files], 1, __ATOMIC_RELAXED);
}

/* Finds the same file in the fallback's checkpoint. */
static gboolean find_twin(const BlReader *reader, const BlManifestFile *file, guint64 *index) {
  if (reader->fallback == NULL) return FALSE;
  const BlManifest *manifest = reader->fallback->manifest;
  const BlManifestFile *twin = bl_manifest_find(manifest, file->path);
  if (twin == NULL || twin->size != file->size ||
      memcmp(twin->sha256, file->sha256, BL_SHA256_SIZE) != 0)
    return FALSE;
  *index = (guint64)(twin - manifest->files);
  return TRUE;
}

/* Whether another store may do what this one failed to do. */
static gboolean may_fall_back(const GError *cause) {
  BlErrorCode code = bl_error_code(cause);
  return code != BL_ERROR_CANCELLED && code != BL_ERROR_INVALID && code != BL_ERROR_INTERNAL;
}

/* "checkpoint "x": "path": " before the message. */
static void prefix_file(const BlReader *reader, const BlManifestFile *file, GError **error) {
  g_autofree char *path = bl_path_display(file->path);
  g_prefix_error(error, "checkpoint \"%s\": \"%s\": ", reader->manifest->checkpoint_id, path);
}

static gboolean fail_file(const BlReader *reader, const BlManifestFile *file, GError **error,
                          BlErrorCode code, const char *format, ...) G_GNUC_PRINTF(5, 6);
static gboolean fail_file(const BlReader *reader, const BlManifestFile *file, GError **error,
                          BlErrorCode code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  if (code == BL_ERROR_CORRUPT)
    bl_error_set(error, code, "%s (\"ballast model repair %s\" puts it back)", text,
                 reader->manifest->checkpoint_id);
  else
    bl_error_set(error, code, "%s", text);
  prefix_file(reader, file, error);
  return FALSE;
}

/* Hands on a store's failure at a chunk: an object that is not there is lost data. */
static gboolean fail_chunk(const BlReader *reader, const BlManifestFile *file, guint32 chunk,
                           GError *cause, GError **error) {
  if (bl_error_code(cause) == BL_ERROR_NOT_FOUND) {
    g_error_free(cause);
    return fail_file(reader, file, error, BL_ERROR_CORRUPT, "chunk %u is missing from the store",
                     chunk);
  }
  g_propagate_error(error, cause);
  g_prefix_error(error, "chunk %u: ", chunk);
  prefix_file(reader, file, error);
  return FALSE;
}

static gboolean fail_short(const BlReader *reader, const BlManifestFile *file, guint32 chunk,
                           guint64 found, guint64 wanted, GError **error) {
  return fail_file(reader, file, error, BL_ERROR_CORRUPT,
                   "chunk %u has %" G_GUINT64_FORMAT " bytes of %" G_GUINT64_FORMAT "", chunk,
                   found, wanted);
}

static gboolean is_layout_known(const BlManifestFile *file) {
  return file->n_chunks <= 1 || file->chunk_size > 0;
}

/* Fills at most N_ITEMS items with the pieces of [offset, offset + size) and returns the bytes they
 * stand for. first: the chunk of items[0]. */
static gsize plan_items(const BlReader *reader, const BlManifestFile *file, guint64 offset,
                        guint8 *data, gsize size, BlGetItem *items, BlKeyBuffer *keys, gsize *n,
                        guint32 *first) {
  guint64 chunk_size = file->n_chunks <= 1 ? file->size : file->chunk_size;
  gsize planned = 0;
  *first = (guint32)(offset / chunk_size);
  for (*n = 0; *n < N_ITEMS && planned < size; (*n)++) {
    guint64 at = offset + planned;
    guint32 chunk = (guint32)(at / chunk_size);
    guint64 in_chunk = at % chunk_size;
    gsize piece = (gsize)MIN(size - planned, chunk_size - in_chunk);
    items[*n] = (BlGetItem){
        .key = bl_manifest_chunk_key(reader->manifest, file, chunk, keys[*n]),
        .offset = in_chunk,
        .data = data + planned,
        .size = piece,
    };
    planned += piece;
  }
  return planned;
}

/* Reads a range, unchecked, from this reader's store. */
static gboolean fetch_here(const BlReader *reader, const BlManifestFile *file, guint64 offset,
                           guint8 *data, gsize size, GError **error) {
  BlGetItem items[N_ITEMS];
  BlKeyBuffer keys[N_ITEMS];
  while (size > 0) {
    gsize n;
    guint32 first;
    gsize planned = plan_items(reader, file, offset, data, size, items, keys, &n, &first);
    bl_store_get_many(reader->store, items, n);
    gboolean ok = TRUE;
    for (gsize i = 0; i < n; i++) {
      guint32 chunk = first + (guint32)i;
      if (!ok)
        g_clear_error(&items[i].error);
      else if (items[i].error != NULL)
        ok = fail_chunk(reader, file, chunk, items[i].error, error);
      else if (items[i].got < items[i].size)
        ok = fail_short(reader, file, chunk, items[i].offset + items[i].got,
                        bl_manifest_chunk_size(file, chunk), error);
    }
    if (!ok) return FALSE;
    offset += planned;
    data += planned;
    size -= planned;
  }
  return TRUE;
}

/* Reads from the fallback what failed here with cause, which is taken. crc: of these bytes; NULL:
 * not known. */
static gboolean fetch_twin(const BlReader *reader, const BlManifestFile *file, guint64 offset,
                           guint8 *data, gsize size, const guint32 *crc, GError *cause,
                           GError **error) {
  guint64 twin;
  g_autoptr(GError) fault = NULL;
  if (may_fall_back(cause) && find_twin(reader, file, &twin) &&
      bl_reader_read(reader->fallback, twin, offset, data, size, &fault) &&
      (crc == NULL || bl_crc32c(data, size) == *crc)) {
    g_error_free(cause);
    note_fallback(reader, file);
    return TRUE;
  }
  if (fault != NULL)
    bl_error_set(error, bl_error_code(cause), "%s; from the fallback: %s", cause->message,
                 fault->message);
  else
    g_propagate_error(error, g_steal_pointer(&cause));
  g_clear_error(&cause);
  return FALSE;
}

static gboolean fetch(const BlReader *reader, const BlManifestFile *file, guint64 offset,
                      guint8 *data, gsize size, GError **error) {
  GError *cause = NULL;
  return fetch_here(reader, file, offset, data, size, &cause) ||
         fetch_twin(reader, file, offset, data, size, NULL, cause, error);
}

static gboolean take_block_buffer(BlReader *reader, BlStoreBuffer *buffer, GError **error) {
  g_mutex_lock(&reader->lock);
  gboolean found = reader->n_kept > 0;
  if (found) *buffer = reader->kept[--reader->n_kept];
  g_mutex_unlock(&reader->lock);
  return found || bl_store_buffer_new(reader->store, BL_BLOCK_SIZE, buffer, error);
}

static void return_block_buffer(BlReader *reader, BlStoreBuffer *buffer) {
  g_mutex_lock(&reader->lock);
  gboolean keep = reader->n_kept < N_KEPT;
  if (keep) reader->kept[reader->n_kept++] = *buffer;
  g_mutex_unlock(&reader->lock);
  if (!keep) bl_store_buffer_free(reader->store, buffer);
}

/* Reads one whole block and checks it. */
static gboolean fetch_block(const BlReader *reader, const BlManifestFile *file, const guint32 *crcs,
                            guint64 block, guint8 *data, GError **error) {
  guint64 offset = block * BL_BLOCK_SIZE;
  gsize size = (gsize)MIN(BL_BLOCK_SIZE, file->size - offset);
  GError *cause = NULL;
  if (fetch_here(reader, file, offset, data, size, &cause)) {
    if (bl_crc32c(data, size) == crcs[block]) return TRUE;
    fail_file(reader, file, &cause, BL_ERROR_CORRUPT,
              "block %" G_GUINT64_FORMAT " (bytes %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT
              ") is damaged",
              block, offset, offset + size - 1);
  }
  return fetch_twin(reader, file, offset, data, size, &crcs[block], cause, error);
}

static gboolean read_blocks(BlReader *reader, const BlManifestFile *file, const guint32 *crcs,
                            guint64 offset, guint8 *data, gsize size, GError **error) {
  BlStoreBuffer buffer = {NULL};
  gboolean ok = TRUE;
  while (ok && size > 0) {
    guint64 block = offset / BL_BLOCK_SIZE;
    gsize skip = (gsize)(offset % BL_BLOCK_SIZE);
    gsize block_size = (gsize)MIN(BL_BLOCK_SIZE, file->size - block * BL_BLOCK_SIZE);
    gsize piece = MIN(size, block_size - skip);
    if (piece == block_size) {
      ok = fetch_block(reader, file, crcs, block, data, error);
    } else {
      ok = (buffer.data != NULL || take_block_buffer(reader, &buffer, error)) &&
           fetch_block(reader, file, crcs, block, buffer.data, error);
      if (ok) memcpy(data, buffer.data + skip, piece);
    }
    offset += piece;
    data += piece;
    size -= piece;
  }
  if (buffer.data != NULL) return_block_buffer(reader, &buffer);
  return ok;
}

/* What every read by offset refuses. */
static gboolean check_range(const BlReader *reader, const BlManifestFile *file, guint64 offset,
                            gsize size, GError **error) {
  if (offset > file->size || size > file->size - offset)
    return fail_file(reader, file, error, BL_ERROR_INVALID,
                     "no %" G_GSIZE_FORMAT " bytes at byte %" G_GUINT64_FORMAT
                     ": it has %" G_GUINT64_FORMAT,
                     size, offset, file->size);
  if (!is_layout_known(file))
    return fail_file(
        reader, file, error, BL_ERROR_UNSUPPORTED,
        "its manifest does not say how long its %u chunks are: it can only be read whole, "
        "in order (import the checkpoint again)",
        file->n_chunks);
  return TRUE;
}

gboolean bl_reader_read(BlReader *reader, guint64 file, guint64 offset, void *data, gsize size,
                        GError **error) {
  const BlManifestFile *record = &reader->manifest->files[file];
  const guint32 *crcs = reader->digests != NULL ? bl_digests_get(reader->digests, file) : NULL;
  if (!check_range(reader, record, offset, size, error)) return FALSE;
  if (crcs == NULL || !bl_store_can(reader->store, BL_STORE_IS_REMOTE))
    return fetch(reader, record, offset, data, size, error);
  return read_blocks(reader, record, crcs, offset, data, size, error);
}

gboolean bl_reader_read_checked(BlReader *reader, guint64 file, guint64 offset, void *data,
                                gsize size, GError **error) {
  const BlManifestFile *record = &reader->manifest->files[file];
  const guint32 *crcs = reader->digests != NULL ? bl_digests_get(reader->digests, file) : NULL;
  if (!check_range(reader, record, offset, size, error)) return FALSE;
  if (size == 0) return TRUE;
  if (crcs == NULL)
    return fail_file(reader, record, error, BL_ERROR_UNSUPPORTED, "it has no block digests");
  return read_blocks(reader, record, crcs, offset, data, size, error);
}

struct BlReaderStream {
  const BlReader *reader;
  const BlManifestFile *file;
  BlReaderStream *twin; /* the fallback's, once bytes come from there */
  BlChunk object;       /* of chunk next_chunk - 1, while is_open */
  gboolean is_open;
  guint32 next_chunk;
  guint64 in_chunk; /* bytes given of the open chunk */
  guint64 given;    /* bytes given of the file */
};

BlReaderStream *bl_reader_stream_new(BlReader *reader, guint64 file) {
  BlReaderStream *stream = g_new0(BlReaderStream, 1);
  stream->reader = reader;
  stream->file = &reader->manifest->files[file];
  return stream;
}

void bl_reader_stream_free(BlReaderStream *stream) {
  if (stream == NULL) return;
  if (stream->is_open) bl_chunk_close(&stream->object);
  bl_reader_stream_free(stream->twin);
  g_free(stream);
}

static gboolean open_chunk(BlReaderStream *stream, GError **error) {
  const BlManifestFile *file = stream->file;
  guint32 chunk = stream->next_chunk;
  BlKeyBuffer key;
  GError *cause = NULL;
  if (!bl_chunk_open(&stream->object, stream->reader->store,
                     bl_manifest_chunk_key(stream->reader->manifest, file, chunk, key), &cause))
    return fail_chunk(stream->reader, file, chunk, cause, error);
  stream->is_open = TRUE;
  stream->next_chunk++;
  stream->in_chunk = 0;
  /* Where the layout is not known, the objects' own lengths are it; their sum is checked. */
  guint64 wanted =
      is_layout_known(file) ? bl_manifest_chunk_size(file, chunk) : stream->object.size;
  if (stream->object.size != wanted)
    return fail_short(stream->reader, file, chunk, stream->object.size, wanted, error);
  if (wanted > file->size - stream->given)
    return fail_file(stream->reader, file, error, BL_ERROR_CORRUPT,
                     "its chunks hold more than its %" G_GUINT64_FORMAT " bytes", file->size);
  return TRUE;
}

static gboolean read_chunk(BlReaderStream *stream, guint8 *data, gsize size, GError **error) {
  GError *cause = NULL;
  if (!bl_chunk_read(&stream->object, stream->in_chunk, data, size, &cause))
    return fail_chunk(stream->reader, stream->file, stream->next_chunk - 1, cause, error);
  stream->in_chunk += size;
  stream->given += size;
  return TRUE;
}

static gssize read_here(BlReaderStream *stream, void *data, gsize size, GError **error) {
  gsize done = 0;
  while (done < size) {
    if (!stream->is_open) {
      if (stream->next_chunk == stream->file->n_chunks) break;
      if (!open_chunk(stream, error)) return -1;
    }
    gsize piece = (gsize)MIN(size - done, stream->object.size - stream->in_chunk);
    if (piece > 0 && !read_chunk(stream, (guint8 *)data + done, piece, error)) return -1;
    done += piece;
    if (stream->in_chunk == stream->object.size) {
      bl_chunk_close(&stream->object);
      stream->is_open = FALSE;
    }
  }
  if (done < size && stream->given != stream->file->size) {
    fail_file(stream->reader, stream->file, error, BL_ERROR_CORRUPT,
              "its chunks hold %" G_GUINT64_FORMAT " bytes of %" G_GUINT64_FORMAT, stream->given,
              stream->file->size);
    return -1;
  }
  return (gssize)done;
}

/* Lets a new stream begin at offset. */
static gboolean seek(BlReaderStream *stream, guint64 offset, GError **error) {
  const BlManifestFile *file = stream->file;
  if (offset == 0) return TRUE;
  if (is_layout_known(file)) {
    guint64 chunk_size = file->n_chunks <= 1 ? file->size : file->chunk_size;
    stream->next_chunk = offset == file->size ? file->n_chunks : (guint32)(offset / chunk_size);
    stream->given = offset - offset % chunk_size;
    if (offset < file->size && !open_chunk(stream, error)) return FALSE;
    stream->in_chunk = offset - stream->given;
    stream->given = offset;
    return TRUE;
  }
  g_autofree guint8 *skipped = g_malloc(SKIP_SIZE);
  while (stream->given < offset)
    if (read_here(stream, skipped, (gsize)MIN(offset - stream->given, SKIP_SIZE), error) <= 0)
      return FALSE;
  return TRUE;
}

BlReaderStream *bl_reader_stream_new_at(BlReader *reader, guint64 file, guint64 offset,
                                        GError **error) {
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(reader, file);
  return seek(stream, offset, error) ? g_steal_pointer(&stream) : NULL;
}

static gboolean fall_back(BlReaderStream *stream, guint64 offset, GError **error) {
  guint64 index;
  if (stream->twin != NULL || !find_twin(stream->reader, stream->file, &index)) return FALSE;
  stream->twin = bl_reader_stream_new_at(stream->reader->fallback, index, offset, error);
  if (stream->twin == NULL) return FALSE;
  note_fallback(stream->reader, stream->file);
  return TRUE;
}

gboolean bl_reader_stream_fall_back(BlReaderStream *stream, guint64 offset) {
  return fall_back(stream, offset, NULL);
}

gssize bl_reader_stream_read(BlReaderStream *stream, void *data, gsize size, GError **error) {
  if (stream->twin != NULL) return read_here(stream->twin, data, size, error);
  guint64 start = stream->given;
  g_autoptr(GError) cause = NULL;
  g_autoptr(GError) fault = NULL;
  gssize n = read_here(stream, data, size, &cause);
  if (n >= 0) return n;
  if (may_fall_back(cause) && fall_back(stream, start, &fault))
    return read_here(stream->twin, data, size, error);
  if (fault != NULL)
    bl_error_set(error, bl_error_code(cause), "%s; from the fallback: %s", cause->message,
                 fault->message);
  else
    g_propagate_error(error, g_steal_pointer(&cause));
  return -1;
}
