#include "model/transfer.h"

#include <string.h>

#include "base/error.h"
#include "store/memory.h"

#define MIB (1024u * 1024)

typedef struct {
  guint64 size, given; /* of the stream */
  guint64 fail_at;     /* byte from which reading fails */
  gsize piece;         /* most that one read gives; 0: all that is asked */
} Source;

typedef struct {
  GByteArray *bytes;
  guint64 fail_at; /* byte from which writing fails */
  BlJob *cancel;   /* is cancelled by the first write */
} Sink;

static guint8 byte_at(guint64 offset) {
  return (guint8)((offset * 2654435761u) >> 11);
}

static gssize read_source(gpointer user, void *data, gsize size, GError **error) {
  Source *source = user;
  if (source->given >= source->fail_at) {
    bl_error_set(error, BL_ERROR_IO, "source broke");
    return -1;
  }
  gsize n = (gsize)MIN(size, source->size - source->given);
  if (source->piece > 0) n = MIN(n, source->piece);
  for (gsize i = 0; i < n; i++) ((guint8 *)data)[i] = byte_at(source->given + i);
  source->given += n;
  return (gssize)n;
}

static gboolean write_sink(gpointer user, const void *data, gsize size, GError **error) {
  Sink *sink = user;
  if (sink->bytes->len >= sink->fail_at) return bl_error_set(error, BL_ERROR_NO_SPACE, "sink full");
  g_byte_array_append(sink->bytes, data, (guint)size);
  if (sink->cancel != NULL) __atomic_store_n(&sink->cancel->cancelled, 1, __ATOMIC_RELAXED);
  return TRUE;
}

static void assert_moved(const Source *source, const Sink *sink, BlHasher *hasher) {
  guint8 hashed[BL_SHA256_SIZE], wanted[BL_SHA256_SIZE];
  g_autofree guint8 *all = g_malloc(source->size + 1);
  for (guint64 i = 0; i < source->size; i++) all[i] = byte_at(i);
  g_assert_cmpmem(sink->bytes->data, sink->bytes->len, all, source->size);
  bl_sha256(all, source->size, wanted);
  bl_hasher_finish(hasher, hashed);
  g_assert_cmpmem(hashed, sizeof hashed, wanted, sizeof wanted);
}

static void test_sizes(void) {
  static const guint64 sizes[] = {0,       1,           256 * 1024,  256 * 1024 + 1, MIB,
                                  4 * MIB, 4 * MIB + 1, 9 * MIB - 1, 9 * MIB,        100};
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlTransfer) transfer = bl_transfer_new(store);
  g_autoptr(BlHasher) hasher = bl_hasher_new();
  BlJob job;
  bl_job_init(&job);
  guint64 sum = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    g_autoptr(GError) error = NULL;
    Source source = {.size = sizes[i], .fail_at = G_MAXUINT64, .piece = i % 2 ? 70001 : 0};
    Sink sink = {.bytes = bytes, .fail_at = G_MAXUINT64};
    BlTransferPlan plan = {read_source, &source, write_sink, &sink, sizes[i], hasher};
    guint64 n;
    bl_hasher_reset(hasher);
    g_assert_true(bl_transfer_run(transfer, &plan, &job, &n, &error));
    g_assert_no_error(error);
    g_assert_cmpuint(n, ==, sizes[i]);
    assert_moved(&source, &sink, hasher);
    sum += n;
  }
  g_assert_cmpuint(job.done_bytes, ==, sum);
  bl_job_clear(&job);
}

/* Runs with one fault and expects its code; then the same transfer must work again. */
static void check_fault(guint64 size, guint64 read_fails, guint64 write_fails, gboolean cancel,
                        BlErrorCode code) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlTransfer) transfer = bl_transfer_new(store);
  g_autoptr(BlHasher) hasher = bl_hasher_new();
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  g_autoptr(GError) error = NULL;
  BlJob job;
  bl_job_init(&job);
  Source source = {.size = size, .fail_at = read_fails};
  Sink sink = {.bytes = bytes, .fail_at = write_fails, .cancel = cancel ? &job : NULL};
  BlTransferPlan plan = {read_source, &source, write_sink, &sink, size, hasher};
  g_assert_false(bl_transfer_run(transfer, &plan, &job, NULL, &error));
  g_assert_error(error, BL_ERROR, (gint)code);
  g_clear_error(&error);

  job.cancelled = 0;
  source = (Source){.size = size, .fail_at = G_MAXUINT64};
  sink = (Sink){.bytes = bytes, .fail_at = G_MAXUINT64};
  g_byte_array_set_size(bytes, 0);
  bl_hasher_reset(hasher);
  g_assert_true(bl_transfer_run(transfer, &plan, &job, NULL, &error));
  assert_moved(&source, &sink, hasher);
  bl_job_clear(&job);
}

static void test_faults(void) {
  const guint64 never = G_MAXUINT64;
  check_fault(100, 0, never, FALSE, BL_ERROR_IO);
  check_fault(100, never, 0, FALSE, BL_ERROR_NO_SPACE);
  check_fault(9 * MIB, 0, never, FALSE, BL_ERROR_IO);
  check_fault(9 * MIB, 6 * MIB, never, FALSE, BL_ERROR_IO);
  check_fault(9 * MIB, never, 0, FALSE, BL_ERROR_NO_SPACE);
  check_fault(9 * MIB, never, 5 * MIB, FALSE, BL_ERROR_NO_SPACE);
  /* The last slots are written after the source has ended. */
  check_fault(9 * MIB, never, 8 * MIB, FALSE, BL_ERROR_NO_SPACE);
  check_fault(64 * MIB, never, never, TRUE, BL_ERROR_CANCELLED);
}

static void test_hash_only(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlTransferPool) pool = bl_transfer_pool_new(store, 2);
  BlHasher *hasher = bl_transfer_pool_hasher(pool, 1);
  Source source = {.size = 5 * MIB, .fail_at = G_MAXUINT64};
  BlTransferPlan plan = {
      .read = read_source, .read_user = &source, .size = source.size, .hasher = hasher};
  guint8 sha256[BL_SHA256_SIZE];
  gsize n;
  g_assert_true(bl_transfer_run(bl_transfer_pool_get(pool, 1), &plan, NULL, NULL, NULL));
  bl_hasher_finish(hasher, sha256);
  bl_hasher_crcs(hasher, &n);
  g_assert_cmpuint(n, ==, 2);
  g_assert_true(bl_transfer_pool_hasher(pool, 1) == hasher);
  g_assert_true(bl_transfer_pool_get(pool, 0) != bl_transfer_pool_get(pool, 1));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/transfer/sizes", test_sizes);
  g_test_add_func("/transfer/faults", test_faults);
  g_test_add_func("/transfer/hash-only", test_hash_only);
  return g_test_run();
}
