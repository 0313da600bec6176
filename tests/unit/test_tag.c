#include "model/tag.h"

#include <string.h>

#include "base/error.h"
#include "checkpoint.h"
#include "model/ref.h"
#include "model/remove.h"
#include "store/fault.h"
#include "store/memory.h"

#define MODEL "org/model" /* of every checkpoint that checkpoint.h puts */

static BlStore *make_store(void) {
  static const TestFile file = {"a.bin", 10, 0, FALSE};
  BlStore *store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  test_put_checkpoint(store, "a", &file, 1, TEST_DIGESTS);
  test_put_checkpoint(store, "b", &file, 1, TEST_DIGESTS);
  return store;
}

static void assert_ref(BlStore *store, const char *ref, const char *id) {
  g_autofree char *found = bl_ref_get(store, MODEL, ref, NULL);
  g_assert_cmpstr(found, ==, id);
}

static void set(BlStore *store, const char *id, gboolean move, BlTagOutcome outcome,
                const char *previous) {
  g_auto(BlTagResult) result = {0};
  g_autoptr(GError) error = NULL;
  g_assert_true(bl_tag_set(store, id, "prod", move, &result, &error));
  g_assert_no_error(error);
  g_assert_cmpint(result.outcome, ==, outcome);
  g_assert_cmpstr(result.model_id, ==, MODEL);
  g_assert_cmpstr(result.previous, ==, previous);
  assert_ref(store, "prod", id);
}

static void refuse(BlStore *store, const char *id, const char *ref, gboolean move, BlErrorCode code,
                   const char *says) {
  g_auto(BlTagResult) result = {0};
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_tag_set(store, id, ref, move, &result, &error));
  g_assert_error(error, BL_ERROR, (gint)code);
  g_assert_nonnull(strstr(error->message, says));
}

static void test_set(void) {
  g_autoptr(BlStore) store = make_store();
  set(store, "a", FALSE, BL_TAG_SET, NULL);
  set(store, "a", FALSE, BL_TAG_ALREADY_THERE, "a");
  refuse(store, "b", "prod", FALSE, BL_ERROR_EXISTS, "--move");
  assert_ref(store, "prod", "a");
  set(store, "b", TRUE, BL_TAG_MOVED, "a");
  set(store, "b", TRUE, BL_TAG_ALREADY_THERE, "b");
  refuse(store, "none", "prod", TRUE, BL_ERROR_NOT_FOUND, "none");
  assert_ref(store, "prod", "b");
}

static void test_names(void) {
  static const char *const bad[] = {"",
                                    "a\nb",
                                    "a@b",
                                    "\xff",
                                    "0123456789abcdef0123456789abcdef01234567",
                                    "0123456789ABCDEF0123456789abcdef01234567"};
  g_autoptr(BlStore) store = make_store();
  for (gsize i = 0; i < G_N_ELEMENTS(bad); i++)
    refuse(store, "a", bad[i], FALSE, BL_ERROR_INVALID, "");
  static const char *const good[] = {"refs/pr/1", "v1.0", "0123456789abcdef", "é",
                                     "0123456789abcdef0123456789abcdef0123456z"};
  for (gsize i = 0; i < G_N_ELEMENTS(good); i++) g_assert_true(bl_tag_check(good[i], NULL));
}

static void make_damaged(BlStore *store) {
  BlKeyBuffer key;
  g_assert_true(bl_store_put(store, bl_key_ref(key, MODEL, "prod"), "{", 1, BL_PUT_REPLACE, NULL));
}

static void test_damaged(void) {
  g_autoptr(BlStore) store = make_store();
  make_damaged(store);
  refuse(store, "a", "prod", FALSE, BL_ERROR_CORRUPT, "prod");
  set(store, "a", TRUE, BL_TAG_SET, NULL);
}

/* Every call fails once: an error, and what was set before or now is set. */
static void test_faults(void) {
  g_autoptr(BlStore) store = bl_fault_store_new(make_store());
  set(store, "a", FALSE, BL_TAG_SET, NULL);
  guint64 hits = 1;
  guint n_refused = 0;
  for (guint64 n = 1; hits > 0; n++) {
    BlFaultRule rule = {BL_FAULT_ANY, n, 1, TRUE, BL_ERROR_IO, 0};
    g_auto(BlTagResult) result = {0};
    g_autoptr(GError) error = NULL;
    bl_fault_store_set_rule(store, &rule);
    gboolean ok = bl_tag_set(store, "b", "prod", TRUE, &result, &error);
    hits = bl_fault_store_n_hits(store);
    g_assert_true(ok == (hits == 0));
    n_refused += !ok;
    BlFaultRule none = {0};
    bl_fault_store_set_rule(store, &none);
    g_auto(BlTagResult) back = {0};
    g_assert_true(bl_tag_set(store, "a", "prod", TRUE, &back, NULL));
  }
  g_assert_cmpuint(n_refused, >=, 3);
}

typedef struct {
  BlStore *store;
  const char *id;
  gint *stop;
} Player;

static gpointer tag_on(gpointer data) {
  Player *player = data;
  while (!g_atomic_int_get(player->stop)) {
    g_auto(BlTagResult) result = {0};
    bl_tag_set(player->store, player->id, "prod", TRUE, &result, NULL);
  }
  return NULL;
}

/* Setters beside a delete: once it ended, and they too, no ref means what is gone. */
static void test_beside_delete(void) {
  for (guint round = 0; round < 30; round++) {
    g_autoptr(BlStore) store = make_store();
    gint stop = FALSE;
    Player players[] = {{store, "a", &stop}, {store, "a", &stop}};
    GThread *threads[G_N_ELEMENTS(players)];
    for (gsize i = 0; i < G_N_ELEMENTS(players); i++)
      threads[i] = g_thread_new("tag", tag_on, &players[i]);
    BlRemoveResult result;
    g_assert_true(bl_remove(store, "a", 0, NULL, &result, NULL));
    bl_remove_result_clear(&result);
    g_atomic_int_set(&stop, TRUE);
    for (gsize i = 0; i < G_N_ELEMENTS(players); i++) g_thread_join(threads[i]);
    assert_ref(store, "prod", NULL);
  }
}

static void test_list(void) {
  g_autoptr(BlStore) store = make_store();
  g_autoptr(GError) error = NULL;
  set(store, "a", FALSE, BL_TAG_SET, NULL);
  g_assert_true(bl_ref_set(store, MODEL, "main", "b", NULL));
  g_assert_true(bl_ref_set(store, "another", "x", "gone", NULL));
  g_autoptr(GPtrArray) all = bl_ref_list(store, NULL, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(all->len, ==, 3);
  const BlRef *first = all->pdata[0], *last = all->pdata[2];
  g_assert_cmpstr(first->model_id, ==, "another");
  g_assert_cmpstr(first->checkpoint_id, ==, "gone");
  g_assert_cmpstr(last->ref, ==, "prod");
  g_assert_cmpint(last->updated_at, >, 0);
  make_damaged(store);
  g_autoptr(GPtrArray) of_model = bl_ref_list(store, MODEL, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(of_model->len, ==, 1);

  g_assert_true(bl_ref_remove(store, MODEL, "prod", &error));
  g_assert_true(bl_ref_remove(store, MODEL, "prod", &error));
  g_assert_true(bl_ref_remove_if(store, MODEL, "main", "a", &error));
  assert_ref(store, "main", "b");
  g_assert_true(bl_ref_remove_if(store, MODEL, "main", "b", &error));
  assert_ref(store, "main", NULL);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/tag/set", test_set);
  g_test_add_func("/tag/names", test_names);
  g_test_add_func("/tag/damaged", test_damaged);
  g_test_add_func("/tag/faults", test_faults);
  g_test_add_func("/tag/beside-delete", test_beside_delete);
  g_test_add_func("/tag/list", test_list);
  return g_test_run();
}
