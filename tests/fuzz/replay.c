/* Runs a target over the files of the folders named, and over each of them cut and spoilt in places
 * that are the same every time: what a fuzzer found once stays found, with any compiler. */
#include <stdio.h>

#include "fuzz.h"

/* A large file is cut and spoilt at about this many places. */
#define PLACES 400

static void replay_file(const guint8 *data, gsize size) {
  LLVMFuzzerTestOneInput(data, size);
  gsize step = size / PLACES + 1;
  for (gsize at = 0; at < size; at += step) {
    /* Copies of the exact size, so that a sanitizer sees one byte past the end. */
    g_autofree guint8 *cut = g_memdup2(data, at);
    LLVMFuzzerTestOneInput(cut, at);
    g_autofree guint8 *spoilt = g_memdup2(data, size);
    spoilt[at] ^= (guint8)(1u << (at % 8));
    LLVMFuzzerTestOneInput(spoilt, size);
    spoilt[at] = 0xff;
    LLVMFuzzerTestOneInput(spoilt, size);
  }
}

static guint replay_folder(const char *folder) {
  guint n = 0;
  g_autoptr(GError) error = NULL;
  g_autoptr(GDir) dir = g_dir_open(folder, 0, &error);
  if (dir == NULL) g_error("%s", error->message);
  for (const char *name; (name = g_dir_read_name(dir)) != NULL; n++) {
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autofree char *data = NULL;
    gsize size;
    if (!g_file_get_contents(path, &data, &size, &error)) g_error("%s", error->message);
    replay_file((const guint8 *)data, size);
  }
  return n;
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    guint n = replay_folder(argv[i]);
    printf("%s: %u files\n", argv[i], n);
    if (n == 0) return 1;
  }
  return argc > 1 ? 0 : 1;
}
