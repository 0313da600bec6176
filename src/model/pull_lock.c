/* The life of `tmp/<token>/`:
 *
 *   create `<token>.lock` -> lock it -> see that it is still there -> make `<token>/` -> … work …
 *   -> remove `<token>/` -> remove `<token>.lock`
 *
 * A sweeper that gets the lock of `<token>.lock` may do the last two steps for its owner, who is
 * dead; it may also have met an owner between the first two steps, who then finds the name gone and
 * starts again with another token. So a folder without a lock file belongs to nobody. */
#include "model/pull_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

#define BESIDE_PREFIX ".ballast-tmp-"
#define LOCK_SUFFIX ".lock"
#define TOKEN_SIZE 32
/* Tries against sweepers and enders who remove what was just made; each try fails by another's
 * luck. */
#define N_TRIES 100

struct BlPullLock {
  int target_fd; /* borrowed */
  const char *own_folder;
  int own_fd, tmp_fd, lock_fd, folder_fd;
  char token[TOKEN_SIZE + 1];
  gboolean is_made;
};

int bl_folder_open(int parent_fd, const char *name, gboolean make, gboolean sync_parent) {
  const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = bl_openat(parent_fd, name, flags, 0);
  if (fd >= 0 || errno != ENOENT || !make) return fd;
  if (mkdirat(parent_fd, name, 0777) != 0 && errno != EEXIST) return -1;
  if (sync_parent && fsync(parent_fd) != 0) return -1;
  return bl_openat(parent_fd, name, flags, 0);
}

static gboolean try_lock(int fd) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Whether a lock that was just taken is seen by others. */
static gboolean is_lock_seen(int folder_fd, const char *name) {
  bl_autofd fd = bl_openat(folder_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  return fd >= 0 && !try_lock(fd) && (errno == EAGAIN || errno == EACCES);
}

/* Takes the lock of a file whose owner is dead. -1 where it lives, or nothing can be told. */
static int take_dead(int folder_fd, const char *name) {
  bl_autofd fd = bl_openat(folder_fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1)
    return -1;
  if (!try_lock(fd) || !is_lock_seen(folder_fd, name)) return -1;
  return bl_fd_steal(&fd);
}

static gboolean is_token(const char *text) {
  return strspn(text, "0123456789abcdef") >= TOKEN_SIZE;
}

/* The names in a folder, all of them before any is removed. Caller frees. */
static GPtrArray *list_names(int folder_fd) {
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  int fd = bl_openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (dir == NULL) {
    bl_fd_clear(&fd);
    return names;
  }
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      g_ptr_array_add(names, g_strdup(entry->d_name));
  closedir(dir);
  return names;
}

/* Removes a folder of temporaries: files, and folders of files. What cannot be removed stays for
 * another sweep. */
static void remove_folder(int parent_fd, const char *name, guint depth) {
  bl_autofd fd = bl_folder_open(parent_fd, name, FALSE, FALSE);
  if (fd < 0) return;
  g_autoptr(GPtrArray) names = list_names(fd);
  for (guint i = 0; i < names->len; i++) {
    const char *entry = g_ptr_array_index(names, i);
    if (unlinkat(fd, entry, 0) != 0 && depth > 0) remove_folder(fd, entry, depth - 1);
  }
  (void)unlinkat(parent_fd, name, AT_REMOVEDIR);
}

/* Removes what dead pulls left. */
static void sweep(const BlPullLock *lock) {
  g_autoptr(GPtrArray) names = list_names(lock->tmp_fd);
  for (guint i = 0; i < names->len; i++) {
    const char *name = g_ptr_array_index(names, i);
    gboolean is_lock = g_str_has_suffix(name, LOCK_SUFFIX);
    if (!is_token(name) || strncmp(name, lock->token, TOKEN_SIZE) == 0) continue;
    g_autofree char *token = g_strndup(name, TOKEN_SIZE);
    g_autofree char *lock_name = g_strconcat(token, LOCK_SUFFIX, NULL);
    if (!is_lock && faccessat(lock->tmp_fd, lock_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) continue;
    bl_autofd held = is_lock ? take_dead(lock->tmp_fd, lock_name) : -1;
    if (is_lock && held < 0) continue;
    remove_folder(lock->tmp_fd, token, 1);
    if (is_lock) (void)unlinkat(lock->tmp_fd, lock_name, 0);
  }
}

static void close_all(BlPullLock *lock) {
  bl_fd_clear(&lock->folder_fd);
  bl_fd_clear(&lock->lock_fd);
  bl_fd_clear(&lock->tmp_fd);
  bl_fd_clear(&lock->own_fd);
}

/* One try. FALSE with errno; ENOENT where another took away what was just made. */
static gboolean try_make(BlPullLock *lock) {
  struct stat mine, there;
  lock->own_fd = bl_folder_open(lock->target_fd, lock->own_folder, TRUE, FALSE);
  if (lock->own_fd < 0) return FALSE;
  lock->tmp_fd = bl_folder_open(lock->own_fd, "tmp", TRUE, FALSE);
  if (lock->tmp_fd < 0) return FALSE;
  bl_token_make(lock->token);
  g_autofree char *name = g_strconcat(lock->token, LOCK_SUFFIX, NULL);
  lock->lock_fd =
      bl_openat(lock->tmp_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (lock->lock_fd < 0) return FALSE;
  /* Where it cannot be locked at all, others cannot either, and leave it alone. */
  gboolean is_locked = try_lock(lock->lock_fd);
  if (!is_locked && (errno == EAGAIN || errno == EACCES)) {
    errno = ENOENT;
    return FALSE;
  }
  if (fstat(lock->lock_fd, &mine) != 0 ||
      fstatat(lock->tmp_fd, name, &there, AT_SYMLINK_NOFOLLOW) != 0)
    return FALSE;
  if (mkdirat(lock->tmp_fd, lock->token, 0777) != 0) return FALSE;
  lock->folder_fd = bl_folder_open(lock->tmp_fd, lock->token, FALSE, FALSE);
  lock->is_made = lock->folder_fd >= 0;
  return lock->is_made;
}

BlPullLock *bl_pull_lock_new(int target_fd, const char *own_folder, BlJob *job, GError **error) {
  BlPullLock *lock = g_new0(BlPullLock, 1);
  *lock = (BlPullLock){.target_fd = target_fd,
                       .own_folder = own_folder,
                       .own_fd = -1,
                       .tmp_fd = -1,
                       .lock_fd = -1,
                       .folder_fd = -1};
  for (guint i = 0; i < N_TRIES && !try_make(lock); i++) {
    int errnum = errno;
    close_all(lock);
    if (errnum == ENOENT && bl_job_check(job, NULL)) continue;
    if (errnum == ENOTDIR || errnum == ELOOP)
      bl_error_set(error, BL_ERROR_EXISTS, "\"%s\" there is no folder of ours (move it away)",
                   own_folder);
    else
      bl_error_set_errno(error, errnum, "cannot make a folder for temporary files");
    g_free(lock);
    return NULL;
  }
  if (!lock->is_made) {
    g_free(lock);
    bl_error_set(error, BL_ERROR_BUSY, "the folder for temporary files is removed again and again");
    return NULL;
  }
  sweep(lock);
  return lock;
}

void bl_pull_lock_free(BlPullLock *lock) {
  g_autofree char *name = g_strconcat(lock->token, LOCK_SUFFIX, NULL);
  remove_folder(lock->tmp_fd, lock->token, 1);
  (void)unlinkat(lock->tmp_fd, name, 0);
  /* Some file systems keep a removed file that is open, under another name. */
  bl_fd_clear(&lock->folder_fd);
  bl_fd_clear(&lock->lock_fd);
  (void)unlinkat(lock->own_fd, "tmp", AT_REMOVEDIR);
  (void)unlinkat(lock->target_fd, lock->own_folder, AT_REMOVEDIR);
  close_all(lock);
  g_free(lock);
}

const char *bl_pull_lock_token(const BlPullLock *lock) {
  return lock->token;
}

int bl_pull_lock_folder(const BlPullLock *lock) {
  return lock->folder_fd;
}

void bl_pull_lock_name_beside(char *name, gsize size, const char *token, guint64 number) {
  g_snprintf(name, (gulong)size, BESIDE_PREFIX "%s-%" G_GUINT64_FORMAT, token, number);
}

int bl_pull_lock_create_beside(int folder_fd, char *name, gsize size, mode_t mode) {
  for (guint i = 0; i < N_TRIES; i++) {
    bl_autofd fd =
        bl_openat(folder_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    struct stat status;
    if (fd < 0 && errno != EEXIST) return -1;
    if (fd >= 0) {
      gboolean is_swept = !try_lock(fd) && (errno == EAGAIN || errno == EACCES);
      if (!is_swept && fstat(fd, &status) == 0 && status.st_nlink > 0) return bl_fd_steal(&fd);
    }
    /* A sweeper met it before it was locked. */
    char token[TOKEN_SIZE + 1];
    bl_token_make(token);
    bl_pull_lock_name_beside(name, size, token, i);
  }
  errno = EBUSY;
  return -1;
}

void bl_pull_lock_sweep_beside(int folder_fd) {
  g_autoptr(GPtrArray) names = list_names(folder_fd);
  for (guint i = 0; i < names->len; i++) {
    const char *name = g_ptr_array_index(names, i);
    if (!g_str_has_prefix(name, BESIDE_PREFIX) || !is_token(name + strlen(BESIDE_PREFIX))) continue;
    bl_autofd held = take_dead(folder_fd, name);
    if (held >= 0) (void)unlinkat(folder_fd, name, 0);
  }
}
