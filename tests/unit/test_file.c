#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/error.h"

typedef struct {
  char *folder;
  int fd;
} Fixture;

static void set_up(Fixture *f, gconstpointer data) {
  (void)data;
  f->folder = g_dir_make_tmp("ballast-file-XXXXXX", NULL);
  f->fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  g_assert_cmpint(f->fd, >=, 0);
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  close(f->fd);
  remove_tree(f->folder);
  g_free(f->folder);
}

static guint count_entries(const char *path) {
  g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
  guint n = 0;
  while (g_dir_read_name(dir) != NULL) n++;
  return n;
}

static void test_fds(Fixture *f, gconstpointer data) {
  (void)data;
  int kept;
  int seen;
  {
    bl_autofd fd = bl_open_at(f->fd, ".", O_RDONLY, 0, "folder", NULL);
    bl_autofd stolen = bl_open_at(f->fd, ".", O_RDONLY, 0, "folder", NULL);
    bl_autofd none = -1;
    g_assert_cmpint(fcntl(fd, F_GETFD), ==, FD_CLOEXEC);
    seen = fd;
    kept = bl_fd_steal(&stolen);
    g_assert_cmpint(stolen, ==, -1);
    g_assert_cmpint(none, ==, -1);
  }
  g_assert_cmpint(fcntl(seen, F_GETFD), ==, -1);
  g_assert_cmpint(fcntl(kept, F_GETFD), ==, FD_CLOEXEC);
  errno = EXDEV;
  bl_fd_clear(&kept);
  g_assert_cmpint(errno, ==, EXDEV);
  g_assert_cmpint(kept, ==, -1);
}

static void test_open_names_what(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_assert_cmpint(bl_open_at(f->fd, "no\nsuch", O_RDONLY, 0, "shard", &error), ==, -1);
  g_assert_error(error, BL_ERROR, BL_ERROR_NOT_FOUND);
  g_assert_nonnull(strstr(error->message, "shard \"no\\nsuch\""));
}

static void test_read_and_write(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  char bytes[16];
  bl_autofd fd = bl_open_at(f->fd, "x", O_RDWR | O_CREAT, 0666, "file", &error);
  g_assert_true(bl_write_all(fd, "01234", 5, &error));
  g_assert_true(bl_pwrite_all(fd, "56789", 5, 5, &error));
  g_assert_cmpint(bl_pread_some(fd, bytes, 16, 0, &error), ==, 10);
  g_assert_cmpmem(bytes, 10, "0123456789", 10);
  g_assert_cmpint(bl_pread_some(fd, bytes, 16, 10, &error), ==, 0);
  g_assert_cmpint(bl_pread_some(fd, bytes, 16, 1000, &error), ==, 0);
  g_assert_true(bl_pread_all(fd, bytes, 4, 6, &error));
  g_assert_cmpmem(bytes, 4, "6789", 4);
  g_assert_true(bl_fsync(fd, "x", &error));
  g_assert_no_error(error);
  g_assert_false(bl_pread_all(fd, bytes, 5, 6, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_assert_nonnull(strstr(error->message, "ends at byte 10"));
}

static void test_failed_calls(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  char byte = 0;
  bl_autofd fd = bl_open_at(f->fd, "x", O_RDONLY | O_CREAT, 0666, "file", &error);
  g_assert_false(bl_pwrite_all(fd, &byte, 1, 0, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_clear_error(&error);
  g_assert_false(bl_write_all(fd, &byte, 1, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_clear_error(&error);
  g_assert_cmpint(bl_pread_some(f->fd, &byte, 1, 0, &error), ==, -1);
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_clear_error(&error);
  int ends[2];
  g_assert_cmpint(pipe2(ends, O_CLOEXEC), ==, 0);
  g_assert_false(bl_fsync(ends[0], "pipe", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  close(ends[0]);
  close(ends[1]);
}

static void test_full_disk(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  g_autoptr(GError) error = NULL;
  bl_autofd fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (fd == -1) {
    g_test_skip("no /dev/full here");
    return;
  }
  g_assert_false(bl_write_all(fd, "x", 1, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
}

static void test_load(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_autofree char *bytes = NULL;
  gsize size = 99;
  g_assert_true(bl_file_replace(f->fd, "x", "a\0b", 3, 0644, &error));
  g_assert_true(bl_file_load(f->fd, "x", 3, &bytes, &size, &error));
  g_assert_cmpmem(bytes, size + 1, "a\0b", 4); /* the NUL behind it */
  g_clear_pointer(&bytes, g_free);
  g_assert_false(bl_file_load(f->fd, "x", 2, &bytes, &size, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  g_clear_error(&error);
  g_assert_null(bytes);
  g_assert_false(bl_file_load(f->fd, "absent", 2, &bytes, &size, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NOT_FOUND);
  g_clear_error(&error);
  g_assert_true(bl_file_replace(f->fd, "x", "", 0, 0644, &error));
  g_assert_true(bl_file_load(f->fd, "x", 0, &bytes, &size, &error));
  g_assert_cmpuint(size, ==, 0);
  g_assert_cmpstr(bytes, ==, "");
}

/* Files of /proc say that they have no bytes: what is read counts. */
static void test_load_unknown_size(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  g_autoptr(GError) error = NULL;
  g_autofree char *bytes = NULL;
  g_autofree char *none = NULL;
  gsize size = 0;
  g_assert_true(bl_file_load(AT_FDCWD, "/proc/self/smaps", 1 << 24, &bytes, &size, &error));
  g_assert_no_error(error);
  g_assert_cmpuint(size, >, 4096);
  g_assert_false(bl_file_load(AT_FDCWD, "/proc/self/smaps", 4096, &none, &size, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
}

static void test_load_only_files(Fixture *f, gconstpointer data) {
  (void)data;
  g_autofree char *bytes = NULL;
  gsize size;
  g_assert_cmpint(mkfifoat(f->fd, "fifo", 0666), ==, 0);
  static const char *const names[] = {"fifo", "."};
  for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_false(bl_file_load(f->fd, names[i], 100, &bytes, &size, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  }
}

static void test_replace(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_autofree char *bytes = NULL;
  gsize size;
  struct stat st;
  mode_t mask = umask(027);
  g_assert_cmpint(mkdirat(f->fd, "sub", 0777), ==, 0);
  g_assert_true(bl_file_replace(f->fd, "sub/x", "old", 3, 0444, &error));
  g_assert_true(bl_file_replace(f->fd, "sub/x", "new!", 4, 0444, &error));
  umask(mask);
  g_assert_no_error(error);
  g_assert_true(bl_file_load(f->fd, "sub/x", 100, &bytes, &size, &error));
  g_assert_cmpmem(bytes, size, "new!", 4);
  g_assert_cmpint(fstatat(f->fd, "sub/x", &st, 0), ==, 0);
  g_assert_cmphex(st.st_mode & 07777, ==, 0440);
  g_autofree char *sub = g_build_filename(f->folder, "sub", NULL);
  g_assert_cmpuint(count_entries(sub), ==, 1);

  g_autofree char *absolute = g_build_filename(f->folder, "y", NULL);
  g_assert_true(bl_file_replace(AT_FDCWD, absolute, "z", 1, 0644, &error));
  g_assert_true(g_file_test(absolute, G_FILE_TEST_IS_REGULAR));
}

/* A link that stands where the file goes is replaced itself, not what it points to. */
static void test_replace_link(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  struct stat st;
  g_assert_cmpint(symlinkat("elsewhere", f->fd, "x"), ==, 0);
  g_assert_true(bl_file_replace(f->fd, "x", "a", 1, 0644, &error));
  g_assert_cmpint(fstatat(f->fd, "x", &st, AT_SYMLINK_NOFOLLOW), ==, 0);
  g_assert_true(S_ISREG(st.st_mode));
  g_assert_cmpint(faccessat(f->fd, "elsewhere", F_OK, 0), ==, -1);
}

static void test_replace_fails_clean(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_file_replace(f->fd, "absent/x", "a", 1, 0644, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NOT_FOUND);
  g_clear_error(&error);
  g_assert_cmpint(mkdirat(f->fd, "folder", 0777), ==, 0);
  g_assert_false(bl_file_replace(f->fd, "folder", "a", 1, 0644, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_assert_nonnull(strstr(error->message, "\"folder\""));
  g_assert_cmpuint(count_entries(f->folder), ==, 1);
}

/* The write itself fails: the old file stays, the new one leaves nothing. */
static void test_replace_out_of_room(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_autofree char *big = g_strnfill(100000, 'b');
  g_autofree char *bytes = NULL;
  gsize size;
  g_assert_true(bl_file_replace(f->fd, "x", "old", 3, 0644, &error));
  struct rlimit before, small;
  g_assert_cmpint(getrlimit(RLIMIT_FSIZE, &before), ==, 0);
  small = before;
  small.rlim_cur = 50000;
  g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &small), ==, 0);
  gboolean replaced = bl_file_replace(f->fd, "x", big, 100000, 0644, &error);
  g_assert_cmpint(setrlimit(RLIMIT_FSIZE, &before), ==, 0);
  g_assert_false(replaced);
  g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
  g_clear_error(&error);
  g_assert_true(bl_file_load(f->fd, "x", 100, &bytes, &size, &error));
  g_assert_cmpmem(bytes, size, "old", 3);
  g_assert_cmpuint(count_entries(f->folder), ==, 1);
}

static void test_mkdirs(Fixture *f, gconstpointer data) {
  (void)data;
  struct stat st;
  static const char *const paths[] = {"a", "a/b/c", "a/b/c/", "d//e", "./f/g", "a/b/../h"};
  for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_true(bl_mkdirs(f->fd, paths[i], i % 2 == 0, &error));
    g_assert_no_error(error);
    g_assert_true(bl_mkdirs(f->fd, paths[i], TRUE, &error));
    g_assert_cmpint(fstatat(f->fd, paths[i], &st, 0), ==, 0);
    g_assert_true(S_ISDIR(st.st_mode));
  }
  g_autoptr(GError) error = NULL;
  g_autofree char *absolute = g_build_filename(f->folder, "x", "y", NULL);
  g_assert_true(bl_mkdirs(AT_FDCWD, absolute, TRUE, &error));
  g_assert_true(g_file_test(absolute, G_FILE_TEST_IS_DIR));
  g_assert_true(bl_mkdirs(AT_FDCWD, "/", TRUE, &error));
}

static void test_mkdirs_in_the_way(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) fault = NULL;
  g_assert_true(bl_file_replace(f->fd, "file", "", 0, 0644, &fault));
  g_assert_cmpint(symlinkat("nowhere", f->fd, "dangling"), ==, 0);
  static const char *const paths[] = {"file", "file/x", "dangling", "dangling/x"};
  for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_false(bl_mkdirs(f->fd, paths[i], FALSE, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_EXISTS);
    g_assert_nonnull(strstr(error->message, "no folder"));
  }
}

static void test_tokens(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < 1000; i++) {
    char token[33];
    bl_token_make(token);
    g_assert_cmpuint(strlen(token), ==, 32);
    g_assert_cmpuint(strspn(token, "0123456789abcdef"), ==, 32);
    g_assert_true(g_hash_table_add(seen, g_strdup(token)));
  }
}

#define ADD(name, func) g_test_add("/file/" name, Fixture, NULL, set_up, func, tear_down)

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  signal(SIGXFSZ, SIG_IGN);
  ADD("fds", test_fds);
  ADD("open-names-what", test_open_names_what);
  ADD("read-and-write", test_read_and_write);
  ADD("failed-calls", test_failed_calls);
  ADD("full-disk", test_full_disk);
  ADD("load", test_load);
  ADD("load-unknown-size", test_load_unknown_size);
  ADD("load-only-files", test_load_only_files);
  ADD("replace", test_replace);
  ADD("replace-link", test_replace_link);
  ADD("replace-fails-clean", test_replace_fails_clean);
  ADD("replace-out-of-room", test_replace_out_of_room);
  ADD("mkdirs", test_mkdirs);
  ADD("mkdirs-in-the-way", test_mkdirs_in_the_way);
  ADD("tokens", test_tokens);
  return g_test_run();
}
