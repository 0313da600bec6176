/* One checkpoint: its manifest first, then one listing. A READY manifest is written after the last
 * object and replaced before the first one goes, so a listing that lacks something although the
 * manifest is still the same afterwards means a loss. */
#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/key.h"
#include "model/state.h"
#include "upkeep/survey.h"

/* Looks at a checkpoint that changes each time; then it is judged as it was last seen. */
#define MAX_LOOKS 5

typedef struct {
  BlStore *store;
  const char *id;
  const BlClaim *own;
  BlFindingFunc func;
  gpointer user;
  BlManifest *manifest;        /* NULL: none, or none that can be read; fault says */
  GError *fault, *claim_fault; /* claim_fault: the claim cannot be read */
  BlObjects *objects;
  BlSurveyed *item;
  gboolean is_clean; /* READY, all objects there and named */
} Look;

/* What is wrong with one file, or with all. */
typedef struct {
  guint64 n_missing, n_odd; /* objects that are gone, that have another size */
  guint64 n_missing_bytes;
} Faults;

void bl_surveyed_free(BlSurveyed *surveyed) {
  if (surveyed == NULL) return;
  g_free(surveyed->checkpoint_id);
  g_free(surveyed->model_id);
  g_free(surveyed->revision);
  g_free(surveyed->owner);
  g_free(surveyed);
}

static void look_clear(Look *look) {
  g_clear_pointer(&look->manifest, bl_manifest_free);
  g_clear_pointer(&look->objects, bl_objects_free);
  g_clear_pointer(&look->item, bl_surveyed_free);
  g_clear_error(&look->fault);
  g_clear_error(&look->claim_fault);
  look->is_clean = FALSE;
}

static gboolean emit(const Look *look, BlFinding *finding, GError **error) {
  if (look->func == NULL) return TRUE;
  finding->checkpoint_id = look->id;
  return look->func(finding, look->user, error);
}

static void take_manifest(Look *look) {
  BlSurveyed *item = look->item;
  const BlManifest *manifest = look->manifest;
  item->model_id = g_strdup(manifest->model_id);
  item->revision = g_strdup(manifest->revision);
  item->status = manifest->is_ready ? BL_CHECKPOINT_READY : BL_CHECKPOINT_FAILED;
  item->n_files = manifest->n_files;
  item->total_size = manifest->total_size;
  item->created_at = manifest->created_at;
  item->updated_at = manifest->updated_at;
}

static gboolean load_manifest(Look *look, GError **error) {
  look->manifest = bl_manifest_load(look->store, look->id, 0, &look->fault);
  if (look->manifest != NULL) {
    take_manifest(look);
    return TRUE;
  }
  gboolean is_absent = g_error_matches(look->fault, BL_ERROR, BL_ERROR_NOT_FOUND);
  gboolean is_damaged = g_error_matches(look->fault, BL_ERROR, BL_ERROR_CORRUPT);
  look->item->status = is_absent    ? BL_CHECKPOINT_LEFTOVER
                       : is_damaged ? BL_CHECKPOINT_CORRUPT
                                    : BL_CHECKPOINT_UNREADABLE;
  if (is_absent || bl_catalog_is_fault_of_one(look->fault)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&look->fault));
  return FALSE;
}

static gboolean list_objects(Look *look, GError **error) {
  g_autoptr(GError) fault = NULL;
  look->objects = bl_objects_list(look->store, look->id, look->own, &fault);
  if (look->objects != NULL) {
    look->item->n_objects = look->objects->n_objects;
    look->item->n_bytes = look->objects->n_bytes;
    return TRUE;
  }
  if (!bl_catalog_is_fault_of_one(fault)) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  look->item->status = BL_CHECKPOINT_UNREADABLE;
  g_clear_error(&look->fault);
  look->fault = g_steal_pointer(&fault);
  return TRUE;
}

/* IMPORTING or DELETING where a READY one would not be, and is_busy in any case. */
static gboolean peek_claim(Look *look, GError **error) {
  BlKeyBuffer prefix;
  BlClaimState state;
  g_autofree char *owner = NULL, *operation = NULL;
  g_autoptr(GError) fault = NULL;
  BlSurveyed *item = look->item;
  if (look->own != NULL) return TRUE;
  if (!bl_claim_peek(look->store, bl_key_prefix(prefix, look->id), &state, &owner, &operation,
                     &fault)) {
    /* A claim that cannot be read may be anybody's. */
    item->is_busy = bl_catalog_is_fault_of_one(fault);
    g_propagate_error(item->is_busy ? &look->claim_fault : error, g_steal_pointer(&fault));
    return item->is_busy;
  }
  item->is_busy = state == BL_CLAIM_LIVE || state == BL_CLAIM_UNKNOWN;
  if (!item->is_busy) return TRUE;
  item->owner = g_steal_pointer(&owner);
  if (item->status == BL_CHECKPOINT_FAILED || item->status == BL_CHECKPOINT_LEFTOVER)
    item->status =
        strcmp(operation, "delete") == 0 ? BL_CHECKPOINT_DELETING : BL_CHECKPOINT_IMPORTING;
  return TRUE;
}

static void match_object(BlChunkObject *object, const BlManifestFile *file, guint32 i,
                         Faults *faults) {
  gboolean is_size_known = file->n_chunks == 1 || file->chunk_size != 0;
  guint64 size = bl_manifest_chunk_size(file, i);
  if (object == NULL) {
    faults->n_missing++;
    if (is_size_known) faults->n_missing_bytes += size;
    return;
  }
  object->is_named = TRUE;
  if (is_size_known && object->stat.size != size) faults->n_odd++;
}

static Faults match_file(const Look *look, const BlManifestFile *file) {
  Faults faults = {0};
  guint8 sha256[BL_SHA256_SIZE];
  bl_sha256(file->path, strlen(file->path), sha256);
  for (guint32 i = 0; i < file->n_chunks; i++)
    match_object(bl_objects_find(look->objects, sha256, file->is_whole ? BL_OBJECT_WHOLE_FILE : i),
                 file, i, &faults);
  return faults;
}

static gboolean has_odd_keys(const BlManifest *manifest) {
  for (guint64 i = 0; i < manifest->n_files; i++)
    if (manifest->files[i].odd_keys != 0) return TRUE;
  return FALSE;
}

/* Whether there is something to look at twice. */
static gboolean is_suspicious(Look *look) {
  if (look->objects == NULL || look->item->status == BL_CHECKPOINT_UNREADABLE) return FALSE;
  if (look->manifest == NULL || !look->manifest->is_ready) return TRUE;
  look->is_clean = TRUE;
  for (guint64 i = 0; i < look->manifest->n_files; i++) {
    Faults faults = match_file(look, &look->manifest->files[i]);
    look->is_clean = look->is_clean && faults.n_missing == 0 && faults.n_odd == 0;
  }
  for (guint i = 0; look->is_clean && i < look->objects->chunks->len; i++)
    look->is_clean = g_array_index(look->objects->chunks, BlChunkObject, i).is_named;
  return !look->is_clean || bl_objects_find_control(look->objects, BL_CONTROL_CLAIM) != NULL ||
         bl_objects_find_control(look->objects, BL_CONTROL_RESERVED) != NULL;
}

/* Whether the manifest is still the one that was judged. */
static gboolean is_unchanged(const Look *look) {
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlManifest) now =
      bl_manifest_load(look->store, look->id, BL_MANIFEST_HEADER_ONLY, &fault);
  if (now == NULL || look->manifest == NULL)
    return now == NULL && look->manifest == NULL &&
           bl_error_code(fault) == bl_error_code(look->fault);
  return memcmp(now->sha256, look->manifest->sha256, sizeof now->sha256) == 0;
}

static gboolean look_once(Look *look, gboolean *is_final, GError **error) {
  look_clear(look);
  look->item = g_new0(BlSurveyed, 1);
  look->item->checkpoint_id = g_strdup(look->id);
  *is_final = TRUE;
  if (!load_manifest(look, error) || !list_objects(look, error)) return FALSE;
  if (!is_suspicious(look)) return TRUE;
  if (!peek_claim(look, error)) return FALSE;
  *is_final = is_unchanged(look);
  return TRUE;
}

static gboolean emit_file(const Look *look, const BlManifestFile *file, GError **error) {
  Faults faults = match_file(look, file);
  g_autofree char *missing = g_strdup_printf("%" G_GUINT64_FORMAT " of %u objects missing",
                                             faults.n_missing, file->n_chunks);
  g_autofree char *odd = g_strdup_printf("%" G_GUINT64_FORMAT " of %u objects of another size",
                                         faults.n_odd, file->n_chunks);
  BlFinding lost = {.kind = BL_FINDING_MISSING,
                    .name = file->path,
                    .text = file->n_chunks == 1 ? "its object is missing" : missing,
                    .n_objects = faults.n_missing,
                    .n_bytes = faults.n_missing_bytes};
  BlFinding damaged = {.kind = BL_FINDING_SIZE,
                       .name = file->path,
                       .text = file->n_chunks == 1 ? "its object has another size" : odd,
                       .n_objects = faults.n_odd,
                       .n_bytes = file->size};
  look->item->is_degraded |= faults.n_missing > 0 || faults.n_odd > 0;
  if (faults.n_missing > 0 && !emit(look, &lost, error)) return FALSE;
  return faults.n_odd == 0 || emit(look, &damaged, error);
}

static gboolean emit_object(const Look *look, BlFindingKind kind, const char *key,
                            const BlObjectStat *stat, const char *text, GError **error) {
  BlFinding finding = {.kind = kind,
                       .checkpoint_id = look->id,
                       .name = key,
                       .text = text,
                       .n_objects = 1,
                       .n_bytes = stat->size,
                       .stat = *stat};
  if (kind != BL_FINDING_FOREIGN) bl_finding_identify(&finding);
  return emit(look, &finding, error);
}

static gboolean emit_ready(const Look *look, GError **error) {
  for (guint64 i = 0; i < look->manifest->n_files; i++)
    if (!emit_file(look, &look->manifest->files[i], error)) return FALSE;
  for (guint i = 0; !look->item->is_busy && i < look->objects->chunks->len; i++) {
    const BlChunkObject *object = &g_array_index(look->objects->chunks, BlChunkObject, i);
    BlKeyBuffer key;
    if (!object->is_named &&
        !emit_object(look, BL_FINDING_ORPHAN, bl_objects_chunk_key(look->objects, object, key),
                     &object->stat, "an object that the manifest does not name", error))
      return FALSE;
  }
  return TRUE;
}

/* All of a checkpoint that is not READY as one finding: gc removes it whole, or not at all where
 * something in it is not ballast's. */
static gboolean emit_whole(const Look *look, BlFindingKind kind, const char *text, GError **error) {
  BlFinding finding = {.kind = kind, .checkpoint_id = look->id, .text = text};
  gboolean is_claim_only = TRUE;
  for (guint i = 0; i < look->objects->chunks->len; i++) {
    const BlChunkObject *object = &g_array_index(look->objects->chunks, BlChunkObject, i);
    BlKeyBuffer key;
    bl_finding_add_object(&finding, bl_objects_chunk_key(look->objects, object, key),
                          &object->stat);
    is_claim_only = FALSE;
  }
  for (guint i = 0; i < look->objects->controls->len; i++) {
    const BlControlObject *control = g_ptr_array_index(look->objects->controls, i);
    if (control->kind == BL_CONTROL_CLAIM || control->kind == BL_CONTROL_UNKNOWN) continue;
    bl_finding_add_object(&finding, control->key, &control->stat);
    is_claim_only = FALSE;
  }
  if (bl_objects_find_control(look->objects, BL_CONTROL_UNKNOWN) != NULL)
    finding.is_garbage = FALSE;
  return is_claim_only || emit(look, &finding, error);
}

/* Whether what looked like a dead owner's is that of one who has just ended, or begun. */
static gboolean is_passing(const Look *look, const BlControlObject *control) {
  BlKeyBuffer prefix;
  BlClaimState state;
  guint64 size;
  g_autoptr(GError) fault = NULL;
  if (!bl_store_size(look->store, control->key, &size, &fault))
    return g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND);
  return look->own == NULL &&
         bl_claim_peek(look->store, bl_key_prefix(prefix, look->id), &state, NULL, NULL, NULL) &&
         (state == BL_CLAIM_LIVE || state == BL_CLAIM_UNKNOWN);
}

static gboolean emit_claims(const Look *look, GError **error) {
  BlFinding finding = {.kind = BL_FINDING_CLAIM,
                       .checkpoint_id = look->id,
                       .text = "claims or heartbeats of owners that are gone"};
  for (guint i = 0; i < look->objects->controls->len; i++) {
    const BlControlObject *control = g_ptr_array_index(look->objects->controls, i);
    if (control->kind == BL_CONTROL_CLAIM && !is_passing(look, control))
      bl_finding_add_object(&finding, control->key, &control->stat);
  }
  return finding.n_objects == 0 || emit(look, &finding, error);
}

static gboolean emit_controls(const Look *look, GError **error) {
  BlCheckpointStatus status = look->item->status;
  const BlControlObject *reserved = bl_objects_find_control(look->objects, BL_CONTROL_RESERVED);
  gboolean goes_whole = status == BL_CHECKPOINT_FAILED || status == BL_CHECKPOINT_LEFTOVER;
  for (guint i = 0; i < look->objects->controls->len; i++) {
    const BlControlObject *control = g_ptr_array_index(look->objects->controls, i);
    if (control->kind == BL_CONTROL_UNKNOWN &&
        !emit_object(look, BL_FINDING_FOREIGN, control->key, &control->stat,
                     "ballast knows no such object", error))
      return FALSE;
  }
  if (look->item->is_busy) return TRUE;
  if (reserved != NULL && !goes_whole &&
      !emit_object(look, BL_FINDING_RESERVATION, reserved->key, &reserved->stat,
                   "room reserved by an import that is gone", error))
    return FALSE;
  return emit_claims(look, error);
}

static gboolean emit_recorded(const Look *look, const BlState *state, GError **error) {
  g_autofree char *found = bl_state_describe(state);
  g_autofree char *text = g_strdup_printf("the last check found %s", found);
  BlFinding finding = {.kind = BL_FINDING_RECORDED, .text = text};
  return emit(look, &finding, error);
}

/* Pins, and what the last check found where nothing of it is seen without reading data. */
static gboolean apply_state(const Look *look, GError **error) {
  g_autoptr(GError) fault = NULL;
  if (bl_objects_find_control(look->objects, BL_CONTROL_STATE) == NULL) return TRUE;
  g_autoptr(BlState) state = bl_state_load(look->store, look->id, &fault);
  if (state == NULL && !bl_catalog_is_fault_of_one(fault)) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (state == NULL) {
    gboolean is_damaged = g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT);
    BlFinding finding = {.kind = is_damaged ? BL_FINDING_STATE : BL_FINDING_UNREADABLE,
                         .text = fault->message};
    /* It may have been pinned. */
    look->item->is_pinned = TRUE;
    return emit(look, &finding, error);
  }
  look->item->is_pinned = state->is_pinned;
  if (!bl_state_is_degraded(state) || look->item->is_degraded) return TRUE;
  look->item->is_degraded = TRUE;
  return emit_recorded(look, state, error);
}

static gboolean judge(Look *look, GError **error) {
  BlFinding finding = {.text = look->fault != NULL ? look->fault->message : NULL};
  BlFinding claim = {.kind = BL_FINDING_UNREADABLE};
  if (look->claim_fault != NULL) claim.text = look->claim_fault->message;
  if (claim.text != NULL && !emit(look, &claim, error)) return FALSE;
  if (look->objects == NULL || look->item->status == BL_CHECKPOINT_UNREADABLE) {
    finding.kind = BL_FINDING_UNREADABLE;
    return emit(look, &finding, error);
  }
  switch (look->item->status) {
    case BL_CHECKPOINT_CORRUPT:
      finding.kind = BL_FINDING_MANIFEST;
      return emit(look, &finding, error) && emit_controls(look, error);
    case BL_CHECKPOINT_READY:
      if (!look->is_clean && !emit_ready(look, error)) return FALSE;
      if (!apply_state(look, error)) return FALSE;
      break;
    case BL_CHECKPOINT_FAILED:
      if (!emit_whole(look, BL_FINDING_FAILED,
                      look->manifest->error != NULL ? look->manifest->error : "no reason given",
                      error))
        return FALSE;
      break;
    case BL_CHECKPOINT_LEFTOVER:
      if (!emit_whole(look, BL_FINDING_NO_MANIFEST, "objects without a manifest", error))
        return FALSE;
      break;
    default:
      break;
  }
  return emit_controls(look, error);
}

static void set_odd_keys_fault(Look *look) {
  look->item->status = BL_CHECKPOINT_CORRUPT;
  g_clear_error(&look->fault);
  bl_error_set(&look->fault, BL_ERROR_CORRUPT,
               "manifest of checkpoint \"%s\": it names objects that are not those of its paths",
               look->id);
}

gboolean bl_survey_checkpoint(BlStore *store, const char *checkpoint_id, const BlClaim *own,
                              BlFindingFunc func, gpointer user, BlObjects **objects,
                              BlSurveyed **surveyed, GError **error) {
  Look look = {.store = store, .id = checkpoint_id, .own = own, .func = func, .user = user};
  gboolean is_final = FALSE, ok = TRUE;
  for (guint i = 0; ok && !is_final && i < MAX_LOOKS; i++) ok = look_once(&look, &is_final, error);
  if (ok && look.item->status == BL_CHECKPOINT_READY && has_odd_keys(look.manifest))
    set_odd_keys_fault(&look);
  gboolean is_anything = ok && (look.objects == NULL || look.objects->n_objects > 0);
  ok = ok && (!is_anything || judge(&look, error));
  if (ok && objects != NULL) *objects = g_steal_pointer(&look.objects);
  *surveyed = ok && is_anything ? g_steal_pointer(&look.item) : NULL;
  look_clear(&look);
  return ok;
}
