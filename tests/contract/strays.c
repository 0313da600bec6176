/* What lies in a store and is no object; and what an operator sets for it. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "contract/contract.h"

static char *path_in(const Fixture *f, const char *path) {
  return g_build_filename(f->folder, "store", path, NULL);
}

static void make_file(const Fixture *f, const char *path) {
  g_autofree char *full = path_in(f, path);
  g_autofree char *folder = g_path_get_dirname(full);
  g_assert_cmpint(g_mkdir_with_parents(folder, 0777), ==, 0);
  bl_autofd fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  g_assert_cmpint(fd, >=, 0);
  g_assert_cmpint(write(fd, "stray", 5), ==, 5);
}

static void make_folder(const Fixture *f, const char *path) {
  g_autofree char *full = path_in(f, path);
  g_assert_cmpint(g_mkdir_with_parents(full, 0777), ==, 0);
}

static gboolean is_there(const Fixture *f, const char *path) {
  g_autofree char *full = path_in(f, path);
  struct stat st;
  return lstat(full, &st) == 0;
}

/* Path and all in one piece of memory. */
static BlStray *stray_copy(const BlStray *stray) {
  gsize size = strlen(stray->path) + 1;
  BlStray *copy = g_malloc(sizeof *copy + size);
  *copy = *stray;
  copy->path = memcpy(copy + 1, stray->path, size);
  return copy;
}

static gboolean collect_stray(const BlStray *stray, gpointer user, GError **error) {
  (void)error;
  g_ptr_array_add(user, stray_copy(stray));
  return TRUE;
}

static gint compare_strays(gconstpointer a, gconstpointer b) {
  return strcmp((*(BlStray *const *)a)->path, (*(BlStray *const *)b)->path);
}

static GPtrArray *list_strays(BlStore *store) {
  GPtrArray *strays = g_ptr_array_new_with_free_func(g_free);
  must(bl_store_list_strays(store, collect_stray, strays, &error));
  g_ptr_array_sort(strays, compare_strays);
  return strays;
}

/* "T" a temporary, "E" an empty folder, "F" foreign. */
static char *describe_strays(BlStore *store) {
  g_autoptr(GPtrArray) strays = list_strays(store);
  g_autoptr(GString) text = g_string_new(NULL);
  for (guint i = 0; i < strays->len; i++) {
    const BlStray *stray = g_ptr_array_index(strays, i);
    g_assert_false(stray->is_temporary && stray->is_folder);
    g_string_append_printf(text, "%s%s:%s", i > 0 ? " " : "",
                           stray->is_temporary ? "T"
                           : stray->is_folder  ? "E"
                                               : "F",
                           stray->path);
    if (stray->is_temporary) g_assert_cmpuint(stray->stat.size, ==, 5);
    if (stray->is_folder) g_assert_cmpuint(stray->stat.size, ==, 0);
  }
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static void make_mess(const Fixture *f) {
  static const char *const files[] = {
      ".tmp-00-0",       "w/.tmp-00-1",         "w/m/id/.tmp-00-2",
      "w/m/id/.hidden",  "w/m/id/a name",       "w/a,b",
      "w/%41/x",         ".foreign/deep/file",  "w/m/id/deeper/file",
      "lost+found/#123", "w/m/.tmp-folder/file"};
  for (guint i = 0; i < G_N_ELEMENTS(files); i++) make_file(f, files[i]);
  make_folder(f, "hollow");
  make_folder(f, "w/hollow");
  make_folder(f, "w/m/hollow");
  make_folder(f, "w/m/id/hollow");
}

#define FOREIGN                                                                             \
  "F:.foreign F:w/%41 F:w/a,b F:w/m/.tmp-folder F:w/m/id/.hidden F:w/m/id/a name F:w/m/id/" \
  "deeper F:w/m/id/hollow"

static void test_strays(Fixture *f, gconstpointer data) {
  (void)data;
  contract_put(f->store, "w/m/id/manifest", "x");
  contract_put(f->store, "top", "x");
  g_autofree char *none = describe_strays(f->store);
  g_assert_cmpstr(none, ==, "");
  if (f->folder == NULL) return;
  make_mess(f);
  g_autofree char *all = describe_strays(f->other);
  g_assert_cmpstr(all, ==,
                  "F:.foreign T:.tmp-00-0 F:w/%41 T:w/.tmp-00-1 F:w/a,b F:w/m/.tmp-folder "
                  "E:w/m/hollow F:w/m/id/.hidden T:w/m/id/.tmp-00-2 F:w/m/id/a name "
                  "F:w/m/id/deeper F:w/m/id/hollow");
  g_autofree char *keys = contract_list(f->store, "");
  g_assert_cmpstr(keys, ==, "top w/m/id/manifest");

  g_autoptr(GPtrArray) strays = list_strays(f->other);
  for (guint i = 0; i < strays->len; i++) {
    const BlStray *stray = g_ptr_array_index(strays, i);
    if (stray->is_temporary || stray->is_folder)
      must(bl_store_remove_stray(f->store, stray, &error));
    else
      must_fail(BL_ERROR_INVALID, bl_store_remove_stray(f->store, stray, &error));
  }
  g_autofree char *rest = describe_strays(f->other);
  g_assert_cmpstr(rest, ==, FOREIGN);
  contract_check(f->other, "w/m/id/manifest", "x");
  contract_check(f->other, "top", "x");
}

static void test_stray_links(Fixture *f, gconstpointer data) {
  (void)data;
  g_autofree char *link = f->folder != NULL ? path_in(f, "w/m/.link") : NULL;
  contract_put(f->store, "w/m/id/manifest", "x");
  if (link == NULL || symlink(f->folder, link) != 0) {
    g_test_skip("no symbolic links here");
    return;
  }
  g_autofree char *temporary = path_in(f, "w/m/.tmp-00-0");
  g_assert_cmpint(symlink("id/manifest", temporary), ==, 0);
  g_autofree char *strays = describe_strays(f->other);
  g_assert_cmpstr(strays, ==, "F:w/m/.link F:w/m/.tmp-00-0");
}

/* Nothing but what was listed goes: not what was written to since, what came into a folder, or what
 * a made-up path names. */
static void test_stray_changed(Fixture *f, gconstpointer data) {
  (void)data;
  if (f->folder == NULL) return;
  make_file(f, "w/m/id/.tmp-00-0");
  make_file(f, "w/m/id/.tmp-00-1");
  make_folder(f, "w/m/hollow");
  g_autoptr(GPtrArray) strays = list_strays(f->store);
  g_assert_cmpuint(strays->len, ==, 3);
  g_autofree char *changed = path_in(f, "w/m/id/.tmp-00-0");
  g_autofree char *replaced = path_in(f, "w/m/id/.tmp-00-1");
  const struct timespec times[] = {{1000, 0}, {1000, 0}};
  g_assert_cmpint(utimensat(AT_FDCWD, changed, times, 0), ==, 0);
  g_autofree char *beside = path_in(f, "w/m/id/.tmp-00-2");
  make_file(f, "w/m/id/.tmp-00-2");
  g_assert_cmpint(rename(beside, replaced), ==, 0);
  contract_put(f->store, "w/m/hollow/x", "x");
  for (guint i = 0; i < strays->len; i++)
    must(bl_store_remove_stray(f->other, g_ptr_array_index(strays, i), &error));
  g_assert_true(is_there(f, "w/m/id/.tmp-00-0"));
  g_assert_true(is_there(f, "w/m/id/.tmp-00-1"));
  contract_check(f->store, "w/m/hollow/x", "x");

  make_file(f, "../.tmp-outside");
  static const char *const paths[] = {"../.tmp-outside", "w/../../.tmp-outside", "/etc",  "",
                                      "w/m/hollow/x",    "w//m/.tmp-x",          "w/m/.."};
  for (guint i = 0; i < G_N_ELEMENTS(paths); i++) {
    BlStray stray = {.path = paths[i], .is_temporary = TRUE};
    must_fail(BL_ERROR_INVALID, bl_store_remove_stray(f->store, &stray, &error));
  }
  BlStray above = {.path = "w/..", .is_folder = TRUE};
  must_fail(BL_ERROR_INVALID, bl_store_remove_stray(f->store, &above, &error));
  BlStray gone = {.path = "w/m/gone/.tmp-00-0", .is_temporary = TRUE};
  must(bl_store_remove_stray(f->store, &gone, &error));
}

static void check_settings(BlStore *store, guint64 max_bytes, gboolean is_group_shared) {
  BlStoreSettings settings;
  must(bl_store_get_settings(store, &settings, &error));
  g_assert_cmpuint(settings.max_bytes, ==, max_bytes);
  g_assert_cmpint(settings.is_group_shared, ==, is_group_shared);
}

static void test_settings(Fixture *f, gconstpointer data) {
  (void)data;
  check_settings(f->store, G_MAXUINT64, FALSE);
  BlStoreSettings limited = {.max_bytes = 1000};
  if (f->folder == NULL) {
    must_fail(BL_ERROR_UNSUPPORTED, bl_store_set_settings(f->store, &limited, &error));
    return;
  }
  must(bl_store_set_settings(f->store, &limited, &error));
  check_settings(f->other, 1000, FALSE);
  limited.max_bytes = G_MAXINT64;
  must(bl_store_set_settings(f->other, &limited, &error));
  check_settings(f->store, G_MAXINT64, FALSE);
  const guint64 bad[] = {0, (guint64)G_MAXINT64 + 1, G_MAXUINT64 - 1};
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
    BlStoreSettings settings = {.max_bytes = bad[i]};
    must_fail(BL_ERROR_INVALID, bl_store_set_settings(f->store, &settings, &error));
  }
  check_settings(f->store, G_MAXINT64, FALSE);
  /* The limit is judged by those above the store; it stays readable and writable. */
  g_clear_pointer(&f->other, bl_store_free);
  must((f->other = bl_store_open(f->url, FALSE, &error)));
  contract_put(f->other, "a/b", "x");
  contract_check(f->store, "a/b", "x");
  BlStoreSettings none = {.max_bytes = G_MAXUINT64};
  must(bl_store_set_settings(f->store, &none, &error));
  check_settings(f->other, G_MAXUINT64, FALSE);
}

const ContractTest contract_strays[] = {
    {"strays", test_strays, FALSE},
    {"stray-links", test_stray_links, FALSE},
    {"stray-changed", test_stray_changed, FALSE},
    {"settings", test_settings, FALSE},
    {NULL, NULL, FALSE},
};
