#include "model/verify_deep.h"

#include "base/error.h"

typedef struct {
  BlReader *reader;
  const BlManifest *manifest;
  const guint8 *is_selected;
  BlJob *job;
  const guint64 *index; /* in the manifest, of each file of the layout */
} Deep;

/* An open file of it. */
typedef struct {
  const Deep *deep;
  guint64 file;
} Source;

static gboolean read_source(gpointer user, guint64 offset, void *data, gsize size, GError **error) {
  const Source *source = user;
  GError *cause = NULL;
  if (!bl_job_check(source->deep->job, error)) return FALSE;
  if (bl_reader_read(source->deep->reader, source->file, offset, data, size, &cause)) return TRUE;
  /* What cannot be read was named by the check of the bytes; here it is one more file that is not
   * what it should be, and the others are still looked at. */
  if (bl_error_code(cause) == BL_ERROR_IO) cause->code = BL_ERROR_CORRUPT;
  g_propagate_error(error, cause);
  return FALSE;
}

static gboolean open_source(gpointer user, guint64 i, BlByteSource *source, GError **error) {
  const Deep *deep = user;
  if (!bl_job_check(deep->job, error)) return FALSE;
  Source *opened = g_new(Source, 1);
  *opened = (Source){deep, deep->index[i]};
  *source = (BlByteSource){deep->manifest->files[deep->index[i]].size, read_source, opened};
  return TRUE;
}

static void close_source(gpointer user G_GNUC_UNUSED, BlByteSource *source) {
  g_free(source->user);
}

static gboolean is_left_out(gpointer user, const char *path) {
  const Deep *deep = user;
  const BlManifestFile *file = bl_manifest_find(deep->manifest, path);
  return file != NULL && !deep->is_selected[file - deep->manifest->files];
}

BlLayoutResult *bl_verify_deep(BlReader *reader, const BlManifest *manifest,
                               const guint8 *is_selected, BlJob *job, GError **error) {
  g_autofree BlLayoutFile *files = g_new(BlLayoutFile, MAX(manifest->n_files, 1));
  g_autofree guint64 *index = g_new(guint64, MAX(manifest->n_files, 1));
  guint64 n = 0;
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const BlManifestFile *file = &manifest->files[i];
    if (!is_selected[i]) continue;
    files[n] = (BlLayoutFile){file->path, file->size};
    index[n++] = i;
  }
  Deep deep = {reader, manifest, is_selected, job, index};
  BlLayoutInput input = {files, n, open_source, close_source, is_left_out, &deep};
  return bl_layout_check(&input, TRUE, error);
}
