/* Delete: everything of a checkpoint, the manifest last, so that a killed delete is found and
 * finished. */
#pragma once
#include "base/job.h"
#include "store/claim.h"
#include "store/store.h"

typedef struct {
  char *checkpoint_id;
  guint64 n_objects, n_bytes; /* removed; bytes 0 where the manifest could not be read */
  guint n_refs;
} BlRemoveResult;
void bl_remove_result_clear(BlRemoveResult *result);

/* Works on READY, FAILED and, where the store can list, on unreadable manifests. NOT_FOUND where
 * there is nothing; BUSY under a live claim. */
gboolean bl_remove(BlStore *store, const char *checkpoint_id, gint wait_ms, BlJob *job,
                   BlRemoveResult *result, GError **error);
/* The same for whoever holds the claim, which stays: success also where there is nothing. */
gboolean bl_remove_claimed(BlStore *store, const char *checkpoint_id, BlClaim *claim, BlJob *job,
                           BlRemoveResult *result, GError **error);
/* Adds to NO_SPACE what to do about it; leaves other errors as they are. */
void bl_remove_explain(GError **error);
