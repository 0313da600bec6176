/* Scanning walks folders by descriptor, depth first. A link to a folder is walked like a folder;
 * the chain of folders above is kept, so that a link back to one of them is refused instead of
 * walked for ever. */
#include "model/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/key.h"
#include "model/manifest.h"
#include "model/source_impl.h"
#include "store/dir.h"

/* Folders within folders; each level keeps a descriptor open. */
#define MAX_DEPTH 64

typedef struct Folder Folder;
struct Folder {
  const Folder *parent;
  DIR *dir;
  char *path; /* relative; "" is the root */
  dev_t device;
  ino_t inode;
  guint depth;
};

typedef struct {
  BlSource *source;
  char **include, **exclude;
  guint64 n_filtered;
} Scan;

static gboolean walk(Scan *scan, const Folder *parent, int fd, const char *path, GError **error);

/* Names that are no part of a model: version control, download bookkeeping, our own. */
static gboolean is_left_out(const char *path) {
  const char *name = strrchr(path, '/');
  name = name == NULL ? path : name + 1;
  if (strcmp(name, ".git") == 0 || strcmp(name, ".locks") == 0 || strcmp(name, ".ballast") == 0)
    return TRUE;
  if (g_str_has_suffix(name, ".incomplete")) return TRUE;
  return strcmp(path, ".cache/huggingface") == 0 || g_str_has_suffix(path, "/.cache/huggingface");
}

gboolean bl_source_set_unfit(GError **error, const char *path, const char *why) {
  g_autofree char *shown = bl_path_display(path);
  return bl_error_set(error, BL_ERROR_CORRUPT, "\"%s\" %s", shown, why);
}

/* What the link points to, for messages: escaped. */
static char *link_target(int dir_fd, const char *name) {
  char target[4096];
  ssize_t n = readlinkat(dir_fd, name, target, sizeof target - 1);
  target[MAX(n, 0)] = '\0';
  return bl_path_display(target);
}

/* path is absolute and has no links. Folders lie in the source itself, files perhaps elsewhere. */
static gboolean is_path_inside(const BlSource *source, const char *path, gboolean is_folder) {
  for (guint i = 0; i < (is_folder ? 1 : source->roots->len); i++) {
    const char *root = g_ptr_array_index(source->roots, i);
    gsize n = strlen(root);
    if (strcmp(root, "/") == 0 ||
        (strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0')))
      return TRUE;
  }
  return FALSE;
}

/* "" or what is known of a download that did not end, by the name of the blob that is not there. */
static const char *explain_dangling(const BlSource *source, const char *target) {
  const char *slash = strrchr(target, '/');
  g_autofree char *prefix = g_strconcat(slash != NULL ? slash + 1 : target, ".", NULL);
  for (guint i = 0; i < source->incomplete->len; i++)
    if (g_str_has_prefix(g_ptr_array_index(source->incomplete, i), prefix))
      return ", whose download did not end";
  return "";
}

/* Links are judged by where they really lead, after every link on the way. */
static gboolean check_link(const Scan *scan, const Folder *folder, const char *name,
                           const char *path, gboolean is_folder, GError **error) {
  g_autofree char *target = link_target(dirfd(folder->dir), name);
  g_autofree char *full = g_build_filename(scan->source->root, path, NULL);
  char *real = realpath(full, NULL);
  if (real == NULL) {
    g_autofree char *why = g_strdup_printf(
        "is a dangling symlink (to \"%s\")%s: make it whole, or leave it out with --exclude",
        target, explain_dangling(scan->source, target));
    return bl_source_set_unfit(error, path,
                               errno == ELOOP ? "is a symlink that leads to itself" : why);
  }
  gboolean is_inside = is_path_inside(scan->source, real, is_folder);
  free(real);
  if (is_inside) return TRUE;
  g_autofree char *why = g_strdup_printf(
      "is a symlink that leads out of the folder (to \"%s\"): copy the file in its place, or leave "
      "it out with --exclude",
      target);
  return bl_source_set_unfit(error, path, why);
}

static gboolean add_file(Scan *scan, const char *path, const struct stat *st, GError **error) {
  BlSource *source = scan->source;
  if (source->array->len == BL_MANIFEST_MAX_FILES)
    return bl_error_set(
        error, BL_ERROR_INVALID,
        "more than %u files (a checkpoint has at most that many: use --include or --exclude)",
        BL_MANIFEST_MAX_FILES);
  BlSourceFile file = {
      .path = g_string_chunk_insert(source->strings, path),
      .size = (guint64)st->st_size,
      .mtime_ns = bl_time_ns(&st->st_mtim),
      .executable = (st->st_mode & 0111) != 0,
  };
  g_array_append_val(source->array, file);
  if (__builtin_add_overflow(source->n_bytes, file.size, &source->n_bytes))
    return bl_error_set(error, BL_ERROR_INVALID, "the files' sizes add up to more than 2^64 bytes");
  return TRUE;
}

/* Whether the open file or folder lies in the source, by where the kernel says that it is. */
static gboolean is_inside(const BlSource *source, int fd, gboolean is_folder) {
  char real[PATH_MAX];
  g_autofree char *link = g_strdup_printf("/proc/self/fd/%d", fd);
  gssize n = readlink(link, real, sizeof real - 1);
  real[MAX(n, 0)] = '\0';
  return is_path_inside(source, real, is_folder);
}

/* What was a folder, or a link that was judged, may be another link by now. */
static gboolean enter_folder(Scan *scan, const Folder *folder, const char *name, const char *path,
                             gboolean is_link, GError **error) {
  int flags = O_RDONLY | O_DIRECTORY | (is_link ? 0 : O_NOFOLLOW);
  bl_autofd fd = bl_openat(dirfd(folder->dir), name, flags, 0);
  if (fd >= 0 && is_link && !is_inside(scan->source, fd, TRUE))
    return bl_source_set_unfit(error, path,
                               "is a symlink that leads out of the folder, or did meanwhile");
  g_autofree char *shown = bl_path_display(path);
  /* Importing it would copy every checkpoint, the one being imported too. */
  if (fd >= 0 && bl_dir_is_store(fd)) {
    g_ptr_array_add(scan->source->left_out, g_strdup_printf("%s: a store of ballast", shown));
    return TRUE;
  }
  if (fd >= 0) return walk(scan, folder, bl_fd_steal(&fd), path, error);
  return bl_error_set_errno(error, errno, "cannot open folder \"%s\"", shown);
}

static gboolean visit(Scan *scan, const Folder *folder, const char *name, GError **error) {
  g_autofree char *path =
      folder->path[0] == '\0' ? g_strdup(name) : g_strconcat(folder->path, "/", name, NULL);
  if (is_left_out(path)) {
    g_autofree char *shown = bl_path_display(path);
    g_ptr_array_add(scan->source->left_out, g_strdup_printf("%s: not a part of a model", shown));
    return TRUE;
  }
  struct stat st;
  if (fstatat(dirfd(folder->dir), name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return bl_source_set_unfit(
        error, path, "went away while the folder was read: import again when nothing changes it");
  gboolean is_link = S_ISLNK(st.st_mode);
  struct stat target;
  gboolean is_folder =
      S_ISDIR(st.st_mode) ||
      (is_link && fstatat(dirfd(folder->dir), name, &target, 0) == 0 && S_ISDIR(target.st_mode));
  /* What a glob leaves out may be unfit: it is not judged. */
  char **include = is_folder ? NULL : scan->include;
  if (!bl_path_is_selected(path, include, scan->exclude)) {
    scan->n_filtered++;
    return TRUE;
  }
  if (is_link && !check_link(scan, folder, name, path, is_folder, error)) return FALSE;
  if (is_link && fstatat(dirfd(folder->dir), name, &st, 0) != 0)
    return bl_source_set_unfit(
        error, path, "went away while the folder was read: import again when nothing changes it");
  if (S_ISDIR(st.st_mode)) return enter_folder(scan, folder, name, path, is_link, error);
  if (!S_ISREG(st.st_mode))
    return bl_source_set_unfit(error, path,
                               "is neither a file nor a folder: leave it out with --exclude");
  g_autoptr(GError) fault = NULL;
  if (!bl_path_check(path, strlen(path), &fault)) {
    g_set_error(error, BL_ERROR, BL_ERROR_CORRUPT, "%s (rename it, or leave it out with --exclude)",
                fault->message);
    return FALSE;
  }
  return add_file(scan, path, &st, error);
}

/* Takes fd over. */
static gboolean walk(Scan *scan, const Folder *parent, int fd, const char *path, GError **error) {
  struct stat st;
  Folder folder = {.parent = parent, .depth = parent == NULL ? 0 : parent->depth + 1};
  folder.dir = fdopendir(fd);
  if (folder.dir == NULL || fstat(fd, &st) != 0) {
    bl_error_set_errno(error, errno, "cannot read folder \"%s\"", path);
    if (folder.dir == NULL)
      close(fd);
    else
      closedir(folder.dir);
    return FALSE;
  }
  g_autofree char *own_path = g_strdup(path);
  folder.path = own_path;
  folder.device = st.st_dev;
  folder.inode = st.st_ino;

  gboolean ok = TRUE;
  if (folder.depth > MAX_DEPTH)
    ok = bl_source_set_unfit(error, path, "is more than 64 folders deep");
  for (const Folder *up = parent; ok && up != NULL; up = up->parent)
    if (up->device == folder.device && up->inode == folder.inode)
      ok = bl_source_set_unfit(error, path, "is a symlink to a folder that it lies in");

  struct dirent *entry;
  while (ok && (errno = 0, entry = readdir(folder.dir)) != NULL)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      ok = visit(scan, &folder, entry->d_name, error);
  if (ok && errno != 0) ok = bl_error_set_errno(error, errno, "cannot read folder \"%s\"", path);
  closedir(folder.dir);
  return ok;
}

static int compare_files(gconstpointer a, gconstpointer b) {
  return strcmp(((const BlSourceFile *)a)->path, ((const BlSourceFile *)b)->path);
}

static int compare_texts(gconstpointer a, gconstpointer b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static gboolean open_root(BlSource *source, const char *path, GError **error) {
  g_autofree char *shown = bl_path_display(path);
  char *real = realpath(path, NULL);
  if (real == NULL) return bl_error_set_errno(error, errno, "source \"%s\"", shown);
  source->root = g_strdup(real);
  free(real);
  source->root_fd = bl_openat(AT_FDCWD, source->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (source->root_fd < 0 && errno == ENOTDIR)
    return bl_error_set(error, BL_ERROR_INVALID,
                        "source \"%s\" is a file: name the folder that holds the model (with "
                        "--include, for this file alone)",
                        shown);
  if (source->root_fd < 0) return bl_error_set_errno(error, errno, "source \"%s\"", shown);
  source->uri = g_filename_to_uri(source->root, NULL, NULL);
  source->model_id = bl_model_id_default(source->root);
  g_ptr_array_add(source->roots, g_strdup(source->root));
  return TRUE;
}

static gboolean scan_folder(BlSource *source, const BlSourceRequest *request, GError **error) {
  Scan scan = {.source = source, .include = request->include, .exclude = request->exclude};
  if (bl_dir_is_store(source->root_fd))
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "it is a store of ballast (name the folder of a model)");
  int fd = bl_openat(source->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return bl_error_set_errno(error, errno, "cannot read it");
  if (!walk(&scan, NULL, fd, "", error)) return FALSE;
  g_array_sort(source->array, compare_files);
  g_ptr_array_sort(source->left_out, compare_texts);
  if (scan.n_filtered > 0)
    g_ptr_array_add(source->left_out,
                    g_strdup_printf("%" G_GUINT64_FORMAT " file%s: by --include and --exclude",
                                    scan.n_filtered, scan.n_filtered == 1 ? "" : "s"));
  source->files = (BlSourceFile *)(gpointer)source->array->data;
  source->n_files = source->array->len;
  return TRUE;
}

BlSource *bl_source_open(const BlSourceRequest *request, GError **error) {
  g_autoptr(BlHfSnapshot) snapshot = NULL;
  if (!bl_hf_snapshot_find(request->path, request->model_id, request->revision, &snapshot, error))
    return NULL;
  g_autoptr(BlSource) source = g_new0(BlSource, 1);
  source->root_fd = -1;
  source->left_out = g_ptr_array_new_with_free_func(g_free);
  source->notes = g_ptr_array_new_with_free_func(g_free);
  source->roots = g_ptr_array_new_with_free_func(g_free);
  source->incomplete = g_ptr_array_new_with_free_func(g_free);
  source->array = g_array_new(FALSE, FALSE, sizeof(BlSourceFile));
  source->strings = g_string_chunk_new(4096);
  source->refs = g_new0(char *, 1);
  if (!open_root(source, snapshot != NULL ? snapshot->folder : request->path, error)) return NULL;
  g_assert(source->root != NULL);
  source->revision = g_strdup(request->revision != NULL ? request->revision : "main");
  if (snapshot != NULL) bl_source_hf_prepare(source, snapshot);
  gboolean ok = scan_folder(source, request, error);
  if (ok && snapshot != NULL) ok = bl_source_hf_complete(source, snapshot, request, error);
  if (ok && snapshot == NULL) bl_source_local_complete(source);
  if (ok) return g_steal_pointer(&source);
  g_autofree char *shown = bl_path_display(request->path);
  g_prefix_error(error, "source \"%s\": ", shown);
  return NULL;
}

void bl_source_free(BlSource *source) {
  if (source == NULL) return;
  bl_fd_clear(&source->root_fd);
  g_clear_pointer(&source->left_out, g_ptr_array_unref);
  g_clear_pointer(&source->notes, g_ptr_array_unref);
  g_clear_pointer(&source->roots, g_ptr_array_unref);
  g_clear_pointer(&source->incomplete, g_ptr_array_unref);
  g_clear_pointer(&source->array, g_array_unref);
  g_clear_pointer(&source->strings, g_string_chunk_free);
  g_free(source->root);
  g_free(source->uri);
  g_free(source->model_id);
  g_free(source->revision);
  g_free(source->commit);
  g_free(source->missing);
  g_strfreev(source->refs);
  g_free(source);
}

static BlSourceState state_of(const struct stat *st) {
  return (BlSourceState){
      .size = (guint64)st->st_size,
      .mtime_ns = bl_time_ns(&st->st_mtim),
      .ctime_ns = bl_time_ns(&st->st_ctim),
      .inode = st->st_ino,
      .device = st->st_dev,
  };
}

/* Opens a file of the source, whatever folder on its way was exchanged for a link since the scan.
 * The kernel refuses ways that leave the root, and absolute links, which may lead back into it:
 * those, and kernels that know no openat2, are judged by where the open file is. */
static int open_inside(const BlSource *source, const char *path, gboolean *is_outside) {
  const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  struct open_how how = {.flags = (guint64)flags, .resolve = RESOLVE_BENEATH};
  *is_outside = FALSE;
  int fd = (int)syscall(SYS_openat2, source->root_fd, path, &how, sizeof how);
  if (fd >= 0 ||
      (errno != EXDEV && errno != ENOSYS && errno != EPERM && errno != EAGAIN && errno != EINTR))
    return fd;
  fd = bl_openat(source->root_fd, path, flags, 0);
  *is_outside = fd >= 0 && !is_inside(source, fd, FALSE);
  return fd;
}

int bl_source_open_file(const BlSource *source, guint64 file, BlSourceState *state,
                        GError **error) {
  const char *path = source->files[file].path;
  gboolean is_outside;
  bl_autofd fd = open_inside(source, path, &is_outside);
  struct stat st;
  if (fd < 0) {
    int errnum = errno;
    g_autofree char *shown = bl_path_display(path);
    bl_error_set_errno(error, errnum, "cannot open source file \"%s\"", shown);
    return -1;
  }
  if (is_outside) {
    bl_source_set_unfit(error, path,
                        "leads out of the folder by now: import again when nothing changes it");
    return -1;
  }
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    bl_source_set_unfit(error, path, "is no longer a regular file");
    return -1;
  }
  *state = state_of(&st);
  return bl_fd_steal(&fd);
}

gboolean bl_source_is_still(const BlSource *source, guint64 file, const BlSourceState *state) {
  struct stat st;
  if (fstatat(source->root_fd, source->files[file].path, &st, 0) != 0) return FALSE;
  BlSourceState now = state_of(&st);
  return now.size == state->size && now.mtime_ns == state->mtime_ns &&
         now.ctime_ns == state->ctime_ns && now.inode == state->inode &&
         now.device == state->device;
}
