/* What a path means in a cache of the Hugging Face client. */
#include <string.h>
#include <sys/stat.h>

#include "../support/in_folder.h"
#include "base/error.h"
#include "model/hf_layout.h"

#define A "0123456789abcdef0123456789abcdef01234567"
#define B "89abcdef0123456789abcdef0123456789abcdef"

static BlHfSnapshot *find(const char *path, const char *model_id, const char *revision) {
  g_autoptr(GError) error = NULL;
  BlHfSnapshot *snapshot = NULL;
  g_assert_true(bl_hf_snapshot_find(path, model_id, revision, &snapshot, &error));
  g_assert_no_error(error);
  return snapshot;
}

static void expect(const char *path, const char *model_id, const char *revision,
                   const char *expected) {
  g_autoptr(BlHfSnapshot) snapshot = find(path, model_id, revision);
  g_assert_nonnull(snapshot);
  g_autofree char *refs = g_strjoinv(",", snapshot->refs);
  g_autofree char *found =
      g_strdup_printf("%s %.4s %s [%s] %u", snapshot->model_id, snapshot->commit,
                      snapshot->revision, refs, snapshot->notes->len);
  g_assert_cmpstr(found, ==, expected);
}

static void expect_refused(const char *path, const char *model_id, const char *revision,
                           BlErrorCode code, const char *why) {
  g_autoptr(GError) error = NULL;
  BlHfSnapshot *snapshot = NULL;
  g_assert_false(bl_hf_snapshot_find(path, model_id, revision, &snapshot, &error));
  g_assert_error(error, BL_ERROR, (gint)code);
  g_assert_nonnull(strstr(error->message, why));
}

static void test_no_cache(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put_text("plain/config.json", "{}");
  put_text("models--org--name/config.json", "{}");
  put_text("models--/snapshots/" A "/x", "");
  put_text("snapshots/" A "/x", "");
  static const char *const paths[] = {"plain",     "models--org--name", "models--", "absent",
                                      "snapshots", ("snapshots/" A),    "."};
  for (gsize i = 0; i < G_N_ELEMENTS(paths); i++) g_assert_null(find(paths[i], NULL, NULL));
}

static void test_forms(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put_text("hub/models--org--name/snapshots/" A "/config.json", "{}");
  put_text("hub/models--org--name/snapshots/" B "/config.json", "{}");
  put_text("hub/models--org--name/refs/main", B);
  put_text("hub/models--org--name/refs/v1", A "\n");
  put_text("hub/models--org--name/refs/refs/pr/1", A);
  expect("hub/models--org--name", NULL, NULL, "org/name 89ab main [main] 0");
  expect("hub/models--org--name/", NULL, "v1", "org/name 0123 v1 [refs/pr/1,v1] 0");
  expect("hub/models--org--name", NULL, A, "org/name 0123 refs/pr/1 [refs/pr/1,v1] 0");
  expect("hub/models--org--name/snapshots/" A, NULL, NULL,
         "org/name 0123 refs/pr/1 [refs/pr/1,v1] 0");
  expect("hub/models--org--name/snapshots/" A, NULL, "mine", "org/name 0123 mine [refs/pr/1,v1] 0");
  expect("hub", "org/name", NULL, "org/name 89ab main [main] 0");
  expect_refused("hub", NULL, NULL, BL_ERROR_INVALID, "--model-id: org/name");
  expect_refused("hub", "Org/Name", NULL, BL_ERROR_NOT_FOUND, "letter case counts");
  expect_refused("hub", "org/name", "v2", BL_ERROR_NOT_FOUND, "main, refs/pr/1, v1");
  expect_refused("hub", "org/name", "../main", BL_ERROR_NOT_FOUND, "no revision");
}

static void test_without_refs(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put_text("models--gpt2/snapshots/" A "/config.json", "{}");
  g_assert_cmpint(g_mkdir_with_parents("models--gpt2/snapshots/" B, 0755), ==, 0);
  g_assert_cmpint(g_mkdir_with_parents("models--gpt2/snapshots/no-commit", 0755), ==, 0);
  expect("models--gpt2", NULL, NULL, "gpt2 0123 main [] 2");
  expect("models--gpt2/snapshots/" A, NULL, NULL, "gpt2 0123 main [] 0");
  expect_refused("models--gpt2", NULL, B, BL_ERROR_CORRUPT, "is empty");
  put_text("models--gpt2/snapshots/" B "/x", "");
  expect_refused("models--gpt2", NULL, NULL, BL_ERROR_INVALID, A ", " B);
  expect("models--gpt2", NULL, B, "gpt2 89ab main [] 0");
  put_text("models--gpt2/refs/main", A);
  expect("models--gpt2", NULL, B, "gpt2 89ab " B " [] 0");
}

/* What stands below refs/ and is no ref is passed over. */
static void test_odd_refs(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put_text("models--x/snapshots/" A "/config.json", "{}");
  put_text("elsewhere", A);
  put_text("models--x/refs/short", "0123456789ab");
  put_text("models--x/refs/long", A A A A);
  put_text("models--x/refs/empty", "");
  put_text("models--x/refs/main.1a2b3c4d.tmp", A);
  put_text("models--x/refs/bad\xff", A);
  g_assert_cmpint(mkfifo("models--x/refs/pipe", 0600), ==, 0);
  g_assert_cmpint(symlink("../../elsewhere", "models--x/refs/main"), ==, 0);
  g_assert_cmpint(symlink(".", "models--x/refs/loop"), ==, 0);
  expect("models--x", NULL, NULL, "x 0123 main [] 1");
  expect_refused("models--x", NULL, "short", BL_ERROR_NOT_FOUND, A);
  put_text("models--x/refs/gone", B);
  expect_refused("models--x", NULL, "gone", BL_ERROR_CORRUPT, "no snapshot");
}

static void test_repo_ids(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  g_autofree char *longest = g_strnfill(96, 'x'), *longer = g_strnfill(97, 'x');
  const char *const legal[] = {"gpt2", "org/name", "A.b_c-d/e.F_1-2", "_x/y_", longest};
  const char *const illegal[] = {"",        "/",        "a/",   "/a",  "a/b/c", "a--b", "a..b",
                                 ".a",      "a.",       "-a",   "a-",  "a b",   "a/.b", "x.git",
                                 "a/b.git", "\xc3\xa4", longer, "a\n", "a/../b"};
  for (gsize i = 0; i < G_N_ELEMENTS(legal); i++)
    g_assert_true(bl_hf_repo_id_check(legal[i], NULL));
  for (gsize i = 0; i < G_N_ELEMENTS(illegal); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_false(bl_hf_repo_id_check(illegal[i], &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  }
  g_autofree char *name = bl_hf_folder_name("org/name");
  g_assert_cmpstr(name, ==, "models--org--name");
}

#define ADD(name, test) \
  g_test_add("/hf_layout/" name, Fixture, "ballast-hf-XXXXXX", enter_folder, test, leave_folder)

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  ADD("no-cache", test_no_cache);
  ADD("forms", test_forms);
  ADD("without-refs", test_without_refs);
  ADD("odd-refs", test_odd_refs);
  ADD("repo-ids", test_repo_ids);
  return g_test_run();
}
