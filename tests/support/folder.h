/* Folders of C tests. */
#pragma once
#include <glib.h>
#include <glib/gstdio.h>

/* Removes the folder and all below it, links as links. What is not there is fine. */
static inline void remove_tree(const char *path) {
  GDir *dir = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? NULL : g_dir_open(path, 0, NULL);
  const char *name;
  while (dir != NULL && (name = g_dir_read_name(dir)) != NULL) {
    g_autofree char *below = g_build_filename(path, name, NULL);
    remove_tree(below);
  }
  if (dir != NULL) g_dir_close(dir);
  g_remove(path);
}
