/* What lies in the local store's folders: objects, temporaries, and what neither is.
 *
 * What bl_dir_list gives and what bl_dir_list_strays gives are together everything below the root
 * but store.json and lost+found, and nothing is in both. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "store/dir_impl.h"

/* Folders within folders below the root (dir_name.h). */
#define MAX_DEPTH 3

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

/* The key of what lies in the folder under the name; NULL where no key gives that name, so that
 * nothing could reach it. Caller frees. */
static char *find_key(const char *folder, const char *file) {
  g_autofree char *key = bl_dir_name_to_key(folder, file);
  if (key == NULL || !bl_key_check(key, NULL)) return NULL;
  if (folder[0] == '\0' && strcmp(file, BL_DIR_FILE) == 0) return NULL;
  BlDirName name;
  if (!bl_dir_name_from_key(key, &name, NULL) || strcmp(name.name, file) != 0 ||
      strcmp(name.folder, folder) != 0)
    return NULL;
  return g_steal_pointer(&key);
}

/* Whether objects may lie in it. */
static gboolean is_store_folder(const char *folder) {
  g_autofree char *key = find_key(folder, "x");
  return key != NULL;
}

static gboolean list_object(const Listing *listing, DIR *dir, const char *folder, const char *file,
                            GError **error) {
  g_autofree char *key = find_key(folder, file);
  struct stat st;
  if (key == NULL || !g_str_has_prefix(key, listing->prefix)) return TRUE;
  if (fstatat(dirfd(dir), file, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT || bl_dir_set_error(error, errno, listing->store, "look at", key);
  BlObjectStat object = bl_object_stat_from(&st);
  return listing->func(key, &object, listing->user, error);
}

static char *path_below(const char *folder, const char *name) {
  return folder[0] == '\0' ? g_strdup(name) : g_strconcat(folder, "/", name, NULL);
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
    g_autofree char *below = path_below(folder, entry->d_name);
    if (depth < MAX_DEPTH && !list_folder(listing, below, depth + 1, error)) return FALSE;
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

typedef struct {
  BlDirStore *store;
  BlStrayFunc func;
  gpointer user;
} StrayListing;

static gboolean is_temporary(const char *name, const struct stat *st) {
  return S_ISREG(st->st_mode) && g_str_has_prefix(name, BL_DIR_TEMPORARY);
}

static gboolean tell_stray(const StrayListing *listing, const char *path, const struct stat *st,
                           gboolean is_folder, GError **error) {
  const char *slash = strrchr(path, '/');
  BlStray stray = {
      .path = path,
      .stat = bl_object_stat_from(st),
      .is_temporary = is_temporary(slash != NULL ? slash + 1 : path, st),
      .is_folder = is_folder,
  };
  return listing->func(&stray, listing->user, error);
}

static gboolean walk_strays(const StrayListing *listing, const char *folder, guint depth,
                            GError **error);

static gboolean walk_entry(const StrayListing *listing, DIR *dir, const char *folder,
                           const struct dirent *entry, guint depth, GError **error) {
  const char *name = entry->d_name;
  g_autofree char *key = find_key(folder, name);
  if (key != NULL && entry->d_type == DT_REG) return TRUE;
  g_autofree char *path = path_below(folder, name);
  struct stat st;
  if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT || bl_error_set_errno(error, errno, "store %s: cannot look at %s",
                                                 listing->store->base.url, path);
  if (!S_ISDIR(st.st_mode)) return key != NULL || tell_stray(listing, path, &st, FALSE, error);
  if (depth == MAX_DEPTH || !is_store_folder(path))
    return tell_stray(listing, path, &st, FALSE, error);
  return walk_strays(listing, path, depth + 1, error);
}

/* An empty folder is told by the walk through it: only there it is seen. The upper ones
 * ("weight/models") come back with the next import, and are left alone. */
static gboolean walk_strays(const StrayListing *listing, const char *folder, guint depth,
                            GError **error) {
  gboolean is_absent, is_empty = TRUE;
  g_autoptr(GError) fault = NULL;
  autodir *dir = open_folder(listing->store, folder, &is_absent, &fault);
  if (dir == NULL && (is_absent || g_error_matches(fault, BL_ERROR, BL_ERROR_DENIED))) return TRUE;
  if (dir == NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  struct stat st;
  if (fstat(dirfd(dir), &st) != 0)
    return bl_error_set_errno(error, errno, "store %s: cannot look at folder %s",
                              listing->store->base.url, folder);
  for (struct dirent *entry;;) {
    if (!next_entry(listing->store, dir, folder, &entry, error)) return FALSE;
    if (entry == NULL) break;
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    is_empty = FALSE;
    if (depth == 0 && (strcmp(name, BL_DIR_FILE) == 0 || strcmp(name, "lost+found") == 0)) continue;
    if (!walk_entry(listing, dir, folder, entry, depth, error)) return FALSE;
  }
  return !is_empty || depth < MAX_DEPTH || tell_stray(listing, folder, &st, TRUE, error);
}

gboolean bl_dir_list_strays(BlStore *base, BlStrayFunc func, gpointer user, GError **error) {
  StrayListing listing = {bl_dir(base), func, user};
  return walk_strays(&listing, "", 0, error);
}

/* The path may come from a file that anyone could write: it must be one that a walk gives. */
static gboolean check_stray_path(const BlDirStore *store, const BlStray *stray, const char *folder,
                                 const char *name, GError **error) {
  gboolean is_ours = stray->is_folder ? is_store_folder(stray->path)
                                      : g_str_has_prefix(name, BL_DIR_TEMPORARY) &&
                                            (folder[0] == '\0' || is_store_folder(folder));
  return is_ours || bl_error_set(error, BL_ERROR_INVALID,
                                 "store %s: \"%s\" is no name of a temporary or a folder here",
                                 store->base.url, stray->path);
}

/* A temporary that was written to since is a living put's. */
gboolean bl_dir_remove_stray(BlStore *base, const BlStray *stray, GError **error) {
  BlDirStore *store = bl_dir(base);
  const char *slash = strrchr(stray->path, '/');
  const char *name = slash != NULL ? slash + 1 : stray->path;
  g_autofree char *folder =
      g_strndup(stray->path, slash != NULL ? (gsize)(slash - stray->path) : 0);
  if (!bl_dir_check_writable(store, error) || !check_stray_path(store, stray, folder, name, error))
    return FALSE;
  gboolean is_absent;
  autodir *dir = open_folder(store, folder, &is_absent, error);
  if (dir == NULL) return is_absent;
  struct stat st;
  if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return TRUE;
    return bl_error_set_errno(error, errno, "store %s: cannot look at %s", base->url, stray->path);
  }
  BlObjectStat now = bl_object_stat_from(&st);
  gboolean is_right_kind = stray->is_folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode);
  if (!is_right_kind || now.device != stray->stat.device || now.inode != stray->stat.inode ||
      now.mtime_ns != stray->stat.mtime_ns)
    return TRUE;
  if (unlinkat(dirfd(dir), name, stray->is_folder ? AT_REMOVEDIR : 0) != 0 && errno != ENOENT &&
      errno != ENOTEMPTY && errno != EEXIST)
    return bl_error_set_errno(error, errno, "store %s: cannot remove %s", base->url, stray->path);
  bl_dir_mark_folder(store, folder);
  return TRUE;
}

static gboolean set_not_open(const BlDirStore *store, const char *path, GError **error) {
  int errnum = errno;
  g_autofree char *shown = bl_path_display(path[0] == '\0' ? "its folder" : path);
  return bl_error_set_errno(error, errnum,
                            "store %s: cannot open %s to the store's group (do it as root, or as "
                            "its owner)",
                            store->base.url, shown);
}

/* Gives the group what it lacks of the wanted mode. */
static gboolean open_to_group(const BlDirStore *store, int fd, const struct stat *st, mode_t wanted,
                              gid_t group, const char *path, GError **error) {
  if (st->st_gid == group && (st->st_mode & wanted) == wanted) return TRUE;
  /* A change of group takes set-group-id away, so it comes first. */
  if ((st->st_gid == group || fchown(fd, (uid_t)-1, group) == 0) &&
      fchmod(fd, (st->st_mode & 07777) | wanted) == 0)
    return TRUE;
  return set_not_open(store, path, error);
}

static gboolean open_object_to_group(const BlDirStore *store, DIR *dir, const char *name,
                                     gid_t group, const char *path, GError **error) {
  struct stat st;
  if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT || set_not_open(store, path, error);
  if (!S_ISREG(st.st_mode) || (st.st_mode & 0044) == 0044) return TRUE;
  bl_autofd fd = bl_openat(dirfd(dir), name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0) return errno == ENOENT || set_not_open(store, path, error);
  if (fstat(fd, &st) != 0) return set_not_open(store, path, error);
  return open_to_group(store, fd, &st, 0444, group, path, error);
}

static gboolean open_folder_to_group(BlDirStore *store, const char *folder, guint depth,
                                     gid_t group, GError **error) {
  gboolean is_absent;
  autodir *dir = open_folder(store, folder, &is_absent, error);
  if (dir == NULL) return is_absent;
  struct stat st;
  if (fstat(dirfd(dir), &st) != 0) return set_not_open(store, folder, error);
  if (!open_to_group(store, dirfd(dir), &st, 02070, group, folder, error)) return FALSE;
  for (struct dirent *entry;;) {
    if (!next_entry(store, dir, folder, &entry, error)) return FALSE;
    if (entry == NULL) return TRUE;
    if (entry->d_name[0] == '.') continue;
    g_autofree char *path = path_below(folder, entry->d_name);
    g_autofree char *key = find_key(folder, entry->d_name);
    if (is_folder(dir, entry)) {
      if (depth < MAX_DEPTH && is_store_folder(path) &&
          !open_folder_to_group(store, path, depth + 1, group, error))
        return FALSE;
    } else if (key != NULL &&
               !open_object_to_group(store, dir, entry->d_name, group, path, error)) {
      return FALSE;
    }
  }
}

gboolean bl_dir_open_to_group(BlDirStore *store, GError **error) {
  struct stat st;
  if (fstat(store->root_fd, &st) != 0) return set_not_open(store, "", error);
  return open_folder_to_group(store, "", 0, st.st_gid, error);
}
