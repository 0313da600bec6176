/* Removes what ended commands left, in two passes: what is found is recorded with the time it was
 * first seen, and removed by a later run that finds it unchanged and old enough.
 *
 * Safe beside everything else: what lies below a checkpoint is removed under its claim and after
 * another look; nothing of a READY checkpoint that its manifest names, nothing that a living owner
 * covers, and nothing that ballast did not put there is ever removed. */
#pragma once
#include "base/job.h"
#include "upkeep/finding.h"

/* Entries in a result's list; more are only counted. */
#define BL_GC_MAX_ITEMS 10000u

typedef struct {
  gint64 grace_s; /* how long a thing must have been seen; 0: what is found goes at once */
  gboolean dry_run;
} BlGcOptions;

typedef enum {
  BL_GC_REMOVED,  /* with dry_run: would be */
  BL_GC_RESTORED, /* a moved ref has its name back */
  BL_GC_WAITING,
  BL_GC_SKIPPED, /* somebody works on it */
} BlGcOutcome;

typedef struct {
  BlFindingKind kind;
  BlGcOutcome outcome;
  char *checkpoint_id, *name; /* as in a finding; NULL */
  guint64 n_objects, n_bytes;
  gint64 due_at; /* where it waits: Unix seconds */
} BlGcItem;

typedef struct {
  GPtrArray *items; /* of BlGcItem */
  guint64 n_removed, n_restored, n_waiting, n_skipped;
  guint64 n_objects, n_bytes; /* of those removed */
  gint64 next_at;             /* when the first of those that wait is due; 0: none waits */
} BlGcResult;
void bl_gc_result_clear(BlGcResult *result);
const char *bl_gc_outcome_name(BlGcOutcome outcome); /* "removed", … */

/* The result is filled as far as it got also where FALSE is returned. */
gboolean bl_gc(BlStore *store, const BlGcOptions *options, BlJob *job, BlGcResult *result,
               GError **error);
