#include "model/verify_record.h"

#include <string.h>

#include "base/error.h"
#include "model/key.h"
#include "store/claim.h"

static gboolean are_equal(const GPtrArray *a, const GPtrArray *b) {
  if (a->len != b->len) return FALSE;
  for (guint i = 0; i < a->len; i++)
    if (strcmp(g_ptr_array_index(a, i), g_ptr_array_index(b, i)) != 0) return FALSE;
  return TRUE;
}

/* TRUE where the list is another one now. */
static gboolean update_list(GPtrArray **list, const BlVerifyRecord *record, guint8 fault) {
  const BlManifest *manifest = record->manifest;
  GPtrArray *old = *list;
  *list = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 0; i < old->len && !record->is_complete; i++)
    bl_state_add_path(*list, g_ptr_array_index(old, i));
  for (guint64 i = 0; i < manifest->n_files; i++)
    if (record->faults[i] & fault) bl_state_add_path(*list, manifest->files[i].path);
  gboolean is_other = !are_equal(old, *list);
  g_ptr_array_unref(old);
  return is_other;
}

static gboolean update_state(BlState *state, gpointer user) {
  BlVerifyRecord *record = user;
  gboolean is_changed = record->checked_at > 0;
  record->was_degraded = bl_state_is_degraded(state);
  if (is_changed) state->checked_at = record->checked_at;
  is_changed = update_list(&state->missing, record, BL_VERIFY_MISSING) || is_changed;
  is_changed = update_list(&state->damaged, record, BL_VERIFY_DAMAGED) || is_changed;
  record->is_degraded = bl_state_is_degraded(state);
  return is_changed;
}

static gboolean is_anything_new(BlVerifyRecord *record, const BlState *state) {
  g_autoptr(BlState) copy = bl_state_new();
  copy->checked_at = state->checked_at;
  for (guint i = 0; i < state->missing->len; i++)
    bl_state_add_path(copy->missing, g_ptr_array_index(state->missing, i));
  for (guint i = 0; i < state->damaged->len; i++)
    bl_state_add_path(copy->damaged, g_ptr_array_index(state->damaged, i));
  return update_state(copy, record) || record->digests != NULL;
}

/* Beside an import or a delete there is nothing to write. */
static gboolean write_claimed(BlVerifyRecord *record, BlStore *store, BlJob *job, GError **error) {
  const BlManifest *manifest = record->manifest;
  const char *id = manifest->checkpoint_id;
  g_autoptr(BlManifest) now = bl_manifest_load(store, id, BL_MANIFEST_HEADER_ONLY, NULL);
  if (now == NULL || memcmp(now->sha256, manifest->sha256, BL_SHA256_SIZE) != 0)
    return bl_error_set(error, BL_ERROR_BUSY, "the checkpoint was changed meanwhile");
  if (record->digests != NULL) {
    if (!bl_digests_save(store, manifest, record->digests, error)) return FALSE;
    record->digests_written = TRUE;
  }
  return bl_state_update_claimed(store, id, update_state, record, job, error);
}

static gboolean write_record(BlVerifyRecord *record, BlStore *store, BlJob *job, GError **error) {
  BlKeyBuffer prefix;
  BlClaimState state;
  g_autofree char *owner = NULL;
  bl_key_prefix(prefix, record->manifest->checkpoint_id);
  if (bl_store_can(store, BL_STORE_IS_READ_ONLY))
    return bl_error_set(error, BL_ERROR_DENIED, "the store is read-only");
  /* A claim of which only its heartbeat could tell whether it lives would be watched. */
  if (!bl_claim_peek(store, prefix, &state, &owner, NULL, error)) return FALSE;
  if (state == BL_CLAIM_LIVE || state == BL_CLAIM_UNKNOWN)
    return bl_error_set(error, BL_ERROR_BUSY, "claimed: %s", owner);
  BlClaim *claim = bl_claim_acquire(store, prefix, "verify", 0, job, error);
  if (claim == NULL) return FALSE;
  gboolean ok =
      bl_store_sweep(store, prefix, NULL, error) && write_claimed(record, store, job, error);
  return bl_claim_release(claim, ok ? error : NULL) && ok;
}

char *bl_verify_record(BlVerifyRecord *record, BlStore *store, const BlState *state, BlJob *job) {
  g_autoptr(GError) fault = NULL;
  if (!is_anything_new(record, state) || write_record(record, store, job, &fault)) return NULL;
  BlErrorCode code = bl_error_code(fault);
  record->is_lost = code != BL_ERROR_DENIED && code != BL_ERROR_BUSY && code != BL_ERROR_CANCELLED;
  if (record->is_lost)
    bl_job_note(job, BL_NOTE_WARNING, "what was found could not be written to the store: %s",
                fault->message);
  return g_strdup(fault->message);
}
