/* Import, in this order, so that a kill at any point leaves what `delete` or the next import finds:
 *
 *   scan the source -> claim -> remove what an earlier attempt left and this one does not want ->
 * manifest FAILED, naming every chunk -> chunks -> sync -> digests, info -> claim still ours? ->
 * manifest READY -> ref -> release
 *
 * While a READY checkpoint of the same content is there, its manifest stays and objects that differ
 * are replaced. A signal keeps what is there; an error takes it back, the manifest last. An import
 * whose claim was taken over touches nothing more. */
#include "model/import.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/catalog.h"
#include "model/import_file.h"
#include "model/import_plan.h"
#include "model/key.h"
#include "model/reader.h"
#include "store/claim.h"

typedef struct {
  BlStore *store;
  const BlImportOptions *options;
  BlJob *job;
  BlSource *source;
  BlClaim *claim;
  BlManifest *manifest;
  BlImportFiles files;
  BlImportResult *result;
  gboolean may_be_ready; /* its READY manifest was being written */
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
  result->revision = g_strdup(options->revision != NULL ? options->revision : "main");
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

/* What stands under the id. *manifest is NULL where nothing readable does; *is_unreadable: because
 * it is damaged. */
static gboolean load_existing(Import *import, BlManifest **manifest, gboolean *is_unreadable,
                              GError **error) {
  g_autoptr(GError) fault = NULL;
  *is_unreadable = FALSE;
  *manifest = bl_manifest_load(import->store, import->result->checkpoint_id, 0, &fault);
  if (*manifest != NULL || g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
  *is_unreadable = g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT);
  if (*is_unreadable) {
    bl_job_note(import->job, BL_NOTE_WARNING, "%s: it is imported anew", fault->message);
    return TRUE;
  }
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

static void files_init(Import *import, gboolean may_be_there) {
  import->files = (BlImportFiles){
      .store = import->store,
      .source = import->source,
      .manifest = import->manifest,
      .digests = bl_digests_new(import->manifest),
      .pool = bl_transfer_pool_new(import->store, bl_job_n_threads(import->job)),
      .job = import->job,
      .may_be_there = may_be_there,
      .mended = import->result->mended,
  };
  g_mutex_init(&import->files.lock);
}

static void files_clear(Import *import) {
  if (import->files.pool == NULL) return;
  g_clear_pointer(&import->files.pool, bl_transfer_pool_free);
  g_clear_pointer(&import->files.digests, bl_digests_free);
  g_mutex_clear(&import->files.lock);
}

static gboolean take_one(guint64 i, guint worker, gpointer user, GError **error) {
  Import *import = user;
  return bl_claim_check(import->claim, error) && bl_import_file(i, worker, &import->files, error);
}

static gboolean take_files(Import *import, GError **error) {
  bl_job_set_phase(import->job, "importing");
  bl_job_set_total(import->job, import->source->n_bytes, import->source->n_files);
  if (!bl_job_run(import->job, import->manifest->n_files, take_one, import, error)) return FALSE;
  import->result->n_files_written = import->files.n_files_written;
  import->result->n_bytes_written = import->files.n_bytes_written;
  return TRUE;
}

/* A remote store is asked for what it holds now; the reader checks each block's digest. */
static gboolean read_back_one(guint64 i, guint worker, gpointer user, GError **error) {
  Import *import = user;
  BlHasher *hasher = bl_transfer_pool_hasher(import->files.pool, worker);
  g_autoptr(BlReader) reader =
      bl_reader_new(import->store, import->manifest, import->files.digests);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(reader, i);
  g_autofree guint8 *bytes = g_malloc(BL_BLOCK_SIZE);
  gssize n;
  while ((n = bl_reader_stream_read(stream, bytes, BL_BLOCK_SIZE, error)) > 0) {
    if (!bl_job_check(import->job, error)) return FALSE;
    bl_hasher_update(hasher, bytes, (gsize)n);
  }
  guint8 sha256[BL_SHA256_SIZE];
  bl_hasher_finish(hasher, sha256);
  if (n < 0) return FALSE;
  const BlManifestFile *file = &import->manifest->files[i];
  if (memcmp(sha256, file->sha256, BL_SHA256_SIZE) == 0) return TRUE;
  g_autofree char *shown = bl_path_display(file->path);
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "store %s gave back other bytes of \"%s\" than were put", import->store->url,
                      shown);
}

static gboolean check_stored(Import *import, GError **error) {
  if (bl_store_can(import->store, BL_STORE_IS_REMOTE)) {
    bl_job_set_phase(import->job, "reading back");
    if (!bl_job_run(import->job, import->manifest->n_files, read_back_one, import, error))
      return FALSE;
  }
  bl_job_set_phase(import->job, "syncing");
  return bl_store_sync(import->store, error);
}

static BlInfo *make_info(const Import *import) {
  const BlSource *source = import->source;
  BlInfo *info = bl_info_new(import->manifest);
  g_free(info->commit);
  info->commit =
      source->commit != NULL ? g_strdup(source->commit) : bl_info_content_commit(import->manifest);
  info->commit_from_source = source->commit != NULL;
  g_strfreev(info->refs);
  info->refs = g_strsplit(import->result->revision, "\n", 1);
  g_free(info->source_kind);
  info->source_kind = g_strdup("folder");
  g_free(info->source_uri);
  info->source_uri = g_strdup(source->uri);
  g_free(info->imported_by_host);
  info->imported_by_host = g_strdup(g_get_host_name());
  g_free(info->imported_by_version);
  info->imported_by_version = g_strdup(BALLAST_VERSION);
  for (guint64 i = 0; i < source->n_files; i++) {
    info->executable[i] = source->files[i].executable;
    info->mtime_ns[i] = source->files[i].mtime_ns;
  }
  return info;
}

static gboolean set_ref(Import *import, gboolean always, GError **error) {
  const BlImportResult *result = import->result;
  g_autoptr(GError) fault = NULL;
  g_autofree char *now = bl_ref_get(import->store, result->model_id, result->revision, &fault);
  if (now == NULL && fault != NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (now != NULL && (!always || strcmp(now, result->checkpoint_id) == 0)) return TRUE;
  if (now != NULL)
    bl_job_note(import->job, BL_NOTE_INFO, "%s@%s now means \"%s\" (it meant \"%s\")",
                result->model_id, result->revision, result->checkpoint_id, now);
  return bl_ref_set(import->store, result->model_id, result->revision, result->checkpoint_id,
                    error);
}

static gboolean publish(Import *import, GError **error) {
  BlManifest *manifest = import->manifest;
  g_autoptr(BlInfo) info = make_info(import);
  import->result->commit = g_strdup(info->commit);
  if (!bl_digests_save(import->store, manifest, import->files.digests, error) ||
      !bl_info_save(import->store, manifest, info, error) || !bl_job_check(import->job, error) ||
      !bl_claim_check(import->claim, error))
    return FALSE;
  manifest->is_ready = TRUE;
  g_clear_pointer(&manifest->error, g_free);
  manifest->updated_at = g_get_real_time() / G_USEC_PER_SEC;
  import->may_be_ready = TRUE;
  /* Taken over while it was written: a delete may have gone by, and this is no success to tell. */
  return bl_manifest_save(import->store, manifest, error) && bl_claim_check(import->claim, error);
}

/* A READY manifest whose writing failed may stand there all the same: what it names goes only after
 * a FAILED one is in its place. */
static gboolean retract(Import *import, GError **error) {
  if (!import->may_be_ready) return TRUE;
  import->manifest->is_ready = FALSE;
  import->manifest->error = g_strdup("import failed");
  if (bl_manifest_save(import->store, import->manifest, NULL)) return TRUE;
  g_prefix_error(error, "checkpoint \"%s\" may or may not be there (run the same import again): ",
                 import->result->checkpoint_id);
  return FALSE;
}

/* Ends an import that failed after its manifest was written: *error is the reason, and is completed
 * with what is left. */
static void give_up(Import *import, GError **error) {
  const char *id = import->result->checkpoint_id;
  g_autoptr(GError) lost = NULL;
  if (!bl_claim_check(import->claim, &lost)) {
    g_prefix_error(error, "%s; nothing more of \"%s\" was touched: ", lost->message, id);
    return;
  }
  if (g_error_matches(*error, BL_ERROR, BL_ERROR_CANCELLED)) {
    g_clear_error(error);
    bl_error_set(error, BL_ERROR_CANCELLED,
                 "import of \"%s\" interrupted: what is done is kept (run the same import again to "
                 "go on, or "
                 "\"ballast model delete %s\" to drop it)",
                 id, id);
    return;
  }
  if (!retract(import, error)) return;
  guint64 n_left = bl_import_take_back(import->store, import->manifest);
  if (n_left == 0) return;
  char *text = g_strdup_printf(
      "%s (and %" G_GUINT64_FORMAT
      " objects of \"%s\" could not be removed: \"ballast model delete %s\" removes them)",
      (*error)->message, n_left, id, id);
  g_free((*error)->message);
  (*error)->message = text;
}

/* Nothing, or a FAILED or unreadable checkpoint, is there. */
static gboolean import_anew(Import *import, const BlManifest *old, gboolean is_unreadable,
                            GError **error) {
  const BlImportResult *result = import->result;
  gboolean may_be_there = FALSE;
  import->manifest =
      bl_import_plan(import->store, import->source, result->checkpoint_id, result->model_id,
                     result->revision, import->options->file_chunk_size, error);
  if (import->manifest == NULL ||
      !bl_import_clear_way(import->store, import->manifest, old, is_unreadable, &may_be_there,
                           import->job, error) ||
      !bl_claim_check(import->claim, error) ||
      !bl_manifest_save(import->store, import->manifest, error))
    return FALSE;
  files_init(import, may_be_there);
  g_autoptr(GError) fault = NULL;
  if (take_files(import, &fault) && check_stored(import, &fault) && publish(import, &fault)) {
    import->result->outcome = BL_IMPORT_DONE;
    return set_ref(import, TRUE, error);
  }
  give_up(import, &fault);
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
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

static gboolean are_digests_equal(const BlManifest *manifest, const BlDigests *a,
                                  const BlDigests *b) {
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const guint32 *left = bl_digests_get(a, i), *right = bl_digests_get(b, i);
    gsize n = (gsize)bl_digests_n_blocks(manifest->files[i].size) * sizeof *left;
    if ((left == NULL) != (right == NULL) || (left != NULL && memcmp(left, right, n) != 0))
      return FALSE;
  }
  return TRUE;
}

static gboolean mend_digests(Import *import, GError **error) {
  g_autoptr(BlDigests) stored = bl_digests_load(import->store, import->manifest, NULL);
  if (stored != NULL && are_digests_equal(import->manifest, stored, import->files.digests))
    return TRUE;
  g_ptr_array_add(import->result->mended, g_strdup("the block digests"));
  return bl_digests_save(import->store, import->manifest, import->files.digests, error);
}

static gboolean mend_info(Import *import, BlInfo **info, GError **error) {
  g_autoptr(GError) fault = NULL;
  *info = bl_info_load(import->store, import->manifest, &fault);
  if (*info != NULL) return TRUE;
  if (!g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT)) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  g_ptr_array_add(import->result->mended, g_strdup("the info object"));
  *info = make_info(import);
  return bl_info_save(import->store, import->manifest, *info, error);
}

/* An import that was killed right after it was visible may not have seen its manifest durable. */
static gboolean keep_manifest(Import *import, GError **error) {
  char key[BL_KEY_MAX];
  return bl_store_adopt(import->store, bl_key_manifest(key, import->manifest->checkpoint_id),
                        error) &&
         bl_store_sync(import->store, error);
}

/* The same checkpoint is there, READY: what it holds is compared with the source, and mended. */
static gboolean import_again(Import *import, GError **error) {
  g_autoptr(BlInfo) info = NULL;
  if (!check_same_files(import, import->manifest, error) || !mend_info(import, &info, error))
    return FALSE;
  import->result->commit = g_strdup(info->commit);
  import->result->outcome = BL_IMPORT_ALREADY_THERE;
  if (!import->options->quick || !are_times_equal(import, info)) {
    files_init(import, TRUE);
    if (!take_files(import, error) || !check_stored(import, error) ||
        !bl_claim_check(import->claim, error) || !mend_digests(import, error))
      return FALSE;
  }
  return keep_manifest(import, error) && set_ref(import, import->options->revision != NULL, error);
}

static gboolean import_claimed(Import *import, GError **error) {
  g_autoptr(BlManifest) existing = NULL;
  gboolean is_unreadable;
  if (!load_existing(import, &existing, &is_unreadable, error)) return FALSE;
  if (existing == NULL || !existing->is_ready)
    return import_anew(import, existing, is_unreadable, error);
  import->manifest = g_steal_pointer(&existing);
  return import_again(import, error);
}

static gboolean run_claimed(Import *import, GError **error) {
  char prefix[BL_KEY_MAX];
  bl_key_prefix(prefix, import->result->checkpoint_id);
  import->claim = bl_claim_acquire(import->store, prefix, "import", import->options->wait_ms,
                                   import->job, error);
  if (import->claim == NULL) return FALSE;
  gboolean ok = bl_store_sweep(import->store, prefix, NULL, error) && import_claimed(import, error);
  g_autoptr(GError) fault = NULL;
  if (!bl_claim_release(import->claim, &fault))
    bl_job_note(import->job, BL_NOTE_WARNING, "the claim on \"%s\" could not be removed: %s",
                import->result->checkpoint_id, fault->message);
  return ok;
}

static void plan_only(Import *import) {
  g_autoptr(BlManifest) existing =
      bl_manifest_load(import->store, import->result->checkpoint_id, BL_MANIFEST_HEADER_ONLY, NULL);
  import->result->outcome = BL_IMPORT_WOULD;
  import->result->commit = g_strdup(import->source->commit);
  if (existing != NULL)
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
  g_autoptr(BlSource) source =
      bl_source_open_folder(options->source, options->include, options->exclude, error);
  if (source == NULL) return NULL;
  Import import = {
      .store = store, .options = options, .job = job, .source = source, .result = result};
  result->left_out = g_ptr_array_ref(source->left_out);
  result->n_files = source->n_files;
  result->n_bytes = source->n_bytes;
  if (!choose_names(&import, error) || !bl_import_check_source(source, options, job, error))
    return NULL;
  gboolean ok = TRUE;
  if (options->dry_run)
    plan_only(&import);
  else
    ok = run_claimed(&import, error);
  files_clear(&import);
  bl_manifest_free(import.manifest);
  return ok ? g_steal_pointer(&result) : NULL;
}
