#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/error.h"
#include "store/store.h"

static char *home;

static void check_invalid(const char *url) {
  g_test_message("%s", url);
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_store_open(url, FALSE, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  g_assert_nonnull(strstr(error->message, url));
}

static void test_refused(void) {
  static const char *const bad[] = {"",         "store",         "s3://bucket/x", "FILE:///tmp/x",
                                    "http://x", "file://host/x", "file:relative", "file:///a%zz",
                                    ".hidden",  "...",           ".../x",         "file:///a%00b",
                                    "~user/x",  "mooncake",      "file:///a%2Fb", "file:///a#b"};
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++) check_invalid(bad[i]);
}

static void test_refusal_teaches(void) {
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_store_open("s3://bucket", FALSE, &error));
  g_assert_nonnull(strstr(error->message, "file:///path"));
}

/* Two ways to write a place lead to the same store. */
static void check_same(const char *a, const char *b) {
  g_test_message("%s and %s", a, b);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlStore) first = bl_store_open(a, TRUE, &error);
  g_assert_no_error(error);
  g_autoptr(BlStore) second = bl_store_open(b, FALSE, &error);
  g_assert_no_error(error);
  guint64 size = 0;
  g_assert_true(bl_store_put(first, "key", "abc", 3, BL_PUT_REPLACE, &error));
  g_assert_true(bl_store_size(second, "key", &size, &error));
  g_assert_no_error(error);
  g_assert_cmpuint(size, ==, 3);
  g_assert_true(bl_store_remove(first, "key", &error));
}

static void test_paths(void) {
  g_autofree char *before = g_get_current_dir();
  g_assert_cmpint(chdir(home), ==, 0);
  g_autofree char *absolute = g_build_filename(home, "a b", NULL);
  g_autofree char *url = g_strconcat("file://", home, "/a%20b", NULL);
  g_autofree char *local = g_strconcat("file://localhost", home, "/a%20b", NULL);
  check_same(absolute, url);
  check_same(absolute, local);
  check_same(absolute, "./a b");
  check_same("./x", "../../../../../../../../../../../../..//proc/self/cwd/x");
  g_autofree char *percent = g_build_filename(home, "p%20q", NULL);
  check_same(percent, "./p%20q"); /* a path is not decoded */
  g_assert_cmpint(chdir(before), ==, 0);
}

static void test_home(void) {
  g_autofree char *path = g_build_filename(home, "store", NULL);
  check_same("~/store", path);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  home = g_dir_make_tmp("ballast-url-XXXXXX", NULL);
  g_setenv("HOME", home, TRUE);
  g_test_add_func("/store-url/refused", test_refused);
  g_test_add_func("/store-url/refusal-teaches", test_refusal_teaches);
  g_test_add_func("/store-url/paths", test_paths);
  g_test_add_func("/store-url/home", test_home);
  int status = g_test_run();
  remove_tree(home);
  g_free(home);
  return status;
}
