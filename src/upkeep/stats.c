#include "upkeep/stats.h"

#include "model/room.h"

void bl_stats_clear(BlStats *stats) {
  g_clear_pointer(&stats->survey, bl_survey_free);
}

double bl_stats_ratio(const BlStats *stats) {
  return stats->n_data == 0 ? 1.0 : (double)stats->n_listed / (double)stats->n_data;
}

gboolean bl_stats_load(BlStore *store, BlJob *job, BlStats *stats, GError **error) {
  BlStoreSettings settings;
  *stats = (BlStats){.survey = NULL};
  if (!bl_store_get_settings(store, &settings, error)) return FALSE;
  stats->survey = bl_survey_run(store, NULL, NULL, job, error);
  if (stats->survey == NULL || !bl_room_used(store, &stats->n_stored, error)) return FALSE;
  for (guint i = 0; i < stats->survey->checkpoints->len; i++) {
    const BlSurveyed *surveyed = g_ptr_array_index(stats->survey->checkpoints, i);
    stats->n_listed += surveyed->n_bytes;
    if (surveyed->status == BL_CHECKPOINT_READY) stats->n_logical += surveyed->total_size;
  }
  stats->n_data = bl_shares_total(stats->survey->shares);
  stats->max_bytes = settings.max_bytes;
  if (!bl_store_free_space(store, &stats->n_free, NULL)) stats->n_free = G_MAXUINT64;
  return TRUE;
}
