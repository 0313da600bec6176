#include "model/repair.h"

#include "base/error.h"
#include "checkpoint.h"
#include "model/state.h"
#include "model/verify.h"
#include "store/fault.h"
#include "store/memory.h"

static const TestFile files[] = {
    {"a/empty", 0, 0, FALSE},
    {"chunked.bin", 5 * 300000 + 12345, 300000, FALSE},
    {"small.json", 100, 0, FALSE},
    {"whole.bin", 200017, 0, FALSE},
};
#define CHUNKED 1
#define WHOLE 3

/* "x" to be mended, and the same files in other chunks in a store that is found by its name. */
static BlStore *open_pair(const char *second_name, BlStoreCaps caps, TestParts parts) {
  g_autofree char *url = g_strconcat("memory:", second_name, NULL);
  TestFile others[G_N_ELEMENTS(files)];
  memcpy(others, files, sizeof files);
  others[CHUNKED].chunk_size = 77777;
  others[WHOLE].chunk_size = 90000;
  g_autoptr(BlStore) second = bl_store_open(url, TRUE, NULL);
  test_put_checkpoint(second, "x", others, G_N_ELEMENTS(others), TEST_DIGESTS | TEST_INFO);
  BlStore *store = bl_memory_store_new(caps);
  test_put_checkpoint(store, "x", files, G_N_ELEMENTS(files), parts);
  return store;
}

static BlRepairResult *repair(BlStore *store, char *from, GError **error) {
  char *places[] = {from, NULL};
  BlRepairOptions options = {.from = from != NULL ? places : NULL};
  BlJob job;
  bl_job_init(&job);
  BlRepairResult *result = bl_repair(store, "x", &options, &job, error);
  /* The bar ends at 100 %, and not before. */
  if (result != NULL && result->left->len == 0)
    g_assert_cmpuint(job.done_bytes, ==, job.total_bytes);
  bl_job_clear(&job);
  return result;
}

static void assert_whole(BlStore *store) {
  g_autoptr(GError) error = NULL;
  BlVerifyOptions options = {FALSE};
  BlJob job;
  bl_job_init(&job);
  g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, &job, &error);
  g_assert_no_error(error);
  g_assert_false(bl_verify_result_is_bad(result));
  g_autoptr(BlState) state = bl_state_load(store, "x", &error);
  g_assert_no_error(error);
  g_assert_false(bl_state_is_degraded(state));
  bl_job_clear(&job);
}

static void damage_all(BlStore *store) {
  test_flip_byte(store, "x", "chunked.bin", 1, 1000);
  test_remove_chunk(store, "x", "chunked.bin", 3);
  test_resize_chunk(store, "x", "chunked.bin", 5, 7);
  test_remove_chunk(store, "x", "small.json", 0);
  test_flip_byte(store, "x", "whole.bin", 0, 100003);
}

/* Only bad chunks are put, whatever chunks the source has. */
static void test_bad_chunks(gconstpointer data) {
  g_autofree char *name = g_strdup_printf("bad-chunks-%u", GPOINTER_TO_UINT(data));
  g_autofree char *url = g_strconcat("memory:", name, NULL);
  g_autoptr(GError) error = NULL;
  BlStore *inner = open_pair(name, (BlStoreCaps)GPOINTER_TO_UINT(data), TEST_DIGESTS | TEST_INFO);
  damage_all(inner);
  g_autoptr(BlStore) store = bl_fault_store_new(inner);
  g_autoptr(BlRepairResult) result = repair(store, url, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->n_files_bad, ==, 3);
  g_assert_cmpuint(result->n_files_mended, ==, 3);
  g_assert_cmpuint(result->n_bytes_written, ==, 300000 + 300000 + 12345 + 100 + 200017);
  g_assert_cmpuint(bl_fault_store_n_bytes(store, BL_FAULT_WRITE), ==, result->n_bytes_written);
  g_assert_cmpuint(result->left->len, ==, 0);
  assert_whole(store);
}

/* Without a source: all is named, and stays as it was. */
static void test_no_source(void) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlStore) store = open_pair("no-source", BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_INFO);
  damage_all(store);
  g_autoptr(BlRepairResult) result = repair(store, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->n_files_mended, ==, 0);
  g_assert_cmpuint(result->left->len, ==, 3);
  const BlRepairItem *item = result->left->pdata[0];
  g_assert_cmpstr(item->path, ==, "chunked.bin");
  g_assert_nonnull(strstr(item->text, "ballast model repair x --from"));
  g_autoptr(BlState) state = bl_state_load(store, "x", &error);
  g_assert_cmpuint(state->missing->len, ==, 1);
  g_assert_cmpuint(state->damaged->len, ==, 2);
}

/* A checkpoint whose digests nobody wrote. */
static void test_no_digests(void) {
  char url[] = "memory:no-digests";
  g_autoptr(GError) error = NULL;
  g_autoptr(BlStore) store = open_pair("no-digests", BL_MEMORY_STORE_CAPS, 0);
  damage_all(store);
  g_autoptr(BlRepairResult) result = repair(store, url, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->n_files_mended, ==, 3);
  assert_whole(store);
}

/* Which chunk is bad cannot be told where their lengths are not known. */
static void test_unknown_layout(void) {
  char url[] = "memory:unknown-layout";
  g_autoptr(GError) error = NULL;
  g_autoptr(BlStore) store =
      open_pair("unknown-layout", BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_HIDE_CHUNK_SIZE);
  test_remove_chunk(store, "x", "chunked.bin", 3);
  test_remove_chunk(store, "x", "small.json", 0);
  g_autoptr(BlRepairResult) result = repair(store, url, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->n_files_mended, ==, 1);
  const BlRepairItem *item = result->left->pdata[0];
  g_assert_nonnull(strstr(item->text, "does not say how long its chunks are"));
}

/* A source that is damaged itself replaces nothing. */
static void test_damaged_source(void) {
  char url[] = "memory:damaged";
  g_autoptr(GError) error = NULL;
  g_autoptr(BlStore) store = open_pair("damaged", BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_INFO);
  g_autoptr(BlStore) second = bl_store_open(url, TRUE, NULL);
  damage_all(store);
  test_flip_byte(second, "x", "chunked.bin", 19, 5);
  test_remove_chunk(second, "x", "small.json", 0);
  g_autoptr(BlRepairResult) result = repair(store, url, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->n_files_mended, ==, 1);
  g_assert_cmpuint(result->left->len, ==, 2);
  g_assert_nonnull(strstr(((BlRepairItem *)result->left->pdata[0])->text, "SHA-256"));
  g_assert_nonnull(strstr(((BlRepairItem *)result->left->pdata[1])->text, "missing"));
}

static void test_cancelled(void) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlStore) store = open_pair("cancelled", BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_INFO);
  damage_all(store);
  BlRepairOptions options = {0};
  BlJob job;
  bl_job_init(&job);
  job.cancelled = 1;
  g_assert_null(bl_repair(store, "x", &options, &job, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CANCELLED);
  bl_job_clear(&job);
}

/* Every call of the store fails once: an error, or what could not be mended is named; the next
 * repair ends it. */
static void test_faults(void) {
  for (guint64 n = 1, hits = 1; hits > 0; n++) {
    g_autofree char *name = g_strdup_printf("faults-%" G_GUINT64_FORMAT, n);
    g_autofree char *url = g_strconcat("memory:", name, NULL);
    g_autoptr(BlStore) store =
        bl_fault_store_new(open_pair(name, BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_INFO));
    damage_all(store);
    g_autoptr(GError) error = NULL;
    BlFaultRule rule = {BL_FAULT_ANY, n, 1, TRUE, BL_ERROR_IO, 0};
    bl_fault_store_set_rule(store, &rule);
    g_autoptr(BlRepairResult) result = repair(store, url, &error);
    hits = bl_fault_store_n_hits(store);
    g_assert_true((result == NULL) == (error != NULL));
    rule.n = 0;
    bl_fault_store_set_rule(store, &rule);
    if (result != NULL && result->left->len == 0) assert_whole(store);
    g_clear_error(&error);
    g_autoptr(BlRepairResult) again = repair(store, url, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(again->left->len, ==, 0);
    assert_whole(store);
  }
}

/* What was put and could not be made durable goes again; the rest stays. */
static void test_not_durable(void) {
  char url[] = "memory:not-durable";
  char key[BL_KEY_MAX];
  guint64 size;
  g_autoptr(GError) error = NULL;
  g_autoptr(BlStore) store =
      bl_fault_store_new(open_pair("not-durable", BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_INFO));
  test_flip_byte(store, "x", "whole.bin", 0, 100003);
  BlFaultRule rule = {BL_FAULT_SYNC, 1, 1, TRUE, BL_ERROR_IO, 0};
  bl_fault_store_set_rule(store, &rule);
  g_assert_null(repair(store, url, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  rule.n = 0;
  bl_fault_store_set_rule(store, &rule);
  g_assert_false(bl_store_size(store, bl_key_chunk(key, "x", "whole.bin", 0), &size, NULL));
  g_assert_true(bl_store_size(store, bl_key_chunk(key, "x", "small.json", 0), &size, NULL));
  g_clear_error(&error);
  g_autoptr(BlRepairResult) again = repair(store, url, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(again->n_files_mended, ==, 1);
  assert_whole(store);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/repair/bad-chunks/local", GUINT_TO_POINTER(BL_MEMORY_STORE_CAPS),
                       test_bad_chunks);
  g_test_add_data_func(
      "/repair/bad-chunks/remote",
      GUINT_TO_POINTER((BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_OPEN_FD) | BL_STORE_IS_REMOTE),
      test_bad_chunks);
  g_test_add_func("/repair/no-source", test_no_source);
  g_test_add_func("/repair/no-digests", test_no_digests);
  g_test_add_func("/repair/unknown-layout", test_unknown_layout);
  g_test_add_func("/repair/damaged-source", test_damaged_source);
  g_test_add_func("/repair/cancelled", test_cancelled);
  g_test_add_func("/repair/not-durable", test_not_durable);
  g_test_add_func("/repair/faults", test_faults);
  return g_test_run();
}
