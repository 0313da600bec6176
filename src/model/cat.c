/* Cat: checked bytes of one file. What the block digests cannot vouch for is hashed whole before
 * its first byte is written, and hashed again while it is. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/path.h"
#include "model/pull.h"
#include "model/reader.h"
#include "model/usage.h"

typedef struct {
  const BlManifest *manifest;
  const BlDigests *digests;
  BlReader *reader;
  guint64 file;
  const BlManifestFile *record;
  guint64 first, end; /* the bytes to write, end excluded */
  int fd;
  BlJob *job;
  guint8 *data;         /* room for a block */
  gboolean is_closed;   /* the reader of fd has gone: nobody wants the rest */
  gboolean skips_store; /* the file there was hashed and is another: only the fallback is read */
} Cat;

static gboolean write_out(Cat *cat, const guint8 *data, gsize size, GError **error) {
  while (size > 0) {
    gssize n = write(cat->fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) {
      cat->is_closed = TRUE;
      return TRUE;
    }
    if (n < 0) return bl_error_set_errno(error, errno, "writing the output");
    data += n;
    size -= (gsize)n;
  }
  return TRUE;
}

static gboolean fail_damaged(const Cat *cat, const char *what, GError **error) {
  g_autofree char *shown = bl_path_display(cat->record->path);
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "checkpoint \"%s\": \"%s\": %s damaged in the store (\"ballast model repair "
                      "%s\" mends it)",
                      cat->manifest->checkpoint_id, shown, what, cat->manifest->checkpoint_id);
}

/* The part of [offset, offset + size) that is asked for. */
static gboolean write_part(Cat *cat, guint64 offset, gsize size, GError **error) {
  guint64 start = MAX(offset, cat->first), end = MIN(offset + size, cat->end);
  if (start >= end) return TRUE;
  return write_out(cat, cat->data + (start - offset), (gsize)(end - start), error);
}

/* Reads the whole file in order and checks each block that has a digest before it is written, if it
 * is to be, and the whole at the end. */
static gboolean stream_whole(Cat *cat, gboolean is_written, GError **error) {
  const guint32 *crcs = bl_digests_get(cat->digests, cat->file);
  g_autoptr(BlHasher) hasher = bl_hasher_new();
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(cat->reader, cat->file);
  guint8 sha256[BL_SHA256_SIZE];
  gssize got;
  if (cat->skips_store && !bl_reader_stream_fall_back(stream, 0))
    return fail_damaged(cat, "it is", error);
  for (guint64 block = 0; !cat->is_closed; block++) {
    if (!bl_job_check(cat->job, error)) return FALSE;
    got = bl_reader_stream_read(stream, cat->data, BL_BLOCK_SIZE, error);
    if (got < 0) return FALSE;
    if (got == 0) break;
    gboolean is_right = crcs == NULL || bl_crc32c(cat->data, (gsize)got) == crcs[block];
    if (!is_right && bl_reader_stream_fall_back(stream, block * BL_BLOCK_SIZE)) {
      got = bl_reader_stream_read(stream, cat->data, BL_BLOCK_SIZE, error);
      if (got < 0) return FALSE;
      is_right = bl_crc32c(cat->data, (gsize)got) == crcs[block];
    }
    if (!is_right) {
      g_autofree char *what = g_strdup_printf("block %" G_GUINT64_FORMAT " is", block);
      return fail_damaged(cat, what, error);
    }
    bl_hasher_update(hasher, cat->data, (gsize)got);
    if (is_written && !write_part(cat, block * BL_BLOCK_SIZE, (gsize)got, error)) return FALSE;
    bl_job_add_bytes(cat->job, (guint64)got);
  }
  if (cat->is_closed) return TRUE;
  bl_hasher_finish(hasher, sha256);
  return memcmp(sha256, cat->record->sha256, sizeof sha256) == 0 ||
         fail_damaged(cat, "it is", error);
}

/* Before the first byte is written: finds the store that has the file. */
static gboolean hash_whole(Cat *cat, GError **error) {
  GError *cause = NULL;
  if (stream_whole(cat, FALSE, &cause)) return TRUE;
  cat->skips_store = bl_error_code(cause) == BL_ERROR_CORRUPT;
  if (cat->skips_store && stream_whole(cat, FALSE, NULL)) {
    g_error_free(cause);
    return TRUE;
  }
  g_propagate_error(error, cause);
  return FALSE;
}

/* Reads only the blocks that the range touches. */
static gboolean read_range(Cat *cat, GError **error) {
  guint64 offset = cat->first;
  while (offset < cat->end && !cat->is_closed) {
    gsize size = (gsize)MIN(cat->end - offset, BL_BLOCK_SIZE - offset % BL_BLOCK_SIZE);
    if (!bl_job_check(cat->job, error) ||
        !bl_reader_read_checked(cat->reader, cat->file, offset, cat->data, size, error) ||
        !write_out(cat, cat->data, size, error))
      return FALSE;
    bl_job_add_bytes(cat->job, size);
    offset += size;
  }
  return TRUE;
}

static gboolean run(Cat *cat, GError **error) {
  const BlManifestFile *record = cat->record;
  gboolean has_digests = record->size == 0 || bl_digests_get(cat->digests, cat->file) != NULL;
  gboolean is_whole = cat->first == 0 && cat->end == record->size;
  gboolean is_layout_known = record->n_chunks <= 1 || record->chunk_size > 0;
  gboolean is_range_read = has_digests && !is_whole && is_layout_known;
  guint64 passes = has_digests ? 1 : 2;
  bl_job_set_total(cat->job, is_range_read ? cat->end - cat->first : passes * record->size, 1);
  bl_job_set_phase(cat->job, "reading");
  if (is_range_read) return read_range(cat, error);
  return (has_digests || hash_whole(cat, error)) && stream_whole(cat, TRUE, error);
}

/* Finds file and range. */
static gboolean prepare(Cat *cat, const char *path, guint64 first, guint64 last, GError **error) {
  const char *id = cat->manifest->checkpoint_id;
  g_autofree char *shown = bl_path_display(path);
  const BlManifestFile *record = bl_manifest_find(cat->manifest, path);
  if (record == NULL) {
    bl_error_set(error, BL_ERROR_NOT_FOUND,
                 "checkpoint \"%s\": no file \"%s\" in it (see \"ballast model inspect --files "
                 "%s\")",
                 id, shown, id);
    return FALSE;
  }
  gboolean is_all = first == 0 && last == G_MAXUINT64;
  if (!is_all && (first > last || first >= record->size)) {
    bl_error_set(error, BL_ERROR_INVALID,
                 "checkpoint \"%s\": \"%s\": no range from byte %" G_GUINT64_FORMAT
                 ": it has %" G_GUINT64_FORMAT " bytes",
                 id, shown, first, record->size);
    return FALSE;
  }
  cat->record = record;
  cat->file = (guint64)(record - cat->manifest->files);
  cat->first = first;
  cat->end = last >= record->size ? record->size : last + 1;
  return TRUE;
}

gboolean bl_cat(BlStore *store, const char *checkpoint_id, const char *path, guint64 first,
                guint64 last, int fd, const BlFallback *fallback, BlJob *job, GError **error) {
  g_autoptr(BlStoreHold) hold = NULL;
  g_autoptr(BlManifest) manifest = bl_usage_open(store, checkpoint_id, &hold, error);
  if (manifest == NULL) return FALSE;
  g_autoptr(BlDigests) digests = bl_digests_load_usable(store, manifest, job, error);
  if (digests == NULL) return FALSE;
  g_autoptr(BlReader) reader = bl_reader_new(store, manifest, digests);
  bl_fallback_serve(fallback, reader);
  g_autofree guint8 *data = g_malloc(BL_BLOCK_SIZE);
  Cat cat = {.manifest = manifest,
             .digests = digests,
             .reader = reader,
             .fd = fd,
             .job = job,
             .data = data};
  if (!prepare(&cat, path, first, last, error) || !run(&cat, error)) return FALSE;
  bl_job_add_files(job, 1);
  return TRUE;
}
