/* Making room: whole checkpoints go, the least recently used first.
 *
 * Never a pinned one, one that somebody works on or reads, or one that is not READY (gc's). What a
 * checkpoint frees are the bytes that no other checkpoint has a name for; shared ones go with their
 * last name. A checkpoint's turn comes by its last use, or by its import where it was never read.
 */
#pragma once
#include "base/job.h"
#include "store/store.h"

typedef struct {
  /* At least one of these three says what has to go. */
  guint64
      max_bytes; /* until the store holds no more, as room.h counts; G_MAXUINT64: no such goal */
  gint64 older_than_s; /* all that were not used for so many seconds; -1: no such goal */
  guint keep; /* all but the newest n of the model's revision, and those that another ref of the
                 model names; 0: no such goal */

  const char *model_id; /* only this model's checkpoints; NULL: all. Needed by keep */
  const char *revision; /* only with this revision in their manifest; NULL: all. Needed by keep */
  const char *spare_id; /* a checkpoint that stays whatever it is; NULL */
  gboolean dry_run;     /* nothing is removed, the result says what would be */
} BlPruneOptions;
/* No goal, all models, nothing removed. */
#define BL_PRUNE_OPTIONS_INIT \
  { .max_bytes = G_MAXUINT64, .older_than_s = -1, .dry_run = TRUE }

typedef struct {
  char *checkpoint_id;
  char *model_id, *revision; /* NULL where the manifest cannot be read */
  guint64 n_bytes;           /* of its files */
  guint64 n_freed;           /* bytes that its going frees, after those before it in the list */
  gint64 used_at;            /* Unix seconds of the last use, else of its import */
  gboolean was_read;         /* whether used_at is a use */
  char *reason;              /* why it was spared; NULL: it went, or would go */
} BlPruneItem;

typedef struct {
  GPtrArray *gone;         /* of BlPruneItem, in the order of going */
  GPtrArray *spared;       /* of BlPruneItem: would have gone, but for the reason */
  guint64 n_used, n_freed; /* bytes that the store held before, and those that went */
  gboolean is_reached;     /* the store holds no more than max_bytes; what age or number wants gone
                              and something speaks for is in `spared`, and no goal missed */
} BlPruneResult;
void bl_prune_result_clear(BlPruneResult *result);

/* INVALID without a goal. One that is claimed or was used meanwhile is spared, not waited for. The
 * result is filled as far as it got also where FALSE is returned; a goal that is missed is no
 * error. */
gboolean bl_prune(BlStore *store, const BlPruneOptions *options, BlJob *job, BlPruneResult *result,
                  GError **error);
