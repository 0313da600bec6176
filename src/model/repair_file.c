/* A candidate is read twice. First it is hashed whole, beside a comparison with what the store has,
 * chunk by chunk: that says whether it is the file, and which chunks are bad; of those the SHA-256
 * is kept. Only then the bad chunks are read again and written; each becomes visible only if it is
 * what was hashed, so a candidate that changes in between does no harm. */
#include "model/repair_file.h"

#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/chunk.h"

#define PIECE_SIZE (256u * 1024)

typedef struct {
  guint32 chunk;
  guint8 sha256[BL_SHA256_SIZE]; /* of its right bytes */
} BadChunk;

typedef struct {
  const BlRepairFiles *files;
  guint64 index;
  const BlManifestFile *record;
  BlTransfer *transfer;
  BlHasher *hasher;
  BlSupplyFile *supply;
  GArray *bad;     /* of BadChunk */
  GString *faults; /* why candidates did not do */
  guint8 *piece, *scratch;
  gint64 mtime_ns; /* of the candidate before it was hashed */
  guint64 n_read;  /* bytes that the job is told of */
  /* while a chunk is written */
  guint64 left;         /* bytes of it to be read */
  gboolean is_read_bad; /* the candidate failed, not the store */
} Mend;

static void add_fault(Mend *mend, const char *name, const char *text) {
  g_string_append_printf(mend->faults, "%s%s: %s", mend->faults->len > 0 ? "; " : "", name, text);
}

static gboolean set_changed(GError **error) {
  return bl_error_set(error, BL_ERROR_CORRUPT, "it changes while it is read");
}

/* Reads exactly size bytes of the candidate. */
static gboolean read_piece(Mend *mend, gsize size, GError **error) {
  for (gsize done = 0; done < size;) {
    gssize n = bl_supply_file_read(mend->supply, mend->piece + done, size - done, error);
    if (n < 0) return FALSE;
    if (n == 0) return set_changed(error);
    done += (gsize)n;
  }
  return TRUE;
}

/* Feeds the chunk of the candidate to both hashers. *is_equal: the store's object has its bytes. */
static gboolean compare_chunk(Mend *mend, guint32 c, BlHasher *chunk_hasher, gboolean *is_equal,
                              GError **error) {
  const BlRepairFiles *files = mend->files;
  guint64 size = bl_manifest_chunk_size(mend->record, c);
  BlKeyBuffer key;
  BlChunk object;
  bl_manifest_chunk_key(files->manifest, mend->record, c, key);
  gboolean is_open = bl_chunk_open(&object, files->store, key, NULL), ok = TRUE;
  *is_equal = is_open && object.size == size;
  bl_hasher_reset(chunk_hasher);
  for (guint64 done = 0; ok && done < size;) {
    gsize want = (gsize)MIN(size - done, PIECE_SIZE);
    ok = bl_job_check(files->job, error) && read_piece(mend, want, error);
    if (!ok) break;
    bl_hasher_update(mend->hasher, mend->piece, want);
    if (mend->record->n_chunks > 1) bl_hasher_update(chunk_hasher, mend->piece, want);
    *is_equal = *is_equal && bl_chunk_read(&object, done, mend->scratch, want, NULL) &&
                memcmp(mend->scratch, mend->piece, want) == 0;
    bl_job_add_bytes(files->job, want);
    done += want;
  }
  if (is_open) bl_chunk_close(&object);
  return ok;
}

/* When the candidate, where it is an object of this store, was last written to; 0: it is none. */
static gint64 own_mtime_ns(const Mend *mend) {
  struct stat st;
  int fd = bl_supply_file_own_fd(mend->supply);
  if (fd < 0 || fstat(fd, &st) != 0) return 0;
  return bl_time_ns(&st.st_mtim);
}

/* Reads the candidate whole and finds the chunks that are bad. CORRUPT where it is another file. */
static gboolean examine(Mend *mend, GError **error) {
  g_autoptr(BlHasher) chunk_hasher = bl_hasher_new();
  guint8 sha256[BL_SHA256_SIZE];
  bl_hasher_reset(mend->hasher);
  mend->mtime_ns = own_mtime_ns(mend);
  g_array_set_size(mend->bad, 0);
  mend->n_read += mend->record->size;
  if (!bl_supply_file_seek(mend->supply, 0, error)) return FALSE;
  for (guint32 c = 0; c < mend->record->n_chunks; c++) {
    BadChunk bad = {.chunk = c};
    gboolean is_equal;
    if (!compare_chunk(mend, c, chunk_hasher, &is_equal, error)) return FALSE;
    bl_hasher_finish(chunk_hasher, bad.sha256);
    if (!is_equal) g_array_append_val(mend->bad, bad);
  }
  bl_hasher_finish(mend->hasher, sha256);
  if (memcmp(sha256, mend->record->sha256, BL_SHA256_SIZE) != 0)
    return bl_error_set(error, BL_ERROR_CORRUPT, "its bytes are others (by SHA-256)");
  /* The one chunk is the file. */
  if (mend->record->n_chunks == 1 && mend->bad->len == 1)
    memcpy(g_array_index(mend->bad, BadChunk, 0).sha256, sha256, BL_SHA256_SIZE);
  return TRUE;
}

static gssize read_chunk(gpointer user, void *data, gsize size, GError **error) {
  Mend *mend = user;
  gssize n = bl_supply_file_read(mend->supply, data, (gsize)MIN(size, mend->left), error);
  if (n < 0) mend->is_read_bad = TRUE;
  if (n > 0) mend->left -= (guint64)n;
  return n;
}

static gboolean write_chunk(gpointer user, const void *data, gsize size, GError **error) {
  return bl_store_writer_write(user, data, size, error);
}

/* Replaces the chunk. Where the candidate is not any more what it was, is_read_bad is set. */
static gboolean put_chunk(Mend *mend, const BadChunk *bad, GError **error) {
  const BlRepairFiles *files = mend->files;
  guint64 size = bl_manifest_chunk_size(mend->record, bad->chunk);
  guint64 offset = bad->chunk > 0 ? bad->chunk * mend->record->chunk_size : 0;
  guint8 sha256[BL_SHA256_SIZE];
  BlKeyBuffer key;
  mend->left = size;
  mend->is_read_bad = !bl_supply_file_seek(mend->supply, offset, error);
  if (mend->is_read_bad) return FALSE;
  bl_manifest_chunk_key(files->manifest, mend->record, bad->chunk, key);
  g_autoptr(BlStoreWriter) writer =
      bl_store_writer_open(files->store, key, size, BL_PUT_REPLACE, error);
  if (writer == NULL) return FALSE;
  BlTransferPlan plan = {.read = read_chunk,
                         .read_user = mend,
                         .write = write_chunk,
                         .write_user = writer,
                         .size = size,
                         .hasher = mend->hasher};
  bl_hasher_reset(mend->hasher);
  mend->n_read += size;
  if (!bl_transfer_run(mend->transfer, &plan, files->job, NULL, error)) return FALSE;
  bl_hasher_finish(mend->hasher, sha256);
  mend->is_read_bad = memcmp(sha256, bad->sha256, BL_SHA256_SIZE) != 0;
  return mend->is_read_bad ? set_changed(error) : bl_store_writer_commit(writer, error);
}

/* Shares the candidate's object, where it is one of this store and the whole file. */
static gboolean share(Mend *mend, gboolean *is_done, GError **error) {
  const BlRepairFiles *files = mend->files;
  int fd = bl_supply_file_own_fd(mend->supply);
  g_autoptr(GError) fault = NULL;
  BlKeyBuffer key;
  *is_done = FALSE;
  if (fd < 0 || mend->record->n_chunks != 1 || !bl_store_can(files->store, BL_STORE_CAN_SHARE))
    return TRUE;
  bl_manifest_chunk_key(files->manifest, mend->record, 0, key);
  *is_done = bl_store_share_fd(files->store, key, fd, BL_PUT_REPLACE, &fault);
  /* Somebody may have written to it through a name outside: then it is read again. */
  if (*is_done && own_mtime_ns(mend) != mend->mtime_ns) {
    *is_done = FALSE;
    return TRUE;
  }
  if (*is_done || g_error_matches(fault, BL_ERROR, BL_ERROR_UNSUPPORTED) ||
      g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* What the store gives back now. */
static gboolean read_back(Mend *mend, GError **error) {
  const BlRepairFiles *files = mend->files;
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(files->reader, mend->index);
  guint8 sha256[BL_SHA256_SIZE];
  gssize n;
  bl_hasher_reset(mend->hasher);
  mend->n_read += mend->record->size;
  while ((n = bl_reader_stream_read(stream, mend->piece, PIECE_SIZE, error)) > 0) {
    if (!bl_job_check(files->job, error)) return FALSE;
    bl_hasher_update(mend->hasher, mend->piece, (gsize)n);
    bl_job_add_bytes(files->job, (guint64)n);
  }
  bl_hasher_finish(mend->hasher, sha256);
  if (n < 0) return FALSE;
  return memcmp(sha256, mend->record->sha256, BL_SHA256_SIZE) == 0 ||
         bl_error_set(error, BL_ERROR_IO, "the store gives back other bytes than were put");
}

/* Chunks that were right all along may be so far in the page cache alone. */
static gboolean adopt_all(const Mend *mend, GError **error) {
  BlKeyBuffer key;
  for (guint32 c = 0; c < mend->record->n_chunks; c++) {
    bl_manifest_chunk_key(mend->files->manifest, mend->record, c, key);
    if (!bl_store_adopt(mend->files->store, key, error)) return FALSE;
  }
  return TRUE;
}

/* Puts what is bad from a candidate that is the file. */
static gboolean put_bad(Mend *mend, BlRepairedFile *result, GError **error) {
  for (guint i = 0; i < mend->bad->len; i++)
    result->n_bytes +=
        bl_manifest_chunk_size(mend->record, g_array_index(mend->bad, BadChunk, i).chunk);
  if (mend->files->dry_run) return TRUE;
  if (mend->bad->len > 0 && !share(mend, &result->is_share, error)) return FALSE;
  for (guint i = 0; !result->is_share && i < mend->bad->len; i++)
    if (!put_chunk(mend, &g_array_index(mend->bad, BadChunk, i), error)) return FALSE;
  /* A shared object is the one that was hashed. */
  return adopt_all(mend, error) &&
         (mend->bad->len == 0 || result->is_share || read_back(mend, error));
}

/* Tries one candidate. *is_done: it did. FALSE only where nothing more can be done. */
static gboolean try_candidate(Mend *mend, BlRepairedFile *result, GError **error) {
  g_autoptr(GError) fault = NULL;
  const char *name = bl_supply_file_name(mend->supply);
  if (!examine(mend, &fault)) {
    if (bl_error_code(fault) == BL_ERROR_CANCELLED) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return FALSE;
    }
    add_fault(mend, name, fault->message);
    return TRUE;
  }
  *result = (BlRepairedFile){FALSE};
  mend->is_read_bad = FALSE;
  if (put_bad(mend, result, &fault)) {
    result->is_mended = TRUE;
    result->text = mend->bad->len > 0 ? g_strdup(name) : NULL;
    return TRUE;
  }
  if (mend->is_read_bad && bl_error_code(fault) != BL_ERROR_CANCELLED) {
    add_fault(mend, name, fault->message);
    return TRUE;
  }
  g_autofree char *shown = bl_path_display(mend->record->path);
  g_propagate_prefixed_error(error, g_steal_pointer(&fault), "mending \"%s\": ", shown);
  return FALSE;
}

/* Tries what one supply has. */
static gboolean try_supply(Mend *mend, const BlSupply *supply, BlRepairedFile *result,
                           GError **error) {
  for (guint n = 0; !result->is_mended; n++) {
    g_autoptr(GError) fault = NULL;
    g_autoptr(BlSupplyFile) found = bl_supply_find(supply, mend->record, n, &fault);
    if (fault != NULL) add_fault(mend, bl_supply_name(supply), fault->message);
    if (found == NULL && fault == NULL) return TRUE;
    mend->supply = found;
    if (found != NULL && !try_candidate(mend, result, error)) return FALSE;
  }
  return TRUE;
}

gboolean bl_repair_file(const BlRepairFiles *files, guint64 file, guint worker,
                        BlRepairedFile *result, GError **error) {
  g_autoptr(GString) faults = g_string_new(NULL);
  g_autoptr(GArray) bad = g_array_new(FALSE, FALSE, sizeof(BadChunk));
  g_autofree guint8 *piece = g_malloc(PIECE_SIZE), *scratch = g_malloc(PIECE_SIZE);
  Mend mend = {.files = files,
               .index = file,
               .record = &files->manifest->files[file],
               .transfer = bl_transfer_pool_get(files->pool, worker),
               .hasher = bl_transfer_pool_hasher(files->pool, worker),
               .bad = bad,
               .faults = faults,
               .piece = piece,
               .scratch = scratch};
  *result = (BlRepairedFile){FALSE};
  if (mend.record->n_chunks > 1 && mend.record->chunk_size == 0) {
    result->text = g_strdup(
        "its manifest does not say how long its chunks are (delete the "
        "checkpoint and import it again)");
    return TRUE;
  }
  for (guint i = 0; i < files->supplies->len && !result->is_mended; i++)
    if (!try_supply(&mend, files->supplies->pdata[i], result, error)) return FALSE;
  bl_job_add_total(files->job, (gint64)(mend.n_read - files->n_passes * mend.record->size));
  if (!result->is_mended)
    result->text = g_strdup_printf(
        "%s (name a folder or a store that has it: \"ballast model repair %s --from PLACE\")",
        faults->len > 0 ? faults->str : "no other checkpoint of this store has it",
        files->manifest->checkpoint_id);
  return TRUE;
}
