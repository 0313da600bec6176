/* A file system with one file, "image", which is a disk to put under a loop device. It logs every
 * write and every flush in the order in which they came, so that the disk can be rebuilt as it was,
 * or could have been, at any moment (tests/support/replay.py).
 *
 *   flushlog IMAGE LOG MOUNTPOINT
 *
 * IMAGE is read at the start and never written: the disk is in memory. What is written to the
 * second file, "mark", goes to the log as it is: the test says there what was acknowledged. A
 * record of the log is three numbers of 8 bytes, in the machine's byte order (kind: 'w', 'f' or
 * 'm'; offset; size), and size bytes of data. One thread, so the log's order is the order in which
 * the calls were answered. */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char *disk;
static size_t disk_size;
static int log_fd;

/* The log is all that this program is for. */
static void add_record(char kind, uint64_t offset, const char *data, uint64_t size) {
  uint64_t head[3] = {(unsigned char)kind, offset, size};
  struct iovec parts[2] = {{head, sizeof head}, {(void *)data, size}};
  if (writev(log_fd, parts, 2) != (ssize_t)(sizeof head + size)) {
    perror("flushlog: the log");
    _exit(1);
  }
}

static int is_image(const char *path) {
  return strcmp(path, "/image") == 0;
}

static int is_mark(const char *path) {
  return strcmp(path, "/mark") == 0;
}

static int get_attributes(const char *path, struct stat *st, struct fuse_file_info *info) {
  (void)info;
  memset(st, 0, sizeof *st);
  st->st_nlink = 1;
  if (strcmp(path, "/") == 0) {
    st->st_mode = S_IFDIR | 0755;
    return 0;
  }
  if (!is_image(path) && !is_mark(path)) return -ENOENT;
  st->st_mode = S_IFREG | 0600;
  st->st_size = is_image(path) ? (off_t)disk_size : 0;
  return 0;
}

static int open_file(const char *path, struct fuse_file_info *info) {
  info->direct_io = is_mark(path);
  return 0;
}

static int read_file(const char *path, char *data, size_t size, off_t offset,
                     struct fuse_file_info *info) {
  (void)info;
  if (!is_image(path) || (size_t)offset >= disk_size) return 0;
  if (size > disk_size - (size_t)offset) size = disk_size - (size_t)offset;
  memcpy(data, disk + offset, size);
  return (int)size;
}

static int write_file(const char *path, const char *data, size_t size, off_t offset,
                      struct fuse_file_info *info) {
  (void)info;
  if (is_mark(path)) {
    add_record('m', 0, data, size);
    return (int)size;
  }
  if ((size_t)offset > disk_size || size > disk_size - (size_t)offset) return -ENOSPC;
  memcpy(disk + offset, data, size);
  add_record('w', (uint64_t)offset, data, size);
  return (int)size;
}

static int flush_disk(const char *path, int is_data_only, struct fuse_file_info *info) {
  (void)is_data_only, (void)info;
  if (is_image(path)) add_record('f', 0, NULL, 0);
  return 0;
}

/* Whoever opens "mark" may ask to empty it. */
static int set_size(const char *path, off_t size, struct fuse_file_info *info) {
  (void)size, (void)info;
  return is_mark(path) ? 0 : -EPERM;
}

static const struct fuse_operations operations = {
    .getattr = get_attributes,
    .open = open_file,
    .read = read_file,
    .write = write_file,
    .fsync = flush_disk,
    .truncate = set_size,
};

static int read_disk(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) return -1;
  disk_size = (size_t)st.st_size;
  disk = malloc(disk_size);
  if (!disk) return -1;
  for (size_t at = 0; at < disk_size;) {
    ssize_t n = pread(fd, disk + at, disk_size - at, (off_t)at);
    if (n <= 0) return -1;
    at += (size_t)n;
  }
  return close(fd);
}

int main(int n_args, char **args) {
  if (n_args != 4) {
    fprintf(stderr, "usage: flushlog IMAGE LOG MOUNTPOINT\n");
    return 2;
  }
  log_fd = open(args[2], O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0 || read_disk(args[1]) != 0) {
    perror("flushlog");
    return 1;
  }
  char *fuse_args[] = {args[0], "-f", "-s", args[3]};
  return fuse_main(4, fuse_args, &operations, NULL);
}
