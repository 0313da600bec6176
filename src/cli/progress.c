#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/output.h"

/* Eight pictures a second look smooth and cost nothing. */
#define FRAME_US (G_USEC_PER_SEC / 8)
/* Work that ends before this shows no bar at all. */
#define FIRST_FRAME_US (G_USEC_PER_SEC / 4)
/* Where there is no terminal: a log is not to be flooded. */
#define LINE_US (10 * G_USEC_PER_SEC)
/* The rate forgets what is older than about this. */
#define RATE_MEMORY_S 3.0

#define CLEAR_LINE "\r\033[K"

static gboolean stderr_is_terminal(void) {
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) && term != NULL && !g_str_equal(term, "dumb");
}

void bl_progress_init(BlProgress *progress, BlJob *job) {
  memset(progress, 0, sizeof *progress);
  progress->job = job;
  progress->is_terminal = stderr_is_terminal();
  g_mutex_init(&progress->lock);
  g_cond_init(&progress->wake);
}

/* Standard error that cannot be written is nobody's to tell. */
static void write_stderr(const char *text) {
  bl_write_all(STDERR_FILENO, text, strlen(text), NULL);
}

void bl_progress_print(BlProgress *progress, const char *line) {
  gboolean clear = progress->thread != NULL && progress->is_terminal;
  g_autofree char *text = g_strconcat(clear ? CLEAR_LINE : "", line, "\n", NULL);
  write_stderr(text);
}

static guint terminal_columns(void) {
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

/* A job in the background does not draw over what its user does now. */
static gboolean in_foreground(void) {
  pid_t group = tcgetpgrp(STDERR_FILENO);
  return group < 0 || group == getpgrp();
}

static void append_time(GString *text, double seconds) {
  guint64 s = (guint64)(seconds + 0.5);
  if (s >= 3600)
    g_string_append_printf(text, "%" G_GUINT64_FORMAT ":%02u:%02u", s / 3600, (guint)(s / 60 % 60),
                           (guint)(s % 60));
  else
    g_string_append_printf(text, "%u:%02u", (guint)(s / 60), (guint)(s % 60));
}

typedef struct {
  guint64 done_bytes, total_bytes, done_files, total_files;
  const char *phase;
} Counters;

static Counters read_counters(const BlJob *job) {
  return (Counters){
      .done_bytes = __atomic_load_n(&job->done_bytes, __ATOMIC_RELAXED),
      .total_bytes = __atomic_load_n(&job->total_bytes, __ATOMIC_RELAXED),
      .done_files = __atomic_load_n(&job->done_files, __ATOMIC_RELAXED),
      .total_files = __atomic_load_n(&job->total_files, __ATOMIC_RELAXED),
      .phase = __atomic_load_n(&job->phase, __ATOMIC_RELAXED),
  };
}

/* The parts of a progress line, most wanted first: what does not fit is left out from behind. */
static void describe(const BlProgress *progress, const Counters *now, GPtrArray *parts) {
  BlSizeText done, total;
  bl_size_format(done, now->done_bytes);
  bl_size_format(total, now->total_bytes);
  if (now->total_bytes > 0)
    g_ptr_array_add(parts, g_strdup_printf("%s of %s", done, total));
  else if (now->done_bytes > 0)
    g_ptr_array_add(parts, g_strdup(done));

  if (progress->rate >= 1) {
    BlSizeText rate;
    bl_size_format(rate, (guint64)progress->rate);
    g_ptr_array_add(parts, g_strdup_printf("%s/s", rate));
  }
  if (progress->rate >= 1 && now->total_bytes > now->done_bytes) {
    GString *left = g_string_new(NULL);
    append_time(left, (double)(now->total_bytes - now->done_bytes) / progress->rate);
    g_string_append(left, " left");
    g_ptr_array_add(parts, g_string_free(left, FALSE));
  }
  /* Without bytes, what is counted may be objects or checkpoints. */
  if (now->total_files > 1)
    g_ptr_array_add(
        parts, g_strdup_printf("%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT "%s", now->done_files,
                               now->total_files, now->total_bytes > 0 ? " files" : ""));
}

static guint percent(const Counters *now) {
  guint64 done = MIN(now->done_bytes, now->total_bytes);
  return (guint)((double)done * 100.0 / (double)now->total_bytes);
}

/* "[=====>    ]" of that many columns. */
static void append_gauge(GString *text, guint columns, const Counters *now) {
  guint inner = columns - 2;
  guint64 done = MIN(now->done_bytes, now->total_bytes);
  guint full = (guint)((double)done / (double)now->total_bytes * inner);
  g_string_append_c(text, '[');
  for (guint i = 0; i < inner; i++) g_string_append_c(text, i < full ? '=' : i == full ? '>' : ' ');
  g_string_append_c(text, ']');
}

char *bl_progress_bar(const BlProgress *progress, guint columns) {
  enum { MIN_GAUGE = 10, MAX_GAUGE = 30 };
  Counters now = read_counters(progress->job);
  /* "^C" must fit behind it: what wraps is not cleared any more. */
  guint room = columns > 3 ? columns - 3 : 1;
  GString *text = g_string_new(now.phase != NULL ? now.phase : progress->name);
  if (now.total_bytes > 0) g_string_append_printf(text, " %3u%%", percent(&now));

  g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func(g_free);
  describe(progress, &now, parts);
  guint wanted = 0; /* parts that fit */
  gsize used = text->len;
  for (; wanted < parts->len; wanted++) {
    gsize more = 2 + strlen(parts->pdata[wanted]);
    /* The gauge comes behind bytes, rate and time left, but before the rest. */
    gsize gauge = wanted >= 3 && now.total_bytes > 0 ? 2 + MIN_GAUGE : 0;
    if (used + more + gauge > room) break;
    used += more;
  }
  if (now.total_bytes > 0 && used + 2 + MIN_GAUGE <= room) {
    g_string_append(text, "  ");
    append_gauge(text, (guint)MIN(room - used - 2, MAX_GAUGE), &now);
  }
  for (guint i = 0; i < wanted; i++)
    g_string_append_printf(text, "  %s", (const char *)parts->pdata[i]);
  if (text->len > room && now.total_bytes > 0) g_string_printf(text, "%u%%", percent(&now));
  if (text->len > room) g_string_truncate(text, room);
  return g_string_free(text, FALSE);
}

static void update_rate(BlProgress *progress, gint64 now_us) {
  guint64 done = __atomic_load_n(&progress->job->done_bytes, __ATOMIC_RELAXED);
  double seconds = (double)(now_us - progress->drawn_us) / G_USEC_PER_SEC;
  if (done < progress->drawn_bytes) {
    progress->rate = 0; /* another phase counts anew */
  } else if (seconds > 0) {
    double latest = (double)(done - progress->drawn_bytes) / seconds;
    double weight = progress->rate > 0 ? MIN(seconds / RATE_MEMORY_S, 1) : 1;
    progress->rate += (latest - progress->rate) * weight;
  }
  progress->drawn_bytes = done;
  progress->drawn_us = now_us;
}

static void draw_bar(BlProgress *progress) {
  if (!in_foreground()) return;
  g_autofree char *bar = bl_progress_bar(progress, terminal_columns());
  g_autofree char *text = g_strconcat(CLEAR_LINE, bar, NULL);
  write_stderr(text);
  progress->has_bar = TRUE;
}

static void draw_line(BlProgress *progress, gint64 now_us) {
  if (now_us - progress->line_us < LINE_US) return;
  progress->line_us = now_us;
  Counters now = read_counters(progress->job);
  g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func(g_free);
  describe(progress, &now, parts);
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "ballast: %s", now.phase != NULL ? now.phase : progress->name);
  if (now.total_bytes > 0) g_string_append_printf(text, ", %u%%", percent(&now));
  for (guint i = 0; i < parts->len; i++)
    g_string_append_printf(text, ", %s", (const char *)parts->pdata[i]);
  g_string_append_c(text, '\n');
  write_stderr(text->str);
}

/* Sleeps until the deadline; FALSE once the progress is to stop. */
static gboolean sleep_until(BlProgress *progress, gint64 deadline_us) {
  g_mutex_lock(&progress->lock);
  while (!progress->is_stopping && g_cond_wait_until(&progress->wake, &progress->lock, deadline_us))
    continue;
  gboolean go_on = !progress->is_stopping;
  g_mutex_unlock(&progress->lock);
  return go_on;
}

static gpointer draw(gpointer data) {
  BlProgress *progress = data;
  gint64 next_us = progress->started_us + FIRST_FRAME_US;
  while (sleep_until(progress, next_us)) {
    gint64 now_us = g_get_monotonic_time();
    update_rate(progress, now_us);
    if (progress->is_terminal)
      draw_bar(progress);
    else
      draw_line(progress, now_us);
    next_us = now_us + FRAME_US;
  }
  return NULL;
}

void bl_progress_start(BlProgress *progress, const char *name) {
  progress->name = name;
  if (progress->is_quiet) return;
  progress->is_stopping = FALSE;
  progress->started_us = progress->drawn_us = progress->line_us = g_get_monotonic_time();
  /* Where the system gives no more threads, the work goes on without it. */
  progress->thread = g_thread_try_new("progress", draw, progress, NULL);
}

void bl_progress_stop(BlProgress *progress) {
  if (progress->thread == NULL) return;
  g_mutex_lock(&progress->lock);
  progress->is_stopping = TRUE;
  g_cond_signal(&progress->wake);
  g_mutex_unlock(&progress->lock);
  g_thread_join(progress->thread);
  progress->thread = NULL;
  if (progress->has_bar) write_stderr(CLEAR_LINE);
  progress->has_bar = FALSE;
}
