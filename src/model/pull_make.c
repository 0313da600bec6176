/* Making files. A file goes through three states: a temporary that is being written (gone when its
 * pull is), MADE: whole and checked, and DONE: durable, then renamed into place.
 *
 * Where only a few files are written, and for big ones, each worker does all three. Otherwise small
 * files stay MADE until all are, one sync makes them durable, and they are renamed: one sync of the
 * file system costs less than thousands of fsyncs. A file never has its name before its bytes are
 * durable. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bulk_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/key.h"
#include "model/pull_impl.h"

/* Above this, the cost of an fsync is small beside that of the bytes. */
#define BIG_SIZE (16u * 1024 * 1024)
#define N_PUBLISH_TRIES 100

/* The message's subject. */
static void prefix_file(const BlPull *pull, guint64 file, GError **error) {
  g_autofree char *shown = bl_path_display(pull->manifest->files[file].path);
  g_prefix_error(error, "checkpoint \"%s\": \"%s\": ", pull->manifest->checkpoint_id, shown);
}

BlLinkMode bl_pull_how(const BlPull *pull, guint64 file) {
  gboolean is_link = pull->link == BL_LINK_HARDLINK || pull->link == BL_LINK_SYMLINK;
  if (pull->link == BL_LINK_AUTO || pull->manifest->files[file].n_chunks != 1) return BL_LINK_COPY;
  /* A store's file is not executable. */
  if (is_link && pull->info->executable[file]) return BL_LINK_COPY;
  return pull->link;
}

int bl_pull_open_object(const BlPull *pull, guint64 file, GError **error) {
  const BlManifestFile *record = &pull->manifest->files[file];
  BlKeyBuffer key;
  GError *cause = NULL;
  bl_autofd fd =
      bl_store_open_fd(pull->store, bl_manifest_chunk_key(pull->manifest, record, 0, key), &cause);
  struct stat status;
  if (fd < 0) {
    if (bl_error_code(cause) == BL_ERROR_NOT_FOUND)
      bl_error_set(error, BL_ERROR_CORRUPT,
                   "it is missing from the store (\"ballast model repair %s\" puts it back)",
                   pull->manifest->checkpoint_id);
    else
      g_propagate_error(error, g_steal_pointer(&cause));
    g_clear_error(&cause);
  } else if (fstat(fd, &status) != 0) {
    bl_error_set_errno(error, errno, "its object");
  } else if (!S_ISREG(status.st_mode) || (guint64)status.st_size != record->size) {
    bl_error_set(error, BL_ERROR_CORRUPT,
                 "its object has %" G_GUINT64_FORMAT " bytes of %" G_GUINT64_FORMAT
                 " (\"ballast model repair %s\" puts it back)",
                 (guint64)status.st_size, record->size, pull->manifest->checkpoint_id);
  } else {
    return bl_fd_steal(&fd);
  }
  prefix_file(pull, file, error);
  return -1;
}

char *bl_pull_object_path(int fd, GError **error) {
  char link[PATH_MAX];
  g_autofree char *proc = g_strdup_printf("/proc/self/fd/%d", fd);
  gssize n = readlink(proc, link, sizeof link - 1);
  struct stat mine, there;
  link[MAX(n, 0)] = '\0';
  /* The name is a hint of the kernel's; what stands there must be the object. */
  if (link[0] == '/' && fstat(fd, &mine) == 0 && lstat(link, &there) == 0 &&
      mine.st_dev == there.st_dev && mine.st_ino == there.st_ino)
    return g_strdup(link);
  bl_error_set(error, BL_ERROR_UNSUPPORTED,
               "this store's files have no path to link to (use --link=copy)");
  return NULL;
}

static gssize read_fd(gpointer user, void *data, gsize size, GError **error) {
  int *fd = user;
  gssize n;
  do n = read(*fd, data, size);
  while (n < 0 && errno == EINTR);
  if (n < 0) bl_error_set_errno(error, errno, "reading");
  return n;
}

gboolean bl_pull_hash_fd(BlPull *pull, int fd, guint64 size, guint worker, BlHasher **hasher,
                         GError **error) {
  *hasher = bl_transfer_pool_hasher(pull->pool, worker);
  BlTransferPlan plan = {.read = read_fd, .read_user = &fd, .size = size, .hasher = *hasher};
  if (lseek(fd, 0, SEEK_SET) < 0) return bl_error_set_errno(error, errno, "reading");
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  return bl_transfer_run(bl_transfer_pool_get(pull->pool, worker), &plan, pull->job, NULL, error);
}

/* Whether the bytes that were hashed are the file's. Names the first block that is not. */
static gboolean check_hash(const BlPull *pull, guint64 file, BlHasher *hasher, GError **error) {
  const BlManifestFile *record = &pull->manifest->files[file];
  guint8 sha256[BL_SHA256_SIZE];
  gsize n;
  bl_hasher_finish(hasher, sha256);
  if (memcmp(sha256, record->sha256, sizeof sha256) == 0) return TRUE;
  const guint32 *found = bl_hasher_crcs(hasher, &n);
  const guint32 *wanted = bl_digests_get(pull->digests, file);
  g_autofree char *block = NULL;
  for (gsize i = 0; wanted != NULL && block == NULL && i < n; i++)
    if (found[i] != wanted[i])
      block = g_strdup_printf("block %" G_GSIZE_FORMAT " (from byte %" G_GUINT64_FORMAT ") is", i,
                              (guint64)i * BL_BLOCK_SIZE);
  bl_error_set(error, BL_ERROR_CORRUPT,
               "%s damaged in the store (\"ballast model repair %s\" mends it)",
               block != NULL ? block : "it is", pull->manifest->checkpoint_id);
  prefix_file(pull, file, error);
  return FALSE;
}

/* A file that is being written. */
typedef struct {
  BlBulkFile file;
  const char *name; /* for messages */
  const char *folder;
} Output;

static gboolean write_output(gpointer user, const void *data, gsize size, GError **error) {
  Output *output = user;
  if (bl_bulk_file_write(&output->file, data, size, error)) return TRUE;
  g_autofree char *shown = bl_path_display(output->name);
  g_prefix_error(error, "\"%s/%s\": ", output->folder, shown);
  return FALSE;
}

static gssize read_stream(gpointer user, void *data, gsize size, GError **error) {
  return bl_reader_stream_read(user, data, size, error);
}

/* skips_store: only the fallback is read. */
static gboolean copy_from(BlPull *pull, guint64 file, gboolean skips_store, int fd, guint worker,
                          GError **error) {
  BlHasher *hasher = bl_transfer_pool_hasher(pull->pool, worker);
  g_autoptr(BlReaderStream) stream = bl_reader_stream_new(pull->reader, file);
  if (skips_store && !bl_reader_stream_fall_back(stream, 0))
    return bl_error_set(error, BL_ERROR_NOT_FOUND, "the fallback does not have it");
  Output output = {
      .name = bl_pull_path(pull, file),
      .folder = bl_target_name(pull->target),
  };
  BlTransferPlan plan = {
      .read = read_stream,
      .read_user = stream,
      .write = write_output,
      .write_user = &output,
      .size = pull->manifest->files[file].size,
      .hasher = hasher,
  };
  bl_bulk_file_init(&output.file, fd, plan.size);
  return bl_transfer_run(bl_transfer_pool_get(pull->pool, worker), &plan, pull->job, NULL, error) &&
         bl_bulk_file_finish(&output.file, error) && check_hash(pull, file, hasher, error);
}

/* A file that is not the one its checkpoint has is read again, whole, from the fallback. */
static gboolean copy_content(BlPull *pull, guint64 file, int fd, guint worker, GError **error) {
  GError *cause = NULL;
  if (copy_from(pull, file, FALSE, fd, worker, &cause)) return TRUE;
  if (pull->options->fallback != NULL && bl_error_code(cause) == BL_ERROR_CORRUPT &&
      ftruncate(fd, 0) == 0 && copy_from(pull, file, TRUE, fd, worker, NULL)) {
    g_error_free(cause);
    return TRUE;
  }
  g_propagate_error(error, cause);
  return FALSE;
}

gboolean bl_pull_check_linked(BlPull *pull, guint64 file, int fd, guint worker, GError **error) {
  guint64 size = pull->manifest->files[file].size;
  BlHasher *hasher;
  if (pull->options->verify)
    return bl_pull_hash_fd(pull, fd, size, worker, &hasher, error) &&
           check_hash(pull, file, hasher, error);
  bl_job_add_bytes(pull->job, size);
  return TRUE;
}

static gboolean is_no_reflink(int errnum) {
  return errnum == EOPNOTSUPP || errnum == EXDEV || errnum == EINVAL || errnum == ENOTTY ||
         errnum == ENOSYS;
}

static gboolean fail_no_reflink(const BlPull *pull, GError **error) {
  return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                      "\"%s\": files of this store cannot be reflinked into it (use --link=copy)",
                      bl_target_name(pull->target));
}

/* Whether a copy of the fallback's bytes may do for a link or reflink that failed with cause, which
 * is freed then. */
static gboolean may_copy_instead(const BlPull *pull, GError **cause) {
  BlErrorCode code = bl_error_code(*cause);
  gboolean is_lost = code == BL_ERROR_CORRUPT || code == BL_ERROR_IO ||
                     code == BL_ERROR_UNAVAILABLE || code == BL_ERROR_TIMED_OUT;
  if (pull->options->fallback == NULL || !is_lost) return FALSE;
  g_clear_error(cause);
  return TRUE;
}

static gboolean reflink_content(BlPull *pull, guint64 file, int fd, guint worker, GError **error) {
  GError *cause = NULL;
  bl_autofd object = bl_pull_open_object(pull, file, &cause);
  int errnum = object >= 0 && ioctl(fd, FICLONE, object) != 0 ? errno : 0;
  if (object >= 0 && errnum == 0 && bl_pull_check_linked(pull, file, fd, worker, &cause))
    return TRUE;
  if (cause != NULL && may_copy_instead(pull, &cause))
    return ftruncate(fd, 0) == 0 ? copy_content(pull, file, fd, worker, error)
                                 : bl_error_set_errno(error, errno, "emptying a temporary");
  if (cause != NULL) {
    g_propagate_error(error, cause);
    return FALSE;
  }
  if (!is_no_reflink(errnum)) {
    bl_error_set_errno(error, errnum, "reflinking");
    prefix_file(pull, file, error);
    return FALSE;
  }
  if (pull->options->link == BL_LINK_REFLINK) return fail_no_reflink(pull, error);
  return copy_content(pull, file, fd, worker, error);
}

/* Makes the temporary as a file of its own. */
static gboolean make_content(BlPull *pull, guint64 file, BlTargetPlace *place, guint worker,
                             int *kept_fd, GError **error) {
  mode_t mode = pull->info->executable[file] ? 0777 : 0666;
  bl_autofd fd = bl_place_create(place, mode, error);
  if (fd < 0) return FALSE;
  gboolean ok = bl_pull_how(pull, file) == BL_LINK_REFLINK
                    ? reflink_content(pull, file, fd, worker, error)
                    : copy_content(pull, file, fd, worker, error);
  gboolean sync = bl_place_syncs(place) || pull->manifest->files[file].size > BIG_SIZE;
  if (!ok) return FALSE;
  if (sync && !bl_fsync(fd, "the file", error)) {
    prefix_file(pull, file, error);
    return FALSE;
  }
  /* Beside its file, the temporary is held by its descriptor. */
  *kept_fd = bl_fd_steal(&fd);
  return TRUE;
}

static gboolean fail_hardlink(const BlPull *pull, int errnum, GError **error) {
  const char *name = bl_target_name(pull->target);
  if (errnum == EXDEV)
    return bl_error_set(
        error, BL_ERROR_UNSUPPORTED,
        "\"%s\" is on another file system than the store: no hard link is possible (use "
        "--link=copy)",
        name);
  if (errnum == EMLINK)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        "the store's file has as many hard links as its file system allows (use "
                        "--link=copy)");
  bl_error_set_errno(error, errnum,
                     "no hard link from \"%s\" to the store is permitted (use --link=copy)", name);
  return FALSE;
}

/* Makes the temporary as a link to the store's file. */
static gboolean make_link(BlPull *pull, guint64 file, const BlTargetPlace *place, guint worker,
                          GError **error) {
  bl_autofd object = bl_pull_open_object(pull, file, error);
  if (object < 0 || !bl_pull_check_linked(pull, file, object, worker, error)) return FALSE;
  if (bl_pull_how(pull, file) == BL_LINK_HARDLINK) {
    g_autofree char *proc = g_strdup_printf("/proc/self/fd/%d", object);
    return linkat(AT_FDCWD, proc, place->temp_folder_fd, place->temp, AT_SYMLINK_FOLLOW) == 0 ||
           fail_hardlink(pull, errno, error);
  }
  g_autofree char *path = bl_pull_object_path(object, error);
  if (path == NULL) return FALSE;
  return symlinkat(path, place->temp_folder_fd, place->temp) == 0 ||
         bl_error_set_errno(error, errno,
                            "making a symbolic link in \"%s\" (--link=copy needs none)",
                            bl_target_name(pull->target));
}

/* Gives the temporary its name. Where something came to be there meanwhile, another pull of the
 * same checkpoint most likely, that is as good if it is right. */
static gboolean rename_into_place(BlPull *pull, guint64 file, guint worker,
                                  const BlTargetPlace *place, GError **error) {
  gboolean replace = pull->state[file] == BL_PULL_DIFFERS || pull->options->force;
  GError *cause = NULL;
  /* On file systems that replace by removing first, what was met may be gone at the next look. */
  for (guint i = 0; i < N_PUBLISH_TRIES && !bl_place_publish(place, replace, &cause); i++) {
    BlPullState state = BL_PULL_ABSENT;
    if (bl_error_code(cause) != BL_ERROR_EXISTS) break;
    g_clear_error(&cause);
    if (!bl_pull_examine_file(pull, file, worker, &state, error)) return FALSE;
    if (state == BL_PULL_RIGHT) {
      bl_place_discard(place);
      return TRUE;
    }
    if (state == BL_PULL_ABSENT) continue;
    g_autofree char *shown = bl_path_display(bl_pull_path(pull, file));
    bl_error_set(&cause, BL_ERROR_EXISTS,
                 "\"%s/%s\" came to be there meanwhile and is not what checkpoint \"%s\" has "
                 "(--force replaces)",
                 bl_target_name(pull->target), shown, pull->manifest->checkpoint_id);
    break;
  }
  if (cause == NULL) return TRUE;
  g_propagate_error(error, cause);
  return FALSE;
}

/* Publishes what is whole, checked and durable. */
static gboolean publish(BlPull *pull, guint64 file, guint worker, const BlTargetPlace *place,
                        GError **error) {
  if (!rename_into_place(pull, file, worker, place, error)) {
    bl_place_discard(place);
    return FALSE;
  }
  pull->state[file] = BL_PULL_DONE;
  __atomic_fetch_add(&pull->n_written, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&pull->n_bytes_written, pull->manifest->files[file].size, __ATOMIC_RELAXED);
  bl_job_add_files(pull->job, 1);
  return TRUE;
}

static gboolean make_at(BlPull *pull, guint64 file, BlTargetPlace *place, guint worker,
                        GError **error) {
  BlLinkMode how = bl_pull_how(pull, file);
  bl_autofd kept_fd = -1;
  gboolean is_link = how == BL_LINK_HARDLINK || how == BL_LINK_SYMLINK;
  GError *cause = NULL;
  gboolean ok = is_link && make_link(pull, file, place, worker, &cause);
  if (cause != NULL && may_copy_instead(pull, &cause)) {
    bl_place_discard(place);
    is_link = FALSE;
  }
  if (!ok && cause == NULL) ok = make_content(pull, file, place, worker, &kept_fd, &cause);
  if (!ok) {
    g_propagate_error(error, cause);
    bl_place_discard(place);
    return FALSE;
  }
  /* The object behind a link is durable already. */
  if (is_link || bl_place_syncs(place) || pull->manifest->files[file].size > BIG_SIZE)
    return publish(pull, file, worker, place, error);
  pull->state[file] = BL_PULL_MADE;
  return TRUE;
}

static gboolean make_work(guint64 i, guint worker, gpointer user, GError **error) {
  BlPull *pull = user;
  guint64 file = pull->files[i];
  BlTargetPlace place;
  if (pull->state[file] == BL_PULL_RIGHT) return TRUE;
  if (bl_target_find_place(pull->target, bl_pull_path(pull, file), file, TRUE, &place, error) !=
      BL_PLACE_FOUND)
    return FALSE;
  gboolean ok = make_at(pull, file, &place, worker, error);
  bl_place_close(&place);
  return ok;
}

static gboolean publish_work(guint64 i, guint worker, gpointer user, GError **error) {
  BlPull *pull = user;
  guint64 file = pull->files[i];
  BlTargetPlace place;
  if (pull->state[file] != BL_PULL_MADE) return TRUE;
  if (bl_target_find_place(pull->target, bl_pull_path(pull, file), file, TRUE, &place, error) !=
      BL_PLACE_FOUND)
    return FALSE;
  gboolean ok = publish(pull, file, worker, &place, error);
  bl_place_close(&place);
  return ok;
}

gboolean bl_pull_make_files(BlPull *pull, GError **error) {
  bl_job_set_phase(pull->job, "pulling");
  gboolean made = bl_job_run(pull->job, pull->n, make_work, pull, error);
  GError *cause = NULL;
  /* Without the job: what was made before an interruption is kept. */
  gboolean published = bl_target_sync(pull->target, &cause) &&
                       bl_job_run(NULL, pull->n, publish_work, pull, &cause) &&
                       bl_target_sync(pull->target, &cause);
  if (published) return made;
  if (made)
    g_propagate_error(error, cause);
  else
    g_error_free(cause);
  return FALSE;
}

/* The first file that a reflink would be made for; the number of files where there is none. */
static guint64 find_reflink_candidate(const BlPull *pull) {
  for (guint64 i = 0; i < pull->n; i++) {
    guint64 file = pull->files[i];
    const BlManifestFile *record = &pull->manifest->files[file];
    if (pull->state[file] == BL_PULL_RIGHT || record->n_chunks != 1 || record->size == 0) continue;
    if (pull->options->fallback == NULL) return i;
    bl_autofd object = bl_pull_open_object(pull, file, NULL);
    if (object >= 0) return i;
  }
  return pull->n;
}

/* Reflinks one file and drops it again. *possible tells how it went. */
static gboolean try_reflink(BlPull *pull, guint64 file, gboolean *possible, GError **error) {
  BlTargetPlace place;
  *possible = FALSE;
  if (!bl_store_can(pull->store, BL_STORE_CAN_OPEN_FD)) return TRUE;
  if (bl_target_find_place(pull->target, "reflink", file, FALSE, &place, error) != BL_PLACE_FOUND)
    return FALSE;
  bl_autofd object = bl_pull_open_object(pull, file, error);
  bl_autofd fd = object >= 0 ? bl_place_create(&place, 0600, error) : -1;
  gboolean ok = fd >= 0;
  if (ok) {
    *possible = ioctl(fd, FICLONE, object) == 0;
    ok = *possible || is_no_reflink(errno) ||
         bl_error_set_errno(error, errno, "reflinking to \"%s\"", bl_target_name(pull->target));
    bl_place_discard(&place);
  }
  bl_place_close(&place);
  return ok;
}

gboolean bl_pull_choose_link(BlPull *pull, GError **error) {
  gboolean possible;
  BlLinkMode link = pull->options->link;
  if ((link == BL_LINK_HARDLINK || link == BL_LINK_SYMLINK) &&
      !bl_store_can(pull->store, BL_STORE_CAN_OPEN_FD))
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        "the store %s has no files to link to (use --link=copy)", pull->store->url);
  if (link != BL_LINK_AUTO && link != BL_LINK_REFLINK) return TRUE;
  guint64 candidate = find_reflink_candidate(pull);
  pull->link = link == BL_LINK_AUTO ? BL_LINK_COPY : link;
  if (candidate == pull->n) return TRUE;
  if (!try_reflink(pull, pull->files[candidate], &possible, error)) return FALSE;
  if (possible) pull->link = BL_LINK_REFLINK;
  return possible || link == BL_LINK_AUTO || fail_no_reflink(pull, error);
}
