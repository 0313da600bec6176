#include "upkeep/gc.h"

#include <string.h>

#include "base/error.h"
#include "model/key.h"
#include "model/manifest.h"
#include "model/ref.h"
#include "model/remove.h"
#include "store/claim.h"
#include "upkeep/gc_record.h"
#include "upkeep/survey.h"

/* One thing that is due and lies below no checkpoint, or is a temporary. */
typedef struct {
  BlFinding finding; /* its texts are the three below */
  char *checkpoint_id, *name;
} Due;

typedef struct {
  BlStore *store;
  const BlGcOptions *options;
  BlJob *job;
  BlGcResult *result;
  BlGcRecord *old, *now; /* now: what this run saw */
  gint64 now_s;
  gboolean is_full;    /* not all garbage fitted into the record */
  GHashTable *due_ids; /* ids of checkpoints below which something is due; owned */
  GPtrArray *due;      /* of Due */
  BlClaim *claim;      /* while a checkpoint is cleaned */
  GError *denied;      /* the first thing that this user may not remove */
  guint n_denied;
} Gc;

static void due_free(gpointer data) {
  Due *due = data;
  g_free(due->checkpoint_id);
  g_free(due->name);
  g_free(due);
}

static void item_free(gpointer data) {
  BlGcItem *item = data;
  g_free(item->checkpoint_id);
  g_free(item->name);
  g_free(item);
}

void bl_gc_result_clear(BlGcResult *result) {
  g_clear_pointer(&result->items, g_ptr_array_unref);
}

const char *bl_gc_outcome_name(BlGcOutcome outcome) {
  static const char *const names[] = {[BL_GC_REMOVED] = "removed",
                                      [BL_GC_RESTORED] = "restored",
                                      [BL_GC_WAITING] = "waiting",
                                      [BL_GC_SKIPPED] = "skipped"};
  return names[outcome];
}

static void report(Gc *gc, const BlFinding *finding, BlGcOutcome outcome, gint64 due_at) {
  BlGcResult *result = gc->result;
  guint64 *counters[] = {[BL_GC_REMOVED] = &result->n_removed,
                         [BL_GC_RESTORED] = &result->n_restored,
                         [BL_GC_WAITING] = &result->n_waiting,
                         [BL_GC_SKIPPED] = &result->n_skipped};
  ++*counters[outcome];
  if (outcome == BL_GC_REMOVED) {
    result->n_objects += finding->n_objects;
    result->n_bytes += finding->n_bytes;
  }
  if (outcome == BL_GC_WAITING && (result->next_at == 0 || due_at < result->next_at))
    result->next_at = due_at;
  if (result->items->len >= BL_GC_MAX_ITEMS) return;
  BlGcItem *item = g_new(BlGcItem, 1);
  *item = (BlGcItem){.kind = finding->kind,
                     .outcome = outcome,
                     .checkpoint_id = g_strdup(finding->checkpoint_id),
                     .name = g_strdup(finding->name),
                     .n_objects = finding->n_objects,
                     .n_bytes = finding->n_bytes,
                     .due_at = due_at};
  g_ptr_array_add(result->items, item);
}

/* When it was first seen: now, where the clock was set back since. */
static gint64 seen_since(const Gc *gc, const BlFinding *finding) {
  gint64 since = bl_gc_record_find(gc->old, finding->identity);
  return since > 0 && since <= gc->now_s ? since : gc->now_s;
}

static gboolean is_due(const Gc *gc, const BlFinding *finding) {
  return finding->is_garbage && gc->now_s - seen_since(gc, finding) >= gc->options->grace_s;
}

/* What a look under the checkpoint's claim finds again. */
static gboolean is_below_checkpoint(BlFindingKind kind) {
  return kind == BL_FINDING_FAILED || kind == BL_FINDING_NO_MANIFEST || kind == BL_FINDING_ORPHAN ||
         kind == BL_FINDING_RESERVATION;
}

static void keep_due(Gc *gc, const BlFinding *finding) {
  if (finding->checkpoint_id != NULL && !g_hash_table_contains(gc->due_ids, finding->checkpoint_id))
    g_hash_table_add(gc->due_ids, g_strdup(finding->checkpoint_id));
  if (is_below_checkpoint(finding->kind)) return;
  Due *due = g_new(Due, 1);
  *due = (Due){.finding = *finding,
               .checkpoint_id = g_strdup(finding->checkpoint_id),
               .name = g_strdup(finding->name)};
  due->finding.checkpoint_id = due->checkpoint_id;
  due->finding.name = due->name;
  due->finding.text = NULL;
  g_ptr_array_add(gc->due, due);
}

/* What cannot be looked at cannot be judged. */
static void warn_unreadable(Gc *gc, const BlFinding *finding) {
  if (finding->kind == BL_FINDING_UNREADABLE)
    bl_job_note(gc->job, BL_NOTE_WARNING, "left as it is: %s", finding->text);
}

static gboolean on_found(const BlFinding *finding, gpointer user, GError **error) {
  Gc *gc = user;
  gint64 since = seen_since(gc, finding);
  (void)error;
  warn_unreadable(gc, finding);
  if (!finding->is_garbage) return TRUE;
  gc->is_full = !bl_gc_record_add(gc->now, finding->identity, since) || gc->is_full;
  if (!is_due(gc, finding))
    report(gc, finding, BL_GC_WAITING, since + gc->options->grace_s);
  else if (gc->options->dry_run)
    report(gc, finding, BL_GC_REMOVED, 0);
  else
    keep_due(gc, finding);
  return TRUE;
}

/* Under the claim: what is due still and lies there. */
static gboolean on_found_again(const BlFinding *finding, gpointer user, GError **error) {
  Gc *gc = user;
  warn_unreadable(gc, finding);
  if (!is_below_checkpoint(finding->kind) || !is_due(gc, finding)) return TRUE;
  if (!bl_job_check(gc->job, error) || !bl_claim_check(gc->claim, error)) return FALSE;
  if (finding->name != NULL) {
    if (!bl_store_remove(gc->store, finding->name, error)) return FALSE;
    bl_job_add_files(gc->job, 1);
  } else {
    BlRemoveResult removed;
    gboolean ok =
        bl_remove_claimed(gc->store, finding->checkpoint_id, gc->claim, gc->job, &removed, error);
    bl_remove_result_clear(&removed);
    if (!ok) return FALSE;
  }
  report(gc, finding, BL_GC_REMOVED, 0);
  return TRUE;
}

static gboolean remove_stray(Gc *gc, const Due *due, GError **error) {
  BlStray stray = {.path = due->name,
                   .stat = due->finding.stat,
                   .is_temporary = due->finding.kind == BL_FINDING_TEMPORARY,
                   .is_folder = due->finding.kind == BL_FINDING_FOLDER};
  return bl_store_remove_stray(gc->store, &stray, error);
}

/* Whether the object under the name is still the one that was found. */
static gboolean is_unchanged(const Gc *gc, const Due *due, gboolean *same, GError **error) {
  BlFinding now = due->finding;
  g_autoptr(GError) fault = NULL;
  *same = FALSE;
  if (!bl_store_stat(gc->store, due->name, &now.stat, &fault)) {
    if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  bl_finding_identify(&now);
  *same = memcmp(now.identity, due->finding.identity, BL_IDENTITY_SIZE) == 0;
  return TRUE;
}

/* A killed delete had moved it: back to its name where that is free and what it names is there. */
static gboolean mend_moved_ref(Gc *gc, const Due *due, BlGcOutcome *outcome, GError **error) {
  gboolean has = FALSE, is_back;
  if (due->checkpoint_id != NULL && !bl_manifest_exists(gc->store, due->checkpoint_id, &has, error))
    return FALSE;
  *outcome = BL_GC_REMOVED;
  if (!has) return bl_store_remove(gc->store, due->name, error);
  if (!bl_ref_put_back(gc->store, due->name, &is_back, error)) return FALSE;
  if (is_back) *outcome = BL_GC_RESTORED;
  return TRUE;
}

/* A ref that names nothing. The claim on what it names keeps an import from making it just now. */
static gboolean remove_refs(Gc *gc, const Due *due, gboolean *is_removed, GError **error) {
  gboolean has;
  guint n = 0;
  if (!bl_manifest_exists(gc->store, due->checkpoint_id, &has, error)) return FALSE;
  *is_removed = !has;
  return has || bl_ref_remove_all(gc->store, NULL, due->checkpoint_id, &n, error);
}

/* Under the claim of its checkpoint, where it has one. */
static gboolean remove_due(Gc *gc, const Due *due, GError **error) {
  BlFindingKind kind = due->finding.kind;
  BlGcOutcome outcome = BL_GC_REMOVED;
  gboolean goes = TRUE, has = FALSE;
  if (!bl_job_check(gc->job, error)) return FALSE;
  if (kind == BL_FINDING_TEMPORARY || kind == BL_FINDING_FOLDER) {
    if (!remove_stray(gc, due, error)) return FALSE;
  } else if (kind == BL_FINDING_REF || kind == BL_FINDING_MOVED_REF || kind == BL_FINDING_USED) {
    if (!is_unchanged(gc, due, &goes, error)) return FALSE;
  }
  if (goes && kind == BL_FINDING_USED) {
    if (!bl_manifest_exists(gc->store, due->checkpoint_id, &has, error)) return FALSE;
    goes = !has;
    if (goes && !bl_store_remove(gc->store, due->name, error)) return FALSE;
  }
  if (goes && kind == BL_FINDING_REF && !remove_refs(gc, due, &goes, error)) return FALSE;
  if (goes && kind == BL_FINDING_MOVED_REF && !mend_moved_ref(gc, due, &outcome, error))
    return FALSE;
  if (goes) report(gc, &due->finding, outcome, 0);
  return TRUE;
}

static gboolean belongs_to(const Due *due, const char *id) {
  return g_strcmp0(due->checkpoint_id, id) == 0;
}

/* All that is due below one checkpoint, or names it. A dead owner's claims go by taking ours. */
static gboolean clean_claimed(Gc *gc, const char *id, GError **error) {
  g_autoptr(BlSurveyed) surveyed = NULL;
  for (guint i = 0; i < gc->due->len; i++) {
    const Due *due = g_ptr_array_index(gc->due, i);
    if (belongs_to(due, id) && due->finding.kind != BL_FINDING_FOLDER &&
        !remove_due(gc, due, error))
      return FALSE;
  }
  return bl_survey_checkpoint(gc->store, id, gc->claim, on_found_again, gc, NULL, &surveyed, error);
}

static void skip(Gc *gc, const char *id, const GError *fault) {
  BlFinding finding = {.kind = BL_FINDING_CLAIM, .checkpoint_id = id};
  report(gc, &finding, BL_GC_SKIPPED, 0);
  bl_job_note(gc->job, BL_NOTE_INFO, "left for the next time: %s", fault->message);
}

/* gc->claim stays NULL where it is another's, or may be since it cannot be read: that is skipped.
 */
static gboolean take_claim(Gc *gc, const char *prefix, const char *id, GError **error) {
  g_autoptr(GError) fault = NULL;
  gc->claim = bl_claim_acquire(gc->store, prefix, "gc", 0, gc->job, &fault);
  if (gc->claim != NULL) return TRUE;
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_BUSY) ||
      g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT)) {
    skip(gc, id, fault);
    return TRUE;
  }
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

static void release_claim(Gc *gc) {
  g_autoptr(GError) fault = NULL;
  if (!bl_claim_release(gc->claim, &fault))
    bl_job_note(gc->job, BL_NOTE_WARNING, "a claim could not be removed: %s", fault->message);
  gc->claim = NULL;
}

static gboolean clean_checkpoint(Gc *gc, const char *id, GError **error) {
  BlKeyBuffer prefix;
  if (!bl_job_check(gc->job, error)) return FALSE;
  if (!take_claim(gc, bl_key_prefix(prefix, id), id, error)) return FALSE;
  if (gc->claim == NULL) return TRUE;
  gboolean ok = clean_claimed(gc, id, error);
  release_claim(gc);
  return ok;
}

static gboolean clean_room(Gc *gc, const Due *due, GError **error) {
  if (!take_claim(gc, BL_KEY_ROOM, NULL, error)) return FALSE;
  if (gc->claim == NULL) return TRUE;
  report(gc, &due->finding, BL_GC_REMOVED, 0);
  release_claim(gc);
  return TRUE;
}

/* What this user may not remove keeps nobody from removing the rest: it is told when all is done.
 */
static gboolean put_off(Gc *gc, GError **fault, GError **error) {
  if (!g_error_matches(*fault, BL_ERROR, BL_ERROR_DENIED)) {
    g_propagate_error(error, g_steal_pointer(fault));
    return FALSE;
  }
  gc->n_denied++;
  if (gc->denied == NULL) gc->denied = g_steal_pointer(fault);
  return TRUE;
}

/* What lies below no checkpoint; and, the claims being gone, the empty folders. */
static gboolean clean_rest(Gc *gc, GError **error) {
  for (guint i = 0; i < gc->due->len; i++) {
    const Due *due = g_ptr_array_index(gc->due, i);
    if (due->checkpoint_id != NULL && due->finding.kind != BL_FINDING_FOLDER) continue;
    gboolean is_claim = due->finding.kind == BL_FINDING_CLAIM;
    g_autoptr(GError) fault = NULL;
    gboolean ok = is_claim ? clean_room(gc, due, &fault) : remove_due(gc, due, &fault);
    if (!ok && !put_off(gc, &fault, error)) return FALSE;
  }
  return TRUE;
}

static gboolean clean(Gc *gc, GError **error) {
  GHashTableIter iter;
  gpointer id;
  bl_job_begin_phase(gc->job, "removing", 0, 0);
  g_hash_table_iter_init(&iter, gc->due_ids);
  while (g_hash_table_iter_next(&iter, &id, NULL)) {
    g_autoptr(GError) fault = NULL;
    if (!clean_checkpoint(gc, id, &fault) && !put_off(gc, &fault, error)) return FALSE;
  }
  if (!clean_rest(gc, error)) return FALSE;
  if (gc->denied == NULL) return TRUE;
  g_propagate_prefixed_error(
      error, g_steal_pointer(&gc->denied),
      "%u of what is left over may not be removed by this user: ", gc->n_denied);
  return FALSE;
}

static gboolean run(Gc *gc, GError **error) {
  gc->old = bl_gc_record_load(gc->store, gc->job, error);
  if (gc->old == NULL) return FALSE;
  g_autoptr(BlSurvey) survey = bl_survey_run(gc->store, on_found, gc, gc->job, error);
  if (survey == NULL) return FALSE;
  if (gc->is_full)
    bl_job_note(gc->job, BL_NOTE_WARNING,
                "more than %u things are left over; the rest waits until these are gone",
                BL_GC_RECORD_MAX);
  if (gc->options->dry_run) return TRUE;
  return bl_gc_record_save(gc->now, gc->old, gc->store, error) && clean(gc, error);
}

/* A store that was never made can be opened, and has no room that could be asked for. */
static gboolean is_there(BlStore *store) {
  guint64 n_free;
  g_autoptr(GError) fault = NULL;
  return bl_store_free_space(store, &n_free, &fault) || bl_error_code(fault) != BL_ERROR_NOT_FOUND;
}

gboolean bl_gc(BlStore *store, const BlGcOptions *options, BlJob *job, BlGcResult *result,
               GError **error) {
  *result = (BlGcResult){.items = g_ptr_array_new_with_free_func(item_free)};
  if (!is_there(store)) return TRUE;
  if (!options->dry_run && bl_store_can(store, BL_STORE_IS_READ_ONLY))
    return bl_error_set(error, BL_ERROR_DENIED,
                        "store %s is read-only: gc can only say what it would remove (--dry-run)",
                        store->url);
  Gc gc = {.store = store,
           .options = options,
           .job = job,
           .result = result,
           .now = bl_gc_record_new(),
           .now_s = g_get_real_time() / G_USEC_PER_SEC,
           .due_ids = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
           .due = g_ptr_array_new_with_free_func(due_free)};
  gboolean ok = run(&gc, error);
  g_clear_error(&gc.denied);
  bl_gc_record_free(gc.old);
  bl_gc_record_free(gc.now);
  g_hash_table_unref(gc.due_ids);
  g_ptr_array_unref(gc.due);
  return ok;
}
