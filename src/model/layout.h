/* A set of model files judged together: shard indexes, numbered shards, and each weight file's
 * header.
 *
 * Two depths. Quick, before anything is written: each weight file can be one at all
 * (bl_model_file_sniff), every shard that an index or a number promises is there, and a tensor that
 * two shards hold is told. Deep: the verdict on every header, and every tensor of the index in its
 * shard. Both read each header once and no data. */
#pragma once
#include "model/tensors.h"

typedef struct {
  const char *path; /* relative, as in the checkpoint */
  guint64 size;     /* bytes */
} BlLayoutFile;

typedef struct {
  const BlLayoutFile *files;
  guint64 n_files;
  /* Opens files[i] for reading; close gives it back. NOT_FOUND and CORRUPT become findings, other
   * errors end the check. */
  gboolean (*open)(gpointer user, guint64 i, BlByteSource *source, GError **error);
  void (*close)(gpointer user, BlByteSource *source);
  /* Whether a file that is not in `files` was left out by the user's choice. May be NULL: none was.
   */
  gboolean (*is_left_out)(gpointer user, const char *path);
  gpointer user;
} BlLayoutInput;

typedef enum {
  BL_LAYOUT_ERROR,       /* no engine could load this, or it would load garbage */
  BL_LAYOUT_UNSUPPORTED, /* right or wrong, this version cannot tell */
  BL_LAYOUT_WARNING,     /* worth knowing, not wrong */
  BL_LAYOUT_N_LEVELS
} BlLayoutLevel;

typedef struct {
  BlLayoutLevel level;
  char *path; /* the file it is about */
  char *text; /* one line that names the file */
} BlLayoutFinding;

/* Findings of one level that are kept; all are counted. */
#define BL_LAYOUT_FINDINGS_MAX 10000

typedef struct {
  GPtrArray *findings; /* of BlLayoutFinding, in order of discovery */
  guint64 n[BL_LAYOUT_N_LEVELS];
} BlLayoutResult;

/* NULL only where the check itself failed (an unreadable source). */
BlLayoutResult *bl_layout_check(const BlLayoutInput *input, gboolean deep, GError **error);
void bl_layout_result_free(BlLayoutResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlLayoutResult, bl_layout_result_free)
