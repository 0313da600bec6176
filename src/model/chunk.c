#include "model/chunk.h"

#include <errno.h>
#include <fcntl.h>

#include "base/error.h"
#include "base/file.h"

gboolean bl_chunk_open(BlChunk *chunk, BlStore *store, const char *key, GError **error) {
  chunk->store = store;
  chunk->fd = -1;
  g_strlcpy(chunk->key, key, sizeof chunk->key);
  if (!bl_store_can(store, BL_STORE_CAN_OPEN_FD))
    return bl_store_size(store, key, &chunk->size, error);

  bl_autofd fd = bl_store_open_fd(store, key, error);
  if (fd < 0) return FALSE;
  struct stat status;
  if (fstat(fd, &status) != 0) return bl_error_set_errno(error, errno, "object %s", key);
  /* Only a hint: read-ahead grows. */
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  chunk->size = (guint64)status.st_size;
  chunk->fd = bl_fd_steal(&fd);
  return TRUE;
}

void bl_chunk_close(BlChunk *chunk) {
  bl_fd_clear(&chunk->fd);
}

gboolean bl_chunk_read(BlChunk *chunk, guint64 offset, void *data, gsize size, GError **error) {
  gsize got = 0;
  if (chunk->fd >= 0) {
    gssize n = bl_pread_some(chunk->fd, data, size, offset, error);
    if (n < 0) {
      g_prefix_error(error, "object %s: ", chunk->key);
      return FALSE;
    }
    got = (gsize)n;
  } else if (!bl_store_get(chunk->store, chunk->key, offset, data, size, &got, error)) {
    return FALSE;
  }
  if (got == size) return TRUE;
  return bl_error_set(error, BL_ERROR_IO, "object %s ends at byte %" G_GUINT64_FORMAT, chunk->key,
                      offset + got);
}
