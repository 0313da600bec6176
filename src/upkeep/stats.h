/* What a store holds, in numbers. */
#pragma once
#include "base/job.h"
#include "upkeep/survey.h"

typedef struct {
  BlSurvey *survey;
  guint64 n_logical; /* bytes of all READY checkpoints, each as if it were alone */
  guint64 n_stored;  /* bytes of all files that the store has, each once (room.h) */
  guint64 n_data;    /* of these, those of checkpoints */
  guint64 n_listed;  /* bytes of all objects of checkpoints, each as if it shared with none */
  guint64 max_bytes; /* what n_stored may become; G_MAXUINT64: no limit */
  guint64 n_free;    /* of the file system, for this user; G_MAXUINT64: not known */
} BlStats;
void bl_stats_clear(BlStats *stats);

gboolean bl_stats_load(BlStore *store, BlJob *job, BlStats *stats, GError **error);
/* Bytes that the checkpoints' objects would take if each had its own, for each byte that is
 * stored. */
double bl_stats_ratio(const BlStats *stats);
