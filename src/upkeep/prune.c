/* The survey says what there is and what it shares; then the checkpoints are taken in the order of
 * their last use. Right before one goes it is claimed and looked at again. */
#include "upkeep/prune.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/key.h"
#include "model/ref.h"
#include "model/remove.h"
#include "model/room.h"
#include "model/state.h"
#include "model/usage.h"
#include "upkeep/survey.h"

typedef struct {
  BlStore *store;
  const BlPruneOptions *options;
  BlJob *job;
  BlPruneResult *result;
  BlSurvey *survey;
  GPtrArray *order; /* of BlSurveyed, the least recently used first; owned by the survey */
  GHashTable *kept; /* ids that keep spares, where it is asked for; else NULL */
  gint64 now_us;
} Prune;

static void item_free(gpointer data) {
  BlPruneItem *item = data;
  g_free(item->checkpoint_id);
  g_free(item->model_id);
  g_free(item->revision);
  g_free(item->reason);
  g_free(item);
}

void bl_prune_result_clear(BlPruneResult *result) {
  g_clear_pointer(&result->gone, g_ptr_array_unref);
  g_clear_pointer(&result->spared, g_ptr_array_unref);
}

/* Unix microseconds. */
static gint64 last_use(const BlSurveyed *surveyed) {
  return surveyed->used_us > 0 ? surveyed->used_us : surveyed->created_at * G_USEC_PER_SEC;
}

static int compare(gint64 a, gint64 b) {
  return (a > b) - (a < b);
}

static int compare_uses(const void *a, const void *b) {
  const BlSurveyed *x = *(BlSurveyed *const *)a, *y = *(BlSurveyed *const *)b;
  int order = compare(last_use(x), last_use(y));
  return order != 0 ? order : strcmp(x->checkpoint_id, y->checkpoint_id);
}

/* The newest first; of one second, the one that was written last, and the one that stays whatever
 * it is before all others. */
static int compare_ages(gconstpointer a, gconstpointer b, gpointer spare_id) {
  const BlSurveyed *x = *(BlSurveyed *const *)a, *y = *(BlSurveyed *const *)b;
  int order = compare(y->created_at, x->created_at);
  if (order == 0)
    order =
        (g_strcmp0(y->checkpoint_id, spare_id) == 0) - (g_strcmp0(x->checkpoint_id, spare_id) == 0);
  if (order == 0) order = compare(y->updated_at, x->updated_at);
  return order != 0 ? order : strcmp(x->checkpoint_id, y->checkpoint_id);
}

static gboolean is_asked_for(const Prune *prune, const BlSurveyed *surveyed) {
  const BlPruneOptions *options = prune->options;
  return (options->model_id == NULL || g_strcmp0(options->model_id, surveyed->model_id) == 0) &&
         (options->revision == NULL || g_strcmp0(options->revision, surveyed->revision) == 0);
}

/* What cannot be read cannot be judged, and nobody may take that for being spared. */
static void warn_unreadable(const Prune *prune, const BlSurveyed *surveyed) {
  if (surveyed->status == BL_CHECKPOINT_UNREADABLE)
    bl_job_note(prune->job, BL_NOTE_WARNING,
                "checkpoint \"%s\" cannot be read, and stays (\"ballast fsck\" says why)",
                surveyed->checkpoint_id);
}

/* FAILED ones and the like are gc's, and listed only where their bytes are in the way. */
static void choose(Prune *prune) {
  for (guint i = 0; i < prune->survey->checkpoints->len; i++) {
    BlSurveyed *surveyed = g_ptr_array_index(prune->survey->checkpoints, i);
    if (is_asked_for(prune, surveyed)) g_ptr_array_add(prune->order, surveyed);
    warn_unreadable(prune, surveyed);
  }
  if (prune->options->keep > 0) {
    prune->kept = g_hash_table_new(g_str_hash, g_str_equal);
    g_ptr_array_sort_with_data(prune->order, compare_ages,
                               (gpointer)(guintptr)prune->options->spare_id);
    for (guint i = 0; i < prune->order->len; i++) {
      const BlSurveyed *surveyed = g_ptr_array_index(prune->order, i);
      if (surveyed->status == BL_CHECKPOINT_READY &&
          g_hash_table_size(prune->kept) < prune->options->keep)
        g_hash_table_add(prune->kept, surveyed->checkpoint_id);
    }
  }
  g_ptr_array_sort(prune->order, compare_uses);
}

static gboolean is_over_limit(const Prune *prune) {
  return prune->result->n_used - MIN(prune->result->n_used, prune->result->n_freed) >
         prune->options->max_bytes;
}

/* Whether a goal other than the limit wants it gone. */
static gboolean is_wanted_gone(const Prune *prune, const BlSurveyed *surveyed) {
  const BlPruneOptions *options = prune->options;
  if (surveyed->status != BL_CHECKPOINT_READY) return FALSE;
  if (prune->kept != NULL && !g_hash_table_contains(prune->kept, surveyed->checkpoint_id))
    return TRUE;
  return options->older_than_s >= 0 &&
         (prune->now_us - last_use(surveyed)) / G_USEC_PER_SEC >= options->older_than_s;
}

/* Whether somebody reads it. Where locks prove nothing, nobody is known to. */
static gboolean is_open(const Prune *prune, const char *id, gboolean *open, GError **error) {
  BlKeyBuffer key;
  BlHoldState state;
  g_autoptr(GError) fault = NULL;
  *open = FALSE;
  if (!bl_store_can(prune->store, BL_STORE_CAN_HOLD)) return TRUE;
  if (bl_store_is_held(prune->store, bl_key_manifest(key, id), &state, &fault)) {
    *open = state == BL_HOLD_HELD;
    return TRUE;
  }
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* Of those that only a newer checkpoint of the revision drives out: another name that somebody gave
 * it speaks for it. */
static gboolean find_other_ref(const Prune *prune, const char *id, char **reason, GError **error) {
  const BlPruneOptions *options = prune->options;
  if (options->keep == 0) return TRUE;
  g_auto(GStrv) refs = bl_ref_names(prune->store, options->model_id, id, error);
  if (refs == NULL) return FALSE;
  for (gsize i = 0; refs[i] != NULL && *reason == NULL; i++)
    if (strcmp(refs[i], options->revision) != 0)
      *reason = g_strdup_printf("the ref \"%s\" names it", refs[i]);
  return TRUE;
}

/* *reason stays NULL where nothing speaks for it; caller frees. */
static gboolean find_reason(const Prune *prune, const BlSurveyed *surveyed, char **reason,
                            GError **error) {
  gboolean open;
  if (surveyed->is_busy)
    *reason = g_strdup_printf("busy: %s", surveyed->owner != NULL ? surveyed->owner : "claimed");
  else if (surveyed->status != BL_CHECKPOINT_READY)
    *reason = g_strdup_printf("%s (\"ballast gc\" removes what failed)",
                              bl_checkpoint_status_name(surveyed->status));
  else if (g_strcmp0(prune->options->spare_id, surveyed->checkpoint_id) == 0)
    *reason = g_strdup("it was just imported");
  else if (surveyed->is_pinned)
    *reason = g_strdup("pinned");
  if (*reason != NULL) return TRUE;
  if (!find_other_ref(prune, surveyed->checkpoint_id, reason, error)) return FALSE;
  if (*reason != NULL) return TRUE;
  if (!is_open(prune, surveyed->checkpoint_id, &open, error)) return FALSE;
  if (open) *reason = g_strdup("somebody reads it");
  return TRUE;
}

/* Takes reason over. */
static void add_item(Prune *prune, const BlSurveyed *surveyed, guint64 n_freed, char *reason) {
  BlPruneItem *item = g_new(BlPruneItem, 1);
  *item = (BlPruneItem){.checkpoint_id = g_strdup(surveyed->checkpoint_id),
                        .model_id = g_strdup(surveyed->model_id),
                        .revision = g_strdup(surveyed->revision),
                        .n_bytes = surveyed->total_size,
                        .n_freed = n_freed,
                        .used_at = last_use(surveyed) / G_USEC_PER_SEC,
                        .was_read = surveyed->used_us > 0,
                        .reason = reason};
  g_ptr_array_add(reason != NULL ? prune->result->spared : prune->result->gone, item);
}

/* Under the claim: whether all that let it go is so still. */
static gboolean look_again(const Prune *prune, const BlSurveyed *surveyed, const BlClaim *claim,
                           char **reason, GError **error) {
  const char *id = surveyed->checkpoint_id;
  g_autoptr(BlSurveyed) now = NULL;
  if (!bl_survey_checkpoint(prune->store, id, claim, NULL, NULL, NULL, &now, error)) return FALSE;
  if (now == NULL) {
    *reason = g_strdup("it was deleted meanwhile");
    return TRUE;
  }
  warn_unreadable(prune, now);
  if (!find_reason(prune, now, reason, error)) return FALSE;
  if (*reason == NULL && (bl_usage_get(prune->store, id) > surveyed->used_us ||
                          now->updated_at != surveyed->updated_at))
    *reason = g_strdup("it was used meanwhile");
  return TRUE;
}

static gboolean remove_claimed(const Prune *prune, const BlSurveyed *surveyed, BlClaim *claim,
                               char **reason, GError **error) {
  BlRemoveResult removed;
  if (!look_again(prune, surveyed, claim, reason, error)) return FALSE;
  if (*reason != NULL) return TRUE;
  gboolean ok =
      bl_remove_claimed(prune->store, surveyed->checkpoint_id, claim, prune->job, &removed, error);
  bl_remove_result_clear(&removed);
  return ok;
}

/* *reason: why it was spared in the end. */
static gboolean remove_one(const Prune *prune, const BlSurveyed *surveyed, char **reason,
                           GError **error) {
  BlKeyBuffer prefix;
  g_autoptr(GError) fault = NULL;
  BlClaim *claim = bl_claim_acquire(prune->store, bl_key_prefix(prefix, surveyed->checkpoint_id),
                                    "delete", 0, prune->job, &fault);
  if (claim == NULL) {
    if (g_error_matches(fault, BL_ERROR, BL_ERROR_BUSY)) {
      *reason = g_strdup(fault->message);
      return TRUE;
    }
    bl_remove_explain(&fault);
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  gboolean ok = remove_claimed(prune, surveyed, claim, reason, error);
  if (!bl_claim_release(claim, &fault))
    bl_job_note(prune->job, BL_NOTE_WARNING, "the claim on \"%s\" could not be removed: %s",
                surveyed->checkpoint_id, fault->message);
  return ok;
}

static gboolean take(Prune *prune, const BlSurveyed *surveyed, GError **error) {
  char *reason = NULL;
  if (!bl_job_check(prune->job, error) || !find_reason(prune, surveyed, &reason, error))
    return FALSE;
  if (reason == NULL && !prune->options->dry_run && !remove_one(prune, surveyed, &reason, error))
    return FALSE;
  guint64 n_freed = 0;
  if (reason == NULL) n_freed = bl_shares_take(prune->survey->shares, surveyed->number);
  prune->result->n_freed += n_freed;
  add_item(prune, surveyed, n_freed, reason);
  return TRUE;
}

static gboolean run(Prune *prune, GError **error) {
  prune->survey = bl_survey_run(prune->store, NULL, NULL, prune->job, error);
  if (prune->survey == NULL || !bl_room_used(prune->store, &prune->result->n_used, error))
    return FALSE;
  choose(prune);
  for (guint i = 0; i < prune->order->len; i++) {
    const BlSurveyed *surveyed = g_ptr_array_index(prune->order, i);
    if (!is_wanted_gone(prune, surveyed) && !is_over_limit(prune)) continue;
    if (!take(prune, surveyed, error)) return FALSE;
  }
  prune->result->is_reached = !is_over_limit(prune);
  return TRUE;
}

static gboolean check_options(const BlPruneOptions *options, GError **error) {
  if (options->max_bytes == G_MAXUINT64 && options->older_than_s < 0 && options->keep == 0)
    return bl_error_set(error, BL_ERROR_INVALID,
                        "prune: nothing says what has to go (give a size, an age, or a number)");
  if (options->keep > 0 && (options->model_id == NULL || options->revision == NULL))
    return bl_error_set(error, BL_ERROR_INVALID,
                        "prune: the newest can only be kept of one model's revision");
  return TRUE;
}

gboolean bl_prune(BlStore *store, const BlPruneOptions *options, BlJob *job, BlPruneResult *result,
                  GError **error) {
  *result = (BlPruneResult){.gone = g_ptr_array_new_with_free_func(item_free),
                            .spared = g_ptr_array_new_with_free_func(item_free)};
  if (!check_options(options, error)) return FALSE;
  Prune prune = {.store = store,
                 .options = options,
                 .job = job,
                 .result = result,
                 .order = g_ptr_array_new(),
                 .now_us = g_get_real_time()};
  gboolean ok = run(&prune, error);
  g_ptr_array_unref(prune.order);
  if (prune.kept != NULL) g_hash_table_unref(prune.kept);
  bl_survey_free(prune.survey);
  return ok;
}
