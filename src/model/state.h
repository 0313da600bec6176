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
/* Adds the path to one of the state's lists, in its place; FALSE where it stands there already, or
 * the list is full. */
gboolean bl_state_add_path(GPtrArray *list, const char *path);
gboolean bl_state_has_path(const GPtrArray *list, const char *path);
/* A BlStateFunc: nothing is gone or damaged any more. */
gboolean bl_state_clear_findings(BlState *state, gpointer unused);
/* "2 files missing, 1 damaged"; caller frees. */
char *bl_state_describe(const BlState *state);

/* An absent object gives an empty state. CORRUPT where it breaks its rules. */
BlState *bl_state_load(BlStore *store, const char *checkpoint_id, GError **error);
/* As load, for those who can do without: an object that is damaged, or a later version's, is noted
 * to the job and counts as absent. */
BlState *bl_state_load_usable(BlStore *store, const char *checkpoint_id, BlJob *job,
                              GError **error);
/* What readers ask who have no other source of the bytes: CORRUPT where the checkpoint is DEGRADED,
 * saying what is gone and how it is mended. */
gboolean bl_state_check_whole(BlStore *store, const char *checkpoint_id, BlJob *job,
                              GError **error);

/* Changes the state; TRUE: it is to be saved. */
typedef gboolean (*BlStateFunc)(BlState *state, gpointer user);
/* Loads, changes and saves it, durably, under the checkpoint's claim. NOT_FOUND: no such
 * checkpoint; BUSY after wait_ms of another's claim. A damaged object is replaced by a new one,
 * with a warning; a later version's is UNSUPPORTED. */
gboolean bl_state_update(BlStore *store, const char *checkpoint_id, BlStateFunc func, gpointer user,
                         gint wait_ms, BlJob *job, GError **error);
/* The same for whoever holds the claim already. Files that are taken off the lists are made durable
 * first. */
gboolean bl_state_update_claimed(BlStore *store, const char *checkpoint_id, BlStateFunc func,
                                 gpointer user, BlJob *job, GError **error);
