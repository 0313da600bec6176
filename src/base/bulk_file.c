#include "base/bulk_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

/* Below this, opening the direct way costs more than it saves. */
#define DIRECT_SIZE (16u * 1024 * 1024)
/* At least any disk's block. */
#define DIRECT_ALIGNMENT 4096u
/* Bytes after which write-back is started. */
#define FLUSH_SIZE (8u * 1024 * 1024)

void bl_bulk_file_init(BlBulkFile *file, int fd, guint64 size_bytes) {
  *file = (BlBulkFile){.fd = fd};
  if (size_bytes <= DIRECT_SIZE || size_bytes > G_MAXINT64) return;
  /* Both are only help: a file system that can do neither is written as any other. */
  if (fallocate(fd, 0, 0, (off64_t)size_bytes) == 0) file->reserved = size_bytes;
  file->is_direct = fcntl(fd, F_SETFL, O_DIRECT) == 0;
}

static void leave_direct(BlBulkFile *file) {
  file->is_direct = FALSE;
  file->flushed = file->offset;
  (void)fcntl(file->fd, F_SETFL, 0);
}

/* *is_written tells whether the bytes went the direct way. What cannot (the file's end, a file
 * system that refuses) goes through the page cache, and so does the rest. A failed write is not
 * tried again. */
static gboolean write_direct(BlBulkFile *file, const void *data, gsize size, gboolean *is_written,
                             GError **error) {
  *is_written = FALSE;
  if (!file->is_direct) return TRUE;
  gboolean is_aligned = ((guintptr)data | file->offset | size) % DIRECT_ALIGNMENT == 0;
  gssize n = 0;
  if (is_aligned) do
      n = pwrite(file->fd, data, size, (off64_t)file->offset);
    while (n < 0 && errno == EINTR);
  *is_written = is_aligned && n == (gssize)size;
  if (*is_written) return TRUE;
  if (n < 0 && errno != EINVAL && errno != EOPNOTSUPP)
    return bl_error_set_errno(error, errno, "cannot write at byte %" G_GUINT64_FORMAT,
                              file->offset);
  leave_direct(file);
  return TRUE;
}

gboolean bl_bulk_file_write(BlBulkFile *file, const void *data, gsize size, GError **error) {
  gboolean is_direct;
  if (!write_direct(file, data, size, &is_direct, error)) return FALSE;
  if (!is_direct && !bl_pwrite_all(file->fd, data, size, file->offset, error)) return FALSE;
  file->offset += size;
  if (is_direct || file->offset - file->flushed < FLUSH_SIZE) return TRUE;
  /* A hint: what it fails to start, the sync writes and reports. */
  (void)sync_file_range(file->fd, (off64_t)file->flushed, (off64_t)(file->offset - file->flushed),
                        SYNC_FILE_RANGE_WRITE);
  file->flushed = file->offset;
  return TRUE;
}

gboolean bl_bulk_file_finish(BlBulkFile *file, GError **error) {
  if (file->is_direct) leave_direct(file);
  if (file->reserved <= file->offset || ftruncate(file->fd, (off64_t)file->offset) == 0)
    return TRUE;
  return bl_error_set_errno(error, errno, "cannot cut the file to its length");
}
