/* One walk over a store: every checkpoint, and everything that no checkpoint explains.
 *
 * It reads manifests and folders, no data, and writes nothing. It is safe beside everything else:
 * what looks wrong is looked at again until nobody changed it meanwhile, and what a living owner's
 * claim covers is nobody's fault. Memory: one checkpoint's objects and manifest a thread, some 40
 * bytes for each object that is shared, and the list of checkpoints. */
#pragma once
#include "base/job.h"
#include "model/catalog.h"
#include "store/claim.h"
#include "upkeep/finding.h"
#include "upkeep/shares.h"

typedef struct {
  char *checkpoint_id;
  guint number;              /* in the survey's shares */
  char *model_id, *revision; /* NULL where the manifest cannot be read */
  BlCheckpointStatus status;
  gboolean is_busy; /* somebody lives, or may live, who changes it */
  char *owner;      /* who; NULL */
  gboolean is_pinned;
  gboolean is_degraded;          /* something is missing or damaged, found now or recorded */
  guint64 n_files, total_size;   /* as the manifest says */
  guint64 n_objects, n_bytes;    /* as the store has them */
  gint64 created_at, updated_at; /* Unix seconds */
  gint64 used_us;                /* Unix microseconds; 0: never, or not known */
} BlSurveyed;
void bl_surveyed_free(BlSurveyed *surveyed);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlSurveyed, bl_surveyed_free)

typedef struct {
  GPtrArray *checkpoints; /* of BlSurveyed, sorted by id */
  BlShares *shares;       /* by the checkpoint's number */
} BlSurvey;
void bl_survey_free(BlSurvey *survey);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlSurvey, bl_survey_free)

/* func: NULL where only the checkpoints matter; what belongs to none is then not looked at. The
 * order of findings is not fixed. UNSUPPORTED where the store cannot list. */
BlSurvey *bl_survey_run(BlStore *store, BlFindingFunc func, gpointer user, BlJob *job,
                        GError **error);

/* One checkpoint alone. own: the caller's claim on it, whose objects are passed over, or NULL.
 * *objects (may be NULL): what the listing gave. *surveyed is NULL where there is nothing under the
 * id. */
gboolean bl_survey_checkpoint(BlStore *store, const char *checkpoint_id, const BlClaim *own,
                              BlFindingFunc func, gpointer user, BlObjects **objects,
                              BlSurveyed **surveyed, GError **error);
