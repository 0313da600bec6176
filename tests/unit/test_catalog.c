#include "model/catalog.h"

#include <string.h>

#include "golden.h"
#include "model/info.h"
#include "store/claim.h"
#include "store/fault.h"

static void save(BlStore *store, const char *id, const char *model, const char *revision,
                 gboolean is_ready) {
  g_autoptr(BlManifest) manifest = bl_manifest_new(id, model, revision, "/s");
  g_autoptr(GError) error = NULL;
  manifest->is_ready = is_ready;
  if (!is_ready) manifest->error = g_strdup("disk full");
  manifest->created_at = 5;
  manifest->updated_at = 6;
  BlManifestFile *file = bl_manifest_add(manifest, "a.bin");
  file->size = file->chunk_size = 7;
  file->n_chunks = 1;
  file->has_sha256 = TRUE;
  memset(file->sha256, id[0], sizeof file->sha256);
  bl_manifest_finish(manifest, &error);
  g_assert_no_error(error);
  bl_manifest_save(store, manifest, &error);
  g_assert_no_error(error);
}

static void save_info(BlStore *store, const char *id, const char *commit) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlManifest) manifest = bl_manifest_load(store, id, 0, &error);
  g_assert_no_error(error);
  g_autoptr(BlInfo) info = bl_info_new(manifest);
  info->commit = g_strdup(commit);
  info->commit_from_source = TRUE;
  bl_info_save(store, manifest, info, &error);
  g_assert_no_error(error);
}

/* "id STATUS model, …", as listed. */
static char *list(BlStore *store, const char *model_id) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GPtrArray) checkpoints = bl_catalog_list(store, model_id, NULL, &error);
  g_assert_no_error(error);
  GString *out = g_string_new(NULL);
  for (guint i = 0; i < checkpoints->len; i++) {
    const BlCheckpoint *c = g_ptr_array_index(checkpoints, i);
    g_string_append_printf(out, "%s%s %s %s", i > 0 ? ", " : "", c->checkpoint_id,
                           bl_checkpoint_status_name(c->status),
                           c->model_id != NULL ? c->model_id : "-");
  }
  return g_string_free(out, FALSE);
}

static void assert_list(BlStore *store, const char *model_id, const char *expected) {
  g_autofree char *found = list(store, model_id);
  g_assert_cmpstr(found, ==, expected);
}

static const BlCheckpoint *find(const GPtrArray *checkpoints, const char *id) {
  for (guint i = 0; i < checkpoints->len; i++) {
    const BlCheckpoint *checkpoint = g_ptr_array_index(checkpoints, i);
    if (strcmp(checkpoint->checkpoint_id, id) == 0) return checkpoint;
  }
  g_assert_not_reached();
}

static void test_every_status(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  assert_list(store, NULL, "");
  save(store, "ready", "m", "main", TRUE);
  save(store, "failed", "m", "main", FALSE);
  save(store, "importing", "n", "main", FALSE);
  save(store, "deleting", "n", "main", FALSE);
  put_text(store, "weight/models/corrupt/manifest", "{");
  put_text(store, "weight/models/leftover/files/x", "bytes");
  put_text(store, "weight/models/.odd/manifest", "not ours");
  BlClaim *import = bl_claim_acquire(store, "weight/models/importing/", "import", 0, NULL, &error);
  g_assert_no_error(error);
  BlClaim *starting = bl_claim_acquire(store, "weight/models/starting/", "import", 0, NULL, &error);
  g_assert_no_error(error);
  BlClaim *removal = bl_claim_acquire(store, "weight/models/deleting/", "delete", 0, NULL, &error);
  g_assert_no_error(error);
  assert_list(store, NULL,
              "corrupt CORRUPT -, deleting DELETING n, failed FAILED m, importing IMPORTING n, "
              "leftover LEFTOVER -, "
              "ready READY m, starting IMPORTING -");
  assert_list(store, "m", "failed FAILED m, ready READY m");
  assert_list(store, "nobody", "");
  bl_claim_release(import, &error);
  bl_claim_release(starting, &error);
  bl_claim_release(removal, &error);
  g_assert_no_error(error);
  assert_list(store, NULL,
              "corrupt CORRUPT -, deleting FAILED n, failed FAILED m, importing FAILED n, leftover "
              "LEFTOVER -, ready READY m");
}

static void test_what_is_known(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  save(store, "ready", "m", "v1", TRUE);
  save(store, "failed", "m", "main", FALSE);
  put_text(store, "weight/models/corrupt/manifest", "{");
  g_autoptr(GPtrArray) all = bl_catalog_list(store, NULL, NULL, &error);
  g_assert_no_error(error);
  const BlCheckpoint *ready = find(all, "ready");
  g_assert_cmpstr(ready->revision, ==, "v1");
  g_assert_null(ready->error);
  g_assert_cmpuint(ready->n_files, ==, 1);
  g_assert_cmpuint(ready->total_size, ==, 7);
  g_assert_cmpint(ready->created_at, ==, 5);
  g_assert_cmpint(ready->updated_at, ==, 6);
  g_assert_cmpstr(find(all, "failed")->error, ==, "disk full");
  g_assert_nonnull(strstr(find(all, "corrupt")->error, "not valid JSON"));
}

/* Where others keep the store and it cannot list, the index objects tell. */
static void test_shared_without_listing(void) {
  BlStoreCaps caps = (BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_LIST) | BL_STORE_IS_SHARED;
  g_autoptr(BlStore) store = bl_memory_store_new(caps);
  assert_list(store, NULL, "");
  save(store, "a", "m", "main", TRUE);
  save(store, "b", "n", "main", TRUE);
  save(store, "unlisted", "n", "main", TRUE);
  put_text(store, BL_KEY_INDEX_MODELS, "[\"a\",\"b\",\"gone\",\"../x\"]");
  BlKeyBuffer key;
  put_text(store, bl_key_index_model(key, "n"), "[\"b\"]");
  assert_list(store, NULL, "a READY m, b READY n, gone LEFTOVER -");
  assert_list(store, "n", "b READY n");
  g_autoptr(GError) error = NULL;
  put_text(store, BL_KEY_INDEX_MODELS, "{}");
  g_assert_null(bl_catalog_list(store, NULL, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
}

static void test_cannot_list(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_LIST);
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_catalog_list(store, NULL, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
}

/* One manifest that cannot be read is shown as that; a store that cannot be reached ends the list.
 */
static void test_faults(void) {
  g_autoptr(BlStore) store = bl_fault_store_new(bl_memory_store_new(BL_MEMORY_STORE_CAPS));
  save(store, "a", "m", "main", TRUE);
  save(store, "b", "m", "main", TRUE);
  BlFaultRule rule = {
      .op = BL_FAULT_OPEN_FD, .n = 1, .times = 1, .fails = TRUE, .code = BL_ERROR_DENIED};
  BlJob job;
  bl_job_init(&job);
  job.n_threads = 1;
  bl_fault_store_set_rule(store, &rule);
  g_autoptr(GError) error = NULL;
  g_autoptr(GPtrArray) all = bl_catalog_list(store, NULL, &job, &error);
  g_assert_no_error(error);
  g_assert_cmpint(find(all, "a")->status, ==, BL_CHECKPOINT_UNREADABLE);
  g_assert_cmpint(find(all, "b")->status, ==, BL_CHECKPOINT_READY);
  rule.code = BL_ERROR_UNAVAILABLE;
  bl_fault_store_set_rule(store, &rule);
  g_assert_null(bl_catalog_list(store, NULL, &job, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNAVAILABLE);
  g_clear_error(&error);
  bl_fault_store_set_rule(store, &rule);
  g_assert_null(bl_catalog_resolve(store, "m", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNAVAILABLE);
  job.cancelled = TRUE;
  g_clear_error(&error);
  g_assert_null(bl_catalog_list(store, NULL, &job, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CANCELLED);
  bl_job_clear(&job);
}

static void assert_resolves(BlStore *store, const char *name, const char *id) {
  g_autoptr(GError) error = NULL;
  g_autofree char *found = bl_catalog_resolve(store, name, &error);
  g_assert_no_error(error);
  g_assert_cmpstr(found, ==, id);
}

static void assert_unresolved(BlStore *store, const char *name, BlErrorCode expected,
                              const char *text) {
  g_autoptr(GError) error = NULL;
  int code = expected;
  g_assert_null(bl_catalog_resolve(store, name, &error));
  g_assert_error(error, BL_ERROR, code);
  if (strstr(error->message, text) == NULL) g_error("\"%s\" is not in: %s", text, error->message);
}

#define COMMIT_A "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"
#define COMMIT_B "aaaaaaaaaaeeeeeeeeeeccccccccccdddddddddd"

static void test_resolve(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  save(store, "one", "org/one", "main", TRUE);
  save(store, "two-a", "org/two", "v1", TRUE);
  save(store, "two-b", "org/two", "v2", TRUE);
  save(store, "two-c", "org/two", "v3", FALSE);
  save(store, "at", "name@host", "main", TRUE);
  save_info(store, "two-a", COMMIT_A);
  save_info(store, "two-b", COMMIT_B);
  assert_resolves(store, "one", "one");
  assert_resolves(store, "two-c", "two-c");
  assert_resolves(store, "org/one", "one");
  assert_resolves(store, "org/one@main", "one");
  assert_resolves(store, "org/two@v1", "two-a");
  assert_resolves(store, "org/two@" COMMIT_B, "two-b");
  assert_resolves(store, "org/two@aaaaaaaaaab", "two-a");
  assert_resolves(store, "name@host", "at");
  assert_resolves(store, "name@host@main", "at");
  assert_unresolved(store, "org/two", BL_ERROR_INVALID,
                    "\"two-a\" (READY), \"two-b\" (READY) (name one by its id");
  assert_unresolved(store, "org/two@aaaaaaaaaa", BL_ERROR_INVALID,
                    "\"two-a\" (READY), \"two-b\" (READY)");
  assert_unresolved(store, "org/two@aaaa", BL_ERROR_NOT_FOUND,
                    "of its model there is \"two-a\" (READY)");
  assert_unresolved(store, "org/two@v3", BL_ERROR_NOT_FOUND, "\"two-c\" (FAILED)");
  assert_unresolved(store, "org/none", BL_ERROR_NOT_FOUND,
                    "no checkpoint, and no model, \"org/none\"");
  assert_unresolved(store, "none", BL_ERROR_NOT_FOUND, "\"none\"");
  assert_unresolved(store, "a\nb", BL_ERROR_INVALID, "a\\nb");
  assert_unresolved(store, "", BL_ERROR_INVALID, "empty");
}

/* A ref, once set, decides alone. */
static void test_resolve_by_ref(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  save(store, "a", "m", "main", TRUE);
  save(store, "b", "m", "v1", TRUE);
  assert_unresolved(store, "m", BL_ERROR_INVALID, "\"a\" (READY), \"b\" (READY)");
  bl_ref_set(store, "m", "main", "b", &error);
  bl_ref_set(store, "m", "v1", "a", &error);
  bl_ref_set(store, "m", "gone", "c", &error);
  g_assert_no_error(error);
  assert_resolves(store, "m", "b");
  assert_resolves(store, "m@main", "b");
  assert_resolves(store, "m@v1", "a");
  assert_unresolved(store, "m@gone", BL_ERROR_NOT_FOUND, "names checkpoint \"c\", which is gone");
  assert_unresolved(store, "m@other", BL_ERROR_NOT_FOUND, "m@other");
}

static void test_resolve_leftover(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  put_text(store, "weight/models/left/files/x", "bytes");
  put_text(store, "weight/models/corrupt/manifest", "{");
  assert_resolves(store, "left", "left");
  assert_resolves(store, "corrupt", "corrupt");
}

/* An id that is another model's id, too, means the checkpoint. */
static void test_resolve_id_first(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  save(store, "x", "other", "main", TRUE);
  save(store, "y", "x", "main", TRUE);
  assert_resolves(store, "x", "x");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/catalog/every-status", test_every_status);
  g_test_add_func("/catalog/what-is-known", test_what_is_known);
  g_test_add_func("/catalog/shared-without-listing", test_shared_without_listing);
  g_test_add_func("/catalog/cannot-list", test_cannot_list);
  g_test_add_func("/catalog/faults", test_faults);
  g_test_add_func("/catalog/resolve", test_resolve);
  g_test_add_func("/catalog/resolve-by-ref", test_resolve_by_ref);
  g_test_add_func("/catalog/resolve-leftover", test_resolve_leftover);
  g_test_add_func("/catalog/resolve-id-first", test_resolve_id_first);
  return g_test_run();
}
