/* Delete, in this order, each step repeatable: claim; manifest FAILED "delete in progress", naming
 * every key; refs; chunks; sync; digests, info, state; manifest; last use; sync; claim. Only
 * objects under the checkpoint's own prefix are ever removed, whatever keys a manifest names:
 * another checkpoint never loses a byte. */
#include "model/remove.h"

#include <string.h>

#include "base/error.h"
#include "model/catalog.h"
#include "model/key.h"
#include "model/manifest.h"
#include "store/claim.h"

/* Keys held at a time, of some 150 bytes each. */
#define BATCH 10000

typedef struct {
  BlStore *store;
  const char *id;
  char prefix[BL_KEY_MAX];
  BlJob *job;
  BlClaim *claim;
  BlManifest *manifest; /* NULL where it cannot be read */
  BlRemoveResult *result;
  gboolean has_begun; /* something of it was changed */
  GPtrArray *keys;    /* of char* */
  gboolean is_full;   /* there are more than these */
} Removal;

void bl_remove_result_clear(BlRemoveResult *result) {
  g_clear_pointer(&result->checkpoint_id, g_free);
}

static gboolean mark_failed(Removal *removal, GError **error) {
  BlManifest *manifest = removal->manifest;
  if (manifest == NULL) return TRUE;
  manifest->is_ready = FALSE;
  g_free(manifest->error);
  manifest->error = g_strdup("delete in progress, or interrupted");
  manifest->updated_at = g_get_real_time() / G_USEC_PER_SEC;
  return bl_manifest_save(removal->store, manifest, error);
}

static gboolean collect(const char *key, const BlObjectStat *object, gpointer user,
                        GError **error) {
  Removal *removal = user;
  const char *rest = key + strlen(removal->prefix);
  /* The manifest goes last, our claim with us; those of dead owners go now. */
  if (strcmp(rest, "manifest") == 0 || bl_claim_owns(removal->claim, key)) return TRUE;
  removal->is_full = removal->keys->len == BATCH;
  if (removal->is_full) return bl_error_set(error, BL_ERROR_CANCELLED, "enough for now");
  g_ptr_array_add(removal->keys, g_strdup(key));
  removal->result->n_bytes += object->size;
  return TRUE;
}

static void collect_named(Removal *removal) {
  char key[BL_KEY_MAX];
  const BlManifest *manifest = removal->manifest;
  for (guint64 i = 0; manifest != NULL && i < manifest->n_files; i++) {
    for (guint32 c = 0; c < manifest->files[i].n_chunks; c++) {
      bl_manifest_chunk_key(manifest, &manifest->files[i], c, key);
      if (g_str_has_prefix(key, removal->prefix)) g_ptr_array_add(removal->keys, g_strdup(key));
    }
    removal->result->n_bytes += manifest->files[i].size;
  }
  g_ptr_array_add(removal->keys, g_strdup(bl_key_digests(key, removal->id)));
  g_ptr_array_add(removal->keys, g_strdup(bl_key_info(key, removal->id)));
  g_ptr_array_add(removal->keys, g_strdup(bl_key_state(key, removal->id)));
}

static gboolean find_objects(Removal *removal, GError **error) {
  g_autoptr(GError) fault = NULL;
  g_ptr_array_set_size(removal->keys, 0);
  removal->is_full = FALSE;
  if (!bl_store_can(removal->store, BL_STORE_CAN_LIST))
    collect_named(removal);
  else if (!bl_store_list(removal->store, removal->prefix, collect, removal, &fault) &&
           !removal->is_full) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  bl_job_set_total(removal->job, 0, removal->result->n_objects + removal->keys->len);
  return TRUE;
}

/* An owner that was stopped and lost its claim meanwhile must not remove what its successor put. */
static gboolean remove_found(Removal *removal, GError **error) {
  for (guint i = 0; i < removal->keys->len; i++) {
    if (!bl_job_check(removal->job, error) || !bl_claim_check(removal->claim, error) ||
        !bl_store_remove(removal->store, g_ptr_array_index(removal->keys, i), error))
      return FALSE;
    removal->result->n_objects++;
    bl_job_add_files(removal->job, 1);
  }
  return TRUE;
}

static gboolean remove_objects(Removal *removal, GError **error) {
  do {
    if (!find_objects(removal, error) || !remove_found(removal, error)) return FALSE;
  } while (removal->is_full);
  return bl_store_sync(removal->store, error);
}

static gboolean remove_claimed(Removal *removal, GError **error) {
  char key[BL_KEY_MAX];
  g_autoptr(GError) fault = NULL;
  removal->manifest = bl_manifest_load(removal->store, removal->id, 0, &fault);
  if (removal->manifest == NULL && !g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) {
    if (!g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT)) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return FALSE;
    }
    bl_job_note(removal->job, BL_NOTE_WARNING, "%s", fault->message);
  }
  if (!bl_claim_check(removal->claim, error)) return FALSE;
  removal->has_begun = TRUE;
  if (!mark_failed(removal, error)) return FALSE;
  /* An unreadable manifest does not tell its model: every ref is looked at. */
  const char *model_id = removal->manifest == NULL ? NULL : removal->manifest->model_id;
  if (!bl_ref_remove_all(removal->store, model_id, removal->id, &removal->result->n_refs, error))
    return FALSE;
  return remove_objects(removal, error) && bl_claim_check(removal->claim, error) &&
         bl_store_remove(removal->store, bl_key_manifest(key, removal->id), error) &&
         bl_store_remove(removal->store, bl_key_used(key, removal->id), error) &&
         bl_store_sync(removal->store, error);
}

static gboolean is_anything(const char *key, const BlObjectStat *object, gpointer user,
                            GError **error) {
  (void)key;
  (void)object;
  (void)error;
  *(gboolean *)user = TRUE;
  return TRUE;
}

/* A claim would make the checkpoint's folder: what is not there is not claimed. */
static gboolean check_there(BlStore *store, const char *id, GError **error) {
  BlKeyBuffer key;
  gboolean is_there;
  if (!bl_manifest_exists(store, id, &is_there, error)) return FALSE;
  if (is_there) return TRUE;
  if (bl_store_can(store, BL_STORE_CAN_LIST) &&
      !bl_store_list(store, bl_key_prefix(key, id), is_anything, &is_there, error))
    return FALSE;
  if (is_there) return TRUE;
  /* A delete that was killed behind its last step but one. */
  (void)bl_store_remove(store, bl_key_used(key, id), NULL);
  return bl_error_set(
      error, BL_ERROR_NOT_FOUND,
      "store %s has no checkpoint \"%s\" (\"ballast model list\" shows what it has)", store->url,
      id);
}

void bl_remove_explain(GError **error) {
  if (error == NULL || !g_error_matches(*error, BL_ERROR, BL_ERROR_NO_SPACE)) return;
  g_autoptr(GError) full = g_steal_pointer(error);
  bl_error_set(error, BL_ERROR_NO_SPACE,
               "%s (to remove something, too, takes some KiB: free them on this disk first)",
               full->message);
}

gboolean bl_remove_claimed(BlStore *store, const char *checkpoint_id, BlClaim *claim, BlJob *job,
                           BlRemoveResult *result, GError **error) {
  *result = (BlRemoveResult){.checkpoint_id = g_strdup(checkpoint_id)};
  Removal removal = {
      .store = store, .id = checkpoint_id, .claim = claim, .job = job, .result = result};
  bl_key_prefix(removal.prefix, checkpoint_id);
  removal.keys = g_ptr_array_new_with_free_func(g_free);
  bl_job_begin_phase(job, "deleting", 0, 0);
  gboolean ok =
      bl_store_sweep(store, removal.prefix, NULL, error) && remove_claimed(&removal, error);
  g_ptr_array_unref(removal.keys);
  bl_manifest_free(removal.manifest);
  if (!ok)
    g_prefix_error(error,
                   removal.has_begun
                       ? "checkpoint \"%s\" is not wholly deleted (delete it again): "
                       : "checkpoint \"%s\" is not deleted, nothing of it was touched: ",
                   checkpoint_id);
  if (!ok) bl_remove_explain(error);
  return ok;
}

gboolean bl_remove(BlStore *store, const char *checkpoint_id, gint wait_ms, BlJob *job,
                   BlRemoveResult *result, GError **error) {
  BlKeyBuffer prefix;
  *result = (BlRemoveResult){NULL};
  if (!bl_checkpoint_id_check(checkpoint_id, error) || !check_there(store, checkpoint_id, error))
    return FALSE;
  BlClaim *claim =
      bl_claim_acquire(store, bl_key_prefix(prefix, checkpoint_id), "delete", wait_ms, job, error);
  if (claim == NULL) {
    bl_remove_explain(error);
    return FALSE;
  }
  gboolean ok = bl_remove_claimed(store, checkpoint_id, claim, job, result, error);
  g_autoptr(GError) fault = NULL;
  if (!bl_claim_release(claim, &fault))
    bl_job_note(job, BL_NOTE_WARNING, "the claim on \"%s\" could not be removed: %s", checkpoint_id,
                fault->message);
  return ok;
}
