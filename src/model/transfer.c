/* The ring: slots are used in turn. `pushed` counts slots handed to the helper, `written` those it
 * is done with; pushed - written of them are in its hands, the next one is the caller's. The caller
 * hashes a slot after it pushed it: both only read it then, and the caller cannot take it again
 * before it has finished hashing, because it is the one who takes.
 *
 *   caller:  take (pushed - written < N_SLOTS) -> read -> push -> hash -> take …
 *   helper:  wait (pushed > written) -> write -> written++ …
 *
 * After a failed write the helper lets the remaining slots pass unwritten; the caller sees `failed`
 * at its next take. The lock protects the counters and flags and is never held during a callback.
 */
#include "model/transfer.h"

#define N_SLOTS 4u
#define SLOT_SIZE (1024u * 1024)
/* Small enough to stay in a core's second-level cache between reading and hashing. */
#define INLINE_SIZE (256u * 1024)

struct BlTransfer {
  BlStore *store;
  BlStoreBuffer small; /* for what is done inline; data NULL until used */
  BlStoreBuffer slots[N_SLOTS];
  gsize filled[N_SLOTS];
  gboolean has_helper;
  GThread *helper;
  GMutex lock;
  GCond changed;
  const BlTransferPlan *plan; /* set while a run is piped */
  guint64 pushed, written;
  gboolean failed, quit;
  GError *write_error;
};

BlTransfer *bl_transfer_new(BlStore *store) {
  BlTransfer *transfer = g_new0(BlTransfer, 1);
  transfer->store = store;
  g_mutex_init(&transfer->lock);
  g_cond_init(&transfer->changed);
  return transfer;
}

void bl_transfer_free(BlTransfer *transfer) {
  if (transfer == NULL) return;
  if (transfer->has_helper) {
    g_mutex_lock(&transfer->lock);
    transfer->quit = TRUE;
    g_cond_broadcast(&transfer->changed);
    g_mutex_unlock(&transfer->lock);
    g_thread_join(transfer->helper);
  }
  for (guint i = 0; i < N_SLOTS; i++)
    if (transfer->slots[i].data != NULL) bl_store_buffer_free(transfer->store, &transfer->slots[i]);
  if (transfer->small.data != NULL) bl_store_buffer_free(transfer->store, &transfer->small);
  g_clear_error(&transfer->write_error);
  g_mutex_clear(&transfer->lock);
  g_cond_clear(&transfer->changed);
  g_free(transfer);
}

/* Writes the oldest pushed slot. Called and returns with the lock held. */
static void write_slot(BlTransfer *transfer) {
  guint slot = transfer->written % N_SLOTS;
  const BlTransferPlan *plan = transfer->plan;
  gboolean skip = transfer->failed;
  GError *error = NULL;

  g_mutex_unlock(&transfer->lock);
  gboolean ok = skip || plan->write(plan->write_user, transfer->slots[slot].data,
                                    transfer->filled[slot], &error);
  g_mutex_lock(&transfer->lock);
  if (!ok) {
    transfer->failed = TRUE;
    transfer->write_error = error;
  }
  transfer->written++;
  g_cond_broadcast(&transfer->changed);
}

static gpointer helper_main(gpointer data) {
  BlTransfer *transfer = data;
  g_mutex_lock(&transfer->lock);
  for (;;) {
    while (!transfer->quit && transfer->pushed == transfer->written)
      g_cond_wait(&transfer->changed, &transfer->lock);
    if (transfer->quit) break;
    write_slot(transfer);
  }
  g_mutex_unlock(&transfer->lock);
  return NULL;
}

static gboolean prepare_ring(BlTransfer *transfer, GError **error) {
  if (transfer->has_helper) return TRUE;
  for (guint i = 0; i < N_SLOTS; i++)
    if (transfer->slots[i].data == NULL &&
        !bl_store_buffer_new(transfer->store, SLOT_SIZE, &transfer->slots[i], error))
      return FALSE;
  transfer->helper = g_thread_try_new("transfer", helper_main, transfer, error);
  if (transfer->helper == NULL) {
    g_prefix_error(error, "cannot start a thread for writing: ");
    return FALSE;
  }
  transfer->has_helper = TRUE;
  return TRUE;
}

/* Waits for a slot of the caller's. NULL once a write failed. */
static BlStoreBuffer *take_slot(BlTransfer *transfer) {
  g_mutex_lock(&transfer->lock);
  while (!transfer->failed && transfer->pushed - transfer->written == N_SLOTS)
    g_cond_wait(&transfer->changed, &transfer->lock);
  BlStoreBuffer *slot = transfer->failed ? NULL : &transfer->slots[transfer->pushed % N_SLOTS];
  g_mutex_unlock(&transfer->lock);
  return slot;
}

static void push_slot(BlTransfer *transfer, gsize size) {
  g_mutex_lock(&transfer->lock);
  transfer->filled[transfer->pushed % N_SLOTS] = size;
  transfer->pushed++;
  g_cond_broadcast(&transfer->changed);
  g_mutex_unlock(&transfer->lock);
}

static gboolean feed_ring(BlTransfer *transfer, const BlTransferPlan *plan, BlJob *job,
                          guint64 *total, GError **error) {
  for (;;) {
    if (!bl_job_check(job, error)) return FALSE;
    BlStoreBuffer *slot = take_slot(transfer);
    if (slot == NULL) return TRUE; /* the writer's error is reported by its owner */
    gssize got = plan->read(plan->read_user, slot->data, SLOT_SIZE, error);
    if (got < 0) return FALSE;
    if (got == 0) return TRUE;
    push_slot(transfer, (gsize)got);
    if (plan->hasher != NULL) bl_hasher_update(plan->hasher, slot->data, (gsize)got);
    *total += (guint64)got;
    bl_job_add_bytes(job, (guint64)got);
  }
}

static gboolean run_piped(BlTransfer *transfer, const BlTransferPlan *plan, BlJob *job,
                          guint64 *total, GError **error) {
  if (!prepare_ring(transfer, error)) return FALSE;
  g_mutex_lock(&transfer->lock);
  transfer->plan = plan;
  transfer->failed = FALSE;
  g_mutex_unlock(&transfer->lock);

  gboolean ok = feed_ring(transfer, plan, job, total, error);

  g_mutex_lock(&transfer->lock);
  if (!ok) transfer->failed = TRUE; /* what is still in the ring need not be written */
  while (transfer->pushed != transfer->written) g_cond_wait(&transfer->changed, &transfer->lock);
  transfer->plan = NULL;
  GError *write_error = g_steal_pointer(&transfer->write_error);
  g_mutex_unlock(&transfer->lock);

  if (write_error == NULL) return ok;
  if (ok)
    g_propagate_error(error, write_error);
  else
    g_error_free(write_error);
  return FALSE;
}

static gboolean run_inline(BlTransfer *transfer, const BlTransferPlan *plan, BlJob *job,
                           guint64 *total, GError **error) {
  BlStoreBuffer *buffer = &transfer->small;
  if (buffer->data == NULL && !bl_store_buffer_new(transfer->store, INLINE_SIZE, buffer, error))
    return FALSE;
  for (;;) {
    if (!bl_job_check(job, error)) return FALSE;
    gssize got = plan->read(plan->read_user, buffer->data, INLINE_SIZE, error);
    if (got < 0) return FALSE;
    if (got == 0) return TRUE;
    if (plan->write != NULL && !plan->write(plan->write_user, buffer->data, (gsize)got, error))
      return FALSE;
    if (plan->hasher != NULL) bl_hasher_update(plan->hasher, buffer->data, (gsize)got);
    *total += (guint64)got;
    bl_job_add_bytes(job, (guint64)got);
  }
}

gboolean bl_transfer_run(BlTransfer *transfer, const BlTransferPlan *plan, BlJob *job,
                         guint64 *n_bytes, GError **error) {
  guint64 total = 0;
  gboolean piped = plan->write != NULL && plan->size > INLINE_SIZE;
  gboolean ok = piped ? run_piped(transfer, plan, job, &total, error)
                      : run_inline(transfer, plan, job, &total, error);
  if (n_bytes != NULL) *n_bytes = total;
  return ok;
}

struct BlTransferPool {
  BlStore *store;
  guint n_workers;
  BlTransfer **transfers;
  BlHasher **hashers;
};

BlTransferPool *bl_transfer_pool_new(BlStore *store, guint n_workers) {
  BlTransferPool *pool = g_new0(BlTransferPool, 1);
  pool->store = store;
  pool->n_workers = n_workers;
  pool->transfers = g_new0(BlTransfer *, n_workers);
  pool->hashers = g_new0(BlHasher *, n_workers);
  return pool;
}

void bl_transfer_pool_free(BlTransferPool *pool) {
  if (pool == NULL) return;
  for (guint i = 0; i < pool->n_workers; i++) {
    bl_transfer_free(pool->transfers[i]);
    if (pool->hashers[i] != NULL) bl_hasher_free(pool->hashers[i]);
  }
  g_free(pool->transfers);
  g_free(pool->hashers);
  g_free(pool);
}

BlTransfer *bl_transfer_pool_get(BlTransferPool *pool, guint worker) {
  if (pool->transfers[worker] == NULL) pool->transfers[worker] = bl_transfer_new(pool->store);
  return pool->transfers[worker];
}

BlHasher *bl_transfer_pool_hasher(BlTransferPool *pool, guint worker) {
  if (pool->hashers[worker] == NULL) pool->hashers[worker] = bl_hasher_new();
  bl_hasher_set_git_blob(pool->hashers[worker], FALSE, 0);
  bl_hasher_reset(pool->hashers[worker]);
  return pool->hashers[worker];
}
