/* Verify. Each file is one item of work, the largest first, so that the cores end together. A file
 * is streamed once and hashed; that is all where it is right. Only where its stream breaks is it
 * looked at again, chunk by chunk and then block by block around the bad chunks, so that everything
 * that is wrong with it is named and not just the first thing. A file is looked at by stat before
 * it is read and behind, so that what is recorded of it is of the bytes that were read.
 *
 * Threads: manifest and stored digests are read-only. Result and new digests are under the lock. */
#include "model/verify.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/chunk.h"
#include "model/identity.h"
#include "model/info.h"
#include "model/key.h"
#include "model/reader.h"
#include "model/transfer.h"
#include "model/verify_deep.h"
#include "model/verify_record.h"
#include "model/verify_select.h"

/* Findings kept: enough to see the pattern, and memory stays bounded where all is lost. */
#define N_FINDINGS_MAX 10000

typedef struct {
  BlStore *store;
  const BlManifest *manifest;
  const BlVerifySelection *selection;
  BlDigests *stored; /* what the store has */
  BlState *state;    /* likewise */
  BlReader *reader;  /* without digests: it gives what is there */
  BlTransferPool *pool;
  BlIdentities *identities;
  BlJob *job;
  gboolean is_all, is_quick;
  gboolean keeps_digests; /* there is an object that cannot be used: not ours to replace */
  GMutex lock;            /* protects the rest */
  BlDigests *computed;
  BlVerifyResult *result;
  guint8 *is_bad; /* per file */
  guint8 *faults; /* per file: BL_VERIFY_… */
} Check;

/* One file under check. */
typedef struct {
  Check *check;
  guint64 index;
  const BlManifestFile *file;
  const guint32 *crcs; /* stored, or NULL */
  guint worker;
} FileCheck;

void bl_finding_free(BlFinding *finding) {
  if (finding == NULL) return;
  g_free(finding->path);
  g_free(finding->text);
  g_free(finding);
}

static void free_finding(gpointer data) {
  bl_finding_free(data);
}

void bl_verify_result_free(BlVerifyResult *result) {
  if (result == NULL) return;
  g_ptr_array_unref(result->findings);
  g_free(result->not_recorded);
  g_free(result);
}

gboolean bl_verify_result_is_bad(const BlVerifyResult *result) {
  return result->is_bad;
}

/* Takes the finding. file: index of the file that is bad by it, or G_MAXUINT64. */
static void take_finding(Check *check, guint64 file, BlFinding *finding) {
  g_mutex_lock(&check->lock);
  if (finding->kind != BL_FINDING_WARNING) {
    check->result->is_bad = TRUE;
    if (file != G_MAXUINT64) check->is_bad[file] = TRUE;
  }
  check->result->n_findings++;
  gboolean keep = check->result->findings->len < N_FINDINGS_MAX;
  if (keep) g_ptr_array_add(check->result->findings, finding);
  g_mutex_unlock(&check->lock);
  if (!keep) bl_finding_free(finding);
}

/* Records what is wrong with bytes [offset, offset + size) of the file. */
static void add_finding(const FileCheck *fc, BlFindingKind kind, guint64 offset, guint64 size,
                        const char *format, ...) G_GNUC_PRINTF(5, 6);
static void add_finding(const FileCheck *fc, BlFindingKind kind, guint64 offset, guint64 size,
                        const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_autofree char *what = g_strdup_vprintf(format, args);
  va_end(args);
  g_autofree char *shown = bl_path_display(fc->file->path);

  BlFinding *finding = g_new0(BlFinding, 1);
  finding->kind = kind;
  finding->path = g_strdup(fc->file->path);
  finding->offset = offset;
  finding->size = size;
  finding->block = kind == BL_FINDING_BLOCK ? offset / BL_BLOCK_SIZE : 0;
  finding->text = g_strdup_printf("\"%s\": %s", shown, what);
  take_finding(fc->check, fc->index, finding);
}

/* The reader's message without the names that every finding begins with. */
static const char *cause_text(const FileCheck *fc, const GError *cause) {
  g_autofree char *shown = bl_path_display(fc->file->path);
  g_autofree char *prefix =
      g_strdup_printf("checkpoint \"%s\": \"%s\": ", fc->check->manifest->checkpoint_id, shown);
  const char *text = cause->message;
  return g_str_has_prefix(text, prefix) ? text + strlen(prefix) : text;
}

/* Failures that say nothing about the data: the check itself cannot go on. */
static gboolean ends_check(const GError *error) {
  switch (bl_error_code(error)) {
    case BL_ERROR_UNAVAILABLE:
    case BL_ERROR_TIMED_OUT:
    case BL_ERROR_CANCELLED:
    case BL_ERROR_INTERNAL:
      return TRUE;
    default:
      return FALSE;
  }
}

/* The bytes of the file are not what they must be, or gone. */
static void mark(const FileCheck *fc, guint8 fault) {
  g_mutex_lock(&fc->check->lock);
  fc->check->faults[fc->index] |= fault;
  g_mutex_unlock(&fc->check->lock);
}

/* A read that failed says something about the data, an open may have failed for want of rights or
 * of descriptors. */
static void mark_unreadable(const FileCheck *fc, const GError *cause, gboolean is_open) {
  BlErrorCode code = bl_error_code(cause);
  gboolean is_damage =
      code == BL_ERROR_CORRUPT || code == BL_ERROR_NOT_FOUND || (is_open && code == BL_ERROR_IO);
  mark(fc, is_damage ? BL_VERIFY_DAMAGED : BL_VERIFY_UNJUDGED);
}

static gssize read_stream(gpointer user, void *data, gsize size, GError **error) {
  return bl_reader_stream_read(user, data, size, error);
}

/* kind is BLOCK, or DIGESTS where SHA-256 says that the bytes are right. */
static void add_bad_block(const FileCheck *fc, BlFindingKind kind, guint64 block, guint32 found) {
  guint64 offset = block * BL_BLOCK_SIZE;
  guint64 size = MIN(BL_BLOCK_SIZE, fc->file->size - offset);
  add_finding(fc, kind, offset, size,
              "block %" G_GUINT64_FORMAT " (bytes %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT
              ") %s: CRC32C is %08x, digests say %08x (\"ballast model repair\" mends it)",
              block, offset, offset + size - 1,
              kind == BL_FINDING_BLOCK ? "is damaged" : "is right by SHA-256, its digest is wrong",
              found, fc->crcs[block]);
  if (kind == BL_FINDING_BLOCK) mark(fc, BL_VERIFY_DAMAGED);
}

/* TRUE where all blocks have the stored CRCs. */
static gboolean compare_blocks(const FileCheck *fc, const guint32 *found, BlFindingKind kind) {
  gboolean equal = TRUE;
  guint64 n = bl_digests_n_blocks(fc->file->size);
  for (guint64 i = 0; i < n; i++) {
    if (found[i] == fc->crcs[i]) continue;
    add_bad_block(fc, kind, i, found[i]);
    equal = FALSE;
  }
  return equal;
}

/* Judges a file whose every byte was read. */
static void judge_whole(const FileCheck *fc, BlHasher *hasher) {
  guint8 sha256[BL_SHA256_SIZE];
  gsize n_blocks;
  bl_hasher_finish(hasher, sha256);
  const guint32 *found = bl_hasher_crcs(hasher, &n_blocks);
  Check *check = fc->check;

  if (memcmp(sha256, fc->file->sha256, sizeof sha256) == 0) {
    if (fc->crcs != NULL) {
      compare_blocks(fc, found, BL_FINDING_DIGESTS);
    } else if (n_blocks > 0) {
      g_mutex_lock(&check->lock);
      bl_digests_set(check->computed, fc->index, found, n_blocks);
      g_mutex_unlock(&check->lock);
    }
    return;
  }
  if (fc->crcs != NULL && !compare_blocks(fc, found, BL_FINDING_BLOCK)) return;
  char is[BL_SHA256_HEX_SIZE + 1], wanted[BL_SHA256_HEX_SIZE + 1];
  bl_hex_encode(sha256, sizeof sha256, is);
  bl_hex_encode(fc->file->sha256, sizeof sha256, wanted);
  add_finding(fc, BL_FINDING_SHA256, 0, fc->file->size,
              "SHA-256 is %s, must be %s (\"ballast model repair\" mends it)", is, wanted);
  mark(fc, BL_VERIFY_DAMAGED);
}

typedef struct {
  guint64 start, end;
} Range;

/* Names the chunks that are missing or have a wrong length, and gives the ranges of the file that
 * have no bytes because of them. */
static gboolean check_chunks(const FileCheck *fc, GArray *lost, GError **error) {
  const BlManifestFile *file = fc->file;
  gboolean is_known = file->n_chunks <= 1 || file->chunk_size > 0;
  for (guint32 i = 0; i < file->n_chunks; i++) {
    if (!bl_job_check(fc->check->job, error)) return FALSE;
    guint64 start = is_known && i > 0 ? i * file->chunk_size : 0;
    guint64 wanted = is_known ? bl_manifest_chunk_size(file, i) : 0;
    BlKeyBuffer key;
    BlChunk chunk;
    g_autoptr(GError) cause = NULL;
    if (bl_chunk_open(&chunk, fc->check->store,
                      bl_manifest_chunk_key(fc->check->manifest, file, i, key), &cause)) {
      bl_chunk_close(&chunk);
      if (!is_known || chunk.size == wanted) continue;
      add_finding(fc, BL_FINDING_SIZE, start, wanted,
                  "chunk %u has %" G_GUINT64_FORMAT " bytes, must have %" G_GUINT64_FORMAT
                  " (\"ballast model repair\" mends it)",
                  i, chunk.size, wanted);
      mark(fc, BL_VERIFY_DAMAGED);
      Range range = {start + MIN(chunk.size, wanted), start + wanted};
      if (range.start < range.end) g_array_append_val(lost, range);
      continue;
    }
    if (ends_check(cause)) {
      g_propagate_error(error, g_steal_pointer(&cause));
      return FALSE;
    }
    gboolean missing = bl_error_code(cause) == BL_ERROR_NOT_FOUND;
    add_finding(fc, missing ? BL_FINDING_MISSING : BL_FINDING_UNREADABLE, start, wanted,
                "chunk %u %s (\"ballast model repair\" mends it)", i,
                missing ? "is missing from the store" : cause->message);
    if (missing)
      mark(fc, BL_VERIFY_MISSING);
    else
      mark_unreadable(fc, cause, FALSE);
    Range range = {start, start + wanted};
    g_array_append_val(lost, range);
  }
  return TRUE;
}

static gboolean is_lost(const GArray *lost, guint64 start, guint64 end) {
  for (guint i = 0; i < lost->len; i++) {
    const Range *range = &g_array_index(lost, Range, i);
    if (range->start < end && start < range->end) return TRUE;
  }
  return FALSE;
}

/* Checks each block by itself, but for those that no bytes are there for. */
static gboolean check_blocks(const FileCheck *fc, const GArray *lost, GError **error) {
  guint64 n = bl_digests_n_blocks(fc->file->size);
  g_autofree guint8 *data = g_malloc(BL_BLOCK_SIZE);
  for (guint64 i = 0; i < n; i++) {
    guint64 offset = i * BL_BLOCK_SIZE;
    gsize size = (gsize)MIN(BL_BLOCK_SIZE, fc->file->size - offset);
    if (!bl_job_check(fc->check->job, error)) return FALSE;
    if (is_lost(lost, offset, offset + size)) continue;
    g_autoptr(GError) cause = NULL;
    if (!bl_reader_read(fc->check->reader, fc->index, offset, data, size, &cause)) {
      if (ends_check(cause)) {
        g_propagate_error(error, g_steal_pointer(&cause));
        return FALSE;
      }
      add_finding(fc, BL_FINDING_UNREADABLE, offset, size,
                  "block %" G_GUINT64_FORMAT " cannot be read: %s", i, cause_text(fc, cause));
      mark_unreadable(fc, cause, TRUE);
      continue;
    }
    guint32 crc = bl_crc32c(data, size);
    if (crc != fc->crcs[i]) add_bad_block(fc, BL_FINDING_BLOCK, i, crc);
  }
  return TRUE;
}

/* A file whose stream broke with this cause: names all that is wrong with it. */
static gboolean diagnose(const FileCheck *fc, GError *cause, GError **error) {
  g_autoptr(GError) broke = cause;
  if (ends_check(broke)) {
    g_propagate_error(error, g_steal_pointer(&broke));
    return FALSE;
  }
  g_autoptr(GArray) lost = g_array_new(FALSE, FALSE, sizeof(Range));
  if (!check_chunks(fc, lost, error)) return FALSE;
  gboolean is_known = fc->file->n_chunks <= 1 || fc->file->chunk_size > 0;
  if (is_known && fc->crcs != NULL && !check_blocks(fc, lost, error)) return FALSE;

  g_mutex_lock(&fc->check->lock);
  gboolean is_named = fc->check->is_bad[fc->index];
  g_mutex_unlock(&fc->check->lock);
  if (is_named) return TRUE;
  add_finding(fc,
              bl_error_code(broke) == BL_ERROR_CORRUPT ? BL_FINDING_SIZE : BL_FINDING_UNREADABLE, 0,
              fc->file->size, "cannot be read whole: %s", cause_text(fc, broke));
  mark_unreadable(fc, broke, TRUE);
  return TRUE;
}

/* Where the state could not name all that was bad, anything may be. */
static gboolean may_be_quick(const BlState *state) {
  return MAX(state->missing->len, state->damaged->len) < BL_STATE_MAX_PATHS;
}

/* Whether the file need not be read: its objects are those that were found right, and nobody found
 * them bad since. They are noted for the record either way. */
static gboolean is_unchanged(Check *check, guint64 index) {
  const char *path = check->manifest->files[index].path;
  return bl_identities_look(check->identities, index) && check->is_quick &&
         !bl_state_has_path(check->state->missing, path) &&
         !bl_state_has_path(check->state->damaged, path);
}

/* Keeps what the next quick check goes by. */
static void finish_file(const FileCheck *fc) {
  Check *check = fc->check;
  g_mutex_lock(&check->lock);
  gboolean is_right = check->faults[fc->index] == 0;
  check->result->n_files_read++;
  check->result->n_bytes_read += fc->file->size;
  g_mutex_unlock(&check->lock);
  if (is_right)
    bl_identities_record(check->identities, fc->index);
  else
    bl_identities_forget(check->identities, fc->index);
}

static gboolean check_file(guint64 i, guint worker, gpointer user, GError **error) {
  Check *check = user;
  guint64 index = check->selection->files[i];
  if (is_unchanged(check, index)) {
    bl_job_add_bytes(check->job, check->manifest->files[index].size);
    bl_job_add_files(check->job, 1);
    return TRUE;
  }
  FileCheck fc = {
      .check = check,
      .index = index,
      .file = &check->manifest->files[index],
      .crcs = bl_digests_get(check->stored, index),
      .worker = worker,
  };
  BlHasher *hasher = bl_transfer_pool_hasher(check->pool, worker);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(check->reader, index);
  BlTransferPlan plan = {
      .read = read_stream, .read_user = stream, .size = fc.file->size, .hasher = hasher};
  GError *cause = NULL;
  if (bl_transfer_run(bl_transfer_pool_get(check->pool, worker), &plan, check->job, NULL, &cause))
    judge_whole(&fc, hasher);
  else if (!diagnose(&fc, cause, error))
    return FALSE;
  finish_file(&fc);
  bl_job_add_files(check->job, 1);
  return TRUE;
}

static int compare_findings(gconstpointer a, gconstpointer b) {
  const BlFinding *x = *(BlFinding *const *)a, *y = *(BlFinding *const *)b;
  int order = g_strcmp0(x->path, y->path);
  if (order != 0) return order;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (int)x->kind - (int)y->kind;
}

/* Takes what is wrong with an object of ours beside the manifest as a finding: damage is bad, a
 * later version's is only said. FALSE where it ends the check. */
static gboolean take_object_fault(Check *check, BlFindingKind kind, const char *what, GError *cause,
                                  GError **error) {
  if (ends_check(cause)) {
    g_propagate_error(error, cause);
    return FALSE;
  }
  gboolean is_later = bl_error_code(cause) == BL_ERROR_UNSUPPORTED;
  BlFinding *finding = g_new0(BlFinding, 1);
  finding->kind = is_later ? BL_FINDING_WARNING : kind;
  finding->text =
      g_strdup_printf("%s cannot be used: %s (%s)", what, cause->message,
                      is_later ? "use a newer ballast" : "\"ballast model repair\" mends it");
  take_finding(check, G_MAXUINT64, finding);
  g_error_free(cause);
  return TRUE;
}

/* The stored digests; where they cannot be used the check goes on without them. */
static BlDigests *load_digests(Check *check, GError **error) {
  GError *cause = NULL;
  BlDigests *digests = bl_digests_load(check->store, check->manifest, &cause);
  if (digests != NULL) return digests;
  if (!take_object_fault(check, BL_FINDING_DIGESTS, "the block digests", cause, error)) return NULL;
  check->keeps_digests = TRUE;
  return bl_digests_new(check->manifest);
}

static gboolean check_info(Check *check, GError **error) {
  GError *cause = NULL;
  g_autoptr(BlInfo) info = bl_info_load(check->store, check->manifest, &cause);
  return info != NULL || take_object_fault(check, BL_FINDING_INFO, "the info object", cause, error);
}

static gboolean check_deep(Check *check, GError **error) {
  g_autoptr(BlLayoutResult) layout = bl_verify_deep(
      check->reader, check->manifest, check->selection->is_selected, check->job, error);
  if (layout == NULL) return FALSE;
  for (guint i = 0; i < layout->findings->len; i++) {
    const BlLayoutFinding *found = g_ptr_array_index(layout->findings, i);
    const BlManifestFile *file =
        found->path != NULL ? bl_manifest_find(check->manifest, found->path) : NULL;
    BlFinding *finding = g_new0(BlFinding, 1);
    /* What this version cannot judge is not called bad. */
    finding->kind = found->level == BL_LAYOUT_ERROR ? BL_FINDING_FORMAT : BL_FINDING_WARNING;
    finding->path = g_strdup(found->path);
    finding->text = g_strdup(found->text);
    take_finding(check, file != NULL ? (guint64)(file - check->manifest->files) : G_MAXUINT64,
                 finding);
  }
  guint64 n_all = 0;
  for (guint i = 0; i < BL_LAYOUT_N_LEVELS; i++) n_all += layout->n[i];
  check->result->n_findings += n_all - layout->findings->len;
  return TRUE;
}

static gboolean is_read_whole(const Check *check) {
  return check->is_all && check->result->n_bytes_read == check->result->n_bytes;
}

static gboolean is_all_judged(const Check *check) {
  for (guint64 i = 0; i < check->manifest->n_files; i++)
    if (check->faults[i] & BL_VERIFY_UNJUDGED) return FALSE;
  return check->is_all;
}

/* The digests to write: the stored ones with those that were computed, where every byte was read,
 * the whole checkpoint is right and some were absent. Else NULL. */
static const BlDigests *merge_digests(Check *check) {
  const BlManifest *manifest = check->manifest;
  gboolean any_absent = FALSE;
  if (check->keeps_digests || check->result->is_bad || !is_read_whole(check)) return NULL;
  for (guint64 i = 0; i < manifest->n_files; i++) {
    guint64 n = bl_digests_n_blocks(manifest->files[i].size);
    const guint32 *crcs = bl_digests_get(check->stored, i);
    if (crcs != NULL)
      bl_digests_set(check->computed, i, crcs, n);
    else if (n > 0)
      any_absent = TRUE;
  }
  return any_absent ? check->computed : NULL;
}

static void record(Check *check) {
  BlVerifyResult *result = check->result;
  gboolean is_complete = is_all_judged(check);
  BlVerifyRecord record = {
      .manifest = check->manifest,
      .faults = check->faults,
      .digests = merge_digests(check),
      .is_complete = is_complete,
      .checked_at = is_complete && is_read_whole(check) ? g_get_real_time() / G_USEC_PER_SEC : 0,
  };
  result->not_recorded = bl_verify_record(&record, check->store, check->state, check->job);
  result->is_record_lost = record.is_lost;
  result->digests_written = record.digests_written;
  result->was_degraded = record.was_degraded;
  result->is_degraded = result->not_recorded == NULL ? record.is_degraded : record.was_degraded;
}

static gboolean run_check(Check *check, const BlVerifyOptions *options, GError **error) {
  const BlVerifySelection *selection = check->selection;
  bl_job_begin_phase(check->job, "verifying", selection->n_bytes, selection->n);
  if (!bl_job_run(check->job, selection->n, check_file, check, error)) return FALSE;
  check->result->n_files = selection->n;
  check->result->n_bytes = selection->n_bytes;
  record(check);
  if (options->deep && !check_deep(check, error)) return FALSE;
  for (guint64 i = 0; i < check->manifest->n_files; i++)
    check->result->n_files_bad += check->is_bad[i];
  g_ptr_array_sort(check->result->findings, compare_findings);
  return TRUE;
}

/* What the store has beside the bytes, and what else the check works with. */
static gboolean prepare_check(Check *check, const BlVerifyOptions *options, GError **error) {
  const BlManifest *manifest = check->manifest;
  gsize n = (gsize)MAX(manifest->n_files, 1);
  check->state = bl_state_load_usable(check->store, manifest->checkpoint_id, check->job, error);
  if (check->state == NULL) return FALSE;
  check->stored = load_digests(check, error);
  if (check->stored == NULL || !check_info(check, error)) return FALSE;
  check->is_all = check->selection->n == manifest->n_files;
  check->is_quick = options->quick && may_be_quick(check->state);
  check->identities = bl_identities_load(options->state_folder, check->store, manifest);
  check->computed = bl_digests_new(manifest);
  check->reader = bl_reader_new(check->store, manifest, NULL);
  check->pool = bl_transfer_pool_new(check->store, bl_job_n_threads(check->job));
  check->is_bad = g_new0(guint8, n);
  check->faults = g_new0(guint8, n);
  return TRUE;
}

static void clear_check(Check *check) {
  bl_transfer_pool_free(check->pool);
  g_clear_pointer(&check->reader, bl_reader_free);
  g_clear_pointer(&check->computed, bl_digests_free);
  g_clear_pointer(&check->stored, bl_digests_free);
  bl_identities_free(check->identities);
  bl_state_free(check->state);
  g_free(check->is_bad);
  g_free(check->faults);
  g_mutex_clear(&check->lock);
}

BlVerifyResult *bl_verify(BlStore *store, const char *checkpoint_id, const BlVerifyOptions *options,
                          BlJob *job, GError **error) {
  g_autoptr(BlManifest) manifest = bl_manifest_load_ready(store, checkpoint_id, error);
  if (manifest == NULL) return NULL;
  g_autoptr(BlVerifyResult) result = g_new0(BlVerifyResult, 1);
  result->findings = g_ptr_array_new_with_free_func(free_finding);
  g_auto(BlVerifySelection) selection;
  bl_verify_select(&selection, manifest, options);
  Check check = {
      .store = store, .manifest = manifest, .selection = &selection, .job = job, .result = result};
  g_mutex_init(&check.lock);
  gboolean ok = prepare_check(&check, options, error);
  if (ok) ok = run_check(&check, options, error);
  /* Also of a check that was stopped: the next quick one goes on from it. */
  if (check.identities != NULL) bl_identities_save(check.identities);
  clear_check(&check);
  return ok ? g_steal_pointer(&result) : NULL;
}
