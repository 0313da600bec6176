/* While a READY checkpoint of the same content is there, its manifest stays and objects that differ
 * are replaced. A signal keeps what is there; an error takes it back, the manifest last. Whoever
 * lost the claim touches nothing more. */
#include "model/build.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/build_way.h"
#include "model/key.h"
#include "model/object.h"
#include "model/reader.h"
#include "model/ref.h"
#include "model/room.h"
#include "model/state.h"

/* What stands under the id. */
static gboolean load_existing(BlBuild *build, GError **error) {
  g_autoptr(GError) fault = NULL;
  build->manifest = bl_manifest_load(build->store, build->id, 0, &fault);
  if (build->manifest != NULL || g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
  build->is_unreadable = g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT);
  if (build->is_unreadable) {
    bl_job_note(build->job, BL_NOTE_WARNING, "%s: it is made anew", fault->message);
    return TRUE;
  }
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* Where no claim can be put: a READY checkpoint can still be compared. */
static gboolean open_read_only(BlBuild *build, GError *denied, GError **error) {
  build->is_read_only = TRUE;
  build->manifest = bl_manifest_load(build->store, build->id, 0, NULL);
  if (build->manifest != NULL && build->manifest->is_ready) {
    g_error_free(denied);
    return TRUE;
  }
  g_propagate_error(error, denied);
  return FALSE;
}

BlBuild *bl_build_open(BlStore *store, const char *checkpoint_id, const char *operation,
                       gint wait_ms, BlJob *job, GError **error) {
  BlKeyBuffer prefix;
  GError *fault = NULL;
  bl_key_prefix(prefix, checkpoint_id);
  BlClaim *claim = bl_claim_acquire(store, prefix, operation, wait_ms, job, &fault);
  if (claim == NULL && !g_error_matches(fault, BL_ERROR, BL_ERROR_DENIED)) {
    g_propagate_error(error, fault);
    return NULL;
  }
  g_autoptr(BlBuild) build = g_new0(BlBuild, 1);
  build->store = store;
  build->job = job;
  build->id = g_strdup(checkpoint_id);
  build->operation = operation;
  build->claim = claim;
  g_mutex_init(&build->lock);
  g_mutex_init(&build->room_lock);
  gboolean ok = claim == NULL
                    ? open_read_only(build, fault, error)
                    : bl_store_sweep(store, prefix, NULL, error) && load_existing(build, error);
  return ok ? g_steal_pointer(&build) : NULL;
}

static gboolean check_claim(BlBuild *build, GError **error) {
  return build->is_read_only || bl_claim_check(build->claim, error);
}

/* Whoever took the claim over has a reservation of its own. */
static void release_room(BlBuild *build) {
  g_autoptr(GError) fault = NULL;
  if (build->room == NULL) return;
  gboolean is_ours = check_claim(build, &fault);
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_BUSY)) return;
  if (!is_ours || !bl_room_release(build->store, build->id, &fault))
    bl_job_note(build->job, BL_NOTE_WARNING, "the room reserved for \"%s\" was not given back: %s",
                build->id, fault->message);
}

void bl_build_close(BlBuild *build) {
  g_autoptr(GError) fault = NULL;
  if (build == NULL) return;
  release_room(build);
  if (build->claim != NULL && !bl_claim_release(build->claim, &fault))
    bl_job_note(build->job, BL_NOTE_WARNING, "the claim on \"%s\" could not be removed: %s",
                build->id, fault->message);
  bl_transfer_pool_free(build->pool);
  bl_digests_free(build->digests);
  bl_manifest_free(build->manifest);
  g_mutex_clear(&build->lock);
  g_mutex_clear(&build->room_lock);
  g_free(build->room);
  g_free(build->is_put);
  g_free(build->id);
  g_free(build);
}

/* A chunk's number has eight digits. */
#define MAX_CHUNKS 100000000u
/* The peer's size of a chunk (docs/formats/model-cache.md). */
#define REMOTE_CHUNK_SIZE (G_GUINT64_CONSTANT(64) << 20)

BlManifestFile *bl_build_plan_add(BlStore *store, BlManifest *plan, const char *path, guint64 size,
                                  guint64 chunk_size, GError **error) {
  /* A local store keeps an object in one file whatever its size; others have objects of bounded
   * size. */
  if (chunk_size == 0 && bl_store_can(store, BL_STORE_IS_REMOTE)) chunk_size = REMOTE_CHUNK_SIZE;
  if (chunk_size == 0) chunk_size = size;
  guint64 n = size == 0 ? 0 : (size - 1) / chunk_size + 1;
  if (n > MAX_CHUNKS) {
    g_autofree char *shown = bl_path_display(path);
    bl_error_set(error, BL_ERROR_INVALID,
                 "file \"%s\" would have %" G_GUINT64_FORMAT
                 " chunks, at most %u are possible (use a larger --file-chunk-size)",
                 shown, n, MAX_CHUNKS);
    return NULL;
  }
  BlManifestFile *file = bl_manifest_add(plan, path);
  file->size = size;
  file->chunk_size = chunk_size;
  file->n_chunks = (guint32)n;
  return file;
}

gboolean bl_build_plan_finish(BlManifest *plan, const char *operation, GError **error) {
  if (!bl_manifest_finish(plan, error)) return FALSE;
  plan->error = g_strdup_printf("%s in progress, or interrupted", operation);
  plan->created_at = g_get_real_time() / G_USEC_PER_SEC;
  plan->updated_at = plan->created_at;
  return TRUE;
}

/* Whether room is given out here. */
static gboolean find_limit(BlBuild *build, gboolean *has_limit, GError **error) {
  BlStoreSettings settings;
  *has_limit = FALSE;
  if (!bl_store_get_settings(build->store, &settings, error)) return FALSE;
  *has_limit = settings.max_bytes != G_MAXUINT64;
  if (!*has_limit) return TRUE;
  build->room = g_new0(guint64, build->manifest->n_files + 1);
  build->open_room = bl_build_control_bytes(build->manifest);
  return TRUE;
}

typedef struct {
  const BlBuildWork *work;
  guint64 *needed; /* per file */
} Prediction;

static gboolean predict_one(guint64 i, guint worker, gpointer user, GError **error) {
  Prediction *prediction = user;
  (void)worker;
  (void)error;
  if (prediction->needed[i] > 0 && prediction->work->is_shared(prediction->work->user, i))
    prediction->needed[i] = 0;
  return TRUE;
}

static guint64 sum_room(const BlBuild *build, const guint64 *needed) {
  guint64 sum = bl_build_control_bytes(build->manifest);
  for (guint64 i = 0; i < build->manifest->n_files; i++) sum += needed[i];
  return sum;
}

static gboolean set_no_space(const BlBuild *build, guint64 needed, guint64 free_bytes,
                             GError **error) {
  g_autofree char *needed_text = g_format_size_full(needed, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *free_text = g_format_size_full(free_bytes, G_FORMAT_SIZE_IEC_UNITS);
  return bl_error_set(
      error, BL_ERROR_NO_SPACE,
      "store %s: \"%s\" needs %s and only %s are free (delete a checkpoint, or name another store)",
      build->store->url, build->id, needed_text, free_text);
}

/* Room for what is not there and will not be shared. there: bytes of each file that are; what of
 * them must be written again is asked for when that is known. */
static gboolean find_room(BlBuild *build, const BlBuildWork *work, guint64 *there, GError **error) {
  const BlManifest *plan = build->manifest;
  guint64 free_bytes;
  gboolean has_limit;
  if (!find_limit(build, &has_limit, error) ||
      !bl_build_free_space(build->store, &free_bytes, error))
    return FALSE;
  for (guint64 i = 0; i < plan->n_files; i++)
    there[i] = plan->files[i].size - MIN(there[i], plan->files[i].size);
  guint64 needed = sum_room(build, there);
  if ((has_limit || needed > free_bytes) && work->is_shared != NULL) {
    Prediction prediction = {.work = work, .needed = there};
    if (!bl_job_run(build->job, plan->n_files, predict_one, &prediction, error)) return FALSE;
    needed = sum_room(build, there);
  }
  if (needed > free_bytes) return set_no_space(build, needed, free_bytes, error);
  if (!has_limit) return TRUE;
  memcpy(build->room, there, plan->n_files * sizeof *there);
  build->open_room = needed;
  return bl_room_reserve(build->store, build->id, needed, build->job, error);
}

gboolean bl_build_reserve_file(BlBuild *build, guint64 file, guint64 n_bytes, GError **error) {
  gboolean ok = TRUE;
  if (build->room == NULL) return TRUE;
  g_mutex_lock(&build->room_lock);
  if (build->room[file] < n_bytes) {
    guint64 open_room = build->open_room + n_bytes - build->room[file];
    ok = bl_room_reserve(build->store, build->id, open_room, build->job, error);
    if (ok) {
      build->open_room = open_room;
      build->room[file] = n_bytes;
    }
  }
  g_mutex_unlock(&build->room_lock);
  return ok;
}

void bl_build_report_file(BlBuild *build, guint64 file, const guint8 sha256[BL_SHA256_SIZE],
                          const guint32 *crcs, gsize n_crcs, gboolean is_put) {
  g_mutex_lock(&build->lock);
  BlManifestFile *record = &build->manifest->files[file];
  memcpy(record->sha256, sha256, BL_SHA256_SIZE);
  record->has_sha256 = TRUE;
  if (n_crcs > 0) bl_digests_set(build->digests, file, crcs, n_crcs);
  if (build->is_put != NULL) build->is_put[file] = is_put;
  g_mutex_unlock(&build->lock);
  if (build->room != NULL) {
    g_mutex_lock(&build->room_lock);
    build->open_room -= build->room[file];
    build->room[file] = 0;
    g_mutex_unlock(&build->room_lock);
  }
  bl_job_add_files(build->job, 1);
}

typedef struct {
  BlBuild *build;
  const BlBuildWork *work;
} Files;

static gboolean take_one(guint64 i, guint worker, gpointer user, GError **error) {
  Files *files = user;
  return check_claim(files->build, error) &&
         files->work->take_file(i, worker, files->work->user, error);
}

static gboolean take_files(BlBuild *build, const BlBuildWork *work, GError **error) {
  Files files = {.build = build, .work = work};
  build->digests = bl_digests_new(build->manifest);
  build->pool = bl_transfer_pool_new(build->store, bl_job_n_threads(build->job));
  bl_job_set_phase(build->job, work->phase);
  bl_job_set_total(build->job, build->manifest->total_size, build->manifest->n_files);
  return bl_job_run(build->job, build->manifest->n_files, take_one, &files, error);
}

/* A remote store is asked for what it holds now; the reader checks each block's digest. */
static gboolean read_back_one(guint64 i, guint worker, gpointer user, GError **error) {
  BlBuild *build = user;
  BlHasher *hasher = bl_transfer_pool_hasher(build->pool, worker);
  g_autoptr(BlReader) reader = bl_reader_new(build->store, build->manifest, build->digests);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(reader, i);
  g_autofree guint8 *bytes = g_malloc(BL_BLOCK_SIZE);
  gssize n;
  while ((n = bl_reader_stream_read(stream, bytes, BL_BLOCK_SIZE, error)) > 0) {
    if (!bl_job_check(build->job, error)) return FALSE;
    bl_hasher_update(hasher, bytes, (gsize)n);
  }
  guint8 sha256[BL_SHA256_SIZE];
  bl_hasher_finish(hasher, sha256);
  if (n < 0) return FALSE;
  const BlManifestFile *file = &build->manifest->files[i];
  if (memcmp(sha256, file->sha256, BL_SHA256_SIZE) == 0) return TRUE;
  g_autofree char *shown = bl_path_display(file->path);
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "store %s gave back other bytes of \"%s\" than were put", build->store->url,
                      shown);
}

static gboolean check_stored(BlBuild *build, GError **error) {
  if (bl_store_can(build->store, BL_STORE_IS_REMOTE)) {
    bl_job_set_phase(build->job, "reading back");
    if (!bl_job_run(build->job, build->manifest->n_files, read_back_one, build, error))
      return FALSE;
  }
  bl_job_set_phase(build->job, "syncing");
  return bl_store_sync(build->store, error);
}

/* What was put and could not be made durable may be in memory alone from now on, and would be found
 * right there: it goes. It was bad or absent before. */
static gboolean sync_mended(BlBuild *build, GError **error) {
  if (check_stored(build, error)) return TRUE;
  for (guint64 i = 0; check_claim(build, NULL) && i < build->manifest->n_files; i++)
    if (build->is_put[i])
      (void)bl_build_remove_file(build->store, build->manifest, &build->manifest->files[i]);
  return FALSE;
}

/* All of it was checked just now, whatever an earlier check found. What a later version wrote is
 * left to it. */
static gboolean forget_findings(BlBuild *build, GError **error) {
  GError *fault = NULL;
  return bl_state_update_claimed(build->store, build->id, bl_state_clear_findings, NULL, build->job,
                                 &fault) ||
         bl_object_do_without(fault, build->job, error);
}

static gboolean publish(BlBuild *build, const BlBuildWork *work, GError **error) {
  BlManifest *manifest = build->manifest;
  g_autoptr(BlInfo) info = work->make_info(work->user, manifest);
  if (!bl_digests_save(build->store, manifest, build->digests, error) ||
      !bl_info_save(build->store, manifest, info, error) || !forget_findings(build, error) ||
      !bl_job_check(build->job, error) || !check_claim(build, error))
    return FALSE;
  manifest->is_ready = TRUE;
  g_clear_pointer(&manifest->error, g_free);
  manifest->updated_at = g_get_real_time() / G_USEC_PER_SEC;
  build->may_be_ready = TRUE;
  /* Taken over while it was written: a delete may have gone by, and this is no success to tell. */
  return bl_manifest_save(build->store, manifest, error) && check_claim(build, error);
}

/* A READY manifest whose writing failed may stand there all the same: what it names goes only after
 * a FAILED one is in its place. */
static gboolean retract(BlBuild *build, GError **error) {
  if (!build->may_be_ready) return TRUE;
  build->manifest->is_ready = FALSE;
  build->manifest->error = g_strdup_printf("%s failed", build->operation);
  if (bl_manifest_save(build->store, build->manifest, NULL)) return TRUE;
  g_prefix_error(error,
                 "checkpoint \"%s\" may or may not be there (run the same %s again): ", build->id,
                 build->operation);
  return FALSE;
}

/* Ends a build that failed after its manifest was written: *error is the reason, and is completed
 * with what is left. */
static void give_up(BlBuild *build, GError **error) {
  g_autoptr(GError) lost = NULL;
  if (!check_claim(build, &lost)) {
    g_prefix_error(error, "%s; nothing more of \"%s\" was touched: ", lost->message, build->id);
    return;
  }
  if (g_error_matches(*error, BL_ERROR, BL_ERROR_CANCELLED)) {
    g_clear_error(error);
    bl_error_set(error, BL_ERROR_CANCELLED,
                 "%s of \"%s\" interrupted: what is done is kept (run the same %s again to go on, "
                 "or \"ballast model delete %s\" to drop it)",
                 build->operation, build->id, build->operation, build->id);
    return;
  }
  if (!retract(build, error)) return;
  guint64 n_left = bl_build_take_back(build->store, build->manifest);
  if (n_left == 0) return;
  char *text = g_strdup_printf(
      "%s (and %" G_GUINT64_FORMAT
      " objects of \"%s\" could not be removed: \"ballast model delete %s\" removes them)",
      (*error)->message, n_left, build->id, build->id);
  g_free((*error)->message);
  (*error)->message = text;
}

gboolean bl_build_run(BlBuild *build, BlManifest *plan, const BlBuildWork *work, GError **error) {
  g_autoptr(BlManifest) old = build->manifest;
  build->manifest = plan;
  g_autofree guint64 *there = g_new0(guint64, plan->n_files + 1);
  if (!bl_build_clear_way(build->store, plan, old, build->is_unreadable, there,
                          &build->may_be_there, build->job, error) ||
      !find_room(build, work, there, error) || !check_claim(build, error) ||
      !bl_manifest_save(build->store, plan, error))
    return FALSE;
  g_autoptr(GError) fault = NULL;
  if (take_files(build, work, &fault) && check_stored(build, &fault) &&
      publish(build, work, &fault))
    return TRUE;
  give_up(build, &fault);
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
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

static gboolean mend_digests(BlBuild *build, gboolean *is_put, GError **error) {
  g_autoptr(BlDigests) stored = bl_digests_load(build->store, build->manifest, NULL);
  *is_put = stored == NULL || !are_digests_equal(build->manifest, stored, build->digests);
  return !*is_put || bl_digests_save(build->store, build->manifest, build->digests, error);
}

gboolean bl_build_mend(BlBuild *build, const BlBuildWork *work, gboolean *digests_put,
                       GError **error) {
  gboolean has_limit;
  build->may_be_there = TRUE;
  if (build->is_read_only) return take_files(build, work, error);
  build->is_put = g_new0(guint8, build->manifest->n_files + 1);
  return find_limit(build, &has_limit, error) && take_files(build, work, error) &&
         sync_mended(build, error) && check_claim(build, error) &&
         mend_digests(build, digests_put, error) && forget_findings(build, error) &&
         bl_build_keep(build, error);
}

gboolean bl_build_keep(BlBuild *build, GError **error) {
  BlKeyBuffer key;
  if (build->is_read_only) return TRUE;
  return bl_store_adopt(build->store, bl_key_manifest(key, build->id), error) &&
         bl_store_sync(build->store, error);
}

gboolean bl_build_set_ref(BlBuild *build, const char *model_id, const char *ref, gboolean always,
                          GError **error) {
  g_autoptr(GError) fault = NULL;
  g_autofree char *now = bl_ref_get(build->store, model_id, ref, &fault);
  if (now == NULL && fault != NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (now != NULL && (!always || strcmp(now, build->id) == 0)) return TRUE;
  if (build->is_read_only && !always) return TRUE;
  if (now != NULL)
    bl_job_note(build->job, BL_NOTE_INFO, "%s@%s now means \"%s\" (it meant \"%s\")", model_id, ref,
                build->id, now);
  return bl_ref_set(build->store, model_id, ref, build->id, error);
}
