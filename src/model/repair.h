/* Repair: what a READY checkpoint has lost or damaged is put back, and nothing else is touched.
 *
 * Bytes come from wherever a file of the manifest's SHA-256 is found: another checkpoint of the
 * store, the sources given, the folder the checkpoint came from. A source is hashed whole before
 * anything is replaced, a damaged object is replaced by a new one and never written to, and what
 * was put is read back. */
#pragma once
#include "base/job.h"
#include "store/store.h"

typedef struct {
  char **from; /* folders and stores, by path or URL, asked in this order; NULL: none */
  gboolean dry_run;
  gint wait_ms; /* for another's claim; 0: not at all */
} BlRepairOptions;

/* Items kept in each list, so that memory stays bounded where all is lost. */
#define BL_REPAIR_MAX_ITEMS 10000u

typedef struct {
  char *path; /* of a file of the checkpoint; NULL: "the block digests", "the info object" */
  char *text; /* mended: where the bytes come from; else why not, and what next */
} BlRepairItem;

typedef struct {
  guint64 n_files, n_bytes;               /* of the checkpoint */
  guint64 n_files_bad, n_files_mended;    /* mended: would be, in a dry run */
  guint64 n_bytes_written;                /* put anew */
  guint64 n_bytes_shared;                 /* shared with another checkpoint's object */
  gboolean digests_written, info_written; /* made anew; would be, in a dry run */
  GPtrArray *mended, *left;               /* of BlRepairItem, by path, no more than so many */
} BlRepairResult;
void bl_repair_result_free(BlRepairResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlRepairResult, bl_repair_result_free)

/* Checks the checkpoint whole and mends it under its claim. What cannot be mended is in
 * result->left; the rest is mended all the same. NULL where the work itself failed: NOT_FOUND,
 * CORRUPT for a checkpoint that is not READY (only an import mends that), BUSY, NO_SPACE, … */
BlRepairResult *bl_repair(BlStore *store, const char *checkpoint_id, const BlRepairOptions *options,
                          BlJob *job, GError **error);
