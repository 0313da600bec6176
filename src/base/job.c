#include "base/job.h"

#include "base/error.h"

/* More threads than this gain nothing at the speeds of disks and cost a buffer each. */
#define N_THREADS_MAX 8

void bl_job_init(BlJob *job) {
  *job = (BlJob){.phase = ""};
  g_mutex_init(&job->lock);
}

void bl_job_clear(BlJob *job) {
  g_mutex_clear(&job->lock);
}

gboolean bl_job_check(BlJob *job, GError **error) {
  if (job == NULL || !__atomic_load_n(&job->cancelled, __ATOMIC_RELAXED)) return TRUE;
  return bl_error_set(error, BL_ERROR_CANCELLED, "interrupted");
}

void bl_job_set_phase(BlJob *job, const char *phase) {
  if (job != NULL) __atomic_store_n(&job->phase, phase, __ATOMIC_RELEASE);
}

void bl_job_begin_phase(BlJob *job, const char *phase, guint64 bytes, guint64 files) {
  if (job == NULL) return;
  bl_job_sum(job, &job->earlier_bytes, &job->earlier_files);
  __atomic_store_n(&job->done_bytes, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&job->done_files, 0, __ATOMIC_RELAXED);
  bl_job_set_total(job, bytes, files);
  bl_job_set_phase(job, phase);
}

void bl_job_set_total(BlJob *job, guint64 bytes, guint64 files) {
  if (job == NULL) return;
  __atomic_store_n(&job->total_bytes, bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&job->total_files, files, __ATOMIC_RELAXED);
}

void bl_job_add_total(BlJob *job, gint64 bytes) {
  if (job != NULL) __atomic_fetch_add(&job->total_bytes, (guint64)bytes, __ATOMIC_RELAXED);
}

void bl_job_add_bytes(BlJob *job, guint64 bytes) {
  if (job != NULL) __atomic_fetch_add(&job->done_bytes, bytes, __ATOMIC_RELAXED);
}

void bl_job_add_files(BlJob *job, guint64 files) {
  if (job != NULL) __atomic_fetch_add(&job->done_files, files, __ATOMIC_RELAXED);
}

void bl_job_sum(const BlJob *job, guint64 *bytes, guint64 *files) {
  gboolean has_data = job->total_bytes > 0;
  *bytes = job->earlier_bytes + (has_data ? job->done_bytes : 0);
  *files = job->earlier_files + (has_data ? job->done_files : 0);
}

void bl_job_note(BlJob *job, BlNoteLevel level, const char *format, ...) {
  if (job == NULL || job->note == NULL) return;
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  g_mutex_lock(&job->lock);
  job->note(level, text, job->note_data);
  g_mutex_unlock(&job->lock);
}

guint bl_job_n_threads(BlJob *job) {
  if (job != NULL && job->n_threads > 0) return job->n_threads;
  return CLAMP(g_get_num_processors(), 1, N_THREADS_MAX);
}

typedef struct {
  BlJob *job;
  BlWorkFunc work;
  gpointer user;
  guint64 n;
  guint64 next;  /* atomic: the first item nobody has taken */
  gint stopped;  /* atomic: take no more items */
  GMutex lock;   /* protects error */
  GError *error; /* the first failure */
} Run;

typedef struct {
  Run *run;
  guint worker;
  GThread *thread;
} Worker;

static void run_fail(Run *run, GError *error) {
  g_atomic_int_set(&run->stopped, TRUE);
  g_mutex_lock(&run->lock);
  if (run->error == NULL)
    run->error = error;
  else
    g_error_free(error);
  g_mutex_unlock(&run->lock);
}

static gpointer run_items(gpointer data) {
  Worker *worker = data;
  Run *run = worker->run;
  while (!g_atomic_int_get(&run->stopped)) {
    guint64 i = __atomic_fetch_add(&run->next, 1, __ATOMIC_RELAXED);
    if (i >= run->n) break;
    GError *error = NULL;
    if (!bl_job_check(run->job, &error) || !run->work(i, worker->worker, run->user, &error))
      run_fail(run, error);
  }
  return NULL;
}

gboolean bl_job_run(BlJob *job, guint64 n, BlWorkFunc work, gpointer user, GError **error) {
  guint n_workers = (guint)MIN(MAX(n, 1), bl_job_n_threads(job));
  g_autofree Worker *workers = g_new0(Worker, n_workers);
  Run run = {.job = job, .work = work, .user = user, .n = n};
  g_mutex_init(&run.lock);

  /* The caller's thread is worker 0. Where the system gives no more threads, fewer do the work. */
  workers[0] = (Worker){.run = &run};
  for (guint i = 1; i < n_workers; i++) {
    workers[i] = (Worker){.run = &run, .worker = i};
    workers[i].thread = g_thread_try_new("ballast-worker", run_items, &workers[i], NULL);
    if (workers[i].thread == NULL) break;
  }
  run_items(&workers[0]);
  for (guint i = 1; i < n_workers && workers[i].thread != NULL; i++)
    g_thread_join(workers[i].thread);

  g_mutex_clear(&run.lock);
  if (run.error == NULL) return TRUE;
  g_propagate_error(error, run.error);
  return FALSE;
}
