/* A library to preload: the n-th I/O call of the whole program, over all its threads and children,
 * kills it, stops it or fails.
 *
 *   BALLAST_SHIM_ROOT     only calls on files below this folder count
 *   BALLAST_SHIM_COUNTER  a file of 8 bytes, shared by everything that counts together
 *   BALLAST_SHIM_AT       n, from 1 on; 0 only counts
 *   BALLAST_SHIM_DO       kill, stop, EIO, ENOSPC, EDQUOT, EINTR, short
 *   BALLAST_SHIM_STICKY   1: every call from the n-th on; EINTR and short every second one, or
 *                         nothing would ever end
 *
 * What counts depends on what is done, so that no n is wasted. kill: calls that change a file or
 * drop a lock; the program dies before the call, a write is half done. stop: the same calls; the
 * program stands still (SIGSTOP) until it is told to go on. ENOSPC, EDQUOT: calls that need room.
 * EINTR: calls that may sleep. short: reads and writes of more than one byte. EIO: all. The n-th
 * call's name, and what it was about, are left in "<counter>.name". */
#undef _FILE_OFFSET_BITS /* or the headers would rename what is defined here */
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READS = 1, CHANGES = 2, NEEDS_ROOM = 4, SLEEPS = 8, MOVES_BYTES = 16, UNLOCKS = 32 };
enum verdict { GO, FAIL, HALF };

static _Atomic uint64_t *counter;
static uint64_t at;
static unsigned counts;  /* a call counts when it has one of these */
static int error_number; /* 0: kill, or short */
static int kills, stops, sticky, spaced;
static char root[PATH_MAX], name_file[PATH_MAX + 8];
static size_t root_size;

static const struct {
  const char *name;
  int error_number;
  unsigned counts;
} deeds[] = {
    {"kill", 0, CHANGES | UNLOCKS}, {"stop", 0, CHANGES | UNLOCKS}, {"EIO", EIO, READS | CHANGES},
    {"ENOSPC", ENOSPC, NEEDS_ROOM}, {"EDQUOT", EDQUOT, NEEDS_ROOM}, {"EINTR", EINTR, SLEEPS},
    {"short", 0, MOVES_BYTES},
};

static void read_deed(const char *deed) {
  for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
    if (strcmp(deed, deeds[i].name) != 0) continue;
    error_number = deeds[i].error_number;
    counts = deeds[i].counts;
    kills = i == 0;
    stops = i == 1;
    spaced = strcmp(deed, "EINTR") == 0 || strcmp(deed, "short") == 0;
    return;
  }
  fprintf(stderr, "faultshim: BALLAST_SHIM_DO=%s\n", deed);
  _exit(125);
}

__attribute__((constructor)) static void start(void) {
  const char *counter_file = getenv("BALLAST_SHIM_COUNTER"), *folder = getenv("BALLAST_SHIM_ROOT");
  const char *n = getenv("BALLAST_SHIM_AT"), *deed = getenv("BALLAST_SHIM_DO");
  if (!counter_file || !folder || !n || !deed || !realpath(folder, root)) _exit(125);
  root_size = strlen(root);
  at = strtoull(n, NULL, 10);
  sticky = getenv("BALLAST_SHIM_STICKY") != NULL;
  snprintf(name_file, sizeof name_file, "%s.name", counter_file);
  read_deed(deed);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, counter_file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || syscall(SYS_ftruncate, fd, 8L) != 0) _exit(125);
  counter = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (counter == MAP_FAILED) _exit(125);
  syscall(SYS_close, fd);
}

/* What the thread's last call was about. */
static __thread char last_path[PATH_MAX];

static int is_below_root(const char *path) {
  return strncmp(path, root, root_size) == 0 && (path[root_size] == '/' || path[root_size] == 0);
}

static int is_fd_ours(int fd) {
  char link[32];
  if (fd == AT_FDCWD)
    snprintf(link, sizeof link, "/proc/self/cwd");
  else
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  long size = syscall(SYS_readlinkat, AT_FDCWD, link, last_path, sizeof last_path - 1);
  if (size < 0) return 0;
  last_path[size] = 0;
  return is_below_root(last_path);
}

static int is_path_ours(int dir_fd, const char *path) {
  if (!path || path[0] != '/') return is_fd_ours(dir_fd);
  snprintf(last_path, sizeof last_path, "%s", path);
  return is_below_root(path);
}

static void leave_name(const char *name) {
  long fd =
      syscall(SYS_openat, AT_FDCWD, name_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return;
  syscall(SYS_write, fd, name, strlen(name));
  syscall(SYS_write, fd, "\n", 1);
  syscall(SYS_write, fd, last_path, strlen(last_path));
  syscall(SYS_close, fd);
}

static _Noreturn void die(void) {
  syscall(SYS_kill, getpid(), SIGKILL);
  for (;;) syscall(SYS_pause);
}

/* Counts the call and says what becomes of it. */
static enum verdict judge(const char *name, unsigned kind, int is_ours) {
  if (!counter || !(kind & counts) || !is_ours) return GO;
  uint64_t n = atomic_fetch_add(counter, 1) + 1;
  if (at == 0 || n < at || (n > at && !sticky)) return GO;
  if (spaced && (n - at) % 2 != 0) return GO;
  if (n == at) leave_name(name);
  if (kills && !(kind & MOVES_BYTES)) die();
  if (stops) {
    syscall(SYS_kill, getpid(), SIGSTOP);
    return GO;
  }
  if (error_number == 0) return HALF;
  errno = error_number;
  return FAIL;
}

#define NEXT(name) ((__typeof__(&name))next(#name))

static void *next(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (!found) die();
  return found;
}

/* A call that moves bytes: fails, moves half of them, or moves half of them and dies. */
#define MOVE(name, kind, is_ours, size, whole, half)                                 \
  do {                                                                               \
    enum verdict v = judge(#name, (kind) | ((size) > 1 ? MOVES_BYTES : 0), is_ours); \
    if (v == FAIL) return -1;                                                        \
    if (v == GO) return NEXT(name) whole;                                            \
    ssize_t moved = NEXT(name) half;                                                 \
    if (kills) die();                                                                \
    return moved;                                                                    \
  } while (0)

/* Any other call. */
#define CALL(name, kind, is_ours, whole)                \
  do {                                                  \
    if (judge(#name, kind, is_ours) == FAIL) return -1; \
    return NEXT(name) whole;                            \
  } while (0)

#define READ_KIND (READS | SLEEPS)
#define WRITE_KIND (CHANGES | NEEDS_ROOM | SLEEPS)

ssize_t read(int fd, void *data, size_t size) {
  MOVE(read, READ_KIND, is_fd_ours(fd), size, (fd, data, size), (fd, data, size / 2));
}
ssize_t pread(int fd, void *data, size_t size, off_t offset) {
  MOVE(pread, READ_KIND, is_fd_ours(fd), size, (fd, data, size, offset),
       (fd, data, size / 2, offset));
}
ssize_t write(int fd, const void *data, size_t size) {
  MOVE(write, WRITE_KIND, is_fd_ours(fd), size, (fd, data, size), (fd, data, size / 2));
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  MOVE(pwrite, WRITE_KIND, is_fd_ours(fd), size, (fd, data, size, offset),
       (fd, data, size / 2, offset));
}
ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t size,
                        unsigned flags) {
  MOVE(copy_file_range, WRITE_KIND, is_fd_ours(out), size,
       (in, in_offset, out, out_offset, size, flags),
       (in, in_offset, out, out_offset, size / 2, flags));
}
ssize_t writev(int fd, const struct iovec *parts, int n) {
  CALL(writev, WRITE_KIND, is_fd_ours(fd), (fd, parts, n));
}
ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t offset) {
  CALL(pwritev, WRITE_KIND, is_fd_ours(fd), (fd, parts, n, offset));
}
int fsync(int fd) {
  CALL(fsync, CHANGES | NEEDS_ROOM, is_fd_ours(fd), (fd));
}
int fdatasync(int fd) {
  CALL(fdatasync, CHANGES | NEEDS_ROOM, is_fd_ours(fd), (fd));
}
int syncfs(int fd) {
  CALL(syncfs, CHANGES | NEEDS_ROOM, is_fd_ours(fd), (fd));
}
int ftruncate(int fd, off_t size) {
  CALL(ftruncate, CHANGES | SLEEPS, is_fd_ours(fd), (fd, size));
}
int fchmod(int fd, mode_t mode) {
  CALL(fchmod, CHANGES, is_fd_ours(fd), (fd, mode));
}
int futimens(int fd, const struct timespec times[2]) {
  CALL(futimens, CHANGES, is_fd_ours(fd), (fd, times));
}

/* posix_fallocate returns its error; a file system's own fallocate sets errno. */
int fallocate(int fd, int mode, off_t offset, off_t size) {
  CALL(fallocate, CHANGES | NEEDS_ROOM | SLEEPS, is_fd_ours(fd), (fd, mode, offset, size));
}
int posix_fallocate(int fd, off_t offset, off_t size) {
  if (judge("posix_fallocate", CHANGES | NEEDS_ROOM | SLEEPS, is_fd_ours(fd)) == FAIL)
    return error_number;
  return NEXT(posix_fallocate)(fd, offset, size);
}

/* The descriptor is gone whatever close says. */
int close(int fd) {
  enum verdict v = judge("close", CHANGES | NEEDS_ROOM | UNLOCKS, fd >= 0 && is_fd_ours(fd));
  int rc = NEXT(close)(fd);
  if (v != FAIL) return rc;
  errno = error_number;
  return -1;
}
int rename(const char *from, const char *to) {
  CALL(rename, CHANGES | NEEDS_ROOM, is_path_ours(AT_FDCWD, to), (from, to));
}
int renameat(int from_fd, const char *from, int to_fd, const char *to) {
  CALL(renameat, CHANGES | NEEDS_ROOM, is_path_ours(to_fd, to), (from_fd, from, to_fd, to));
}
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
  CALL(renameat2, CHANGES | NEEDS_ROOM, is_path_ours(to_fd, to), (from_fd, from, to_fd, to, flags));
}
int link(const char *from, const char *to) {
  CALL(link, CHANGES | NEEDS_ROOM, is_path_ours(AT_FDCWD, to), (from, to));
}
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
  CALL(linkat, CHANGES | NEEDS_ROOM, is_path_ours(to_fd, to), (from_fd, from, to_fd, to, flags));
}
int symlink(const char *target, const char *path) {
  CALL(symlink, CHANGES | NEEDS_ROOM, is_path_ours(AT_FDCWD, path), (target, path));
}
int symlinkat(const char *target, int fd, const char *path) {
  CALL(symlinkat, CHANGES | NEEDS_ROOM, is_path_ours(fd, path), (target, fd, path));
}
int unlink(const char *path) {
  CALL(unlink, CHANGES, is_path_ours(AT_FDCWD, path), (path));
}
int unlinkat(int fd, const char *path, int flags) {
  CALL(unlinkat, CHANGES, is_path_ours(fd, path), (fd, path, flags));
}
int rmdir(const char *path) {
  CALL(rmdir, CHANGES, is_path_ours(AT_FDCWD, path), (path));
}
int mkdir(const char *path, mode_t mode) {
  CALL(mkdir, CHANGES | NEEDS_ROOM, is_path_ours(AT_FDCWD, path), (path, mode));
}
int mkdirat(int fd, const char *path, mode_t mode) {
  CALL(mkdirat, CHANGES | NEEDS_ROOM, is_path_ours(fd, path), (fd, path, mode));
}
int stat(const char *path, struct stat *out) {
  CALL(stat, READS, is_path_ours(AT_FDCWD, path), (path, out));
}
int lstat(const char *path, struct stat *out) {
  CALL(lstat, READS, is_path_ours(AT_FDCWD, path), (path, out));
}
int fstat(int fd, struct stat *out) {
  CALL(fstat, READS, is_fd_ours(fd), (fd, out));
}
int fstatat(int fd, const char *path, struct stat *out, int flags) {
  CALL(fstatat, READS, is_path_ours(fd, path), (fd, path, out, flags));
}

struct dirent *readdir(DIR *dir) {
  if (judge("readdir", READS, is_fd_ours(dirfd(dir))) == FAIL) return NULL;
  return NEXT(readdir)(dir);
}
DIR *opendir(const char *path) {
  if (judge("opendir", READS, is_path_ours(AT_FDCWD, path)) == FAIL) return NULL;
  return NEXT(opendir)(path);
}

static unsigned open_kind(int flags) {
  unsigned kind = READS | SLEEPS;
  return flags & (O_CREAT | O_TRUNC | O_TMPFILE) & ~O_DIRECTORY ? kind | CHANGES | NEEDS_ROOM
                                                                : kind;
}

/* The mode is passed on as it came, there or not. */
#define OPEN_MODE(flags)         \
  mode_t mode;                   \
  do {                           \
    va_list args;                \
    va_start(args, flags);       \
    mode = va_arg(args, mode_t); \
    va_end(args);                \
  } while (0)

int open(const char *path, int flags, ...) {
  OPEN_MODE(flags);
  CALL(open, open_kind(flags), is_path_ours(AT_FDCWD, path), (path, flags, mode));
}
int openat(int fd, const char *path, int flags, ...) {
  OPEN_MODE(flags);
  CALL(openat, open_kind(flags), is_path_ours(fd, path), (fd, path, flags, mode));
}

static int waits_for_lock(int command) {
  return command == F_SETLKW || command == F_OFD_SETLKW;
}

static int is_lock(int command) {
  return command == F_SETLK || command == F_OFD_SETLK || waits_for_lock(command);
}

int fcntl(int fd, int command, ...) {
  va_list args;
  va_start(args, command);
  void *arg = va_arg(args, void *);
  va_end(args);
  unsigned kind = READS | UNLOCKS | (waits_for_lock(command) ? SLEEPS : 0);
  if (is_lock(command) && judge("fcntl", kind, is_fd_ours(fd)) == FAIL) return -1;
  return NEXT(fcntl)(fd, command, arg);
}
int flock(int fd, int operation) {
  unsigned kind = READS | UNLOCKS | (operation & LOCK_NB ? 0 : SLEEPS);
  CALL(flock, kind, is_fd_ours(fd), (fd, operation));
}

int ioctl(int fd, unsigned long request, ...) {
  va_list args;
  va_start(args, request);
  void *arg = va_arg(args, void *);
  va_end(args);
  CALL(ioctl, CHANGES | NEEDS_ROOM, is_fd_ours(fd), (fd, request, arg));
}

/* Calls that the C library has no function for are made through this. */
long syscall(long number, ...) {
  va_list args;
  va_start(args, number);
  long a[6];
  for (int i = 0; i < 6; i++) a[i] = va_arg(args, long);
  va_end(args);
  unsigned kind = number == SYS_openat2     ? READS | SLEEPS | CHANGES
                  : number == SYS_renameat2 ? CHANGES | NEEDS_ROOM
                                            : 0;
  if (kind) {
    int is_ours = number == SYS_openat2 ? is_path_ours((int)a[0], (const char *)a[1])
                                        : is_path_ours((int)a[2], (const char *)a[3]);
    if (judge("syscall", kind, is_ours) == FAIL) return -1;
  }
  return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* The names that programs built for large files, or with checks, are linked to: on 64-bit Linux the
 * same functions. What a checked one takes behind the plain one's arguments is passed over. */
#define ALSO(name, of) __asm__(".globl " #name "\n.set " #name ", " #of);
ALSO(open64, open)
ALSO(__open_2, open)
ALSO(__open64_2, open)
ALSO(openat64, openat)
ALSO(__openat_2, openat)
ALSO(__openat64_2, openat)
ALSO(__read_chk, read)
ALSO(pread64, pread)
ALSO(__pread_chk, pread)
ALSO(__pread64_chk, pread)
ALSO(pwrite64, pwrite)
ALSO(pwritev64, pwritev)
ALSO(ftruncate64, ftruncate)
ALSO(fallocate64, fallocate)
ALSO(posix_fallocate64, posix_fallocate)
ALSO(stat64, stat)
ALSO(lstat64, lstat)
ALSO(fstat64, fstat)
ALSO(fstatat64, fstatat)
ALSO(readdir64, readdir)
ALSO(fcntl64, fcntl)
