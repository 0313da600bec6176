#include "base/file.h"

#include "base/digest.h"
#include "base/error.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* The kernel moves at most this many bytes a call (MAX_RW_COUNT, rounded down to whole MiB). */
#define IO_CALL_MAX (2047u * 1024 * 1024)

void bl_fd_clear(int *fd) {
  if (*fd == -1) return;
  int saved = errno;
  close(*fd);
  errno = saved;
  *fd = -1;
}

int bl_fd_steal(int *fd) {
  int stolen = *fd;
  *fd = -1;
  return stolen;
}

/* Sets *error from errno: "cannot <verb> <what> "<name>": …". */
static gboolean fail_named(GError **error, const char *verb, const char *what, const char *name) {
  int errnum = errno;
  g_autofree char *shown = bl_path_display(name);
  return bl_error_set_errno(error, errnum, "cannot %s %s \"%s\"", verb, what, shown);
}

int bl_openat(int dir_fd, const char *name, int flags, mode_t mode) {
  int fd;
  do fd = openat(dir_fd, name, flags | O_CLOEXEC, mode);
  while (fd == -1 && errno == EINTR);
  return fd;
}

int bl_open_at(int dir_fd, const char *name, int flags, mode_t mode, const char *what,
               GError **error) {
  int fd = bl_openat(dir_fd, name, flags, mode);
  if (fd == -1) fail_named(error, "open", what, name);
  return fd;
}

gssize bl_pread_some(int fd, void *data, gsize size, guint64 offset, GError **error) {
  gsize done = 0;
  /* No file reaches the end of off_t, and the kernel calls a read beyond it invalid. */
  if (offset >= G_MAXINT64) return 0;
  size = MIN(size, G_MAXINT64 - offset);
  while (done < size) {
    ssize_t n =
        pread(fd, (char *)data + done, MIN(size - done, IO_CALL_MAX), (off_t)(offset + done));
    if (n == 0) break;
    if (n > 0) {
      done += (gsize)n;
    } else if (errno != EINTR) {
      bl_error_set_errno(error, errno, "cannot read at byte %" G_GUINT64_FORMAT, offset + done);
      return -1;
    }
  }
  return (gssize)done;
}

gssize bl_fd_input_read(gpointer user, void *data, gsize size, GError **error) {
  BlFdInput *input = user;
  gssize n = bl_pread_some(input->fd, data, size, input->offset, error);
  if (n > 0) input->offset += (guint64)n;
  return n;
}

gboolean bl_pread_all(int fd, void *data, gsize size, guint64 offset, GError **error) {
  gssize n = bl_pread_some(fd, data, size, offset, error);
  if (n < 0) return FALSE;
  if ((gsize)n < size)
    return bl_error_set(error, BL_ERROR_IO,
                        "ends at byte %" G_GUINT64_FORMAT ", %" G_GSIZE_FORMAT " bytes early",
                        offset + (gsize)n, size - (gsize)n);
  return TRUE;
}

gboolean bl_pwrite_all(int fd, const void *data, gsize size, guint64 offset, GError **error) {
  gsize done = 0;
  while (done < size) {
    ssize_t n = pwrite(fd, (const char *)data + done, MIN(size - done, IO_CALL_MAX),
                       (off_t)(offset + done));
    if (n >= 0)
      done += (gsize)n;
    else if (errno != EINTR)
      return bl_error_set_errno(error, errno, "cannot write at byte %" G_GUINT64_FORMAT,
                                offset + done);
  }
  return TRUE;
}

gboolean bl_write_all(int fd, const void *data, gsize size, GError **error) {
  gsize done = 0;
  while (done < size) {
    ssize_t n = write(fd, (const char *)data + done, MIN(size - done, IO_CALL_MAX));
    if (n >= 0)
      done += (gsize)n;
    else if (errno != EINTR)
      return bl_error_set_errno(error, errno, "cannot write");
  }
  return TRUE;
}

gboolean bl_fsync(int fd, const char *what, GError **error) {
  int rc;
  /* EINTR came before the kernel tried anything: it is the one failure that may be tried again. */
  do rc = fsync(fd);
  while (rc == -1 && errno == EINTR);
  if (rc == -1) return bl_error_set_errno(error, errno, "cannot make %s durable", what);
  return TRUE;
}

static gboolean fail_too_large(GError **error, const char *name, gsize max_bytes) {
  g_autofree char *shown = bl_path_display(name);
  return bl_error_set(error, BL_ERROR_INVALID, "\"%s\" is larger than %" G_GSIZE_FORMAT " bytes",
                      shown, max_bytes);
}

gboolean bl_file_load(int dir_fd, const char *name, gsize max_bytes, char **data, gsize *size,
                      GError **error) {
  /* O_NONBLOCK: a FIFO of that name must not hang us. */
  bl_autofd fd = bl_open_at(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, "file", error);
  if (fd == -1) return FALSE;
  struct stat st;
  if (fstat(fd, &st) == -1) return fail_named(error, "read", "file", name);
  if (!S_ISREG(st.st_mode)) {
    g_autofree char *shown = bl_path_display(name);
    return bl_error_set(error, BL_ERROR_INVALID, "\"%s\" is not a regular file", shown);
  }
  if ((guint64)st.st_size > max_bytes) return fail_too_large(error, name, max_bytes);

  /* It may grow while it is read, and /proc says 0: one byte more than expected is asked for. */
  gsize room = (gsize)st.st_size + 1;
  gsize used = 0;
  g_autofree char *bytes = g_malloc(room + 1);
  for (;;) {
    gssize n = bl_pread_some(fd, bytes + used, room - used, used, error);
    if (n < 0) {
      g_autofree char *shown = bl_path_display(name);
      g_prefix_error(error, "\"%s\": ", shown);
      return FALSE;
    }
    used += (gsize)n;
    if (used > max_bytes) return fail_too_large(error, name, max_bytes);
    if (used < room) break;
    room += MIN(MAX(room, 4096), max_bytes + 1 - used);
    bytes = g_realloc(bytes, room + 1);
  }
  bytes[used] = '\0';
  *data = g_steal_pointer(&bytes);
  *size = used;
  return TRUE;
}

/* The folder that holds name, opened so that it can be synced. */
static int open_parent(int dir_fd, const char *name, GError **error) {
  const char *slash = strrchr(name, '/');
  g_autofree char *parent = NULL;
  if (slash == NULL)
    parent = g_strdup(".");
  else
    parent = g_strndup(name, (gsize)MAX(slash - name, 1));
  return bl_open_at(dir_fd, parent, O_RDONLY | O_DIRECTORY, 0, "folder", error);
}

static gboolean write_durably(int folder_fd, const char *name, const void *data, gsize size,
                              mode_t mode, GError **error) {
  bl_autofd fd =
      bl_open_at(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode, "file", error);
  if (fd == -1) return FALSE;
  if (bl_pwrite_all(fd, data, size, 0, error) && bl_fsync(fd, "the file", error)) return TRUE;
  unlinkat(folder_fd, name, 0);
  return FALSE;
}

gboolean bl_file_replace(int dir_fd, const char *name, const void *data, gsize size, mode_t mode,
                         GError **error) {
  bl_autofd folder_fd = open_parent(dir_fd, name, error);
  if (folder_fd == -1) return FALSE;
  const char *slash = strrchr(name, '/');
  const char *base = slash != NULL ? slash + 1 : name;
  char token[33];
  bl_token_make(token);
  g_autofree char *temporary = g_strdup_printf(".tmp-%s-0", token);

  g_autofree char *shown = bl_path_display(name);
  if (!write_durably(folder_fd, temporary, data, size, mode, error)) {
    g_prefix_error(error, "\"%s\": ", shown);
    return FALSE;
  }
  if (renameat(folder_fd, temporary, folder_fd, base) == -1) {
    fail_named(error, "replace", "file", name);
    unlinkat(folder_fd, temporary, 0);
    return FALSE;
  }
  if (bl_fsync(folder_fd, "its folder", error)) return TRUE;
  g_prefix_error(error, "\"%s\": ", shown);
  return FALSE;
}

static gboolean is_folder(int dir_fd, const char *path) {
  struct stat st;
  return fstatat(dir_fd, path, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

/* One folder whose parent exists. */
static gboolean make_folder(int dir_fd, const char *path, gboolean durable, GError **error) {
  if (mkdirat(dir_fd, path, 0777) == -1) {
    int errnum = errno;
    struct stat st;
    /* Existing folders give more than EEXIST: EROFS and EACCES as well, on some file systems. */
    if (fstatat(dir_fd, path, &st, 0) == -1)
      errnum = errno == ENOENT ? errnum : errno;
    else if (S_ISDIR(st.st_mode))
      return TRUE;
    g_autofree char *shown = bl_path_display(path);
    if (errnum == EEXIST)
      return bl_error_set(error, BL_ERROR_EXISTS,
                          "cannot make folder \"%s\": something that is no folder is there", shown);
    return bl_error_set_errno(error, errnum, "cannot make folder \"%s\"", shown);
  }
  if (!durable) return TRUE;
  bl_autofd parent_fd = open_parent(dir_fd, path, error);
  if (parent_fd == -1) return FALSE;
  if (bl_fsync(parent_fd, "its parent", error)) return TRUE;
  g_autofree char *shown = bl_path_display(path);
  g_prefix_error(error, "folder \"%s\": ", shown);
  return FALSE;
}

gboolean bl_mkdirs(int dir_fd, const char *path, gboolean durable, GError **error) {
  if (is_folder(dir_fd, path)) return TRUE;
  g_autofree char *prefix = g_strdup(path);
  for (gsize size = strlen(prefix); size > 1 && prefix[size - 1] == '/'; size--)
    prefix[size - 1] = '\0';
  for (char *slash = strchr(prefix + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    if (slash[1] == '/') continue;
    *slash = '\0';
    gboolean made = make_folder(dir_fd, prefix, durable, error);
    *slash = '/';
    if (!made) return FALSE;
  }
  return make_folder(dir_fd, prefix, durable, error);
}

void bl_token_make(char token[33]) {
  guint8 bytes[16];
  /* Up to 256 bytes getrandom neither fails nor gives less, once the kernel has its seed; before,
   * it waits. */
  ssize_t n;
  do n = getrandom(bytes, sizeof bytes, 0);
  while (n == -1 && errno == EINTR);
  if (n != (ssize_t)sizeof bytes) g_error("the system gives no random bytes");
  bl_hex_encode(bytes, sizeof bytes, token);
}
