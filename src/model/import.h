/* Import: a folder's files into a store as a checkpoint. The order and its reasons:
 * docs/architecture.md, "Importing". */
#pragma once
#include "base/job.h"
#include "model/info.h"

typedef struct {
  const char *source;                              /* the folder */
  const char *checkpoint_id, *model_id, *revision; /* NULL: as the folder tells */
  char **include, **exclude;                       /* globs, NULL: all */
  guint64 file_chunk_size; /* bytes; 0: as the store prefers (dir: whole files) */
  gboolean force;          /* take what cannot be a model file, too */
  gboolean dry_run;        /* say what would be done; write nothing */
  gboolean quick;          /* where it is there already: compare sizes and times instead of bytes */
  gint wait_ms;            /* for another's claim; 0: not at all */
  const char *state_folder; /* of identities (identity.h); NULL: none are known or kept */
} BlImportOptions;

typedef enum { BL_IMPORT_DONE, BL_IMPORT_ALREADY_THERE, BL_IMPORT_WOULD } BlImportOutcome;

typedef struct {
  BlImportOutcome outcome;
  char *checkpoint_id, *model_id, *revision, *commit;
  guint64 n_files, n_bytes;
  guint64 n_files_written, n_bytes_written; /* put anew */
  guint64 n_files_shared, n_bytes_shared;   /* other checkpoints' bytes, put by another name; the
                                               rest was there and right */
  GPtrArray *left_out; /* of char*: what was not imported and why (names escaped) */
  GPtrArray *mended; /* of char*: objects that were bad or absent in a READY checkpoint and were put
                        again */
} BlImportResult;
void bl_import_result_free(BlImportResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlImportResult, bl_import_result_free)

BlImportResult *bl_import(BlStore *store, const BlImportOptions *options, BlJob *job,
                          GError **error);
