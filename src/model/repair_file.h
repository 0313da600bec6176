/* One file of a checkpoint mended: what repair does for each of them, on a worker's thread. */
#pragma once
#include "model/reader.h"
#include "model/supply.h"
#include "model/transfer.h"

typedef struct {
  BlStore *store;
  const BlManifest *manifest;
  BlReader *reader;    /* of the checkpoint, without digests: reads back what was put */
  GPtrArray *supplies; /* of BlSupply, in the order they are asked */
  BlTransferPool *pool;
  BlJob *job;
  guint
      n_passes; /* how often the job's total counts each file; what is read beyond that is added */
  gboolean dry_run;
} BlRepairFiles;

typedef struct {
  gboolean is_mended; /* the right bytes are there now; in a dry run: would be */
  gboolean is_share;  /* by sharing another checkpoint's object */
  guint64 n_bytes;    /* put, or shared */
  char *text;         /* mended: where they came from, NULL: they were right already; else why not.
                         Caller frees */
} BlRepairedFile;

/* Mends the file, not yet durably. FALSE only where nothing more can be done (cancelled, the store
 * cannot be written). */
gboolean bl_repair_file(const BlRepairFiles *files, guint64 file, guint worker,
                        BlRepairedFile *result, GError **error);
