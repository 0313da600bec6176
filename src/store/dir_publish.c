#include "store/dir_publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int publish_by_rename(int from_dir_fd, const char *from, int to_dir_fd, const char *to) {
  return renameat2(from_dir_fd, from, to_dir_fd, to, RENAME_NOREPLACE) == 0 ? 0 : errno;
}

/* A link's answer can be lost on NFS, and the retry then says EEXIST: a link count of 2 tells. */
static int publish_by_link(int from_dir_fd, const char *from, int to_dir_fd, const char *to) {
  if (linkat(from_dir_fd, from, to_dir_fd, to, 0) != 0) {
    int errnum = errno;
    struct stat a, b;
    if (errnum != EEXIST || fstatat(from_dir_fd, from, &a, AT_SYMLINK_NOFOLLOW) != 0 ||
        fstatat(to_dir_fd, to, &b, AT_SYMLINK_NOFOLLOW) != 0 || a.st_ino != b.st_ino ||
        a.st_dev != b.st_dev)
      return errnum;
  }
  return unlinkat(from_dir_fd, from, 0) == 0 ? 0 : errno;
}

/* flock of a folder works wherever the kernel keeps locks itself; where it does not, the claim on
 * the checkpoint alone keeps two writers apart. */
static int publish_locked(int from_dir_fd, const char *from, int to_dir_fd, const char *to) {
  bl_autofd lock_fd = bl_openat(to_dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (lock_fd < 0) return errno;
  while (flock(lock_fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat st;
  if (fstatat(from_dir_fd, from, &st, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  if (fstatat(to_dir_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0) return EEXIST;
  if (errno != ENOENT) return errno;
  return renameat(from_dir_fd, from, to_dir_fd, to) == 0 ? 0 : errno;
}

static gboolean means_unsupported(int errnum, BlPublishWay way) {
  if (errnum == EINVAL || errnum == ENOSYS || errnum == EOPNOTSUPP) return TRUE;
  /* vfat and exFAT answer link with EPERM, file systems at their limit of links with EMLINK. */
  return way == BL_PUBLISH_LINK && (errnum == EPERM || errnum == EMLINK);
}

int bl_publish_no_replace(int from_dir_fd, const char *from, int to_dir_fd, const char *to,
                          gint *way) {
  static int (*const ways[])(int, const char *, int, const char *) = {
      [BL_PUBLISH_RENAME] = publish_by_rename,
      [BL_PUBLISH_LINK] = publish_by_link,
      [BL_PUBLISH_LOCKED] = publish_locked,
  };
  for (gint w = g_atomic_int_get(way);; w++) {
    int errnum = ways[w](from_dir_fd, from, to_dir_fd, to);
    if (w == BL_PUBLISH_LOCKED || !means_unsupported(errnum, (BlPublishWay)w)) return errnum;
    g_atomic_int_set(way, w + 1);
  }
}

int bl_publish_move(int from_dir_fd, const char *from, int to_dir_fd, const char *to) {
  int errnum = publish_by_rename(from_dir_fd, from, to_dir_fd, to);
  if (!means_unsupported(errnum, BL_PUBLISH_RENAME)) return errnum;
  return publish_locked(from_dir_fd, from, to_dir_fd, to);
}

static gboolean lock_control(int fd, int command, short type, struct flock *lock) {
  *lock = (struct flock){.l_type = type, .l_whence = SEEK_SET};
  return fcntl(fd, command, lock) == 0;
}

gboolean bl_lock_take(int fd, gboolean write) {
  struct flock lock;
  return lock_control(fd, F_OFD_SETLK, write ? F_WRLCK : F_RDLCK, &lock);
}

BlHoldState bl_lock_test(int fd) {
  struct flock lock;
  if (!lock_control(fd, F_OFD_GETLK, F_WRLCK, &lock)) return BL_HOLD_UNKNOWN;
  return lock.l_type == F_UNLCK ? BL_HOLD_FREE : BL_HOLD_HELD;
}

gboolean bl_lock_self_test(int dir_fd, const char *name) {
  /* The file may be replaced between the two looks: then there is nothing to compare. */
  for (int i = 0; i < 8; i++) {
    bl_autofd a = bl_openat(dir_fd, name, O_RDONLY | O_CLOEXEC, 0);
    bl_autofd b = bl_openat(dir_fd, name, O_RDONLY | O_CLOEXEC, 0);
    struct stat of_a, of_b;
    if (a < 0 || b < 0 || fstat(a, &of_a) != 0 || fstat(b, &of_b) != 0) return FALSE;
    if (of_a.st_ino != of_b.st_ino) continue;
    return bl_lock_take(a, FALSE) && bl_lock_test(b) == BL_HOLD_HELD;
  }
  return FALSE;
}
