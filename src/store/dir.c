/* The local store: opening, its format file, durability.
 *
 * An object is a read-only file; its folder and name follow from its key (dir_name.h). A put writes
 * a temporary ".tmp-<token>-<n>" in the object's own folder and renames it, so readers see all or
 * nothing and need no lock.
 *
 * Durability. What is put without BL_PUT_DURABLE is pending: its descriptor is kept, up to
 * MAX_PENDING of them, and bl_store_sync fsyncs each, then the folders. Past that number one syncfs
 * is cheaper, and a descriptor of the root that was open before the first write makes it report
 * every write-back error since. What is in another file system than the root is fsynced as it is
 * put. A failed sync is final for this instance.
 *
 * Threads: any. `lock` protects the pending set; nothing holds it across I/O. */
#include "store/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "store/dir_impl.h"

#define FORMAT_NAME "ballast-dir"
#define FORMAT_VERSION 1
/* Descriptors kept for fsync before syncfs takes their place. */
#define MAX_PENDING 64

gboolean bl_dir_set_error(GError **error, int errnum, const BlDirStore *store, const char *doing,
                          const char *key) {
  if (errnum == ENOENT)
    return bl_error_set(error, BL_ERROR_NOT_FOUND, "store %s has no object \"%s\"", store->base.url,
                        key);
  if (errnum == EEXIST)
    return bl_error_set(error, BL_ERROR_EXISTS, "store %s: object \"%s\" is there already",
                        store->base.url, key);
  return bl_error_set_errno(error, errnum, "store %s: cannot %s \"%s\"", store->base.url, doing,
                            key);
}

gboolean bl_dir_set_feature_unknown(const BlDirStore *store, GError **error) {
  return bl_error_set(error, BL_ERROR_DENIED,
                      "store %s is read-only for ballast " BALLAST_VERSION
                      ": it has a feature that is not known (use a newer ballast)",
                      store->base.url);
}

gboolean bl_dir_check_writable(const BlDirStore *store, GError **error) {
  if (store->root_fd < 0)
    return bl_error_set(error, BL_ERROR_NOT_FOUND, "there is no store at %s", store->base.url);
  if (!(store->base.caps & BL_STORE_IS_READ_ONLY)) return TRUE;
  if (store->write_errno != 0)
    return bl_error_set_errno(error, store->write_errno, "store %s is read-only", store->base.url);
  return bl_dir_set_feature_unknown(store, error);
}

void bl_dir_mark_folder(BlDirStore *store, const char *folder) {
  g_mutex_lock(&store->lock);
  if (!g_hash_table_contains(store->pending_folders, folder))
    g_hash_table_add(store->pending_folders, g_strdup(folder));
  g_mutex_unlock(&store->lock);
}

gboolean bl_dir_mark_object(BlDirStore *store, const char *folder, int folder_fd, int *fd,
                            GError **error) {
  struct stat st;
  bl_dir_mark_folder(store, folder);
  /* A folder that leads to another disk (a mount, a link): no syncfs of the root reaches it. */
  if (fstat(folder_fd, &st) != 0 || st.st_dev != store->device) {
    if (bl_fsync(*fd, "an object", error)) return TRUE;
    g_prefix_error(error, "store %s: ", store->base.url);
    return FALSE;
  }
  g_autoptr(GArray) surplus = NULL;
  g_mutex_lock(&store->lock);
  if (!store->pending_all && store->pending_fds->len < MAX_PENDING) {
    int kept = bl_fd_steal(fd);
    g_array_append_val(store->pending_fds, kept);
  } else if (!store->pending_all) {
    store->pending_all = TRUE;
    surplus = store->pending_fds;
    store->pending_fds = g_array_new(FALSE, FALSE, sizeof(int));
  }
  g_mutex_unlock(&store->lock);
  for (guint i = 0; surplus != NULL && i < surplus->len; i++) close(g_array_index(surplus, int, i));
  return TRUE;
}

gboolean bl_dir_sync_folder(BlDirStore *store, const char *folder, GError **error) {
  g_autofree char *path = g_strdup(folder);
  for (;;) {
    bl_autofd fd = bl_openat(store->root_fd, path[0] == '\0' ? "." : path,
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    /* A folder that is gone was emptied by a delete: its parent's entry is what counts. */
    if (fd < 0 && errno != ENOENT)
      return bl_error_set_errno(error, errno, "store %s: cannot open folder %s", store->base.url,
                                path);
    if (fd >= 0 && !bl_fsync(fd, path[0] == '\0' ? "its folder" : path, error)) {
      g_prefix_error(error, "store %s: ", store->base.url);
      return FALSE;
    }
    if (path[0] == '\0') return TRUE;
    char *slash = strrchr(path, '/');
    *(slash != NULL ? slash : path) = '\0';
  }
}

static gboolean sync_objects(BlDirStore *store, const GArray *fds, gboolean all, GError **error) {
  if (all && syncfs(store->root_fd) != 0)
    return bl_error_set_errno(error, errno, "store %s: cannot make its file system durable",
                              store->base.url);
  for (guint i = 0; i < fds->len; i++) {
    if (bl_fsync(g_array_index(fds, int, i), "an object", error)) continue;
    g_prefix_error(error, "store %s: ", store->base.url);
    return FALSE;
  }
  return TRUE;
}

static gboolean dir_sync(BlStore *base, GError **error) {
  BlDirStore *store = bl_dir(base);
  if (store->root_fd < 0) return TRUE;
  g_mutex_lock(&store->lock);
  g_autoptr(GArray) fds = store->pending_fds;
  g_autoptr(GHashTable) folders = store->pending_folders;
  gboolean all = store->pending_all, has_failed = store->sync_failed;
  store->pending_fds = g_array_new(FALSE, FALSE, sizeof(int));
  store->pending_folders = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  store->pending_all = FALSE;
  g_mutex_unlock(&store->lock);

  gboolean ok = !has_failed;
  if (has_failed)
    bl_error_set(error, BL_ERROR_IO, "store %s: an earlier write could not be made durable",
                 base->url);
  else
    ok = sync_objects(store, fds, all, error);
  for (guint i = 0; i < fds->len; i++) close(g_array_index(fds, int, i));

  GHashTableIter iter;
  gpointer folder;
  g_hash_table_iter_init(&iter, folders);
  while (ok && g_hash_table_iter_next(&iter, &folder, NULL))
    ok = bl_dir_sync_folder(store, folder, error);
  if (!ok) {
    g_mutex_lock(&store->lock);
    store->sync_failed = TRUE;
    g_mutex_unlock(&store->lock);
  }
  return ok;
}

static gboolean dir_free_space(BlStore *base, guint64 *bytes, GError **error) {
  struct statvfs fs;
  if (bl_dir(base)->root_fd < 0)
    return bl_error_set(error, BL_ERROR_NOT_FOUND, "there is no store at %s", base->url);
  if (fstatvfs(bl_dir(base)->root_fd, &fs) != 0)
    return bl_error_set_errno(error, errno, "store %s: cannot tell its free space", base->url);
  *bytes = (guint64)fs.f_bavail * fs.f_frsize;
  return TRUE;
}

static void dir_free(BlStore *base) {
  BlDirStore *store = bl_dir(base);
  for (guint i = 0; i < store->pending_fds->len; i++)
    close(g_array_index(store->pending_fds, int, i));
  g_array_unref(store->pending_fds);
  g_hash_table_unref(store->pending_folders);
  bl_fd_clear(&store->root_fd);
  g_mutex_clear(&store->lock);
  g_free(store->path);
  g_free(base->url);
  g_free(store);
}

static const BlStoreOps dir_ops = {
    .scheme = "file",
    .free = dir_free,
    .stat = bl_dir_stat,
    .get = bl_dir_get,
    .put = bl_dir_put,
    .writer_open = bl_dir_writer_open,
    .adopt = bl_dir_adopt,
    .sync = dir_sync,
    .remove = bl_dir_remove,
    .list = bl_dir_list,
    .list_folders = bl_dir_list_folders,
    .open_fd = bl_dir_open_fd,
    .move = bl_dir_move,
    .clone_fd = bl_dir_clone_fd,
    .share_fd = bl_dir_share_fd,
    .put_held = bl_dir_put_held,
    .hold_shared = bl_dir_hold_shared,
    .hold_check = bl_dir_hold_check,
    .hold_free = bl_dir_hold_free,
    .is_held = bl_dir_is_held,
    .free_space = dir_free_space,
    .sweep = bl_dir_sweep,
    .list_strays = bl_dir_list_strays,
    .remove_stray = bl_dir_remove_stray,
    .get_settings = bl_dir_get_settings,
    .set_settings = bl_dir_set_settings,
};

static gboolean read_format(BlDirStore *store, const char *data, gsize size, GError **error) {
  g_autofree char *what = g_strdup_printf("store %s: " BL_DIR_FILE, store->base.url);
  g_autoptr(json_t) json = bl_json_parse(data, size, what, error);
  if (json == NULL) return FALSE;
  const char *format = bl_json_find_string(json, "format", "");
  guint64 version = 0;
  if (strcmp(format, FORMAT_NAME) != 0)
    return bl_error_set(error, BL_ERROR_CORRUPT, "%s does not name the format " FORMAT_NAME, what);
  if (!bl_json_get_uint64(json, "version", &version, error)) return FALSE;
  if (version != FORMAT_VERSION)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        "%s: format version %" G_GUINT64_FORMAT
                        " is not known to ballast " BALLAST_VERSION
                        ", which knows version %d (use a newer ballast)",
                        what, version, FORMAT_VERSION);
  gboolean is_read_only;
  if (!bl_dir_check_features(json, what, &is_read_only, error)) return FALSE;
  if (is_read_only) store->base.caps |= BL_STORE_IS_READ_ONLY;
  store->shared_group = strcmp(bl_json_find_string(json, "shared", "umask"), "group") == 0;
  return TRUE;
}

/* Whether the folder may become a store: nothing is in it, or only what mkfs leaves or a creator
 * that was killed. */
static gboolean is_vacant(BlDirStore *store, GError **error) {
  int fd = bl_openat(store->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (dir == NULL) {
    bl_error_set_errno(error, errno, "cannot list folder %s", store->base.url);
    bl_fd_clear(&fd);
    return FALSE;
  }
  gboolean is_empty = TRUE;
  struct dirent *entry;
  while (is_empty && (entry = readdir(dir)) != NULL)
    is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
               g_str_has_prefix(entry->d_name, BL_DIR_TEMPORARY) ||
               strcmp(entry->d_name, "lost+found") == 0;
  closedir(dir);
  if (is_empty) return TRUE;
  return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                      "%s is not a ballast store (it has no " BL_DIR_FILE
                      ") and is not empty: name another folder",
                      store->base.url);
}

static gboolean create_format(BlDirStore *store, GError **error) {
  static const char text[] =
      "{\"features\":{\"compatible\":[],\"incompatible\":[],\"read_only_compatible\":[]},"
      "\"format\":\"" FORMAT_NAME "\",\"shared\":\"umask\",\"version\":1}\n";
  return bl_file_replace(store->root_fd, BL_DIR_FILE, text, sizeof text - 1, 0444, error);
}

gboolean bl_dir_is_store(int folder_fd) {
  g_autofree char *data = NULL;
  gsize size;
  return bl_file_load(folder_fd, BL_DIR_FILE, BL_DIR_FILE_MAX, &data, &size, NULL) &&
         g_strstr_len(data, (gssize)size, "\"" FORMAT_NAME "\"") != NULL;
}

static gboolean load_format(BlDirStore *store, gboolean *is_there, GError **error) {
  g_autofree char *data = NULL;
  gsize size;
  g_autoptr(GError) fault = NULL;
  *is_there = bl_file_load(store->root_fd, BL_DIR_FILE, BL_DIR_FILE_MAX, &data, &size, &fault);
  if (*is_there) return read_format(store, data, size, error);
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_INVALID)) fault->code = BL_ERROR_CORRUPT;
  g_propagate_prefixed_error(error, g_steal_pointer(&fault), "store %s: ", store->base.url);
  return FALSE;
}

static gboolean open_root(BlDirStore *store, gboolean create, GError **error) {
  if (create && !bl_mkdirs(AT_FDCWD, store->path, TRUE, error)) return FALSE;
  store->root_fd = bl_openat(AT_FDCWD, store->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (store->root_fd < 0 && errno == ENOENT && !create) {
    store->base.caps |= BL_STORE_IS_READ_ONLY;
    return TRUE;
  }
  if (store->root_fd < 0 && errno == ENOTDIR)
    return bl_error_set(error, BL_ERROR_INVALID, "store %s is not a folder (name a folder)",
                        store->base.url);
  struct stat st;
  if (store->root_fd < 0 || fstat(store->root_fd, &st) != 0)
    return bl_error_set_errno(error, errno, "cannot open store %s", store->base.url);
  store->device = st.st_dev;
  if (faccessat(store->root_fd, ".", W_OK, AT_EACCESS) != 0) {
    store->write_errno = errno;
    store->base.caps |= BL_STORE_IS_READ_ONLY;
  }

  gboolean is_there;
  g_autoptr(GError) fault = NULL;
  if (!load_format(store, &is_there, error)) return FALSE;
  if (is_there) return TRUE;
  if (!is_vacant(store, &fault)) {
    /* Another may have made the store between the two looks. */
    if (!load_format(store, &is_there, error)) return FALSE;
    if (!is_there) g_propagate_error(error, g_steal_pointer(&fault));
    return is_there;
  }
  if (create) return create_format(store, error);
  /* An empty folder may become a store; until then it has no objects. */
  bl_fd_clear(&store->root_fd);
  store->base.caps |= BL_STORE_IS_READ_ONLY;
  return TRUE;
}

BlStore *bl_dir_store_open(const char *path, gboolean create, GError **error) {
  BlDirStore *store = g_new0(BlDirStore, 1);
  store->base.ops = &dir_ops;
  store->base.caps = BL_STORE_CAN_LIST | BL_STORE_CAN_OPEN_FD | BL_STORE_CAN_MOVE |
                     BL_STORE_CAN_HOLD | BL_STORE_CAN_CLONE | BL_STORE_CAN_SHARE;
  store->path = g_strdup(path);
  g_autofree char *shown = bl_path_display(path);
  store->base.url = g_strconcat("file://", shown, NULL);
  store->root_fd = -1;
  store->locks_work = -1;
  store->pending_fds = g_array_new(FALSE, FALSE, sizeof(int));
  store->pending_folders = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_mutex_init(&store->lock);
  bl_token_make(store->token);
  if (open_root(store, create, error)) return &store->base;
  dir_free(&store->base);
  return NULL;
}

const char *bl_dir_store_path(const BlStore *store) {
  return store->ops == &dir_ops ? ((const BlDirStore *)store)->path : NULL;
}
