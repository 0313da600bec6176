/* When a checkpoint was last read, for prune. An object of its own, `weight/used/<id>`, replaced by
 * every pull, cat and materialize-file; docs/formats/model-cache.md. */
#pragma once
#include "model/manifest.h"

/* Records "now". Best effort: where the store cannot be written by this user, nothing happens. */
void bl_usage_record(BlStore *store, const char *checkpoint_id);
/* Unix time in microseconds; 0 where it was never read, or nobody could record it. */
gint64 bl_usage_get(BlStore *store, const char *checkpoint_id);

/* How a reader begins: holds the checkpoint, loads its manifest (bl_manifest_load_ready) and
 * records the use. *hold: as bl_usage_hold gives it, also where it fails. */
BlManifest *bl_usage_open(BlStore *store, const char *checkpoint_id, BlStoreHold **hold,
                          GError **error);

/* A reader's hold on a checkpoint (on its manifest): while one is there, prune leaves it alone.
 * NULL where the store has no holds. Freed with bl_store_hold_free. */
BlStoreHold *bl_usage_hold(BlStore *store, const char *checkpoint_id);
