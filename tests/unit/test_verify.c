#include "model/verify.h"

#include "base/error.h"
#include "checkpoint.h"
#include "store/fault.h"
#include "store/memory.h"

#define BLOCK BL_BLOCK_SIZE
#define NO_FD (BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_OPEN_FD)

static const TestFile files[] = {
    {"a.json", 5000, 0, FALSE},
    {"b.bin", 3 * BLOCK + 9, 0, FALSE},
    {"c.bin", 2 * BLOCK + 5, BLOCK / 2, FALSE},
    {"empty", 0, 0, FALSE},
};
static const guint64 total_size = 5000 + 5 * BLOCK + 14;

static BlStore *make_store(BlStoreCaps caps, TestParts parts) {
  BlStore *store = bl_memory_store_new(caps);
  test_put_checkpoint(store, "x", files, G_N_ELEMENTS(files), parts);
  return store;
}

static BlVerifyResult *verify(BlStore *store) {
  BlVerifyOptions options = {0};
  g_autoptr(GError) error = NULL;
  BlVerifyResult *result = bl_verify(store, "x", &options, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->n_findings, ==, result->findings->len);
  return result;
}

static const BlFinding *finding(const BlVerifyResult *result, guint i) {
  g_assert_cmpuint(i, <, result->findings->len);
  return g_ptr_array_index(result->findings, i);
}

static void assert_finding(const BlVerifyResult *result, guint i, BlFindingKind kind,
                           const char *path, guint64 offset, guint64 size, const char *says) {
  const BlFinding *found = finding(result, i);
  g_assert_cmpint(found->kind, ==, kind);
  g_assert_cmpstr(found->path, ==, path);
  g_assert_cmpuint(found->offset, ==, offset);
  g_assert_cmpuint(found->size, ==, size);
  g_assert_nonnull(strstr(found->text, path));
  g_assert_nonnull(strstr(found->text, says));
}

static void test_right(gconstpointer data) {
  g_autoptr(BlStore) store = make_store((BlStoreCaps)GPOINTER_TO_UINT(data), TEST_DIGESTS);
  BlVerifyOptions options = {0};
  BlJob job;
  bl_job_init(&job);
  g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, &job, NULL);
  g_assert_nonnull(result);
  g_assert_false(bl_verify_result_is_bad(result));
  g_assert_cmpuint(result->n_files, ==, 4);
  g_assert_cmpuint(result->n_bytes, ==, total_size);
  g_assert_cmpuint(result->n_findings, ==, 0);
  g_assert_false(result->digests_written);
  g_assert_cmpuint(job.total_bytes, ==, total_size);
  g_assert_cmpuint(job.done_bytes, ==, total_size);
  g_assert_cmpuint(job.done_files, ==, 4);
  bl_job_clear(&job);
}

/* Two bad blocks of one file, one of another: all are named, sorted by path. */
static void test_blocks(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  test_flip_byte(store, "x", "c.bin", 4, 1);
  test_flip_byte(store, "x", "b.bin", 0, 3 * BLOCK + 8);
  test_flip_byte(store, "x", "b.bin", 0, BLOCK);
  g_autoptr(BlVerifyResult) result = verify(store);
  g_assert_true(bl_verify_result_is_bad(result));
  g_assert_cmpuint(result->n_files_bad, ==, 2);
  g_assert_cmpuint(result->n_findings, ==, 3);
  assert_finding(result, 0, BL_FINDING_BLOCK, "b.bin", BLOCK, BLOCK,
                 "block 1 (bytes 4194304 to 8388607)");
  g_assert_cmpuint(finding(result, 0)->block, ==, 1);
  assert_finding(result, 1, BL_FINDING_BLOCK, "b.bin", 3 * BLOCK, 9, "block 3");
  assert_finding(result, 2, BL_FINDING_BLOCK, "c.bin", 2 * BLOCK, 5, "block 2");
}

static void test_sha256(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, 0);
  test_flip_byte(store, "x", "b.bin", 0, 7);
  g_autoptr(BlVerifyResult) result = verify(store);
  g_assert_cmpuint(result->n_findings, ==, 1);
  assert_finding(result, 0, BL_FINDING_SHA256, "b.bin", 0, 3 * BLOCK + 9, "SHA-256");
  g_assert_false(result->digests_written);
}

/* A missing chunk, a short one and a long one: named, and the blocks around them are checked all
 * the same. */
static void test_layout(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  test_remove_chunk(store, "x", "c.bin", 0);
  test_flip_byte(store, "x", "c.bin", 3, 0);
  test_resize_chunk(store, "x", "b.bin", 0, 2 * BLOCK + 1);
  test_flip_byte(store, "x", "b.bin", 0, 0);
  test_resize_chunk(store, "x", "a.json", 0, 5001);
  g_autoptr(BlVerifyResult) result = verify(store);
  g_assert_cmpuint(result->n_files_bad, ==, 3);
  g_assert_cmpuint(result->n_findings, ==, 5);
  assert_finding(result, 0, BL_FINDING_SIZE, "a.json", 0, 5000,
                 "chunk 0 has 5001 bytes, must have 5000");
  assert_finding(result, 1, BL_FINDING_SIZE, "b.bin", 0, 3 * BLOCK + 9,
                 "chunk 0 has 8388609 bytes");
  assert_finding(result, 2, BL_FINDING_BLOCK, "b.bin", 0, BLOCK, "block 0");
  assert_finding(result, 3, BL_FINDING_MISSING, "c.bin", 0, BLOCK / 2, "chunk 0 is missing");
  assert_finding(result, 4, BL_FINDING_BLOCK, "c.bin", BLOCK, BLOCK, "block 1");
}

static void test_unknown_layout(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS | TEST_HIDE_CHUNK_SIZE);
  g_autoptr(BlVerifyResult) right = verify(store);
  g_assert_false(bl_verify_result_is_bad(right));
  test_resize_chunk(store, "x", "c.bin", 1, 10);
  g_autoptr(BlVerifyResult) result = verify(store);
  g_assert_cmpuint(result->n_findings, ==, 1);
  assert_finding(result, 0, BL_FINDING_SIZE, "c.bin", 0, 2 * BLOCK + 5, "cannot be read whole");
}

/* Digests that were absent are written, and serve the next check. */
static void test_writes_digests(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, 0);
  g_autoptr(BlVerifyResult) first = verify(store);
  g_assert_true(first->digests_written);
  g_autoptr(BlVerifyResult) second = verify(store);
  g_assert_false(second->digests_written);
  test_flip_byte(store, "x", "b.bin", 0, 5);
  g_autoptr(BlVerifyResult) third = verify(store);
  assert_finding(third, 0, BL_FINDING_BLOCK, "b.bin", 0, BLOCK, "block 0");

  g_autoptr(BlStore) other = make_store(NO_FD, 0);
  other->caps |= BL_STORE_IS_READ_ONLY;
  g_autoptr(BlVerifyResult) read_only = verify(other);
  g_assert_false(read_only->digests_written);
  g_assert_false(bl_verify_result_is_bad(read_only));
}

static void replace_digests(BlStore *store, const char *from, const char *to) {
  BlKeyBuffer key;
  g_autofree char *data = NULL;
  gsize size;
  bl_key_digests(key, "x");
  g_assert_true(bl_store_load(store, key, 1 << 20, &data, &size, NULL));
  char *at = strstr(data, from);
  g_assert_nonnull(at);
  memcpy(at, to, strlen(to));
  g_assert_true(bl_store_put(store, key, data, size, BL_PUT_REPLACE, NULL));
}

static void test_bad_digests(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  replace_digests(store, "\"algorithm\"", "\"algorhythm");
  g_autoptr(BlVerifyResult) unreadable = verify(store);
  g_assert_true(bl_verify_result_is_bad(unreadable));
  g_assert_cmpuint(unreadable->n_findings, ==, 1);
  g_assert_cmpint(finding(unreadable, 0)->kind, ==, BL_FINDING_DIGESTS);
  g_assert_null(finding(unreadable, 0)->path);
  g_assert_false(unreadable->digests_written);

  /* One that disagrees with bytes that are right. */
  g_autoptr(BlStore) other = make_store(NO_FD, 0);
  g_autoptr(BlManifest) manifest = bl_manifest_load(other, "x", 0, NULL);
  g_autoptr(BlDigests) digests = bl_digests_new(manifest);
  const guint32 wrong[] = {0x12345678};
  bl_digests_set(digests, 0, wrong, 1);
  g_assert_true(bl_digests_save(other, manifest, digests, NULL));
  g_autoptr(BlVerifyResult) result = verify(other);
  g_assert_cmpuint(result->n_findings, ==, 1);
  assert_finding(result, 0, BL_FINDING_DIGESTS, "a.json", 0, 5000, "digests say 12345678");
}

static void test_selected(void) {
  char *include[] = {(char[]){"b.*"}, NULL};
  BlVerifyOptions options = {.include = include};
  g_autoptr(BlStore) store = make_store(NO_FD, 0);
  test_flip_byte(store, "x", "a.json", 0, 5);
  g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_nonnull(result);
  g_assert_cmpuint(result->n_files, ==, 1);
  g_assert_false(bl_verify_result_is_bad(result));
  g_assert_false(result->digests_written);
}

/* Bytes that are what was imported, and yet no model file. */
static void test_deep(void) {
  const TestFile odd[] = {{"a.txt", 9, 0, FALSE}, {"model.safetensors", 500, 0, FALSE}};
  char *exclude[] = {(char[]){"*.safetensors"}, NULL};
  BlVerifyOptions options = {.deep = TRUE};
  g_autoptr(BlStore) store = bl_memory_store_new(NO_FD);
  test_put_checkpoint(store, "x", odd, 2, 0);
  g_autoptr(BlVerifyResult) bytes = verify(store);
  g_assert_false(bl_verify_result_is_bad(bytes));
  g_autoptr(BlVerifyResult) deep = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_nonnull(deep);
  g_assert_true(bl_verify_result_is_bad(deep));
  g_assert_cmpuint(deep->n_files_bad, ==, 1);
  assert_finding(deep, 0, BL_FINDING_FORMAT, "model.safetensors", 0, 0, "model.safetensors");

  /* The same file with damaged bytes: both are told. */
  test_resize_chunk(store, "x", "model.safetensors", 0, 3);
  g_autoptr(BlVerifyResult) damaged = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_cmpuint(damaged->n_findings, ==, 2);
  assert_finding(damaged, 0, BL_FINDING_SIZE, "model.safetensors", 0, 500, "has 3 bytes");

  options.exclude = exclude;
  g_autoptr(BlVerifyResult) part = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_false(bl_verify_result_is_bad(part));
}

static void expect_failure(BlStore *store, BlJob *job, BlErrorCode code) {
  BlVerifyOptions options = {0};
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_verify(store, "x", &options, job, &error));
  g_assert_error(error, BL_ERROR, (gint)code);
}

static void test_cannot_check(void) {
  BlJob job;
  bl_job_init(&job);
  job.cancelled = 1;
  g_autoptr(BlStore) store = make_store(NO_FD, 0);
  expect_failure(store, &job, BL_ERROR_CANCELLED);
  bl_job_clear(&job);
  g_autoptr(BlStore) empty = bl_memory_store_new(NO_FD);
  expect_failure(empty, NULL, BL_ERROR_NOT_FOUND);
}

/* Every call fails once, in every way: each run tells what it found or why it could not look. */
static void test_faults(void) {
  static const BlErrorCode codes[] = {BL_ERROR_IO, BL_ERROR_UNAVAILABLE, BL_ERROR_NOT_FOUND};
  BlVerifyOptions options = {0};
  for (gsize i = 0; i < G_N_ELEMENTS(codes); i++) {
    g_autoptr(BlStore) store = bl_fault_store_new(make_store(NO_FD, TEST_DIGESTS));
    guint64 n = 0, hits = 1;
    while (hits > 0) {
      BlFaultRule rule = {BL_FAULT_ANY, ++n, 1, TRUE, codes[i], 0};
      g_autoptr(GError) error = NULL;
      bl_fault_store_set_rule(store, &rule);
      g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, NULL, &error);
      hits = bl_fault_store_n_hits(store);
      if (codes[i] == BL_ERROR_UNAVAILABLE && hits > 0)
        g_assert_error(error, BL_ERROR, (gint)codes[i]);
      if (hits == 0) g_assert_false(bl_verify_result_is_bad(result));
      g_assert_true((result == NULL) == (error != NULL));
    }
    g_assert_cmpuint(n, >, 10);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/verify/right/local", GUINT_TO_POINTER(BL_MEMORY_STORE_CAPS), test_right);
  g_test_add_data_func("/verify/right/remote", GUINT_TO_POINTER(NO_FD | BL_STORE_IS_REMOTE),
                       test_right);
  g_test_add_func("/verify/blocks", test_blocks);
  g_test_add_func("/verify/sha256", test_sha256);
  g_test_add_func("/verify/layout", test_layout);
  g_test_add_func("/verify/unknown-layout", test_unknown_layout);
  g_test_add_func("/verify/writes-digests", test_writes_digests);
  g_test_add_func("/verify/bad-digests", test_bad_digests);
  g_test_add_func("/verify/selected", test_selected);
  g_test_add_func("/verify/deep", test_deep);
  g_test_add_func("/verify/cannot-check", test_cannot_check);
  g_test_add_func("/verify/faults", test_faults);
  return g_test_run();
}
