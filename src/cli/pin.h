/* What pin and unpin have in common. */
#pragma once
#include "cli/command.h"

/* Runs either: checkpoint_id is the option's value or NULL, args the command's. */
int bl_pin_run(BlCli *cli, const char *checkpoint_id, const char *wait, gboolean is_pinned,
               char **args, GError **error);
