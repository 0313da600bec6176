/* A file is read once where nothing of it is in the store: hashed and written side by side, or
 * shared by the file system and then hashed from the object. Where chunks may be there from an
 * earlier attempt, they are first compared with the source while it is hashed; only what differs is
 * written, in a second pass that hashes again, so that what was hashed is what was written.
 *
 * Where another checkpoint seems to have the same bytes, the object is made to share them first,
 * which shows at once whether the store can, and the source is then only hashed, and compared
 * unless the donor's bytes are known to be right. What turns out different is written in a second
 * pass, as a new object: one that is shared is never written to. A READY checkpoint's object is
 * shared only when it is known that the bytes are right; so is a small file's, which is hashed
 * first, since many of them may have the same size. */
#include "model/import_file.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/build_way.h"
#include "model/key.h"

/* A source that changes while it is read is read again, this often. */
#define MAX_TRIES 3
/* Bytes compared at a time. */
#define COMPARE_SIZE (256u * 1024)
/* Up to this, a file is hashed before a donor is looked for. */
#define SMALL_SIZE (256u * 1024)
/* Below this, asking for a reflink costs as much as writing. */
#define CLONE_SIZE (64u * 1024)

typedef struct {
  BlImportFiles *files;
  BlBuild *build;
  guint64 index;
  const BlManifestFile *record;
  int fd;                /* of the source */
  guint8 *is_good;       /* per chunk: it holds the source's bytes already */
  gboolean must_replace; /* an object that shares other bytes is there */
  /* A donor whose bytes are not the source's, though they may have to be; NULL: none. */
  const BlContentFile *suspect;
  BlTransfer *transfer;
  BlHasher *hasher;
  /* reading */
  guint64 read_offset;
  /* writing */
  guint32 chunk;
  guint64 chunk_left;
  BlStoreWriter *writer;
  guint64 n_written, n_shared;
} Work;

static gboolean set_changed(const Work *work, GError **error) {
  g_autofree char *shown = bl_path_display(work->record->path);
  return bl_error_set(
      error, BL_ERROR_CORRUPT,
      "source file \"%s\" changes while it is read (import again when nothing writes to it)",
      shown);
}

static void prefix_file(const Work *work, const char *doing, GError **error) {
  g_autofree char *shown = bl_path_display(work->record->path);
  g_prefix_error(error, "%s \"%s\": ", doing, shown);
}

static gssize read_source(gpointer user, void *data, gsize size, GError **error) {
  Work *work = user;
  gssize n = bl_pread_some(work->fd, data, size, work->read_offset, error);
  if (n < 0) prefix_file(work, "cannot read source file", error);
  if (n > 0) work->read_offset += (guint64)n;
  return n;
}

static gboolean open_chunk(Work *work, GError **error) {
  char key[BL_KEY_MAX];
  BlBuild *build = work->build;
  work->chunk_left = bl_manifest_chunk_size(work->record, work->chunk);
  if (work->is_good != NULL && work->is_good[work->chunk]) return TRUE;
  bl_manifest_chunk_key(build->manifest, work->record, work->chunk, key);
  BlPutFlags flags = build->may_be_there || work->must_replace ? BL_PUT_REPLACE : 0;
  work->writer = bl_store_writer_open(build->store, key, work->chunk_left, flags, error);
  return work->writer != NULL;
}

static gboolean close_chunk(Work *work, GError **error) {
  gboolean ok = work->writer == NULL || bl_store_writer_commit(work->writer, error);
  g_clear_pointer(&work->writer, bl_store_writer_free);
  work->chunk++;
  return ok;
}

static gboolean write_chunks(gpointer user, const void *data, gsize size, GError **error) {
  Work *work = user;
  const guint8 *bytes = data;
  while (size > 0) {
    if (work->chunk_left == 0 && work->chunk == work->record->n_chunks)
      return set_changed(work, error);
    if (work->chunk_left == 0 && !open_chunk(work, error)) return FALSE;
    gsize n = (gsize)MIN(size, work->chunk_left);
    if (work->writer != NULL && !bl_store_writer_write(work->writer, bytes, n, error)) return FALSE;
    if (work->writer != NULL) work->n_written += n;
    work->chunk_left -= n;
    bytes += n;
    size -= n;
    if (work->chunk_left == 0 && !close_chunk(work, error)) return FALSE;
  }
  return TRUE;
}

/* Hashes and writes every chunk that is not good. */
static gboolean write_file(Work *work, GError **error) {
  BlTransferPlan plan = {.read = read_source,
                         .read_user = work,
                         .write = write_chunks,
                         .write_user = work,
                         .size = work->record->size,
                         .hasher = work->hasher};
  work->read_offset = 0;
  work->chunk = 0;
  work->chunk_left = 0;
  bl_hasher_reset(work->hasher);
  gboolean ok = bl_transfer_run(work->transfer, &plan, work->build->job, NULL, error);
  g_clear_pointer(&work->writer, bl_store_writer_free);
  if (ok && work->chunk < work->record->n_chunks) ok = set_changed(work, error);
  return ok;
}

/* Lets the file system share the bytes, and hashes the object. *is_done is FALSE where it cannot.
 */
static gboolean clone_file(Work *work, gboolean *is_done, GError **error) {
  BlImportFiles *files = work->files;
  BlBuild *build = work->build;
  char key[BL_KEY_MAX];
  *is_done = FALSE;
  if (build->may_be_there || work->must_replace || work->record->n_chunks != 1 ||
      work->record->size < CLONE_SIZE || !bl_store_can(build->store, BL_STORE_CAN_CLONE) ||
      g_atomic_int_get(&files->cannot_clone))
    return TRUE;
  bl_manifest_chunk_key(build->manifest, work->record, 0, key);
  g_autoptr(GError) fault = NULL;
  if (!bl_store_clone_fd(build->store, key, work->fd, work->record->size, &fault)) {
    if (!g_error_matches(fault, BL_ERROR, BL_ERROR_UNSUPPORTED)) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return FALSE;
    }
    g_atomic_int_set(&files->cannot_clone, TRUE);
    return TRUE;
  }
  BlFdInput stream = {.fd = bl_store_open_fd(build->store, key, error)};
  if (stream.fd < 0) return FALSE;
  BlTransferPlan plan = {.read = bl_fd_input_read,
                         .read_user = &stream,
                         .size = work->record->size,
                         .hasher = work->hasher};
  bl_hasher_reset(work->hasher);
  *is_done = bl_transfer_run(work->transfer, &plan, build->job, &work->n_written, error);
  close(stream.fd);
  if (!*is_done) prefix_file(work, "reading back", error);
  return *is_done;
}

/* Compares the source's bytes at the read offset with the chunk's object. */
static gboolean is_chunk_equal(Work *work, const char *key, guint64 offset, const guint8 *bytes,
                               gsize size, guint8 *scratch) {
  gsize got;
  return bl_store_get(work->build->store, key, offset, scratch, size, &got, NULL) && got == size &&
         memcmp(scratch, bytes, size) == 0;
}

/* Notes the file's objects as they are now. What they have in common with others may be written to
 * at any time, through a name that somebody has outside. */
static void look_at_objects(const Work *work) {
  (void)bl_identities_look(work->files->identities, work->index);
}

/* Hashes the source and sets is_good of each chunk whose object holds the same bytes. */
static gboolean compare_chunks(Work *work, guint8 *bytes, guint8 *scratch, GError **error) {
  char key[BL_KEY_MAX];
  look_at_objects(work);
  work->read_offset = 0;
  bl_hasher_reset(work->hasher);
  for (guint32 c = 0; c < work->record->n_chunks; c++) {
    guint64 chunk_size = bl_manifest_chunk_size(work->record, c), object_size;
    bl_manifest_chunk_key(work->build->manifest, work->record, c, key);
    gboolean is_good =
        bl_store_size(work->build->store, key, &object_size, NULL) && object_size == chunk_size;
    for (guint64 done = 0; done < chunk_size;) {
      if (!bl_job_check(work->build->job, error)) return FALSE;
      gsize want = (gsize)MIN(chunk_size - done, COMPARE_SIZE);
      gssize n = read_source(work, bytes, want, error);
      if (n < 0) return FALSE;
      if ((gsize)n != want) return set_changed(work, error);
      bl_hasher_update(work->hasher, bytes, want);
      bl_job_add_bytes(work->build->job, want);
      is_good = is_good && is_chunk_equal(work, key, done, bytes, want, scratch);
      done += want;
    }
    /* Whoever put it may have been killed before it was durable. */
    if (is_good && !work->build->is_read_only && !bl_store_adopt(work->build->store, key, error))
      return FALSE;
    work->is_good[c] = is_good;
  }
  return TRUE;
}

/* *is_done: every chunk was there and right. */
static gboolean compare_file(Work *work, gboolean *is_done, GError **error) {
  *is_done = FALSE;
  if (!work->build->may_be_there) return TRUE;
  g_free(work->is_good);
  work->is_good = NULL;
  /* A READY checkpoint's source is hashed before anything of it is written. */
  if (!work->build->manifest->is_ready &&
      !bl_build_has_file(work->build->store, work->build->manifest, work->record))
    return TRUE;
  work->is_good = g_new0(guint8, work->record->n_chunks + 1);
  g_autofree guint8 *bytes = g_malloc(COMPARE_SIZE), *scratch = g_malloc(COMPARE_SIZE);
  if (!compare_chunks(work, bytes, scratch, error)) return FALSE;
  *is_done = memchr(work->is_good, 0, work->record->n_chunks) == NULL;
  return TRUE;
}

/* NULL where there can be none. That they cannot be found out is no reason to fail. */
static BlDonors *find_donors(BlImportFiles *files) {
  BlBuild *build = files->build;
  if (!bl_store_can(build->store, BL_STORE_CAN_SHARE)) return NULL;
  g_mutex_lock(&files->donors_lock);
  if (!files->are_donors_loaded)
    files->donors =
        bl_donors_load(build->store, build->manifest, files->state_folder, build->job, NULL);
  files->are_donors_loaded = TRUE;
  g_mutex_unlock(&files->donors_lock);
  return files->donors;
}

/* The source beside a donor. */
typedef struct {
  Work *work;
  int fd; /* of the donor; -1: its bytes need no look */
  guint8 *scratch;
  gboolean is_equal; /* so far */
} Beside;

/* Gives the source's bytes; ends early where the donor's are others. */
static gssize read_beside(gpointer user, void *data, gsize size, GError **error) {
  Beside *beside = user;
  guint64 offset = beside->work->read_offset;
  if (!beside->is_equal) return 0;
  gssize n = read_source(beside->work, data, MIN(size, COMPARE_SIZE), error);
  if (n > 0 && beside->fd >= 0)
    beside->is_equal = bl_pread_all(beside->fd, beside->scratch, (gsize)n, offset, NULL) &&
                       memcmp(beside->scratch, data, (gsize)n) == 0;
  return n;
}

/* Hashes the source. *is_equal: it has the bytes that the donor has, and must have. */
static gboolean compare_donor(Work *work, BlDonor *donor, guint8 *sha256, gboolean *is_equal,
                              GError **error) {
  g_autofree guint8 *scratch = donor->is_vouched ? NULL : g_malloc(COMPARE_SIZE);
  Beside beside = {
      .work = work, .fd = donor->is_vouched ? -1 : donor->fd, .scratch = scratch, .is_equal = TRUE};
  BlTransferPlan plan = {.read = read_beside,
                         .read_user = &beside,
                         .size = work->record->size,
                         .hasher = work->hasher};
  work->read_offset = 0;
  bl_hasher_reset(work->hasher);
  if (!bl_transfer_run(work->transfer, &plan, work->build->job, NULL, error)) return FALSE;
  bl_hasher_finish(work->hasher, sha256);
  *is_equal = beside.is_equal && work->read_offset == work->record->size &&
              memcmp(sha256, donor->file->sha256, BL_SHA256_SIZE) == 0 && bl_donor_is_still(donor);
  if (!beside.is_equal) work->suspect = donor->file;
  return TRUE;
}

/* Makes the object one that shares the donor's bytes. *is_put is FALSE where that cannot be. */
static gboolean put_shared(Work *work, const BlDonor *donor, gboolean *is_put, GError **error) {
  char key[BL_KEY_MAX];
  BlBuild *build = work->build;
  g_autoptr(GError) fault = NULL;
  bl_manifest_chunk_key(build->manifest, work->record, 0, key);
  *is_put =
      bl_store_share_fd(build->store, key, donor->fd,
                        build->may_be_there || work->must_replace ? BL_PUT_REPLACE : 0, &fault);
  if (*is_put || g_error_matches(fault, BL_ERROR, BL_ERROR_UNSUPPORTED) ||
      g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* Nothing may be said of the source before it is hashed. */
static gboolean share_unknown(Work *work, BlDonor *donor, guint8 *sha256, gboolean *is_done,
                              GError **error) {
  if (!put_shared(work, donor, is_done, error)) return FALSE;
  if (!*is_done) return TRUE;
  work->must_replace = TRUE;
  look_at_objects(work);
  if (!compare_donor(work, donor, sha256, is_done, error)) return FALSE;
  if (!*is_done) bl_job_add_total(work->build->job, work->read_offset);
  return TRUE;
}

/* The source was hashed, and the donor should have the same bytes. */
static gboolean share_known(Work *work, BlDonor *donor, guint8 *sha256, gboolean *is_done,
                            GError **error) {
  if (!donor->is_vouched) {
    if (!compare_donor(work, donor, sha256, is_done, error)) return FALSE;
    bl_job_add_total(work->build->job, work->read_offset);
    if (!*is_done) return TRUE;
  }
  if (!put_shared(work, donor, is_done, error)) return FALSE;
  if (!*is_done) return TRUE;
  work->must_replace = TRUE;
  look_at_objects(work);
  /* Nobody has written to it since it was compared, or vouched for. */
  *is_done = bl_donor_is_still(donor);
  return TRUE;
}

static gboolean hash_source(Work *work, guint8 *sha256, GError **error) {
  BlTransferPlan plan = {
      .read = read_source, .read_user = work, .size = work->record->size, .hasher = work->hasher};
  work->read_offset = 0;
  bl_hasher_reset(work->hasher);
  if (!bl_transfer_run(work->transfer, &plan, work->build->job, NULL, error)) return FALSE;
  bl_hasher_finish(work->hasher, sha256);
  return TRUE;
}

/* Shares the bytes of another checkpoint. sha256: of the source where the manifest is READY; where
 * *is_done comes back TRUE, in any case. */
static gboolean share_file(Work *work, guint8 *sha256, gboolean *is_done, GError **error) {
  BlKeyBuffer key;
  BlDonor donor;
  guint64 size = work->record->size;
  gboolean is_ready = work->build->manifest->is_ready, is_known = is_ready || size <= SMALL_SIZE;
  BlDonors *donors = work->record->n_chunks == 1 ? find_donors(work->files) : NULL;
  *is_done = FALSE;
  if (donors == NULL || !bl_donors_have_size(donors, size)) return TRUE;
  if (is_known && !is_ready && !hash_source(work, sha256, error)) return FALSE;
  bl_manifest_chunk_key(work->build->manifest, work->record, 0, key);
  gboolean is_found = is_known ? bl_donors_find_known(donors, size, sha256, key, &donor)
                               : bl_donors_find(donors, size, work->fd, &donor);
  gboolean ok = TRUE;
  if (is_found) {
    ok = is_known ? share_known(work, &donor, sha256, is_done, error)
                  : share_unknown(work, &donor, sha256, is_done, error);
    bl_donor_close(&donor);
  }
  if (ok && *is_done) work->n_shared = size;
  /* It was hashed, and is read again to be written. */
  if (!*is_done && is_known && !is_ready) bl_job_add_total(work->build->job, size);
  return ok;
}

/* The donor's checkpoint says that it has these bytes, and its object has others. */
static void tell_of_damage(const Work *work, const guint8 *sha256) {
  if (work->suspect == NULL || memcmp(work->suspect->sha256, sha256, BL_SHA256_SIZE) != 0) return;
  const char *id = work->suspect->checkpoint_id;
  bl_job_note(work->build->job, BL_NOTE_WARNING,
              "checkpoint \"%s\" is damaged: a file of it was found with other bytes than it must "
              "have, and not shared (run \"ballast model verify %s\")",
              id, id);
}

/* Whether the hasher, which is finished, saw the bytes that a READY manifest names. */
static gboolean check_same(const Work *work, const guint8 *sha256, GError **error) {
  if (!work->build->manifest->is_ready || memcmp(sha256, work->record->sha256, BL_SHA256_SIZE) == 0)
    return TRUE;
  g_autofree char *shown = bl_path_display(work->record->path);
  return bl_error_set(
      error, BL_ERROR_EXISTS,
      "checkpoint \"%s\" is there with other content: file \"%s\" differs from the source's "
      "(import under another id with --checkpoint-id, or delete it first)",
      work->build->manifest->checkpoint_id, shown);
}

/* The checkpoint's objects are not what they must be, and cannot be put again. */
static gboolean set_bad(const Work *work, GError **error) {
  g_autofree char *shown = bl_path_display(work->record->path);
  const char *id = work->build->manifest->checkpoint_id;
  return bl_error_set(
      error, BL_ERROR_CORRUPT,
      "checkpoint \"%s\": what is stored of \"%s\" is damaged or gone, and %s cannot "
      "be written to (whoever may write runs \"ballast model repair %s\")",
      id, shown, work->build->store->url, id);
}

/* Bytes of the chunks that are not good. */
static guint64 count_missing(const Work *work) {
  guint64 n_bytes = 0;
  if (work->is_good == NULL) return work->record->size;
  for (guint32 c = 0; c < work->record->n_chunks; c++)
    if (!work->is_good[c]) n_bytes += bl_manifest_chunk_size(work->record, c);
  return n_bytes;
}

/* All passes over the file. */
static gboolean take_file(Work *work, guint8 *sha256, GError **error) {
  gboolean is_done;
  if (!compare_file(work, &is_done, error)) return FALSE;
  if (is_done || work->build->manifest->is_ready) {
    bl_hasher_finish(work->hasher, sha256);
    if (!check_same(work, sha256, error)) return FALSE;
    if (is_done) return TRUE;
    if (work->build->is_read_only) return set_bad(work, error);
  }
  if (!share_file(work, sha256, &is_done, error)) return FALSE;
  if (is_done) return TRUE;
  if (work->is_good != NULL) bl_job_add_total(work->build->job, work->record->size);
  if (!bl_build_reserve_file(work->build, work->index, count_missing(work), error)) return FALSE;
  if (!clone_file(work, &is_done, error)) return FALSE;
  if (!is_done && !write_file(work, error)) return FALSE;
  look_at_objects(work);
  bl_hasher_finish(work->hasher, sha256);
  tell_of_damage(work, sha256);
  return check_same(work, sha256, error);
}

static void report(Work *work, const guint8 *sha256) {
  BlImportFiles *files = work->files;
  gsize n_crcs;
  const guint32 *crcs = bl_hasher_crcs(work->hasher, &n_crcs);
  gboolean is_written =
      work->n_written > 0 || (work->record->size == 0 && !work->build->may_be_there);
  g_mutex_lock(&files->lock);
  files->n_bytes_written += work->n_written;
  files->n_files_written += is_written;
  files->n_bytes_shared += work->n_shared;
  files->n_files_shared += work->n_shared > 0;
  if ((is_written || work->n_shared > 0) && work->build->manifest->is_ready)
    g_ptr_array_add(files->mended, bl_path_display(work->record->path));
  g_mutex_unlock(&files->lock);
  bl_build_report_file(work->build, work->index, sha256, crcs, n_crcs,
                       is_written || work->n_shared > 0);
}

/* What an earlier pass over a source that changed left in the store must not stay. */
static gboolean take_back(Work *work, GError **error) {
  char key[BL_KEY_MAX];
  for (guint32 c = 0; c < work->record->n_chunks; c++) {
    bl_manifest_chunk_key(work->build->manifest, work->record, c, key);
    if (!bl_store_remove(work->build->store, key, error)) return FALSE;
  }
  return TRUE;
}

/* Every try opens the path anew, so that a file that was replaced is met as it is then. */
static gboolean try_file(Work *work, guint8 *sha256, gboolean *is_still, GError **error) {
  BlSourceFile *found = &work->files->source->files[work->index];
  BlSourceState state;
  bl_autofd fd = bl_source_open_file(work->files->source, work->index, &state, error);
  if (fd < 0) return FALSE;
  if (state.size != found->size) return set_changed(work, error);
  work->fd = fd;
  gboolean ok = take_file(work, sha256, error);
  *is_still = bl_source_is_still(work->files->source, work->index, &state);
  found->mtime_ns = state.mtime_ns;
  return ok;
}

gboolean bl_import_file(BlImportFiles *files, guint64 i, guint worker, GError **error) {
  BlBuild *build = files->build;
  Work work = {.files = files, .build = build, .index = i, .record = &build->manifest->files[i]};
  guint8 sha256[BL_SHA256_SIZE];
  work.transfer = bl_transfer_pool_get(build->pool, worker);
  work.hasher = bl_transfer_pool_hasher(build->pool, worker);
  bl_hasher_set_git_blob(work.hasher, files->source->files[i].git_blob != NULL, work.record->size);
  gboolean ok = FALSE;
  for (int n = 1;; n++) {
    g_autoptr(GError) fault = NULL;
    gboolean is_still = TRUE;
    ok = try_file(&work, sha256, &is_still, &fault);
    if (ok && is_still) break;
    if (is_still) {
      g_propagate_error(error, g_steal_pointer(&fault));
      break;
    }
    ok = FALSE;
    if (n == MAX_TRIES) {
      set_changed(&work, error);
      break;
    }
    if (!build->manifest->is_ready && !take_back(&work, error)) break;
  }
  ok = ok && bl_source_check_digests(files->source, i, work.hasher, sha256, build->job, error);
  if (ok) report(&work, sha256);
  g_free(work.is_good);
  return ok;
}

void bl_import_files_init(BlImportFiles *files, const BlManifest *manifest) {
  files->identities = bl_identities_load(files->state_folder, files->build->store, manifest);
  g_mutex_init(&files->lock);
  g_mutex_init(&files->donors_lock);
}

void bl_import_files_clear(BlImportFiles *files) {
  bl_donors_free(files->donors);
  bl_identities_free(files->identities);
  g_mutex_clear(&files->donors_lock);
  g_mutex_clear(&files->lock);
}

gboolean bl_import_file_is_shared(BlImportFiles *files, guint64 i) {
  const BlManifestFile *record = &files->build->manifest->files[i];
  BlSourceState state;
  BlDonor donor;
  BlDonors *donors = record->n_chunks == 1 ? find_donors(files) : NULL;
  if (donors == NULL) return FALSE;
  bl_autofd fd = bl_source_open_file(files->source, i, &state, NULL);
  if (fd < 0 || state.size != record->size || !bl_donors_find(donors, record->size, fd, &donor))
    return FALSE;
  bl_donor_close(&donor);
  return TRUE;
}
