#include "upkeep/stats.h"

#include "model/room.h"
#include "upkeep.h"

static void test_totals(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  BlStats stats;
  guint64 used;
  g_assert_true(bl_stats_load(store, NULL, &stats, &error));
  g_assert_no_error(error);
  g_assert_cmpfloat(bl_stats_ratio(&stats), ==, 1.0);
  bl_stats_clear(&stats);
  upkeep_put_ready(store, "a");
  upkeep_put_ready(store, "b");
  upkeep_put_failed(store, "f");
  g_assert_true(bl_stats_load(store, NULL, &stats, &error));
  g_assert_no_error(error);
  g_assert_true(bl_room_used(store, &used, &error));
  g_assert_cmpuint(stats.n_logical, ==, 2 * 5030);
  g_assert_cmpuint(stats.n_stored, ==, used);
  g_assert_cmpuint(stats.n_data, ==, used);
  g_assert_cmpuint(stats.max_bytes, ==, G_MAXUINT64);
  g_assert_cmpuint(stats.survey->checkpoints->len, ==, 3);
  bl_stats_clear(&stats);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/stats/totals", test_totals);
  return g_test_run();
}
