/* Import and delete over memory and local stores, wrapped in the store that fails: every call fails
 * once, and what is left is found and finished. */
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../support/folder.h"
#include "base/error.h"
#include "model/catalog.h"
#include "model/import.h"
#include "model/key.h"
#include "model/reader.h"
#include "model/remove.h"
#include "store/dir.h"
#include "store/fault.h"
#include "store/memory.h"

#define ID "m"

typedef struct {
  char *folder; /* holds "source" and "store" */
  char *source;
  BlStore *store; /* the failing one */
} Fixture;

typedef struct {
  gboolean is_dir;
  BlStoreCaps caps;
  guint64 chunk_size;
} Kind;

static void write_file(const Fixture *f, const char *path, const char *data, gsize size) {
  g_autofree char *full = g_build_filename(f->source, path, NULL);
  g_autofree char *folder = g_path_get_dirname(full);
  g_assert_cmpint(g_mkdir_with_parents(folder, 0755), ==, 0);
  g_assert_true(g_file_set_contents(full, data, (gssize)size, NULL));
}

static char *pattern(gsize size, guint32 seed) {
  char *data = g_malloc(size + 1);
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  for (gsize i = 0; i < size; i++) data[i] = (char)g_rand_int(rand);
  return data;
}

static void set_up(Fixture *f, gconstpointer data) {
  const Kind *kind = data;
  f->folder = g_dir_make_tmp("ballast-import-XXXXXX", NULL);
  f->source = g_build_filename(f->folder, "source", NULL);
  g_autofree char *weights = pattern(700000, 1);
  g_autofree char *more = pattern(5 * 1024 * 1024 + 17, 2);
  write_file(f, "weights.bin", weights, 700000);
  write_file(f, "more.bin", more, 5 * 1024 * 1024 + 17);
  write_file(f, "config.json", "{}", 2);
  write_file(f, "1_Pooling/config.json", "{\"a\":1}", 7);
  write_file(f, "empty", "", 0);
  BlStore *inner;
  if (kind->is_dir) {
    g_autofree char *path = g_build_filename(f->folder, "store", NULL);
    g_autoptr(GError) error = NULL;
    inner = bl_dir_store_open(path, TRUE, &error);
    g_assert_no_error(error);
  } else {
    inner = bl_memory_store_new(kind->caps);
  }
  f->store = bl_fault_store_new(inner);
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  bl_store_free(f->store);
  remove_tree(f->folder);
  g_free(f->folder);
  g_free(f->source);
}

static BlImportResult *import_as(const Fixture *f, gconstpointer kind, const char *id, BlJob *job,
                                 GError **error) {
  BlImportOptions options = {.source = f->source,
                             .checkpoint_id = id,
                             .model_id = "org/m",
                             .file_chunk_size = ((const Kind *)kind)->chunk_size};
  return bl_import(f->store, &options, job, error);
}

static BlImportResult *import(const Fixture *f, gconstpointer kind, BlJob *job, GError **error) {
  return import_as(f, kind, ID, job, error);
}

static void import_ok(const Fixture *f, gconstpointer kind, BlImportOutcome outcome,
                      guint64 n_written) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlImportResult) result = import(f, kind, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpint(result->outcome, ==, outcome);
  g_assert_cmpuint(result->n_files_written, ==, n_written);
}

static gboolean note_key(const char *key, const BlObjectStat *object, gpointer user,
                         GError **error) {
  (void)object;
  (void)error;
  g_ptr_array_add(user, g_strdup(key));
  return TRUE;
}

static guint n_objects(const Fixture *f) {
  g_autoptr(GPtrArray) keys = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GError) error = NULL;
  g_assert_true(bl_store_list(f->store, BL_KEY_MODELS, note_key, keys, &error));
  g_assert_no_error(error);
  return keys->len;
}

/* READY, and every byte that of the source. */
static void check_content_of(const Fixture *f, const char *id) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlManifest) manifest = bl_manifest_load_ready(f->store, id, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(manifest->n_files, ==, 5);
  g_autoptr(BlReader) reader = bl_reader_new(f->store, manifest, NULL);
  for (guint64 i = 0; i < manifest->n_files; i++) {
    g_autofree char *path = g_build_filename(f->source, manifest->files[i].path, NULL);
    g_autofree char *wanted = NULL;
    gsize size;
    g_assert_true(g_file_get_contents(path, &wanted, &size, NULL));
    g_assert_cmpuint(size, ==, manifest->files[i].size);
    g_autofree char *got = g_malloc(size + 1);
    g_assert_true(bl_reader_read(reader, i, 0, got, size, &error));
    g_assert_no_error(error);
    g_assert_cmpmem(got, size, wanted, size);
  }
  g_autoptr(BlDigests) digests = bl_digests_load(f->store, manifest, &error);
  g_assert_no_error(error);
  for (guint64 i = 0; i < manifest->n_files; i++)
    g_assert_true((bl_digests_get(digests, i) != NULL) == (manifest->files[i].size > 0));
}

static void check_content(const Fixture *f) {
  check_content_of(f, ID);
}

static void test_fresh(Fixture *f, gconstpointer kind) {
  import_ok(f, kind, BL_IMPORT_DONE, 5);
  check_content(f);
  g_autofree char *id = bl_ref_get(f->store, "org/m", "main", NULL);
  g_assert_cmpstr(id, ==, ID);
  bl_fault_store_reset_counts(f->store);
  import_ok(f, kind, BL_IMPORT_ALREADY_THERE, 0);
  g_assert_cmpuint(bl_fault_store_n_bytes(f->store, BL_FAULT_WRITE), ==, 0);
  /* What another import put and nobody made durable is made so: every chunk, and the manifest. */
  g_autoptr(BlManifest) manifest = bl_manifest_load(f->store, ID, 0, NULL);
  guint64 n_chunks = 0;
  for (guint64 i = 0; i < manifest->n_files; i++) n_chunks += manifest->files[i].n_chunks;
  g_assert_cmpuint(bl_fault_store_n_calls(f->store, BL_FAULT_ADOPT), ==, n_chunks + 1);
}

static void test_other_content(Fixture *f, gconstpointer kind) {
  import_ok(f, kind, BL_IMPORT_DONE, 5);
  g_autoptr(GError) error = NULL;
  g_autofree char *weights = pattern(700000, 9);
  write_file(f, "weights.bin", weights, 700000);
  g_autoptr(BlImportResult) result = import(f, kind, NULL, &error);
  g_assert_error(error, BL_ERROR, BL_ERROR_EXISTS);
  g_assert_nonnull(strstr(error->message, "weights.bin"));
  g_autofree char *original = pattern(700000, 1);
  write_file(f, "weights.bin", original, 700000);
  check_content(f);
}

/* Each call in turn fails; the import takes everything back, and then works. */
static void test_every_failure(Fixture *f, gconstpointer kind) {
  guint n_failed = 0;
  for (guint64 n = 1;; n++) {
    BlFaultRule rule = {
        .op = BL_FAULT_ANY, .n = n, .times = 1, .fails = TRUE, .code = BL_ERROR_NO_SPACE};
    bl_fault_store_set_rule(f->store, &rule);
    g_autoptr(GError) error = NULL;
    g_autoptr(BlImportResult) result = import(f, kind, NULL, &error);
    guint64 n_hits = bl_fault_store_n_hits(f->store);
    bl_fault_store_set_rule(f->store, &(BlFaultRule){0});
    if (result == NULL) {
      n_failed++;
      g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
    }
    if (n_hits == 0) break;
    /* Whatever is there now, delete removes it whole; most often nothing is. */
    g_autoptr(GError) fault = NULL;
    BlRemoveResult removed;
    if (!bl_remove(f->store, ID, 0, NULL, &removed, &fault))
      g_assert_error(fault, BL_ERROR, BL_ERROR_NOT_FOUND);
    bl_remove_result_clear(&removed);
    g_assert_cmpuint(n_objects(f), ==, 0);
  }
  g_assert_cmpuint(n_failed, >, 20);
  check_content(f);
}

static void test_rolled_back(Fixture *f, gconstpointer kind) {
  BlFaultRule rule = {
      .op = BL_FAULT_COMMIT, .n = 4, .times = 1, .fails = TRUE, .code = BL_ERROR_NO_SPACE};
  bl_fault_store_set_rule(f->store, &rule);
  g_autoptr(GError) error = NULL;
  g_assert_null(import(f, kind, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
  g_assert_cmpuint(n_objects(f), ==, 0);
}

/* A removal that fails while an import is taken back leaves the manifest that names what stayed. */
static void test_roll_back_fails(Fixture *f, gconstpointer kind) {
  guint64 n_before_chunks = 4;
  BlFaultRule rule = {
      .op = BL_FAULT_COMMIT, .n = n_before_chunks, .times = 1, .fails = TRUE, .code = BL_ERROR_IO};
  bl_fault_store_set_rule(f->store, &rule);
  BlStore *outer = bl_fault_store_new(f->store);
  f->store = outer;
  BlFaultRule removal = {
      .op = BL_FAULT_REMOVE, .n = 1, .times = 1, .fails = TRUE, .code = BL_ERROR_IO};
  bl_fault_store_set_rule(outer, &removal);
  g_autoptr(GError) error = NULL;
  g_assert_null(import(f, kind, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_assert_nonnull(strstr(error->message, "ballast model delete"));
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlManifest) manifest = bl_manifest_load(f->store, ID, 0, &fault);
  g_assert_no_error(fault);
  g_assert_false(manifest->is_ready);
  BlRemoveResult removed;
  g_assert_true(bl_remove(f->store, ID, 0, NULL, &removed, &fault));
  g_assert_no_error(fault);
  bl_remove_result_clear(&removed);
  g_assert_cmpuint(n_objects(f), ==, 0);
}

typedef struct {
  BlJob *job;
  guint64 after_bytes;
} Stopper;

static gpointer stop_later(gpointer data) {
  Stopper *stopper = data;
  while (__atomic_load_n(&stopper->job->done_bytes, __ATOMIC_RELAXED) < stopper->after_bytes)
    g_usleep(50);
  __atomic_store_n(&stopper->job->cancelled, TRUE, __ATOMIC_RELAXED);
  return NULL;
}

/* Stops an import once some bytes went in; what is right then is not written again. */
static void interrupt(Fixture *f, gconstpointer kind) {
  BlJob job;
  bl_job_init(&job);
  job.n_threads = 1;
  Stopper stopper = {.job = &job, .after_bytes = 700000};
  BlFaultRule slow = {.op = BL_FAULT_COMMIT, .n = 3, .times = 0, .delay_ms = 30};
  bl_fault_store_set_rule(f->store, &slow);
  GThread *thread = g_thread_new("stop", stop_later, &stopper);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlImportResult) result = import(f, kind, &job, &error);
  __atomic_store_n(&job.done_bytes, G_MAXUINT32, __ATOMIC_RELAXED);
  g_thread_join(thread);
  bl_fault_store_set_rule(f->store, &(BlFaultRule){0});
  bl_job_clear(&job);
  g_assert_error(error, BL_ERROR, BL_ERROR_CANCELLED);
  g_autoptr(BlManifest) manifest = bl_manifest_load(f->store, ID, 0, NULL);
  g_assert_nonnull(manifest);
  g_assert_false(manifest->is_ready);
}

static guint64 stored_bytes(const Fixture *f) {
  guint64 sum = 0;
  g_autoptr(BlManifest) manifest = bl_manifest_load(f->store, ID, 0, NULL);
  for (guint64 i = 0; i < manifest->n_files; i++) {
    for (guint32 c = 0; c < manifest->files[i].n_chunks; c++) {
      char key[BL_KEY_MAX];
      guint64 size;
      if (bl_store_size(f->store, bl_manifest_chunk_key(manifest, &manifest->files[i], c, key),
                        &size, NULL))
        sum += size;
    }
  }
  return sum;
}

#define SOURCE_BYTES (700000 + 5 * 1024 * 1024 + 17 + 2 + 7)

static void test_resume(Fixture *f, gconstpointer kind) {
  interrupt(f, kind);
  guint64 there = stored_bytes(f);
  g_assert_cmpuint(there, >, 0);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlImportResult) result = import(f, kind, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->n_bytes_written, ==, SOURCE_BYTES - there);
  check_content(f);
}

static void damage(const Fixture *f, const char *path) {
  g_autoptr(BlManifest) manifest = bl_manifest_load(f->store, ID, 0, NULL);
  const BlManifestFile *file = bl_manifest_find(manifest, path);
  char key[BL_KEY_MAX];
  g_autofree char *data = NULL;
  gsize size;
  g_autoptr(GError) error = NULL;
  bl_manifest_chunk_key(manifest, file, 0, key);
  g_assert_true(bl_store_load(f->store, key, 16 * 1024 * 1024, &data, &size, &error));
  data[size / 2] ^= 1;
  g_assert_true(bl_store_put(f->store, key, data, size, BL_PUT_REPLACE, &error));
  g_assert_no_error(error);
}

static void test_resume_damaged(Fixture *f, gconstpointer kind) {
  interrupt(f, kind);
  damage(f, "1_Pooling/config.json");
  import_ok(f, kind, BL_IMPORT_DONE, 3);
  check_content(f);
}

static void test_mend(Fixture *f, gconstpointer kind) {
  import_ok(f, kind, BL_IMPORT_DONE, 5);
  damage(f, "weights.bin");
  char key[BL_KEY_MAX];
  g_autoptr(GError) error = NULL;
  g_assert_true(bl_store_put(f->store, bl_key_digests(key, ID), "{}", 2, BL_PUT_REPLACE, &error));
  g_autoptr(BlImportResult) result = import(f, kind, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpint(result->outcome, ==, BL_IMPORT_ALREADY_THERE);
  g_assert_cmpuint(result->mended->len, ==, 2);
  g_assert_cmpstr(g_ptr_array_index(result->mended, 0), ==, "weights.bin");
  check_content(f);
}

/* What a mending could not make durable is not there to be taken for whole by the next one. */
static void test_mend_not_durable(Fixture *f, gconstpointer kind) {
  char key[BL_KEY_MAX];
  guint64 size;
  g_autoptr(GError) error = NULL;
  import_ok(f, kind, BL_IMPORT_DONE, 5);
  damage(f, "weights.bin");
  guint n_before = n_objects(f);
  BlFaultRule rule = {.op = BL_FAULT_SYNC, .n = 1, .times = 1, .fails = TRUE, .code = BL_ERROR_IO};
  bl_fault_store_set_rule(f->store, &rule);
  g_assert_null(import(f, kind, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  bl_fault_store_set_rule(f->store, &(BlFaultRule){0});
  g_assert_false(bl_store_size(f->store, bl_key_chunk(key, ID, "weights.bin", 0), &size, NULL));
  g_assert_cmpuint(n_objects(f), ==, n_before - 1);
  g_clear_error(&error);
  g_autoptr(BlImportResult) result = import(f, kind, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->mended->len, ==, 1);
  check_content(f);
}

/* Another chunk size: what the earlier attempt left under other numbers goes. */
static void test_resume_other_chunks(Fixture *f, gconstpointer kind) {
  interrupt(f, kind);
  Kind other = *(const Kind *)kind;
  other.chunk_size = 300000;
  g_autoptr(GError) error = NULL;
  g_autoptr(BlImportResult) result = import(f, &other, NULL, &error);
  g_assert_no_error(error);
  check_content(f);
  BlRemoveResult removed;
  g_assert_true(bl_remove(f->store, ID, 0, NULL, &removed, &error));
  bl_remove_result_clear(&removed);
  g_assert_cmpuint(n_objects(f), ==, 0);
}

static void test_delete_every_failure(Fixture *f, gconstpointer kind) {
  import_ok(f, kind, BL_IMPORT_DONE, 5);
  for (guint64 n = 1;; n++) {
    BlFaultRule rule = {.op = BL_FAULT_ANY, .n = n, .times = 1, .fails = TRUE, .code = BL_ERROR_IO};
    bl_fault_store_set_rule(f->store, &rule);
    g_autoptr(GError) error = NULL;
    BlRemoveResult removed;
    gboolean ok = bl_remove(f->store, ID, 0, NULL, &removed, &error);
    bl_remove_result_clear(&removed);
    guint64 n_hits = bl_fault_store_n_hits(f->store);
    bl_fault_store_set_rule(f->store, &(BlFaultRule){0});
    if (n_hits == 0) {
      g_assert_true(ok || g_error_matches(error, BL_ERROR, BL_ERROR_NOT_FOUND));
      break;
    }
    if (ok) import_ok(f, kind, BL_IMPORT_DONE, 5);
    /* Half deleted is FAILED, never READY with bytes missing. */
    g_autoptr(BlManifest) manifest = bl_manifest_load(f->store, ID, 0, NULL);
    if (manifest != NULL && manifest->is_ready) check_content(f);
    if (manifest == NULL || !manifest->is_ready) {
      g_clear_error(&error);
      g_autoptr(BlImportResult) again = import(f, kind, NULL, &error);
      g_assert_no_error(error);
    }
  }
}

#define DONOR "donor"

static void import_donor(const Fixture *f, gconstpointer kind) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlImportResult) result = import_as(f, kind, DONOR, NULL, &error);
  g_assert_no_error(error);
}

/* The bytes come from another checkpoint: all of them, or, where a call fails, as many as can. */
static void test_share_every_failure(Fixture *f, gconstpointer kind) {
  import_donor(f, kind);
  guint64 n_objects_before = n_objects(f);
  for (guint64 n = 1;; n++) {
    BlFaultRule rule = {.op = BL_FAULT_ANY,
                        .n = n,
                        .times = 1,
                        .fails = TRUE,
                        .code = n % 2 == 0 ? BL_ERROR_NO_SPACE : BL_ERROR_IO};
    bl_fault_store_set_rule(f->store, &rule);
    g_autoptr(GError) error = NULL;
    g_autoptr(BlImportResult) result = import(f, kind, NULL, &error);
    guint64 n_hits = bl_fault_store_n_hits(f->store);
    bl_fault_store_set_rule(f->store, &(BlFaultRule){0});
    if (result != NULL) check_content(f);
    check_content_of(f, DONOR);
    if (n_hits == 0) {
      g_assert_cmpuint(result->n_bytes_shared, ==, result->n_bytes);
      break;
    }
    g_autoptr(GError) fault = NULL;
    BlRemoveResult removed;
    if (!bl_remove(f->store, ID, 0, NULL, &removed, &fault))
      g_assert_error(fault, BL_ERROR, BL_ERROR_NOT_FOUND);
    bl_remove_result_clear(&removed);
    g_assert_cmpuint(n_objects(f), ==, n_objects_before);
    check_content_of(f, DONOR);
  }
}

/* A store that cannot give this file another name (too many of them, say), or whose donor goes at
 * the last moment, is written to as ever. */
static void test_share_refused(Fixture *f, gconstpointer kind) {
  static const BlErrorCode codes[] = {BL_ERROR_UNSUPPORTED, BL_ERROR_NOT_FOUND};
  import_donor(f, kind);
  for (gsize i = 0; i < G_N_ELEMENTS(codes); i++) {
    BlFaultRule rule = {.op = BL_FAULT_SHARE, .n = 1, .times = 0, .fails = TRUE, .code = codes[i]};
    bl_fault_store_set_rule(f->store, &rule);
    bl_fault_store_reset_counts(f->store);
    import_ok(f, kind, BL_IMPORT_DONE, 5);
    g_assert_cmpuint(bl_fault_store_n_bytes(f->store, BL_FAULT_WRITE), >=, SOURCE_BYTES);
    check_content(f);
    BlRemoveResult removed;
    g_assert_true(bl_remove(f->store, ID, 0, NULL, &removed, NULL));
    bl_remove_result_clear(&removed);
  }
  bl_fault_store_set_rule(f->store, &(BlFaultRule){0});
  check_content_of(f, DONOR);
}

static const Kind kinds[] = {
    {.is_dir = FALSE, .caps = BL_MEMORY_STORE_CAPS},
    {.is_dir = FALSE, .caps = BL_MEMORY_STORE_CAPS | BL_STORE_IS_REMOTE, .chunk_size = 1024 * 1024},
    {.is_dir = TRUE},
    {.is_dir = TRUE, .chunk_size = 1024 * 1024},
};
static const char *const kind_names[] = {"memory", "remote", "dir", "dir-chunked"};

static void add(const char *name, void (*test)(Fixture *, gconstpointer)) {
  for (guint i = 0; i < G_N_ELEMENTS(kinds); i++) {
    g_autofree char *path = g_strdup_printf("/import/%s/%s", name, kind_names[i]);
    g_test_add(path, Fixture, &kinds[i], set_up, test, tear_down);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  add("fresh", test_fresh);
  add("other-content", test_other_content);
  add("every-failure", test_every_failure);
  add("rolled-back", test_rolled_back);
  add("roll-back-fails", test_roll_back_fails);
  add("resume", test_resume);
  add("resume-damaged", test_resume_damaged);
  add("resume-other-chunks", test_resume_other_chunks);
  add("mend", test_mend);
  add("mend-not-durable", test_mend_not_durable);
  add("delete-every-failure", test_delete_every_failure);
  g_test_add("/import/share/every-failure", Fixture, &kinds[2], set_up, test_share_every_failure,
             tear_down);
  g_test_add("/import/share/refused", Fixture, &kinds[2], set_up, test_share_refused, tear_down);
  return g_test_run();
}
