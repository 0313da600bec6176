/* What pin and unpin have in common. */
#pragma once
#include "cli/command.h"

extern const GOptionEntry bl_pin_options[];

/* Runs either; is_pinned: as the checkpoint shall be. */
int bl_pin_run(BlCli *cli, char **args, gboolean is_pinned, GError **error);
