#include "model/state.h"

#include <string.h>

#include "base/error.h"
#include "model/key.h"
#include "model/manifest.h"
#include "model/object.h"
#include "store/claim.h"

#define SCHEMA 1u
/* Bytes of paths kept in each list, so that a state stays a small object whatever the paths. */
#define MAX_LIST_BYTES (256u * 1024)
/* Both lists with every byte escaped in six characters. */
#define MAX_OBJECT (4u * 1024 * 1024)

BlState *bl_state_new(void) {
  BlState *state = g_new0(BlState, 1);
  state->missing = g_ptr_array_new_with_free_func(g_free);
  state->damaged = g_ptr_array_new_with_free_func(g_free);
  return state;
}

void bl_state_free(BlState *state) {
  if (state == NULL) return;
  g_ptr_array_unref(state->missing);
  g_ptr_array_unref(state->damaged);
  g_free(state);
}

/* Where the path stands, or would; *is_there tells which. */
static guint find_path(const GPtrArray *list, const char *path, gboolean *is_there) {
  guint low = 0, high = list->len;
  while (low < high) {
    guint middle = low + (high - low) / 2;
    if (strcmp(g_ptr_array_index(list, middle), path) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *is_there = low < list->len && strcmp(g_ptr_array_index(list, low), path) == 0;
  return low;
}

gboolean bl_state_has_path(const GPtrArray *list, const char *path) {
  gboolean is_there;
  find_path(list, path, &is_there);
  return is_there;
}

gboolean bl_state_add_path(GPtrArray *list, const char *path) {
  gboolean is_there;
  guint at = find_path(list, path, &is_there);
  if (is_there || list->len >= BL_STATE_MAX_PATHS) return FALSE;
  gsize n_bytes = strlen(path);
  for (guint i = 0; i < list->len; i++) n_bytes += strlen(g_ptr_array_index(list, i));
  if (n_bytes > MAX_LIST_BYTES) return FALSE;
  g_ptr_array_insert(list, (gint)at, g_strdup(path));
  return TRUE;
}

gboolean bl_state_clear_findings(BlState *state, gpointer unused) {
  (void)unused;
  gboolean has_any = bl_state_is_degraded(state);
  g_ptr_array_set_size(state->missing, 0);
  g_ptr_array_set_size(state->damaged, 0);
  return has_any;
}

char *bl_state_describe(const BlState *state) {
  guint n_missing = state->missing->len, n_damaged = state->damaged->len;
  const char *at_least = MAX(n_missing, n_damaged) >= BL_STATE_MAX_PATHS ? "at least " : "";
  if (n_damaged == 0)
    return g_strdup_printf("%s%u %s missing", at_least, n_missing,
                           n_missing == 1 ? "file" : "files");
  if (n_missing == 0)
    return g_strdup_printf("%s%u %s damaged", at_least, n_damaged,
                           n_damaged == 1 ? "file" : "files");
  return g_strdup_printf("%s%u %s missing, %u damaged", at_least, n_missing,
                         n_missing == 1 ? "file" : "files", n_damaged);
}

static gboolean fail(const char *what, const char *fault, GError **error) {
  return bl_error_set(error, BL_ERROR_CORRUPT, "%s: %s", what, fault);
}

static gboolean take_paths(const json_t *json, const char *member, GPtrArray *list,
                           const char *what, GError **error) {
  const json_t *array = json_object_get(json, member);
  if (!json_is_array(array) || json_array_size(array) > BL_STATE_MAX_PATHS)
    return fail(what, "\"missing\" or \"damaged\" is no array, or too long", error);
  for (size_t i = 0; i < json_array_size(array); i++) {
    const char *path = json_string_value(json_array_get(array, i));
    if (path == NULL || (i > 0 && strcmp(g_ptr_array_index(list, i - 1), path) >= 0))
      return fail(what, "\"missing\" or \"damaged\" holds more than sorted strings", error);
    g_ptr_array_add(list, g_strdup(path));
  }
  return TRUE;
}

static gboolean take_members(BlState *state, const json_t *json, const char *what, GError **error) {
  const json_t *pinned = json_object_get(json, "pinned");
  guint64 checked_at;
  if (!json_is_boolean(pinned)) return fail(what, "\"pinned\" is missing or no boolean", error);
  state->is_pinned = json_is_true(pinned);
  if (!bl_json_get_uint64(json, "checked_at", &checked_at, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  state->checked_at = (gint64)checked_at;
  return take_paths(json, "missing", state->missing, what, error) &&
         take_paths(json, "damaged", state->damaged, what, error);
}

BlState *bl_state_load(BlStore *store, const char *checkpoint_id, GError **error) {
  BlKeyBuffer key;
  g_autoptr(GError) fault = NULL;
  g_autofree char *what = g_strdup_printf("state of checkpoint \"%s\"", checkpoint_id);
  g_autoptr(json_t) json = bl_object_load_json(store, bl_key_state(key, checkpoint_id), MAX_OBJECT,
                                               SCHEMA, what, &fault);
  if (fault != NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return NULL;
  }
  g_autoptr(BlState) state = bl_state_new();
  if (json != NULL && !take_members(state, json, what, error)) return NULL;
  return g_steal_pointer(&state);
}

BlState *bl_state_load_usable(BlStore *store, const char *checkpoint_id, BlJob *job,
                              GError **error) {
  g_autoptr(GError) fault = NULL;
  BlState *state = bl_state_load(store, checkpoint_id, &fault);
  if (state != NULL) return state;
  return bl_object_do_without(g_steal_pointer(&fault), job, error) ? bl_state_new() : NULL;
}

gboolean bl_state_check_whole(BlStore *store, const char *checkpoint_id, BlJob *job,
                              GError **error) {
  g_autoptr(BlState) state = bl_state_load_usable(store, checkpoint_id, job, error);
  if (state == NULL) return FALSE;
  if (!bl_state_is_degraded(state)) return TRUE;
  g_autofree char *found = bl_state_describe(state);
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "checkpoint \"%s\" is DEGRADED: %s in the store (\"ballast model repair %s\" "
                      "mends it, --fallback reads from a second store)",
                      checkpoint_id, found, checkpoint_id);
}

static json_t *paths_to_json(const GPtrArray *list) {
  json_t *array = json_array();
  for (guint i = 0; i < list->len; i++)
    json_array_append_new(array, json_string(g_ptr_array_index(list, i)));
  return array;
}

static gboolean save(BlStore *store, const char *checkpoint_id, const BlState *state,
                     GError **error) {
  BlKeyBuffer key;
  g_autoptr(json_t) json = json_object();
  json_object_set_new(json, "checked_at", json_integer(state->checked_at));
  json_object_set_new(json, "damaged", paths_to_json(state->damaged));
  json_object_set_new(json, "missing", paths_to_json(state->missing));
  json_object_set_new(json, "pinned", json_boolean(state->is_pinned));
  json_object_set_new(json, "schema_version", json_integer(SCHEMA));
  g_autofree char *text = bl_json_dump_compact(json);
  if (bl_store_put(store, bl_key_state(key, checkpoint_id), text, strlen(text),
                   BL_PUT_REPLACE | BL_PUT_DURABLE, error))
    return TRUE;
  g_prefix_error(error, "checkpoint \"%s\": writing its state: ", checkpoint_id);
  return FALSE;
}

/* What the state is changed from: a damaged object tells nothing any more. *is_lost: it was one. */
static BlState *load_to_change(BlStore *store, const char *checkpoint_id, gboolean *is_lost,
                               BlJob *job, GError **error) {
  g_autoptr(GError) fault = NULL;
  BlState *state = bl_state_load(store, checkpoint_id, &fault);
  *is_lost = g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT);
  if (state != NULL) return state;
  if (!*is_lost) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return NULL;
  }
  bl_job_note(job, BL_NOTE_WARNING, "%s: it is written anew; what it said, a pin too, is lost",
              fault->message);
  return bl_state_new();
}

static void add_copies(GPtrArray *paths, const GPtrArray *list) {
  for (guint i = 0; i < list->len; i++)
    g_ptr_array_add(paths, g_strdup(g_ptr_array_index(list, i)));
}

static gboolean adopt_file(BlStore *store, const BlManifest *manifest, const BlManifestFile *file,
                           GError **error) {
  char key[BL_KEY_MAX];
  for (guint32 i = 0; i < file->n_chunks; i++) {
    g_autoptr(GError) fault = NULL;
    bl_manifest_chunk_key(manifest, file, i, key);
    if (bl_store_adopt(store, key, &fault) || g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
      continue;
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  return TRUE;
}

/* A file that was bad and is right may have been mended by a process that was killed before it made
 * that durable: it must be before the finding goes. */
static gboolean settle(BlStore *store, const char *checkpoint_id, const GPtrArray *before,
                       const BlState *now, GError **error) {
  g_autoptr(BlManifest) manifest = NULL;
  for (guint i = 0; i < before->len; i++) {
    const char *path = g_ptr_array_index(before, i);
    if (bl_state_has_path(now->missing, path) || bl_state_has_path(now->damaged, path)) continue;
    if (manifest == NULL) manifest = bl_manifest_load(store, checkpoint_id, 0, error);
    if (manifest == NULL) return FALSE;
    const BlManifestFile *file = bl_manifest_find(manifest, path);
    if (file != NULL && !adopt_file(store, manifest, file, error)) return FALSE;
  }
  return manifest == NULL || bl_store_sync(store, error);
}

gboolean bl_state_update_claimed(BlStore *store, const char *checkpoint_id, BlStateFunc func,
                                 gpointer user, BlJob *job, GError **error) {
  gboolean is_lost;
  g_autoptr(BlState) state = load_to_change(store, checkpoint_id, &is_lost, job, error);
  if (state == NULL) return FALSE;
  g_autoptr(GPtrArray) before = g_ptr_array_new_with_free_func(g_free);
  add_copies(before, state->missing);
  add_copies(before, state->damaged);
  if (!func(state, user) && !is_lost) return TRUE;
  return settle(store, checkpoint_id, before, state, error) &&
         save(store, checkpoint_id, state, error);
}

/* A claim would make the folder of a checkpoint that is not there. */
static gboolean check_there(BlStore *store, const char *checkpoint_id, GError **error) {
  BlKeyBuffer key;
  guint64 size;
  g_autoptr(GError) fault = NULL;
  if (bl_store_size(store, bl_key_manifest(key, checkpoint_id), &size, &fault)) return TRUE;
  if (!g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  return bl_error_set(
      error, BL_ERROR_NOT_FOUND,
      "store %s has no checkpoint \"%s\" (\"ballast model list\" shows what it has)", store->url,
      checkpoint_id);
}

gboolean bl_state_update(BlStore *store, const char *checkpoint_id, BlStateFunc func, gpointer user,
                         gint wait_ms, BlJob *job, GError **error) {
  BlKeyBuffer prefix;
  if (!bl_checkpoint_id_check(checkpoint_id, error) || !check_there(store, checkpoint_id, error))
    return FALSE;
  BlClaim *claim =
      bl_claim_acquire(store, bl_key_prefix(prefix, checkpoint_id), "state", wait_ms, job, error);
  if (claim == NULL) return FALSE;
  /* It may have been deleted before the claim was ours. */
  gboolean ok = check_there(store, checkpoint_id, error) &&
                bl_store_sweep(store, prefix, NULL, error) &&
                bl_state_update_claimed(store, checkpoint_id, func, user, job, error);
  return bl_claim_release(claim, ok ? error : NULL) && ok;
}
