/* Files: descriptors that close themselves, whole reads and writes, durability.
 *
 * Paths here are the system's (bytes). Messages show them through bl_path_display. EINTR is handled
 * inside: no function returns because of it. */
#pragma once
#include <glib.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Closes the descriptor at the end of its scope; -1 is none. */
#define bl_autofd __attribute__((cleanup(bl_fd_clear))) int
/* Closes *fd unless it is -1, and sets it to -1. errno is kept. */
void bl_fd_clear(int *fd);
/* Gives the descriptor away: returns *fd and sets it to -1. */
int bl_fd_steal(int *fd);

/* openat with O_CLOEXEC, for callers that judge errno themselves. -1 on error. */
int bl_openat(int dir_fd, const char *name, int flags, mode_t mode);
/* The same with a message. `what` names the thing in the message ("shard", "folder"). -1 on error.
 */
int bl_open_at(int dir_fd, const char *name, int flags, mode_t mode, const char *what,
               GError **error);

/* Reads exactly size bytes at offset, or fails with IO ("ends at byte n") where the file is
 * shorter. */
gboolean bl_pread_all(int fd, void *data, gsize size, guint64 offset, GError **error);
/* Reads up to size bytes at offset: fewer only at the end of the file. -1 on error. */
gssize bl_pread_some(int fd, void *data, gsize size, guint64 offset, GError **error);
/* A file from an offset on as a stream: a BlFdInput is the user of bl_fd_input_read, which gives
 * the next bytes, up to size, 0 at the end, -1 with error set. */
typedef struct {
  int fd; /* borrowed */
  guint64 offset;
} BlFdInput;
gssize bl_fd_input_read(gpointer user, void *data, gsize size, GError **error);
gboolean bl_pwrite_all(int fd, const void *data, gsize size, guint64 offset, GError **error);
/* Writes to a pipe, terminal or file at its position. */
gboolean bl_write_all(int fd, const void *data, gsize size, GError **error);

/* Nanoseconds since 1970, of a stat's times. */
static inline gint64 bl_time_ns(const struct timespec *time) {
  return time->tv_sec * G_GINT64_CONSTANT(1000000000) + time->tv_nsec;
}

/* fsync; a failure is final for that file (the kernel has marked its pages clean). */
gboolean bl_fsync(int fd, const char *what, GError **error);

/* Whole file up to max_bytes (a larger one is INVALID); the data has a NUL behind it that *size
 * does not count. Caller frees with g_free. */
gboolean bl_file_load(int dir_fd, const char *name, gsize max_bytes, char **data, gsize *size,
                      GError **error);

/* Writes a file beside `name` (a unique ".tmp-…" in the same folder), makes it durable, renames it
 * over `name`, makes the folder durable. The reader sees old or new. */
gboolean bl_file_replace(int dir_fd, const char *name, const void *data, gsize size, mode_t mode,
                         GError **error);

/* mkdir -p below dir_fd, modes 0777 less the umask; each folder made is made durable in its parent
 * where durable is TRUE. An existing folder is success; a path part that is no folder is not. */
gboolean bl_mkdirs(int dir_fd, const char *path, gboolean durable, GError **error);

/* 16 random bytes as 32 hex digits and a NUL. */
void bl_token_make(char token[33]);
