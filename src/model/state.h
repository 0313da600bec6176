/* What upkeep records of a checkpoint: pinned or not, the last full check and what it found gone or
 * damaged. Object: `state`, docs/formats/model-cache.md. A checkpoint of which something is gone or
 * damaged is DEGRADED: it is not served until it is repaired. */
#pragma once
#include "base/job.h"
#include "store/store.h"

/* Paths kept in each list; more are only counted as this many. */
#define BL_STATE_MAX_PATHS 1000

typedef struct {
  gboolean is_pinned;
  gint64 checked_at;  /* Unix seconds of the last full verification; 0: never */
  GPtrArray *missing; /* of char*: paths of files with objects that are gone, sorted */
  GPtrArray *damaged; /* of char*: paths of files with other bytes, sorted */
} BlState;

BlState *bl_state_new(void);
void bl_state_free(BlState *state);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlState, bl_state_free)
static inline gboolean bl_state_is_degraded(const BlState *state) {
  return state->missing->len > 0 || state->damaged->len > 0;
}

/* An absent object gives an empty state. CORRUPT where it breaks its rules. */
BlState *bl_state_load(BlStore *store, const char *checkpoint_id, GError **error);

/* Changes the state; TRUE: it is to be saved. */
typedef gboolean (*BlStateFunc)(BlState *state, gpointer user);
/* Loads, changes and saves it under the checkpoint's claim. NOT_FOUND: no such checkpoint; BUSY
 * after wait_ms of another's claim. A damaged object is replaced by a new one, with a warning. */
gboolean bl_state_update(BlStore *store, const char *checkpoint_id, BlStateFunc func, gpointer user,
                         gint wait_ms, BlJob *job, GError **error);
/* The same for whoever holds the claim already. */
gboolean bl_state_update_claimed(BlStore *store, const char *checkpoint_id, BlStateFunc func,
                                 gpointer user, BlJob *job, GError **error);
