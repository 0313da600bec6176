/* The local store's files, as docs/formats/dir-store.md has them. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/dir-format/names", test_names);
  g_test_add_func("/dir-format/new-store", test_new_store);
  return g_test_run();
}
