#include "model/tag.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/key.h"
#include "model/manifest.h"
#include "model/ref.h"

#define COMMIT_DIGITS 40
/* A ref that is removed between two looks each time is being played with. */
#define MAX_TRIES 8

void bl_tag_result_clear(BlTagResult *result) {
  g_clear_pointer(&result->model_id, g_free);
  g_clear_pointer(&result->previous, g_free);
}

gboolean bl_tag_check(const char *ref, GError **error) {
  if (!bl_model_id_check(ref, error)) {
    g_prefix_error(error, "ref: ");
    return FALSE;
  }
  g_autofree char *shown = bl_path_display(ref);
  if (strlen(ref) == COMMIT_DIGITS && strspn(ref, "0123456789abcdefABCDEF") == COMMIT_DIGITS)
    return bl_error_set(
        error, BL_ERROR_INVALID,
        "ref \"%s\" looks like a commit, which names a checkpoint by itself (choose "
        "another name)",
        shown);
  return strchr(ref, '@') == NULL ||
         bl_error_set(error, BL_ERROR_INVALID,
                      "ref \"%s\" has an \"@\", so that MODEL_ID@REF could not name it (choose "
                      "another name)",
                      shown);
}

/* Puts the ref; *previous as it was. */
static gboolean put(BlStore *store, const char *model_id, const char *ref,
                    const char *checkpoint_id, gboolean move, char **previous, GError **error) {
  for (int i = 0; i < MAX_TRIES; i++) {
    g_autoptr(GError) fault = NULL;
    g_clear_pointer(previous, g_free);
    *previous = bl_ref_get(store, model_id, ref, &fault);
    /* A damaged one means nothing: it is replaced by who asks for that. */
    gboolean is_damaged = g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT);
    if (fault != NULL && !(is_damaged && move)) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return FALSE;
    }
    if (g_strcmp0(*previous, checkpoint_id) == 0) return TRUE;
    if (*previous != NULL && !move)
      return bl_error_set(error, BL_ERROR_EXISTS,
                          "ref \"%s\" of model \"%s\" means checkpoint \"%s\" (--move gives it to "
                          "\"%s\")",
                          ref, model_id, *previous, checkpoint_id);
    if (move) return bl_ref_set(store, model_id, ref, checkpoint_id, error);
    g_clear_error(&fault);
    if (bl_ref_create(store, model_id, ref, checkpoint_id, &fault)) return TRUE;
    if (g_error_matches(fault, BL_ERROR, BL_ERROR_EXISTS)) continue; /* another was faster */
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  return bl_error_set(error, BL_ERROR_BUSY,
                      "ref \"%s\" of model \"%s\" is set and removed by others all the time", ref,
                      model_id);
}

/* A delete marks the manifest before it looks for refs: where the manifest is READY still, that
 * delete is yet to come and will find ours. */
static gboolean check_still_there(BlStore *store, const char *model_id, const char *ref,
                                  const char *checkpoint_id, GError **error) {
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlManifest) manifest =
      bl_manifest_load(store, checkpoint_id, BL_MANIFEST_HEADER_ONLY, &fault);
  if (manifest != NULL && manifest->is_ready) return TRUE;
  if (manifest == NULL && !g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (!bl_ref_remove_if(store, model_id, ref, checkpoint_id, error)) return FALSE;
  return bl_error_set(error, BL_ERROR_NOT_FOUND,
                      "checkpoint \"%s\" was deleted meanwhile; ref \"%s\" was removed again",
                      checkpoint_id, ref);
}

gboolean bl_tag_set(BlStore *store, const char *checkpoint_id, const char *ref, gboolean move,
                    BlTagResult *result, GError **error) {
  if (!bl_tag_check(ref, error)) return FALSE;
  g_autoptr(BlManifest) manifest = bl_manifest_load_ready(store, checkpoint_id, error);
  if (manifest == NULL) return FALSE;
  *result = (BlTagResult){.model_id = g_strdup(manifest->model_id)};
  if (!put(store, manifest->model_id, ref, checkpoint_id, move, &result->previous, error))
    return FALSE;
  gboolean is_same = g_strcmp0(result->previous, checkpoint_id) == 0;
  result->outcome = is_same                    ? BL_TAG_ALREADY_THERE
                    : result->previous != NULL ? BL_TAG_MOVED
                                               : BL_TAG_SET;
  return check_still_there(store, manifest->model_id, ref, checkpoint_id, error);
}
