/* The local store's reading side: it writes nothing, takes no lock that matters to others, and
 * works on a read-only file system. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "store/dir_impl.h"

int bl_dir_open_fd(BlStore *base, const char *key, GError **error) {
  BlDirStore *store = bl_dir(base);
  BlDirName name;
  if (!bl_dir_name_from_key(key, &name, error)) return -1;
  char path[sizeof name.folder + sizeof name.name];
  g_snprintf(path, sizeof path, "%s%s%s", name.folder, name.folder[0] != '\0' ? "/" : "",
             name.name);
  int fd = -1;
  errno = ENOENT;
  if (store->root_fd >= 0) {
    do {
      fd = bl_openat(store->root_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    } while (fd < 0 && errno == EINTR);
  }
  struct stat st;
  gboolean is_strange = fd < 0 ? errno == ELOOP : fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
  if (is_strange) {
    bl_fd_clear(&fd);
    bl_error_set(error, BL_ERROR_CORRUPT, "store %s: \"%s\" is not a regular file", base->url, key);
    return -1;
  }
  if (fd < 0) bl_dir_set_error(error, errno == ENOTDIR ? ENOENT : errno, store, "read", key);
  return fd;
}

gboolean bl_dir_stat(BlStore *base, const char *key, BlObjectStat *object, GError **error) {
  bl_autofd fd = bl_dir_open_fd(base, key, error);
  struct stat st;
  if (fd < 0) return FALSE;
  if (fstat(fd, &st) != 0) return bl_dir_set_error(error, errno, bl_dir(base), "read", key);
  *object = bl_object_stat_from(&st);
  return TRUE;
}

gboolean bl_dir_get(BlStore *base, const char *key, guint64 offset, void *data, gsize size,
                    gsize *got, GError **error) {
  bl_autofd fd = bl_dir_open_fd(base, key, error);
  if (fd < 0) return FALSE;
  gssize n = bl_pread_some(fd, data, size, offset, error);
  if (n < 0) {
    g_prefix_error(error, "store %s: cannot read \"%s\": ", base->url, key);
    return FALSE;
  }
  *got = (gsize)n;
  return TRUE;
}

gboolean bl_dir_locks_work(BlDirStore *store) {
  if (g_atomic_int_get(&store->locks_work) < 0)
    g_atomic_int_set(&store->locks_work, bl_lock_self_test(store->root_fd, BL_DIR_FILE));
  return g_atomic_int_get(&store->locks_work);
}

gboolean bl_dir_is_held(BlStore *base, const char *key, BlHoldState *state, GError **error) {
  bl_autofd fd = bl_dir_open_fd(base, key, error);
  if (fd < 0) return FALSE;
  *state = bl_dir_locks_work(bl_dir(base)) ? bl_lock_test(fd) : BL_HOLD_UNKNOWN;
  return TRUE;
}
