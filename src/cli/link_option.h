/* What pull and materialize-file share: how files are made, and what is said of it. */
#pragma once
#include "cli/command.h"
#include "model/pull.h"

/* --link's value; NULL is auto. INVALID else, naming the choices. */
gboolean bl_link_parse(const char *text, BlLinkMode *mode, GError **error);
const char *bl_link_name(BlLinkMode mode);
/* The members that both commands' JSON documents end with. */
void bl_link_print_json(BlCli *cli, const BlPullResult *result, guint64 n_files_fallback,
                        gint64 elapsed_us);
