#include "upkeep/survey.h"

#include <string.h>

#include "base/error.h"
#include "model/key.h"
#include "upkeep/survey_impl.h"

typedef struct {
  BlSurveyRun *run;
  BlJob *job;
  GPtrArray *ids;        /* of char*, sorted */
  BlSurveyed **surveyed; /* by id; each worker fills its own */
} Walk;

static void free_surveyed(gpointer surveyed) {
  bl_surveyed_free(surveyed);
}

void bl_survey_free(BlSurvey *survey) {
  if (survey == NULL) return;
  g_ptr_array_unref(survey->checkpoints);
  bl_shares_free(survey->shares);
  g_free(survey);
}

gboolean bl_survey_emit(const BlFinding *finding, gpointer user, GError **error) {
  BlSurveyRun *run = user;
  g_mutex_lock(&run->lock);
  gboolean ok = run->func(finding, run->user, error);
  g_mutex_unlock(&run->lock);
  return ok;
}

static int compare_id_to(const void *a, const void *b) {
  return strcmp(a, (*(BlSurveyed *const *)b)->checkpoint_id);
}

BlSurveyed *bl_survey_find(const BlSurvey *survey, const char *checkpoint_id) {
  if (survey->checkpoints->len == 0) return NULL;
  BlSurveyed **found = bsearch(checkpoint_id, survey->checkpoints->pdata, survey->checkpoints->len,
                               sizeof(gpointer), compare_id_to);
  return found != NULL ? *found : NULL;
}

static gboolean add_id(const char *part, gpointer user, GError **error) {
  const Walk *walk = user;
  if (bl_checkpoint_id_check(part, NULL)) {
    g_ptr_array_add(walk->ids, g_strdup(part));
    return TRUE;
  }
  g_autofree char *name = g_strconcat(BL_KEY_MODELS, part, "/", NULL);
  BlFinding finding = {.kind = BL_FINDING_FOREIGN,
                       .name = name,
                       .text = "its name is no checkpoint id",
                       .n_objects = 1};
  return walk->run->func == NULL || bl_survey_emit(&finding, walk->run, error);
}

static int compare_ids(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static gboolean walk_one(guint64 i, guint worker, gpointer user, GError **error) {
  Walk *walk = user;
  g_autoptr(BlObjects) objects = NULL;
  (void)worker;
  if (!bl_survey_checkpoint(walk->run->store, g_ptr_array_index(walk->ids, i), NULL,
                            walk->run->func != NULL ? bl_survey_emit : NULL, walk->run, &objects,
                            &walk->surveyed[i], error))
    return FALSE;
  if (objects != NULL) bl_shares_add(walk->run->survey->shares, (guint)i, objects);
  bl_job_add_files(walk->job, 1);
  return TRUE;
}

/* Every id has its number in shares, also one under which there is nothing. */
static gboolean walk_all(BlSurveyRun *run, BlJob *job, GError **error) {
  g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func(g_free);
  Walk walk = {.run = run, .job = job, .ids = ids};
  if (!bl_store_list_folders(run->store, BL_KEY_MODELS, add_id, &walk, error)) return FALSE;
  g_ptr_array_sort(ids, compare_ids);
  g_autofree BlSurveyed **surveyed = walk.surveyed = g_new0(BlSurveyed *, ids->len);
  run->survey->shares = bl_shares_new(ids->len);
  bl_job_begin_phase(job, "looking", 0, ids->len);
  gboolean ok = bl_job_run(job, ids->len, walk_one, &walk, error);
  for (guint i = 0; i < ids->len; i++) {
    if (surveyed[i] == NULL) continue;
    surveyed[i]->number = i;
    g_ptr_array_add(run->survey->checkpoints, surveyed[i]);
  }
  if (ok) bl_shares_finish(run->survey->shares);
  return ok;
}

BlSurvey *bl_survey_run(BlStore *store, BlFindingFunc func, gpointer user, BlJob *job,
                        GError **error) {
  if (!bl_store_can(store, BL_STORE_CAN_LIST)) {
    bl_error_set(error, BL_ERROR_UNSUPPORTED,
                 "store %s cannot list what it holds, so nothing can be said of the whole",
                 store->url);
    return NULL;
  }
  g_autoptr(BlSurvey) survey = g_new0(BlSurvey, 1);
  survey->checkpoints = g_ptr_array_new_with_free_func(free_surveyed);
  BlSurveyRun run = {.store = store, .func = func, .user = user, .survey = survey};
  g_mutex_init(&run.lock);
  gboolean ok = walk_all(&run, job, error) && bl_survey_rest(&run, error);
  g_mutex_clear(&run.lock);
  return ok ? g_steal_pointer(&survey) : NULL;
}
