#include "upkeep/fsck.h"

#include <string.h>

#include "base/error.h"
#include "model/key.h"
#include "upkeep/survey.h"

static void item_free(gpointer data) {
  BlFsckItem *item = data;
  g_free(item->checkpoint_id);
  g_free(item->name);
  g_free(item->text);
  g_free(item->advice);
  g_free(item);
}

void bl_fsck_report_clear(BlFsckReport *report) {
  for (guint i = 0; i < BL_SEVERITY_N; i++) g_clear_pointer(&report->items[i], g_ptr_array_unref);
}

static gboolean add(const BlFinding *finding, gpointer user, GError **error) {
  BlFsckReport *report = user;
  BlSeverity severity = bl_finding_severity(finding->kind);
  (void)error;
  report->n_findings[severity]++;
  report->n_bytes[severity] += finding->n_bytes;
  if (report->items[severity]->len >= BL_FSCK_MAX_ITEMS) return TRUE;
  BlFsckItem *item = g_new(BlFsckItem, 1);
  *item = (BlFsckItem){.kind = finding->kind,
                       .checkpoint_id = g_strdup(finding->checkpoint_id),
                       .name = g_strdup(finding->name),
                       .text = g_strdup(finding->text),
                       .advice = bl_finding_advice(finding),
                       .n_objects = finding->n_objects,
                       .n_bytes = finding->n_bytes};
  g_ptr_array_add(report->items[severity], item);
  return TRUE;
}

/* A single file where ballast keeps only folders: at the root, below "weight/", below
 * "weight/models/". What lies deeper the survey has seen. */
static gboolean add_single(const char *key, const BlObjectStat *stat, gpointer user,
                           GError **error) {
  const char *rest = g_str_has_prefix(key, BL_KEY_MODELS) ? key + strlen(BL_KEY_MODELS)
                     : g_str_has_prefix(key, "weight/")   ? key + strlen("weight/")
                                                          : key;
  BlFinding finding = {.kind = BL_FINDING_FOREIGN,
                       .name = key,
                       .text = "ballast knows no such object",
                       .n_objects = 1,
                       .n_bytes = stat->size};
  return strchr(rest, '/') != NULL || add(&finding, user, error);
}

/* A folder that may not be looked into was found by the survey, and is told; the rest counts. */
static gboolean add_singles(BlStore *store, BlFsckReport *report, GError **error) {
  g_autoptr(GError) fault = NULL;
  if (bl_store_list(store, "", add_single, report, &fault) ||
      g_error_matches(fault, BL_ERROR, BL_ERROR_DENIED))
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

static int compare(const void *a, const void *b) {
  const BlFsckItem *x = *(BlFsckItem *const *)a, *y = *(BlFsckItem *const *)b;
  int order = g_strcmp0(x->checkpoint_id, y->checkpoint_id);
  if (order == 0) order = (int)x->kind - (int)y->kind;
  return order != 0 ? order : g_strcmp0(x->name, y->name);
}

gboolean bl_fsck(BlStore *store, BlJob *job, BlFsckReport *report, GError **error) {
  *report = (BlFsckReport){.n_checkpoints = 0};
  for (guint i = 0; i < BL_SEVERITY_N; i++)
    report->items[i] = g_ptr_array_new_with_free_func(item_free);
  g_autoptr(BlSurvey) survey = bl_survey_run(store, add, report, job, error);
  if (survey == NULL || !add_singles(store, report, error)) return FALSE;
  for (guint i = 0; i < BL_SEVERITY_N; i++) g_ptr_array_sort(report->items[i], compare);
  report->n_checkpoints = survey->checkpoints->len;
  for (guint i = 0; i < survey->checkpoints->len; i++) {
    const BlSurveyed *surveyed = g_ptr_array_index(survey->checkpoints, i);
    report->n_ready += surveyed->status == BL_CHECKPOINT_READY && !surveyed->is_degraded;
    report->n_busy += surveyed->is_busy;
  }
  return TRUE;
}
