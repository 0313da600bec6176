#include "model/pull_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/pull_lock.h"
#include "store/dir.h"

#define RECORD "pull.json"
/* Far more than a record with any sensible globs has. */
#define RECORD_MAX (1024 * 1024)

struct BlTarget {
  char *path, *shown;
  int fd;
  dev_t device;
  BlPullLock *lock; /* NULL until a pull began, and for single files */
  char token[33];
  gboolean sync_each;
  GMutex sweep_lock;
  GHashTable *swept; /* foreign folders that were swept: inode numbers; protected by sweep_lock */
};

static BlTarget *target_new(const char *path) {
  BlTarget *target = g_new0(BlTarget, 1);
  target->path = g_strdup(path);
  target->shown = bl_path_display(path);
  target->fd = -1;
  target->swept = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
  g_mutex_init(&target->sweep_lock);
  return target;
}

/* A pull into a store could put its files in the place of objects. Looks at the folder, or what
 * there is of the way to it, and all above. */
static gboolean check_outside_stores(const char *path, GError **error) {
  g_autofree char *there = g_strdup(path);
  bl_autofd fd = -1;
  while ((fd = bl_openat(AT_FDCWD, there, O_PATH | O_DIRECTORY | O_CLOEXEC, 0)) < 0 &&
         errno == ENOENT) {
    char *above = g_path_get_dirname(there);
    g_free(there);
    there = above;
  }
  struct stat now, above;
  while (fd >= 0 && fstat(fd, &now) == 0) {
    if (bl_dir_is_store(fd)) {
      g_autofree char *shown = bl_path_display(path);
      return bl_error_set(error, BL_ERROR_INVALID,
                          "\"%s\" lies in a store of ballast (choose another --output)", shown);
    }
    int up = bl_openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    gboolean is_root = up < 0 || fstat(up, &above) != 0 ||
                       (above.st_ino == now.st_ino && above.st_dev == now.st_dev);
    bl_fd_clear(&fd);
    fd = up;
    if (is_root) break;
  }
  return TRUE;
}

BlTarget *bl_target_open(const char *path, GError **error) {
  if (!check_outside_stores(path, error)) return NULL;
  g_autoptr(BlTarget) target = target_new(path);
  struct stat status;
  target->fd = bl_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (target->fd < 0 && errno == ENOENT) return NULL;
  if (target->fd < 0 || fstat(target->fd, &status) != 0) {
    if (errno == ENOTDIR)
      bl_error_set(error, BL_ERROR_EXISTS, "\"%s\" is no folder (choose another --output)",
                   target->shown);
    else
      bl_error_set_errno(error, errno, "folder \"%s\"", target->shown);
    return NULL;
  }
  target->device = status.st_dev;
  return g_steal_pointer(&target);
}

BlTarget *bl_target_make(const char *path, GError **error) {
  GError *cause = NULL;
  BlTarget *target = bl_target_open(path, &cause);
  if (target == NULL && cause == NULL && bl_mkdirs(AT_FDCWD, path, TRUE, &cause))
    target = bl_target_open(path, &cause);
  if (target == NULL && cause == NULL)
    bl_error_set(&cause, BL_ERROR_NOT_FOUND, "folder \"%s\" was removed meanwhile", path);
  if (cause != NULL) g_propagate_error(error, cause);
  return target;
}

void bl_target_free(BlTarget *target) {
  if (target == NULL) return;
  bl_target_end(target);
  bl_fd_clear(&target->fd);
  g_hash_table_unref(target->swept);
  g_mutex_clear(&target->sweep_lock);
  g_free(target->path);
  g_free(target->shown);
  g_free(target);
}

const char *bl_target_name(const BlTarget *target) {
  return target->shown;
}

gboolean bl_target_space(const BlTarget *target, guint64 *free_bytes, guint64 *block_size,
                         GError **error) {
  struct statvfs status;
  if (fstatvfs(target->fd, &status) != 0)
    return bl_error_set_errno(error, errno, "free space of \"%s\"", target->shown);
  guint64 n_blocks = geteuid() == 0 ? status.f_bfree : status.f_bavail;
  *block_size = MAX(status.f_frsize, 1);
  if (!g_uint64_checked_mul(free_bytes, n_blocks, *block_size)) *free_bytes = G_MAXUINT64;
  return TRUE;
}

gboolean bl_target_begin(BlTarget *target, gboolean sync_each, BlJob *job, GError **error) {
  target->sync_each = sync_each;
  target->lock = bl_pull_lock_new(target->fd, BL_TARGET_OWN_FOLDER, job, error);
  if (target->lock == NULL) {
    g_prefix_error(error, "folder \"%s\": ", target->shown);
    return FALSE;
  }
  g_strlcpy(target->token, bl_pull_lock_token(target->lock), sizeof target->token);
  return TRUE;
}

void bl_target_begin_single(BlTarget *target) {
  bl_token_make(target->token);
  target->sync_each = TRUE;
  bl_pull_lock_sweep_beside(target->fd);
}

gboolean bl_target_sync_all(BlTarget *target, GError **error) {
  return syncfs(target->fd) == 0 ||
         bl_error_set_errno(error, errno, "writing to \"%s\"", target->shown);
}

gboolean bl_target_sync(BlTarget *target, GError **error) {
  return target->sync_each || bl_target_sync_all(target, error);
}

void bl_target_end(BlTarget *target) {
  if (target->lock != NULL) bl_pull_lock_free(target->lock);
  target->lock = NULL;
}

/* A part of the path that cannot be gone through. */
static BlPlaceResult fail_folder(BlTarget *target, int parent_fd, const char *path,
                                 const char *name, int errnum, GError **error) {
  g_autofree char *shown = bl_path_display(path);
  struct stat status;
  gboolean is_there = fstatat(parent_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_there && S_ISLNK(status.st_mode))
    bl_error_set(error, BL_ERROR_EXISTS,
                 "\"%s/%s\" is a symbolic link, and nothing is written through one (remove it, or "
                 "choose another --output)",
                 target->shown, shown);
  else if (is_there && !S_ISDIR(status.st_mode))
    bl_error_set(
        error, BL_ERROR_EXISTS,
        "\"%s/%s\" stands where a folder must be (move it away, or choose another --output)",
        target->shown, shown);
  else
    bl_error_set_errno(error, errnum, "folder \"%s/%s\"", target->shown, shown);
  return BL_PLACE_ERROR;
}

/* Goes down the folders of the path. *name: what is left of it. */
static BlPlaceResult walk(BlTarget *target, const char *path, gboolean make, int *folder_fd,
                          const char **name, GError **error) {
  bl_autofd fd = fcntl(target->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    bl_error_set_errno(error, errno, "folder \"%s\"", target->shown);
    return BL_PLACE_ERROR;
  }
  const char *part = path;
  for (const char *slash; (slash = strchr(part, '/')) != NULL; part = slash + 1) {
    g_autofree char *folder = g_strndup(part, (gsize)(slash - part));
    bl_autofd next = bl_folder_open(fd, folder, make, target->sync_each);
    int errnum = errno;
    if (next < 0 && errnum == ENOENT && !make) return BL_PLACE_NO_FOLDER;
    if (next < 0) {
      g_autofree char *so_far = g_strndup(path, (gsize)(slash - path));
      return fail_folder(target, fd, so_far, folder, errnum, error);
    }
    bl_fd_clear(&fd);
    fd = bl_fd_steal(&next);
  }
  *folder_fd = bl_fd_steal(&fd);
  *name = part;
  return BL_PLACE_FOUND;
}

/* Sweeps a folder of another file system, once. */
static void sweep_foreign(BlTarget *target, int folder_fd, ino_t inode) {
  gint64 key = (gint64)inode;
  g_mutex_lock(&target->sweep_lock);
  gboolean is_first = g_hash_table_add(target->swept, g_memdup2(&key, sizeof key));
  g_mutex_unlock(&target->sweep_lock);
  if (is_first) bl_pull_lock_sweep_beside(folder_fd);
}

BlPlaceResult bl_target_find_place(BlTarget *target, const char *path, guint64 number,
                                   gboolean make, BlTargetPlace *place, GError **error) {
  GError *cause = NULL;
  *place = (BlTargetPlace){.target = target, .folder_fd = -1};
  if (!bl_path_check(path, strlen(path), &cause)) {
    g_propagate_error(error, cause);
    return BL_PLACE_ERROR;
  }
  BlPlaceResult result = walk(target, path, make, &place->folder_fd, &place->name, error);
  if (result != BL_PLACE_FOUND) return result;
  struct stat status;
  if (fstat(place->folder_fd, &status) != 0) {
    bl_error_set_errno(error, errno, "folder of \"%s/%s\"", target->shown, path);
    bl_place_close(place);
    return BL_PLACE_ERROR;
  }
  place->is_foreign = status.st_dev != target->device;
  if (target->lock != NULL && !place->is_foreign) {
    place->temp_folder_fd = bl_pull_lock_folder(target->lock);
    g_snprintf(place->temp, sizeof place->temp, "%" G_GUINT64_FORMAT, number);
  } else {
    if (make && place->is_foreign) sweep_foreign(target, place->folder_fd, status.st_ino);
    place->temp_folder_fd = place->folder_fd;
    bl_pull_lock_name_beside(place->temp, sizeof place->temp, target->token, number);
  }
  return BL_PLACE_FOUND;
}

void bl_place_close(BlTargetPlace *place) {
  bl_fd_clear(&place->folder_fd);
}

gboolean bl_place_syncs(const BlTargetPlace *place) {
  return place->target->sync_each || place->is_foreign;
}

static gboolean fail_place(const BlTargetPlace *place, int errnum, GError **error) {
  g_autofree char *shown = bl_path_display(place->name);
  return bl_error_set_errno(error, errnum, "writing \"%s\" in \"%s\"", shown, place->target->shown);
}

int bl_place_create(BlTargetPlace *place, mode_t mode, GError **error) {
  int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  int fd;
  if (place->temp_folder_fd == place->folder_fd)
    fd = bl_pull_lock_create_beside(place->folder_fd, place->temp, sizeof place->temp, mode);
  else
    fd = bl_openat(place->temp_folder_fd, place->temp, flags, mode);
  /* The name is ours: one that is there could not be removed before. */
  if (fd < 0 && errno == EEXIST && place->temp_folder_fd != place->folder_fd) {
    bl_place_discard(place);
    fd = bl_openat(place->temp_folder_fd, place->temp, flags, mode);
  }
  if (fd < 0) fail_place(place, errno, error);
  return fd;
}

void bl_place_discard(const BlTargetPlace *place) {
  (void)unlinkat(place->temp_folder_fd, place->temp, 0);
}

/* RENAME_NOREPLACE, also where the file system does not know it: then something that appears
 * between look and rename is replaced by the same content. */
static int rename_new(const BlTargetPlace *place) {
  if (renameat2(place->temp_folder_fd, place->temp, place->folder_fd, place->name,
                RENAME_NOREPLACE) == 0)
    return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return -1;
  struct stat status;
  if (fstatat(place->folder_fd, place->name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    errno = EEXIST;
    return -1;
  }
  return renameat(place->temp_folder_fd, place->temp, place->folder_fd, place->name);
}

gboolean bl_place_publish(const BlTargetPlace *place, gboolean replace, GError **error) {
  int rc = replace ? renameat(place->temp_folder_fd, place->temp, place->folder_fd, place->name)
                   : rename_new(place);
  if (rc != 0) return fail_place(place, errno, error);
  /* A rename over another link of the same file does nothing and leaves both names. */
  if (replace) bl_place_discard(place);
  if (bl_place_syncs(place) && fsync(place->folder_fd) != 0) return fail_place(place, errno, error);
  return TRUE;
}

/* Whether the folder, which is empty, takes two names for one. Inode numbers do not tell
 * everywhere. */
static gboolean is_same_part(int folder_fd, const char *name, const char *other, gboolean *is_same,
                             GError **error) {
  bl_autofd fd = bl_open_at(folder_fd, name, O_WRONLY | O_CREAT, 0600, "file", error);
  if (fd < 0) return FALSE;
  *is_same = faccessat(folder_fd, other, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  bl_fd_clear(&fd);
  (void)unlinkat(folder_fd, name, 0);
  return TRUE;
}

gboolean bl_target_is_same_name(BlTarget *target, const char *path, const char *other,
                                gboolean *is_same, GError **error) {
  bl_autofd folder = bl_folder_open(bl_pull_lock_folder(target->lock), "names", TRUE, FALSE);
  if (folder < 0)
    return bl_error_set_errno(error, errno, "folder \"%s\": trying names", target->shown);
  g_auto(GStrv) parts = g_strsplit(path, "/", -1);
  g_auto(GStrv) others = g_strsplit(other, "/", -1);
  *is_same = g_strv_length(parts) == g_strv_length(others);
  for (gsize i = 0; *is_same && parts[i] != NULL; i++)
    if (strcmp(parts[i], others[i]) != 0 &&
        !is_same_part(folder, parts[i], others[i], is_same, error))
      return FALSE;
  return TRUE;
}

static int open_own_folder(BlTarget *target, gboolean make, GError **error) {
  int fd = bl_folder_open(target->fd, BL_TARGET_OWN_FOLDER, make, TRUE);
  if (fd < 0 && (make || errno != ENOENT))
    fail_folder(target, target->fd, BL_TARGET_OWN_FOLDER, BL_TARGET_OWN_FOLDER, errno, error);
  return fd;
}

char *bl_target_load_record(BlTarget *target, gsize *size) {
  bl_autofd fd = open_own_folder(target, FALSE, NULL);
  char *data = NULL;
  if (fd < 0 || !bl_file_load(fd, RECORD, RECORD_MAX, &data, size, NULL)) return NULL;
  return data;
}

/* Through the folder for temporaries, so that a kill leaves nothing that is not swept. */
static gboolean replace_record(BlTarget *target, int own_fd, const char *data, gsize size,
                               GError **error) {
  int folder = bl_pull_lock_folder(target->lock);
  bl_autofd fd = bl_open_at(folder, RECORD, O_WRONLY | O_CREAT | O_EXCL, 0666, "record", error);
  if (fd < 0 || !bl_write_all(fd, data, size, error) || !bl_fsync(fd, "record", error))
    return FALSE;
  if (renameat(folder, RECORD, own_fd, RECORD) != 0)
    return bl_error_set_errno(error, errno, "renaming the record into place");
  return bl_fsync(own_fd, "folder", error) && bl_fsync(target->fd, "folder", error);
}

gboolean bl_target_save_record(BlTarget *target, const char *data, gsize size, GError **error) {
  bl_autofd fd = open_own_folder(target, TRUE, error);
  if (fd < 0) return FALSE;
  if (replace_record(target, fd, data, size, error)) return TRUE;
  g_prefix_error(error, "\"%s/" BL_TARGET_OWN_FOLDER "/" RECORD "\": ", target->shown);
  return FALSE;
}

gboolean bl_target_remove_record(BlTarget *target, GError **error) {
  GError *cause = NULL;
  bl_autofd fd = open_own_folder(target, FALSE, &cause);
  if (fd < 0 && cause == NULL) return TRUE;
  if (cause != NULL) {
    g_propagate_error(error, cause);
    return FALSE;
  }
  if (unlinkat(fd, RECORD, 0) != 0 && errno != ENOENT)
    return bl_error_set_errno(error, errno, "removing \"%s/" BL_TARGET_OWN_FOLDER "/" RECORD "\"",
                              target->shown);
  if (bl_fsync(fd, "its folder", error)) return TRUE;
  g_prefix_error(error, "removing \"%s/" BL_TARGET_OWN_FOLDER "/" RECORD "\": ", target->shown);
  return FALSE;
}
