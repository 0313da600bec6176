/* What checkpoints a store holds, and which of them a name means. */
#pragma once
#include "base/job.h"
#include "model/manifest.h"
#include "model/ref.h"
#include "store/claim.h"

typedef enum {
  BL_CHECKPOINT_READY,
  BL_CHECKPOINT_DEGRADED,  /* READY, but files are missing or damaged by its state */
  BL_CHECKPOINT_FAILED,    /* manifest says FAILED and nobody works on it */
  BL_CHECKPOINT_IMPORTING, /* FAILED under a live claim */
  BL_CHECKPOINT_DELETING,
  BL_CHECKPOINT_CORRUPT,    /* the manifest is damaged */
  BL_CHECKPOINT_UNREADABLE, /* by this user, or by this version */
  BL_CHECKPOINT_LEFTOVER,   /* objects, or an index entry, without a manifest */
} BlCheckpointStatus;
const char *bl_checkpoint_status_name(BlCheckpointStatus status); /* "READY", … */

typedef struct {
  char *checkpoint_id, *model_id, *revision, *error; /* all but the id may be NULL */
  BlCheckpointStatus status;
  gboolean is_pinned; /* of READY and DEGRADED ones */
  guint64 n_files, total_size;
  gint64 created_at, updated_at;
} BlCheckpoint;
void bl_checkpoint_free(BlCheckpoint *checkpoint);

/* Every checkpoint, sorted by id; of BlCheckpoint. model_id: only that model's, NULL: all. Loads
 * run in parallel. A state that is damaged is noted to the job and counts as absent. */
GPtrArray *bl_catalog_list(BlStore *store, const char *model_id, BlJob *job, GError **error);

/* Whether the fault is that of one checkpoint, which is told beside its id; those of the whole
 * store end what looks at all of it. */
gboolean bl_catalog_is_fault_of_one(const GError *fault);
/* Who holds the claim below the prefix, for those who look at all checkpoints: one that cannot be
 * read may be anybody's, UNKNOWN. */
gboolean bl_catalog_peek_claim(BlStore *store, const char *prefix, BlClaimState *state,
                               GError **error);

/* The checkpoint id that a name means: an id that is there; else MODEL_ID[@REF]: the ref's (REF
 * defaults to "main"), or a commit's or revision's, or without @REF the model's only READY (or
 * DEGRADED) checkpoint; last, a commit of any model. Commits may be cut to 7 digits or more.
 * NOT_FOUND, or INVALID naming the choices where there are several. Never the newest. Caller frees.
 */
char *bl_catalog_resolve(BlStore *store, const char *name, GError **error);
