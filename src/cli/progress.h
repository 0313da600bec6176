/* What a person sees of a job on standard error: a bar on a terminal, a line now and then
 * elsewhere, and the job's notes and warnings.
 *
 * One thread draws; it only reads the job's counters. Everything goes out in single writes that
 * begin by clearing the bar's line, so the drawing thread and the threads that note need no lock
 * between them. */
#pragma once
#include "base/job.h"

typedef struct {
  BlJob *job;
  gboolean is_terminal, is_quiet;
  const char *name; /* what is done, for lines that are no bar: "import" */
  GThread *thread;  /* NULL: not started */
  GMutex lock;      /* protects is_stopping */
  GCond wake;
  gboolean is_stopping;
  /* The drawing thread's own. */
  gint64 started_us, drawn_us, line_us;
  guint64 drawn_bytes;
  double rate; /* bytes a second, smoothed */
  gboolean has_bar;
} BlProgress;

void bl_progress_init(BlProgress *progress, BlJob *job);
/* Begins to draw, once the work has taken a moment. */
void bl_progress_start(BlProgress *progress, const char *name);
/* Ends the thread and clears the bar; nothing where none was started. */
void bl_progress_stop(BlProgress *progress);
/* Writes a line (a newline is added) above the bar. Any thread. */
void bl_progress_print(BlProgress *progress, const char *line);

/* The bar's text for a terminal of that many columns, at most columns - 1 wide. Caller frees. */
char *bl_progress_bar(const BlProgress *progress, guint columns);
