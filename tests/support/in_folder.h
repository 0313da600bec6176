/* For tests that run in a fresh folder of their own, which is gone afterwards. */
#pragma once
#include <unistd.h>

#include "folder.h"

typedef struct {
  char *folder, *before;
} Fixture;

/* data: the template of the folder's name. */
static void enter_folder(Fixture *f, gconstpointer data) {
  f->before = g_get_current_dir();
  f->folder = g_dir_make_tmp(data, NULL);
  g_assert_cmpint(chdir(f->folder), ==, 0);
}

static void leave_folder(Fixture *f, gconstpointer data) {
  (void)data;
  g_assert_cmpint(chdir(f->before), ==, 0);
  remove_tree(f->folder);
  g_free(f->folder);
  g_free(f->before);
}

/* Makes the folders above it, too. */
static void put_text(const char *path, const char *text) {
  g_autofree char *folder = g_path_get_dirname(path);
  g_assert_cmpint(g_mkdir_with_parents(folder, 0755), ==, 0);
  g_assert_true(g_file_set_contents(path, text, -1, NULL));
}
