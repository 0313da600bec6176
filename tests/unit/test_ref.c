#include "model/ref.h"

#include <string.h>

#include "golden.h"
#include "store/fault.h"

#define MODEL "org/golden"

static void set(BlStore *store, const char *model, const char *ref, const char *id) {
  g_autoptr(GError) error = NULL;
  bl_ref_set(store, model, ref, id, &error);
  g_assert_no_error(error);
}

static void assert_ref(BlStore *store, const char *model, const char *ref, const char *id) {
  g_autoptr(GError) error = NULL;
  g_autofree char *found = bl_ref_get(store, model, ref, &error);
  g_assert_no_error(error);
  g_assert_cmpstr(found, ==, id);
}

static void test_bytes(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  gint64 before = g_get_real_time() / G_USEC_PER_SEC;
  set(store, MODEL, "main", GOLDEN_ID);
  gint64 after = g_get_real_time() / G_USEC_PER_SEC;
  BlKeyBuffer key;
  g_autofree char *data = NULL;
  gsize size;
  g_assert_true(bl_store_load(store, bl_key_ref(key, MODEL, "main"), 4096, &data, &size, NULL));
  const char *updated = strstr(data, "\"updated_at\":") + strlen("\"updated_at\":");
  gint64 stamp = g_ascii_strtoll(updated, NULL, 10);
  g_assert_cmpint(stamp, >=, before);
  g_assert_cmpint(stamp, <=, after);
  g_autofree char *golden = golden_load("docs/formats/golden", "ref.json", &size);
  g_autofree char *digits = g_strdup_printf("%" G_GINT64_FORMAT, stamp);
  g_autofree char *expected = with_change(golden, "1700000060", digits);
  g_assert_cmpstr(data, ==, expected);
}

static void test_set_and_get(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  assert_ref(store, MODEL, "main", NULL);
  set(store, MODEL, "main", "a");
  set(store, MODEL, "refs/pr/1", "b");
  set(store, "org/other", "main", "c");
  assert_ref(store, MODEL, "main", "a");
  assert_ref(store, MODEL, "refs/pr/1", "b");
  assert_ref(store, "org/other", "main", "c");
  assert_ref(store, MODEL, "dev", NULL);
  set(store, MODEL, "main", "b");
  assert_ref(store, MODEL, "main", "b");
}

static void test_bad_arguments(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  const char *cases[][3] = {
      {"", "main", "a"}, {"m", "", "a"}, {"m", "a\nb", "a"}, {"m", "main", "../a"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_false(bl_ref_set(store, cases[i][0], cases[i][1], cases[i][2], &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  }
}

static void test_names_and_removal(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  set(store, MODEL, "v2", "a");
  set(store, MODEL, "main", "a");
  set(store, MODEL, "dev", "b");
  set(store, "org/other", "main", "a");
  BlKeyBuffer damaged;
  put_text(store, bl_key_ref(damaged, MODEL, "damaged"), "{");
  g_auto(GStrv) names = bl_ref_names(store, MODEL, "a", &error);
  g_assert_no_error(error);
  g_autofree char *joined = g_strjoinv(" ", names);
  g_assert_cmpstr(joined, ==, "main v2");
  guint n;
  bl_ref_remove_all(store, MODEL, "a", &n, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(n, ==, 2);
  assert_ref(store, MODEL, "main", NULL);
  assert_ref(store, MODEL, "v2", NULL);
  assert_ref(store, MODEL, "dev", "b");
  assert_ref(store, "org/other", "main", "a");
  bl_ref_remove_all(store, MODEL, "a", &n, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(n, ==, 0);
}

static void test_refused(void) {
  const struct {
    const char *from, *to;
    BlErrorCode code;
  } cases[] = {
      {"\"ref\":\"main\"", "\"ref\":\"dev\"", BL_ERROR_CORRUPT},
      {MODEL, "org/other", BL_ERROR_CORRUPT},
      {GOLDEN_ID, "../x", BL_ERROR_CORRUPT},
      {"\"checkpoint_id\"", "\"checkpoint\"", BL_ERROR_CORRUPT},
      {"\"main\"", "7", BL_ERROR_CORRUPT},
      {"\"schema_version\":1", "\"schema_version\":0", BL_ERROR_CORRUPT},
      {"\"schema_version\":1", "\"schema_version\":2", BL_ERROR_UNSUPPORTED},
      {"}", "", BL_ERROR_CORRUPT},
  };
  gsize size;
  g_autofree char *golden = golden_load("docs/formats/golden", "ref.json", &size);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
    g_autofree char *text = with_change(golden, cases[i].from, cases[i].to);
    BlKeyBuffer key;
    put_text(store, bl_key_ref(key, MODEL, "main"), text);
    g_autoptr(GError) error = NULL;
    g_assert_null(bl_ref_get(store, MODEL, "main", &error));
    int code = cases[i].code;
    g_assert_error(error, BL_ERROR, code);
    g_assert_true(g_str_has_prefix(error->message, "ref \"main\" of model \"org/golden\": "));
  }
}

static gpointer remove_all_of_a(gpointer store) {
  bl_ref_remove_all(store, MODEL, "a", NULL, NULL);
  return NULL;
}

/* A delete has looked at the ref and is slow to remove it; meanwhile it is set to another. */
static void test_set_while_removed(void) {
  BlStore *slow_moves = bl_fault_store_new(bl_memory_store_new(BL_MEMORY_STORE_CAPS));
  g_autoptr(BlStore) store = bl_fault_store_new(slow_moves);
  set(store, MODEL, "main", "a");
  BlFaultRule rule = {.op = BL_FAULT_MOVE, .n = 1, .times = 1, .delay_ms = 300};
  bl_fault_store_set_rule(slow_moves, &rule);
  rule.op = BL_FAULT_REMOVE;
  bl_fault_store_set_rule(store, &rule);
  GThread *thread = g_thread_new("delete", remove_all_of_a, store);
  g_usleep(100 * 1000);
  set(store, MODEL, "main", "b");
  g_thread_join(thread);
  assert_ref(store, MODEL, "main", "b");
}

/* A delete was killed between two of its steps. */
static void test_moved_ref_is_left(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  set(store, MODEL, "main", "a");
  bl_key_ref(key, MODEL, "main");
  g_autofree char *moved = g_strconcat(key, ".moved", NULL);
  g_assert_true(bl_store_move(store, key, moved, NULL));
  g_auto(GStrv) names = bl_ref_names(store, MODEL, "a", NULL);
  g_assert_cmpuint(g_strv_length(names), ==, 0);
  set(store, MODEL, "main", "b");
  g_assert_true(bl_ref_remove_all(store, MODEL, "b", NULL, NULL));
  assert_ref(store, MODEL, "main", NULL);
  set(store, MODEL, "main", "a");
  g_assert_true(bl_ref_remove_all(store, MODEL, "a", NULL, NULL));
  assert_ref(store, MODEL, "main", NULL);
  guint64 size;
  g_assert_false(bl_store_size(store, moved, &size, NULL));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/ref/bytes", test_bytes);
  g_test_add_func("/ref/set-and-get", test_set_and_get);
  g_test_add_func("/ref/bad-arguments", test_bad_arguments);
  g_test_add_func("/ref/names-and-removal", test_names_and_removal);
  g_test_add_func("/ref/refused", test_refused);
  g_test_add_func("/ref/set-while-removed", test_set_while_removed);
  g_test_add_func("/ref/moved-ref-is-left", test_moved_ref_is_left);
  return g_test_run();
}
