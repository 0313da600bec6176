/* Keys and what is done with them: checks, listing, moving; and a store that is not there. */
#include "contract/contract.h"

/* Every operation that takes a key refuses a bad one before the store is asked. */
static void check_bad_key(BlStore *store, const char *key) {
  guint64 size;
  gsize got;
  char byte, *bytes;
  must_fail(BL_ERROR_INVALID, bl_key_check(key, &error));
  must_fail(BL_ERROR_INVALID, bl_store_size(store, key, &size, &error));
  must_fail(BL_ERROR_INVALID, bl_store_get(store, key, 0, &byte, 1, &got, &error));
  must_fail(BL_ERROR_INVALID, bl_store_load(store, key, 1, &bytes, &got, &error));
  must_fail(BL_ERROR_INVALID, bl_store_put(store, key, "x", 1, 0, &error));
  must_fail(BL_ERROR_INVALID, bl_store_writer_open(store, key, 1, 0, &error) != NULL);
  must_fail(BL_ERROR_INVALID, bl_store_remove(store, key, &error));
  must_fail(BL_ERROR_INVALID, bl_store_open_fd(store, key, &error) >= 0);
  must_fail(BL_ERROR_INVALID, bl_store_move(store, key, "good", &error));
  must_fail(BL_ERROR_INVALID, bl_store_move(store, "good", key, &error));
  must_fail(BL_ERROR_INVALID, bl_store_clone_fd(store, key, 0, 1, &error));
  must_fail(BL_ERROR_INVALID, bl_store_put_held(store, key, "x", 1, &error) != NULL);
  must_fail(BL_ERROR_INVALID, bl_store_share_fd(store, key, 0, 0, &error));
  must_fail(BL_ERROR_INVALID, bl_store_hold_shared(store, key, &error) != NULL);
  BlHoldState state;
  must_fail(BL_ERROR_INVALID, bl_store_is_held(store, key, &state, &error));
}

static void test_bad_keys(Fixture *f, gconstpointer data) {
  (void)data;
  g_autofree char *part = g_strnfill(256, 'p');
  g_autofree char *quarter = g_strnfill(255, 'q');
  g_autofree char *long_key = g_strjoin("/", quarter, quarter, quarter, quarter, "x", NULL);
  g_assert_cmpuint(strlen(long_key), ==, 1025);
  const char *bad[] = {"",       "/",     "a/",  "/a",    "a//b", ".",   "..",
                       "a/../b", "a/./b", "a b", "a\nb",  "a\\b", "a,b", "a%b",
                       "a:b",    "~",     "é",   "a\x7f", "*",    part,  long_key};
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++) check_bad_key(f->store, bad[i]);
  g_autofree char *keys = contract_list(f->store, "");
  g_assert_cmpstr(keys, ==, "");
}

static gboolean never(const char *key, const BlObjectStat *object, gpointer user, GError **error) {
  (void)object;
  (void)user;
  return bl_error_set(error, BL_ERROR_INTERNAL, "no one asked for %s", key);
}

static gboolean never_folder(const char *part, gpointer user, GError **error) {
  return never(part, 0, user, error);
}

static void test_bad_prefixes(Fixture *f, gconstpointer data) {
  (void)data;
  static const char *const bad[] = {"a", "/", "a//", "../", "a/./", "a b/", "//"};
  contract_put(f->store, "a/b", "x");
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
    must_fail(BL_ERROR_INVALID, bl_store_list(f->store, bad[i], never, NULL, &error));
    must_fail(BL_ERROR_INVALID,
              bl_store_list_folders(f->store, bad[i], never_folder, NULL, &error));
    must_fail(BL_ERROR_INVALID, bl_store_sweep(f->store, bad[i], NULL, &error));
  }
}

static gboolean skip_folding(const Fixture *f) {
  if (f->target->folds_names) g_test_skip("this file system folds names");
  return f->target->folds_names;
}

/* Names that a file system could take for something else. */
static void test_good_keys(Fixture *f, gconstpointer data) {
  (void)data;
  if (skip_folding(f)) return;
  g_autofree char *part = g_strnfill(255, 'p');
  const char *keys[] = {"...",        "-rf",       ".hidden",        ".tmp-x-0",  "store.json",
                        "a/.tmp-y-1", "a/b/c/d/e", "a/b/c/d.e",      "a/b/c/d_e", "a/b/c/d-e",
                        "CON",        "a/b.",      "x/y/z/...",      "a/..b",     "x/y/.z/..w",
                        part,         "0",         "q/r/s/.t/.tmp-u"};
  guint n = G_N_ELEMENTS(keys);
  for (guint i = 0; i < n; i++) contract_put(f->store, keys[i], keys[i]);
  for (guint i = 0; i < n; i++) contract_check(f->other, keys[i], keys[i]);
  g_autofree char *listed = contract_list(f->other, "");
  g_auto(GStrv) found = g_strsplit(listed, " ", -1);
  g_assert_cmpuint(g_strv_length(found), ==, n);
  for (guint i = 0; i < n; i++) g_assert_true(g_strv_contains((const char *const *)found, keys[i]));
  g_clear_pointer(&f->other, bl_store_free);
  must((f->other = bl_store_open(f->url, FALSE, &error)));
  contract_check(f->other, "-rf", "-rf");
}

static void test_case(Fixture *f, gconstpointer data) {
  (void)data;
  if (skip_folding(f)) return;
  contract_put(f->store, "Org/Name/x", "upper");
  contract_put(f->store, "org/name/x", "lower");
  contract_check(f->other, "Org/Name/x", "upper");
  must(bl_store_remove(f->store, "Org/Name/x", &error));
  contract_check(f->other, "org/name/x", "lower");
}

static void check_list(BlStore *store, const char *prefix, const char *expected) {
  g_autofree char *keys = contract_list(store, prefix);
  g_assert_cmpstr(keys, ==, expected);
}

static void test_list(Fixture *f, gconstpointer data) {
  (void)data;
  if (!bl_store_can(f->store, BL_STORE_CAN_LIST)) {
    must_fail(BL_ERROR_UNSUPPORTED, bl_store_list(f->store, "", never, NULL, &error));
    return;
  }
  check_list(f->store, "", "");
  check_list(f->store, "absent/x/", "");
  static const char *const keys[] = {"w/m/id1/manifest",   "w/m/id1/chunks/0/a",
                                     "w/m/id1/chunks/1/b", "w/m/id10/manifest",
                                     "w/r/main",           "top"};
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++) contract_put(f->store, keys[i], "x");
  check_list(
      f->other, "",
      "top w/m/id1/chunks/0/a w/m/id1/chunks/1/b w/m/id1/manifest w/m/id10/manifest w/r/main");
  check_list(f->other, "w/m/id1/", "w/m/id1/chunks/0/a w/m/id1/chunks/1/b w/m/id1/manifest");
  check_list(f->other, "w/m/id1/chunks/", "w/m/id1/chunks/0/a w/m/id1/chunks/1/b");
  check_list(f->other, "w/m/id1/chunks/1/", "w/m/id1/chunks/1/b");
  check_list(f->other, "w/m/id1/chunks/2/", "");
  check_list(f->other, "w/m/id10/", "w/m/id10/manifest");
  check_list(f->other, "w/m/id/", "");
  check_list(f->other, "w/r/", "w/r/main");
  check_list(f->other, "top/", "");
  must(bl_store_remove(f->store, "w/r/main", &error));
  check_list(f->other, "w/r/", "");
}

typedef struct {
  BlStore *store;
  guint n, stop_at;
  guint64 bytes;
} Visit;

static gboolean visit(const char *key, const BlObjectStat *object, gpointer user, GError **error) {
  Visit *v = user;
  v->bytes += object->size;
  if (++v->n == v->stop_at) return bl_error_set(error, BL_ERROR_BUSY, "enough");
  return bl_store_remove(v->store, key, error);
}

/* The callback may change the store, and may end the listing. */
static void test_list_callback(Fixture *f, gconstpointer data) {
  (void)data;
  for (guint i = 0; i < 50; i++) {
    g_autofree char *key = g_strdup_printf("w/m/id/%u", i);
    contract_put(f->store, key, "12345");
  }
  Visit first = {f->store, 0, 10, 0}, rest = {f->store, 0, 0, 0};
  must_fail(BL_ERROR_BUSY, bl_store_list(f->store, "w/m/", visit, &first, &error));
  g_assert_cmpuint(first.n, ==, 10);
  must(bl_store_list(f->store, "w/m/", visit, &rest, &error));
  g_assert_cmpuint(rest.n, ==, 41);
  g_assert_cmpuint(rest.bytes, ==, 41 * 5);
  check_list(f->other, "", "");
}

static gboolean add_part(const char *part, gpointer user, GError **error) {
  (void)error;
  g_assert_true(g_hash_table_add(user, g_strdup(part))); /* each once */
  return TRUE;
}

static gboolean refuse_part(const char *part, gpointer user, GError **error) {
  (void)user;
  return bl_error_set(error, BL_ERROR_BUSY, "enough of %s", part);
}

static void test_list_folders(Fixture *f, gconstpointer data) {
  (void)data;
  static const char *const keys[] = {"w/m/id1/manifest", "w/m/id1/chunks/0", "w/m/id.2/manifest",
                                     "w/m/file",         "w/r/main",         "top"};
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++) contract_put(f->store, keys[i], "x");
  static const struct {
    const char *prefix, *parts[3];
  } rows[] = {
      {"w/m/", {"id1", "id.2"}}, {"w/", {"m", "r"}}, {"", {"w"}}, {"w/r/", {NULL}}, {"n/", {NULL}}};
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    must(bl_store_list_folders(f->other, rows[i].prefix, add_part, seen, &error));
    guint n = 0;
    while (rows[i].parts[n] != NULL) n++;
    g_assert_cmpuint(g_hash_table_size(seen), ==, n);
    for (guint p = 0; p < n; p++) g_assert_true(g_hash_table_contains(seen, rows[i].parts[p]));
  }
  must_fail(BL_ERROR_BUSY, bl_store_list_folders(f->other, "w/m/", refuse_part, NULL, &error));
}

static void test_move(Fixture *f, gconstpointer data) {
  (void)data;
  if (!bl_store_can(f->store, BL_STORE_CAN_MOVE)) {
    must_fail(BL_ERROR_UNSUPPORTED, bl_store_move(f->store, "a", "b", &error));
    return;
  }
  must_fail(BL_ERROR_NOT_FOUND, bl_store_move(f->store, "m/x/absent", "m/x/b", &error));
  contract_put(f->store, "m/x/a", "a");
  contract_put(f->store, "m/x/b", "b");
  must_fail(BL_ERROR_EXISTS, bl_store_move(f->store, "m/x/a", "m/x/b", &error));
  contract_check(f->other, "m/x/a", "a");
  contract_check(f->other, "m/x/b", "b");
  must(bl_store_move(f->other, "m/x/a", "m/x/c", &error));
  contract_check(f->store, "m/x/c", "a");
  contract_check_absent(f->store, "m/x/a");
  must(bl_store_move(f->other, "m/x/c", "m/y/deep/er/c", &error));
  contract_check(f->store, "m/y/deep/er/c", "a");
  must_fail(BL_ERROR_NOT_FOUND, bl_store_move(f->store, "m/x/c", "m/x/d", &error));
  must(bl_store_sync(f->store, &error));
}

/* Without create, a store that is not there reads as an empty one, refuses writes and stays away.
 */
static void test_not_there(Fixture *f, gconstpointer data) {
  (void)data;
  g_autofree char *url = g_strconcat(f->url, "-absent", NULL);
  for (guint round = 0; round < 2; round++) {
    g_autoptr(BlStore) store = NULL;
    must((store = bl_store_open(url, FALSE, &error)));
    g_assert_true(bl_store_can(store, BL_STORE_IS_READ_ONLY));
    contract_check_absent(store, "w/m/x");
    check_list(store, "", "");
    must(bl_store_list_folders(store, "w/", never_folder, NULL, &error));
    g_autoptr(GError) error = NULL;
    g_assert_false(bl_store_put(store, "w/m/x", "x", 1, 0, &error));
    g_assert_true(g_error_matches(error, BL_ERROR, BL_ERROR_DENIED) ||
                  g_error_matches(error, BL_ERROR, BL_ERROR_NOT_FOUND));
    g_assert_null(bl_store_writer_open(store, "w/m/x", 1, 0, NULL));
    g_assert_null(bl_store_put_held(store, "w/m/x", "x", 1, NULL));
    g_assert_false(bl_store_move(store, "w/m/x", "w/m/y", NULL));
  }
}

const ContractTest contract_names[] = {
    {"bad-keys", test_bad_keys, FALSE},
    {"bad-prefixes", test_bad_prefixes, FALSE},
    {"good-keys", test_good_keys, FALSE},
    {"case", test_case, FALSE},
    {"list", test_list, FALSE},
    {"list-callback", test_list_callback, FALSE},
    {"list-folders", test_list_folders, FALSE},
    {"move", test_move, FALSE},
    {"not-there", test_not_there, FALSE},
    {NULL, NULL, FALSE},
};
