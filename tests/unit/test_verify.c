#include "model/verify.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/error.h"
#include "checkpoint.h"
#include "model/state.h"
#include "store/claim.h"
#include "store/fault.h"
#include "store/memory.h"

#define BLOCK BL_BLOCK_SIZE
#define NO_FD (BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_OPEN_FD)

static const TestFile files[] = {
    {"a.json", 5000, 0, FALSE},
    {"b.bin", 3 * BLOCK + 9, 0, FALSE},
    {"c.bin", 2 * BLOCK + 5, BLOCK / 2, FALSE},
    {"empty", 0, 0, FALSE},
};
static const guint64 total_size = 5000 + 5 * BLOCK + 14;

static BlStore *make_store(BlStoreCaps caps, TestParts parts) {
  BlStore *store = bl_memory_store_new(caps);
  test_put_checkpoint(store, "x", files, G_N_ELEMENTS(files), parts);
  return store;
}

static BlVerifyResult *verify(BlStore *store) {
  BlVerifyOptions options = {0};
  g_autoptr(GError) error = NULL;
  BlVerifyResult *result = bl_verify(store, "x", &options, NULL, &error);
  g_assert_no_error(error);
  g_assert_cmpuint(result->n_findings, ==, result->findings->len);
  return result;
}

static const BlFinding *finding(const BlVerifyResult *result, guint i) {
  g_assert_cmpuint(i, <, result->findings->len);
  return g_ptr_array_index(result->findings, i);
}

static void assert_finding(const BlVerifyResult *result, guint i, BlFindingKind kind,
                           const char *path, guint64 offset, guint64 size, const char *says) {
  const BlFinding *found = finding(result, i);
  g_assert_cmpint(found->kind, ==, kind);
  g_assert_cmpstr(found->path, ==, path);
  g_assert_cmpuint(found->offset, ==, offset);
  g_assert_cmpuint(found->size, ==, size);
  g_assert_nonnull(strstr(found->text, path));
  g_assert_nonnull(strstr(found->text, says));
}

static void test_right(gconstpointer data) {
  g_autoptr(BlStore) store = make_store((BlStoreCaps)GPOINTER_TO_UINT(data), TEST_DIGESTS);
  BlVerifyOptions options = {0};
  BlJob job;
  bl_job_init(&job);
  g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, &job, NULL);
  g_assert_nonnull(result);
  g_assert_false(bl_verify_result_is_bad(result));
  g_assert_cmpuint(result->n_files, ==, 4);
  g_assert_cmpuint(result->n_bytes, ==, total_size);
  g_assert_cmpuint(result->n_findings, ==, 0);
  g_assert_false(result->digests_written);
  g_assert_cmpuint(job.total_bytes, ==, total_size);
  g_assert_cmpuint(job.done_bytes, ==, total_size);
  g_assert_cmpuint(job.done_files, ==, 4);
  bl_job_clear(&job);
}

/* Two bad blocks of one file, one of another: all are named, sorted by path. */
static void test_blocks(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  test_flip_byte(store, "x", "c.bin", 4, 1);
  test_flip_byte(store, "x", "b.bin", 0, 3 * BLOCK + 8);
  test_flip_byte(store, "x", "b.bin", 0, BLOCK);
  g_autoptr(BlVerifyResult) result = verify(store);
  g_assert_true(bl_verify_result_is_bad(result));
  g_assert_cmpuint(result->n_files_bad, ==, 2);
  g_assert_cmpuint(result->n_findings, ==, 3);
  assert_finding(result, 0, BL_FINDING_BLOCK, "b.bin", BLOCK, BLOCK,
                 "block 1 (bytes 4194304 to 8388607)");
  g_assert_cmpuint(finding(result, 0)->block, ==, 1);
  assert_finding(result, 1, BL_FINDING_BLOCK, "b.bin", 3 * BLOCK, 9, "block 3");
  assert_finding(result, 2, BL_FINDING_BLOCK, "c.bin", 2 * BLOCK, 5, "block 2");
}

static void test_sha256(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, 0);
  test_flip_byte(store, "x", "b.bin", 0, 7);
  g_autoptr(BlVerifyResult) result = verify(store);
  g_assert_cmpuint(result->n_findings, ==, 1);
  assert_finding(result, 0, BL_FINDING_SHA256, "b.bin", 0, 3 * BLOCK + 9, "SHA-256");
  g_assert_false(result->digests_written);
}

/* A missing chunk, a short one and a long one: named, and the blocks around them are checked all
 * the same. */
static void test_layout(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  test_remove_chunk(store, "x", "c.bin", 0);
  test_flip_byte(store, "x", "c.bin", 3, 0);
  test_resize_chunk(store, "x", "b.bin", 0, 2 * BLOCK + 1);
  test_flip_byte(store, "x", "b.bin", 0, 0);
  test_resize_chunk(store, "x", "a.json", 0, 5001);
  g_autoptr(BlVerifyResult) result = verify(store);
  g_assert_cmpuint(result->n_files_bad, ==, 3);
  g_assert_cmpuint(result->n_findings, ==, 5);
  assert_finding(result, 0, BL_FINDING_SIZE, "a.json", 0, 5000,
                 "chunk 0 has 5001 bytes, must have 5000");
  assert_finding(result, 1, BL_FINDING_SIZE, "b.bin", 0, 3 * BLOCK + 9,
                 "chunk 0 has 8388609 bytes");
  assert_finding(result, 2, BL_FINDING_BLOCK, "b.bin", 0, BLOCK, "block 0");
  assert_finding(result, 3, BL_FINDING_MISSING, "c.bin", 0, BLOCK / 2, "chunk 0 is missing");
  assert_finding(result, 4, BL_FINDING_BLOCK, "c.bin", BLOCK, BLOCK, "block 1");
}

static void test_unknown_layout(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS | TEST_HIDE_CHUNK_SIZE);
  g_autoptr(BlVerifyResult) right = verify(store);
  g_assert_false(bl_verify_result_is_bad(right));
  test_resize_chunk(store, "x", "c.bin", 1, 10);
  g_autoptr(BlVerifyResult) result = verify(store);
  g_assert_cmpuint(result->n_findings, ==, 1);
  assert_finding(result, 0, BL_FINDING_SIZE, "c.bin", 0, 2 * BLOCK + 5, "cannot be read whole");
}

/* Digests that were absent are written, and serve the next check. */
static void test_writes_digests(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, 0);
  g_autoptr(BlVerifyResult) first = verify(store);
  g_assert_true(first->digests_written);
  g_autoptr(BlVerifyResult) second = verify(store);
  g_assert_false(second->digests_written);
  test_flip_byte(store, "x", "b.bin", 0, 5);
  g_autoptr(BlVerifyResult) third = verify(store);
  assert_finding(third, 0, BL_FINDING_BLOCK, "b.bin", 0, BLOCK, "block 0");

  g_autoptr(BlStore) other = make_store(NO_FD, 0);
  other->caps |= BL_STORE_IS_READ_ONLY;
  g_autoptr(BlVerifyResult) read_only = verify(other);
  g_assert_false(read_only->digests_written);
  g_assert_false(bl_verify_result_is_bad(read_only));
}

static void replace_digests(BlStore *store, const char *from, const char *to) {
  BlKeyBuffer key;
  g_autofree char *data = NULL;
  gsize size;
  bl_key_digests(key, "x");
  g_assert_true(bl_store_load(store, key, 1 << 20, &data, &size, NULL));
  char *at = strstr(data, from);
  g_assert_nonnull(at);
  memcpy(at, to, strlen(to));
  g_assert_true(bl_store_put(store, key, data, size, BL_PUT_REPLACE, NULL));
}

static void test_bad_digests(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  replace_digests(store, "\"algorithm\"", "\"algorhythm");
  g_autoptr(BlVerifyResult) unreadable = verify(store);
  g_assert_true(bl_verify_result_is_bad(unreadable));
  g_assert_cmpuint(unreadable->n_findings, ==, 1);
  g_assert_cmpint(finding(unreadable, 0)->kind, ==, BL_FINDING_DIGESTS);
  g_assert_null(finding(unreadable, 0)->path);
  g_assert_false(unreadable->digests_written);

  /* One that disagrees with bytes that are right. */
  g_autoptr(BlStore) other = make_store(NO_FD, 0);
  g_autoptr(BlManifest) manifest = bl_manifest_load(other, "x", 0, NULL);
  g_autoptr(BlDigests) digests = bl_digests_new(manifest);
  const guint32 wrong[] = {0x12345678};
  bl_digests_set(digests, 0, wrong, 1);
  g_assert_true(bl_digests_save(other, manifest, digests, NULL));
  g_autoptr(BlVerifyResult) result = verify(other);
  g_assert_cmpuint(result->n_findings, ==, 1);
  assert_finding(result, 0, BL_FINDING_DIGESTS, "a.json", 0, 5000, "digests say 12345678");
}

static void test_selected(void) {
  char *include[] = {(char[]){"b.*"}, NULL};
  BlVerifyOptions options = {.include = include};
  g_autoptr(BlStore) store = make_store(NO_FD, 0);
  test_flip_byte(store, "x", "a.json", 0, 5);
  g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_nonnull(result);
  g_assert_cmpuint(result->n_files, ==, 1);
  g_assert_false(bl_verify_result_is_bad(result));
  g_assert_false(result->digests_written);
}

/* Bytes that are what was imported, and yet no model file. */
static void test_deep(void) {
  const TestFile odd[] = {{"a.txt", 9, 0, FALSE}, {"model.safetensors", 500, 0, FALSE}};
  char *exclude[] = {(char[]){"*.safetensors"}, NULL};
  BlVerifyOptions options = {.deep = TRUE};
  g_autoptr(BlStore) store = bl_memory_store_new(NO_FD);
  test_put_checkpoint(store, "x", odd, 2, 0);
  g_autoptr(BlVerifyResult) bytes = verify(store);
  g_assert_false(bl_verify_result_is_bad(bytes));
  g_autoptr(BlVerifyResult) deep = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_nonnull(deep);
  g_assert_true(bl_verify_result_is_bad(deep));
  g_assert_cmpuint(deep->n_files_bad, ==, 1);
  assert_finding(deep, 0, BL_FINDING_FORMAT, "model.safetensors", 0, 0, "model.safetensors");

  /* The same file with damaged bytes: both are told. */
  test_resize_chunk(store, "x", "model.safetensors", 0, 3);
  g_autoptr(BlVerifyResult) damaged = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_cmpuint(damaged->n_findings, ==, 2);
  assert_finding(damaged, 0, BL_FINDING_SIZE, "model.safetensors", 0, 500, "has 3 bytes");

  options.exclude = exclude;
  g_autoptr(BlVerifyResult) part = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_false(bl_verify_result_is_bad(part));
}

static void expect_failure(BlStore *store, BlJob *job, BlErrorCode code) {
  BlVerifyOptions options = {0};
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_verify(store, "x", &options, job, &error));
  g_assert_error(error, BL_ERROR, (gint)code);
}

static void test_cannot_check(void) {
  BlJob job;
  bl_job_init(&job);
  job.cancelled = 1;
  g_autoptr(BlStore) store = make_store(NO_FD, 0);
  expect_failure(store, &job, BL_ERROR_CANCELLED);
  bl_job_clear(&job);
  g_autoptr(BlStore) empty = bl_memory_store_new(NO_FD);
  expect_failure(empty, NULL, BL_ERROR_NOT_FOUND);
}

/* Every call fails once, in every way: each run tells what it found or why it could not look. */
static void test_faults(void) {
  static const BlErrorCode codes[] = {BL_ERROR_IO, BL_ERROR_UNAVAILABLE, BL_ERROR_NOT_FOUND};
  BlVerifyOptions options = {0};
  for (gsize i = 0; i < G_N_ELEMENTS(codes); i++) {
    g_autoptr(BlStore) store = bl_fault_store_new(make_store(NO_FD, TEST_DIGESTS));
    store->caps |= BL_STORE_IS_READ_ONLY; /* what is recorded is test_record_faults' */
    guint64 n = 0, hits = 1;
    while (hits > 0) {
      BlFaultRule rule = {BL_FAULT_ANY, ++n, 1, TRUE, codes[i], 0};
      g_autoptr(GError) error = NULL;
      bl_fault_store_set_rule(store, &rule);
      g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, NULL, &error);
      hits = bl_fault_store_n_hits(store);
      if (codes[i] == BL_ERROR_UNAVAILABLE && hits > 0)
        g_assert_error(error, BL_ERROR, (gint)codes[i]);
      if (hits == 0) g_assert_false(bl_verify_result_is_bad(result));
      g_assert_true((result == NULL) == (error != NULL));
    }
    g_assert_cmpuint(n, >, 10);
  }
}

static BlState *load_state(BlStore *store) {
  BlState *state = bl_state_load(store, "x", NULL);
  g_assert_nonnull(state);
  return state;
}

static gboolean pin(BlState *state, gpointer user) {
  (void)user;
  state->is_pinned = TRUE;
  return TRUE;
}

/* A full check writes what it found and when; the next one takes off what is right again. */
static void test_records_state(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  g_assert_true(bl_state_update(store, "x", pin, NULL, 0, NULL, NULL));
  char key[BL_KEY_MAX];
  g_autofree char *data = NULL;
  gsize size;
  g_assert_true(
      bl_store_load(store, bl_key_chunk(key, "x", "c.bin", 1), BLOCK, &data, &size, NULL));
  test_remove_chunk(store, "x", "c.bin", 1);
  test_flip_byte(store, "x", "c.bin", 4, 0);
  test_flip_byte(store, "x", "a.json", 0, 7);
  gint64 before = g_get_real_time() / G_USEC_PER_SEC;
  g_autoptr(BlVerifyResult) first = verify(store);
  g_assert_true(first->is_degraded && !first->was_degraded);
  g_assert_null(first->not_recorded);
  g_autoptr(BlState) state = load_state(store);
  g_assert_true(state->is_pinned);
  g_assert_cmpint(state->checked_at, >=, before);
  g_assert_cmpuint(state->missing->len, ==, 1);
  g_assert_true(bl_state_has_path(state->missing, "c.bin"));
  g_assert_cmpuint(state->damaged->len, ==, 2);
  g_assert_true(bl_state_has_path(state->damaged, "a.json"));

  test_flip_byte(store, "x", "a.json", 0, 7);
  test_flip_byte(store, "x", "c.bin", 4, 0);
  g_assert_true(bl_store_put(store, key, data, size, 0, NULL));
  g_autoptr(BlVerifyResult) second = verify(store);
  g_assert_true(!second->is_degraded && second->was_degraded);
  g_autoptr(BlState) after = load_state(store);
  g_assert_true(after->is_pinned && !bl_state_is_degraded(after));
}

/* A part adds what it finds, and neither takes off nor tells a time. */
static void test_records_part(void) {
  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  char *only_a[] = {(char[]){"a.*"}, NULL}, *only_b[] = {(char[]){"b.*"}, NULL};
  BlVerifyOptions options = {.include = only_a};
  test_flip_byte(store, "x", "a.json", 0, 7);
  g_autoptr(BlVerifyResult) a = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_true(a->is_degraded);
  options.include = only_b;
  test_flip_byte(store, "x", "b.bin", 0, 7);
  g_autoptr(BlVerifyResult) b = bl_verify(store, "x", &options, NULL, NULL);
  g_autoptr(BlState) state = load_state(store);
  g_assert_cmpuint(state->damaged->len, ==, 2);
  g_assert_cmpint(state->checked_at, ==, 0);
  test_flip_byte(store, "x", "b.bin", 0, 7);
  g_autoptr(BlVerifyResult) again = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_false(bl_verify_result_is_bad(again));
  g_assert_true(again->is_degraded);
}

/* Bytes that are right beside digests that are not; a file that this user may not read. */
static void test_not_recorded(void) {
  g_autoptr(BlStore) read_only = make_store(NO_FD, TEST_DIGESTS);
  test_flip_byte(read_only, "x", "a.json", 0, 7);
  read_only->caps |= BL_STORE_IS_READ_ONLY;
  g_autoptr(BlVerifyResult) first = verify(read_only);
  g_assert_nonnull(strstr(first->not_recorded, "read-only"));
  g_assert_false(first->is_degraded);

  g_autoptr(BlStore) store = make_store(NO_FD, TEST_DIGESTS);
  replace_digests(store, "\"crc\":\"", "\"crc\":\"00000000");
  g_autoptr(BlVerifyResult) digests = verify(store);
  g_assert_true(bl_verify_result_is_bad(digests));
  g_assert_false(digests->is_degraded);

  BlKeyBuffer prefix;
  test_flip_byte(store, "x", "a.json", 0, 7);
  BlClaim *claim = bl_claim_acquire(store, bl_key_prefix(prefix, "x"), "import", 0, NULL, NULL);
  g_autoptr(BlVerifyResult) claimed = verify(store);
  g_assert_true(bl_claim_release(claim, NULL));
  g_assert_nonnull(strstr(claimed->not_recorded, "import"));
  g_autoptr(BlState) state = load_state(store);
  g_assert_false(bl_state_is_degraded(state));
}

/* An open that is denied says nothing about the bytes. */
static void test_denied(void) {
  g_autoptr(BlStore) store = bl_fault_store_new(make_store(BL_MEMORY_STORE_CAPS, TEST_DIGESTS));
  guint64 n = 0, hits = 1;
  while (hits > 0) {
    BlVerifyOptions options = {0};
    BlFaultRule rule = {BL_FAULT_OPEN_FD, ++n, 0, TRUE, BL_ERROR_DENIED, 0};
    bl_fault_store_set_rule(store, &rule);
    g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, NULL, NULL);
    hits = bl_fault_store_n_hits(store);
    if (result != NULL && hits > 0) {
      g_autoptr(BlState) state = load_state(store);
      g_assert_false(bl_state_is_degraded(state));
      g_assert_cmpint(state->checked_at, ==, 0);
    }
  }
  g_assert_cmpuint(n, >, 3);
}

/* Failures of what is recorded are told, and change nothing of the result. */
static void test_record_faults(void) {
  static const BlFaultOp ops[] = {BL_FAULT_PUT, BL_FAULT_PUT_HELD, BL_FAULT_REMOVE};
  for (gsize i = 0; i < G_N_ELEMENTS(ops); i++) {
    g_autoptr(BlStore) store = bl_fault_store_new(make_store(NO_FD, 0));
    guint64 hits = 1;
    for (guint64 n = 1; hits > 0; n++) {
      BlFaultRule rule = {ops[i], n, 1, TRUE, BL_ERROR_NO_SPACE, 0};
      BlVerifyOptions options = {0};
      bl_fault_store_set_rule(store, &rule);
      g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, NULL, NULL);
      g_assert_nonnull(result);
      g_assert_false(bl_verify_result_is_bad(result));
      hits = bl_fault_store_n_hits(store);
      g_assert_true(result->is_record_lost == (hits > 0) || result->digests_written);
    }
  }
}

/* All parts together are all files, each in one of them. */
static void test_subsets(void) {
  enum { N = 60 };
  TestFile many[N];
  char *paths[N];
  for (guint i = 0; i < N; i++) {
    paths[i] = g_strdup_printf("f-%02u", i);
    many[i] = (TestFile){paths[i], i % 7 == 0 ? 0 : (i * 7919) % 5000, 0, FALSE};
  }
  g_autoptr(BlStore) store = bl_memory_store_new(NO_FD);
  test_put_checkpoint(store, "x", many, N, TEST_DIGESTS);
  for (guint i = 0; i < N; i++)
    if (many[i].size > 0) test_flip_byte(store, "x", paths[i], 0, 0);
  static const guint counts[] = {1, 2, 7, 60, 100};
  for (gsize c = 0; c < G_N_ELEMENTS(counts); c++) {
    guint64 n_files = 0, n_bytes = 0, n_bad = 0, most = 0, least = G_MAXUINT64;
    for (guint part = 1; part <= counts[c]; part++) {
      BlVerifyOptions options = {.subset = part, .n_subsets = counts[c]};
      g_autoptr(BlVerifyResult) result = bl_verify(store, "x", &options, NULL, NULL);
      n_files += result->n_files;
      n_bytes += result->n_bytes;
      n_bad += result->n_files_bad;
      most = MAX(most, result->n_bytes);
      least = MIN(least, result->n_bytes);
    }
    g_assert_cmpuint(n_files, ==, N);
    g_assert_cmpuint(n_bad, ==, N - 9);
    if (counts[c] <= 7) g_assert_cmpuint(most - least, <=, 5000);
  }
  for (guint i = 0; i < N; i++) g_free(paths[i]);
}

static BlVerifyResult *verify_quick(BlStore *store, const char *state_folder) {
  BlVerifyOptions options = {.quick = TRUE, .state_folder = state_folder};
  BlVerifyResult *result = bl_verify(store, "x", &options, NULL, NULL);
  g_assert_nonnull(result);
  return result;
}

/* A local store in the folder, whose files are old enough to be recorded. */
static BlStore *make_settled_store(const char *folder) {
  g_autofree char *root = g_build_filename(folder, "store", NULL);
  BlStore *store = bl_store_open(root, TRUE, NULL);
  test_put_checkpoint(store, "x", files, G_N_ELEMENTS(files), TEST_DIGESTS);
  g_usleep(60 * 1000);
  return store;
}

/* Only what changed, and what was found bad, is read. */
static void test_quick(void) {
  g_autofree char *folder = g_dir_make_tmp("ballast-verify-XXXXXX", NULL);
  g_autofree char *state = g_build_filename(folder, "state", NULL);
  g_autoptr(BlStore) store = make_settled_store(folder);
  g_autoptr(BlVerifyResult) first = verify_quick(store, state);
  g_assert_cmpuint(first->n_files_read, ==, 3); /* the empty one needs no reading */
  g_autoptr(BlVerifyResult) second = verify_quick(store, state);
  g_assert_cmpuint(second->n_files_read, ==, 0);
  g_assert_cmpuint(second->n_files, ==, 4);
  g_assert_cmpuint(second->n_bytes, ==, total_size);

  test_flip_byte(store, "x", "b.bin", 0, BLOCK + 3);
  for (guint i = 0; i < 2; i++) { /* found bad: it is read each time */
    g_autoptr(BlVerifyResult) bad = verify_quick(store, state);
    g_assert_true(bl_verify_result_is_bad(bad) && bad->is_degraded);
    g_assert_cmpuint(bad->n_files_read, ==, 1);
  }
  test_flip_byte(store, "x", "b.bin", 0, BLOCK + 3);
  g_usleep(60 * 1000);
  g_autoptr(BlVerifyResult) right = verify_quick(store, state);
  g_assert_true(right->was_degraded && !right->is_degraded);
  g_assert_cmpuint(right->n_files_read, ==, 1);
  g_autoptr(BlVerifyResult) last = verify_quick(store, state);
  g_assert_cmpuint(last->n_files_read, ==, 0);
  remove_tree(folder);
}

/* Found bad by another machine: what is known here counts no more. */
static void test_quick_suspects(void) {
  g_autofree char *folder = g_dir_make_tmp("ballast-verify-XXXXXX", NULL);
  g_autofree char *here = g_build_filename(folder, "here", NULL);
  g_autofree char *there = g_build_filename(folder, "there", NULL);
  g_autoptr(BlStore) store = make_settled_store(folder);
  g_autoptr(BlVerifyResult) first = verify_quick(store, here);
  /* Rot: the bytes change, and nothing that stat tells. */
  BlKeyBuffer key;
  char hex[BL_SHA256_HEX_SIZE + 1];
  guint32 chunk;
  bl_key_chunk(key, "x", "a.json", 0);
  g_assert_true(bl_key_is_chunk(key, "x", hex, &chunk));
  g_autofree char *path =
      g_strdup_printf("%s/store/weight/models/x/files,%s,chunks,00000000", folder, hex);
  BlVerifyOptions full = {.state_folder = there};
  g_autofree char *link_path = g_build_filename(folder, "link", NULL);
  g_assert_cmpint(link(path, link_path), ==, 0); /* so that ctime does not count */
  BlObjectStat object;
  g_assert_true(bl_store_stat(store, key, &object, NULL));
  g_chmod(path, 0644);
  FILE *file = fopen(path, "r+");
  fputc('~', file);
  fclose(file);
  struct timespec times[2] = {{object.mtime_ns / 1000000000, object.mtime_ns % 1000000000},
                              {object.mtime_ns / 1000000000, object.mtime_ns % 1000000000}};
  g_assert_cmpint(utimensat(AT_FDCWD, path, times, 0), ==, 0);
  g_autoptr(BlVerifyResult) blind = verify_quick(store, here);
  g_assert_false(bl_verify_result_is_bad(blind));
  g_autoptr(BlVerifyResult) found = bl_verify(store, "x", &full, NULL, NULL);
  g_assert_true(bl_verify_result_is_bad(found));
  g_autoptr(BlVerifyResult) warned = verify_quick(store, here);
  g_assert_true(bl_verify_result_is_bad(warned));
  remove_tree(folder);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_data_func("/verify/right/local", GUINT_TO_POINTER(BL_MEMORY_STORE_CAPS), test_right);
  g_test_add_data_func("/verify/right/remote", GUINT_TO_POINTER(NO_FD | BL_STORE_IS_REMOTE),
                       test_right);
  g_test_add_func("/verify/blocks", test_blocks);
  g_test_add_func("/verify/sha256", test_sha256);
  g_test_add_func("/verify/layout", test_layout);
  g_test_add_func("/verify/unknown-layout", test_unknown_layout);
  g_test_add_func("/verify/writes-digests", test_writes_digests);
  g_test_add_func("/verify/bad-digests", test_bad_digests);
  g_test_add_func("/verify/selected", test_selected);
  g_test_add_func("/verify/deep", test_deep);
  g_test_add_func("/verify/cannot-check", test_cannot_check);
  g_test_add_func("/verify/faults", test_faults);
  g_test_add_func("/verify/records-state", test_records_state);
  g_test_add_func("/verify/records-part", test_records_part);
  g_test_add_func("/verify/not-recorded", test_not_recorded);
  g_test_add_func("/verify/denied", test_denied);
  g_test_add_func("/verify/record-faults", test_record_faults);
  g_test_add_func("/verify/subsets", test_subsets);
  g_test_add_func("/verify/quick", test_quick);
  g_test_add_func("/verify/quick-suspects", test_quick_suspects);
  return g_test_run();
}
