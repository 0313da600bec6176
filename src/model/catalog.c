/* A list reads two small objects a checkpoint, manifest and state, and the claim only of those that
 * are not READY. Names are resolved in a fixed order, and never by age. */
#include "model/catalog.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "model/info.h"
#include "model/key.h"
#include "model/state.h"
#include "store/claim.h"

/* An index of 100,000 ids of 255 characters is 26 MB. */
#define MAX_INDEX (32u * 1024 * 1024)
#define COMMIT_DIGITS 40
/* The least of a commit that people write. */
#define COMMIT_DIGITS_MIN 7
/* Choices that an error names. */
#define MAX_CHOICES 8

const char *bl_checkpoint_status_name(BlCheckpointStatus status) {
  static const char *const names[] = {
      [BL_CHECKPOINT_READY] = "READY",         [BL_CHECKPOINT_FAILED] = "FAILED",
      [BL_CHECKPOINT_IMPORTING] = "IMPORTING", [BL_CHECKPOINT_DELETING] = "DELETING",
      [BL_CHECKPOINT_CORRUPT] = "CORRUPT",     [BL_CHECKPOINT_UNREADABLE] = "UNREADABLE",
      [BL_CHECKPOINT_LEFTOVER] = "LEFTOVER",   [BL_CHECKPOINT_DEGRADED] = "DEGRADED",
  };
  return names[status];
}

void bl_checkpoint_free(BlCheckpoint *checkpoint) {
  if (checkpoint == NULL) return;
  g_free(checkpoint->checkpoint_id);
  g_free(checkpoint->model_id);
  g_free(checkpoint->revision);
  g_free(checkpoint->error);
  g_free(checkpoint);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlCheckpoint, bl_checkpoint_free)

static gboolean add_id(const char *part, gpointer user, GError **error) {
  (void)error;
  if (bl_checkpoint_id_check(part, NULL)) g_hash_table_add(user, g_strdup(part));
  return TRUE;
}

/* The ids in an index object that others keep; none where it is absent. */
static gboolean add_index(BlStore *store, const char *key, GHashTable *ids, GError **error) {
  g_autofree char *data = NULL;
  g_autoptr(GError) fault = NULL;
  gsize size;
  if (!bl_store_load(store, key, MAX_INDEX, &data, &size, &fault)) {
    if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
    g_propagate_prefixed_error(error, g_steal_pointer(&fault), "index of checkpoints: ");
    return FALSE;
  }
  g_autoptr(json_t) json = bl_json_parse(data, size, "index of checkpoints", error);
  if (json == NULL) return FALSE;
  if (!json_is_array(json))
    return bl_error_set(error, BL_ERROR_CORRUPT, "index of checkpoints: no array");
  for (size_t i = 0; i < json_array_size(json); i++) {
    const char *id = json_string_value(json_array_get(json, i));
    if (id != NULL && !add_id(id, ids, error)) return FALSE;
  }
  return TRUE;
}

static int compare_ids(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Ids of all that may be a checkpoint, sorted. */
static GPtrArray *find_ids(BlStore *store, const char *model_id, GError **error) {
  g_autoptr(GHashTable) ids = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  gboolean can_list = bl_store_can(store, BL_STORE_CAN_LIST),
           is_shared = bl_store_can(store, BL_STORE_IS_SHARED);
  BlKeyBuffer key;
  if ((can_list || !is_shared) && !bl_store_list_folders(store, BL_KEY_MODELS, add_id, ids, error))
    return NULL;
  gboolean by_model = model_id != NULL && !can_list;
  if (is_shared &&
      !add_index(store, by_model ? bl_key_index_model(key, model_id) : BL_KEY_INDEX_MODELS, ids,
                 error))
    return NULL;
  GPtrArray *sorted = g_ptr_array_new_with_free_func(g_free);
  GHashTableIter iter;
  gpointer id;
  g_hash_table_iter_init(&iter, ids);
  while (g_hash_table_iter_next(&iter, &id, NULL)) {
    g_hash_table_iter_steal(&iter);
    g_ptr_array_add(sorted, id);
  }
  g_ptr_array_sort(sorted, compare_ids);
  return sorted;
}

static gboolean count_key(const char *key, const BlObjectStat *object, gpointer user,
                          GError **error) {
  (void)key;
  (void)object;
  (void)error;
  ++*(guint64 *)user;
  return TRUE;
}

/* Where the store cannot list, only an index entry led here: that alone is something. */
static gboolean has_objects(BlStore *store, const char *id, gboolean *has, GError **error) {
  BlKeyBuffer prefix;
  guint64 n = 0;
  *has = TRUE;
  if (!bl_store_can(store, BL_STORE_CAN_LIST)) return TRUE;
  if (!bl_store_list(store, bl_key_prefix(prefix, id), count_key, &n, error)) return FALSE;
  *has = n > 0 || bl_store_can(store, BL_STORE_IS_SHARED);
  return TRUE;
}

gboolean bl_catalog_is_fault_of_one(const GError *fault) {
  switch (bl_error_code(fault)) {
    case BL_ERROR_CORRUPT:
    case BL_ERROR_UNSUPPORTED:
    case BL_ERROR_DENIED:
    case BL_ERROR_IO:
      return TRUE;
    default:
      return FALSE;
  }
}

gboolean bl_catalog_peek_claim(BlStore *store, const char *prefix, BlClaimState *state,
                               GError **error) {
  g_autoptr(GError) fault = NULL;
  if (bl_claim_peek(store, prefix, state, NULL, NULL, &fault)) return TRUE;
  *state = BL_CLAIM_UNKNOWN;
  if (bl_catalog_is_fault_of_one(fault)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* IMPORTING or DELETING where someone holds, or may hold, the claim; untouched else. */
static gboolean apply_claim(BlStore *store, BlCheckpoint *checkpoint, GError **error) {
  BlKeyBuffer prefix;
  BlClaimState state;
  g_autofree char *owner = NULL, *operation = NULL;
  g_autoptr(GError) fault = NULL;
  if (!bl_claim_peek(store, bl_key_prefix(prefix, checkpoint->checkpoint_id), &state, &owner,
                     &operation, &fault)) {
    if (bl_catalog_is_fault_of_one(fault)) return TRUE;
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (state != BL_CLAIM_LIVE && state != BL_CLAIM_UNKNOWN) return TRUE;
  checkpoint->status =
      strcmp(operation, "delete") == 0 ? BL_CHECKPOINT_DELETING : BL_CHECKPOINT_IMPORTING;
  g_free(checkpoint->error);
  checkpoint->error = g_steal_pointer(&owner);
  return TRUE;
}

static void take_manifest(BlCheckpoint *checkpoint, BlManifest *manifest) {
  g_free(checkpoint->model_id);
  g_free(checkpoint->revision);
  g_free(checkpoint->error);
  checkpoint->model_id = g_steal_pointer(&manifest->model_id);
  checkpoint->revision = g_steal_pointer(&manifest->revision);
  checkpoint->error = g_steal_pointer(&manifest->error);
  checkpoint->status = manifest->is_ready ? BL_CHECKPOINT_READY : BL_CHECKPOINT_FAILED;
  checkpoint->n_files = manifest->n_files;
  checkpoint->total_size = manifest->total_size;
  checkpoint->created_at = manifest->created_at;
  checkpoint->updated_at = manifest->updated_at;
}

/* Reads the manifest into the checkpoint: READY, FAILED, CORRUPT, UNREADABLE, or LEFTOVER where
 * there is none. */
static gboolean apply_manifest(BlStore *store, BlCheckpoint *checkpoint, GError **error) {
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlManifest) manifest =
      bl_manifest_load(store, checkpoint->checkpoint_id, BL_MANIFEST_HEADER_ONLY, &fault);
  if (manifest != NULL) {
    take_manifest(checkpoint, manifest);
    return TRUE;
  }
  g_free(checkpoint->error);
  checkpoint->error = g_strdup(fault->message);
  gboolean is_damaged = g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT);
  checkpoint->status = is_damaged ? BL_CHECKPOINT_CORRUPT : BL_CHECKPOINT_UNREADABLE;
  if (bl_catalog_is_fault_of_one(fault)) return TRUE;
  checkpoint->status = BL_CHECKPOINT_LEFTOVER;
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* What upkeep knows of a READY one. */
static gboolean apply_state(BlStore *store, BlCheckpoint *checkpoint, BlJob *job, GError **error) {
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlState) state = bl_state_load_usable(store, checkpoint->checkpoint_id, job, &fault);
  if (state == NULL && bl_catalog_is_fault_of_one(fault)) return TRUE;
  if (state == NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  checkpoint->is_pinned = state->is_pinned;
  if (!bl_state_is_degraded(state)) return TRUE;
  checkpoint->status = BL_CHECKPOINT_DEGRADED;
  checkpoint->error = bl_state_describe(state);
  return TRUE;
}

static gboolean is_unfinished(const BlCheckpoint *checkpoint) {
  return checkpoint->status == BL_CHECKPOINT_FAILED || checkpoint->status == BL_CHECKPOINT_LEFTOVER;
}

/* *result stays NULL where there is nothing at all under the id. */
static gboolean look_at(BlStore *store, const char *id, BlJob *job, BlCheckpoint **result,
                        GError **error) {
  g_autoptr(BlCheckpoint) checkpoint = g_new0(BlCheckpoint, 1);
  checkpoint->checkpoint_id = g_strdup(id);
  if (!apply_manifest(store, checkpoint, error)) return FALSE;
  if (is_unfinished(checkpoint)) {
    if (!apply_claim(store, checkpoint, error)) return FALSE;
    /* What worked on it may have ended between the two looks. */
    if (is_unfinished(checkpoint) && !apply_manifest(store, checkpoint, error)) return FALSE;
  }
  if (checkpoint->status == BL_CHECKPOINT_READY && !apply_state(store, checkpoint, job, error))
    return FALSE;
  if (checkpoint->status == BL_CHECKPOINT_LEFTOVER) {
    gboolean has;
    if (!has_objects(store, id, &has, error)) return FALSE;
    if (!has) return TRUE;
    g_free(checkpoint->error);
    checkpoint->error = g_strdup("objects without a manifest (delete it, or import it again)");
  }
  *result = g_steal_pointer(&checkpoint);
  return TRUE;
}

typedef struct {
  BlStore *store;
  BlJob *job;
  GPtrArray *ids;
  BlCheckpoint **checkpoints; /* by id; each worker fills its own */
} Listing;

static gboolean list_one(guint64 i, guint worker, gpointer user, GError **error) {
  Listing *listing = user;
  (void)worker;
  return look_at(listing->store, g_ptr_array_index(listing->ids, i), listing->job,
                 &listing->checkpoints[i], error);
}

static void free_checkpoint(gpointer checkpoint) {
  bl_checkpoint_free(checkpoint);
}

GPtrArray *bl_catalog_list(BlStore *store, const char *model_id, BlJob *job, GError **error) {
  g_autoptr(GPtrArray) ids = find_ids(store, model_id, error);
  if (ids == NULL) return NULL;
  g_autofree BlCheckpoint **checkpoints = g_new0(BlCheckpoint *, ids->len);
  Listing listing = {.store = store, .job = job, .ids = ids, .checkpoints = checkpoints};
  gboolean done = bl_job_run(job, ids->len, list_one, &listing, error);
  g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(free_checkpoint);
  for (guint i = 0; i < ids->len; i++) {
    BlCheckpoint *checkpoint = checkpoints[i];
    if (checkpoint == NULL) continue;
    if (model_id == NULL || g_strcmp0(checkpoint->model_id, model_id) == 0)
      g_ptr_array_add(list, checkpoint);
    else
      bl_checkpoint_free(checkpoint);
  }
  return done ? g_steal_pointer(&list) : NULL;
}

static gboolean is_there(BlStore *store, const char *id, gboolean *there, GError **error) {
  if (bl_manifest_exists(store, id, there, error)) return TRUE;
  g_prefix_error(error, "checkpoint \"%s\": ", id);
  return FALSE;
}

/* "a (READY), b (FAILED)". Caller frees. */
static char *describe_choices(const GPtrArray *checkpoints) {
  GString *text = g_string_new(NULL);
  for (guint i = 0; i < checkpoints->len && i < MAX_CHOICES; i++) {
    const BlCheckpoint *checkpoint = g_ptr_array_index(checkpoints, i);
    g_string_append_printf(text, "%s\"%s\" (%s)", i > 0 ? ", " : "", checkpoint->checkpoint_id,
                           bl_checkpoint_status_name(checkpoint->status));
  }
  if (checkpoints->len > MAX_CHOICES)
    g_string_append_printf(text, " and %u more", checkpoints->len - MAX_CHOICES);
  return g_string_free(text, FALSE);
}

/* Whether text can be a commit, or the beginning of one. */
static gboolean may_be_commit(const char *text) {
  gsize size = strlen(text);
  return size >= COMMIT_DIGITS_MIN && size <= COMMIT_DIGITS &&
         strspn(text, "0123456789abcdef") == size;
}

/* A checkpoint that cannot be read has no commit; that is no reason not to find another. */
static gboolean has_commit(BlStore *store, const char *id, const char *text, gboolean *has,
                           GError **error) {
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlManifest) manifest = bl_manifest_load(store, id, 0, &fault);
  g_autoptr(BlInfo) info = manifest != NULL ? bl_info_load(store, manifest, &fault) : NULL;
  *has = info != NULL && info->commit != NULL && g_str_has_prefix(info->commit, text);
  if (info != NULL || bl_catalog_is_fault_of_one(fault) ||
      g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

typedef enum { BY_ANYTHING, BY_REVISION, BY_COMMIT } Match;

/* The READY and DEGRADED checkpoints among `all` that match; borrowed elements. */
static GPtrArray *filter(BlStore *store, const GPtrArray *all, Match match, const char *text,
                         GError **error) {
  g_autoptr(GPtrArray) found = g_ptr_array_new();
  for (guint i = 0; i < all->len; i++) {
    BlCheckpoint *checkpoint = g_ptr_array_index(all, i);
    if (checkpoint->status > BL_CHECKPOINT_DEGRADED) continue;
    gboolean is_match = match == BY_ANYTHING || g_strcmp0(checkpoint->revision, text) == 0;
    if (match == BY_COMMIT && !has_commit(store, checkpoint->checkpoint_id, text, &is_match, error))
      return NULL;
    if (is_match) g_ptr_array_add(found, checkpoint);
  }
  return g_steal_pointer(&found);
}

/* The id of the one found; else an error: INVALID for several, NOT_FOUND for none, naming what
 * there is. */
static char *take_only(const BlStore *store, const GPtrArray *found, const GPtrArray *all,
                       const char *name, GError **error) {
  g_autofree char *shown = bl_path_display(name);
  if (found->len == 1)
    return g_strdup(((const BlCheckpoint *)g_ptr_array_index(found, 0))->checkpoint_id);
  g_autofree char *choices = describe_choices(found->len > 1 ? found : all);
  if (found->len > 1)
    bl_error_set(
        error, BL_ERROR_INVALID,
        "\"%s\" may mean %s (name one by its id, or set a ref: \"ballast model tag ID main\")",
        shown, choices);
  else if (all->len > 0)
    bl_error_set(error, BL_ERROR_NOT_FOUND,
                 "no READY checkpoint is \"%s\"; of its model there is %s", shown, choices);
  else
    bl_error_set(error, BL_ERROR_NOT_FOUND,
                 "no checkpoint, and no model, \"%s\" in %s (\"ballast model list\" shows what is "
                 "there)",
                 shown, store->url);
  return NULL;
}

/* What the ref object names. NULL without an error where there is no such ref. */
static char *resolve_ref(BlStore *store, const char *model_id, const char *ref, GError **error) {
  g_autofree char *id = bl_ref_get(store, model_id, ref, error);
  gboolean there;
  if (id == NULL || !is_there(store, id, &there, error)) return NULL;
  if (there) return g_steal_pointer(&id);
  bl_error_set(error, BL_ERROR_NOT_FOUND,
               "ref \"%s\" of model \"%s\" names checkpoint \"%s\", which is gone (name "
               "another by its id, or set the ref: \"ballast model tag --move ID %s\")",
               ref, model_id, id, ref);
  return NULL;
}

/* ref NULL: none was named. */
static char *resolve_model(BlStore *store, const char *model_id, const char *ref, const char *name,
                           GError **error) {
  g_autoptr(GError) fault = NULL;
  char *id = resolve_ref(store, model_id, ref != NULL ? ref : "main", &fault);
  if (id != NULL) return id;
  if (fault != NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return NULL;
  }
  g_autoptr(GPtrArray) all = bl_catalog_list(store, model_id, NULL, error);
  if (all == NULL) return NULL;
  g_autoptr(GPtrArray) found =
      filter(store, all, ref != NULL ? BY_REVISION : BY_ANYTHING, ref, error);
  if (found != NULL && found->len == 0 && ref != NULL && may_be_commit(ref)) {
    g_ptr_array_free(found, TRUE);
    found = filter(store, all, BY_COMMIT, ref, error);
  }
  return found != NULL ? take_only(store, found, all, name, error) : NULL;
}

/* MODEL_ID, or MODEL_ID@REF; last, a model id that holds an "@" itself. */
static char *resolve_name(BlStore *store, const char *name, GError **error) {
  if (!bl_model_id_check(name, error)) return NULL;
  const char *at = strrchr(name, '@');
  if (at == NULL || at == name || at[1] == '\0')
    return resolve_model(store, name, NULL, name, error);
  g_autofree char *model_id = g_strndup(name, (gsize)(at - name));
  g_autoptr(GError) fault = NULL;
  char *id = resolve_model(store, model_id, at + 1, name, &fault);
  if (id == NULL && g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
    id = resolve_model(store, name, NULL, name, NULL);
  if (id == NULL) g_propagate_error(error, g_steal_pointer(&fault));
  return id;
}

/* A commit, or the beginning of one, of whatever model. NULL without an error where it is none. */
static char *resolve_commit(BlStore *store, const char *name, GError **error) {
  if (!may_be_commit(name)) return NULL;
  g_autoptr(GPtrArray) all = bl_catalog_list(store, NULL, NULL, error);
  g_autoptr(GPtrArray) found = all != NULL ? filter(store, all, BY_COMMIT, name, error) : NULL;
  return found != NULL && found->len > 0 ? take_only(store, found, all, name, error) : NULL;
}

char *bl_catalog_resolve(BlStore *store, const char *name, GError **error) {
  gboolean is_id = bl_checkpoint_id_check(name, NULL), there = FALSE;
  if (is_id && !is_there(store, name, &there, error)) return NULL;
  if (there) return g_strdup(name);
  g_autoptr(GError) fault = NULL;
  char *id = resolve_name(store, name, &fault);
  if (id == NULL && g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) {
    g_autoptr(GError) commit_fault = NULL;
    id = resolve_commit(store, name, &commit_fault);
    if (commit_fault != NULL) {
      g_propagate_error(error, g_steal_pointer(&commit_fault));
      return NULL;
    }
  }
  if (id != NULL) return id;
  /* Leftovers go by their id, for delete's sake. */
  if (is_id && g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND) &&
      bl_store_can(store, BL_STORE_CAN_LIST)) {
    g_autoptr(BlCheckpoint) leftover = NULL;
    if (!look_at(store, name, NULL, &leftover, error)) return NULL;
    if (leftover != NULL) return g_strdup(name);
  }
  g_propagate_error(error, g_steal_pointer(&fault));
  return NULL;
}
