#include "base/job.h"

#include "base/error.h"

#define N_ITEMS 500
#define N_WORKERS 4

typedef struct {
  BlJob job;
  gint times[N_ITEMS];    /* how often each item ran */
  gint active[N_WORKERS]; /* that a worker runs one item at a time */
  gint n_started;
  gint clashes;
  guint64 fail_at;
  guint64 cancel_at;
  GThread *thread;
} Fixture;

static void set_up(Fixture *f, gconstpointer data) {
  (void)data;
  bl_job_init(&f->job);
  f->job.n_threads = N_WORKERS;
  f->fail_at = f->cancel_at = G_MAXUINT64;
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  bl_job_clear(&f->job);
}

static gboolean work(guint64 i, guint worker, gpointer user, GError **error) {
  Fixture *f = user;
  if (worker >= N_WORKERS || g_atomic_int_add(&f->active[worker], 1) != 0) {
    g_atomic_int_inc(&f->clashes);
    return TRUE;
  }
  g_atomic_int_inc(&f->n_started);
  g_atomic_int_inc(&f->times[i]);
  if (i == f->cancel_at) __atomic_store_n(&f->job.cancelled, 1, __ATOMIC_RELAXED);
  g_usleep(20);
  gboolean done = i != f->fail_at;
  if (!done) bl_error_set(error, BL_ERROR_IO, "item %" G_GUINT64_FORMAT, i);
  g_atomic_int_add(&f->active[worker], -1);
  return done;
}

static void test_every_item_once(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_assert_true(bl_job_run(&f->job, N_ITEMS, work, f, &error));
  g_assert_no_error(error);
  for (guint i = 0; i < N_ITEMS; i++) g_assert_cmpint(f->times[i], ==, 1);
  g_assert_cmpint(f->clashes, ==, 0);
}

static void test_failure_stops(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  f->fail_at = 50;
  g_assert_false(bl_job_run(&f->job, N_ITEMS, work, f, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_assert_cmpstr(error->message, ==, "item 50");
  g_assert_cmpint(f->n_started, >, 50);
  g_assert_cmpint(f->n_started, <, N_ITEMS);
}

static gboolean fail_each(guint64 i, guint worker, gpointer user, GError **error) {
  (void)worker;
  g_atomic_int_inc(&((Fixture *)user)->n_started);
  return bl_error_set(error, BL_ERROR_IO, "item %" G_GUINT64_FORMAT, i);
}

/* Several fail at once: one error comes out, the others are freed (the leak checker watches). */
static void test_many_failures(Fixture *f, gconstpointer data) {
  (void)data;
  for (guint round = 0; round < 50; round++) {
    g_autoptr(GError) error = NULL;
    f->n_started = 0;
    g_assert_false(bl_job_run(&f->job, N_ITEMS, fail_each, f, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_IO);
    g_assert_cmpint(f->n_started, <=, N_WORKERS);
  }
}

static void test_cancel(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  f->cancel_at = 10;
  g_assert_false(bl_job_run(&f->job, N_ITEMS, work, f, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CANCELLED);
  g_assert_cmpint(f->n_started, <, N_ITEMS);
  g_clear_error(&error);
  f->n_started = 0;
  g_assert_false(bl_job_run(&f->job, N_ITEMS, work, f, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CANCELLED);
  g_assert_cmpint(f->n_started, ==, 0);
}

static gboolean note_thread(guint64 i, guint worker, gpointer user, GError **error) {
  (void)error;
  Fixture *f = user;
  g_assert_cmpuint(worker, ==, 0);
  g_assert_cmpuint(i, ==, f->n_started); /* one thread: in order */
  f->n_started++;
  f->thread = g_thread_self();
  return TRUE;
}

static void test_inline(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_assert_true(bl_job_run(&f->job, 0, note_thread, f, &error));
  g_assert_cmpint(f->n_started, ==, 0);
  g_assert_true(bl_job_run(&f->job, 1, note_thread, f, &error));
  g_assert_true(f->thread == g_thread_self());
  f->job.n_threads = 1;
  f->n_started = 0;
  g_assert_true(bl_job_run(&f->job, 20, note_thread, f, &error));
  g_assert_cmpint(f->n_started, ==, 20);
  g_assert_true(f->thread == g_thread_self());
  g_assert_no_error(error);
}

static void collect(BlNoteLevel level, const char *text, gpointer data) {
  g_string_append_printf(data, "%d:%s;", level, text);
}

static void test_counters_and_notes(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GString) notes = g_string_new(NULL);
  bl_job_note(&f->job, BL_NOTE_INFO, "nobody listens");
  f->job.note = collect;
  f->job.note_data = notes;
  bl_job_note(&f->job, BL_NOTE_INFO, "left out %d", 3);
  bl_job_note(&f->job, BL_NOTE_WARNING, "odd");
  g_assert_cmpstr(notes->str, ==, "0:left out 3;1:odd;");
  bl_job_set_phase(&f->job, "hashing");
  bl_job_set_total(&f->job, 1ull << 40, 7);
  bl_job_add_bytes(&f->job, 1ull << 33);
  bl_job_add_bytes(&f->job, 1);
  bl_job_add_files(&f->job, 2);
  g_assert_cmpstr(f->job.phase, ==, "hashing");
  g_assert_cmpuint(f->job.total_bytes, ==, 1ull << 40);
  g_assert_cmpuint(f->job.total_files, ==, 7);
  g_assert_cmpuint(f->job.done_bytes, ==, (1ull << 33) + 1);
  g_assert_cmpuint(f->job.done_files, ==, 2);
}

static gboolean count(guint64 i, guint worker, gpointer user, GError **error) {
  (void)i;
  (void)worker;
  (void)error;
  g_atomic_int_inc((gint *)user);
  return TRUE;
}

static void test_without_job(void) {
  g_autoptr(GError) error = NULL;
  gint n = 0;
  g_assert_true(bl_job_check(NULL, &error));
  bl_job_set_phase(NULL, "x");
  bl_job_set_total(NULL, 1, 1);
  bl_job_add_bytes(NULL, 1);
  bl_job_add_files(NULL, 1);
  bl_job_note(NULL, BL_NOTE_INFO, "x");
  g_assert_cmpuint(bl_job_n_threads(NULL), >=, 1);
  g_assert_cmpuint(bl_job_n_threads(NULL), <=, 8);
  g_assert_true(bl_job_run(NULL, 100, count, &n, &error));
  g_assert_cmpint(n, ==, 100);
  g_assert_no_error(error);
}

static void test_phases(Fixture *f, gconstpointer data) {
  (void)data;
  bl_job_begin_phase(&f->job, "looking", 0, 7);
  bl_job_add_files(&f->job, 7);
  bl_job_add_bytes(&f->job, 100);
  bl_job_begin_phase(&f->job, "mending", 50, 2);
  g_assert_cmpstr(f->job.phase, ==, "mending");
  g_assert_cmpuint(f->job.done_bytes + f->job.done_files, ==, 0);
  g_assert_cmpuint(f->job.total_bytes, ==, 50);
  g_assert_cmpuint(f->job.total_files, ==, 2);
  bl_job_add_files(&f->job, 1);
  bl_job_add_bytes(&f->job, 50);
  bl_job_begin_phase(&f->job, "digesting", 20, 0);
  bl_job_add_bytes(&f->job, 20);
  guint64 bytes, files;
  bl_job_sum(&f->job, &bytes, &files);
  g_assert_cmpuint(bytes, ==, 70);
  g_assert_cmpuint(files, ==, 1);
  bl_job_begin_phase(NULL, "none", 1, 1);
}

#define ADD(name, func) g_test_add("/job/" name, Fixture, NULL, set_up, func, tear_down)

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  ADD("every-item-once", test_every_item_once);
  ADD("failure-stops", test_failure_stops);
  ADD("many-failures", test_many_failures);
  ADD("cancel", test_cancel);
  ADD("inline", test_inline);
  ADD("counters-and-notes", test_counters_and_notes);
  ADD("phases", test_phases);
  g_test_add_func("/job/without-job", test_without_job);
  return g_test_run();
}
