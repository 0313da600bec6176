#include "upkeep/survey.h"

#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/error.h"
#include "model/ref.h"
#include "model/state.h"
#include "model/usage.h"
#include "upkeep.h"

/* "kind checkpoint name" of each finding, sorted. */
static gboolean note(const BlFinding *finding, gpointer user, GError **error) {
  (void)error;
  g_assert_nonnull(finding->text);
  g_ptr_array_add(user,
                  g_strdup_printf("%s %s %s", bl_finding_name(finding->kind),
                                  finding->checkpoint_id != NULL ? finding->checkpoint_id : "-",
                                  finding->name != NULL ? finding->name : "-"));
  return TRUE;
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static BlSurvey *survey(BlStore *store, char **found) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
  BlSurvey *result = bl_survey_run(store, note, lines, NULL, &error);
  g_assert_no_error(error);
  g_ptr_array_sort(lines, compare_texts);
  g_ptr_array_add(lines, NULL);
  *found = g_strjoinv("\n", (char **)lines->pdata);
  return result;
}

static void check(BlStore *store, const char *expected) {
  g_autofree char *found = NULL;
  g_autoptr(BlSurvey) result = survey(store, &found);
  g_assert_cmpstr(found, ==, expected);
}

static const BlSurveyed *find(const BlSurvey *result, const char *id) {
  for (guint i = 0; i < result->checkpoints->len; i++) {
    const BlSurveyed *surveyed = g_ptr_array_index(result->checkpoints, i);
    if (strcmp(surveyed->checkpoint_id, id) == 0) return surveyed;
  }
  g_assert_not_reached();
}

static void test_clean(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  g_autofree char *found = NULL;
  check(store, "");
  upkeep_put_ready(store, "b");
  upkeep_put_ready(store, "a");
  bl_usage_record(store, "a");
  g_assert_true(bl_ref_set(store, "org/model", "main", "a", &error));
  g_autoptr(BlSurvey) result = survey(store, &found);
  g_assert_cmpstr(found, ==, "");
  g_assert_cmpuint(result->checkpoints->len, ==, 2);
  const BlSurveyed *a = result->checkpoints->pdata[0];
  g_assert_cmpstr(a->checkpoint_id, ==, "a");
  g_assert_cmpint(a->status, ==, BL_CHECKPOINT_READY);
  g_assert_cmpuint(a->total_size, ==, 5030);
  g_assert_cmpuint(a->n_objects, ==, 5);
  g_assert_cmpuint(a->n_files, ==, 2);
  g_assert_cmpint(a->used_us, >, 0);
  g_assert_cmpint(find(result, "b")->used_us, ==, 0);
  g_assert_false(a->is_busy || a->is_pinned || a->is_degraded);
}

static void test_loss_and_damage(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  upkeep_put_ready(store, "a");
  upkeep_put_ready(store, "b");
  test_remove_chunk(store, "a", "config.json", 0);
  test_resize_chunk(store, "a", "model.safetensors", 0, 4999);
  g_autofree char *found = NULL;
  g_autoptr(BlSurvey) result = survey(store, &found);
  g_assert_cmpstr(found, ==, "missing a config.json\nsize a model.safetensors");
  g_assert_true(find(result, "a")->is_degraded);
  g_assert_false(find(result, "b")->is_degraded);
  put_text(store, "weight/models/b/manifest", "{}");
  check(store, "manifest b -\nmissing a config.json\nsize a model.safetensors");
}

static gboolean set_degraded(BlState *state, gpointer user) {
  (void)user;
  state->is_pinned = TRUE;
  g_ptr_array_add(state->damaged, g_strdup("model.safetensors"));
  return TRUE;
}

static void test_state(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  g_autofree char *found = NULL;
  upkeep_put_ready(store, "a");
  g_assert_true(bl_state_update(store, "a", set_degraded, NULL, 0, NULL, &error));
  g_assert_no_error(error);
  g_autoptr(BlSurvey) result = survey(store, &found);
  g_assert_cmpstr(found, ==, "recorded a -");
  g_assert_true(find(result, "a")->is_pinned && find(result, "a")->is_degraded);
  put_text(store, "weight/models/a/state", "{");
  g_autofree char *now = NULL;
  g_autoptr(BlSurvey) again = survey(store, &now);
  g_assert_cmpstr(now, ==, "state a -");
  /* Nobody knows that it was not. */
  g_assert_true(find(again, "a")->is_pinned);
}

static void test_leftovers(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  upkeep_put_garbage(store);
  put_text(store, "weight/models/o/notes", "mine");
  put_text(store, "weight/mine/notes", "mine");
  put_text(store, "mine/notes", "mine");
  put_text(store, "weight/control/notes", "mine");
  g_autofree char *orphan = g_strdup(bl_key_chunk(key, "a", "other", 0));
  g_autofree char *expected = g_strdup_printf(
      "claim f -\nfailed f -\nforeign - mine/\nforeign - weight/control/notes\nforeign - "
      "weight/mine/\nforeign a weight/models/a/notes\nforeign o weight/models/o/notes\n"
      "no-manifest n -\norphan a %s\nreservation a weight/models/a/reserved\nused gone "
      "weight/used/gone",
      orphan);
  check(store, expected);
}

/* What a living owner's claim covers is nobody's fault. */
static void test_live_claim(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  g_autofree char *found = NULL;
  BlKeyBuffer key;
  upkeep_put_ready(store, "a");
  put_text(store, bl_key_chunk(key, "a", "other", 0), "on its way");
  upkeep_put_failed(store, "f");
  put_text(store, bl_key_chunk(key, "n", "x", 0), "on its way");
  const char *ids[] = {"a", "f", "n"};
  BlClaim *claims[G_N_ELEMENTS(ids)];
  for (guint i = 0; i < G_N_ELEMENTS(ids); i++) {
    claims[i] = bl_claim_acquire(store, bl_key_prefix(key, ids[i]), "import", 0, NULL, &error);
    g_assert_no_error(error);
  }
  g_autoptr(BlSurvey) result = survey(store, &found);
  g_assert_cmpstr(found, ==, "");
  g_assert_cmpint(find(result, "f")->status, ==, BL_CHECKPOINT_IMPORTING);
  g_assert_cmpint(find(result, "n")->status, ==, BL_CHECKPOINT_IMPORTING);
  g_assert_true(find(result, "a")->is_busy);
  g_assert_nonnull(strstr(find(result, "a")->owner, "import"));
  for (guint i = 0; i < G_N_ELEMENTS(ids); i++) bl_claim_release(claims[i], NULL);
}

static void test_refs(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  BlKeyBuffer key;
  upkeep_put_ready(store, "a");
  g_assert_true(bl_ref_set(store, "m", "main", "gone", &error));
  g_assert_true(bl_ref_set(store, "m", "v1", "a", &error));
  g_autofree char *main_key = g_strdup(bl_key_ref(key, "m", "main"));
  g_autofree char *v1_key = g_strdup(bl_key_ref(key, "m", "v1"));
  g_autofree char *moved = g_strconcat(v1_key, ".moved", NULL);
  g_assert_true(bl_store_move(store, v1_key, moved, &error));
  g_autofree char *bad_key = g_strdup(bl_key_ref(key, "m", "bad"));
  put_text(store, bad_key, "{}");
  g_autofree char *expected =
      g_strdup_printf("bad-ref - %s\nmoved-ref a %s\nref gone %s", bad_key, moved, main_key);
  check(store, expected);
}

/* An index that others keep, which may name what is gone. */
static void test_index(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS | BL_STORE_IS_SHARED);
  upkeep_put_ready(store, "a");
  put_text(store, "weight/index/models", "[\"a\",\"gone\",\"../x\"]");
  check(store, "index gone weight/index/models");
}

static void test_cannot_list(void) {
  g_autoptr(BlStore) store =
      bl_memory_store_new(BL_MEMORY_STORE_CAPS & ~(BlStoreCaps)BL_STORE_CAN_LIST);
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_survey_run(store, NULL, NULL, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
}

static void link_object(const char *folder, const char *from, const char *to, const char *path) {
  BlKeyBuffer key;
  g_autofree char *hex =
      g_strdup(strstr(bl_key_chunk(key, from, path, 0), "files/") + strlen("files/"));
  hex[BL_SHA256_HEX_SIZE] = '\0';
  g_autofree char *old =
      g_strdup_printf("%s/weight/models/%s/files,%s,chunks,00000000", folder, from, hex);
  g_autofree char *new =
      g_strdup_printf("%s/weight/models/%s/files,%s,chunks,00000000", folder, to, hex);
  g_assert_cmpint(unlink(new), ==, 0);
  g_assert_cmpint(link(old, new), ==, 0);
}

/* Bytes that two names share count once, and go with the last. */
static void test_shares(void) {
  g_autofree char *folder = NULL, *found = NULL;
  g_autoptr(BlStore) store = upkeep_dir_store(&folder);
  upkeep_put_ready(store, "a");
  upkeep_put_ready(store, "b");
  upkeep_put_ready(store, "c");
  link_object(folder, "a", "b", "model.safetensors");
  /* A name outside the store changes nothing. */
  g_autofree char *outside = g_build_filename(folder, "..", "ballast-upkeep-outside", NULL);
  g_autofree char *inside = g_build_filename(folder, "weight/models/c/info", NULL);
  g_remove(outside);
  g_assert_cmpint(link(inside, outside), ==, 0);
  g_autoptr(BlSurvey) result = survey(store, &found);
  g_assert_cmpstr(found, ==, "");
  guint a = find(result, "a")->number, b = find(result, "b")->number, c = find(result, "c")->number;
  guint64 whole = find(result, "c")->n_bytes;
  g_assert_cmpuint(bl_shares_unique(result->shares, c), ==, whole);
  g_assert_cmpuint(bl_shares_shared(result->shares, a), ==, 5000);
  g_assert_cmpuint(bl_shares_unique(result->shares, a), ==, whole - 5000);
  g_assert_cmpuint(bl_shares_total(result->shares), ==, 3 * whole - 5000);
  g_assert_cmpuint(bl_shares_take(result->shares, a), ==, whole - 5000);
  g_assert_cmpuint(bl_shares_shared(result->shares, b), ==, 0);
  g_assert_cmpuint(bl_shares_take(result->shares, b), ==, whole);
  g_assert_cmpuint(bl_shares_total(result->shares), ==, whole);
  g_remove(outside);
  remove_tree(folder);
}

static void test_strays(void) {
  g_autofree char *folder = NULL;
  g_autoptr(BlStore) store = upkeep_dir_store(&folder);
  upkeep_put_ready(store, "a");
  g_autofree char *temporary =
      g_build_filename(folder, "weight/models/a/.tmp-00112233445566778899aabbccddeeff-1", NULL);
  g_autofree char *empty = g_build_filename(folder, "weight/models/e", NULL);
  g_assert_true(g_file_set_contents(temporary, "half", -1, NULL));
  g_assert_cmpint(g_mkdir(empty, 0755), ==, 0);
  /* They may be on their way. */
  check(store, "");
  g_assert_cmpint(utimes(temporary, (struct timeval[2]){{1, 0}, {1, 0}}), ==, 0);
  g_assert_cmpint(utimes(empty, (struct timeval[2]){{1, 0}, {1, 0}}), ==, 0);
  check(store,
        "folder e weight/models/e\n"
        "temporary a weight/models/a/.tmp-00112233445566778899aabbccddeeff-1");
  g_autoptr(GError) error = NULL;
  BlClaim *claim = bl_claim_acquire(store, "weight/models/a/", "import", 0, NULL, &error);
  g_assert_no_error(error);
  check(store, "folder e weight/models/e");
  bl_claim_release(claim, NULL);
  remove_tree(folder);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/survey/clean", test_clean);
  g_test_add_func("/survey/loss-and-damage", test_loss_and_damage);
  g_test_add_func("/survey/state", test_state);
  g_test_add_func("/survey/leftovers", test_leftovers);
  g_test_add_func("/survey/live-claim", test_live_claim);
  g_test_add_func("/survey/refs", test_refs);
  g_test_add_func("/survey/index", test_index);
  g_test_add_func("/survey/cannot-list", test_cannot_list);
  g_test_add_func("/survey/shares", test_shares);
  g_test_add_func("/survey/strays", test_strays);
  return g_test_run();
}
