#include "cli/output.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

/* Width of the labels of bl_out_field, colon included. */
#define LABEL_WIDTH 13
/* Columns of the widest table, with room. */
#define MAX_COLUMNS 8

/* From this many files on, of less than this on average, the time goes into files, not bytes. */
#define MANY_FILES 100
#define SMALL_FILE (64 * 1024)

/* Three digits that say something: 9.5, 99.9, then 100 to 999. */
static void format_scaled(BlSizeText text, double value, const char *const *units, guint n_units,
                          double step) {
  guint i = 0;
  while (i + 1 < n_units && value >= step - 0.5) {
    value /= step;
    i++;
  }
  const char *space = units[i][0] != '\0' ? " " : "";
  if (i == 0 || value >= 99.95)
    g_snprintf(text, sizeof(BlSizeText), "%.0f%s%s", value, space, units[i]);
  else
    g_snprintf(text, sizeof(BlSizeText), "%.1f%s%s", value, space, units[i]);
}

char *bl_size_format(BlSizeText text, guint64 bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  format_scaled(text, (double)bytes, units, G_N_ELEMENTS(units), 1024);
  return text;
}

char *bl_count_format(BlSizeText text, guint64 count) {
  static const char *const units[] = {"", "K", "M", "B", "T"};
  format_scaled(text, (double)count, units, G_N_ELEMENTS(units), 1000);
  return text;
}

char *bl_age_format(BlSizeText text, gint64 unix_time) {
  gint64 seconds = MAX(g_get_real_time() / G_USEC_PER_SEC - unix_time, 0);
  static const struct {
    gint64 from, unit;
    const char *name;
  } steps[] = {{2 * 86400, 86400, "d"}, {2 * 3600, 3600, "h"}, {120, 60, "min"}, {0, 1, "s"}};
  guint i = 0;
  while (seconds < steps[i].from) i++;
  g_snprintf(text, sizeof(BlSizeText), "%" G_GINT64_FORMAT " %s", seconds / steps[i].unit,
             steps[i].name);
  return text;
}

char *bl_files_format(BlSizeText text, guint64 n_files) {
  g_snprintf(text, sizeof(BlSizeText), "%" G_GUINT64_FORMAT " file%s", n_files,
             n_files == 1 ? "" : "s");
  return text;
}

char *bl_duration_format(BlSizeText text, gint64 elapsed_us) {
  gint64 ms = (elapsed_us + 500) / 1000;
  gint64 s = (ms + 500) / 1000;
  if (ms < 100)
    g_snprintf(text, sizeof(BlSizeText), "%d ms", (gint)ms);
  else if (ms < 59950)
    g_snprintf(text, sizeof(BlSizeText), "%.1f s", (double)ms / 1000);
  else if (s < 3600)
    g_snprintf(text, sizeof(BlSizeText), "%d min %d s", (gint)(s / 60), (gint)(s % 60));
  else
    g_snprintf(text, sizeof(BlSizeText), "%" G_GINT64_FORMAT " h %d min", s / 3600,
               (gint)(s / 60 % 60));
  return text;
}

char *bl_rate_format(BlSizeText text, guint64 n_files, guint64 n_bytes, gint64 elapsed_us) {
  double seconds = (double)MAX(elapsed_us, 1) / G_USEC_PER_SEC;
  if (n_files >= MANY_FILES && n_bytes / n_files < SMALL_FILE)
    g_snprintf(text, sizeof(BlSizeText), "%.0f files", (double)n_files / seconds);
  else
    bl_size_format(text, (guint64)((double)n_bytes / seconds));
  g_strlcat(text, "/s", sizeof(BlSizeText));
  return text;
}

char *bl_time_format(gint64 unix_time) {
  g_autoptr(GDateTime) time = g_date_time_new_from_unix_local(unix_time);
  return time != NULL ? g_date_time_format(time, "%Y-%m-%d %H:%M:%S")
                      : g_strdup_printf("%" G_GINT64_FORMAT, unix_time);
}

void bl_out_line(const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  puts(text);
}

void bl_out_done(const BlCli *cli, const char *format, ...) {
  if (cli->quiet) return;
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  puts(text);
}

void bl_out_done_amount(const BlCli *cli, guint64 n_files, guint64 n_bytes, gint64 elapsed_us) {
  BlSizeText files, size, time, rate;
  bl_out_done(cli, "%s, %s in %s (%s)", bl_files_format(files, n_files),
              bl_size_format(size, n_bytes), bl_duration_format(time, elapsed_us),
              bl_rate_format(rate, n_files, n_bytes, elapsed_us));
}

void bl_out_field(const char *label, const char *text) {
  if (text == NULL) return;
  printf("%s:%*s%s\n", label, (int)(LABEL_WIDTH - 1 - strlen(label)), "", text);
}

void bl_out_fieldf(const char *label, const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  bl_out_field(label, text);
}

/* Columns that the text takes on a terminal. */
static guint text_width(const char *text) {
  guint width = 0;
  for (const char *p = text; *p != '\0'; p = g_utf8_find_next_char(p, NULL)) {
    gunichar c = g_utf8_get_char(p);
    width += g_unichar_iszerowidth(c) ? 0 : g_unichar_iswide(c) ? 2 : 1;
  }
  return width;
}

static void print_row(char *const *cells, const char *const *headings, guint n_columns,
                      const guint *widths) {
  while (n_columns > 1 && cells[n_columns - 1][0] == '\0') n_columns--;
  for (guint c = 0; c < n_columns; c++) {
    gboolean right = headings[c][0] == '>';
    int pad = (int)(widths[c] - text_width(cells[c]));
    if (right)
      printf("%*s%s", pad, "", cells[c]);
    else
      printf("%s%*s", cells[c], c + 1 < n_columns ? pad : 0, "");
    fputs(c + 1 < n_columns ? "  " : "\n", stdout);
  }
}

static const char *heading_text(const char *heading) {
  return heading[0] == '>' ? heading + 1 : heading;
}

static void clear_cells(char **cells, guint n_columns) {
  for (guint c = 0; c < n_columns; c++) g_clear_pointer(&cells[c], g_free);
}

void bl_out_table(const char *const *headings, guint n_columns, guint64 n_rows, BlRowFunc row,
                  gconstpointer user) {
  guint widths[MAX_COLUMNS] = {0};
  char *cells[MAX_COLUMNS] = {NULL};
  g_assert(n_columns <= MAX_COLUMNS);
  for (guint c = 0; c < n_columns; c++) widths[c] = text_width(heading_text(headings[c]));
  for (guint64 i = 0; i < n_rows; i++) {
    row(i, cells, user);
    for (guint c = 0; c < n_columns; c++) widths[c] = MAX(widths[c], text_width(cells[c]));
    clear_cells(cells, n_columns);
  }

  for (guint c = 0; c < n_columns; c++) cells[c] = g_strdup(heading_text(headings[c]));
  print_row(cells, headings, n_columns, widths);
  clear_cells(cells, n_columns);
  for (guint64 i = 0; i < n_rows; i++) {
    row(i, cells, user);
    print_row(cells, headings, n_columns, widths);
    clear_cells(cells, n_columns);
  }
}

/* Where the document is: whether a comma comes next. */
static struct { gboolean has_members, has_elements; } document;

/* ASCII only, so that no locale and no terminal can spoil it. */
static void print_json(json_t *value) {
  json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
  json_decref(value);
}

static void begin_member(const char *name) {
  fputs(document.has_members ? ",\n  " : "\n  ", stdout);
  print_json(json_string(name));
  fputs(": ", stdout);
  document.has_members = TRUE;
}

void bl_out_json_open(void) {
  memset(&document, 0, sizeof document);
  putchar('{');
}

void bl_out_json_member(const char *name, json_t *value) {
  begin_member(name);
  print_json(value);
}

void bl_out_json_array_begin(const char *name) {
  begin_member(name);
  putchar('[');
  document.has_elements = FALSE;
}

void bl_out_json_array_add(json_t *value) {
  fputs(document.has_elements ? ",\n    " : "\n    ", stdout);
  print_json(value);
  document.has_elements = TRUE;
}

void bl_out_json_array_end(void) {
  fputs(document.has_elements ? "\n  ]" : "]", stdout);
}

void bl_out_json_close(BlCli *cli) {
  bl_out_json_member("warnings", bl_json_texts(cli->warnings));
  fputs("\n}\n", stdout);
}

json_t *bl_json_text(const char *text) {
  if (text == NULL) return json_null();
  if (g_utf8_validate(text, -1, NULL)) return json_string(text);
  g_autofree char *shown = bl_path_display(text);
  return json_string(shown);
}

json_t *bl_json_strv(char *const *texts) {
  json_t *array = json_array();
  for (; texts != NULL && *texts != NULL; texts++)
    json_array_append_new(array, bl_json_text(*texts));
  return array;
}

json_t *bl_json_texts(const GPtrArray *texts) {
  json_t *array = json_array();
  for (guint i = 0; texts != NULL && i < texts->len; i++)
    json_array_append_new(array, bl_json_text(texts->pdata[i]));
  return array;
}

json_t *bl_json_uint(guint64 value) {
  return json_integer((json_int_t)MIN(value, (guint64)G_MAXINT64));
}

gboolean bl_out_is_closed(void) {
  struct pollfd out = {.fd = STDOUT_FILENO};
  return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

gboolean bl_out_finish(gboolean *is_closed, GError **error) {
  *is_closed = FALSE;
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return TRUE;
  int errnum = errno != 0 ? errno : EIO;
  *is_closed = errnum == EPIPE || bl_out_is_closed();
  if (*is_closed) return FALSE;
  return bl_error_set_errno(error, errnum, "writing to standard output");
}
