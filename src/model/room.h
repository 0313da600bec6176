/* Room in a store that has a limit (max_bytes): what it holds, and what running imports may still
 * put. Distinct files count, once each, however many objects share them; control objects too.
 *
 * A reservation is an object beside the checkpoint's manifest, written under a store-wide claim, so
 * that of several imports at once only those start that all have room. One whose claim is dead
 * counts no more. */
#pragma once
#include "base/job.h"
#include "store/store.h"

/* Reserves n_bytes more, control objects included, for the checkpoint, whose claim the caller
 * holds: NO_SPACE, naming limit, bytes held and reserved, and what to do, where they do not fit;
 * BUSY where others ask for room for a minute. Called again for the same checkpoint it replaces the
 * reservation, which then counts from what the checkpoint has by then. Nothing is done on a store
 * without a limit. */
gboolean bl_room_reserve(BlStore *store, const char *checkpoint_id, guint64 n_bytes, BlJob *job,
                         GError **error);
/* Ends the reservation, if there is one. */
gboolean bl_room_release(BlStore *store, const char *checkpoint_id, GError **error);
/* Bytes of distinct files that the store holds now, temporaries included. */
gboolean bl_room_used(BlStore *store, guint64 *n_bytes, GError **error);
