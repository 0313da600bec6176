#include "model/copy.h"

#include "base/error.h"
#include "checkpoint.h"
#include "model/ref.h"
#include "model/verify.h"
#include "store/fault.h"
#include "store/memory.h"

#define REMOTE ((BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_OPEN_FD) | BL_STORE_IS_REMOTE)

static const TestFile files[] = {
    {"a/empty", 0, 0, FALSE},
    {"chunked.bin", 5 * 300000 + 12345, 300000, FALSE},
    {"run.sh", 100, 0, TRUE},
    {"whole.bin", 200017, 0, FALSE},
};

static BlStore *open_source(BlStoreCaps caps, TestParts parts) {
  BlStore *store = bl_memory_store_new(caps);
  test_put_checkpoint(store, "x", files, G_N_ELEMENTS(files), parts);
  g_assert_true(bl_ref_set(store, "org/model", "main", "x", NULL));
  return store;
}

static BlCopyResult *copy(BlStore *from, BlStore *to, guint64 chunk_size, GError **error) {
  BlCopyOptions options = {.checkpoint_id = "y", .file_chunk_size = chunk_size};
  BlJob job;
  bl_job_init(&job);
  BlCopyResult *result = bl_copy(from, "x", to, &options, &job, error);
  bl_job_clear(&job);
  return result;
}

static void assert_copied(BlStore *to, guint64 chunk_size) {
  g_autoptr(GError) error = NULL;
  BlVerifyOptions options = {FALSE};
  BlJob job;
  bl_job_init(&job);
  g_autoptr(BlVerifyResult) result = bl_verify(to, "y", &options, &job, &error);
  g_assert_no_error(error);
  g_assert_false(bl_verify_result_is_bad(result));
  g_autoptr(BlManifest) manifest = bl_manifest_load_ready(to, "y", &error);
  g_assert_no_error(error);
  for (guint64 i = 0; chunk_size > 0 && i < manifest->n_files; i++)
    g_assert_cmpuint(manifest->files[i].chunk_size, ==, chunk_size);
  g_autoptr(BlInfo) info = bl_info_load(to, manifest, &error);
  g_assert_no_error(error);
  g_assert_true(info->executable[bl_manifest_find(manifest, "run.sh") - manifest->files]);
  g_autoptr(BlDigests) digests = bl_digests_load(to, manifest, &error);
  g_assert_nonnull(bl_digests_get(digests, 1));
  g_autofree char *id = bl_ref_get(to, "org/model", "main", &error);
  g_assert_cmpstr(id, ==, "y");
  bl_job_clear(&job);
}

/* Between stores of every kind, into chunks of every size. */
static void test_chunks(void) {
  static const BlStoreCaps caps[] = {BL_MEMORY_STORE_CAPS, REMOTE};
  static const guint64 sizes[] = {0, 1000, 300000, BL_BLOCK_SIZE};
  for (gsize i = 0; i < 16; i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(BlStore) from = open_source(caps[i % 2], TEST_DIGESTS | TEST_INFO);
    g_autoptr(BlStore) to = bl_memory_store_new(caps[i / 2 % 2]);
    g_autoptr(BlCopyResult) result = copy(from, to, sizes[i / 4], &error);
    g_assert_no_error(error);
    g_assert_cmpuint(result->n_files_written, ==, G_N_ELEMENTS(files));
    assert_copied(to, sizes[i / 4]);
    g_autoptr(BlCopyResult) again = copy(from, to, 12345, &error);
    g_assert_no_error(error);
    g_assert_true(again->was_there);
    g_assert_cmpuint(again->n_bytes_written, ==, 0);
    assert_copied(to, sizes[i / 4]);
  }
}

/* Chunks of unknown lengths can be read in order, and that is all a copy needs. */
static void test_unknown_layout(void) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlStore) from =
      open_source(BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_INFO | TEST_HIDE_CHUNK_SIZE);
  g_autoptr(BlStore) to = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlCopyResult) result = copy(from, to, 0, &error);
  g_assert_no_error(error);
  assert_copied(to, 0);
}

static gboolean count_one(const char *key, const BlObjectStat *object, gpointer user,
                          GError **error) {
  (void)key, (void)object, (void)error;
  (*(guint64 *)user)++;
  return TRUE;
}

static guint64 count_objects(BlStore *store, const char *prefix) {
  guint64 n = 0;
  g_assert_true(bl_store_list(store, prefix, count_one, &n, NULL));
  return n;
}

/* Nothing of a damaged checkpoint gets there. */
static void test_damage(void) {
  g_autoptr(BlStore) from = open_source(REMOTE, TEST_INFO);
  g_autoptr(BlStore) to = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  test_flip_byte(from, "x", "chunked.bin", 2, 77);
  g_assert_null(copy(from, to, 0, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_nonnull(strstr(error->message, "chunked.bin"));
  g_assert_cmpuint(count_objects(to, "weight/models/"), ==, 0);
}

static void test_no_room(void) {
  g_autoptr(BlStore) from = open_source(BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_INFO);
  g_autoptr(BlStore) to = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  bl_memory_store_set_capacity(to, 1000000);
  g_assert_null(copy(from, to, 0, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
  g_assert_cmpuint(count_objects(to, "weight/models/"), ==, 0);
}

/* Every call of either store fails once: an error, nothing READY that is not whole, and the next
 * copy succeeds. */
static void test_faults(gconstpointer data) {
  gboolean is_source = GPOINTER_TO_INT(data) == 0;
  for (guint64 n = 1, hits = 1; hits > 0; n++) {
    g_autoptr(BlStore) from = open_source(BL_MEMORY_STORE_CAPS, TEST_DIGESTS | TEST_INFO);
    g_autoptr(BlStore) to = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
    BlStore **faulty = is_source ? &from : &to;
    g_autoptr(GError) error = NULL;
    BlFaultRule rule = {BL_FAULT_ANY, n, 1, TRUE, BL_ERROR_IO, 0};
    *faulty = bl_fault_store_new(*faulty);
    bl_fault_store_set_rule(*faulty, &rule);
    g_autoptr(BlCopyResult) result = copy(from, to, 100000, &error);
    hits = bl_fault_store_n_hits(*faulty);
    rule.n = 0;
    bl_fault_store_set_rule(*faulty, &rule);
    g_assert_true((result == NULL) == (error != NULL));
    g_autoptr(BlManifest) manifest = bl_manifest_load_ready(to, "y", NULL);
    if (result != NULL) assert_copied(to, 100000);
    g_assert_true(result == NULL || manifest != NULL);
    g_clear_error(&error);
    g_autoptr(BlCopyResult) again = copy(from, to, 100000, &error);
    g_assert_no_error(error);
    assert_copied(to, 100000);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/copy/chunks", test_chunks);
  g_test_add_func("/copy/unknown-layout", test_unknown_layout);
  g_test_add_func("/copy/damage", test_damage);
  g_test_add_func("/copy/no-room", test_no_room);
  g_test_add_data_func("/copy/faults/source", GINT_TO_POINTER(0), test_faults);
  g_test_add_data_func("/copy/faults/target", GINT_TO_POINTER(1), test_faults);
  return g_test_run();
}
