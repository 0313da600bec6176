#include "model/state.h"

#include <string.h>

#include "golden.h"
#include "store/claim.h"
#include "store/fault.h"

#define N_CAPS BL_MEMORY_STORE_CAPS

static BlStore *make_store(void) {
  BlStore *store = bl_memory_store_new(N_CAPS);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(GError) error = NULL;
  bl_manifest_save(store, manifest, &error);
  g_assert_no_error(error);
  return store;
}

static void put_state(BlStore *store, const char *text) {
  BlKeyBuffer key;
  put_text(store, bl_key_state(key, GOLDEN_ID), text);
}

static gboolean make_golden(BlState *state, gpointer user) {
  (void)user;
  state->is_pinned = TRUE;
  state->checked_at = 1700000120;
  bl_state_add_path(state->missing, "README.md");
  bl_state_add_path(state->damaged, golden_files[3].path);
  bl_state_add_path(state->damaged, "model.safetensors");
  return TRUE;
}

static gboolean change_nothing(BlState *state, gpointer user) {
  (void)state;
  (void)user;
  return FALSE;
}

static void test_golden(void) {
  g_autoptr(BlStore) store = make_store();
  g_autoptr(GError) error = NULL;
  BlKeyBuffer key;
  g_assert_true(bl_state_update(store, GOLDEN_ID, make_golden, NULL, 0, NULL, &error));
  g_assert_no_error(error);
  assert_golden(store, bl_key_state(key, GOLDEN_ID), "state.json");
  g_autoptr(BlState) state = bl_state_load(store, GOLDEN_ID, &error);
  g_assert_no_error(error);
  g_assert_true(state->is_pinned);
  g_assert_cmpint(state->checked_at, ==, 1700000120);
  g_assert_cmpuint(state->missing->len, ==, 1);
  g_assert_cmpuint(state->damaged->len, ==, 2);
  g_assert_true(bl_state_has_path(state->damaged, "model.safetensors"));
  g_assert_false(bl_state_has_path(state->damaged, "README.md"));
  g_assert_true(bl_state_is_degraded(state));
  g_autofree char *text = bl_state_describe(state);
  g_assert_cmpstr(text, ==, "1 file missing, 2 damaged");
}

static void test_absent(void) {
  g_autoptr(BlStore) store = make_store();
  BlKeyBuffer key;
  guint64 size;
  g_autoptr(BlState) state = bl_state_load(store, GOLDEN_ID, NULL);
  g_assert_nonnull(state);
  g_assert_false(state->is_pinned || bl_state_is_degraded(state));
  g_assert_cmpint(state->checked_at, ==, 0);
  g_assert_true(bl_state_check_whole(store, GOLDEN_ID, NULL, NULL));
  /* No change, no object. */
  g_assert_true(bl_state_update(store, GOLDEN_ID, change_nothing, NULL, 0, NULL, NULL));
  g_assert_false(bl_store_size(store, bl_key_state(key, GOLDEN_ID), &size, NULL));
}

static void test_refused(void) {
  static const char *const texts[] = {
      "",
      "[]",
      "{}",
      "{\"schema_version\":0,\"pinned\":true,\"checked_at\":0,\"missing\":[],\"damaged\":[]}",
      "{\"schema_version\":1,\"checked_at\":0,\"missing\":[],\"damaged\":[]}",
      "{\"schema_version\":1,\"pinned\":1,\"checked_at\":0,\"missing\":[],\"damaged\":[]}",
      "{\"schema_version\":1,\"pinned\":true,\"checked_at\":-1,\"missing\":[],\"damaged\":[]}",
      "{\"schema_version\":1,\"pinned\":true,\"checked_at\":0,\"damaged\":[]}",
      "{\"schema_version\":1,\"pinned\":true,\"checked_at\":0,\"missing\":[1],\"damaged\":[]}",
      "{\"schema_version\":1,\"pinned\":true,\"checked_at\":0,\"missing\":[\"b\",\"a\"],"
      "\"damaged\":[]}",
  };
  g_autoptr(BlStore) store = make_store();
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GError) error = NULL;
    put_state(store, texts[i]);
    g_assert_null(bl_state_load(store, GOLDEN_ID, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    g_assert_nonnull(strstr(error->message, GOLDEN_ID));
    g_autoptr(BlState) usable = bl_state_load_usable(store, GOLDEN_ID, NULL, NULL);
    g_assert_nonnull(usable);
  }
  /* Damaged: a change writes it anew, even one that changes nothing. */
  g_assert_true(bl_state_update(store, GOLDEN_ID, change_nothing, NULL, 0, NULL, NULL));
  g_autoptr(BlState) anew = bl_state_load(store, GOLDEN_ID, NULL);
  g_assert_nonnull(anew);
}

/* What a later version recorded is not ours to replace. */
static void test_later(void) {
  g_autoptr(BlStore) store = make_store();
  g_autoptr(GError) error = NULL;
  put_state(store, "{\"schema_version\":2,\"pinned\":true}");
  g_assert_null(bl_state_load(store, GOLDEN_ID, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
  g_clear_error(&error);
  g_assert_false(bl_state_update(store, GOLDEN_ID, make_golden, NULL, 0, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
  g_assert_true(bl_state_check_whole(store, GOLDEN_ID, NULL, NULL));
}

static void test_degraded(void) {
  g_autoptr(BlStore) store = make_store();
  g_autoptr(GError) error = NULL;
  bl_state_update(store, GOLDEN_ID, make_golden, NULL, 0, NULL, &error);
  g_assert_no_error(error);
  g_assert_false(bl_state_check_whole(store, GOLDEN_ID, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_nonnull(strstr(error->message, "1 file missing, 2 damaged"));
  g_assert_nonnull(strstr(error->message, "ballast model repair " GOLDEN_ID));
  g_assert_true(bl_state_update(store, GOLDEN_ID, bl_state_clear_findings, NULL, 0, NULL, NULL));
  g_autoptr(BlState) state = bl_state_load(store, GOLDEN_ID, NULL);
  g_assert_false(bl_state_is_degraded(state));
  g_assert_true(state->is_pinned);
}

static void test_many(void) {
  g_autoptr(BlState) state = bl_state_new();
  for (guint i = 0; i < BL_STATE_MAX_PATHS + 5; i++) {
    g_autofree char *path = g_strdup_printf("f-%u", i * 7919 % 100003);
    g_assert_true(bl_state_add_path(state->damaged, path) == (i < BL_STATE_MAX_PATHS));
    g_assert_false(bl_state_add_path(state->damaged, path));
  }
  for (guint i = 1; i < state->damaged->len; i++)
    g_assert_cmpstr(state->damaged->pdata[i - 1], <, state->damaged->pdata[i]);
  g_autofree char *text = bl_state_describe(state);
  g_assert_cmpstr(text, ==, "at least 1000 files damaged");
  /* Long paths: few of them. */
  g_autofree char *padding = g_strnfill(4000, 'x');
  for (guint i = 0; i < 100; i++) {
    g_autofree char *path = g_strdup_printf("%u%s", i, padding);
    bl_state_add_path(state->missing, path);
  }
  g_assert_cmpuint(state->missing->len, ==, 65);
}

/* Nothing is claimed or written under a checkpoint that is not there. */
/* What mended a file may have been killed before it was durable. */
static void test_findings_that_go(void) {
  g_autoptr(BlStore) store = bl_fault_store_new(make_store());
  g_autoptr(GError) error = NULL;
  BlFaultRule rule = {BL_FAULT_SYNC, 1, 1, TRUE, BL_ERROR_IO, 0};
  g_assert_true(bl_state_update(store, GOLDEN_ID, make_golden, NULL, 0, NULL, &error));
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_ADOPT), ==, 0);
  bl_fault_store_set_rule(store, &rule);
  g_assert_false(bl_state_update(store, GOLDEN_ID, bl_state_clear_findings, NULL, 0, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_ADOPT), >, 0);
  g_clear_error(&error);
  g_autoptr(BlState) state = bl_state_load(store, GOLDEN_ID, &error);
  g_assert_true(bl_state_is_degraded(state));
  g_assert_true(bl_state_update(store, GOLDEN_ID, bl_state_clear_findings, NULL, 0, NULL, &error));
  g_assert_no_error(error);
  g_autoptr(BlState) cleared = bl_state_load(store, GOLDEN_ID, &error);
  g_assert_false(bl_state_is_degraded(cleared));
}

static void test_no_checkpoint(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(N_CAPS);
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_state_update(store, "x", make_golden, NULL, 0, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NOT_FOUND);
  g_clear_error(&error);
  g_assert_false(bl_state_update(store, "../x", make_golden, NULL, 0, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
}

static void test_busy(void) {
  g_autoptr(BlStore) store = make_store();
  g_autoptr(GError) error = NULL;
  BlKeyBuffer prefix;
  BlClaim *claim =
      bl_claim_acquire(store, bl_key_prefix(prefix, GOLDEN_ID), "import", 0, NULL, &error);
  g_assert_no_error(error);
  g_assert_false(bl_state_update(store, GOLDEN_ID, make_golden, NULL, 0, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_BUSY);
  g_clear_error(&error);
  g_assert_true(bl_state_update_claimed(store, GOLDEN_ID, make_golden, NULL, NULL, &error));
  g_assert_no_error(error);
  g_assert_true(bl_claim_release(claim, &error));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/state/golden", test_golden);
  g_test_add_func("/state/absent", test_absent);
  g_test_add_func("/state/refused", test_refused);
  g_test_add_func("/state/later", test_later);
  g_test_add_func("/state/degraded", test_degraded);
  g_test_add_func("/state/many", test_many);
  g_test_add_func("/state/findings-that-go", test_findings_that_go);
  g_test_add_func("/state/no-checkpoint", test_no_checkpoint);
  g_test_add_func("/state/busy", test_busy);
  return g_test_run();
}
