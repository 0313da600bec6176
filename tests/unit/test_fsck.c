#include "upkeep/fsck.h"

#include "store/fault.h"
#include "upkeep.h"

static void check(BlStore *store, guint64 damaged, guint64 lost, guint64 leftover) {
  g_autoptr(GError) error = NULL;
  BlFsckReport report;
  bl_fsck(store, NULL, &report, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(report.n_findings[BL_SEVERITY_DAMAGED], ==, damaged);
  g_assert_cmpuint(report.n_findings[BL_SEVERITY_LOST], ==, lost);
  g_assert_cmpuint(report.n_findings[BL_SEVERITY_LEFTOVER], ==, leftover);
  bl_fsck_report_clear(&report);
}

static void test_report(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  BlFsckReport report;
  check(store, 0, 0, 0);
  upkeep_put_ready(store, "a");
  upkeep_put_ready(store, "b");
  upkeep_put_failed(store, "f");
  test_remove_chunk(store, "b", "config.json", 0);
  test_remove_chunk(store, "a", "model.safetensors", 0);
  test_resize_chunk(store, "a", "config.json", 0, 3);
  check(store, 1, 2, 1);
  g_assert_true(bl_fsck(store, NULL, &report, &error));
  g_assert_cmpuint(report.n_checkpoints, ==, 3);
  g_assert_cmpuint(report.n_ready, ==, 0); /* "a" and "b" are DEGRADED */
  const BlFsckItem *lost = report.items[BL_SEVERITY_LOST]->pdata[0];
  g_assert_cmpstr(lost->checkpoint_id, ==, "a");
  g_assert_cmpstr(lost->name, ==, "model.safetensors");
  g_assert_cmpstr(lost->advice, ==, "\"ballast model repair a\"");
  g_assert_cmpuint(lost->n_bytes, ==, 5000);
  bl_fsck_report_clear(&report);
}

/* A folder that cannot be read is told, not taken for an empty one. */
static void test_unreadable(void) {
  for (guint n = 1; n < 200; n++) {
    BlStore *memory = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
    upkeep_put_ready(memory, "a");
    g_autoptr(BlStore) store = bl_fault_store_new(memory);
    g_autoptr(GError) error = NULL;
    BlFsckReport report;
    BlFaultRule rule = {
        .op = BL_FAULT_LIST, .n = n, .times = 1, .fails = TRUE, .code = BL_ERROR_IO};
    bl_fault_store_set_rule(store, &rule);
    gboolean ok = bl_fsck(store, NULL, &report, &error);
    guint64 n_damaged = report.n_findings[BL_SEVERITY_DAMAGED];
    bl_fsck_report_clear(&report);
    if (bl_fault_store_n_hits(store) == 0) {
      g_assert_true(ok && n_damaged == 0);
      return;
    }
    g_assert_true(!ok || n_damaged == 1);
  }
  g_assert_not_reached();
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/fsck/report", test_report);
  g_test_add_func("/fsck/unreadable", test_unreadable);
  return g_test_run();
}
