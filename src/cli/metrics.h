/* --metrics-file: how a command went, as Prometheus text, for node_exporter's textfile collector or
 * whatever else reads such files. */
#pragma once
#include "cli/command.h"

/* Begins a gauge of its own; its samples follow at once. */
void bl_metrics_gauge(BlCli *cli, const char *name, const char *help);
/* label NULL: none. */
void bl_metrics_sample(BlCli *cli, const char *name, const char *label, const char *label_value,
                       guint64 value);

/* Replaces the file: the command's own samples, and those of its run. command NULL: none was found.
 * FALSE also where the file could not be made durable. */
gboolean bl_metrics_write(BlCli *cli, const BlCommand *command, int exit_code, gint64 elapsed_us,
                          GError **error);
