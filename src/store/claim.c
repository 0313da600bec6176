/* Claims.
 *
 *   absent --put--> ours --release--> absent
 *     ^               |
 *     |               | (its owner is dead: moved to claim.dead-<its token>)
 *     +---------------+
 *
 * Taking over. A claim whose owner is dead is renamed to a name made of its token: of several
 * takers one wins, the others look again. A taker that was asleep between looking and renaming may
 * have moved a newer claim; it sees that by the token of what it moved, and puts it back.
 *
 * Life. The claim is held by a lock from the instant it is visible (bl_store_put_held) and a thread
 * replaces the heartbeat. What proves death is judged in `judge`; where nothing proves it, an
 * unchanged heartbeat over WATCH by our own monotonic clock does. An owner that could not renew for
 * RENEW_WITHIN, which is less, must stop by itself.
 *
 * Threads: the heartbeat thread and the owner share `lock`. */
#include "store/claim.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "store/owner.h"

/* Control objects of this kind are some 300 bytes. */
#define MAX_CLAIM_SIZE 4096
#define MAX_BEAT_SIZE 64

static gint beat_every_ms = 5 * 1000;
static gint renew_within_ms = 20 * 1000;
static gint watch_ms = 30 * 1000;

struct BlClaim {
  BlStore *store;
  char *key, *beat_key;
  BlOwner *owner;
  BlStoreHold *hold; /* NULL where the store cannot hold */
  GThread *thread;
  GMutex lock; /* protects what follows */
  GCond stop_cond;
  gboolean stop, is_lost;
  gint64 renewed_at; /* monotonic microseconds */
  guint64 n_beats;
};

void bl_claim_set_times(gint beat, gint renew, gint watch) {
  beat_every_ms = beat;
  renew_within_ms = renew;
  watch_ms = watch;
}

static char *make_beat_key(const char *prefix, const char *token) {
  return g_strconcat(prefix, "claim-beat/", token, NULL);
}

/* The claim that is there, or NULL where there is none (without error). An empty one is in flight
 * on some stores: read again. */
static BlOwner *load_owner(BlStore *store, const char *key, GError **error) {
  for (int i = 0;; i++) {
    g_autofree char *data = NULL;
    gsize size;
    g_autoptr(GError) fault = NULL;
    if (!bl_store_load(store, key, MAX_CLAIM_SIZE, &data, &size, &fault)) {
      if (!g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
        g_propagate_error(error, g_steal_pointer(&fault));
      return NULL;
    }
    if (size > 0 || i == 10) return bl_owner_from_json(data, size);
    g_usleep(20 * 1000);
  }
}

/* Whether the claim under the key is the one we put. */
static gboolean check_ours(BlClaim *claim, GError **error) {
  if (claim->hold != NULL) return bl_store_hold_check(claim->hold, error);
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlOwner) owner = load_owner(claim->store, claim->key, &fault);
  if (fault != NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (owner != NULL && strcmp(owner->token, claim->owner->token) == 0) return TRUE;
  return bl_error_set(error, BL_ERROR_BUSY, "the claim %s was taken over by another process",
                      claim->key);
}

static gboolean beat(BlClaim *claim, GError **error) {
  char text[32];
  g_snprintf(text, sizeof text, "%" G_GUINT64_FORMAT, ++claim->n_beats);
  return bl_store_put(claim->store, claim->beat_key, text, strlen(text),
                      BL_PUT_REPLACE | BL_PUT_VOLATILE, error);
}

static gpointer beat_thread(gpointer data) {
  BlClaim *claim = data;
  g_mutex_lock(&claim->lock);
  while (!claim->stop) {
    gint64 until = g_get_monotonic_time() + (gint64)beat_every_ms * 1000;
    while (!claim->stop && g_cond_wait_until(&claim->stop_cond, &claim->lock, until)) {
    }
    if (claim->stop) break;
    g_mutex_unlock(&claim->lock);
    g_autoptr(GError) fault = NULL;
    gint64 now = g_get_monotonic_time();
    gboolean ok = check_ours(claim, &fault) && beat(claim, &fault);
    g_mutex_lock(&claim->lock);
    if (ok) claim->renewed_at = now;
    if (!ok && g_error_matches(fault, BL_ERROR, BL_ERROR_BUSY)) claim->is_lost = TRUE;
  }
  g_mutex_unlock(&claim->lock);
  return NULL;
}

static gboolean start_beating(BlClaim *claim, GError **error) {
  g_autoptr(GError) fault = NULL;
  if (!beat(claim, error)) return FALSE;
  claim->thread = g_thread_try_new("claim-beat", beat_thread, claim, &fault);
  return claim->thread != NULL ||
         bl_error_set(error, BL_ERROR_IO, "cannot start the claim's thread: %s", fault->message);
}

static void claim_free(BlClaim *claim) {
  if (claim->hold != NULL) bl_store_hold_free(claim->hold);
  bl_owner_free(claim->owner);
  g_mutex_clear(&claim->lock);
  g_cond_clear(&claim->stop_cond);
  g_free(claim->key);
  g_free(claim->beat_key);
  g_free(claim);
}

/* One attempt to put ours. EXISTS where another's is there. */
static BlClaim *try_put(BlStore *store, const char *prefix, const char *operation, GError **error) {
  BlClaim *claim = g_new0(BlClaim, 1);
  claim->store = store;
  claim->owner = bl_owner_new_self(operation);
  claim->key = g_strconcat(prefix, "claim", NULL);
  claim->beat_key = make_beat_key(prefix, claim->owner->token);
  g_mutex_init(&claim->lock);
  g_cond_init(&claim->stop_cond);
  g_autofree char *text = bl_owner_to_json(claim->owner);
  gboolean ok;
  if (bl_store_can(store, BL_STORE_CAN_HOLD)) {
    claim->hold = bl_store_put_held(store, claim->key, text, strlen(text), error);
    ok = claim->hold != NULL;
  } else {
    /* Where two puts may both be answered "done", only reading back one's own token wins. */
    ok = bl_store_put(store, claim->key, text, strlen(text), BL_PUT_VOLATILE, error);
    if (ok && !check_ours(claim, NULL))
      ok = bl_error_set(error, BL_ERROR_EXISTS, "another's claim is at %s", claim->key);
  }
  claim->renewed_at = g_get_monotonic_time();
  if (ok && !start_beating(claim, error)) {
    (void)bl_store_remove(store, claim->beat_key, NULL);
    (void)bl_store_remove(store, claim->key, NULL);
    ok = FALSE;
  }
  if (ok) return claim;
  claim_free(claim);
  return NULL;
}

/* What is known of the owner without watching its heartbeat. A lock is as good as its owner's life
 * where locks work, but across boots only a held one says something; and one that is free though
 * its owner's process lives may have been lost (a file server does that). */
static BlClaimState judge(BlStore *store, const char *key, const BlOwner *owner) {
  BlOwnerState state = bl_owner_judge(owner);
  BlHoldState hold = BL_HOLD_UNKNOWN;
  if (bl_store_can(store, BL_STORE_CAN_HOLD) && !bl_store_is_held(store, key, &hold, NULL))
    return BL_CLAIM_UNKNOWN;
  if (hold == BL_HOLD_HELD) return BL_CLAIM_LIVE;
  if (hold == BL_HOLD_FREE && state == BL_OWNER_ALIVE && owner->pid != (guint64)getpid())
    return BL_CLAIM_UNKNOWN;
  if (hold == BL_HOLD_FREE && state != BL_OWNER_ELSEWHERE) return BL_CLAIM_DEAD;
  if (state == BL_OWNER_ALIVE) return BL_CLAIM_LIVE;
  return state == BL_OWNER_DEAD ? BL_CLAIM_DEAD : BL_CLAIM_UNKNOWN;
}

static char *load_beat(BlStore *store, const char *prefix, const BlOwner *owner) {
  g_autofree char *key = make_beat_key(prefix, owner->token);
  char *data = NULL;
  gsize size;
  return bl_store_load(store, key, MAX_BEAT_SIZE, &data, &size, NULL) ? data : g_strdup("");
}

static gboolean is_still_there(BlStore *store, const char *key, const BlOwner *owner) {
  g_autoptr(BlOwner) now = load_owner(store, key, NULL);
  return now != NULL && strcmp(now->token, owner->token) == 0;
}

/* Watches the heartbeat until it changes (LIVE), stays for watch_ms (DEAD) or the claim goes
 * (NONE). */
static gboolean watch(BlStore *store, const char *prefix, const char *key, const BlOwner *owner,
                      BlJob *job, BlClaimState *state, GError **error) {
  g_autofree char *who = bl_owner_describe(owner);
  bl_job_note(job, BL_NOTE_INFO, "claimed: %s; watching its heartbeat for up to %d s", who,
              watch_ms / 1000);
  g_autofree char *first = load_beat(store, prefix, owner);
  gint64 until = g_get_monotonic_time() + (gint64)watch_ms * 1000;
  *state = BL_CLAIM_DEAD;
  while (g_get_monotonic_time() < until) {
    if (!bl_job_check(job, error)) return FALSE;
    g_usleep((gulong)MIN(watch_ms * 1000 / 20, 250 * 1000));
    g_autofree char *now = load_beat(store, prefix, owner);
    if (!is_still_there(store, key, owner)) {
      *state = BL_CLAIM_NONE;
      return TRUE;
    }
    if (strcmp(first, now) != 0) {
      *state = BL_CLAIM_LIVE;
      return TRUE;
    }
  }
  return TRUE;
}

/* Removes a dead owner's claim. Success also where another taker was faster. */
static gboolean bury(BlStore *store, const char *prefix, const char *key, const BlOwner *owner,
                     GError **error) {
  g_autofree char *beat_key = make_beat_key(prefix, owner->token);
  if (!bl_store_can(store, BL_STORE_CAN_MOVE))
    return bl_store_remove(store, key, error) && bl_store_remove(store, beat_key, error);
  g_autofree char *grave = g_strconcat(prefix, "claim.dead-", owner->token, NULL);
  g_autoptr(GError) fault = NULL;
  if (!bl_store_move(store, key, grave, &fault)) {
    if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
    if (!g_error_matches(fault, BL_ERROR, BL_ERROR_EXISTS)) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return FALSE;
    }
    /* A taker was killed after its move and before it removed the grave; the claim there now is
     * judged anew. */
    return bl_store_remove(store, grave, error);
  }
  g_autoptr(BlOwner) moved = load_owner(store, grave, NULL);
  if (moved != NULL && strcmp(moved->token, owner->token) != 0)
    return bl_store_move(store, grave, key, error);
  return bl_store_remove(store, grave, error) && bl_store_remove(store, beat_key, error);
}

static gboolean set_busy(GError **error, const char *prefix, const BlOwner *owner) {
  g_autofree char *who = bl_owner_describe(owner);
  const char *name = prefix;
  const char *slash;
  while ((slash = strchr(name, '/')) != NULL && slash[1] != '\0') name = slash + 1;
  return bl_error_set(error, BL_ERROR_BUSY, "\"%.*s\" is busy: %s (try again later, or add --wait)",
                      (int)strcspn(name, "/"), name, who);
}

/* Deals with the claim that is in the way: TRUE to try again at once. */
static gboolean clear_way(BlStore *store, const char *prefix, const char *key, gint64 deadline,
                          BlJob *job, GError **error) {
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlOwner) owner = load_owner(store, key, &fault);
  if (fault != NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (owner == NULL) return TRUE;
  BlClaimState state = judge(store, key, owner);
  if (state == BL_CLAIM_UNKNOWN && !watch(store, prefix, key, owner, job, &state, error))
    return FALSE;
  if (state == BL_CLAIM_NONE) return TRUE;
  if (state == BL_CLAIM_DEAD) return bury(store, prefix, key, owner, error);
  if (g_get_monotonic_time() >= deadline) return set_busy(error, prefix, owner);
  g_usleep(200 * 1000);
  return TRUE;
}

typedef struct {
  const BlClaim *claim;
  gsize prefix_size;
  GPtrArray *keys; /* of char* */
} Strays;

static gboolean collect_stray(const char *key, const BlObjectStat *object, gpointer user,
                              GError **error) {
  Strays *strays = user;
  const char *rest = key + strays->prefix_size;
  (void)object;
  (void)error;
  gboolean is_beat = g_str_has_prefix(rest, "claim-beat/");
  if ((is_beat && strcmp(key, strays->claim->beat_key) != 0) ||
      g_str_has_prefix(rest, "claim.dead-"))
    g_ptr_array_add(strays->keys, g_strdup(key));
  return TRUE;
}

/* Owners and takers that were killed leave heartbeats and graves. Whoever owns the claim removes
 * them; what cannot be removed waits for the next owner. A grave may hold our own claim, moved by a
 * taker that will put it back. */
static void remove_strays(const BlClaim *claim, const char *prefix) {
  if (!bl_store_can(claim->store, BL_STORE_CAN_LIST)) return;
  g_autoptr(GPtrArray) keys = g_ptr_array_new_with_free_func(g_free);
  Strays strays = {.claim = claim, .prefix_size = strlen(prefix), .keys = keys};
  (void)bl_store_list(claim->store, prefix, collect_stray, &strays, NULL);
  for (guint i = 0; i < keys->len; i++) {
    const char *key = g_ptr_array_index(keys, i);
    g_autoptr(BlOwner) owner = load_owner(claim->store, key, NULL);
    if (owner == NULL || strcmp(owner->token, claim->owner->token) != 0)
      (void)bl_store_remove(claim->store, key, NULL);
  }
}

BlClaim *bl_claim_acquire(BlStore *store, const char *prefix, const char *operation, gint wait_ms,
                          BlJob *job, GError **error) {
  gint64 deadline = wait_ms < 0 ? G_MAXINT64 : g_get_monotonic_time() + (gint64)wait_ms * 1000;
  g_autofree char *key = g_strconcat(prefix, "claim", NULL);
  for (;;) {
    g_autoptr(GError) fault = NULL;
    BlClaim *claim = try_put(store, prefix, operation, &fault);
    if (claim != NULL) {
      remove_strays(claim, prefix);
      return claim;
    }
    if (!g_error_matches(fault, BL_ERROR, BL_ERROR_EXISTS)) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return NULL;
    }
    if (!bl_job_check(job, error) || !clear_way(store, prefix, key, deadline, job, error))
      return NULL;
  }
}

const char *bl_claim_token(const BlClaim *claim) {
  return claim->owner->token;
}

gboolean bl_claim_owns(const BlClaim *claim, const char *key) {
  return strcmp(key, claim->key) == 0 || strcmp(key, claim->beat_key) == 0;
}

gboolean bl_claim_check(BlClaim *claim, GError **error) {
  g_mutex_lock(&claim->lock);
  gboolean is_lost = claim->is_lost;
  gint64 age_ms = (g_get_monotonic_time() - claim->renewed_at) / 1000;
  g_mutex_unlock(&claim->lock);
  if (is_lost)
    return bl_error_set(error, BL_ERROR_BUSY, "the claim %s was taken over by another process",
                        claim->key);
  if (age_ms > renew_within_ms)
    return bl_error_set(
        error, BL_ERROR_BUSY,
        "the claim %s could not be renewed for %d s, so another process may own it by now",
        claim->key, (int)(age_ms / 1000));
  return check_ours(claim, error);
}

gboolean bl_claim_release(BlClaim *claim, GError **error) {
  g_mutex_lock(&claim->lock);
  claim->stop = TRUE;
  g_cond_signal(&claim->stop_cond);
  g_mutex_unlock(&claim->lock);
  g_thread_join(claim->thread);
  gboolean ok = bl_store_remove(claim->store, claim->beat_key, error);
  g_autoptr(GError) fault = NULL;
  if (check_ours(claim, &fault)) {
    ok = bl_store_remove(claim->store, claim->key, ok ? error : NULL) && ok;
  } else if (!g_error_matches(fault, BL_ERROR, BL_ERROR_BUSY)) {
    if (ok) g_propagate_error(error, g_steal_pointer(&fault));
    ok = FALSE;
  }
  claim_free(claim);
  return ok;
}

gboolean bl_claim_peek(BlStore *store, const char *prefix, BlClaimState *state, char **owner_text,
                       char **operation, GError **error) {
  g_autofree char *key = g_strconcat(prefix, "claim", NULL);
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlOwner) owner = load_owner(store, key, &fault);
  if (fault != NULL) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  *state = owner == NULL ? BL_CLAIM_NONE : judge(store, key, owner);
  if (owner_text != NULL) *owner_text = owner == NULL ? NULL : bl_owner_describe(owner);
  if (operation != NULL) *operation = owner == NULL ? NULL : g_strdup(owner->operation);
  return TRUE;
}
