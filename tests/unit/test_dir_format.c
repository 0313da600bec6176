/* The local store's files, as docs/formats/dir-store.md has them. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/file.h"
#include "golden.h"
#include "store/dir.h"
#include "store/dir_name.h"

#define HEX "5fd924625f6ab16a19cc9807c7c506ae1813490e4ba675f843d5a10e0baacdb8"

static void test_names(void) {
  const char *cases[][3] = {
      {"weight/models/m/manifest", "weight/models/m", "manifest"},
      {"weight/models/m/files/" HEX "/chunks/00000000", "weight/models/m",
       "files," HEX ",chunks,00000000"},
      {"weight/models/m/claim-beat/0011", "weight/models/m", "claim-beat,0011"},
      {"weight/refs/" HEX "/" HEX, "weight/refs/" HEX, HEX},
      {"weight/index/models", "weight/index", "models"},
      {"one", "", "one"},
      {"a/b/c/d/e/f", "a/b/c", "d,e,f"},
      {".a/b.c/.d/.e/.f", "%2Ea/b.c/%2Ed", "%2Ee,%2Ef"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    BlDirName name;
    g_autoptr(GError) error = NULL;
    bl_dir_name_from_key(cases[i][0], &name, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(name.folder, ==, cases[i][1]);
    g_assert_cmpstr(name.name, ==, cases[i][2]);
    g_autofree char *key = bl_dir_name_to_key(name.folder, name.name);
    g_assert_cmpstr(key, ==, cases[i][0]);
  }
  g_assert_null(bl_dir_name_to_key("weight/models/m", ".tmp-00112233445566778899aabbccddeeff-0"));
}

static void test_new_store(void) {
  g_autofree char *root = g_dir_make_tmp("ballast-XXXXXX", NULL);
  g_autoptr(GError) error = NULL;
  mode_t umask_before = umask(027);
  {
    g_autoptr(BlStore) store = bl_dir_store_open(root, TRUE, &error);
    g_assert_no_error(error);
    put_text(store, "weight/models/m/manifest", "bytes");
  }
  umask(umask_before);
  g_autofree char *format = g_build_filename(root, "store.json", NULL);
  g_autofree char *data = NULL;
  gsize size, golden_size;
  g_file_get_contents(format, &data, &size, &error);
  g_assert_no_error(error);
  g_autofree char *golden = golden_load("docs/formats/golden", "store.json", &golden_size);
  g_assert_cmpmem(data, size, golden, golden_size);

  const struct {
    const char *path;
    mode_t mode;
  } cases[] = {{"weight/models/m/manifest", S_IFREG | 0440}, {"weight/models/m", S_IFDIR | 0750}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *path = g_build_filename(root, cases[i].path, NULL);
    struct stat st;
    g_assert_cmpint(lstat(path, &st), ==, 0);
    g_assert_cmphex(st.st_mode, ==, cases[i].mode);
    g_assert_cmpint(remove(path), ==, 0);
  }
  const char *rest[] = {"weight/models", "weight", "store.json", ""};
  for (gsize i = 0; i < G_N_ELEMENTS(rest); i++) {
    g_autofree char *path = g_build_filename(root, rest[i], NULL);
    g_assert_cmpint(remove(path), ==, 0);
  }
}

typedef struct {
  char *root;
  BlStore *store;
} Fixture;

static void set_up(Fixture *f, gconstpointer data) {
  (void)data;
  f->root = g_dir_make_tmp("ballast-XXXXXX", NULL);
  f->store = bl_dir_store_open(f->root, TRUE, NULL);
  g_assert_nonnull(f->store);
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  g_clear_pointer(&f->store, bl_store_free);
  remove_tree(f->root);
  g_free(f->root);
}

static char *load_format(const Fixture *f) {
  g_autofree char *path = g_build_filename(f->root, "store.json", NULL);
  char *text = NULL;
  g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
  return text;
}

static void write_format(const Fixture *f, const char *text) {
  g_autoptr(GError) error = NULL;
  bl_autofd root_fd = open(f->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bl_file_replace(root_fd, "store.json", text, strlen(text), 0444, &error);
  g_assert_no_error(error);
}

static void set(Fixture *f, guint64 max_bytes, gboolean is_group_shared) {
  BlStoreSettings settings = {max_bytes, is_group_shared};
  g_autoptr(GError) error = NULL;
  bl_store_set_settings(f->store, &settings, &error);
  g_assert_no_error(error);
}

static void check_format(const Fixture *f, const char *expected) {
  g_autofree char *text = load_format(f);
  g_assert_cmpstr(text, ==, expected);
}

static void check_mode(const Fixture *f, const char *name, mode_t mode) {
  g_autofree char *path = g_build_filename(f->root, name, NULL);
  struct stat st;
  g_assert_cmpint(lstat(path, &st), ==, 0);
  g_assert_cmphex(st.st_mode & 07777, ==, mode);
}

static void test_settings(Fixture *f, gconstpointer data) {
  (void)data;
  gsize size;
  g_autofree char *fresh = load_format(f);
  g_autofree char *golden = golden_load("docs/formats/golden", "store-max-bytes.json", &size);
  set(f, 107374182400, FALSE);
  check_format(f, golden);
  set(f, 107374182400, FALSE);
  check_format(f, golden);
  set(f, G_MAXUINT64, FALSE);
  check_format(f, fresh);
}

static void test_group(Fixture *f, gconstpointer data) {
  (void)data;
  mode_t umask_before = umask(077);
  g_assert_cmpint(chmod(f->root, 0700), ==, 0);
  put_text(f->store, "weight/models/old/manifest", "bytes");
  set(f, G_MAXUINT64, TRUE);
  put_text(f->store, "weight/models/m/manifest", "bytes");
  umask(umask_before);
  check_mode(f, "", 02770);
  check_mode(f, "store.json", 0444);
  check_mode(f, "weight/models", 02770);
  check_mode(f, "weight/models/old", 02770);
  check_mode(f, "weight/models/old/manifest", 0444);
  check_mode(f, "weight/models/m", 02775);
  check_mode(f, "weight/models/m/manifest", 0444);
  BlStoreSettings settings;
  g_assert_true(bl_store_get_settings(f->store, &settings, NULL));
  g_assert_true(settings.is_group_shared);
}

/* Members and features of a newer ballast outlive what this one sets. */
static void test_unknown_kept(Fixture *f, gconstpointer data) {
  (void)data;
  write_format(f,
               "{\"color\":[1],\"features\":{\"compatible\":[\"new\"],\"incompatible\":[],"
               "\"more\":1,\"read_only_compatible\":[]},\"format\":\"ballast-dir\",\"shared\":"
               "\"umask\",\"version\":1}");
  set(f, 5, FALSE);
  check_format(f,
               "{\"color\":[1],\"features\":{\"compatible\":[\"new\"],\"incompatible\":[],"
               "\"more\":1,\"read_only_compatible\":[\"max-bytes\"]},\"format\":\"ballast-dir\","
               "\"max_bytes\":5,\"shared\":\"umask\",\"version\":1}\n");
  write_format(f, "{\"format\":\"ballast-dir\",\"version\":1}");
  set(f, 6, FALSE);
  check_format(f,
               "{\"features\":{\"read_only_compatible\":[\"max-bytes\"]},\"format\":"
               "\"ballast-dir\",\"max_bytes\":6,\"shared\":\"umask\",\"version\":1}\n");
}

#define FORMAT(members) "{\"format\":\"ballast-dir\",\"version\":1," members "}"

/* Readers go on; who asks for the settings is told which member is wrong. */
static void test_damaged(Fixture *f, gconstpointer data) {
  (void)data;
  static const char *const texts[][2] = {
      {FORMAT("\"max_bytes\":\"5\""), "\"max_bytes\""},
      {FORMAT("\"max_bytes\":0"), "\"max_bytes\""},
      {FORMAT("\"max_bytes\":-1"), "\"max_bytes\""},
      {FORMAT("\"max_bytes\":1.5"), "\"max_bytes\""},
      {FORMAT("\"max_bytes\":null"), "\"max_bytes\""},
      {FORMAT("\"shared\":1"), "\"shared\""},
      {FORMAT("\"shared\":\"all\""), "\"shared\""},
      {"[]", "object"},
      {"{", "store.json"},
  };
  put_text(f->store, "a/b", "bytes");
  for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
    BlStoreSettings settings;
    g_autoptr(GError) error = NULL;
    write_format(f, texts[i][0]);
    g_assert_false(bl_store_get_settings(f->store, &settings, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    g_assert_nonnull(strstr(error->message, texts[i][1]));
    if (i + 2 >= G_N_ELEMENTS(texts)) continue;
    g_autoptr(BlStore) again = bl_dir_store_open(f->root, FALSE, NULL);
    g_assert_nonnull(again);
  }
  static const char *const features[] = {FORMAT("\"features\":[]"),
                                         FORMAT("\"features\":{\"read_only_compatible\":1}")};
  for (guint i = 0; i < G_N_ELEMENTS(features); i++) {
    BlStoreSettings settings = {.max_bytes = 5};
    g_autoptr(GError) error = NULL;
    write_format(f, features[i]);
    g_assert_false(bl_store_set_settings(f->store, &settings, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    check_format(f, features[i]);
  }
}

/* A feature that came after the store was opened binds its writers all the same. */
static void test_unknown_feature(Fixture *f, gconstpointer data) {
  (void)data;
  static const char *const texts[] = {
      FORMAT("\"features\":{\"read_only_compatible\":[\"max-bytes\",\"new\"]}"),
      FORMAT("\"features\":{\"incompatible\":[\"max-bytes\"]}")};
  static const BlErrorCode codes[] = {BL_ERROR_DENIED, BL_ERROR_UNSUPPORTED};
  for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
    BlStoreSettings settings = {.max_bytes = 5};
    g_autoptr(GError) error = NULL;
    write_format(f, texts[i]);
    g_assert_false(bl_store_set_settings(f->store, &settings, &error));
    g_assert_error(error, BL_ERROR, (gint)codes[i]);
    check_format(f, texts[i]);
  }
}

typedef struct {
  const char *root;
  guint64 max_bytes;
} Setter;

static gpointer set_often(gpointer data) {
  const Setter *setter = data;
  g_autoptr(BlStore) store = bl_dir_store_open(setter->root, FALSE, NULL);
  for (guint i = 0; i < 30; i++) {
    BlStoreSettings settings = {.max_bytes = i % 2 == 0 ? setter->max_bytes : G_MAXUINT64};
    g_autoptr(GError) error = NULL;
    bl_store_set_settings(store, &settings, &error);
    g_assert_no_error(error);
    g_assert_true(bl_store_get_settings(store, &settings, &error));
    g_assert_true(settings.max_bytes == G_MAXUINT64 ||
                  (settings.max_bytes >= 1 && settings.max_bytes <= 4));
  }
  return NULL;
}

static void test_setters_race(Fixture *f, gconstpointer data) {
  (void)data;
  Setter setters[4];
  GThread *threads[4];
  for (guint i = 0; i < 4; i++) {
    setters[i] = (Setter){f->root, i + 1};
    threads[i] = g_thread_new("setter", set_often, &setters[i]);
  }
  for (guint i = 0; i < 4; i++) g_thread_join(threads[i]);
  set(f, 7, FALSE);
  check_format(f,
               "{\"features\":{\"compatible\":[],\"incompatible\":[],\"read_only_compatible\":"
               "[\"max-bytes\"]},\"format\":\"ballast-dir\",\"max_bytes\":7,\"shared\":\"umask\","
               "\"version\":1}\n");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/dir-format/names", test_names);
  g_test_add_func("/dir-format/new-store", test_new_store);
  static const struct {
    const char *path;
    void (*func)(Fixture *f, gconstpointer data);
  } tests[] = {
      {"/dir-format/settings", test_settings},
      {"/dir-format/group", test_group},
      {"/dir-format/unknown-kept", test_unknown_kept},
      {"/dir-format/damaged", test_damaged},
      {"/dir-format/unknown-feature", test_unknown_feature},
      {"/dir-format/setters-race", test_setters_race},
  };
  for (guint i = 0; i < G_N_ELEMENTS(tests); i++)
    g_test_add(tests[i].path, Fixture, NULL, set_up, tests[i].func, tear_down);
  return g_test_run();
}
