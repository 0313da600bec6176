/* The source is scanned and judged before anything is written; build.h has the order of the rest.
 */
#include "model/import.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/identity.h"
#include "model/import_file.h"
#include "model/import_plan.h"
#include "model/key.h"
#include "model/room.h"
#include "model/state.h"

typedef struct {
  const BlImportOptions *options;
  BlJob *job;
  BlSource *source;
  BlBuild *build; /* once claimed */
  BlImportFiles files;
  BlImportResult *result;
} Import;

void bl_import_result_free(BlImportResult *result) {
  if (result == NULL) return;
  g_free(result->checkpoint_id);
  g_free(result->model_id);
  g_free(result->revision);
  g_free(result->commit);
  g_clear_pointer(&result->left_out, g_ptr_array_unref);
  g_clear_pointer(&result->mended, g_ptr_array_unref);
  g_free(result);
}

static gboolean choose_names(Import *import, GError **error) {
  const BlImportOptions *options = import->options;
  BlImportResult *result = import->result;
  result->model_id =
      g_strdup(options->model_id != NULL ? options->model_id : import->source->model_id);
  if (!bl_model_id_check(result->model_id, error)) {
    g_prefix_error(error, "model id: ");
    return FALSE;
  }
  result->revision = g_strdup(import->source->revision);
  if (!bl_model_id_check(result->revision, error)) {
    g_prefix_error(error, "revision: ");
    return FALSE;
  }
  result->checkpoint_id =
      options->checkpoint_id != NULL
          ? g_strdup(options->checkpoint_id)
          : bl_checkpoint_id_default(result->model_id, import->source->commit, error);
  return result->checkpoint_id != NULL && bl_checkpoint_id_check(result->checkpoint_id, error);
}

/* The revision, and what else the source calls the commit. Caller frees. */
static char **collect_refs(const BlSource *source, const char *revision) {
  g_autoptr(GPtrArray) refs = g_ptr_array_new();
  g_ptr_array_add(refs, g_strdup(revision));
  for (char **ref = source->refs; *ref != NULL; ref++)
    if (strcmp(*ref, revision) != 0) g_ptr_array_add(refs, g_strdup(*ref));
  g_ptr_array_add(refs, NULL);
  return (char **)g_ptr_array_steal(refs, NULL);
}

static BlInfo *make_info(gpointer user, const BlManifest *manifest) {
  Import *import = user;
  const BlSource *source = import->source;
  BlInfo *info = bl_info_new(manifest);
  const char *commit = bl_source_commit(source);
  g_free(info->commit);
  info->commit = commit != NULL ? g_strdup(commit) : bl_info_content_commit(manifest);
  info->commit_from_source = commit != NULL;
  g_strfreev(info->refs);
  info->refs = collect_refs(source, import->result->revision);
  g_free(info->source_kind);
  info->source_kind = g_strdup(source->is_hf_cache ? "hf-cache" : "folder");
  g_free(info->source_uri);
  info->source_uri = g_strdup(source->uri);
  g_free(info->imported_by_host);
  info->imported_by_host = g_strdup(g_get_host_name());
  g_free(info->imported_by_version);
  info->imported_by_version = g_strdup(BALLAST_VERSION);
  for (guint64 i = 0; i < source->n_files; i++) {
    info->executable[i] = source->files[i].executable;
    info->mtime_ns[i] = source->files[i].mtime_ns;
    info->blob_ids[i] = g_strdup(bl_source_blob_id(source, i));
  }
  g_free(import->result->commit);
  import->result->commit = g_strdup(info->commit);
  return info;
}

static gboolean take_file(guint64 i, guint worker, gpointer user, GError **error) {
  Import *import = user;
  return bl_import_file(&import->files, i, worker, error);
}

static gboolean is_shared(gpointer user, guint64 file) {
  Import *import = user;
  return bl_import_file_is_shared(&import->files, file);
}

static BlBuildWork make_work(Import *import, const BlManifest *manifest) {
  import->files = (BlImportFiles){.build = import->build,
                                  .source = import->source,
                                  .state_folder = import->options->state_folder,
                                  .mended = import->result->mended};
  bl_import_files_init(&import->files, manifest);
  return (BlBuildWork){.take_file = take_file,
                       .make_info = make_info,
                       .is_shared = is_shared,
                       .user = import,
                       .phase = "importing"};
}

/* What was imported, or compared, whole is known from now on. */
static void end_work(Import *import, gboolean ok) {
  import->result->n_files_written = import->files.n_files_written;
  import->result->n_bytes_written = import->files.n_bytes_written;
  import->result->n_files_shared = import->files.n_files_shared;
  import->result->n_bytes_shared = import->files.n_bytes_shared;
  if (ok) bl_identities_save_all(import->files.identities, import->job);
  bl_import_files_clear(&import->files);
}

static gboolean set_ref(Import *import, gboolean always, GError **error) {
  const BlImportResult *result = import->result;
  return bl_build_set_ref(import->build, result->model_id, result->revision, always, error);
}

/* Nothing, or a FAILED or unreadable checkpoint, is there. */
static gboolean import_anew(Import *import, GError **error) {
  BlManifest *plan = bl_import_plan(import->build->store, import->source, import->result,
                                    import->options->file_chunk_size, error);
  if (plan == NULL) return FALSE;
  BlBuildWork work = make_work(import, plan);
  gboolean ok = bl_build_run(import->build, plan, &work, error);
  end_work(import, ok);
  import->result->outcome = BL_IMPORT_DONE;
  return ok && set_ref(import, TRUE, error);
}

/* Whether the checkpoint has the source's files by path and size. */
static gboolean check_same_files(const Import *import, const BlManifest *ready, GError **error) {
  const BlSource *source = import->source;
  const char *id = ready->checkpoint_id;
  g_autofree char *difference = NULL;
  for (guint64 i = 0; difference == NULL && i < MIN(source->n_files, ready->n_files); i++) {
    const BlSourceFile *ours = &source->files[i];
    const BlManifestFile *theirs = &ready->files[i];
    int order = strcmp(ours->path, theirs->path);
    g_autofree char *shown = bl_path_display(order <= 0 ? ours->path : theirs->path);
    if (order != 0)
      difference =
          g_strdup_printf("only the %s has \"%s\"", order < 0 ? "source" : "checkpoint", shown);
    else if (ours->size != theirs->size)
      difference =
          g_strdup_printf("\"%s\" has %" G_GUINT64_FORMAT
                          " bytes in the source and %" G_GUINT64_FORMAT " in the checkpoint",
                          shown, ours->size, theirs->size);
  }
  if (difference == NULL && source->n_files == ready->n_files) return TRUE;
  if (difference == NULL)
    difference = g_strdup_printf("the source has %" G_GUINT64_FORMAT
                                 " files, the checkpoint %" G_GUINT64_FORMAT,
                                 source->n_files, ready->n_files);
  return bl_error_set(
      error, BL_ERROR_EXISTS,
      "checkpoint \"%s\" is there with other content than %s: %s (import under another id with "
      "--checkpoint-id, or delete it first)",
      id, source->root, difference);
}

static gboolean are_times_equal(const Import *import, const BlInfo *info) {
  for (guint64 i = 0; i < import->source->n_files; i++)
    if (info->mtime_ns[i] == 0 || info->mtime_ns[i] != import->source->files[i].mtime_ns)
      return FALSE;
  return TRUE;
}

/* What a verification found bad is compared, whatever the times say. */
static gboolean is_degraded(const Import *import) {
  const BlBuild *build = import->build;
  g_autoptr(BlState) state = bl_state_load(build->store, build->id, NULL);
  return state == NULL || bl_state_is_degraded(state);
}

static gboolean mend_info(Import *import, BlInfo **info, GError **error) {
  g_autoptr(GError) fault = NULL;
  BlBuild *build = import->build;
  *info = bl_info_load(build->store, build->manifest, &fault);
  if (*info != NULL) return TRUE;
  if (!g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT)) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  *info = make_info(import, build->manifest);
  if (build->is_read_only) return TRUE;
  g_ptr_array_add(import->result->mended, g_strdup("the info object"));
  return bl_info_save(build->store, build->manifest, *info, error);
}

static gboolean mend_objects(Import *import, GError **error) {
  gboolean digests_put = FALSE;
  BlBuildWork work = make_work(import, import->build->manifest);
  gboolean ok = bl_build_mend(import->build, &work, &digests_put, error);
  end_work(import, ok);
  if (digests_put) g_ptr_array_add(import->result->mended, g_strdup("the block digests"));
  return ok;
}

/* The same checkpoint is there, READY: what it holds is compared with the source, and mended. */
static gboolean import_again(Import *import, GError **error) {
  g_autoptr(BlInfo) info = NULL;
  if (!check_same_files(import, import->build->manifest, error) || !mend_info(import, &info, error))
    return FALSE;
  g_free(import->result->commit);
  import->result->commit = g_strdup(info->commit);
  import->result->outcome = BL_IMPORT_ALREADY_THERE;
  gboolean is_known =
      import->options->quick && are_times_equal(import, info) && !is_degraded(import);
  return (is_known ? bl_build_keep(import->build, error) : mend_objects(import, error)) &&
         set_ref(import, import->options->revision != NULL, error);
}

static gboolean run_claimed(Import *import, BlStore *store, GError **error) {
  g_autoptr(BlBuild) build = bl_build_open(store, import->result->checkpoint_id, "import",
                                           import->options->wait_ms, import->job, error);
  if (build == NULL) return FALSE;
  import->build = build;
  return build->manifest != NULL && build->manifest->is_ready ? import_again(import, error)
                                                              : import_anew(import, error);
}

/* How much more the store takes, by its limit and its disk. */
static guint64 room_left(BlStore *store) {
  BlStoreSettings settings;
  guint64 left = G_MAXUINT64, used, disk;
  if (bl_store_get_settings(store, &settings, NULL) && settings.max_bytes != G_MAXUINT64 &&
      bl_room_used(store, &used, NULL))
    left = settings.max_bytes - MIN(used, settings.max_bytes);
  return bl_store_free_space(store, &disk, NULL) ? MIN(left, disk) : left;
}

static void warn_of_room(const Import *import, BlStore *store) {
  guint64 left = room_left(store);
  if (import->result->n_bytes <= left) return;
  g_autofree char *text = g_format_size_full(left, G_FORMAT_SIZE_IEC_UNITS);
  bl_job_note(import->job, BL_NOTE_WARNING,
              "there is room for %s only: all that other checkpoints do not have must fit", text);
}

static void plan_only(Import *import, BlStore *store) {
  g_autoptr(BlManifest) existing =
      bl_manifest_load(store, import->result->checkpoint_id, BL_MANIFEST_HEADER_ONLY, NULL);
  import->result->outcome = BL_IMPORT_WOULD;
  import->result->commit = g_strdup(import->source->commit);
  if (existing == NULL)
    warn_of_room(import, store);
  else
    bl_job_note(import->job, BL_NOTE_INFO, "checkpoint \"%s\" is there already, %s",
                existing->checkpoint_id,
                existing->is_ready ? "READY: its content would be compared"
                                   : "FAILED: it would be finished");
}

BlImportResult *bl_import(BlStore *store, const BlImportOptions *options, BlJob *job,
                          GError **error) {
  g_autoptr(BlImportResult) result = g_new0(BlImportResult, 1);
  result->mended = g_ptr_array_new_with_free_func(g_free);
  bl_job_set_phase(job, "scanning");
  BlSourceRequest request = {.path = options->source,
                             .model_id = options->model_id,
                             .revision = options->revision,
                             .include = options->include,
                             .exclude = options->exclude};
  g_autoptr(BlSource) source = bl_source_open(&request, error);
  if (source == NULL) return NULL;
  Import import = {.options = options, .job = job, .source = source, .result = result};
  result->left_out = g_ptr_array_ref(source->left_out);
  result->n_files = source->n_files;
  result->n_bytes = source->n_bytes;
  if (!choose_names(&import, error) || !bl_import_check_source(source, options, job, error))
    return NULL;
  if (options->dry_run)
    plan_only(&import, store);
  else if (!run_claimed(&import, store, error))
    return NULL;
  return g_steal_pointer(&result);
}
