/* The parts of one survey: survey.c walks the checkpoints, survey_rest.c what belongs to none. */
#pragma once
#include "upkeep/survey.h"

/* What a survey carries; sorted checkpoints are the walk's result. */
typedef struct {
  BlStore *store;
  BlFindingFunc func; /* NULL: findings are not asked for */
  gpointer user;
  GMutex lock; /* protects the calls of func, nothing else */
  BlSurvey *survey;
} BlSurveyRun;

/* Calls func under the lock. A BlFindingFunc; user is the run. */
gboolean bl_survey_emit(const BlFinding *finding, gpointer user, GError **error);
/* NULL where the walk met no such checkpoint. */
BlSurveyed *bl_survey_find(const BlSurvey *survey, const char *checkpoint_id);

/* Refs, last uses, indexes, control objects, strays, foreign folders; after the walk. Last uses are
 * taken into the checkpoints also where findings are not asked for. */
gboolean bl_survey_rest(BlSurveyRun *run, GError **error);
