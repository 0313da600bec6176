/* Which checkpoint a command line means. */
#pragma once
#include "store/store.h"

typedef struct {
  const char *text; /* borrowed */
  gboolean is_id;   /* from --checkpoint-id: an id and nothing else */
} BlName;

/* --checkpoint-id (NULL where it was not given), or else the next argument, which *args steps over.
 * INVALID where there is neither. */
gboolean bl_name_take(BlName *name, const char *id_option, char ***args, GError **error);
/* The checkpoint's id, as bl_catalog_resolve says. Caller frees. */
char *bl_name_resolve(const BlName *name, BlStore *store, GError **error);
