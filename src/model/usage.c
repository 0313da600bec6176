#include "model/usage.h"

#include <string.h>

#include "base/error.h"
#include "model/key.h"
#include "model/object.h"

#define SCHEMA 1u
#define MAX_OBJECT 4096u

/* A delete removes the manifest first and this object last: whoever put it meanwhile sees that the
 * manifest is gone. */
static void remove_if_deleted(BlStore *store, const char *checkpoint_id) {
  BlKeyBuffer key;
  guint64 size;
  g_autoptr(GError) fault = NULL;
  if (!bl_store_size(store, bl_key_manifest(key, checkpoint_id), &size, &fault) &&
      g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
    (void)bl_store_remove(store, bl_key_used(key, checkpoint_id), NULL);
}

void bl_usage_record(BlStore *store, const char *checkpoint_id) {
  BlKeyBuffer key;
  if (bl_store_can(store, BL_STORE_IS_READ_ONLY)) return;
  g_autoptr(json_t) json =
      json_pack("{s:s, s:i, s:I}", "checkpoint_id", checkpoint_id, "schema_version", (int)SCHEMA,
                "used_at", (json_int_t)g_get_real_time());
  g_autofree char *text = bl_json_dump_compact(json);
  if (bl_store_put(store, bl_key_used(key, checkpoint_id), text, strlen(text),
                   BL_PUT_REPLACE | BL_PUT_VOLATILE, NULL))
    remove_if_deleted(store, checkpoint_id);
}

gint64 bl_usage_get(BlStore *store, const char *checkpoint_id) {
  BlKeyBuffer key;
  guint64 used_at;
  g_autoptr(json_t) json = bl_object_load_json(store, bl_key_used(key, checkpoint_id), MAX_OBJECT,
                                               SCHEMA, "last use", NULL);
  if (json == NULL || strcmp(bl_json_find_string(json, "checkpoint_id", ""), checkpoint_id) != 0 ||
      !bl_json_get_uint64(json, "used_at", &used_at, NULL))
    return 0;
  return (gint64)used_at;
}

BlManifest *bl_usage_open(BlStore *store, const char *checkpoint_id, BlStoreHold **hold,
                          GError **error) {
  *hold = bl_usage_hold(store, checkpoint_id);
  BlManifest *manifest = bl_manifest_load_ready(store, checkpoint_id, error);
  if (manifest != NULL) bl_usage_record(store, checkpoint_id);
  return manifest;
}

BlStoreHold *bl_usage_hold(BlStore *store, const char *checkpoint_id) {
  BlKeyBuffer key;
  if (!bl_store_can(store, BL_STORE_CAN_HOLD)) return NULL;
  return bl_store_hold_shared(store, bl_key_manifest(key, checkpoint_id), NULL);
}
