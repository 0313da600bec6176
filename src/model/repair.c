/* Repair: check everything -> claim -> is it still the manifest that was checked? -> each bad file
 * from the first place that has it -> sync -> digests, info -> state. A kill at any moment leaves
 * objects that were replaced whole, and others as bad as they were.
 *
 * A check names at most so many findings: where there were more, all of it is done again, as long
 * as that mends something. */
#include "model/repair.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/build_way.h"
#include "model/info.h"
#include "model/key.h"
#include "model/ref.h"
#include "model/repair_file.h"
#include "model/room.h"
#include "model/source.h"
#include "model/state.h"
#include "model/verify.h"
#include "store/claim.h"

/* MENDED: by what was put, so far not durably. */
typedef enum { BAD_NONE, BAD_MENDED, BAD_MISSING, BAD_DAMAGED } Badness;

typedef struct {
  BlStore *store;
  const BlRepairOptions *options;
  BlJob *job;
  BlManifest *manifest;
  BlClaim *claim;
  BlRepairFiles files;
  GPtrArray *supplies;  /* of BlSupply */
  guint8 *badness;      /* per file */
  guint8 *has_bad_crcs; /* per file: its bytes are right, the stored digests are not */
  guint32 *bad;         /* the n_bad files to mend */
  guint64 n_bad;
  gboolean digests_bad, digests_lost, info_bad; /* lost: none of the object can be used */
  GMutex lock;                                  /* protects result and digests */
  BlRepairResult *result;
  BlDigests *digests; /* while they are made anew */
} Repair;

static void item_free(gpointer data) {
  BlRepairItem *item = data;
  g_free(item->path);
  g_free(item->text);
  g_free(item);
}

void bl_repair_result_free(BlRepairResult *result) {
  if (result == NULL) return;
  g_ptr_array_unref(result->mended);
  g_ptr_array_unref(result->left);
  g_free(result);
}

/* Takes text. */
static void add_item(GPtrArray *items, const char *path, char *text) {
  if (items->len == BL_REPAIR_MAX_ITEMS) {
    g_free(text);
    return;
  }
  BlRepairItem *item = g_new(BlRepairItem, 1);
  *item = (BlRepairItem){g_strdup(path), text};
  g_ptr_array_add(items, item);
}

static int compare_items(gconstpointer a, gconstpointer b) {
  const BlRepairItem *left = *(BlRepairItem *const *)a, *right = *(BlRepairItem *const *)b;
  return g_strcmp0(left->path, right->path);
}

static void take_finding(Repair *repair, const BlFinding *finding) {
  const BlManifestFile *file =
      finding->path != NULL ? bl_manifest_find(repair->manifest, finding->path) : NULL;
  guint64 i = file != NULL ? (guint64)(file - repair->manifest->files) : 0;
  switch (finding->kind) {
    case BL_FINDING_WARNING:
    case BL_FINDING_FORMAT:
      break;
    case BL_FINDING_INFO:
      repair->info_bad = TRUE;
      break;
    case BL_FINDING_DIGESTS:
      repair->digests_bad = TRUE;
      if (file != NULL)
        repair->has_bad_crcs[i] = TRUE;
      else
        repair->digests_lost = TRUE;
      break;
    default:
      if (file == NULL) break;
      if (repair->badness[i] == BAD_NONE) repair->bad[repair->n_bad++] = (guint32)i;
      if (repair->badness[i] != BAD_DAMAGED)
        repair->badness[i] = finding->kind == BL_FINDING_MISSING ? BAD_MISSING : BAD_DAMAGED;
  }
}

static void forget_checkpoint(Repair *repair) {
  g_clear_pointer(&repair->manifest, bl_manifest_free);
  g_clear_pointer(&repair->badness, g_free);
  g_clear_pointer(&repair->has_bad_crcs, g_free);
  g_clear_pointer(&repair->bad, g_free);
  repair->n_bad = 0;
  repair->digests_bad = repair->digests_lost = repair->info_bad = FALSE;
}

/* Finds all that is bad. */
static BlVerifyResult *find_bad(Repair *repair, const char *checkpoint_id, GError **error) {
  forget_checkpoint(repair);
  repair->manifest = bl_manifest_load_ready(repair->store, checkpoint_id, error);
  if (repair->manifest == NULL) return NULL;
  gsize n = (gsize)MAX(repair->manifest->n_files, 1);
  repair->badness = g_new0(guint8, n);
  repair->has_bad_crcs = g_new0(guint8, n);
  repair->bad = g_new0(guint32, n);
  BlVerifyOptions options = {FALSE};
  g_autoptr(BlVerifyResult) checked =
      bl_verify(repair->store, checkpoint_id, &options, repair->job, error);
  if (checked == NULL) return NULL;
  for (guint i = 0; i < checked->findings->len; i++)
    take_finding(repair, checked->findings->pdata[i]);
  repair->result->n_files = checked->n_files;
  repair->result->n_bytes = checked->n_bytes;
  return g_steal_pointer(&checked);
}

/* Opens what may have the bytes. One that cannot be opened is told of and done without. */
static gboolean open_supplies(Repair *repair, GError **error) {
  const BlManifest *manifest = repair->manifest;
  const char *id = manifest->checkpoint_id;
  gsize n = (gsize)repair->n_bad;
  g_autofree guint64 *sizes = g_new(guint64, n + 1);
  for (gsize i = 0; i < n; i++) sizes[i] = manifest->files[repair->bad[i]].size;
  g_clear_pointer(&repair->supplies, g_ptr_array_unref);
  repair->supplies = g_ptr_array_new_with_free_func((GDestroyNotify)bl_supply_free);
  BlSupply *own = bl_supply_open_own(repair->store, id, sizes, n, repair->job, error);
  if (own == NULL) return FALSE;
  g_ptr_array_add(repair->supplies, own);
  for (char **from = repair->options->from; from != NULL && *from != NULL; from++) {
    BlSupply *supply = bl_supply_open(*from, id, sizes, n, repair->job, error);
    if (supply == NULL) {
      g_autofree char *shown = bl_path_display(*from);
      g_prefix_error(error, "--from \"%s\": ", shown);
      return FALSE;
    }
    g_ptr_array_add(repair->supplies, supply);
  }
  /* Another store's manifest may name a place that means something else here. */
  if (manifest->source_uri[0] != '/' && !g_str_has_prefix(manifest->source_uri, "file:///"))
    return TRUE;
  g_autoptr(GError) fault = NULL;
  BlSupply *origin = bl_supply_open(manifest->source_uri, id, sizes, n, repair->job, &fault);
  if (origin != NULL)
    g_ptr_array_add(repair->supplies, origin);
  else if (!bl_job_check(repair->job, error))
    return FALSE;
  if (origin == NULL) {
    g_autofree char *shown = bl_path_display(manifest->source_uri);
    bl_job_note(repair->job, BL_NOTE_INFO, "where it was imported from, %s, is no help: %s", shown,
                fault->message);
  }
  return TRUE;
}

static gboolean mend_one(guint64 i, guint worker, gpointer user, GError **error) {
  Repair *repair = user;
  guint32 file = repair->bad[i];
  const char *path = repair->manifest->files[file].path;
  BlRepairedFile found;
  if ((repair->claim != NULL && !bl_claim_check(repair->claim, error)) ||
      !bl_repair_file(&repair->files, file, worker, &found, error))
    return FALSE;
  g_mutex_lock(&repair->lock);
  BlRepairResult *result = repair->result;
  if (found.is_mended) {
    repair->badness[file] = found.n_bytes > 0 ? BAD_MENDED : BAD_NONE;
    result->n_files_mended++;
    *(found.is_share ? &result->n_bytes_shared : &result->n_bytes_written) += found.n_bytes;
    add_item(result->mended, path,
             found.text != NULL ? found.text : g_strdup("it is right by now"));
  } else {
    add_item(result->left, path, found.text);
  }
  g_mutex_unlock(&repair->lock);
  bl_job_add_files(repair->job, 1);
  return TRUE;
}

/* How much larger the store may get: what is replaced and has no other name goes when it is. */
static guint64 estimate_growth(const Repair *repair) {
  guint64 growth = 0;
  for (guint64 i = 0; i < repair->n_bad; i++) {
    const BlManifestFile *file = &repair->manifest->files[repair->bad[i]];
    g_autoptr(BlSupplyFile) own = bl_supply_find(repair->supplies->pdata[0], file, 0, NULL);
    if (own != NULL || (file->n_chunks > 1 && file->chunk_size == 0)) continue;
    for (guint32 c = 0; c < file->n_chunks; c++) {
      BlKeyBuffer key;
      BlObjectStat object;
      guint64 size = bl_manifest_chunk_size(file, c);
      bl_manifest_chunk_key(repair->manifest, file, c, key);
      gboolean is_there = bl_store_stat(repair->store, key, &object, NULL);
      growth += is_there && object.n_links == 1 ? size - MIN(size, object.size) : size;
    }
  }
  return growth;
}

static gboolean mend_files(Repair *repair, GError **error) {
  /* A file is looked at, put, and read back. */
  guint n_passes = repair->options->dry_run ? 1 : 3;
  guint64 n_bytes = 0;
  for (guint64 i = 0; i < repair->n_bad; i++)
    n_bytes += repair->manifest->files[repair->bad[i]].size;
  bl_job_begin_phase(repair->job, "mending", n_passes * n_bytes, repair->n_bad);
  g_autoptr(BlReader) reader = bl_reader_new(repair->store, repair->manifest, NULL);
  repair->files = (BlRepairFiles){.store = repair->store,
                                  .manifest = repair->manifest,
                                  .reader = reader,
                                  .supplies = repair->supplies,
                                  .pool = repair->files.pool,
                                  .job = repair->job,
                                  .n_passes = n_passes,
                                  .dry_run = repair->options->dry_run};
  guint64 growth = repair->options->dry_run ? 0 : estimate_growth(repair);
  if (growth > 0 &&
      !bl_room_reserve(repair->store, repair->manifest->checkpoint_id, growth, repair->job, error))
    return FALSE;
  return bl_job_run(repair->job, repair->n_bad, mend_one, repair, error);
}

static gssize read_stream(gpointer user, void *data, gsize size, GError **error) {
  return bl_reader_stream_read(user, data, size, error);
}

static gboolean lacks_digests(const Repair *repair, guint64 i) {
  return bl_digests_get(repair->digests, i) == NULL || repair->has_bad_crcs[i];
}

/* The block digests of one file, from bytes that are the file. Others keep none. */
static gboolean digest_one(guint64 i, guint worker, gpointer user, GError **error) {
  Repair *repair = user;
  const BlManifestFile *file = &repair->manifest->files[i];
  if (!lacks_digests(repair, i)) return TRUE;
  BlHasher *hasher = bl_transfer_pool_hasher(repair->files.pool, worker);
  g_autoptr(BlReader) reader = bl_reader_new(repair->store, repair->manifest, NULL);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(reader, i);
  BlTransferPlan plan = {
      .read = read_stream, .read_user = stream, .size = file->size, .hasher = hasher};
  g_autoptr(GError) fault = NULL;
  guint8 sha256[BL_SHA256_SIZE];
  gsize n;
  if (!bl_transfer_run(bl_transfer_pool_get(repair->files.pool, worker), &plan, repair->job, NULL,
                       &fault))
    return bl_job_check(repair->job, error);
  bl_hasher_finish(hasher, sha256);
  const guint32 *crcs = bl_hasher_crcs(hasher, &n);
  if (memcmp(sha256, file->sha256, BL_SHA256_SIZE) != 0) return TRUE;
  g_mutex_lock(&repair->lock);
  bl_digests_set(repair->digests, i, crcs, n);
  g_mutex_unlock(&repair->lock);
  return TRUE;
}

static gboolean mend_digests(Repair *repair, GError **error) {
  if (!repair->digests_bad) return TRUE;
  repair->result->digests_written = TRUE;
  add_item(repair->result->mended, NULL, g_strdup("the block digests, from the files"));
  if (repair->options->dry_run) return TRUE;
  g_autoptr(BlDigests) digests =
      repair->digests_lost ? NULL : bl_digests_load(repair->store, repair->manifest, NULL);
  if (digests == NULL) digests = bl_digests_new(repair->manifest);
  repair->digests = digests;
  guint64 n_bytes = 0;
  for (guint64 i = 0; i < repair->manifest->n_files; i++)
    if (lacks_digests(repair, i)) n_bytes += repair->manifest->files[i].size;
  bl_job_begin_phase(repair->job, "digesting", n_bytes, 0);
  return bl_job_run(repair->job, repair->manifest->n_files, digest_one, repair, error) &&
         bl_claim_check(repair->claim, error) &&
         bl_digests_save(repair->store, repair->manifest, digests, error);
}

/* What the folder it came from still tells of its files. */
static void take_folder_facts(const Repair *repair, BlInfo *info) {
  const char *uri = repair->manifest->source_uri;
  if (!g_str_has_prefix(uri, "file:///")) return;
  BlSourceRequest request = {.path = uri + strlen("file://")};
  g_autoptr(BlSource) source = bl_source_open(&request, NULL);
  for (guint64 i = 0; source != NULL && i < source->n_files; i++) {
    const BlManifestFile *file = bl_manifest_find(repair->manifest, source->files[i].path);
    if (file != NULL && file->size == source->files[i].size)
      info->executable[file - repair->manifest->files] = source->files[i].executable;
  }
}

static gboolean mend_info(Repair *repair, GError **error) {
  const BlManifest *manifest = repair->manifest;
  if (!repair->info_bad) return TRUE;
  repair->result->info_written = TRUE;
  add_item(repair->result->mended, NULL,
           g_strdup("the info object, from the manifest, the refs and the folder it came from"));
  if (repair->options->dry_run) return TRUE;
  g_autoptr(BlInfo) info = bl_info_new(manifest);
  info->commit = bl_info_content_commit(manifest);
  g_auto(GStrv) refs =
      bl_ref_names(repair->store, manifest->model_id, manifest->checkpoint_id, error);
  if (refs == NULL) return FALSE;
  if (refs[0] != NULL) {
    g_strfreev(info->refs);
    info->refs = g_steal_pointer(&refs);
  }
  info->source_kind = g_strdup("folder");
  info->source_uri = g_strdup(manifest->source_uri);
  take_folder_facts(repair, info);
  return bl_claim_check(repair->claim, error) && bl_info_save(repair->store, manifest, info, error);
}

/* A BlStateFunc: what is bad now. */
static gboolean set_state(BlState *state, gpointer user) {
  const Repair *repair = user;
  bl_state_clear_findings(state, NULL);
  for (guint64 i = 0; i < repair->n_bad; i++) {
    guint32 file = repair->bad[i];
    if (repair->badness[file] <= BAD_MENDED) continue;
    bl_state_add_path(repair->badness[file] == BAD_MISSING ? state->missing : state->damaged,
                      repair->manifest->files[file].path);
  }
  if (!bl_state_is_degraded(state)) state->checked_at = g_get_real_time() / G_USEC_PER_SEC;
  return TRUE;
}

/* What could not be made durable may be in memory alone from now on, where the next check would
 * find it right: it goes. */
static gboolean sync_mended(Repair *repair, GError **error) {
  if (bl_store_sync(repair->store, error)) return TRUE;
  for (guint64 i = 0; bl_claim_check(repair->claim, NULL) && i < repair->n_bad; i++) {
    guint32 file = repair->bad[i];
    if (repair->badness[file] == BAD_MENDED)
      (void)bl_build_remove_file(repair->store, repair->manifest, &repair->manifest->files[file]);
  }
  return FALSE;
}

/* Whoever took the claim over may have reserved room. */
static void release_room(const Repair *repair) {
  const char *id = repair->manifest->checkpoint_id;
  g_autoptr(GError) fault = NULL;
  gboolean is_ours = bl_claim_check(repair->claim, &fault);
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_BUSY)) return;
  if (!is_ours || !bl_room_release(repair->store, id, &fault))
    bl_job_note(repair->job, BL_NOTE_WARNING, "the room reserved for \"%s\" stays so: %s", id,
                fault->message);
}

/* The manifest that was checked must be the one that is mended. */
static gboolean check_manifest(const Repair *repair, GError **error) {
  const char *id = repair->manifest->checkpoint_id;
  g_autoptr(BlManifest) now = bl_manifest_load(repair->store, id, BL_MANIFEST_HEADER_ONLY, error);
  if (now == NULL) return FALSE;
  return memcmp(now->sha256, repair->manifest->sha256, BL_SHA256_SIZE) == 0 ||
         bl_error_set(error, BL_ERROR_BUSY,
                      "checkpoint \"%s\" was replaced while it was checked (repair it again)", id);
}

static gboolean mend_claimed(Repair *repair, gboolean is_all, GError **error) {
  const char *id = repair->manifest->checkpoint_id;
  BlKeyBuffer prefix;
  if (!bl_store_sweep(repair->store, bl_key_prefix(prefix, id), NULL, error) ||
      !check_manifest(repair, error))
    return FALSE;
  gboolean ok = mend_files(repair, error) && sync_mended(repair, error) &&
                mend_digests(repair, error) && mend_info(repair, error) &&
                bl_claim_check(repair->claim, error);
  release_room(repair);
  /* What a check did not name may still be in the state of an earlier one. */
  return ok && (!is_all ||
                bl_state_update_claimed(repair->store, id, set_state, repair, repair->job, error));
}

static gboolean run_claimed(Repair *repair,
                            gboolean (*func)(Repair *repair, gboolean is_all, GError **error),
                            gboolean is_all, GError **error) {
  BlKeyBuffer prefix;
  const char *id = repair->manifest->checkpoint_id;
  repair->claim = bl_claim_acquire(repair->store, bl_key_prefix(prefix, id), "repair",
                                   repair->options->wait_ms, repair->job, error);
  if (repair->claim == NULL) return FALSE;
  gboolean ok = func(repair, is_all, error);
  g_autoptr(GError) fault = NULL;
  if (!bl_claim_release(g_steal_pointer(&repair->claim), &fault))
    bl_job_note(repair->job, BL_NOTE_WARNING, "the claim on \"%s\" could not be removed: %s", id,
                fault->message);
  return ok;
}

static gboolean mend_all(Repair *repair, gboolean is_all, GError **error) {
  if (repair->n_bad > 0 && !open_supplies(repair, error)) return FALSE;
  if (!repair->options->dry_run) return run_claimed(repair, mend_claimed, is_all, error);
  return mend_files(repair, error) && mend_digests(repair, error) && mend_info(repair, error);
}

/* Nothing is bad: an earlier check's findings are past, and what a dead repair left goes. */
static gboolean tidy_claimed(Repair *repair, gboolean is_all, GError **error) {
  const char *id = repair->manifest->checkpoint_id;
  BlKeyBuffer prefix;
  (void)is_all;
  return bl_store_sweep(repair->store, bl_key_prefix(prefix, id), NULL, error) &&
         bl_state_update_claimed(repair->store, id, bl_state_clear_findings, NULL, repair->job,
                                 error);
}

static gboolean tidy(Repair *repair, GError **error) {
  const char *id = repair->manifest->checkpoint_id;
  BlKeyBuffer prefix;
  BlClaimState claim;
  g_autoptr(BlState) state = bl_state_load(repair->store, id, NULL);
  if (repair->options->dry_run) return TRUE;
  if (!bl_claim_peek(repair->store, bl_key_prefix(prefix, id), &claim, NULL, NULL, error))
    return FALSE;
  /* A live one is somebody else's business. */
  gboolean is_tidy = state != NULL && !bl_state_is_degraded(state);
  if (is_tidy && (claim == BL_CLAIM_NONE || claim == BL_CLAIM_LIVE)) return TRUE;
  return run_claimed(repair, tidy_claimed, TRUE, error);
}

static gboolean run(Repair *repair, const char *checkpoint_id, GError **error) {
  BlRepairResult *result = repair->result;
  guint64 n_before;
  gboolean is_all;
  do {
    g_autoptr(BlVerifyResult) checked = find_bad(repair, checkpoint_id, error);
    if (checked == NULL) return FALSE;
    if (!bl_verify_result_is_bad(checked)) return tidy(repair, error);
    is_all = checked->n_findings == checked->findings->len;
    n_before = result->n_files_mended;
    result->n_files_bad = n_before + repair->n_bad;
    g_ptr_array_set_size(result->left, 0);
    if (!mend_all(repair, is_all, error)) return FALSE;
  } while (!is_all && !repair->options->dry_run && result->n_files_mended > n_before);
  return TRUE;
}

BlRepairResult *bl_repair(BlStore *store, const char *checkpoint_id, const BlRepairOptions *options,
                          BlJob *job, GError **error) {
  g_autoptr(BlRepairResult) result = g_new0(BlRepairResult, 1);
  result->mended = g_ptr_array_new_with_free_func(item_free);
  result->left = g_ptr_array_new_with_free_func(item_free);
  Repair repair = {.store = store, .options = options, .job = job, .result = result};
  repair.files.pool = bl_transfer_pool_new(store, bl_job_n_threads(job));
  g_mutex_init(&repair.lock);
  gboolean ok = run(&repair, checkpoint_id, error);
  g_clear_pointer(&repair.supplies, g_ptr_array_unref);
  forget_checkpoint(&repair);
  bl_transfer_pool_free(repair.files.pool);
  g_mutex_clear(&repair.lock);
  g_ptr_array_sort(result->mended, compare_items);
  g_ptr_array_sort(result->left, compare_items);
  return ok ? g_steal_pointer(&result) : NULL;
}
