#include "model/reader.h"

#include "base/error.h"
#include "checkpoint.h"
#include "store/fault.h"
#include "store/memory.h"

#define BLOCK BL_BLOCK_SIZE
#define NO_FD (BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_OPEN_FD)

static const TestFile files[] = {
    {"a/empty", 0, 0, FALSE},
    {"chunked.bin", 2 * BLOCK + 12345, 3000000, FALSE},
    {"small.json", 100, 0, FALSE},
    {"tiny-chunks", 100, 1, FALSE},
    {"whole.bin", BLOCK + 17, 0, FALSE},
};

typedef struct {
  BlStore *store;
  BlManifest *manifest;
  BlDigests *digests;
  BlReader *reader;
} Fixture;

static void open_fixture(Fixture *f, BlStoreCaps caps, TestParts parts) {
  g_autoptr(GError) error = NULL;
  f->store = bl_memory_store_new(caps);
  test_put_checkpoint(f->store, "x", files, G_N_ELEMENTS(files), parts);
  f->manifest = bl_manifest_load_ready(f->store, "x", &error);
  g_assert_no_error(error);
  f->digests = bl_digests_load(f->store, f->manifest, &error);
  g_assert_no_error(error);
  f->reader = bl_reader_new(f->store, f->manifest, f->digests);
}

static void close_fixture(Fixture *f) {
  bl_reader_free(f->reader);
  bl_digests_free(f->digests);
  bl_manifest_free(f->manifest);
  bl_store_free(f->store);
}

static guint64 index_of(const Fixture *f, const char *path) {
  return (guint64)(bl_manifest_find(f->manifest, path) - f->manifest->files);
}

static void check_ranges(Fixture *f, const TestFile *file) {
  const gsize marks[] = {0, 1, 99, 3000000 - 1, 3000000, BLOCK - 1, BLOCK, 2 * BLOCK, file->size};
  g_autofree guint8 *wanted = test_bytes(file);
  g_autofree guint8 *got = g_malloc(file->size + 1);
  for (gsize i = 0; i < G_N_ELEMENTS(marks); i++)
    for (gsize j = 0; j < G_N_ELEMENTS(marks); j++) {
      if (marks[i] > marks[j] || marks[j] > file->size) continue;
      gsize size = marks[j] - marks[i];
      g_autoptr(GError) error = NULL;
      memset(got, 0xee, file->size + 1);
      g_assert_true(
          bl_reader_read(f->reader, index_of(f, file->path), marks[i], got, size, &error));
      g_assert_no_error(error);
      g_assert_cmpmem(got, size, wanted + marks[i], size);
      g_assert_cmpuint(got[size], ==, 0xee);
    }
}

static void check_stream(Fixture *f, const TestFile *file, gsize piece) {
  g_autofree guint8 *wanted = test_bytes(file);
  g_autofree guint8 *got = g_malloc(file->size + piece);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(f->reader, index_of(f, file->path));
  gsize total = 0;
  for (gssize n = 1; n > 0; total += (gsize)n) {
    g_autoptr(GError) error = NULL;
    n = bl_reader_stream_read(stream, got + total, piece, &error);
    g_assert_no_error(error);
    g_assert_cmpint(n, ==, MIN(piece, file->size - total));
  }
  g_assert_cmpmem(got, total, wanted, file->size);
}

static void test_reads(gconstpointer data) {
  Fixture f;
  open_fixture(&f, (BlStoreCaps)GPOINTER_TO_UINT(data), TEST_DIGESTS);
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    check_ranges(&f, &files[i]);
    check_stream(&f, &files[i], 1024 * 1024);
    check_stream(&f, &files[i], 777777);
  }
  close_fixture(&f);
}

static void expect_read(Fixture *f, const char *path, guint64 offset, gsize size, BlErrorCode code,
                        const char *says) {
  g_autofree guint8 *data = g_malloc(size + 1);
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_reader_read(f->reader, index_of(f, path), offset, data, size, &error));
  g_assert_error(error, BL_ERROR, (gint)code);
  g_assert_nonnull(strstr(error->message, says));
  g_assert_nonnull(strstr(error->message, "checkpoint \"x\""));
  g_assert_nonnull(strstr(error->message, path));
}

/* Reads all of a file that is wrong. */
static void expect_stream(Fixture *f, const char *path, const char *says) {
  g_autofree guint8 *data = g_malloc(1024 * 1024);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(f->reader, index_of(f, path));
  g_autoptr(GError) error = NULL;
  gssize n = 1;
  while (n > 0) n = bl_reader_stream_read(stream, data, 1024 * 1024, &error);
  g_assert_cmpint(n, ==, -1);
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_nonnull(strstr(error->message, says));
  g_assert_nonnull(strstr(error->message, "checkpoint \"x\""));
}

static void test_damage(gconstpointer data) {
  Fixture f;
  open_fixture(&f, (BlStoreCaps)GPOINTER_TO_UINT(data), TEST_DIGESTS);
  test_remove_chunk(f.store, "x", "chunked.bin", 1);
  test_resize_chunk(f.store, "x", "small.json", 0, 60);
  test_resize_chunk(f.store, "x", "whole.bin", 0, BLOCK + 18);
  test_remove_chunk(f.store, "x", "tiny-chunks", 99);

  expect_read(&f, "chunked.bin", 2999990, 20, BL_ERROR_CORRUPT, "chunk 1 is missing");
  expect_read(&f, "small.json", 0, 100, BL_ERROR_CORRUPT, "chunk 0 has 60 bytes of 100");
  expect_read(&f, "tiny-chunks", 0, 100, BL_ERROR_CORRUPT, "chunk 99 is missing");
  expect_stream(&f, "chunked.bin", "chunk 1 is missing");
  expect_stream(&f, "small.json", "chunk 0 has 60 bytes of 100");
  expect_stream(&f, "whole.bin", "chunk 0 has 4194322 bytes of 4194321");
  expect_stream(&f, "tiny-chunks", "chunk 99 is missing");
  close_fixture(&f);
}

static void test_out_of_range(void) {
  Fixture f;
  open_fixture(&f, BL_MEMORY_STORE_CAPS, 0);
  expect_read(&f, "small.json", 0, 101, BL_ERROR_INVALID, "it has 100");
  expect_read(&f, "small.json", 101, 0, BL_ERROR_INVALID, "it has 100");
  expect_read(&f, "small.json", G_MAXUINT64, 2, BL_ERROR_INVALID, "it has 100");
  expect_read(&f, "a/empty", 0, 1, BL_ERROR_INVALID, "it has 0");
  close_fixture(&f);
}

/* What arrives from a remote store is checked, whatever part of a block is asked for. */
static void test_remote(void) {
  Fixture f;
  guint8 data[16];
  open_fixture(&f, NO_FD | BL_STORE_IS_REMOTE, TEST_DIGESTS);
  test_flip_byte(f.store, "x", "whole.bin", 0, 100);
  expect_read(&f, "whole.bin", 4000, 16, BL_ERROR_CORRUPT, "block 0 (bytes 0 to 4194303)");
  expect_read(&f, "whole.bin", 0, BLOCK, BL_ERROR_CORRUPT, "block 0 ");
  expect_read(&f, "whole.bin", 0, BLOCK + 17, BL_ERROR_CORRUPT, "block 0 ");
  g_assert_true(bl_reader_read(f.reader, index_of(&f, "whole.bin"), BLOCK, data, 16, NULL));
  close_fixture(&f);
}

/* A local store is trusted, unless the caller is not to. */
static void test_checked(void) {
  Fixture f;
  guint8 data[16];
  g_autoptr(GError) error = NULL;
  open_fixture(&f, BL_MEMORY_STORE_CAPS, TEST_DIGESTS);
  guint64 file = index_of(&f, "whole.bin");
  test_flip_byte(f.store, "x", "whole.bin", 0, 100);
  g_assert_true(bl_reader_read(f.reader, file, 4000, data, 16, NULL));
  g_assert_false(bl_reader_read_checked(f.reader, file, 4000, data, 16, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_clear_error(&error);
  g_assert_true(bl_reader_read_checked(f.reader, file, BLOCK + 1, data, 16, &error));
  close_fixture(&f);

  open_fixture(&f, BL_MEMORY_STORE_CAPS, 0);
  g_assert_false(bl_reader_read_checked(f.reader, file, 0, data, 16, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
  close_fixture(&f);
}

/* Several chunks of a length that the manifest does not tell. */
static void test_unknown_layout(void) {
  Fixture f;
  open_fixture(&f, NO_FD, TEST_HIDE_CHUNK_SIZE);
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) check_stream(&f, &files[i], 500000);
  check_ranges(&f, &files[4]);
  expect_read(&f, "chunked.bin", 0, 10, BL_ERROR_UNSUPPORTED, "chunks");
  test_resize_chunk(f.store, "x", "chunked.bin", 2, 10);
  expect_stream(&f, "chunked.bin", "bytes of 8400953");
  test_resize_chunk(f.store, "x", "chunked.bin", 2, 3000000);
  expect_stream(&f, "chunked.bin", "more than its 8400953 bytes");
  close_fixture(&f);
}

/* A store that cannot be reached is not damage. */
static void test_unreachable(void) {
  Fixture f;
  guint8 data[16];
  g_autoptr(GError) error = NULL;
  open_fixture(&f, NO_FD, TEST_DIGESTS);
  f.store = bl_fault_store_new(f.store);
  BlFaultRule rule = {BL_FAULT_ANY, 1, 0, TRUE, BL_ERROR_UNAVAILABLE, 0};
  bl_fault_store_set_rule(f.store, &rule);
  g_autoptr(BlReader) reader = bl_reader_new(f.store, f.manifest, f.digests);
  g_assert_false(bl_reader_read(reader, 4, 0, data, 16, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNAVAILABLE);
  g_clear_error(&error);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(reader, 4);
  g_assert_cmpint(bl_reader_stream_read(stream, data, 16, &error), ==, -1);
  g_assert_error(error, BL_ERROR, BL_ERROR_UNAVAILABLE);
  close_fixture(&f);
}

/* A second store with the same files in other chunks. */
static const TestFile files_elsewhere[] = {
    {"a/empty", 0, 0, FALSE},
    {"chunked.bin", 2 * BLOCK + 12345, 0, FALSE},
    {"small.json", 100, 33, FALSE},
    {"tiny-chunks", 100, 7, FALSE},
    {"whole.bin", BLOCK + 17, 1000000, FALSE},
};

static void open_elsewhere(Fixture *f) {
  g_autoptr(GError) error = NULL;
  f->store = bl_memory_store_new(NO_FD);
  test_put_checkpoint(f->store, "y", files_elsewhere, G_N_ELEMENTS(files_elsewhere), TEST_DIGESTS);
  f->manifest = bl_manifest_load_ready(f->store, "y", &error);
  g_assert_no_error(error);
  f->digests = bl_digests_load(f->store, f->manifest, &error);
  g_assert_no_error(error);
  f->reader = bl_reader_new(f->store, f->manifest, f->digests);
}

static void open_with_fallback(Fixture *first, Fixture *second, BlStoreCaps caps, TestParts parts) {
  open_fixture(first, caps, parts);
  open_elsewhere(second);
  bl_reader_set_fallback(first->reader, second->reader);
}

static void test_fallback(gconstpointer data) {
  Fixture f, second;
  open_with_fallback(&f, &second, (BlStoreCaps)GPOINTER_TO_UINT(data), TEST_DIGESTS);
  g_assert_cmpuint(bl_reader_n_fallback_files(f.reader), ==, 0);
  test_remove_chunk(f.store, "x", "chunked.bin", 1);
  test_resize_chunk(f.store, "x", "small.json", 0, 60);
  test_remove_chunk(f.store, "x", "tiny-chunks", 99);
  test_remove_chunk(f.store, "x", "whole.bin", 0);
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    check_ranges(&f, &files[i]);
    check_stream(&f, &files[i], 777777);
    check_stream(&f, &files[i], 11);
  }
  g_assert_cmpuint(bl_reader_n_fallback_files(f.reader), ==, 4);
  close_fixture(&f);
  close_fixture(&second);
}

/* Where the lengths of the fallback's chunks are not known, a stream still goes on in the middle.
 */
static void test_fallback_unknown_layout(void) {
  Fixture f, second;
  open_elsewhere(&f);
  open_fixture(&second, NO_FD, TEST_HIDE_CHUNK_SIZE);
  bl_reader_set_fallback(f.reader, second.reader);
  test_remove_chunk(f.store, "y", "tiny-chunks", 5);
  check_stream(&f, &files_elsewhere[3], 7);
  g_assert_cmpuint(bl_reader_n_fallback_files(f.reader), ==, 1);
  close_fixture(&f);
  close_fixture(&second);
}

/* Blocks that were checked and are damaged. */
static void test_fallback_checked(void) {
  Fixture f, second;
  open_with_fallback(&f, &second, BL_MEMORY_STORE_CAPS, TEST_DIGESTS);
  const TestFile *file = &files[4];
  guint64 index = index_of(&f, file->path);
  g_autofree guint8 *wanted = test_bytes(file);
  g_autofree guint8 *got = g_malloc(file->size);
  g_autoptr(GError) error = NULL;
  test_flip_byte(f.store, "x", file->path, 0, 100);
  g_assert_true(bl_reader_read_checked(f.reader, index, 0, got, file->size, &error));
  g_assert_cmpmem(got, file->size, wanted, file->size);
  g_assert_cmpuint(bl_reader_n_fallback_files(f.reader), ==, 1);

  /* Neither has it: both are told of. */
  test_remove_chunk(second.store, "y", file->path, 2);
  g_assert_false(bl_reader_read_checked(f.reader, index, 0, got, BLOCK, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_nonnull(strstr(error->message, "block 0 "));
  g_assert_nonnull(strstr(error->message, "from the fallback: checkpoint \"y\""));
  close_fixture(&f);
  close_fixture(&second);
}

/* Whoever hashed a stream and found it wrong asks for it again, once. */
static void test_fall_back(void) {
  Fixture f, second;
  open_with_fallback(&f, &second, BL_MEMORY_STORE_CAPS, TEST_DIGESTS);
  const TestFile *file = &files[1];
  g_autofree guint8 *wanted = test_bytes(file);
  g_autofree guint8 *got = g_malloc(file->size);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(f.reader, index_of(&f, file->path));
  g_assert_cmpint(bl_reader_stream_read(stream, got, 5000000, NULL), ==, 5000000);
  g_assert_true(bl_reader_stream_fall_back(stream, 4999999));
  gsize left = file->size - 4999999;
  g_assert_cmpint(bl_reader_stream_read(stream, got, file->size, NULL), ==, (gssize)left);
  g_assert_cmpmem(got, left, wanted + 4999999, left);
  g_assert_false(bl_reader_stream_fall_back(stream, 0));
  close_fixture(&f);
  close_fixture(&second);
}

/* A file of the same name that holds something else is no fallback. */
static void test_fallback_differs(void) {
  Fixture f, second;
  open_with_fallback(&f, &second, BL_MEMORY_STORE_CAPS, TEST_DIGESTS);
  second.manifest->files[index_of(&second, "small.json")].sha256[0] ^= 1;
  test_resize_chunk(f.store, "x", "small.json", 0, 60);
  expect_read(&f, "small.json", 0, 100, BL_ERROR_CORRUPT, "chunk 0 has 60 bytes of 100");
  expect_stream(&f, "small.json", "chunk 0 has 60 bytes of 100");
  close_fixture(&f);
  close_fixture(&second);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/reader/reads/local", GUINT_TO_POINTER(BL_MEMORY_STORE_CAPS), test_reads);
  g_test_add_data_func("/reader/reads/no-descriptors", GUINT_TO_POINTER(NO_FD), test_reads);
  g_test_add_data_func("/reader/reads/remote", GUINT_TO_POINTER(NO_FD | BL_STORE_IS_REMOTE),
                       test_reads);
  g_test_add_data_func("/reader/damage/local", GUINT_TO_POINTER(BL_MEMORY_STORE_CAPS), test_damage);
  g_test_add_data_func("/reader/damage/remote", GUINT_TO_POINTER(NO_FD | BL_STORE_IS_REMOTE),
                       test_damage);
  g_test_add_func("/reader/out-of-range", test_out_of_range);
  g_test_add_func("/reader/remote", test_remote);
  g_test_add_func("/reader/checked", test_checked);
  g_test_add_func("/reader/unknown-layout", test_unknown_layout);
  g_test_add_func("/reader/unreachable", test_unreachable);
  g_test_add_data_func("/reader/fallback/local", GUINT_TO_POINTER(BL_MEMORY_STORE_CAPS),
                       test_fallback);
  g_test_add_data_func("/reader/fallback/no-descriptors", GUINT_TO_POINTER(NO_FD), test_fallback);
  g_test_add_data_func("/reader/fallback/remote", GUINT_TO_POINTER(NO_FD | BL_STORE_IS_REMOTE),
                       test_fallback);
  g_test_add_func("/reader/fallback/unknown-layout", test_fallback_unknown_layout);
  g_test_add_func("/reader/fallback/checked", test_fallback_checked);
  g_test_add_func("/reader/fallback/differs", test_fallback_differs);
  g_test_add_func("/reader/fall-back", test_fall_back);
  return g_test_run();
}
