#include "upkeep/prune.h"

#include <unistd.h>

#include "../support/folder.h"
#include "model/room.h"
#include "model/state.h"
#include "model/usage.h"
#include "store/fault.h"
#include "upkeep.h"

#define DAY (24 * 3600)

static gint64 now_s(void) {
  return g_get_real_time() / G_USEC_PER_SEC;
}

/* READY, imported so many days ago. */
static void put(BlStore *store, const char *id, const char *model_id, gint64 days) {
  g_autoptr(GError) error = NULL;
  upkeep_put_ready(store, id);
  g_autoptr(BlManifest) manifest = bl_manifest_load(store, id, 0, &error);
  g_assert_no_error(error);
  manifest->created_at = manifest->updated_at = now_s() - days * DAY;
  g_free(manifest->model_id);
  manifest->model_id = g_strdup(model_id);
  g_assert_true(bl_manifest_save(store, manifest, &error));
}

/* "gone ids | spared ids". */
static char *run(BlStore *store, const BlPruneOptions *options, BlPruneResult *result) {
  g_autoptr(GError) error = NULL;
  BlPruneResult own;
  if (result == NULL) result = &own;
  bl_prune(store, options, NULL, result, &error);
  g_assert_no_error(error);
  GString *text = g_string_new(NULL);
  for (guint i = 0; i < result->gone->len; i++)
    g_string_append_printf(text, "%s ", ((BlPruneItem *)result->gone->pdata[i])->checkpoint_id);
  g_string_append_c(text, '|');
  for (guint i = 0; i < result->spared->len; i++)
    g_string_append_printf(text, " %s", ((BlPruneItem *)result->spared->pdata[i])->checkpoint_id);
  if (result == &own) bl_prune_result_clear(&own);
  return g_string_free(text, FALSE);
}

static void check(BlStore *store, const BlPruneOptions *options, const char *expected) {
  g_autofree char *text = run(store, options, NULL);
  g_assert_cmpstr(text, ==, expected);
}

static BlStore *four(void) {
  BlStore *store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  put(store, "a", "m", 40);
  put(store, "b", "m", 30);
  put(store, "c", "m", 20);
  put(store, "d", "other", 10);
  return store;
}

static guint64 used(BlStore *store) {
  guint64 n;
  g_assert_true(bl_room_used(store, &n, NULL));
  return n;
}

static void test_order(void) {
  g_autoptr(BlStore) store = four();
  BlPruneOptions options = BL_PRUNE_OPTIONS_INIT;
  options.max_bytes = used(store) - 8000;
  check(store, &options, "a b |");
  /* One that was read is the last to go. */
  bl_usage_record(store, "a");
  options.max_bytes = used(store) - 8000;
  check(store, &options, "b c |");
  options.max_bytes = used(store);
  check(store, &options, "|");
  options.max_bytes = 0;
  check(store, &options, "b c d a |");
  options.dry_run = FALSE;
  options.max_bytes = used(store) - 8000;
  check(store, &options, "b c |");
  g_assert_false(upkeep_has(store, "weight/models/b/manifest"));
  g_assert_true(upkeep_has(store, "weight/models/d/manifest"));
  g_assert_cmpuint(used(store), <=, options.max_bytes);
}

static void test_age(void) {
  g_autoptr(BlStore) store = four();
  BlPruneOptions options = BL_PRUNE_OPTIONS_INIT;
  options.older_than_s = 25 * DAY;
  check(store, &options, "a b |");
  bl_usage_record(store, "b");
  check(store, &options, "a |");
  options.older_than_s = 0;
  options.model_id = "other";
  check(store, &options, "d |");
}

/* A use in the future, as a wrong clock wrote it, is no old one. */
static void test_future(void) {
  g_autoptr(BlStore) store = four();
  BlPruneOptions options = BL_PRUNE_OPTIONS_INIT;
  g_autofree char *text = g_strdup_printf(
      "{\"checkpoint_id\":\"a\",\"schema_version\":1,\"used_at\":%" G_GINT64_FORMAT "}",
      g_get_real_time() + G_GINT64_CONSTANT(100) * DAY * G_USEC_PER_SEC);
  put_text(store, "weight/used/a", text);
  options.older_than_s = DAY;
  check(store, &options, "b c d |");
}

static void test_keep(void) {
  g_autoptr(BlStore) store = four();
  BlPruneOptions options = BL_PRUNE_OPTIONS_INIT;
  options.keep = 1;
  options.model_id = "m";
  options.revision = "main";
  check(store, &options, "a b |");
  /* The newest are kept, whatever was read. */
  bl_usage_record(store, "a");
  check(store, &options, "b a |");
  options.spare_id = "b";
  check(store, &options, "a | b");
  options.spare_id = NULL;
  options.keep = 3;
  check(store, &options, "|");
  options.revision = "v2";
  options.keep = 1;
  check(store, &options, "|");
}

static void test_nothing_asked(void) {
  g_autoptr(BlStore) store = four();
  BlPruneOptions options = BL_PRUNE_OPTIONS_INIT;
  BlPruneResult result;
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_prune(store, &options, NULL, &result, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  bl_prune_result_clear(&result);
  g_clear_error(&error);
  options.keep = 1;
  g_assert_false(bl_prune(store, &options, NULL, &result, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  bl_prune_result_clear(&result);
}

static gboolean pin(BlState *state, gpointer user) {
  (void)user;
  state->is_pinned = TRUE;
  return TRUE;
}

static void check_reason(const BlPruneResult *result, const char *id, const char *word) {
  for (guint i = 0; i < result->spared->len; i++) {
    const BlPruneItem *item = result->spared->pdata[i];
    if (strcmp(item->checkpoint_id, id) != 0) continue;
    g_assert_nonnull(strstr(item->reason, word));
    return;
  }
  g_assert_not_reached();
}

static void test_spared(void) {
  g_autoptr(BlStore) store = four();
  g_autoptr(GError) error = NULL;
  BlKeyBuffer key;
  BlPruneOptions options = BL_PRUNE_OPTIONS_INIT;
  BlPruneResult result;
  upkeep_put_failed(store, "f");
  g_assert_true(bl_state_update(store, "a", pin, NULL, 0, NULL, &error));
  BlClaim *claim = bl_claim_acquire(store, bl_key_prefix(key, "b"), "verify", 0, NULL, &error);
  g_assert_no_error(error);
  BlStoreHold *hold = bl_usage_hold(store, "c");
  g_assert_nonnull(hold);
  options.max_bytes = 0;
  options.dry_run = FALSE;
  g_autofree char *text = run(store, &options, &result);
  g_assert_cmpstr(text, ==, "d | f a b c");
  g_assert_false(result.is_reached);
  check_reason(&result, "a", "pinned");
  check_reason(&result, "b", "verify");
  check_reason(&result, "c", "reads");
  check_reason(&result, "f", "FAILED");
  bl_prune_result_clear(&result);
  bl_claim_release(claim, NULL);
  bl_store_hold_free(hold);
  options.max_bytes = G_MAXUINT64;
  options.older_than_s = DAY;
  g_autofree char *rest = run(store, &options, &result);
  g_assert_cmpstr(rest, ==, "b c | a");
  g_assert_true(result.is_reached);
  bl_prune_result_clear(&result);
}

/* What two share is freed by the second. */
static void test_shared(void) {
  g_autofree char *folder = NULL;
  g_autoptr(BlStore) store = upkeep_dir_store(&folder);
  g_autoptr(GError) error = NULL;
  BlKeyBuffer key;
  BlPruneResult result;
  put(store, "a", "m", 40);
  put(store, "b", "m", 30);
  g_autofree char *from = g_strdup(bl_key_chunk(key, "a", "model.safetensors", 0));
  int fd = bl_store_open_fd(store, from, &error);
  g_assert_no_error(error);
  g_assert_true(bl_store_share_fd(store, bl_key_chunk(key, "b", "model.safetensors", 0), fd,
                                  BL_PUT_REPLACE, &error));
  g_assert_no_error(error);
  close(fd);
  guint64 before = used(store);
  BlPruneOptions options = BL_PRUNE_OPTIONS_INIT;
  options.older_than_s = 0;
  options.dry_run = FALSE;
  g_autofree char *text = run(store, &options, &result);
  g_assert_cmpstr(text, ==, "a b |");
  const BlPruneItem *a = result.gone->pdata[0], *b = result.gone->pdata[1];
  g_assert_cmpuint(a->n_freed, <, 5000);
  g_assert_cmpuint(b->n_freed, >=, 5000);
  g_assert_cmpuint(result.n_used, ==, before);
  g_assert_cmpuint(used(store), ==, before - result.n_freed);
  bl_prune_result_clear(&result);
  remove_tree(folder);
}

/* Whatever fails: what was not to go is whole, and a later run ends the work. */
static void test_faults(void) {
  for (guint n = 1; n < 2000; n++) {
    g_autoptr(BlStore) store = bl_fault_store_new(four());
    g_autoptr(GError) error = NULL;
    BlPruneOptions options = BL_PRUNE_OPTIONS_INIT;
    BlPruneResult result;
    BlKeyBuffer key;
    BlFaultRule rule = {.op = BL_FAULT_ANY, .n = n, .times = 1, .fails = TRUE, .code = BL_ERROR_IO};
    options.older_than_s = 25 * DAY;
    options.dry_run = FALSE;
    bl_fault_store_set_rule(store, &rule);
    gboolean ok = bl_prune(store, &options, NULL, &result, &error);
    bl_prune_result_clear(&result);
    gboolean hit = bl_fault_store_n_hits(store) > 0;
    g_assert_true(ok || hit);
    bl_fault_store_set_rule(store, &(BlFaultRule){.op = BL_FAULT_ANY});
    for (guint i = 0; i < 2 * G_N_ELEMENTS(upkeep_files); i++)
      g_assert_true(upkeep_has(
          store, bl_key_chunk(key, i % 2 == 0 ? "c" : "d", upkeep_files[i / 2].path, 0)));
    g_autoptr(GError) again = NULL;
    bl_prune(store, &options, NULL, &result, &again);
    g_assert_no_error(again);
    bl_prune_result_clear(&result);
    if (!hit) return;
  }
  g_assert_not_reached();
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/prune/order", test_order);
  g_test_add_func("/prune/age", test_age);
  g_test_add_func("/prune/future", test_future);
  g_test_add_func("/prune/keep", test_keep);
  g_test_add_func("/prune/nothing-asked", test_nothing_asked);
  g_test_add_func("/prune/spared", test_spared);
  g_test_add_func("/prune/shared", test_shared);
  g_test_add_func("/prune/faults", test_faults);
  return g_test_run();
}
