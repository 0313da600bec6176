/* The listing of a commit that the Hugging Face client keeps beside its cache, trees/<commit>.json:
 * docs/formats/hf-cache.md. */
#pragma once
#include "base/json_reader.h"

typedef struct {
  const char *path;              /* as it is written there: not checked */
  guint64 size;                  /* bytes */
  const char *sha256, *git_blob; /* digests of the bytes in hex; at least one is not NULL */
} BlHfTreeFile;
typedef gboolean (*BlHfTreeFunc)(const BlHfTreeFile *file, gpointer user, GError **error);

/* Gives every file to func, in the order they stand in. UNSUPPORTED: a form that this version does
 * not know; CORRUPT: it breaks its rules. After an error nothing that was given counts. */
gboolean bl_hf_tree_read(BlJsonInput input, gpointer input_user, BlHfTreeFunc func, gpointer user,
                         GError **error);
