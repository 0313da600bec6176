/* A file's bytes come, in this order of preference:
 *   - where objects of it are in the target already (a killed copy, or a READY checkpoint), they
 * are compared with the source and only what differs is put (repair_file.h);
 *   - from another checkpoint of the target that has them, if its object is known to be right;
 *   - from the source's object, shared by the file system: neither is read;
 *   - from another checkpoint of the target, hashed first;
 *   - from the source as a stream, hashed on the way. */
#include "model/copy_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/build_way.h"
#include "model/key.h"
#include "model/repair_file.h"

/* Below this, asking for a reflink costs as much as writing. */
#define CLONE_SIZE (64u * 1024)

typedef struct {
  BlCopyFiles *files;
  BlBuild *build;
  guint64 index;
  guint worker;
  BlManifestFile *record; /* in the target */
  BlHasher *hasher;
  guint64 n_written, n_shared;
  gboolean is_mended; /* compared with what was there */
  /* writing */
  BlStoreWriter *writer;
  guint32 chunk;
  guint64 chunk_left;
} Copy;

static void prefix_file(const Copy *copy, GError **error) {
  g_autofree char *shown = bl_path_display(copy->record->path);
  g_prefix_error(error, "copying \"%s\": ", shown);
}

/* Compares what is there with the source and puts what differs. */
static gboolean mend(Copy *copy, GError **error) {
  BlCopyFiles *files = copy->files;
  BlBuild *build = copy->build;
  BlRepairedFile found;
  BlRepairFiles repair = {.store = build->store,
                          .manifest = build->manifest,
                          .reader = files->stored,
                          .supplies = files->supplies,
                          .pool = build->pool,
                          .job = build->job,
                          .n_passes = 1,
                          .dry_run = build->is_read_only};
  if (!bl_repair_file(&repair, copy->index, copy->worker, &found, error)) return FALSE;
  g_autofree char *text = found.text;
  if (build->is_read_only && found.is_mended && found.n_bytes > 0) {
    g_autofree char *shown = bl_path_display(copy->record->path);
    const char *url = build->store->url;
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "what store %s has of \"%s\" is damaged or gone, and it cannot be written "
                        "to (whoever may write runs \"ballast --store %s model repair %s\")",
                        url, shown, url, build->manifest->checkpoint_id);
  }
  if (!found.is_mended) {
    bl_error_set(error, BL_ERROR_CORRUPT, "%s", text);
    prefix_file(copy, error);
    return FALSE;
  }
  copy->n_written = found.n_bytes;
  copy->is_mended = TRUE;
  return TRUE;
}

static gboolean is_no_share(const GError *fault) {
  return g_error_matches(fault, BL_ERROR, BL_ERROR_UNSUPPORTED) ||
         g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND);
}

/* Whether the donor's object holds the file. */
static gboolean check_donor(Copy *copy, BlDonor *donor, gboolean *is_right, GError **error) {
  guint8 sha256[BL_SHA256_SIZE];
  BlFdInput object = {.fd = donor->fd};
  BlTransferPlan plan = {.read = bl_fd_input_read,
                         .read_user = &object,
                         .size = copy->record->size,
                         .hasher = copy->hasher};
  *is_right = donor->is_vouched;
  if (*is_right) return TRUE;
  bl_hasher_reset(copy->hasher);
  g_autoptr(GError) fault = NULL;
  if (!bl_transfer_run(bl_transfer_pool_get(copy->build->pool, copy->worker), &plan,
                       copy->build->job, NULL, &fault))
    return bl_job_check(copy->build->job, error);
  bl_hasher_finish(copy->hasher, sha256);
  *is_right = memcmp(sha256, copy->record->sha256, BL_SHA256_SIZE) == 0 && bl_donor_is_still(donor);
  return TRUE;
}

/* Shares the bytes of another checkpoint of the target. is_cheap: only where that costs little. */
static gboolean share(Copy *copy, gboolean is_cheap, gboolean *is_done, GError **error) {
  BlCopyFiles *files = copy->files;
  BlDonor donor;
  BlKeyBuffer key;
  if (files->donors == NULL || copy->record->n_chunks != 1) return TRUE;
  bl_manifest_chunk_key(copy->build->manifest, copy->record, 0, key);
  if (!bl_donors_find_known(files->donors, copy->record->size, copy->record->sha256, key, &donor))
    return TRUE;
  gboolean is_right = FALSE, ok = TRUE;
  gboolean is_read = !donor.is_vouched && (!is_cheap || copy->record->size < CLONE_SIZE);
  g_autoptr(GError) fault = NULL;
  if (is_read || donor.is_vouched) ok = check_donor(copy, &donor, &is_right, error);
  if (is_right) {
    *is_done = bl_store_share_fd(copy->build->store, key, donor.fd, 0, &fault);
    ok = *is_done || is_no_share(fault);
    if (!ok) g_propagate_error(error, g_steal_pointer(&fault));
  }
  bl_donor_close(&donor);
  if (*is_done) copy->n_shared = copy->record->size;
  if (*is_done && !is_read) bl_job_add_bytes(copy->build->job, copy->record->size);
  if (!*is_done && is_read) bl_job_add_total(copy->build->job, (gint64)copy->record->size);
  return ok;
}

/* A descriptor of the source's one object, of the right length; -1 where there is none. */
static int open_source_object(const Copy *copy) {
  BlKeyBuffer key;
  struct stat status;
  const BlManifest *from = copy->files->from;
  bl_autofd fd = bl_store_open_fd(
      copy->files->source, bl_manifest_chunk_key(from, &from->files[copy->index], 0, key), NULL);
  gboolean is_whole = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                      (guint64)status.st_size == copy->record->size;
  return is_whole ? bl_fd_steal(&fd) : -1;
}

/* Lets the file system share the bytes of the source's object. */
static gboolean clone_object(Copy *copy, gboolean *is_done, GError **error) {
  BlCopyFiles *files = copy->files;
  BlKeyBuffer key;
  if (!files->may_clone || copy->record->n_chunks != 1 ||
      files->from->files[copy->index].n_chunks != 1 || copy->record->size < CLONE_SIZE ||
      g_atomic_int_get(&files->cannot_clone))
    return TRUE;
  bl_autofd fd = open_source_object(copy);
  /* The stream says what is wrong with it. */
  if (fd < 0) return TRUE;
  bl_manifest_chunk_key(copy->build->manifest, copy->record, 0, key);
  g_autoptr(GError) fault = NULL;
  if (!bl_build_reserve_file(copy->build, copy->index, copy->record->size, error)) return FALSE;
  *is_done = bl_store_clone_fd(copy->build->store, key, fd, copy->record->size, &fault);
  if (*is_done) {
    copy->n_shared = copy->record->size;
    bl_job_add_bytes(copy->build->job, copy->record->size);
    return TRUE;
  }
  g_atomic_int_set(&files->cannot_clone, TRUE);
  if (is_no_share(fault)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

static gboolean next_chunk(Copy *copy, GError **error) {
  BlKeyBuffer key;
  copy->chunk_left = bl_manifest_chunk_size(copy->record, copy->chunk);
  bl_manifest_chunk_key(copy->build->manifest, copy->record, copy->chunk++, key);
  copy->writer = bl_store_writer_open(copy->build->store, key, copy->chunk_left, 0, error);
  return copy->writer != NULL;
}

/* The stream gives no more than the file's bytes. */
static gboolean write_chunks(gpointer user, const void *data, gsize size, GError **error) {
  Copy *copy = user;
  for (gsize done = 0; done < size;) {
    if (copy->writer == NULL && !next_chunk(copy, error)) return FALSE;
    gsize n = (gsize)MIN(size - done, copy->chunk_left);
    if (!bl_store_writer_write(copy->writer, (const guint8 *)data + done, n, error)) return FALSE;
    done += n;
    copy->chunk_left -= n;
    if (copy->chunk_left > 0) continue;
    if (!bl_store_writer_commit(copy->writer, error)) return FALSE;
    g_clear_pointer(&copy->writer, bl_store_writer_free);
  }
  return TRUE;
}

static gssize read_stream(gpointer user, void *data, gsize size, GError **error) {
  return bl_reader_stream_read(user, data, size, error);
}

static gboolean stream(Copy *copy, GError **error) {
  BlCopyFiles *files = copy->files;
  BlBuild *build = copy->build;
  guint8 sha256[BL_SHA256_SIZE];
  g_autoptr(BlReaderStream) bytes = bl_reader_stream_new(files->reader, copy->index);
  BlTransferPlan plan = {.read = read_stream,
                         .read_user = bytes,
                         .write = write_chunks,
                         .write_user = copy,
                         .size = copy->record->size,
                         .hasher = copy->hasher};
  if (!bl_build_reserve_file(build, copy->index, copy->record->size, error)) return FALSE;
  bl_hasher_reset(copy->hasher);
  gboolean ok = bl_transfer_run(bl_transfer_pool_get(build->pool, copy->worker), &plan, build->job,
                                NULL, error);
  g_clear_pointer(&copy->writer, bl_store_writer_free);
  if (!ok) return FALSE;
  bl_hasher_finish(copy->hasher, sha256);
  copy->n_written = copy->record->size;
  if (memcmp(sha256, copy->record->sha256, BL_SHA256_SIZE) == 0) return TRUE;
  const char *id = files->from->checkpoint_id;
  g_autofree char *shown = bl_path_display(copy->record->path);
  return bl_error_set(
      error, BL_ERROR_CORRUPT,
      "checkpoint \"%s\": \"%s\" is damaged in store %s (\"ballast --store %s model "
      "repair %s\" mends it)",
      id, shown, files->source->url, files->source->url, id);
}

static gboolean take_bytes(Copy *copy, GError **error) {
  gboolean is_done = FALSE;
  if (copy->build->manifest->is_ready ||
      (copy->build->may_be_there &&
       bl_build_has_file(copy->build->store, copy->build->manifest, copy->record)))
    return mend(copy, error);
  if (!share(copy, TRUE, &is_done, error)) return FALSE;
  if (!is_done && !clone_object(copy, &is_done, error)) return FALSE;
  if (!is_done && !share(copy, FALSE, &is_done, error)) return FALSE;
  return is_done || stream(copy, error);
}

static void report(const Copy *copy) {
  BlCopyFiles *files = copy->files;
  const BlManifestFile *record = copy->record;
  const guint32 *crcs = bl_digests_get(files->digests, copy->index);
  gsize n_crcs = crcs != NULL ? (gsize)bl_digests_n_blocks(record->size) : 0;
  gboolean is_ready = copy->build->manifest->is_ready;
  /* A stream that was whole has told them anew. */
  if (copy->n_written > 0 && !is_ready && !copy->is_mended)
    crcs = bl_hasher_crcs(copy->hasher, &n_crcs);
  g_mutex_lock(&files->lock);
  files->n_bytes_written += copy->n_written;
  files->n_files_written += copy->n_written > 0 || (record->size == 0 && !is_ready);
  files->n_bytes_shared += copy->n_shared;
  files->n_files_shared += copy->n_shared > 0;
  if (is_ready && copy->n_written > 0)
    g_ptr_array_add(files->mended, bl_path_display(record->path));
  g_mutex_unlock(&files->lock);
  bl_build_report_file(copy->build, copy->index, record->sha256, crcs, n_crcs, copy->n_written > 0);
}

gboolean bl_copy_file(BlCopyFiles *files, guint64 i, guint worker, GError **error) {
  Copy copy = {.files = files,
               .build = files->build,
               .index = i,
               .worker = worker,
               .record = &files->build->manifest->files[i],
               .hasher = bl_transfer_pool_hasher(files->build->pool, worker)};
  if (!take_bytes(&copy, error)) return FALSE;
  report(&copy);
  return TRUE;
}
