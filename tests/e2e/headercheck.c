/* Reads paths on standard input, one a line, and prints one line for each: the verdict on its
 * header ("ok" or the error's name), a tab, and for "ok" the tensors, their bytes and the notes,
 * else the message. One process judges thousands of files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "model/tensors.h"

static void print_table(const BlTensorTable *table) {
  printf("ok\t%" G_GUINT64_FORMAT " tensors, %" G_GUINT64_FORMAT " bytes",
         bl_tensor_table_n_tensors(table), bl_tensor_table_n_bytes(table));
  for (guint i = 0; i < bl_tensor_table_n_notes(table); i++)
    printf("; %s", bl_tensor_table_note(table, i));
  printf("\n");
}

static gboolean judge(const char *path, GError **error) {
  bl_autofd fd = bl_open_at(AT_FDCWD, path, O_RDONLY, 0, "file", error);
  BlByteSource source;
  if (fd < 0 || !bl_byte_source_from_fd(&source, fd, error)) return FALSE;
  g_autofree char *name = g_path_get_basename(path);
  g_autoptr(BlTensorTable) table =
      bl_tensor_table_read(&source, bl_model_format_from_path(path), name, error);
  if (table == NULL || !bl_tensor_table_check_known(table, name, error)) return FALSE;
  print_table(table);
  return TRUE;
}

int main(void) {
  char line[4096];
  while (fgets(line, sizeof line, stdin) != NULL) {
    g_autoptr(GError) error = NULL;
    line[strcspn(line, "\n")] = '\0';
    if (!judge(line, &error))
      printf("%s\t%s\n", bl_error_name(bl_error_code(error)), error->message);
  }
  return ferror(stdin) || fflush(stdout) != 0 ? 1 : 0;
}
