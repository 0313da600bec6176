/* The two halves of "model inspect": what is in a store, and what is not. */
#pragma once
#include "cli/command.h"

/* Whether an argument of inspect is a path: it begins with "/", "./" or "../", or is "." or "..".
 */
gboolean bl_inspect_is_path(const char *text);
/* A plain file or folder. The exit code, or -1 with error set. */
int bl_inspect_path(BlCli *cli, const char *path, gboolean with_files, gboolean with_tensors,
                    GError **error);
