#include "model/copy.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/copy_file.h"
#include "model/info.h"
#include "model/key.h"
#include "model/ref.h"
#include "model/state.h"
#include "model/usage.h"

typedef struct {
  BlStore *source, *target;
  const BlCopyOptions *options;
  BlJob *job;
  BlManifest *from;
  BlInfo *info; /* of from; given away when it is published */
  char **refs;  /* that point to from */
  BlBuild *build;
  BlCopyFiles files;
  gboolean has_limit; /* the target's max_bytes */
  BlCopyResult *result;
} Copying;

void bl_copy_result_free(BlCopyResult *result) {
  if (result == NULL) return;
  g_free(result->checkpoint_id);
  g_ptr_array_unref(result->mended);
  g_free(result);
}

/* The same files, with chunks as the target stores them. */
static BlManifest *make_plan(const Copying *copying, GError **error) {
  const BlManifest *from = copying->from;
  g_autoptr(BlManifest) plan = bl_manifest_new(copying->result->checkpoint_id, from->model_id,
                                               from->revision, from->source_uri);
  for (guint64 i = 0; i < from->n_files; i++) {
    const BlManifestFile *there = &from->files[i];
    BlManifestFile *file = bl_build_plan_add(copying->target, plan, there->path, there->size,
                                             copying->options->file_chunk_size, error);
    if (file == NULL) return NULL;
    memcpy(file->sha256, there->sha256, BL_SHA256_SIZE);
    file->has_sha256 = TRUE;
  }
  return bl_build_plan_finish(plan, "copy", error) ? g_steal_pointer(&plan) : NULL;
}

static gboolean take_file(guint64 i, guint worker, gpointer user, GError **error) {
  Copying *copying = user;
  return bl_copy_file(&copying->files, i, worker, error);
}

static BlInfo *give_info(gpointer user, const BlManifest *manifest) {
  Copying *copying = user;
  (void)manifest;
  return g_steal_pointer(&copying->info);
}

/* Where the file system will share the source's bytes, no disk is needed; a limit counts them. */
static gboolean is_shared(gpointer user, guint64 i) {
  Copying *copying = user;
  const BlManifestFile *file = &copying->from->files[i];
  BlDonor donor;
  BlKeyBuffer key;
  if (copying->files.may_clone && !copying->has_limit && file->n_chunks == 1) return TRUE;
  if (copying->files.donors == NULL ||
      !bl_donors_find_known(copying->files.donors, file->size, file->sha256,
                            bl_key_chunk(key, copying->result->checkpoint_id, file->path, 0),
                            &donor))
    return FALSE;
  bl_donor_close(&donor);
  return TRUE;
}

static gboolean is_one_file_system(const Copying *copying) {
  BlKeyBuffer key;
  BlObjectStat there, here;
  return bl_store_can(copying->source, BL_STORE_CAN_OPEN_FD) &&
         bl_store_can(copying->target, BL_STORE_CAN_CLONE) &&
         bl_store_stat(copying->source, bl_key_manifest(key, copying->from->checkpoint_id), &there,
                       NULL) &&
         bl_store_stat(copying->target, bl_key_claim(key, copying->result->checkpoint_id), &here,
                       NULL) &&
         there.inode != 0 && there.device == here.device;
}

/* Donors only help: that they cannot be found out is no reason to fail. */
static void prepare_files(Copying *copying, const BlManifest *plan) {
  BlCopyFiles *files = &copying->files;
  files->build = copying->build;
  files->may_clone = copying->options->file_chunk_size == 0 && is_one_file_system(copying);
  if (bl_store_can(copying->target, BL_STORE_CAN_SHARE) && !plan->is_ready)
    files->donors =
        bl_donors_load(copying->target, plan, copying->options->state_folder, copying->job, NULL);
  files->stored = bl_reader_new(copying->target, plan, NULL);
}

static BlBuildWork make_work(Copying *copying) {
  return (BlBuildWork){.take_file = take_file,
                       .make_info = give_info,
                       .is_shared = is_shared,
                       .user = copying,
                       .phase = "copying"};
}

/* Nothing, or a FAILED or unreadable checkpoint, is there. */
static gboolean copy_anew(Copying *copying, GError **error) {
  BlStoreSettings settings;
  BlManifest *plan = make_plan(copying, error);
  if (plan == NULL) return FALSE;
  prepare_files(copying, plan);
  BlBuildWork work = make_work(copying);
  if (!bl_store_get_settings(copying->target, &settings, error)) {
    bl_manifest_free(plan);
    return FALSE;
  }
  copying->has_limit = settings.max_bytes != G_MAXUINT64;
  return bl_build_run(copying->build, plan, &work, error);
}

static gboolean check_same(const Copying *copying, GError **error) {
  const BlManifest *from = copying->from, *there = copying->build->manifest;
  const char *path = NULL;
  guint64 n = MIN(from->n_files, there->n_files);
  for (guint64 i = 0; i < n && path == NULL; i++) {
    const BlManifestFile *a = &from->files[i], *b = &there->files[i];
    if (strcmp(a->path, b->path) != 0 || a->size != b->size ||
        memcmp(a->sha256, b->sha256, BL_SHA256_SIZE) != 0)
      path = strcmp(a->path, b->path) <= 0 ? a->path : b->path;
  }
  if (path == NULL && from->n_files != there->n_files)
    path = (from->n_files > n ? from : there)->files[n].path;
  if (path == NULL) return TRUE;
  g_autofree char *shown = bl_path_display(path);
  return bl_error_set(error, BL_ERROR_EXISTS,
                      "checkpoint \"%s\" is in store %s with other content: \"%s\" is not the same "
                      "(copy to another id with --checkpoint-id, or delete it there first)",
                      there->checkpoint_id, copying->target->url, shown);
}

static gboolean mend_info(Copying *copying, GError **error) {
  g_autoptr(GError) fault = NULL;
  BlBuild *build = copying->build;
  g_autoptr(BlInfo) info = bl_info_load(build->store, build->manifest, &fault);
  if (info != NULL) return TRUE;
  if (!g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT)) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (build->is_read_only) return TRUE;
  g_ptr_array_add(copying->result->mended, g_strdup("the info object"));
  return bl_info_save(build->store, build->manifest, copying->info, error);
}

/* The same checkpoint is there, READY: what it holds is compared, and mended. */
static gboolean copy_again(Copying *copying, GError **error) {
  gboolean digests_put = FALSE;
  if (!check_same(copying, error) || !mend_info(copying, error)) return FALSE;
  prepare_files(copying, copying->build->manifest);
  BlBuildWork work = make_work(copying);
  copying->result->was_there = TRUE;
  if (!bl_build_mend(copying->build, &work, &digests_put, error)) return FALSE;
  if (digests_put) g_ptr_array_add(copying->result->mended, g_strdup("the block digests"));
  return TRUE;
}

/* A ref that means something else in the target is moved only by a copy that is new there. */
static gboolean set_refs(Copying *copying, GError **error) {
  for (char **ref = copying->refs; *ref != NULL; ref++)
    if (!bl_build_set_ref(copying->build, copying->from->model_id, *ref,
                          !copying->result->was_there, error))
      return FALSE;
  copying->result->n_refs = g_strv_length(copying->refs);
  return TRUE;
}

static gboolean run_claimed(Copying *copying, GError **error) {
  g_autoptr(BlBuild) build = bl_build_open(copying->target, copying->result->checkpoint_id, "copy",
                                           copying->options->wait_ms, copying->job, error);
  if (build == NULL) return FALSE;
  copying->build = build;
  gboolean is_there = build->manifest != NULL && build->manifest->is_ready;
  return (is_there ? copy_again(copying, error) : copy_anew(copying, error)) &&
         set_refs(copying, error);
}

/* Loads what the source has, and readers of it. */
static gboolean open_source(Copying *copying, const char *checkpoint_id, BlStoreHold **hold,
                            GError **error) {
  BlCopyFiles *files = &copying->files;
  copying->from = bl_usage_open(copying->source, checkpoint_id, hold, error);
  if (copying->from == NULL ||
      !bl_state_check_whole(copying->source, checkpoint_id, copying->job, error))
    return FALSE;
  BlDigests *digests = bl_digests_load_usable(copying->source, copying->from, copying->job, error);
  if (digests == NULL) return FALSE;
  files->digests = digests;
  files->source = copying->source;
  files->from = copying->from;
  files->mended = copying->result->mended;
  files->reader = bl_reader_new(copying->source, copying->from, digests);
  files->supplies = g_ptr_array_new_with_free_func((GDestroyNotify)bl_supply_free);
  g_ptr_array_add(files->supplies, bl_supply_open_checkpoint(copying->source, copying->from));
  copying->info = bl_info_load_usable(copying->source, copying->from, copying->job, error);
  copying->refs = copying->info != NULL
                      ? bl_ref_names(copying->source, copying->from->model_id, checkpoint_id, error)
                      : NULL;
  return copying->refs != NULL;
}

static void copying_clear(Copying *copying) {
  BlCopyFiles *files = &copying->files;
  bl_donors_free(files->donors);
  bl_reader_free(files->stored);
  bl_reader_free(files->reader);
  g_clear_pointer(&files->supplies, g_ptr_array_unref);
  if (files->digests != NULL) bl_digests_free(files->digests);
  g_mutex_clear(&files->lock);
  g_strfreev(copying->refs);
  if (copying->info != NULL) bl_info_free(copying->info);
  bl_manifest_free(copying->from);
}

static void fill_result(const Copying *copying) {
  BlCopyResult *result = copying->result;
  const BlCopyFiles *files = &copying->files;
  result->n_files = copying->from->n_files;
  result->n_bytes = copying->from->total_size;
  result->n_files_written = files->n_files_written;
  result->n_bytes_written = files->n_bytes_written;
  result->n_files_shared = files->n_files_shared;
  result->n_bytes_shared = files->n_bytes_shared;
}

BlCopyResult *bl_copy(BlStore *from, const char *checkpoint_id, BlStore *to,
                      const BlCopyOptions *options, BlJob *job, GError **error) {
  g_autoptr(BlStoreHold) hold = NULL;
  g_autoptr(BlCopyResult) result = g_new0(BlCopyResult, 1);
  result->mended = g_ptr_array_new_with_free_func(g_free);
  result->checkpoint_id =
      g_strdup(options->checkpoint_id != NULL ? options->checkpoint_id : checkpoint_id);
  if (!bl_checkpoint_id_check(result->checkpoint_id, error)) return NULL;
  Copying copying = {
      .source = from, .target = to, .options = options, .job = job, .result = result};
  g_mutex_init(&copying.files.lock);
  gboolean ok = open_source(&copying, checkpoint_id, &hold, error) && run_claimed(&copying, error);
  if (ok) fill_result(&copying);
  copying_clear(&copying);
  return ok ? g_steal_pointer(&result) : NULL;
}
