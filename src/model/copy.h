/* Copy: a checkpoint from one store into another, without a folder between. The order is that of an
 * import (build.h); files are cut into chunks anew as the target stores them. */
#pragma once
#include "base/job.h"
#include "store/store.h"

typedef struct {
  const char *checkpoint_id; /* in the target; NULL: the same */
  guint64 file_chunk_size;   /* bytes; 0: as the target prefers (dir: whole files) */
  const char *state_folder;  /* of identities (identity.h); NULL: none are known */
  gint wait_ms;              /* for another's claim; 0: not at all */
} BlCopyOptions;

typedef struct {
  gboolean was_there;  /* READY, with the same content */
  char *checkpoint_id; /* in the target */
  guint64 n_files, n_bytes;
  guint64 n_files_written, n_bytes_written; /* put anew */
  guint64 n_files_shared, n_bytes_shared;   /* with a file of either store, without a copy */
  guint n_refs;                             /* of the source that point to it */
  GPtrArray
      *mended; /* of char*: objects that were bad or absent in a READY one and were put again */
} BlCopyResult;
void bl_copy_result_free(BlCopyResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlCopyResult, bl_copy_result_free)

/* Model id, revision, commit, info and the refs that point to the checkpoint come along. Bytes that
 * pass through are checked against the manifest before anything is READY (CORRUPT, naming the
 * file); what the file system shares between two local stores is not read. EXISTS where another
 * content stands under the id. */
BlCopyResult *bl_copy(BlStore *from, const char *checkpoint_id, BlStore *to,
                      const BlCopyOptions *options, BlJob *job, GError **error);
