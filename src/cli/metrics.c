#include "cli/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"

/* In the text format a label's value has no raw quote, backslash or line end. */
static void append_label(GString *out, const char *label, const char *value) {
  g_autofree char *shown = g_utf8_make_valid(value, -1);
  g_string_append_printf(out, "{%s=\"", label);
  for (const char *p = shown; *p != '\0'; p++) {
    if (*p == '\n')
      g_string_append(out, "\\n");
    else if (*p == '"' || *p == '\\')
      g_string_append_printf(out, "\\%c", *p);
    else
      g_string_append_c(out, *p);
  }
  g_string_append(out, "\"}");
}

static void append_head(GString *out, const char *name, const char *help) {
  g_string_append_printf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

void bl_metrics_gauge(BlCli *cli, const char *name, const char *help) {
  append_head(cli->metrics, name, help);
}

void bl_metrics_sample(BlCli *cli, const char *name, const char *label, const char *label_value,
                       guint64 value) {
  g_string_append(cli->metrics, name);
  if (label != NULL) append_label(cli->metrics, label, label_value);
  g_string_append_printf(cli->metrics, " %" G_GUINT64_FORMAT "\n", value);
}

static void append_run(GString *out, const char *command, const char *name, const char *help,
                       double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  append_head(out, name, help);
  g_string_append(out, name);
  append_label(out, "command", command);
  g_string_append_printf(out, " %s\n", g_ascii_formatd(text, sizeof text, "%.15g", value));
}

/* A replacement would take the place of a device, a pipe, or what a link leads to one. */
static gboolean check_kind(const char *path, GError **error) {
  struct stat st;
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return TRUE;
  g_autofree char *shown = bl_path_display(path);
  return bl_error_set(error, BL_ERROR_INVALID,
                      "\"%s\" is no regular file, and is not replaced by one (name another file)",
                      shown);
}

gboolean bl_metrics_write(BlCli *cli, const BlCommand *command, int exit_code, gint64 elapsed_us,
                          GError **error) {
  g_autoptr(GString) out = g_string_new_len(cli->metrics->str, (gssize)cli->metrics->len);
  const char *group = command != NULL ? command->group : NULL;
  g_autofree char *name =
      command == NULL
          ? g_strdup("")
          : g_strconcat(group != NULL ? group : "", group != NULL ? " " : "", command->name, NULL);
  guint64 n_bytes, n_files;
  bl_job_sum(&cli->job, &n_bytes, &n_files);
  append_run(out, name, "ballast_command_duration_seconds", "How long the last run took.",
             (double)elapsed_us / G_USEC_PER_SEC);
  append_run(out, name, "ballast_command_exit_code", "Exit code of the last run.", exit_code);
  append_run(out, name, "ballast_command_bytes", "Bytes of data that the last run worked through.",
             (double)n_bytes);
  append_run(out, name, "ballast_command_files", "Files that the last run worked through.",
             (double)n_files);
  append_run(out, name, "ballast_command_timestamp_seconds", "When the last run ended.",
             (double)g_get_real_time() / G_USEC_PER_SEC);
  if (check_kind(cli->metrics_file, error) &&
      bl_file_replace(AT_FDCWD, cli->metrics_file, out->str, out->len, 0666, error))
    return TRUE;
  g_prefix_error(error, "metrics: ");
  return FALSE;
}
