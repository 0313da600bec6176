/* Where a command reads a checkpoint from: the store in use, and where that has lost it or cannot
 * be reached, the fallback (--fallback, else BALLAST_FALLBACK, else the config file's). */
#pragma once
#include "cli/command.h"
#include "cli/name.h"
#include "model/pull.h"

/* For the commands' tables of options. */
#define BL_FALLBACK_OPTION(text)                                                                 \
  {                                                                                              \
    "fallback", 0, 0, G_OPTION_ARG_FILENAME, text, "a second store for what the store has lost", \
        "URL"                                                                                    \
  }

typedef struct {
  BlStore *store; /* the fallback's where is_fallback */
  char *checkpoint_id;
  gboolean is_fallback;
  BlStore *second;
  BlFallback *fallback; /* NULL: there is none, or it is the store already */
} BlReadFrom;

void bl_read_from_clear(BlReadFrom *from);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(BlReadFrom, bl_read_from_clear)

/* Fills `from`, which is zeros. option: --fallback's value, or NULL. That everything is read from
 * the fallback, or that it cannot be used, is a warning. */
gboolean bl_read_from_open(BlReadFrom *from, BlCli *cli, const BlName *name, const char *option,
                           GError **error);
/* Files of which bytes came from the fallback. */
guint64 bl_read_from_count(const BlReadFrom *from, const BlPullResult *result);
