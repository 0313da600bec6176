#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint.h"
#include "model/pull.h"
#include "store/memory.h"

#define BLOCK BL_BLOCK_SIZE

static const TestFile files[] = {
    {"chunked.bin", 2 * BLOCK + 1000, 1000000, FALSE},
    {"empty", 0, 0, FALSE},
    {"whole.bin", BLOCK + 77, 0, FALSE},
};

static BlStore *make_store(TestParts parts) {
  BlStore *store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  test_put_checkpoint(store, "x", files, G_N_ELEMENTS(files), parts);
  return store;
}

/* What cat wrote, and whether it succeeded. */
static GByteArray *cat(BlStore *store, const char *path, guint64 first, guint64 last,
                       GError **error) {
  FILE *file = tmpfile();
  g_assert_nonnull(file);
  int fd = fileno(file);
  bl_cat(store, "x", path, first, last, fd, NULL, NULL, error);
  off_t size = lseek(fd, 0, SEEK_END);
  GByteArray *bytes = g_byte_array_new();
  g_byte_array_set_size(bytes, (guint)size);
  g_assert_true(bl_pread_all(fd, bytes->data, (gsize)size, 0, NULL));
  fclose(file);
  return bytes;
}

static void check_ranges(TestParts parts) {
  static const guint64 ranges[][2] = {
      {0, G_MAXUINT64},
      {0, 0},
      {5, 6},
      {999999, 1000000},
      {BLOCK - 1, BLOCK},
      {BLOCK, G_MAXUINT64},
      {0, 4000},
      {BLOCK + 76, BLOCK + 76},
      {10, 1u << 30},
  };
  g_autoptr(BlStore) store = make_store(parts);
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++)
    for (gsize j = 0; j < G_N_ELEMENTS(ranges); j++) {
      guint64 first = ranges[j][0], last = MIN(ranges[j][1], MAX(files[i].size, 1) - 1);
      if (files[i].size == 0 && j > 0) continue;
      g_autofree guint8 *wanted = test_bytes(&files[i]);
      g_autoptr(GError) error = NULL;
      g_autoptr(GByteArray) got = cat(store, files[i].path, first, ranges[j][1], &error);
      g_assert_no_error(error);
      gsize size = files[i].size == 0 ? 0 : (gsize)(last - first + 1);
      g_assert_cmpmem(got->data, got->len, wanted + first, size);
    }
}

static void test_ranges(void) {
  check_ranges(TEST_DIGESTS);
  check_ranges(0);
  check_ranges(TEST_DIGESTS | TEST_HIDE_CHUNK_SIZE);
  check_ranges(TEST_HIDE_CHUNK_SIZE);
}

static void expect_failure(BlStore *store, const char *path, guint64 first, guint64 last,
                           BlErrorCode code, guint64 written) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GByteArray) got = cat(store, path, first, last, &error);
  g_assert_error(error, BL_ERROR, (gint)code);
  g_assert_cmpuint(got->len, ==, written);
}

static void test_refused(void) {
  g_autoptr(BlStore) store = make_store(TEST_DIGESTS);
  expect_failure(store, "no such", 0, G_MAXUINT64, BL_ERROR_NOT_FOUND, 0);
  expect_failure(store, "whole.bin", BLOCK + 77, G_MAXUINT64, BL_ERROR_INVALID, 0);
  expect_failure(store, "whole.bin", 5, 4, BL_ERROR_INVALID, 0);
  expect_failure(store, "empty", 0, 0, BL_ERROR_INVALID, 0);
}

/* Nothing that is wrong is written: with digests all before the bad block, without them nothing. */
static void test_damaged(void) {
  g_autoptr(BlStore) with = make_store(TEST_DIGESTS);
  test_flip_byte(with, "x", "whole.bin", 0, BLOCK + 5);
  expect_failure(with, "whole.bin", 0, G_MAXUINT64, BL_ERROR_CORRUPT, BLOCK);
  expect_failure(with, "whole.bin", BLOCK - 2, BLOCK, BL_ERROR_CORRUPT, 2);
  g_autoptr(GByteArray) good = cat(with, "whole.bin", 3, 4, NULL);
  g_assert_cmpuint(good->len, ==, 2);

  g_autoptr(BlStore) without = make_store(0);
  test_flip_byte(without, "x", "whole.bin", 0, BLOCK + 5);
  expect_failure(without, "whole.bin", 0, G_MAXUINT64, BL_ERROR_CORRUPT, 0);
  expect_failure(without, "whole.bin", 3, 4, BL_ERROR_CORRUPT, 0);
  test_remove_chunk(without, "x", "chunked.bin", 3);
  expect_failure(without, "chunked.bin", 0, G_MAXUINT64, BL_ERROR_CORRUPT, 0);
}

static void test_closed_pipe(void) {
  g_autoptr(BlStore) store = make_store(TEST_DIGESTS);
  g_autoptr(GError) error = NULL;
  int fds[2];
  signal(SIGPIPE, SIG_IGN);
  g_assert_cmpint(pipe(fds), ==, 0);
  close(fds[0]);
  g_assert_true(bl_cat(store, "x", "whole.bin", 0, G_MAXUINT64, fds[1], NULL, NULL, &error));
  g_assert_true(bl_cat(store, "x", "whole.bin", 1, 9, fds[1], NULL, NULL, &error));
  close(fds[1]);
  bl_autofd full = open("/dev/full", O_WRONLY);
  g_assert_false(bl_cat(store, "x", "whole.bin", 0, G_MAXUINT64, full, NULL, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/cat/ranges", test_ranges);
  g_test_add_func("/cat/refused", test_refused);
  g_test_add_func("/cat/damaged", test_damaged);
  g_test_add_func("/cat/closed-pipe", test_closed_pipe);
  return g_test_run();
}
