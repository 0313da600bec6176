#include "upkeep/gc.h"

#include <string.h>
#include <sys/time.h>

#include "../support/folder.h"
#include "base/error.h"
#include "base/json.h"
#include "model/ref.h"
#include "store/fault.h"
#include "upkeep.h"
#include "upkeep/gc_record.h"

static BlGcResult gc(BlStore *store, gint64 grace_s, gboolean dry_run) {
  g_autoptr(GError) error = NULL;
  BlGcOptions options = {.grace_s = grace_s, .dry_run = dry_run};
  BlGcResult result;
  bl_gc(store, &options, NULL, &result, &error);
  g_assert_no_error(error);
  return result;
}

static void check(BlStore *store, gint64 grace_s, guint64 removed, guint64 waiting) {
  BlGcResult result = gc(store, grace_s, FALSE);
  g_assert_cmpuint(result.n_removed, ==, removed);
  g_assert_cmpuint(result.n_waiting, ==, waiting);
  bl_gc_result_clear(&result);
}

/* Moves what the record says into the past. */
static void age_record(BlStore *store, gint64 seconds) {
  g_autoptr(GError) error = NULL;
  g_autofree char *data = NULL;
  gsize size;
  g_assert_true(bl_store_load(store, BL_KEY_GC, 1u << 20, &data, &size, &error));
  g_autoptr(json_t) json = json_loads(data, 0, NULL);
  const char *identity;
  json_t *since;
  json_object_foreach(json_object_get(json, "candidates"), identity, since)
      json_integer_set(since, json_integer_value(since) - seconds);
  g_autofree char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
  put_text(store, BL_KEY_GC, text);
}

static void check_swept(BlStore *store) {
  BlKeyBuffer key;
  const char *gone[] = {"weight/models/a/reserved", "weight/models/f/manifest",
                        "weight/models/f/claim", "weight/used/gone"};
  for (guint i = 0; i < G_N_ELEMENTS(gone); i++) g_assert_false(upkeep_has(store, gone[i]));
  g_assert_false(upkeep_has(store, bl_key_chunk(key, "a", "other", 0)));
  g_assert_false(upkeep_has(store, bl_key_chunk(key, "n", "x", 0)));
  g_assert_true(upkeep_has(store, "weight/models/a/manifest"));
  g_assert_true(upkeep_has(store, "weight/models/a/notes"));
  for (guint i = 0; i < G_N_ELEMENTS(upkeep_files); i++)
    g_assert_true(upkeep_has(store, bl_key_chunk(key, "a", upkeep_files[i].path, 0)));
}

static void test_at_once(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  upkeep_put_garbage(store);
  check(store, 0, 6, 0);
  check_swept(store);
  check(store, 0, 0, 0);
  g_assert_false(upkeep_has(store, BL_KEY_GC));
}

static void test_two_passes(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  upkeep_put_garbage(store);
  check(store, 3600, 0, 6);
  check(store, 3600, 0, 6);
  age_record(store, 3599);
  check(store, 3600, 0, 6);
  age_record(store, 2);
  check(store, 3600, 6, 0);
  check_swept(store);
}

/* One that changed is another one, and waits anew. */
static void test_changed(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  upkeep_put_garbage(store);
  check(store, 3600, 0, 6);
  age_record(store, 4000);
  put_text(store, bl_key_chunk(key, "a", "other", 0), "another orphan");
  check(store, 3600, 5, 1);
  g_assert_true(upkeep_has(store, bl_key_chunk(key, "a", "other", 0)));
}

/* A clock that was set back makes nothing older. */
static void test_clock_back(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  upkeep_put_garbage(store);
  check(store, 3600, 0, 6);
  age_record(store, -100000);
  BlGcResult result = gc(store, 3600, FALSE);
  gint64 now = g_get_real_time() / G_USEC_PER_SEC;
  g_assert_cmpuint(result.n_waiting, ==, 6);
  g_assert_cmpint(result.next_at, <=, now + 3600);
  bl_gc_result_clear(&result);
  age_record(store, 3600);
  check(store, 3600, 6, 0);
}

static void count_warning(BlNoteLevel level, const char *text, gpointer data) {
  if (level == BL_NOTE_WARNING && strstr(text, "record of gc") != NULL) ++*(guint *)data;
}

static void test_damaged_record(void) {
  static const char *const bad[] = {"",
                                    "{",
                                    "[]",
                                    "{\"candidates\":{\"xy\":5},\"schema_version\":1}",
                                    "{\"candidates\":{},\"schema_version\":2}",
                                    "{\"candidates\":{}}",
                                    "{\"candidates\":{},\"schema_version\":1} x"};
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
    g_autoptr(GError) error = NULL;
    BlGcOptions options = {.grace_s = 3600};
    BlGcResult result;
    BlJob job;
    guint n = 0;
    upkeep_put_garbage(store);
    put_text(store, BL_KEY_GC, bad[i]);
    bl_job_init(&job);
    job.note = count_warning;
    job.note_data = &n;
    g_assert_true(bl_gc(store, &options, &job, &result, &error));
    g_assert_cmpuint(n, ==, 1);
    g_assert_cmpuint(result.n_waiting, ==, 6);
    bl_gc_result_clear(&result);
    bl_job_clear(&job);
    age_record(store, 3600);
    check(store, 3600, 6, 0);
  }
}

static void test_golden(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlGcRecord) record = bl_gc_record_new(), empty = bl_gc_record_new();
  g_autoptr(GError) error = NULL;
  guint8 identity[BL_IDENTITY_SIZE];
  for (guint i = 2; i > 0; i--) {
    memset(identity, (int)(0x11 * i), sizeof identity);
    g_assert_true(bl_gc_record_add(record, identity, 1700000000 + i));
  }
  g_assert_true(bl_gc_record_save(record, empty, store, &error));
  assert_golden(store, BL_KEY_GC, "gc.json");
  g_autoptr(BlGcRecord) again = bl_gc_record_load(store, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpint(bl_gc_record_find(again, identity), ==, 1700000001);
}

static void test_dry_run(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  upkeep_put_garbage(store);
  BlGcResult result = gc(store, 0, TRUE);
  g_assert_cmpuint(result.n_removed, ==, 6);
  bl_gc_result_clear(&result);
  g_assert_true(upkeep_has(store, "weight/models/f/manifest"));
  g_assert_false(upkeep_has(store, BL_KEY_GC));
}

static void test_refs(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  BlKeyBuffer buffer;
  upkeep_put_ready(store, "a");
  const char *refs[] = {"main", "v1", "v2"};
  for (guint i = 0; i < G_N_ELEMENTS(refs); i++) {
    g_assert_true(bl_ref_set(store, "m", refs[i], i == 2 ? "gone" : "a", &error));
    g_autofree char *key = g_strdup(bl_key_ref(buffer, "m", refs[i]));
    g_autofree char *moved = g_strconcat(key, ".moved", NULL);
    g_assert_true(bl_store_move(store, key, moved, &error));
  }
  /* v1 was set anew meanwhile. */
  g_assert_true(bl_ref_set(store, "m", "v1", "a", &error));
  g_assert_true(bl_ref_set(store, "m", "nowhere", "gone", &error));
  BlGcResult result = gc(store, 0, FALSE);
  g_assert_cmpuint(result.n_restored, ==, 1);
  g_assert_cmpuint(result.n_removed, ==, 3);
  bl_gc_result_clear(&result);
  g_auto(GStrv) names = bl_ref_names(store, "m", "a", &error);
  g_autofree char *joined = g_strjoinv(",", names);
  g_assert_cmpstr(joined, ==, "main,v1");
  g_autofree char *none = bl_ref_get(store, "m", "nowhere", &error);
  g_assert_null(none);
  g_assert_no_error(error);
  check(store, 0, 0, 0);
}

/* What a living owner covers stays, whatever the grace. */
static void test_live_claim(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  BlKeyBuffer key;
  upkeep_put_failed(store, "f");
  BlClaim *claim = bl_claim_acquire(store, bl_key_prefix(key, "f"), "import", 0, NULL, &error);
  g_assert_no_error(error);
  check(store, 0, 0, 0);
  g_assert_true(upkeep_has(store, "weight/models/f/manifest"));
  bl_claim_release(claim, NULL);
  check(store, 0, 1, 0);
}

/* One that lies among what is not ballast's is not removed whole. */
static void test_foreign_inside(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  upkeep_put_failed(store, "f");
  put_text(store, "weight/models/f/notes", "mine");
  check(store, 0, 0, 0);
  g_assert_true(upkeep_has(store, "weight/models/f/manifest"));
}

static void test_folders(void) {
  g_autofree char *folder = NULL;
  g_autoptr(BlStore) store = upkeep_dir_store(&folder);
  upkeep_put_garbage(store);
  g_autofree char *temporary =
      g_build_filename(folder, "weight/models/a/.tmp-00112233445566778899aabbccddeeff-1", NULL);
  g_autofree char *root_temporary =
      g_build_filename(folder, ".tmp-00112233445566778899aabbccddeeff-2", NULL);
  g_autofree char *empty = g_build_filename(folder, "weight/models/e", NULL);
  g_autofree char *foreign = g_build_filename(folder, "weight/models/a/.hidden", NULL);
  g_autofree char *emptied = g_build_filename(folder, "weight/models/n", NULL);
  g_assert_true(g_file_set_contents(temporary, "half", -1, NULL));
  g_assert_true(g_file_set_contents(root_temporary, "half", -1, NULL));
  g_assert_true(g_file_set_contents(foreign, "mine", -1, NULL));
  g_assert_cmpint(g_mkdir(empty, 0755), ==, 0);
  g_assert_cmpint(utimes(temporary, (struct timeval[2]){{1, 0}, {1, 0}}), ==, 0);
  g_assert_cmpint(utimes(root_temporary, (struct timeval[2]){{1, 0}, {1, 0}}), ==, 0);
  g_assert_cmpint(utimes(empty, (struct timeval[2]){{1, 0}, {1, 0}}), ==, 0);
  check(store, 0, 9, 0);
  check_swept(store);
  g_assert_false(g_file_test(temporary, G_FILE_TEST_EXISTS));
  g_assert_false(g_file_test(root_temporary, G_FILE_TEST_EXISTS));
  g_assert_false(g_file_test(empty, G_FILE_TEST_EXISTS));
  g_assert_false(g_file_test(emptied, G_FILE_TEST_EXISTS));
  g_assert_true(g_file_test(foreign, G_FILE_TEST_EXISTS));
  check(store, 0, 0, 0);
  remove_tree(folder);
}

/* Whatever fails: the READY checkpoint is whole, and a later run ends the work. */
static void test_faults(void) {
  for (guint n = 1; n < 2000; n++) {
    BlStore *memory = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
    upkeep_put_garbage(memory);
    g_autoptr(BlStore) store = bl_fault_store_new(memory);
    g_autoptr(GError) error = NULL;
    BlGcOptions options = {.grace_s = 0};
    BlGcResult result;
    BlFaultRule rule = {.op = BL_FAULT_ANY, .n = n, .times = 1, .fails = TRUE, .code = BL_ERROR_IO};
    bl_fault_store_set_rule(store, &rule);
    gboolean ok = bl_gc(store, &options, NULL, &result, &error);
    bl_gc_result_clear(&result);
    gboolean hit = bl_fault_store_n_hits(store) > 0;
    bl_fault_store_set_rule(store, &(BlFaultRule){.op = BL_FAULT_ANY});
    g_clear_error(&error);
    BlGcResult rest = gc(store, 0, FALSE);
    bl_gc_result_clear(&rest);
    check_swept(store);
    if (!hit) {
      g_assert_true(ok);
      return;
    }
  }
  g_assert_not_reached();
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/gc/at-once", test_at_once);
  g_test_add_func("/gc/two-passes", test_two_passes);
  g_test_add_func("/gc/changed", test_changed);
  g_test_add_func("/gc/clock-back", test_clock_back);
  g_test_add_func("/gc/damaged-record", test_damaged_record);
  g_test_add_func("/gc/golden", test_golden);
  g_test_add_func("/gc/dry-run", test_dry_run);
  g_test_add_func("/gc/refs", test_refs);
  g_test_add_func("/gc/live-claim", test_live_claim);
  g_test_add_func("/gc/foreign-inside", test_foreign_inside);
  g_test_add_func("/gc/folders", test_folders);
  g_test_add_func("/gc/faults", test_faults);
  return g_test_run();
}
