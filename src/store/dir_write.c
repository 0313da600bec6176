/* The local store's writing side: every object is a draft, a temporary in the object's own folder,
 * until its rename. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bulk_file.h"
#include "base/error.h"
#include "base/file.h"
#include "store/dir_impl.h"

typedef char TemporaryName[64];

static void name_temporary(BlDirStore *store, TemporaryName name) {
  g_snprintf(name, sizeof(TemporaryName), BL_DIR_TEMPORARY "%s-%d", store->token,
             g_atomic_int_add(&store->n_temporaries, 1));
}

/* An object on its way: folder open, temporary written. */
typedef struct {
  BlDirStore *store;
  char *key;
  BlDirName name;
  int folder_fd;
  int fd;
  TemporaryName temporary;
  gboolean is_published;
} Draft;

static gboolean make_folders(BlDirStore *store, const char *path) {
  g_autofree char *part = g_strdup(path);
  for (char *slash = strchr(part, '/');; slash = strchr(slash + 1, '/')) {
    if (slash != NULL) *slash = '\0';
    if (mkdirat(store->root_fd, part, 0777) == 0) {
      if (g_atomic_int_get(&store->shared_group)) (void)fchmodat(store->root_fd, part, 02775, 0);
    } else if (errno != EEXIST && errno != ENOENT) {
      return FALSE;
    }
    if (slash == NULL) return TRUE;
    *slash = '/';
  }
}

/* Opens the folder, making what is missing of it. Each folder made is pending in its parent. */
static int open_folder(BlDirStore *store, const char *folder, gboolean create, GError **error) {
  const char *path = folder[0] == '\0' ? "." : folder;
  for (int i = 0; i < BL_DIR_MAX_TRIES; i++) {
    int fd = bl_openat(store->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd >= 0) return fd;
    if (errno != ENOENT || !create) break;
    if (!make_folders(store, path)) break;
  }
  if (error != NULL) {
    int errnum = errno;
    bl_error_set_errno(error, errnum, "store %s: cannot open folder %s", store->base.url, path);
  }
  return -1;
}

static void draft_clear(Draft *draft) {
  int errnum = errno;
  if (draft->temporary[0] != '\0' && !draft->is_published)
    (void)unlinkat(draft->folder_fd, draft->temporary, 0);
  bl_fd_clear(&draft->fd);
  bl_fd_clear(&draft->folder_fd);
  g_clear_pointer(&draft->key, g_free);
  draft->temporary[0] = '\0';
  errno = errnum;
}

static gboolean draft_open(Draft *draft, BlDirStore *store, const char *key, GError **error) {
  *draft = (Draft){.store = store, .folder_fd = -1, .fd = -1};
  if (!bl_dir_check_writable(store, error) || !bl_dir_name_from_key(key, &draft->name, error))
    return FALSE;
  draft->key = g_strdup(key);
  for (int i = 0;; i++) {
    draft->folder_fd = open_folder(store, draft->name.folder, TRUE, error);
    if (draft->folder_fd < 0) break;
    name_temporary(store, draft->temporary);
    draft->fd =
        bl_openat(draft->folder_fd, draft->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (draft->fd >= 0 && (!g_atomic_int_get(&store->shared_group) || fchmod(draft->fd, 0444) == 0))
      return TRUE;
    if (errno != ENOENT || i == BL_DIR_MAX_TRIES) {
      bl_dir_set_error(error, errno == ENOENT ? EIO : errno, store, "write", key);
      break;
    }
    bl_fd_clear(&draft->folder_fd);
  }
  draft_clear(draft);
  return FALSE;
}

static int draft_rename(Draft *draft, gboolean replace) {
  if (!replace)
    return bl_publish_no_replace(draft->folder_fd, draft->temporary, draft->folder_fd,
                                 draft->name.name, &draft->store->publish_way);
  return renameat(draft->folder_fd, draft->temporary, draft->folder_fd, draft->name.name) == 0
             ? 0
             : errno;
}

/* Gives the draft its name. *is_lost: its temporary is gone (a new owner of the folder swept it, or
 * the folder was removed): the caller writes it again. */
static gboolean draft_publish(Draft *draft, BlPutFlags flags, gboolean *is_lost, GError **error) {
  if ((flags & BL_PUT_DURABLE) && !bl_fsync(draft->fd, draft->key, error)) return FALSE;
  int errnum = draft_rename(draft, (flags & BL_PUT_REPLACE) != 0);
  *is_lost = errnum == ENOENT;
  if (errnum != 0) return bl_dir_set_error(error, errnum, draft->store, "publish", draft->key);
  draft->is_published = TRUE;
  if (flags & BL_PUT_VOLATILE) return TRUE;
  if (flags & BL_PUT_DURABLE) return bl_dir_sync_folder(draft->store, draft->name.folder, error);
  return bl_dir_mark_object(draft->store, draft->name.folder, draft->folder_fd, &draft->fd, error);
}

gboolean bl_dir_put(BlStore *base, const char *key, const void *data, gsize size, BlPutFlags flags,
                    GError **error) {
  BlDirStore *store = bl_dir(base);
  for (int i = 0;; i++) {
    Draft draft;
    if (!draft_open(&draft, store, key, error)) return FALSE;
    gboolean is_lost = FALSE;
    g_autoptr(GError) fault = NULL;
    gboolean ok = bl_pwrite_all(draft.fd, data, size, 0, &fault);
    if (!ok)
      g_prefix_error(&fault, "store %s: cannot write \"%s\": ", base->url, key);
    else
      ok = draft_publish(&draft, flags, &is_lost, &fault);
    draft_clear(&draft);
    if (ok) return TRUE;
    if (!is_lost || i == BL_DIR_MAX_TRIES) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return FALSE;
    }
  }
}

typedef struct {
  BlStoreWriter base;
  Draft draft;
  BlPutFlags flags;
  BlBulkFile file;
} DirWriter;

static gboolean writer_write(BlStoreWriter *base, const void *data, gsize size, GError **error) {
  DirWriter *writer = (DirWriter *)base;
  if (bl_bulk_file_write(&writer->file, data, size, error)) return TRUE;
  g_prefix_error(error, "store %s: cannot write \"%s\": ", writer->draft.store->base.url,
                 writer->draft.key);
  return FALSE;
}

static gboolean writer_commit(BlStoreWriter *base, GError **error) {
  DirWriter *writer = (DirWriter *)base;
  gboolean is_lost = FALSE;
  if (bl_bulk_file_finish(&writer->file, error) &&
      draft_publish(&writer->draft, writer->flags, &is_lost, error))
    return TRUE;
  if (is_lost) {
    g_clear_error(error);
    bl_error_set(error, BL_ERROR_BUSY,
                 "store %s: \"%s\" was swept away by another owner while written",
                 writer->draft.store->base.url, writer->draft.key);
  }
  return FALSE;
}

static void writer_free(BlStoreWriter *base) {
  DirWriter *writer = (DirWriter *)base;
  draft_clear(&writer->draft);
  g_free(writer);
}

BlStoreWriter *bl_dir_writer_open(BlStore *base, const char *key, guint64 size_hint,
                                  BlPutFlags flags, GError **error) {
  static const BlStoreWriterOps writer_ops = {
      .write = writer_write, .commit = writer_commit, .free = writer_free};
  DirWriter *writer = g_new0(DirWriter, 1);
  writer->base.ops = &writer_ops;
  writer->flags = flags;
  if (!draft_open(&writer->draft, bl_dir(base), key, error)) {
    g_free(writer);
    return NULL;
  }
  struct stat st;
  if (!(flags & BL_PUT_REPLACE) &&
      fstatat(writer->draft.folder_fd, writer->draft.name.name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
    writer_free(&writer->base);
    bl_dir_set_error(error, EEXIST, bl_dir(base), "write", key);
    return NULL;
  }
  bl_bulk_file_init(&writer->file, writer->draft.fd, size_hint == G_MAXUINT64 ? 0 : size_hint);
  return &writer->base;
}

/* Whether copy_file_range lets a server copy: elsewhere, without reflinks, the kernel would only
 * copy pages that must then be read once more to be hashed. */
static gboolean copies_remotely(int fd) {
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0) return FALSE;
  return fs.f_type == NFS_SUPER_MAGIC || (guint32)fs.f_type == (guint32)CIFS_SUPER_MAGIC ||
         (guint32)fs.f_type == (guint32)SMB2_SUPER_MAGIC;
}

static gboolean copy_remotely(int from, int to, guint64 size) {
  if (!copies_remotely(to)) return FALSE;
  for (guint64 done = 0; done < size;) {
    loff_t in = (loff_t)done, out = (loff_t)done;
    ssize_t n = copy_file_range(from, &in, to, &out, MIN(size - done, (guint64)G_MAXINT32), 0);
    if (n <= 0 && !(n < 0 && errno == EINTR)) return FALSE;
    done += n > 0 ? (guint64)n : 0;
  }
  return TRUE;
}

gboolean bl_dir_clone_fd(BlStore *base, const char *key, int fd, guint64 size, GError **error) {
  BlDirStore *store = bl_dir(base);
  Draft draft;
  if (!draft_open(&draft, store, key, error)) return FALSE;
  struct stat st;
  gboolean is_cloned = (ioctl(draft.fd, FICLONE, fd) == 0 && fstat(draft.fd, &st) == 0 &&
                        (guint64)st.st_size == size) ||
                       copy_remotely(fd, draft.fd, size);
  gboolean is_lost = FALSE;
  gboolean ok = is_cloned && draft_publish(&draft, 0, &is_lost, error);
  draft_clear(&draft);
  if (!is_cloned)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED, "store %s cannot share the bytes of \"%s\"",
                        base->url, key);
  return ok;
}

/* Whether an errno of linkat says that this file cannot get a name there, though it could be
 * written: too many names, no such thing on this file system, another user's file
 * (fs.protected_hardlinks), another file system. */
static gboolean means_no_link(int errnum) {
  return errnum == EMLINK || errnum == EPERM || errnum == EACCES || errnum == EXDEV ||
         errnum == EOPNOTSUPP || errnum == ENOSYS || errnum == EINVAL;
}

/* Whether the file is as one would be that this user put into the folder. Another user's could be
 * changed by that user, whatever its mode; the kernel's own rule (fs.protected_hardlinks) may be
 * off, and is not for root. One of another mode, put under another umask, would be read by fewer or
 * by more than may read the folder. */
static gboolean is_as_ours(int fd, int folder_fd) {
  struct stat st, folder;
  return fstat(fd, &st) == 0 && fstat(folder_fd, &folder) == 0 && st.st_uid == geteuid() &&
         (st.st_mode & 0777) == (folder.st_mode & 0444);
}

/* Gives the file one more name, the object's. 0 or an errno. */
static int link_file(BlDirStore *store, const char *file, int folder_fd, const BlDirName *name,
                     BlPutFlags flags) {
  TemporaryName temporary;
  if (!(flags & BL_PUT_REPLACE))
    return linkat(AT_FDCWD, file, folder_fd, name->name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
  name_temporary(store, temporary);
  if (linkat(AT_FDCWD, file, folder_fd, temporary, AT_SYMLINK_FOLLOW) != 0) return errno;
  int errnum = renameat(folder_fd, temporary, folder_fd, name->name) == 0 ? 0 : errno;
  /* Where both are names of one file already, rename does nothing, with success. */
  (void)unlinkat(folder_fd, temporary, 0);
  return errnum;
}

static gboolean has_no_name(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

/* As bl_dir_share_fd, by a link alone. *is_over: there is nothing more to try. */
static gboolean share_by_link(BlDirStore *store, const char *key, int fd, BlPutFlags flags,
                              gboolean *is_over, GError **error) {
  BlDirName name;
  char file[64];
  g_snprintf(file, sizeof file, "/proc/self/fd/%d", fd);
  *is_over = TRUE;
  if (!bl_dir_name_from_key(key, &name, error)) return FALSE;
  if ((flags & BL_PUT_DURABLE) && !bl_fsync(fd, key, error)) return FALSE;
  for (int i = 0; i < BL_DIR_MAX_TRIES; i++) {
    struct stat st;
    bl_autofd folder_fd = open_folder(store, name.folder, TRUE, error);
    if (folder_fd < 0) return FALSE;
    int errnum = has_no_name(fd)              ? ENOENT
                 : !is_as_ours(fd, folder_fd) ? EPERM
                                              : link_file(store, file, folder_fd, &name, flags);
    if (errnum == ENOENT && has_no_name(fd))
      return bl_error_set(error, BL_ERROR_NOT_FOUND,
                          "store %s: the file to share as \"%s\" was removed", store->base.url,
                          key);
    if (errnum == ENOENT && lstat(file, &st) == 0) continue; /* the folder or temporary is gone */
    if (errnum == ENOENT || means_no_link(errnum)) break;
    if (errnum != 0) return bl_dir_set_error(error, errnum, store, "share", key);
    if (flags & BL_PUT_DURABLE) return bl_dir_sync_folder(store, name.folder, error);
    if (flags & BL_PUT_VOLATILE) return TRUE;
    /* Its bytes may be another process's, not durable yet. */
    bl_autofd kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (kept < 0) return bl_dir_set_error(error, errno, store, "share", key);
    return bl_dir_mark_object(store, name.folder, folder_fd, &kept, error);
  }
  *is_over = FALSE;
  return FALSE;
}

gboolean bl_dir_share_fd(BlStore *base, const char *key, int fd, BlPutFlags flags, GError **error) {
  BlDirStore *store = bl_dir(base);
  gboolean is_over;
  if (!bl_dir_check_writable(store, error)) return FALSE;
  if (share_by_link(store, key, fd, flags, &is_over, error)) return TRUE;
  if (is_over) return FALSE;
  Draft draft;
  if (!draft_open(&draft, store, key, error)) return FALSE;
  gboolean is_lost = FALSE, is_cloned = ioctl(draft.fd, FICLONE, fd) == 0;
  gboolean ok = is_cloned && draft_publish(&draft, flags, &is_lost, error);
  draft_clear(&draft);
  if (ok) return TRUE;
  if (is_lost) g_clear_error(error);
  if (is_cloned && !is_lost) return FALSE;
  return bl_error_set(error, BL_ERROR_UNSUPPORTED, "store %s cannot share the bytes of \"%s\"",
                      base->url, key);
}

gboolean bl_dir_adopt(BlStore *base, const char *key, GError **error) {
  BlDirStore *store = bl_dir(base);
  BlDirName name;
  if (!bl_dir_check_writable(store, error) || !bl_dir_name_from_key(key, &name, error))
    return FALSE;
  bl_autofd fd = bl_dir_open_fd(base, key, error);
  if (fd < 0) return FALSE;
  bl_autofd folder_fd = open_folder(store, name.folder, FALSE, error);
  return folder_fd >= 0 && bl_dir_mark_object(store, name.folder, folder_fd, &fd, error);
}

gboolean bl_dir_remove(BlStore *base, const char *key, GError **error) {
  BlDirStore *store = bl_dir(base);
  BlDirName name;
  if (!bl_dir_check_writable(store, error) || !bl_dir_name_from_key(key, &name, error))
    return FALSE;
  bl_autofd folder_fd = open_folder(store, name.folder, FALSE, NULL);
  if (folder_fd < 0) return errno == ENOENT || bl_dir_set_error(error, errno, store, "remove", key);
  if (unlinkat(folder_fd, name.name, 0) != 0)
    return errno == ENOENT || bl_dir_set_error(error, errno, store, "remove", key);
  bl_dir_mark_folder(store, name.folder);
  /* The last of a checkpoint's own objects takes the folder along. Not tried for every chunk: an
   * ext4 folder that held many names is slow to be found empty. */
  if (strchr(name.name, ',') == NULL && strchr(name.folder, '/') != NULL)
    (void)unlinkat(store->root_fd, name.folder, AT_REMOVEDIR);
  return TRUE;
}

gboolean bl_dir_move(BlStore *base, const char *key, const char *new_key, GError **error) {
  BlDirStore *store = bl_dir(base);
  BlDirName from, to;
  if (!bl_dir_check_writable(store, error) || !bl_dir_name_from_key(key, &from, error) ||
      !bl_dir_name_from_key(new_key, &to, error))
    return FALSE;
  bl_autofd from_fd = open_folder(store, from.folder, FALSE, NULL);
  if (from_fd < 0) return bl_dir_set_error(error, errno, store, "move", key);
  bl_autofd to_fd = open_folder(store, to.folder, TRUE, error);
  if (to_fd < 0) return FALSE;
  int errnum = bl_publish_move(from_fd, from.name, to_fd, to.name);
  if (errnum != 0)
    return bl_dir_set_error(error, errnum, store, "move", errnum == EEXIST ? new_key : key);
  bl_dir_mark_folder(store, from.folder);
  bl_dir_mark_folder(store, to.folder);
  return TRUE;
}

typedef struct {
  BlStoreHold base;
  int fd; /* holds the lock */
  char *key;
} DirHold;

static BlStoreHold *hold_new(BlStore *base, const char *key, int *fd) {
  DirHold *hold = g_new0(DirHold, 1);
  hold->base.store = base;
  hold->fd = bl_fd_steal(fd);
  hold->key = g_strdup(key);
  return &hold->base;
}

/* Whether the draft's folder still has its name: a delete may have removed it, another put made it
 * again. */
static gboolean is_folder_there(const Draft *draft) {
  struct stat ours, there;
  return fstatat(draft->store->root_fd, draft->name.folder, &there, 0) == 0 &&
         fstat(draft->folder_fd, &ours) == 0 && ours.st_ino == there.st_ino &&
         ours.st_dev == there.st_dev;
}

/* The temporary is locked before it gets its name, so no one ever sees the object without its lock.
 * A file system without locks gives a hold all the same: bl_store_is_held says UNKNOWN there. */
BlStoreHold *bl_dir_put_held(BlStore *base, const char *key, const void *data, gsize size,
                             GError **error) {
  BlDirStore *store = bl_dir(base);
  for (int i = 0;; i++) {
    Draft draft;
    if (!draft_open(&draft, store, key, error)) return NULL;
    g_autoptr(GError) fault = NULL;
    (void)bl_lock_take(draft.fd, TRUE);
    int errnum = 0;
    if (!bl_dir_check_own_name(store, draft.name.folder, &fault)) {
      errnum = is_folder_there(&draft) ? EINVAL : ENOENT;
    } else if (!bl_pwrite_all(draft.fd, data, size, 0, &fault)) {
      g_prefix_error(&fault, "store %s: cannot write \"%s\": ", base->url, key);
    } else {
      errnum = draft_rename(&draft, FALSE);
      if (errnum != 0) bl_dir_set_error(&fault, errnum, store, "write", key);
    }
    if (fault == NULL) {
      draft.is_published = TRUE;
      BlStoreHold *hold = hold_new(base, key, &draft.fd);
      draft_clear(&draft);
      return hold;
    }
    draft_clear(&draft);
    if (errnum != ENOENT || i == BL_DIR_MAX_TRIES) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return NULL;
    }
  }
}

/* Whether the key leads to the file; FALSE without error where it leads elsewhere or nowhere. */
static gboolean leads_to(BlStore *base, const char *key, int fd, GError **error) {
  g_autoptr(GError) fault = NULL;
  bl_autofd there_fd = bl_dir_open_fd(base, key, &fault);
  struct stat ours, there;
  if (there_fd >= 0 && (fstat(fd, &ours) != 0 || fstat(there_fd, &there) != 0))
    return bl_dir_set_error(error, errno, bl_dir(base), "look at", key);
  if (there_fd >= 0) return ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
  if (!g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
    g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* After the lock is there a second look: what was opened may have been replaced or removed before
 * it, and who asked then saw it free. */
BlStoreHold *bl_dir_hold_shared(BlStore *base, const char *key, GError **error) {
  for (int i = 0; i < BL_DIR_MAX_TRIES; i++) {
    bl_autofd fd = bl_dir_open_fd(base, key, error);
    if (fd < 0) return NULL;
    gboolean locks_work = bl_dir_locks_work(bl_dir(base));
    if (!locks_work || !bl_lock_take(fd, FALSE)) {
      gboolean is_other = locks_work && (errno == EAGAIN || errno == EACCES);
      bl_error_set(error, is_other ? BL_ERROR_BUSY : BL_ERROR_UNSUPPORTED,
                   is_other ? "store %s: \"%s\" is held by its owner alone"
                            : "store %s: cannot hold \"%s\": locks prove nothing here",
                   base->url, key);
      return NULL;
    }
    g_autoptr(GError) fault = NULL;
    if (leads_to(base, key, fd, &fault)) return hold_new(base, key, &fd);
    if (fault != NULL) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return NULL;
    }
  }
  bl_error_set(error, BL_ERROR_BUSY, "store %s: \"%s\" changes too often to be held", base->url,
               key);
  return NULL;
}

gboolean bl_dir_hold_check(BlStoreHold *base, GError **error) {
  DirHold *hold = (DirHold *)base;
  g_autoptr(GError) fault = NULL;
  if (leads_to(base->store, hold->key, hold->fd, &fault)) return TRUE;
  if (fault == NULL)
    return bl_error_set(error, BL_ERROR_BUSY, "store %s: \"%s\" was taken over by another process",
                        base->store->url, hold->key);
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

void bl_dir_hold_free(BlStoreHold *base) {
  DirHold *hold = (DirHold *)base;
  bl_fd_clear(&hold->fd);
  /* Where a file that is removed while open keeps a hidden name (NFS, FUSE), its removal could not
   * take the folder along. */
  BlDirName name;
  if (bl_dir_name_from_key(hold->key, &name, NULL) && strchr(name.folder, '/') != NULL)
    (void)unlinkat(bl_dir(base->store)->root_fd, name.folder, AT_REMOVEDIR);
  g_free(hold->key);
  g_free(hold);
}
