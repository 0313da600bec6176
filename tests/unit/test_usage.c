#include "model/usage.h"

#include "golden.h"
#include "store/fault.h"

static BlStore *make_store(BlStoreCaps caps) {
  BlStore *store = bl_memory_store_new(caps);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_assert_true(bl_manifest_save(store, manifest, NULL));
  return store;
}

static gboolean has_object(BlStore *store) {
  BlKeyBuffer key;
  guint64 size;
  return bl_store_size(store, bl_key_used(key, GOLDEN_ID), &size, NULL);
}

static void test_golden(void) {
  g_autoptr(BlStore) store = make_store(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  gsize size;
  gint64 before = g_get_real_time();
  bl_usage_record(store, GOLDEN_ID);
  gint64 used_at = bl_usage_get(store, GOLDEN_ID);
  g_assert_cmpint(used_at, >=, before);
  g_assert_cmpint(used_at, <=, g_get_real_time());
  g_autofree char *data = NULL, *digits = g_strdup_printf("%" G_GINT64_FORMAT, used_at);
  g_assert_true(bl_store_load(store, bl_key_used(key, GOLDEN_ID), 4096, &data, &size, NULL));
  g_autofree char *golden = golden_load("docs/formats/golden", "used.json", &size);
  g_autofree char *expected = with_change(golden, "1700000180123456", digits);
  g_assert_cmpstr(data, ==, expected);
  put_text(store, key, golden);
  g_assert_cmpint(bl_usage_get(store, GOLDEN_ID), ==, 1700000180123456);
}

/* What cannot be read tells no time. */
static void test_unreadable(void) {
  static const char *const texts[] = {
      "",
      "{}",
      "{\"schema_version\":1,\"used_at\":5}",
      "{\"schema_version\":1,\"checkpoint_id\":\"x\",\"used_at\":5}",
      "{\"schema_version\":2,\"checkpoint_id\":\"" GOLDEN_ID "\",\"used_at\":5}",
      "{\"schema_version\":1,\"checkpoint_id\":\"" GOLDEN_ID "\",\"used_at\":-5}"};
  g_autoptr(BlStore) store = make_store(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  g_assert_cmpint(bl_usage_get(store, GOLDEN_ID), ==, 0);
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    put_text(store, bl_key_used(key, GOLDEN_ID), texts[i]);
    g_assert_cmpint(bl_usage_get(store, GOLDEN_ID), ==, 0);
  }
}

/* The checkpoint was deleted after the reader had opened it. */
static void test_deleted(void) {
  g_autoptr(BlStore) store = make_store(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  g_assert_true(bl_store_remove(store, bl_key_manifest(key, GOLDEN_ID), NULL));
  bl_usage_record(store, GOLDEN_ID);
  g_assert_false(has_object(store));
}

static void test_cannot_write(void) {
  g_autoptr(BlStore) read_only = make_store(BL_MEMORY_STORE_CAPS);
  read_only->caps |= BL_STORE_IS_READ_ONLY;
  bl_usage_record(read_only, GOLDEN_ID);
  g_assert_false(has_object(read_only));

  g_autoptr(BlStore) store = bl_fault_store_new(make_store(BL_MEMORY_STORE_CAPS));
  BlFaultRule rule = {BL_FAULT_PUT, 1, 1, TRUE, BL_ERROR_DENIED, 0};
  bl_fault_store_set_rule(store, &rule);
  bl_usage_record(store, GOLDEN_ID);
  g_assert_false(has_object(store));
}

static void test_hold(void) {
  g_autoptr(BlStore) store = make_store(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  BlHoldState state;
  BlStoreHold *hold = bl_usage_hold(store, GOLDEN_ID), *second = bl_usage_hold(store, GOLDEN_ID);
  g_assert_true(hold != NULL && second != NULL);
  bl_store_hold_free(second);
  g_assert_true(bl_store_is_held(store, bl_key_manifest(key, GOLDEN_ID), &state, NULL));
  g_assert_cmpint(state, ==, BL_HOLD_HELD);
  bl_store_hold_free(hold);
  g_assert_true(bl_store_is_held(store, key, &state, NULL));
  g_assert_cmpint(state, !=, BL_HOLD_HELD);
  g_assert_null(bl_usage_hold(store, "absent"));
  g_autoptr(BlStore) without = make_store(BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_HOLD);
  g_assert_null(bl_usage_hold(without, GOLDEN_ID));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/usage/golden", test_golden);
  g_test_add_func("/usage/unreadable", test_unreadable);
  g_test_add_func("/usage/deleted", test_deleted);
  g_test_add_func("/usage/cannot-write", test_cannot_write);
  g_test_add_func("/usage/hold", test_hold);
  return g_test_run();
}
