/* A claim: "I am changing this checkpoint". Politeness between importers; digests bound to the
 * manifest are the safety.
 *
 * The object `<prefix>claim` is put once and, where the store can, held by a lock for as long as
 * its owner lives; its heartbeat,
 * `<prefix>claim-beat/<token>`, is replaced every 5 s by a thread. docs/architecture.md, "Claims",
 * has the rules for taking over. */
#pragma once
#include "base/job.h"
#include "store/store.h"

typedef struct BlClaim BlClaim;

/* prefix ends in "/". operation: "import", "delete", … wait_ms: how long to wait for a live owner;
 * 0: not at all, -1: for ever. A dead owner's claim is taken over. Where its death cannot be
 * proved, its heartbeat is watched (30 s; a note says so). BUSY: names host, pid, operation and
 * since when. */
BlClaim *bl_claim_acquire(BlStore *store, const char *prefix, const char *operation, gint wait_ms,
                          BlJob *job, GError **error);
const char *bl_claim_token(const BlClaim *claim);
/* Whether the object under the key is part of this claim: itself or its heartbeat. Others below the
 * prefix that begin with "claim" are a dead owner's. */
gboolean bl_claim_owns(const BlClaim *claim, const char *key);
/* BUSY once the claim is no longer ours, or could not be renewed for 20 s. Cheap; called between
 * steps and right before publishing. */
gboolean bl_claim_check(BlClaim *claim, GError **error);
/* Removes beat and claim. Frees in any case. */
gboolean bl_claim_release(BlClaim *claim, GError **error);

typedef enum { BL_CLAIM_NONE, BL_CLAIM_LIVE, BL_CLAIM_DEAD, BL_CLAIM_UNKNOWN } BlClaimState;
/* Who holds it, without waiting or writing: UNKNOWN where only a heartbeat could tell. *owner (may
 * be NULL): "import by host h, pid n, since …", caller frees. */
gboolean bl_claim_peek(BlStore *store, const char *prefix, BlClaimState *state, char **owner,
                       char **operation, GError **error);

/* For tests: the heartbeat's interval, the time within which an owner must renew, the time a
 * heartbeat is watched, in milliseconds (5,000, 20,000, 30,000). Before any claim. */
void bl_claim_set_times(gint beat_every, gint renew_within, gint watch);
