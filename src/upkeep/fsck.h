/* What is wrong with a store, or left over in it, by severity. Reads no data: verify does. */
#pragma once
#include "base/job.h"
#include "upkeep/finding.h"

/* Findings of a severity that are kept; more are only counted. */
#define BL_FSCK_MAX_ITEMS 10000u

typedef struct {
  BlFindingKind kind;
  char *checkpoint_id, *name; /* as in a finding; NULL */
  char *text, *advice;        /* advice: what to run next; NULL */
  guint64 n_objects, n_bytes;
} BlFsckItem;

typedef struct {
  GPtrArray *items[BL_SEVERITY_N]; /* of BlFsckItem, by checkpoint and name */
  guint64 n_findings[BL_SEVERITY_N], n_bytes[BL_SEVERITY_N];
  guint n_checkpoints, n_ready, n_busy; /* busy: somebody works on them */
} BlFsckReport;
void bl_fsck_report_clear(BlFsckReport *report);

gboolean bl_fsck(BlStore *store, BlJob *job, BlFsckReport *report, GError **error);
