/* The local store's reading side: it writes nothing, takes no lock that matters to others, and
 * works on a read-only file system. */
#include <dirent.h>
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

static gint64 to_ns(const struct timespec *time) {
  return time->tv_sec * G_GINT64_CONSTANT(1000000000) + time->tv_nsec;
}

/* What is no file is in an object's place, and goes with the rest of its checkpoint. */
static BlObjectStat to_object(const struct stat *st) {
  gboolean is_file = S_ISREG(st->st_mode);
  return (BlObjectStat){
      .size = is_file ? (guint64)st->st_size : 0,
      .device = st->st_dev,
      .inode = st->st_ino,
      .n_links = is_file ? (guint)st->st_nlink : 1,
      .mtime_ns = to_ns(&st->st_mtim),
      .ctime_ns = to_ns(&st->st_ctim),
  };
}

gboolean bl_dir_stat(BlStore *base, const char *key, BlObjectStat *object, GError **error) {
  bl_autofd fd = bl_dir_open_fd(base, key, error);
  struct stat st;
  if (fd < 0) return FALSE;
  if (fstat(fd, &st) != 0) return bl_dir_set_error(error, errno, bl_dir(base), "read", key);
  *object = to_object(&st);
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

/* An open folder to read, or NULL: *is_absent where it is not there. */
static DIR *open_folder(BlDirStore *store, const char *folder, gboolean *is_absent,
                        GError **error) {
  int fd = store->root_fd < 0 ? -1
                              : bl_openat(store->root_fd, folder[0] == '\0' ? "." : folder,
                                          O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  *is_absent = dir == NULL && (store->root_fd < 0 || errno == ENOENT || errno == ENOTDIR);
  if (dir == NULL && !*is_absent)
    bl_error_set_errno(error, errno, "store %s: cannot list folder %s", store->base.url, folder);
  if (dir == NULL && fd >= 0) close(fd);
  return dir;
}

static void close_folder(DIR **dir) {
  if (*dir != NULL) closedir(*dir);
}
#define autodir __attribute__((cleanup(close_folder))) DIR

/* The next entry, NULL at the end. FALSE where the folder cannot be read: what is not seen would be
 * taken for gone. */
static gboolean next_entry(const BlDirStore *store, DIR *dir, const char *folder,
                           struct dirent **entry, GError **error) {
  errno = 0;
  *entry = readdir(dir);
  if (*entry != NULL || errno == 0) return TRUE;
  return bl_error_set_errno(error, errno, "store %s: cannot list folder %s", store->base.url,
                            folder);
}

static gboolean is_folder(DIR *dir, const struct dirent *entry) {
  if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
  struct stat st;
  return fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Splits a prefix at its last "/" within the folders: the folder to read, as it is stored. NULL
 * where the prefix is below the folders. A stand-in last part finds them by the same rule that keys
 * follow. */
static char *folder_of_prefix(const char *prefix, GError **error) {
  g_autofree char *key = g_strconcat(prefix, "x", NULL);
  BlDirName name;
  return bl_dir_name_from_key(key, &name, error) ? g_strdup(name.folder) : NULL;
}

typedef struct {
  BlDirStore *store;
  const char *prefix;
  BlKeyFunc func;
  gpointer user;
} Listing;

static gboolean list_object(const Listing *listing, DIR *dir, const char *folder, const char *file,
                            GError **error) {
  g_autofree char *key = bl_dir_name_to_key(folder, file);
  struct stat st;
  if (key == NULL || !g_str_has_prefix(key, listing->prefix) || !bl_key_check(key, NULL))
    return TRUE;
  if (folder[0] == '\0' && strcmp(file, BL_DIR_FILE) == 0) return TRUE;
  /* A name that no key gives is no object's: nothing under a key could reach it. */
  BlDirName name;
  if (!bl_dir_name_from_key(key, &name, NULL) || strcmp(name.name, file) != 0) return TRUE;
  if (fstatat(dirfd(dir), file, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT || bl_dir_set_error(error, errno, listing->store, "look at", key);
  BlObjectStat object = to_object(&st);
  return listing->func(key, &object, listing->user, error);
}

/* Folders lie at most three deep, so the recursion does. */
static gboolean list_folder(const Listing *listing, const char *folder, guint depth,
                            GError **error) {
  gboolean is_absent;
  autodir *dir = open_folder(listing->store, folder, &is_absent, error);
  if (dir == NULL) return is_absent;
  for (struct dirent *entry;;) {
    if (!next_entry(listing->store, dir, folder, &entry, error)) return FALSE;
    if (entry == NULL) return TRUE;
    if (entry->d_name[0] == '.') continue;
    if (!is_folder(dir, entry)) {
      if (!list_object(listing, dir, folder, entry->d_name, error)) return FALSE;
      continue;
    }
    g_autofree char *below =
        folder[0] == '\0' ? g_strdup(entry->d_name) : g_strconcat(folder, "/", entry->d_name, NULL);
    if (depth < 3 && !list_folder(listing, below, depth + 1, error)) return FALSE;
  }
}

gboolean bl_dir_list(BlStore *base, const char *prefix, BlKeyFunc func, gpointer user,
                     GError **error) {
  Listing listing = {.store = bl_dir(base), .prefix = prefix, .func = func, .user = user};
  g_autofree char *folder = folder_of_prefix(prefix, error);
  if (folder == NULL) return FALSE;
  guint depth = folder[0] != '\0';
  for (const char *p = folder; *p != '\0'; p++) depth += *p == '/';
  return list_folder(&listing, folder, depth, error);
}

gboolean bl_dir_list_folders(BlStore *base, const char *prefix, BlFolderFunc func, gpointer user,
                             GError **error) {
  guint n_slashes = 0;
  for (const char *p = prefix; *p != '\0'; p++) n_slashes += *p == '/';
  if (n_slashes > 2)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED, "store %s keeps no folders below \"%s\"",
                        base->url, prefix);
  g_autofree char *folder = folder_of_prefix(prefix, error);
  if (folder == NULL) return FALSE;
  gboolean is_absent;
  autodir *dir = open_folder(bl_dir(base), folder, &is_absent, error);
  if (dir == NULL) return is_absent;
  for (struct dirent *entry;;) {
    if (!next_entry(bl_dir(base), dir, folder, &entry, error)) return FALSE;
    if (entry == NULL) return TRUE;
    if (entry->d_name[0] == '.' || !is_folder(dir, entry)) continue;
    g_autofree char *part = bl_dir_name_unescape(entry->d_name);
    if (part != NULL && !func(part, user, error)) return FALSE;
  }
}

gboolean bl_dir_is_held(BlStore *base, const char *key, BlHoldState *state, GError **error) {
  BlDirStore *store = bl_dir(base);
  bl_autofd fd = bl_dir_open_fd(base, key, error);
  if (fd < 0) return FALSE;
  if (g_atomic_int_get(&store->locks_work) < 0)
    g_atomic_int_set(&store->locks_work, bl_lock_self_test(store->root_fd, BL_DIR_FILE));
  *state = g_atomic_int_get(&store->locks_work) ? bl_lock_test(fd) : BL_HOLD_UNKNOWN;
  return TRUE;
}

gboolean bl_dir_check_own_name(BlDirStore *store, const char *folder, GError **error) {
  const char *slash = strrchr(folder, '/');
  if (slash == NULL) return TRUE;
  g_autofree char *parent = g_strndup(folder, (gsize)(slash - folder));
  gboolean is_absent;
  autodir *dir = open_folder(store, parent, &is_absent, error);
  struct dirent *entry = NULL;
  if (dir == NULL && !is_absent) return FALSE;
  do {
    if (dir != NULL && !next_entry(store, dir, parent, &entry, error)) return FALSE;
  } while (entry != NULL && strcmp(entry->d_name, slash + 1) != 0);
  if (entry != NULL && is_folder(dir, entry)) return TRUE;
  return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                      "store %s: folder \"%s\" is another one under this name: %s (choose another "
                      "id)",
                      store->base.url, folder,
                      entry != NULL ? "it is a symbolic link"
                                    : "this file system does not tell the two names apart");
}

gboolean bl_dir_sweep(BlStore *base, const char *prefix, guint *n_removed, GError **error) {
  if (n_removed != NULL) *n_removed = 0;
  if (!bl_dir_check_writable(bl_dir(base), error)) return FALSE;
  g_autofree char *folder = folder_of_prefix(prefix, error);
  if (folder == NULL) return FALSE;
  gboolean is_absent;
  autodir *dir = open_folder(bl_dir(base), folder, &is_absent, error);
  if (dir == NULL) return is_absent;
  for (struct dirent *entry;;) {
    if (!next_entry(bl_dir(base), dir, folder, &entry, error)) return FALSE;
    if (entry == NULL) return TRUE;
    if (!g_str_has_prefix(entry->d_name, BL_DIR_TEMPORARY)) continue;
    if (unlinkat(dirfd(dir), entry->d_name, 0) != 0 && errno != ENOENT)
      return bl_error_set_errno(error, errno, "store %s: cannot remove %s/%s", base->url, folder,
                                entry->d_name);
    if (n_removed != NULL) *n_removed += 1;
  }
}
