#include "model/verify_select.h"

#include "base/path.h"

/* Equal sizes in the manifest's order, so that every run makes the same parts. */
static int compare_sizes(gconstpointer a, gconstpointer b, gpointer user) {
  const BlManifestFile *files = user;
  guint32 i = *(const guint32 *)a, j = *(const guint32 *)b;
  if (files[i].size != files[j].size) return files[i].size > files[j].size ? -1 : 1;
  return i < j ? -1 : i > j;
}

/* Each file, the largest first, goes to the part that has least so far; part `wanted` of n stays.
 */
static void keep_part(BlVerifySelection *selection, const BlManifest *manifest, guint wanted,
                      guint n_parts) {
  g_autofree guint64 *n_bytes = g_new0(guint64, n_parts);
  guint64 n = 0;
  for (guint64 i = 0; i < selection->n; i++) {
    guint32 file = selection->files[i];
    guint least = 0;
    for (guint part = 1; part < n_parts; part++)
      if (n_bytes[part] < n_bytes[least]) least = part;
    /* An empty file counts a little, or all of them would be in one part. */
    n_bytes[least] += MAX(manifest->files[file].size, 1);
    selection->is_selected[file] = least + 1 == wanted;
    if (selection->is_selected[file]) selection->files[n++] = file;
  }
  selection->n = n;
}

void bl_verify_select(BlVerifySelection *selection, const BlManifest *manifest,
                      const BlVerifyOptions *options) {
  *selection = (BlVerifySelection){
      .files = g_new(guint32, MAX(manifest->n_files, 1)),
      .is_selected = g_new0(guint8, MAX(manifest->n_files, 1)),
  };
  for (guint64 i = 0; i < manifest->n_files; i++) {
    if (!bl_path_is_selected(manifest->files[i].path, options->include, options->exclude)) continue;
    selection->is_selected[i] = TRUE;
    selection->files[selection->n++] = (guint32)i;
  }
  g_qsort_with_data(selection->files, (gint)selection->n, sizeof *selection->files, compare_sizes,
                    manifest->files);
  if (options->n_subsets > 1) keep_part(selection, manifest, options->subset, options->n_subsets);
  for (guint64 i = 0; i < selection->n; i++)
    selection->n_bytes += manifest->files[selection->files[i]].size;
}

void bl_verify_selection_clear(BlVerifySelection *selection) {
  g_clear_pointer(&selection->files, g_free);
  g_clear_pointer(&selection->is_selected, g_free);
}
