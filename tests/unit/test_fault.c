/* The store that fails: that it hits the calls meant and no others, and counts what it says. */
#include "store/fault.h"

#include <string.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/file.h"
#include "store/memory.h"

static void setup(BlStore **store, gconstpointer data) {
  (void)data;
  *store = bl_fault_store_new(bl_memory_store_new(BL_MEMORY_STORE_CAPS));
}

static void teardown(BlStore **store, gconstpointer data) {
  (void)data;
  bl_store_free(*store);
}

static void set_rule(BlStore *store, BlFaultOp op, guint64 n, guint64 times) {
  BlFaultRule rule = {.op = op, .n = n, .times = times, .fails = TRUE, .code = BL_ERROR_NO_SPACE};
  bl_fault_store_set_rule(store, &rule);
}

static gboolean put(BlStore *store, guint i) {
  g_autofree char *key = g_strdup_printf("k/%u", i);
  g_autoptr(GError) error = NULL;
  gboolean done = bl_store_put(store, key, "12345", 5, BL_PUT_REPLACE, &error);
  if (!done) g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
  return done;
}

static gboolean is_there(BlStore *store, guint i) {
  g_autofree char *key = g_strdup_printf("k/%u", i);
  guint64 size;
  return bl_store_size(store, key, &size, NULL);
}

static void test_nth(BlStore **fixture, gconstpointer data) {
  (void)data;
  BlStore *store = *fixture;
  set_rule(store, BL_FAULT_PUT, 3, 1);
  for (guint i = 1; i <= 5; i++) g_assert_cmpint(put(store, i), ==, i != 3);
  for (guint i = 1; i <= 5; i++) g_assert_cmpint(is_there(store, i), ==, i != 3);
  g_assert_cmpuint(bl_fault_store_n_hits(store), ==, 1);
  g_assert_true(put(store, 3));
}

static void test_times(BlStore **fixture, gconstpointer data) {
  (void)data;
  BlStore *store = *fixture;
  set_rule(store, BL_FAULT_PUT, 2, 2);
  for (guint i = 1; i <= 5; i++) g_assert_cmpint(put(store, i), ==, i != 2 && i != 3);
  set_rule(store, BL_FAULT_PUT, 2, 0);
  for (guint i = 1; i <= 5; i++) g_assert_cmpint(put(store, i), ==, i == 1);
  g_assert_cmpuint(bl_fault_store_n_hits(store), ==, 4);
  set_rule(store, BL_FAULT_PUT, 0, 0);
  for (guint i = 1; i <= 5; i++) g_assert_true(put(store, i));
}

static gboolean ignore_stray(const BlStray *stray, gpointer user, GError **error) {
  (void)stray;
  (void)user;
  (void)error;
  return TRUE;
}

/* Calls one op of the kind; the object k/1 is there. */
static gboolean call(BlStore *store, BlFaultOp op, GError **error) {
  guint64 size;
  gsize got;
  char byte;
  BlHoldState state;
  BlStoreHold *hold;
  BlStoreSettings settings;
  BlStray stray = {.path = ".tmp-0-0", .is_temporary = TRUE};
  switch (op) {
    case BL_FAULT_ADOPT:
      return bl_store_adopt(store, "k/1", error);
    case BL_FAULT_HOLD_SHARED:
      hold = bl_store_hold_shared(store, "k/1", error);
      bl_store_hold_free(hold);
      return hold != NULL;
    case BL_FAULT_LIST_STRAYS:
      return bl_store_list_strays(store, ignore_stray, NULL, error);
    case BL_FAULT_REMOVE_STRAY:
      return bl_store_remove_stray(store, &stray, error);
    case BL_FAULT_SETTINGS:
      return bl_store_get_settings(store, &settings, error);
    case BL_FAULT_STAT:
      return bl_store_size(store, "k/1", &size, error);
    case BL_FAULT_GET:
      return bl_store_get(store, "k/1", 0, &byte, 1, &got, error);
    case BL_FAULT_PUT:
      return bl_store_put(store, "k/1", "x", 1, BL_PUT_REPLACE, error);
    case BL_FAULT_SYNC:
      return bl_store_sync(store, error);
    case BL_FAULT_REMOVE:
      return bl_store_remove(store, "k/2", error);
    case BL_FAULT_MOVE:
      return bl_store_move(store, "k/1", "k/3", error) && bl_store_move(store, "k/3", "k/1", error);
    case BL_FAULT_IS_HELD:
      return bl_store_is_held(store, "k/1", &state, error);
    case BL_FAULT_FREE_SPACE:
      return bl_store_free_space(store, &size, error);
    default:
      return bl_store_sweep(store, "k/", NULL, error);
  }
}

static const BlFaultOp plain_ops[] = {
    BL_FAULT_STAT,         BL_FAULT_GET,     BL_FAULT_PUT,         BL_FAULT_SYNC,
    BL_FAULT_REMOVE,       BL_FAULT_MOVE,    BL_FAULT_IS_HELD,     BL_FAULT_FREE_SPACE,
    BL_FAULT_SWEEP,        BL_FAULT_ADOPT,   BL_FAULT_HOLD_SHARED, BL_FAULT_LIST_STRAYS,
    BL_FAULT_REMOVE_STRAY, BL_FAULT_SETTINGS};

/* A rule for one op leaves the others alone. */
static void test_ops(BlStore **fixture, gconstpointer data) {
  (void)data;
  BlStore *store = *fixture;
  g_assert_true(put(store, 1));
  for (guint meant = 0; meant < G_N_ELEMENTS(plain_ops); meant++) {
    set_rule(store, plain_ops[meant], 1, 1);
    for (guint i = 0; i < G_N_ELEMENTS(plain_ops); i++) {
      g_autoptr(GError) error = NULL;
      g_assert_cmpint(call(store, plain_ops[i], &error), ==, i != meant);
      if (i == meant) g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
    }
    g_assert_cmpuint(bl_fault_store_n_hits(store), ==, 1);
  }
}

/* What a test of many calls does: n = 1, 2, 3 … until nothing is hit. */
static void test_sweep_over_n(BlStore **fixture, gconstpointer data) {
  (void)data;
  BlStore *store = *fixture;
  g_assert_true(put(store, 1));
  guint64 n = 0, n_failures = 0;
  do {
    set_rule(store, BL_FAULT_ANY, ++n, 1);
    for (guint i = 0; i < G_N_ELEMENTS(plain_ops); i++) {
      if (plain_ops[i] != BL_FAULT_MOVE) n_failures += call(store, plain_ops[i], NULL) ? 0 : 1;
    }
  } while (bl_fault_store_n_hits(store) > 0);
  g_assert_cmpuint(n, ==, G_N_ELEMENTS(plain_ops));
  g_assert_cmpuint(n_failures, ==, n - 1);
}

/* On a store that can share and keep settings. */
static void test_share_and_settings(void) {
  g_autofree char *root = g_dir_make_tmp("ballast-XXXXXX", NULL);
  g_autoptr(BlStore) store = bl_fault_store_new(bl_store_open(root, TRUE, NULL));
  BlStoreSettings settings = {.max_bytes = 5};
  g_autoptr(GError) shared = NULL, set = NULL;
  g_assert_true(put(store, 1));
  bl_autofd fd = bl_store_open_fd(store, "k/1", NULL);
  set_rule(store, BL_FAULT_SHARE, 1, 1);
  g_assert_false(bl_store_share_fd(store, "k/2", fd, 0, &shared));
  g_assert_error(shared, BL_ERROR, BL_ERROR_NO_SPACE);
  g_assert_false(is_there(store, 2));
  g_assert_true(bl_store_share_fd(store, "k/2", fd, 0, NULL));
  g_assert_true(is_there(store, 2));
  set_rule(store, BL_FAULT_SETTINGS, 1, 1);
  g_assert_false(bl_store_set_settings(store, &settings, &set));
  g_assert_error(set, BL_ERROR, BL_ERROR_NO_SPACE);
  g_assert_true(bl_store_set_settings(store, &settings, NULL));
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_SHARE), ==, 2);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_SETTINGS), ==, 2);
  remove_tree(root);
}

static void test_writer(BlStore **fixture, gconstpointer data) {
  (void)data;
  BlStore *store = *fixture;
  static const BlFaultOp ops[] = {BL_FAULT_WRITER_OPEN, BL_FAULT_WRITE, BL_FAULT_COMMIT};
  for (guint i = 0; i < G_N_ELEMENTS(ops); i++) {
    set_rule(store, ops[i], 1, 1);
    g_autoptr(GError) error = NULL;
    g_autoptr(BlStoreWriter) writer = bl_store_writer_open(store, "k/w", 4, 0, &error);
    gboolean done = writer != NULL && bl_store_writer_write(writer, "1234", 4, &error) &&
                    bl_store_writer_commit(writer, &error);
    g_assert_false(done);
    g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
    guint64 size;
    g_assert_false(bl_store_size(store, "k/w", &size, NULL));
  }
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_WRITER_OPEN), ==, 3);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_WRITE), ==, 2);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_COMMIT), ==, 1);
  g_assert_cmpuint(bl_fault_store_n_bytes(store, BL_FAULT_WRITE), ==, 4);
}

/* An item in the middle of a batch fails, its neighbours do not. */
static void test_batches(BlStore **fixture, gconstpointer data) {
  (void)data;
  BlStore *store = *fixture;
  for (guint64 n = 1; n <= 4; n++) {
    char bytes[3][4];
    BlPutItem puts[] = {{"k/a", "1", 1, NULL}, {"k/b", "22", 2, NULL}, {"k/c", "333", 3, NULL}};
    BlGetItem gets[] = {{"k/a", 0, bytes[0], 4, 0, NULL},
                        {"k/b", 0, bytes[1], 4, 0, NULL},
                        {"k/c", 0, bytes[2], 4, 0, NULL}};
    bl_fault_store_reset_counts(store);
    set_rule(store, BL_FAULT_PUT, n, 1);
    bl_store_put_many(store, puts, 3, BL_PUT_REPLACE);
    set_rule(store, BL_FAULT_GET, 0, 0);
    for (guint i = 0; i < 3; i++) {
      g_assert_cmpint(puts[i].error != NULL, ==, i + 1 == n);
      if (puts[i].error == NULL) continue;
      g_clear_error(&puts[i].error);
      g_assert_true(
          bl_store_put(store, puts[i].key, puts[i].data, puts[i].size, BL_PUT_REPLACE, NULL));
    }
    g_assert_cmpuint(bl_fault_store_n_bytes(store, BL_FAULT_PUT), ==, 6);
    g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_PUT), ==, n <= 3 ? 4 : 3);

    set_rule(store, BL_FAULT_GET, n, 1);
    bl_store_get_many(store, gets, 3);
    for (guint i = 0; i < 3; i++) {
      g_assert_cmpint(gets[i].error != NULL, ==, i + 1 == n);
      g_assert_cmpuint(gets[i].got, ==, i + 1 == n ? 0 : i + 1);
      g_clear_error(&gets[i].error);
    }
    g_assert_cmpuint(bl_fault_store_n_bytes(store, BL_FAULT_GET), ==, n <= 3 ? 6 - n : 6);
  }
}

static void test_counts(BlStore **fixture, gconstpointer data) {
  (void)data;
  BlStore *store = *fixture;
  g_assert_true(put(store, 1));
  g_assert_false(bl_store_put(store, "k/1", "xxx", 3, 0, NULL)); /* exists: no bytes */
  BlStoreHold *hold = bl_store_put_held(store, "k/h", "1234567", 7, NULL);
  g_assert_true(bl_store_hold_check(hold, NULL));
  bl_store_hold_free(hold);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_PUT), ==, 2);
  g_assert_cmpuint(bl_fault_store_n_bytes(store, BL_FAULT_PUT), ==, 5);
  g_assert_cmpuint(bl_fault_store_n_bytes(store, BL_FAULT_PUT_HELD), ==, 7);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_HOLD_CHECK), ==, 1);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_ANY), ==, 4);
  bl_fault_store_reset_counts(store);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_ANY), ==, 0);
  g_assert_cmpuint(bl_fault_store_n_bytes(store, BL_FAULT_PUT), ==, 0);
}

static void test_delay(BlStore **fixture, gconstpointer data) {
  (void)data;
  BlFaultRule rule = {.op = BL_FAULT_PUT, .n = 2, .times = 1, .delay_ms = 60};
  bl_fault_store_set_rule(*fixture, &rule);
  gint64 start_us = g_get_monotonic_time();
  g_assert_true(put(*fixture, 1));
  gint64 between_us = g_get_monotonic_time();
  g_assert_true(put(*fixture, 2));
  gint64 end_us = g_get_monotonic_time();
  g_assert_cmpint(end_us - between_us, >=, 60000);
  g_assert_cmpint(between_us - start_us, <, 60000);
}

static void test_url(void) {
  g_autoptr(GError) error = NULL;
  g_setenv("BALLAST_TESTING", "1", TRUE);
  g_autoptr(BlStore) store =
      bl_store_open("fault:op=put,n=2,error=timed-out,times=1,delay-ms=1:memory:", TRUE, &error);
  g_assert_no_error(error);
  g_assert_true(bl_store_put(store, "a", "x", 1, 0, &error));
  g_assert_false(bl_store_put(store, "b", "x", 1, 0, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_TIMED_OUT);
  g_clear_error(&error);
  g_assert_true(bl_store_put(store, "b", "x", 1, 0, &error));

  g_autoptr(BlStore) any = bl_store_open("fault:error=io:memory:", TRUE, &error);
  g_assert_no_error(error);
  g_assert_false(bl_store_sync(any, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
}

static void test_url_refused(void) {
  static const char *const bad[] = {"fault:memory:",           "fault:",
                                    "fault:op=putt:memory:",   "fault:n=x:memory:",
                                    "fault:error=bad:memory:", "fault:when=2:memory:",
                                    "fault:n=:memory:",        "fault:,:memory:",
                                    "fault:times=-1:memory:",  "fault:op=put,n=1:nowhere:"};
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_test_message("%s", bad[i]);
    g_autoptr(GError) error = NULL;
    g_setenv("BALLAST_TESTING", "1", TRUE);
    g_assert_null(bl_store_open(bad[i], TRUE, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  }
  static const char *const values[] = {NULL, "", "0", "yes"};
  for (guint i = 0; i < G_N_ELEMENTS(values); i++) {
    g_autoptr(GError) error = NULL;
    g_unsetenv("BALLAST_TESTING");
    if (values[i] != NULL) g_setenv("BALLAST_TESTING", values[i], TRUE);
    g_assert_null(bl_store_open("fault::memory:", TRUE, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  }
}

static void test_counts_file(void) {
  g_autofree char *path = g_build_filename(g_get_tmp_dir(), "ballast-counts-XXXXXX", NULL);
  close(g_mkstemp(path));
  g_autofree char *url = g_strdup_printf("fault:counts=%s:memory:", path);
  g_setenv("BALLAST_TESTING", "1", TRUE);
  for (guint round = 0; round < 2; round++) {
    g_autoptr(BlStore) store = bl_store_open(url, TRUE, NULL);
    g_assert_true(put(store, 1));
    g_assert_true(put(store, 2));
    g_assert_true(bl_store_sync(store, NULL));
  }
  g_autofree char *text = NULL;
  g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
  g_assert_cmpstr(text, ==, "put 2 10\nsync 1 0\nput 2 10\nsync 1 0\n");
  unlink(path);
}

#define ADD(name, func) g_test_add("/fault/" name, BlStore *, NULL, setup, func, teardown)

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  ADD("nth", test_nth);
  ADD("times", test_times);
  ADD("ops", test_ops);
  ADD("sweep-over-n", test_sweep_over_n);
  ADD("writer", test_writer);
  ADD("batches", test_batches);
  ADD("counts", test_counts);
  ADD("delay", test_delay);
  g_test_add_func("/fault/share-and-settings", test_share_and_settings);
  g_test_add_func("/fault/url", test_url);
  g_test_add_func("/fault/url-refused", test_url_refused);
  g_test_add_func("/fault/counts-file", test_counts_file);
  return g_test_run();
}
