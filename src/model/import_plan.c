#include "model/import_plan.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/build.h"
#include "model/layout.h"

typedef struct {
  BlSource *source;
  const BlImportOptions *options;
} Check;

static gboolean open_source(gpointer user, guint64 i, BlByteSource *bytes, GError **error) {
  const Check *check = user;
  BlSourceState state;
  bl_autofd fd = bl_source_open_file(check->source, i, &state, error);
  if (fd < 0 || !bl_byte_source_from_fd(bytes, fd, error)) return FALSE;
  bl_fd_steal(&fd);
  return TRUE;
}

static void close_source(gpointer user, BlByteSource *bytes) {
  (void)user;
  bl_byte_source_close_fd(bytes);
}

static gboolean is_left_out(gpointer user, const char *path) {
  const Check *check = user;
  return !bl_path_is_selected(path, check->options->include, check->options->exclude);
}

/* Every finding becomes a note, but for the first error where errors count. */
static gboolean judge_findings(const BlLayoutResult *result, gboolean force, BlJob *job,
                               GError **error) {
  const BlLayoutFinding *fault = NULL;
  for (guint i = 0; i < result->findings->len; i++) {
    const BlLayoutFinding *finding = g_ptr_array_index(result->findings, i);
    if (finding->level == BL_LAYOUT_ERROR && !force && fault == NULL)
      fault = finding;
    else
      bl_job_note(job, BL_NOTE_WARNING, "%s", finding->text);
  }
  return fault == NULL ||
         bl_error_set(error, BL_ERROR_CORRUPT, "%s (--force imports it all the same)", fault->text);
}

gboolean bl_import_check_source(BlSource *source, const BlImportOptions *options, BlJob *job,
                                GError **error) {
  g_autofree char *shown = bl_path_display(options->source);
  gboolean is_filtered = options->include != NULL || options->exclude != NULL;
  if (!options->force && source->n_files == 0 && is_filtered)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "source \"%s\": --include and --exclude leave no file to import", shown);
  if (!options->force && source->n_files == 0)
    return bl_error_set(
        error, BL_ERROR_CORRUPT,
        "source \"%s\" has no files to import (is it the right folder? --force imports it all "
        "the same)",
        shown);
  for (guint i = 0; i < source->notes->len; i++)
    bl_job_note(job, BL_NOTE_WARNING, "%s", (char *)source->notes->pdata[i]);
  if (source->missing != NULL && !options->force)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "source \"%s\": %s (download it again, leave them out with --exclude, or "
                        "import it all the same with --force)",
                        shown, source->missing);
  if (source->missing != NULL) bl_job_note(job, BL_NOTE_WARNING, "%s", source->missing);
  g_autofree BlLayoutFile *files = g_new(BlLayoutFile, source->n_files);
  for (guint64 i = 0; i < source->n_files; i++)
    files[i] = (BlLayoutFile){.path = source->files[i].path, .size = source->files[i].size};
  Check check = {.source = source, .options = options};
  BlLayoutInput input = {.files = files,
                         .n_files = source->n_files,
                         .open = open_source,
                         .close = close_source,
                         .is_left_out = is_left_out,
                         .user = &check};
  g_autoptr(BlLayoutResult) result = bl_layout_check(&input, FALSE, error);
  if (result != NULL && judge_findings(result, options->force, job, error)) return TRUE;
  g_prefix_error(error, "source \"%s\": ", shown);
  return FALSE;
}

BlManifest *bl_import_plan(BlStore *store, const BlSource *source, const BlImportResult *names,
                           guint64 chunk_size, GError **error) {
  g_autoptr(BlManifest) plan =
      bl_manifest_new(names->checkpoint_id, names->model_id, names->revision, source->uri);
  for (guint64 i = 0; i < source->n_files; i++)
    if (bl_build_plan_add(store, plan, source->files[i].path, source->files[i].size, chunk_size,
                          error) == NULL)
      return NULL;
  return bl_build_plan_finish(plan, "import", error) ? g_steal_pointer(&plan) : NULL;
}
