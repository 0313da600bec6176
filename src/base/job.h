/* What a long operation is given by whoever runs it: a way to be stopped, counters for a progress
 * display, and a place for warnings and notes. The library never prints; the command reads this.
 *
 * Threads: the counters and the flag are atomic; the note function is called from any thread, one
 * call at a time (the job's lock, never held across I/O of ours). */
#pragma once
#include <glib.h>

typedef enum { BL_NOTE_INFO, BL_NOTE_WARNING } BlNoteLevel;
typedef void (*BlNoteFunc)(BlNoteLevel level, const char *text, gpointer data);

typedef struct {
  /* Set (by a signal handler, say) to make the operation end with CANCELLED at its next step. */
  volatile int cancelled;
  /* What is being done ("hashing", "copying"): a static string, replaced as work goes on. */
  const char *volatile phase;
  /* Bytes and files to do and done; zero totals are "not known yet". */
  guint64 total_bytes, done_bytes, total_files, done_files;
  /* The same of phases that ended. */
  guint64 earlier_bytes, earlier_files;
  /* Threads to use; 0: as many as there are cores, at most 8 (memory stays bounded). */
  guint n_threads;
  BlNoteFunc note;
  gpointer note_data;
  GMutex lock; /* protects the calls of note, nothing else */
} BlJob;

void bl_job_init(BlJob *job);
void bl_job_clear(BlJob *job);
/* FALSE and CANCELLED once the job was told to stop. job may be NULL: never stopped. */
gboolean bl_job_check(BlJob *job, GError **error);
void bl_job_set_phase(BlJob *job, const char *phase);
/* A phase whose bytes and files count from 0. */
void bl_job_begin_phase(BlJob *job, const char *phase, guint64 bytes, guint64 files);
void bl_job_set_total(BlJob *job, guint64 bytes, guint64 files);
/* More bytes to do than was thought (a second pass); negative: fewer. */
void bl_job_add_total(BlJob *job, gint64 bytes);
/* Both may be called with a NULL job. */
void bl_job_add_bytes(BlJob *job, guint64 bytes);
void bl_job_add_files(BlJob *job, guint64 files);
/* Of all phases that read data: what they have done. Others count checkpoints or objects. */
void bl_job_sum(const BlJob *job, guint64 *bytes, guint64 *files);
void bl_job_note(BlJob *job, BlNoteLevel level, const char *format, ...) G_GNUC_PRINTF(3, 4);
guint bl_job_n_threads(BlJob *job);

/* Calls work(item i, user) for i in 0..n-1 on up to bl_job_n_threads threads, each index once, in
 * order of start. The first failure stops the rest (items under way end first) and is the error
 * returned; a cancelled job stops likewise. work runs unlocked and reports into its own item;
 * `worker` is 0..threads-1 and never runs twice at a time, so it can index scratch memory. */
typedef gboolean (*BlWorkFunc)(guint64 i, guint worker, gpointer user, GError **error);
gboolean bl_job_run(BlJob *job, guint64 n, BlWorkFunc work, gpointer user, GError **error);
