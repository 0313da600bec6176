/* A stream that is read, hashed and written at once: the pipeline under import, pull and verify.
 *
 * The caller's thread reads and hashes, a helper thread writes, over a ring of four buffers of 1
 * MiB, so that even a single big file keeps two cores and the disk busy. A file of up to 256 KiB is
 * done by the caller alone: waking another thread would cost more than it gives. A transfer belongs
 * to one worker, which keeps it for all its files; helper and ring come with the first big file. */
#pragma once
#include "base/digest.h"
#include "base/job.h"
#include "store/store.h"

typedef struct BlTransfer BlTransfer;

typedef struct {
  /* The next bytes, up to size; 0 at the end, -1 with error set. Runs in the caller's thread. */
  gssize (*read)(gpointer user, void *data, gsize size, GError **error);
  gpointer read_user;
  /* Takes all of them, in order. Runs in the helper thread, or in the caller's. NULL: nothing is
   * written, the stream is only hashed. */
  gboolean (*write)(gpointer user, const void *data, gsize size, GError **error);
  gpointer write_user;
  guint64 size;     /* bytes expected: what decides whether the helper is worth it */
  BlHasher *hasher; /* fed with every byte, neither reset nor finished; may be NULL */
} BlTransferPlan;

/* Buffers come from the store. Nothing is taken before the first run. */
BlTransfer *bl_transfer_new(BlStore *store);
void bl_transfer_free(BlTransfer *transfer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlTransfer, bl_transfer_free)

/* Runs until read gives 0. Fails with the first error of read or write, or CANCELLED; when it
 * returns, no callback runs any more. Bytes that were moved are counted in the job (may be NULL) as
 * they go, and in *n_bytes (may be NULL). */
gboolean bl_transfer_run(BlTransfer *transfer, const BlTransferPlan *plan, BlJob *job,
                         guint64 *n_bytes, GError **error);

/* One transfer and one hasher for each of n workers, made when first used: what a bl_job_run needs.
 */
typedef struct BlTransferPool BlTransferPool;
BlTransferPool *bl_transfer_pool_new(BlStore *store, guint n_workers);
void bl_transfer_pool_free(BlTransferPool *pool);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlTransferPool, bl_transfer_pool_free)
/* Borrowed. Each worker asks for its own only. */
BlTransfer *bl_transfer_pool_get(BlTransferPool *pool, guint worker);
/* Borrowed, and reset. */
BlHasher *bl_transfer_pool_hasher(BlTransferPool *pool, guint worker);
