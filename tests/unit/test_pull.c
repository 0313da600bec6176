#include "model/pull.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "checkpoint.h"
#include "model/pull_lock.h"
#include "model/usage.h"
#include "store/dir.h"
#include "store/fault.h"
#include "store/memory.h"

#define BLOCK BL_BLOCK_SIZE

static const TestFile files[] = {
    {"README.md", 300, 0, FALSE},
    {"big.bin", 20 * 1024 * 1024 + 3, 0, FALSE},
    {"chunked.bin", BLOCK + 77, 1000000, FALSE},
    {"empty", 0, 0, FALSE},
    {"sub/dir/run.sh", 40, 0, TRUE},
    {"sub/weights.bin", 700000, 0, FALSE},
};

/* A folder of the test's own, with a local store "store" that holds checkpoint "x", and a target
 * "out". */
typedef struct {
  char *base, *out;
  BlStore *store;
} Fixture;

static char *below(const Fixture *f, const char *path) {
  return g_build_filename(f->base, path, NULL);
}

static void open_fixture(Fixture *f, TestParts parts) {
  g_autoptr(GError) error = NULL;
  f->base = g_dir_make_tmp("ballast-pull-XXXXXX", &error);
  g_assert_no_error(error);
  f->out = below(f, "out");
  g_autofree char *path = below(f, "store");
  f->store = bl_dir_store_open(path, TRUE, &error);
  g_assert_no_error(error);
  test_put_checkpoint(f->store, "x", files, G_N_ELEMENTS(files), parts);
}

static void close_fixture(Fixture *f) {
  bl_store_free(f->store);
  remove_tree(f->base);
  g_free(f->base);
  g_free(f->out);
}

static BlPullResult pull(Fixture *f, BlPullOptions options) {
  g_autoptr(GError) error = NULL;
  BlPullResult result;
  BlJob job;
  bl_job_init(&job);
  bl_pull(f->store, "x", f->out, &options, &job, &result, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(job.done_bytes, ==, job.total_bytes);
  g_assert_cmpuint(job.done_files, ==, job.total_files);
  bl_job_clear(&job);
  return result;
}

static void expect_failure(Fixture *f, BlPullOptions options, BlErrorCode code, const char *says) {
  g_autoptr(GError) error = NULL;
  BlPullResult result;
  g_assert_false(bl_pull(f->store, "x", f->out, &options, NULL, &result, &error));
  g_assert_error(error, BL_ERROR, (gint)code);
  if (strstr(error->message, says) == NULL)
    g_error("\"%s\" does not say \"%s\"", error->message, says);
}

static char *out_path(const Fixture *f, const char *path) {
  return g_build_filename(f->out, path, NULL);
}

static void assert_content(const Fixture *f, const TestFile *file) {
  g_autofree char *path = out_path(f, file->path);
  g_autofree guint8 *wanted = test_bytes(file);
  g_autofree char *data = NULL;
  gsize size;
  g_autoptr(GError) error = NULL;
  g_file_get_contents(path, &data, &size, &error);
  g_assert_no_error(error);
  g_assert_cmpmem(data, size, wanted, file->size);
}

static void assert_all(const Fixture *f) {
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) assert_content(f, &files[i]);
}

static gboolean is_there(const Fixture *f, const char *path) {
  g_autofree char *name = out_path(f, path);
  return g_file_test(name, G_FILE_TEST_EXISTS) || g_file_test(name, G_FILE_TEST_IS_SYMLINK);
}

/* Nothing of a pull is left but its files and, where it ended well, its record. */
static void assert_tidy(const Fixture *f, gboolean has_record) {
  g_assert_false(is_there(f, ".ballast/tmp"));
  g_assert_cmpint(is_there(f, ".ballast/pull.json"), ==, has_record);
  g_assert_cmpint(is_there(f, ".ballast"), ==, has_record);
}

static char *load_record(const Fixture *f) {
  g_autofree char *path = out_path(f, ".ballast/pull.json");
  char *text = NULL;
  g_file_get_contents(path, &text, NULL, NULL);
  return text;
}

static void put_file(const Fixture *f, const char *path, const char *content) {
  g_autofree char *name = out_path(f, path);
  g_autofree char *folder = g_path_get_dirname(name);
  g_assert_cmpint(g_mkdir_with_parents(folder, 0755), ==, 0);
  g_assert_true(g_file_set_contents(name, content, -1, NULL));
}

static mode_t mode_of(const Fixture *f, const char *path) {
  g_autofree char *name = out_path(f, path);
  struct stat status;
  g_assert_cmpint(lstat(name, &status), ==, 0);
  return status.st_mode & 07777;
}

static void test_copy(void) {
  Fixture f;
  open_fixture(&f, TEST_DIGESTS | TEST_INFO);
  mode_t old = umask(027);
  BlPullResult result = pull(&f, (BlPullOptions){.link = BL_LINK_COPY});
  umask(old);
  assert_all(&f);
  assert_tidy(&f, TRUE);
  g_assert_cmpuint(result.n_files, ==, G_N_ELEMENTS(files));
  g_assert_cmpuint(result.n_files_written, ==, G_N_ELEMENTS(files));
  g_assert_cmpuint(result.n_files_kept, ==, 0);
  g_assert_cmpuint(result.n_bytes_written, ==, result.n_bytes);
  g_assert_cmpint(result.link, ==, BL_LINK_COPY);
  g_assert_cmpuint(mode_of(&f, "README.md"), ==, 0640);
  g_assert_cmpuint(mode_of(&f, "sub/dir/run.sh"), ==, 0750);
  g_assert_cmpuint(mode_of(&f, "sub/dir"), ==, 0750);

  g_autofree char *record = load_record(&f);
  g_assert_nonnull(strstr(record, "\"checkpoint_id\":\"x\""));
  g_assert_nonnull(strstr(record, "\"complete\":true"));
  g_assert_nonnull(strstr(record, "\"link\":\"copy\""));

  /* Again: nothing is written, the record stays as it is. */
  result = pull(&f, (BlPullOptions){.link = BL_LINK_AUTO});
  g_assert_cmpuint(result.n_files_written, ==, 0);
  g_assert_cmpuint(result.n_files_kept, ==, G_N_ELEMENTS(files));
  g_autofree char *again = load_record(&f);
  g_assert_cmpstr(again, ==, record);
  close_fixture(&f);
}

/* More files than are made durable one by one. */
static void test_many(void) {
  Fixture f;
  open_fixture(&f, 0);
  TestFile many[200];
  char names[200][32];
  for (guint i = 0; i < 200; i++) {
    g_snprintf(names[i], sizeof names[i], "d%u/f%u", i % 7, i);
    many[i] = (TestFile){names[i], i * 100, 0, FALSE};
  }
  many[0].size = 17 * 1024 * 1024;
  test_put_checkpoint(f.store, "many", many, 200, 0);
  BlPullOptions options = {.link = BL_LINK_COPY};
  BlPullResult result;
  g_assert_true(bl_pull(f.store, "many", f.out, &options, NULL, &result, NULL));
  for (guint i = 0; i < 200; i++) assert_content(&f, &many[i]);
  assert_tidy(&f, TRUE);
  g_assert_cmpuint(result.n_files_written, ==, 200);
  close_fixture(&f);
}

static void test_globs(void) {
  Fixture f;
  open_fixture(&f, 0);
  char *include[] = {(char[]){"sub/"}, NULL}, *exclude[] = {(char[]){"*.sh"}, NULL};
  char *none[] = {(char[]){"nothing*"}, NULL};
  BlPullResult result = pull(&f, (BlPullOptions){.include = include, .exclude = exclude});
  g_assert_cmpuint(result.n_files, ==, 1);
  assert_content(&f, &files[5]);
  g_assert_false(is_there(&f, "README.md"));
  g_assert_false(is_there(&f, "sub/dir"));
  expect_failure(&f, (BlPullOptions){.include = none}, BL_ERROR_NOT_FOUND, "none of its 6 files");

  pull(&f, (BlPullOptions){0});
  g_autofree char *whole = load_record(&f);
  pull(&f, (BlPullOptions){.include = include});
  g_autofree char *part = load_record(&f);
  g_assert_cmpstr(part, ==, whole);
  close_fixture(&f);
}

/* Files that differ are named before anything is written; --force replaces them; others stay. */
static void test_differing(void) {
  Fixture f;
  open_fixture(&f, 0);
  g_autofree char *readme = out_path(&f, "README.md");
  g_autofree guint8 *bytes = test_bytes(&files[0]);
  put_file(&f, "extra", "mine");
  put_file(&f, "sub/weights.bin", "other");
  bytes[10] ^= 1;
  g_assert_true(g_file_set_contents(readme, (char *)bytes, 300, NULL));
  g_autofree char *empty = out_path(&f, "empty");
  g_assert_cmpint(symlink("elsewhere", empty), ==, 0);

  expect_failure(&f, (BlPullOptions){0}, BL_ERROR_EXISTS,
                 "3 there are not what checkpoint \"x\" has");
  expect_failure(&f, (BlPullOptions){0}, BL_ERROR_EXISTS, "\"sub/weights.bin\"");
  expect_failure(&f, (BlPullOptions){0}, BL_ERROR_EXISTS, "\"empty\"");
  g_assert_false(is_there(&f, "big.bin"));
  g_assert_false(is_there(&f, ".ballast"));

  int old = open(readme, O_RDONLY);
  BlPullResult result = pull(&f, (BlPullOptions){.force = TRUE});
  g_assert_cmpuint(result.n_files_written, ==, G_N_ELEMENTS(files));
  assert_all(&f);
  g_assert_false(g_file_test(empty, G_FILE_TEST_IS_SYMLINK));
  g_assert_true(is_there(&f, "extra"));
  /* Whoever has the old file mapped or open keeps it. */
  char first[300];
  g_assert_cmpint(read(old, first, sizeof first), ==, 300);
  g_assert_cmpmem(first, 300, bytes, 300);
  close(old);
  close_fixture(&f);
}

/* What is right already stays, the same inode; only the rest is written. */
static void test_resume(void) {
  Fixture f;
  open_fixture(&f, 0);
  pull(&f, (BlPullOptions){0});
  g_autofree char *big = out_path(&f, "big.bin");
  g_autofree char *weights = out_path(&f, "sub/weights.bin");
  struct stat before, after;
  g_assert_cmpint(stat(big, &before), ==, 0);
  g_assert_cmpint(unlink(weights), ==, 0);
  BlPullResult result = pull(&f, (BlPullOptions){0});
  g_assert_cmpint(stat(big, &after), ==, 0);
  g_assert_cmpuint(before.st_ino, ==, after.st_ino);
  g_assert_cmpuint(result.n_files_written, ==, 1);
  g_assert_cmpuint(result.n_bytes_written, ==, 700000);
  assert_all(&f);
  close_fixture(&f);
}

/* Nothing is written outside the folder, whatever stands in it. */
static void test_outside(void) {
  Fixture f;
  open_fixture(&f, 0);
  g_autofree char *outside = below(&f, "outside");
  g_autofree char *sub = out_path(&f, "sub");
  g_autofree char *own = out_path(&f, ".ballast");
  g_assert_cmpint(g_mkdir(outside, 0755), ==, 0);
  g_assert_cmpint(g_mkdir(f.out, 0755), ==, 0);
  g_assert_cmpint(symlink(outside, sub), ==, 0);
  expect_failure(&f, (BlPullOptions){0}, BL_ERROR_EXISTS, "is a symbolic link");
  expect_failure(&f, (BlPullOptions){.force = TRUE}, BL_ERROR_EXISTS,
                 "/out/sub\" is a symbolic link");
  g_assert_cmpint(unlink(sub), ==, 0);

  put_file(&f, "sub", "a file");
  expect_failure(&f, (BlPullOptions){.force = TRUE}, BL_ERROR_EXISTS, "where a folder must be");
  g_assert_cmpint(unlink(sub), ==, 0);

  g_autofree char *readme = out_path(&f, "README.md");
  g_assert_cmpint(g_mkdir(readme, 0755), ==, 0);
  expect_failure(&f, (BlPullOptions){.force = TRUE}, BL_ERROR_EXISTS,
                 "is a folder where a file must go");
  g_assert_cmpint(rmdir(readme), ==, 0);
  g_assert_cmpint(mkfifo(readme, 0666), ==, 0);
  expect_failure(&f, (BlPullOptions){.force = TRUE}, BL_ERROR_EXISTS, "is a special file");
  g_assert_cmpint(unlink(readme), ==, 0);

  g_assert_cmpint(symlink(outside, own), ==, 0);
  expect_failure(&f, (BlPullOptions){0}, BL_ERROR_EXISTS, ".ballast");
  g_assert_cmpint(rmdir(outside), ==, 0); /* still empty */
  close_fixture(&f);
}

/* A damaged object names file and block, gets no name, and leaves what was right. */
static void test_damaged(void) {
  Fixture f;
  open_fixture(&f, TEST_DIGESTS);
  test_flip_byte(f.store, "x", "big.bin", 0, 9 * 1024 * 1024);
  char *exclude[] = {(char[]){"big.bin"}, NULL};
  pull(&f, (BlPullOptions){.exclude = exclude});
  expect_failure(&f, (BlPullOptions){.link = BL_LINK_COPY}, BL_ERROR_CORRUPT,
                 "\"big.bin\": block 2 ");
  g_assert_false(is_there(&f, "big.bin"));
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++)
    if (i != 1) assert_content(&f, &files[i]);
  assert_tidy(&f, FALSE); /* "complete" was no longer true */

  static const BlLinkMode links[] = {BL_LINK_HARDLINK, BL_LINK_SYMLINK};
  for (gsize i = 0; i < G_N_ELEMENTS(links); i++)
    expect_failure(&f, (BlPullOptions){.link = links[i], .verify = TRUE}, BL_ERROR_CORRUPT,
                   "block 2 ");
  test_resize_chunk(f.store, "x", "big.bin", 0, 77);
  for (gsize i = 0; i < G_N_ELEMENTS(links); i++)
    expect_failure(&f, (BlPullOptions){.link = links[i]}, BL_ERROR_CORRUPT, "77 bytes of 20971523");
  test_remove_chunk(f.store, "x", "big.bin", 0);
  expect_failure(&f, (BlPullOptions){.link = BL_LINK_HARDLINK}, BL_ERROR_CORRUPT,
                 "missing from the store");
  expect_failure(&f, (BlPullOptions){0}, BL_ERROR_CORRUPT, "missing from the store");
  g_assert_false(is_there(&f, "big.bin"));
  close_fixture(&f);
}

static void test_hardlink(void) {
  Fixture f;
  open_fixture(&f, TEST_INFO);
  BlPullOptions options = {.link = BL_LINK_HARDLINK};
  BlPullResult result = pull(&f, options);
  g_assert_cmpint(result.link, ==, BL_LINK_HARDLINK);
  assert_all(&f);
  assert_tidy(&f, TRUE);
  g_autofree char *big = out_path(&f, "big.bin");
  g_autofree char *script = out_path(&f, "sub/dir/run.sh");
  g_autofree char *chunked = out_path(&f, "chunked.bin");
  struct stat status;
  g_assert_cmpint(lstat(big, &status), ==, 0);
  g_assert_cmpuint(status.st_nlink, ==, 2);
  g_assert_cmpuint(status.st_mode & 0222, ==, 0);
  g_assert_cmpint(lstat(script, &status), ==, 0);
  g_assert_cmpuint(status.st_nlink, ==, 1);
  g_assert_cmpuint(status.st_mode & 0100, ==, 0100);
  g_assert_cmpint(lstat(chunked, &status), ==, 0);
  g_assert_cmpuint(status.st_nlink, ==, 1);

  result = pull(&f, options);
  g_assert_cmpuint(result.n_files_written, ==, 0);
  options.force = TRUE;
  result = pull(&f, options);
  g_assert_cmpuint(result.n_files_written, ==, 0);
  close_fixture(&f);
}

static void test_symlink(void) {
  Fixture f;
  open_fixture(&f, TEST_INFO);
  BlPullOptions options = {.link = BL_LINK_SYMLINK, .verify = TRUE};
  pull(&f, options);
  assert_all(&f);
  g_autofree char *big = out_path(&f, "big.bin");
  g_autofree char *target = g_file_read_link(big, NULL);
  g_assert_nonnull(target);
  g_assert_true(g_path_is_absolute(target));
  BlPullResult result = pull(&f, options);
  g_assert_cmpuint(result.n_files_written, ==, 0);
  expect_failure(&f, (BlPullOptions){.link = BL_LINK_COPY}, BL_ERROR_EXISTS, "\"big.bin\"");
  pull(&f, (BlPullOptions){.link = BL_LINK_COPY, .force = TRUE});
  g_assert_false(g_file_test(big, G_FILE_TEST_IS_SYMLINK));
  close_fixture(&f);
}

/* Links that are not possible say what is. */
static void test_no_links(void) {
  Fixture f;
  open_fixture(&f, 0);
  g_autoptr(BlStore) memory = bl_memory_store_new(BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_OPEN_FD);
  test_put_checkpoint(memory, "x", files, G_N_ELEMENTS(files), 0);
  BlStore *local = f.store;
  f.store = memory;
  static const BlLinkMode links[] = {BL_LINK_REFLINK, BL_LINK_HARDLINK, BL_LINK_SYMLINK};
  for (gsize i = 0; i < G_N_ELEMENTS(links); i++)
    expect_failure(&f, (BlPullOptions){.link = links[i]}, BL_ERROR_UNSUPPORTED, "--link=copy");
  BlPullResult result = pull(&f, (BlPullOptions){.link = BL_LINK_AUTO});
  g_assert_cmpint(result.link, ==, BL_LINK_COPY);
  assert_all(&f);
  f.store = local;
  close_fixture(&f);
}

/* Temporaries of a pull that was killed go with the next; those of a living one stay. */
static void test_leftovers(void) {
  Fixture f;
  open_fixture(&f, 0);
  g_assert_cmpint(g_mkdir(f.out, 0755), ==, 0);
  put_file(&f, ".ballast/tmp/0123456789abcdef0123456789abcdef.lock", "");
  put_file(&f, ".ballast/tmp/0123456789abcdef0123456789abcdef/7", "half a file");
  put_file(&f, ".ballast/tmp/11111111111111111111111111111111/names/a", "");
  put_file(&f, ".ballast/tmp/22222222222222222222222222222222.lock", "");
  put_file(&f, ".ballast/tmp/22222222222222222222222222222222/3", "half a file");
  g_autofree char *lock = out_path(&f, ".ballast/tmp/22222222222222222222222222222222.lock");
  int fd = open(lock, O_RDWR);
  struct flock held = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  g_assert_cmpint(fcntl(fd, F_OFD_SETLK, &held), ==, 0);

  pull(&f, (BlPullOptions){0});
  g_assert_false(is_there(&f, ".ballast/tmp/0123456789abcdef0123456789abcdef"));
  g_assert_false(is_there(&f, ".ballast/tmp/0123456789abcdef0123456789abcdef.lock"));
  g_assert_false(is_there(&f, ".ballast/tmp/11111111111111111111111111111111"));
  g_assert_true(is_there(&f, ".ballast/tmp/22222222222222222222222222222222/3"));
  close(fd);
  g_autofree char *readme = out_path(&f, "README.md");
  g_assert_cmpint(unlink(readme), ==, 0);
  pull(&f, (BlPullOptions){0});
  assert_tidy(&f, TRUE);
  close_fixture(&f);
}

/* Many pulls into one folder at once: all succeed. */
static void test_parallel(void) {
  Fixture f;
  open_fixture(&f, TEST_INFO);
  static const BlLinkMode links[] = {BL_LINK_COPY, BL_LINK_HARDLINK};
  for (gsize round = 0; round < 4; round++) {
    pid_t pids[8];
    for (gsize i = 0; i < G_N_ELEMENTS(pids); i++) {
      pids[i] = fork();
      if (pids[i] != 0) continue;
      BlPullOptions options = {.link = links[round % 2]};
      BlPullResult result;
      g_autoptr(GError) error = NULL;
      gboolean ok = bl_pull(f.store, "x", f.out, &options, NULL, &result, &error);
      if (!ok) g_printerr("# %s\n", error->message);
      _exit(ok ? 0 : 1);
    }
    for (gsize i = 0; i < G_N_ELEMENTS(pids); i++) {
      int status;
      g_assert_cmpint(waitpid(pids[i], &status, 0), ==, pids[i]);
      g_assert_cmpint(status, ==, 0);
    }
    assert_all(&f);
    assert_tidy(&f, TRUE);
    remove_tree(f.out);
  }
  close_fixture(&f);
}

static void test_cancelled(void) {
  Fixture f;
  open_fixture(&f, 0);
  BlJob job;
  bl_job_init(&job);
  job.cancelled = 1;
  BlPullOptions options = {0};
  BlPullResult result;
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_pull(f.store, "x", f.out, &options, &job, &result, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CANCELLED);
  g_assert_nonnull(strstr(error->message, "0 of 6 files are whole"));
  assert_tidy(&f, FALSE);
  bl_job_clear(&job);
  close_fixture(&f);
}

/* The use is recorded, and the checkpoint is held while it is read. A store that takes no record
 * gives the files all the same. */
static void test_use(void) {
  Fixture f;
  open_fixture(&f, TEST_DIGESTS | TEST_INFO);
  BlPullOptions options = {.link = BL_LINK_COPY};
  g_assert_cmpint(bl_usage_get(f.store, "x"), ==, 0);
  gint64 before = g_get_real_time();
  pull(&f, options);
  g_assert_cmpint(bl_usage_get(f.store, "x"), >=, before);
  remove_tree(f.out);
  BlKeyBuffer key;
  BlHoldState state;
  g_assert_true(bl_store_is_held(f.store, bl_key_manifest(key, "x"), &state, NULL));
  g_assert_cmpint(state, !=, BL_HOLD_HELD);

  f.store = bl_fault_store_new(f.store);
  static const BlFaultOp ops[] = {BL_FAULT_PUT, BL_FAULT_HOLD_SHARED};
  for (gsize i = 0; i < G_N_ELEMENTS(ops); i++) {
    BlFaultRule rule = {ops[i], 1, 0, TRUE, BL_ERROR_DENIED, 0};
    bl_fault_store_set_rule(f.store, &rule);
    pull(&f, options);
    g_assert_cmpuint(bl_fault_store_n_hits(f.store), ==, 1);
    assert_all(&f);
    remove_tree(f.out);
  }
  close_fixture(&f);
}

/* Every call of the store fails once: an error, no half file, and the next pull finishes it. */
static void test_faults(void) {
  Fixture f;
  open_fixture(&f, TEST_DIGESTS | TEST_INFO);
  f.store = bl_fault_store_new(f.store);
  /* Without the record of the use and the hold, whose failures nobody hears of. */
  f.store->caps = (f.store->caps | BL_STORE_IS_READ_ONLY) & ~BL_STORE_CAN_HOLD;
  guint64 n = 0, hits = 1;
  while (hits > 0) {
    BlFaultRule rule = {BL_FAULT_ANY, ++n, 1, TRUE, BL_ERROR_IO, 0};
    BlPullOptions options = {.link = BL_LINK_COPY};
    BlPullResult result;
    g_autoptr(GError) error = NULL;
    bl_fault_store_set_rule(f.store, &rule);
    gboolean ok = bl_pull(f.store, "x", f.out, &options, NULL, &result, &error);
    hits = bl_fault_store_n_hits(f.store);
    g_assert_cmpint(ok, ==, hits == 0);
    g_assert_cmpint(ok, ==, is_there(&f, ".ballast/pull.json"));
    for (gsize i = 0; i < G_N_ELEMENTS(files); i++)
      if (is_there(&f, files[i].path)) assert_content(&f, &files[i]);
    if (!ok) g_assert_error(error, BL_ERROR, BL_ERROR_IO);
    BlFaultRule none = {0};
    bl_fault_store_set_rule(f.store, &none);
    pull(&f, options);
    assert_all(&f);
    remove_tree(f.out);
  }
  g_assert_cmpuint(n, >, 5);
  close_fixture(&f);
}

static void test_file(void) {
  Fixture f;
  open_fixture(&f, TEST_DIGESTS | TEST_INFO);
  g_autofree char *output = out_path(&f, "deep/run");
  g_autofree char *folder = out_path(&f, "deep");
  BlPullOptions options = {0};
  BlPullResult result;
  g_autoptr(GError) error = NULL;
  put_file(&f, "deep/.ballast-tmp-0123456789abcdef0123456789abcdef-0", "left by a killed one");
  g_assert_true(
      bl_pull_file(f.store, "x", "sub/dir/run.sh", output, &options, NULL, &result, &error));
  g_assert_cmpuint(result.n_files_written, ==, 1);
  g_assert_cmpuint(mode_of(&f, "deep/run") & 0100, ==, 0100);
  g_assert_false(is_there(&f, "deep/.ballast-tmp-0123456789abcdef0123456789abcdef-0"));
  g_assert_false(is_there(&f, "deep/.ballast"));
  g_assert_true(
      bl_pull_file(f.store, "x", "sub/dir/run.sh", output, &options, NULL, &result, &error));
  g_assert_cmpuint(result.n_files_kept, ==, 1);

  g_assert_false(bl_pull_file(f.store, "x", "README.md", output, &options, NULL, &result, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_EXISTS);
  g_clear_error(&error);
  g_assert_false(bl_pull_file(f.store, "x", "README.md", folder, &options, NULL, &result, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_EXISTS);
  g_clear_error(&error);
  g_assert_false(bl_pull_file(f.store, "x", "no such", output, &options, NULL, &result, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NOT_FOUND);
  g_clear_error(&error);
  options.force = TRUE;
  g_assert_true(bl_pull_file(f.store, "x", "README.md", output, &options, NULL, &result, &error));
  g_assert_cmpuint(mode_of(&f, "deep/run") & 0100, ==, 0);
  close_fixture(&f);
}

static void test_own_folder_in_checkpoint(void) {
  Fixture f;
  open_fixture(&f, 0);
  const TestFile odd[] = {{".ballast/pull.json", 10, 0, FALSE}, {"a", 10, 0, FALSE}};
  test_put_checkpoint(f.store, "odd", odd, 2, 0);
  BlPullOptions options = {0};
  BlPullResult result;
  g_assert_true(bl_pull(f.store, "odd", f.out, &options, NULL, &result, NULL));
  g_assert_cmpuint(result.n_files, ==, 1);
  g_autofree char *record = load_record(&f);
  g_assert_nonnull(strstr(record, "\"checkpoint_id\":\"odd\""));
  close_fixture(&f);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/pull/copy", test_copy);
  g_test_add_func("/pull/many", test_many);
  g_test_add_func("/pull/globs", test_globs);
  g_test_add_func("/pull/differing", test_differing);
  g_test_add_func("/pull/resume", test_resume);
  g_test_add_func("/pull/outside", test_outside);
  g_test_add_func("/pull/damaged", test_damaged);
  g_test_add_func("/pull/hardlink", test_hardlink);
  g_test_add_func("/pull/symlink", test_symlink);
  g_test_add_func("/pull/no-links", test_no_links);
  g_test_add_func("/pull/leftovers", test_leftovers);
  g_test_add_func("/pull/parallel", test_parallel);
  g_test_add_func("/pull/cancelled", test_cancelled);
  g_test_add_func("/pull/use", test_use);
  g_test_add_func("/pull/faults", test_faults);
  g_test_add_func("/pull/file", test_file);
  g_test_add_func("/pull/own-folder-in-checkpoint", test_own_folder_in_checkpoint);
  return g_test_run();
}
