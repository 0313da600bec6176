#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/pull_impl.h"

const char *bl_pull_path(const BlPull *pull, guint64 file) {
  if (pull->paths != NULL) return g_ptr_array_index(pull->paths, file);
  return pull->single_name != NULL ? pull->single_name : pull->manifest->files[file].path;
}

static int compare_sizes(gconstpointer a, gconstpointer b, gpointer user) {
  const BlManifestFile *files = user;
  guint64 x = files[*(const guint32 *)a].size, y = files[*(const guint32 *)b].size;
  return x > y ? -1 : x < y;
}

gboolean bl_pull_select(BlPull *pull, GError **error) {
  const BlManifest *manifest = pull->manifest;
  pull->files = g_new(guint32, MAX(manifest->n_files, 1));
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const char *path = manifest->files[i].path;
    if (!bl_path_is_selected(path, pull->options->include, pull->options->exclude)) continue;
    if (g_str_has_prefix(path, BL_TARGET_OWN_FOLDER "/")) {
      g_autofree char *shown = bl_path_display(path);
      bl_job_note(pull->job, BL_NOTE_WARNING,
                  "\"%s\" is not pulled: that folder holds ballast's own record", shown);
      continue;
    }
    pull->files[pull->n++] = (guint32)i;
    pull->n_bytes += manifest->files[i].size;
  }
  g_qsort_with_data(pull->files, (gint)pull->n, sizeof *pull->files, compare_sizes,
                    manifest->files);
  if (pull->n > 0 || manifest->n_files == 0) return TRUE;
  return bl_error_set(
      error, BL_ERROR_NOT_FOUND,
      "checkpoint \"%s\": --include and --exclude leave none of its %" G_GUINT64_FORMAT
      " files (see \"ballast model inspect --files %s\")",
      manifest->checkpoint_id, manifest->n_files, manifest->checkpoint_id);
}

/* Caller frees. */
static char *display_place(const BlPull *pull, guint64 file) {
  g_autofree char *name = bl_path_display(bl_pull_path(pull, file));
  return g_strdup_printf("%s/%s", bl_target_name(pull->target), name);
}

/* Whether the descriptor is of the very object that the store has. */
static gboolean is_same_object(const BlPull *pull, guint64 file, int fd) {
  bl_autofd object = bl_pull_open_object(pull, file, NULL);
  struct stat a, b;
  return object >= 0 && fstat(object, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

gboolean bl_pull_compare_fd(BlPull *pull, guint64 file, int fd, guint worker, BlPullState *state,
                            GError **error) {
  const BlManifestFile *record = &pull->manifest->files[file];
  guint8 sha256[BL_SHA256_SIZE];
  BlHasher *hasher;
  struct stat status;
  *state = BL_PULL_DIFFERS;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      (guint64)status.st_size != record->size)
    return TRUE;
  if (!bl_pull_hash_fd(pull, fd, record->size, worker, &hasher, error)) {
    g_autofree char *shown = display_place(pull, file);
    g_prefix_error(error, "\"%s\": ", shown);
    return FALSE;
  }
  bl_hasher_finish(hasher, sha256);
  if (memcmp(sha256, record->sha256, sizeof sha256) == 0)
    *state = BL_PULL_RIGHT;
  else
    __atomic_fetch_add(&pull->hashed_anew, record->size, __ATOMIC_RELAXED);
  return TRUE;
}

static gboolean examine_regular(BlPull *pull, guint64 file, const BlTargetPlace *place,
                                guint worker, BlPullState *state, GError **error) {
  const BlManifestFile *record = &pull->manifest->files[file];
  bl_autofd fd =
      bl_openat(place->folder_fd, place->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
  struct stat status;
  if (fd < 0 && errno == ENOENT) {
    *state = BL_PULL_ABSENT; /* just taken away */
    return TRUE;
  }
  *state = BL_PULL_DIFFERS;
  if (fd < 0 || fstat(fd, &status) != 0) {
    if (pull->options->force) return TRUE;
    g_autofree char *shown = display_place(pull, file);
    return bl_error_set_errno(error, errno, "\"%s\" is there and cannot be compared", shown);
  }
  if (!S_ISREG(status.st_mode) || (guint64)status.st_size != record->size) return TRUE;
  if (bl_pull_how(pull, file) == BL_LINK_HARDLINK && is_same_object(pull, file, fd)) {
    *state = BL_PULL_RIGHT;
    return bl_pull_check_linked(pull, file, fd, worker, error);
  }
  return bl_pull_compare_fd(pull, file, fd, worker, state, error);
}

/* A cache's blob may be a link to where the bytes are: it is right where they are. */
static gboolean examine_shared(BlPull *pull, guint64 file, const BlTargetPlace *place, guint worker,
                               BlPullState *state, GError **error) {
  bl_autofd fd = bl_openat(place->folder_fd, place->name, O_RDONLY | O_NONBLOCK, 0);
  *state = BL_PULL_DIFFERS;
  return fd < 0 || bl_pull_compare_fd(pull, file, fd, worker, state, error);
}

/* A symbolic link is right only where it is the one that this pull would make. */
static gboolean examine_symlink(BlPull *pull, guint64 file, const BlTargetPlace *place,
                                guint worker, BlPullState *state, GError **error) {
  char link[PATH_MAX];
  *state = BL_PULL_DIFFERS;
  if (pull->paths != NULL) return examine_shared(pull, file, place, worker, state, error);
  if (bl_pull_how(pull, file) != BL_LINK_SYMLINK) return TRUE;
  gssize n = readlinkat(place->folder_fd, place->name, link, sizeof link - 1);
  bl_autofd object = bl_pull_open_object(pull, file, NULL);
  if (n < 0 || object < 0) return TRUE;
  link[n] = '\0';
  g_autofree char *path = bl_pull_object_path(object, NULL);
  if (g_strcmp0(path, link) != 0) return TRUE;
  *state = BL_PULL_RIGHT;
  return bl_pull_check_linked(pull, file, object, worker, error);
}

static gboolean examine_place(BlPull *pull, guint64 file, const BlTargetPlace *place, guint worker,
                              BlPullState *state, GError **error) {
  struct stat status;
  g_autofree char *shown = display_place(pull, file);
  if (fstatat(place->folder_fd, place->name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
    *state = BL_PULL_ABSENT;
    return errno == ENOENT || bl_error_set_errno(error, errno, "\"%s\"", shown);
  }
  if (S_ISREG(status.st_mode)) return examine_regular(pull, file, place, worker, state, error);
  if (S_ISLNK(status.st_mode)) return examine_symlink(pull, file, place, worker, state, error);
  return bl_error_set(
      error, BL_ERROR_EXISTS,
      "\"%s\" is %s where a file must go (move it away, or choose another --output)", shown,
      S_ISDIR(status.st_mode) ? "a folder" : "a special file");
}

gboolean bl_pull_examine_file(BlPull *pull, guint64 file, guint worker, BlPullState *state,
                              GError **error) {
  BlTargetPlace place;
  switch (
      bl_target_find_place(pull->target, bl_pull_path(pull, file), file, FALSE, &place, error)) {
    case BL_PLACE_NO_FOLDER:
      *state = BL_PULL_ABSENT;
      return TRUE;
    case BL_PLACE_FOUND: {
      gboolean ok = examine_place(pull, file, &place, worker, state, error);
      bl_place_close(&place);
      return ok;
    }
    default:
      return FALSE;
  }
}

static gboolean examine_work(guint64 i, guint worker, gpointer user, GError **error) {
  BlPull *pull = user;
  guint64 file = pull->files[i];
  BlPullState state = BL_PULL_ABSENT;
  if (!bl_pull_examine_file(pull, file, worker, &state, error)) return FALSE;
  pull->state[file] = (guint8)state;
  if (state == BL_PULL_RIGHT) bl_job_add_files(pull->job, 1);
  if (state != BL_PULL_DIFFERS) return TRUE;
  g_mutex_lock(&pull->lock);
  if (pull->n_differing < BL_PULL_N_NAMES)
    pull->differing[pull->n_differing] = bl_path_display(bl_pull_path(pull, file));
  pull->n_differing++;
  g_mutex_unlock(&pull->lock);
  return TRUE;
}

static gboolean fail_differing(const BlPull *pull, GError **error) {
  g_autoptr(GString) names = g_string_new(NULL);
  guint n = (guint)MIN(pull->n_differing, BL_PULL_N_NAMES);
  for (guint i = 0; i < n; i++)
    g_string_append_printf(names, "%s\"%s\"", i > 0 ? ", " : "", pull->differing[i]);
  if (pull->n_differing > n) g_string_append(names, ", …");
  return bl_error_set(error, BL_ERROR_EXISTS,
                      "folder \"%s\": %" G_GUINT64_FORMAT
                      " there %s not what checkpoint \"%s\" has: %s (--force replaces, or choose "
                      "another --output)",
                      bl_target_name(pull->target), pull->n_differing,
                      pull->n_differing == 1 ? "is" : "are", pull->manifest->checkpoint_id,
                      names->str);
}

gboolean bl_pull_examine(BlPull *pull, GError **error) {
  bl_job_set_phase(pull->job, "comparing");
  bl_job_set_total(pull->job, pull->n_bytes, pull->n);
  if (pull->target != NULL && !bl_job_run(pull->job, pull->n, examine_work, pull, error))
    return FALSE;
  bl_job_set_total(pull->job, pull->n_bytes + pull->hashed_anew, pull->n);
  if (pull->n_differing > 0 && !pull->options->force) return fail_differing(pull, error);
  return TRUE;
}

/* What two paths that some file system may take for one have in common: letter case, composition,
 * and trailing dots and spaces are gone. */
static char *fold_path(const char *path) {
  g_autofree char *composed = g_utf8_normalize(path, -1, G_NORMALIZE_NFC);
  g_autofree char *lower = g_utf8_casefold(composed != NULL ? composed : path, -1);
  g_auto(GStrv) parts = g_strsplit(lower, "/", -1);
  for (char **part = parts; *part != NULL; part++) {
    gsize size = strlen(*part);
    while (size > 0 && ((*part)[size - 1] == '.' || (*part)[size - 1] == ' ')) size--;
    (*part)[size] = '\0';
  }
  return g_strjoinv("/", parts);
}

gboolean bl_pull_check_names(BlPull *pull, GError **error) {
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint64 i = 0; i < pull->n; i++) {
    const char *path = pull->manifest->files[pull->files[i]].path;
    char *folded = fold_path(path);
    const char *other = g_hash_table_lookup(seen, folded);
    if (other == NULL) {
      g_hash_table_insert(seen, folded, (gpointer)(guintptr)path);
      continue;
    }
    g_free(folded);
    gboolean is_same;
    if (!bl_target_is_same_name(pull->target, other, path, &is_same, error)) return FALSE;
    if (!is_same) continue;
    g_autofree char *shown = bl_path_display(path);
    g_autofree char *shown_other = bl_path_display(other);
    return bl_error_set(
        error, BL_ERROR_UNSUPPORTED,
        "folder \"%s\": its file system takes \"%s\" and \"%s\" for one name (choose "
        "an --output on another file system)",
        bl_target_name(pull->target), shown_other, shown);
  }
  return TRUE;
}

gboolean bl_pull_check_space(BlPull *pull, GError **error) {
  guint64 free_bytes, block_size, needed = 0;
  if (!bl_target_space(pull->target, &free_bytes, &block_size, error)) return FALSE;
  for (guint64 i = 0; i < pull->n; i++) {
    guint64 file = pull->files[i], size = pull->manifest->files[file].size;
    if (pull->state[file] == BL_PULL_RIGHT || bl_pull_how(pull, file) != BL_LINK_COPY) continue;
    needed += size / block_size * block_size + (size % block_size != 0 ? block_size : 0);
  }
  if (needed <= free_bytes) return TRUE;
  g_autofree char *needs = g_format_size_full(needed, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *has = g_format_size_full(free_bytes, G_FORMAT_SIZE_IEC_UNITS);
  return bl_error_set(error, BL_ERROR_NO_SPACE,
                      "folder \"%s\": needs %s (%" G_GUINT64_FORMAT
                      " bytes), %s (%" G_GUINT64_FORMAT
                      " bytes) are free (make room, or choose another --output)",
                      bl_target_name(pull->target), needs, needed, has, free_bytes);
}
