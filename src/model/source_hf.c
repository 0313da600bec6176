/* A snapshot of the client's cache. Its files are links to blobs that are named after their
 * content: a git blob id for small files, a SHA-256 for large ones. Where the client has kept the
 * listing of the commit, that tells sizes and digests as well, and which files there should be. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/hf_tree.h"
#include "model/manifest.h"
#include "model/source_impl.h"

/* The cache-wide store of blobs that clients of version 2 may link to is marked so. */
#define SHARED_MARKER ".huggingface-shared-blobs"
/* Names that a message lists before it only counts. */
#define N_NAMES 5u

static void find_incomplete(BlSource *source, const char *blobs) {
  bl_autofd fd = bl_openat(AT_FDCWD, blobs, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  g_autoptr(GPtrArray) names = fd >= 0 ? bl_hf_list_folder(bl_fd_steal(&fd)) : NULL;
  for (guint i = 0; names != NULL && i < names->len; i++)
    if (g_str_has_suffix(g_ptr_array_index(names, i), BL_HF_INCOMPLETE))
      g_ptr_array_add(source->incomplete, g_strdup(g_ptr_array_index(names, i)));
}

void bl_source_hf_prepare(BlSource *source, const BlHfSnapshot *snapshot) {
  g_autofree char *cache = g_path_get_dirname(snapshot->repo);
  g_autofree char *shared = g_build_filename(cache, BL_HF_BLOBS, NULL);
  g_autofree char *marker = g_build_filename(shared, SHARED_MARKER, NULL);
  char *blobs = g_build_filename(snapshot->repo, BL_HF_BLOBS, NULL);
  struct stat status;
  source->is_hf_cache = TRUE;
  g_free(source->model_id);
  source->model_id = g_strdup(snapshot->model_id);
  g_free(source->revision);
  source->revision = g_strdup(snapshot->revision);
  source->commit = g_strdup(snapshot->commit);
  g_strfreev(source->refs);
  source->refs = g_strdupv(snapshot->refs);
  for (guint i = 0; i < snapshot->notes->len; i++)
    g_ptr_array_add(source->notes, g_strdup(snapshot->notes->pdata[i]));
  g_ptr_array_add(source->roots, blobs);
  if (lstat(marker, &status) == 0 && S_ISREG(status.st_mode))
    g_ptr_array_add(source->roots, g_steal_pointer(&shared));
  find_incomplete(source, blobs);
}

/* The blob's name where the link is what the client makes: out of the snapshot, into blobs/. */
static const char *blob_of_link(const char *path, const char *target) {
  guint n_up = 2; /* snapshots/<commit> */
  for (const char *p = path; *p != '\0'; p++) n_up += *p == '/';
  for (; n_up > 0; n_up--, target += 3)
    if (strncmp(target, "../", 3) != 0) return NULL;
  if (!g_str_has_prefix(target, BL_HF_BLOBS "/")) return NULL;
  target += strlen(BL_HF_BLOBS "/");
  return *target != '\0' && strchr(target, '/') == NULL ? target : NULL;
}

/* The same by where the link ends. Caller frees. */
static char *blob_of_file(const BlSource *source, const char *path) {
  g_autofree char *full = g_build_filename(source->root, path, NULL);
  char *real = realpath(full, NULL);
  if (real == NULL) return NULL;
  const char *blobs = g_ptr_array_index(source->roots, 1);
  gsize n = strlen(blobs);
  gboolean is_blob = strncmp(real, blobs, n) == 0 && real[n] == '/' && !strchr(real + n + 1, '/');
  char *name = is_blob ? g_strdup(real + n + 1) : NULL;
  free(real);
  return name;
}

static void find_blob(BlSource *source, BlSourceFile *file) {
  char target[PATH_MAX];
  gssize n = readlinkat(source->root_fd, file->path, target, sizeof target - 1);
  target[MAX(n, 0)] = '\0';
  const char *name = blob_of_link(file->path, target);
  g_autofree char *found = name == NULL ? blob_of_file(source, file->path) : NULL;
  if (name == NULL) name = found;
  if (name == NULL) return;
  file->blob = g_string_chunk_insert(source->strings, name);
  if (bl_hf_is_hex(name, BL_SHA256_HEX_SIZE)) file->sha256 = file->blob;
  if (bl_hf_is_hex(name, BL_GIT_BLOB_HEX_SIZE)) file->git_blob = file->blob;
}

/* What the listing says of each file, until it was read whole. */
typedef struct {
  gboolean is_listed;
  guint64 size;
  const char *sha256, *git_blob;
} Listed;

typedef struct {
  BlSource *source;
  const BlSourceRequest *request;
  Listed *files;
  GPtrArray *missing;  /* of char*: paths */
  GPtrArray *blob_ids; /* of char*, one a missing path */
} Tree;

static int compare_path(const void *path, const void *file) {
  return strcmp(path, ((const BlSourceFile *)file)->path);
}

static gboolean take_listed(const BlHfTreeFile *listed, gpointer user, GError **error) {
  Tree *tree = user;
  BlSource *source = tree->source;
  const BlSourceFile *file = source->n_files == 0
                                 ? NULL
                                 : bsearch(listed->path, source->files, source->n_files,
                                           sizeof *source->files, compare_path);
  if (file == NULL) {
    if (!bl_path_is_selected(listed->path, tree->request->include, tree->request->exclude))
      return TRUE;
    if (tree->missing->len == BL_MANIFEST_MAX_FILES)
      return bl_error_set(error, BL_ERROR_CORRUPT, "it has too many files");
    g_ptr_array_add(tree->missing, g_strdup(listed->path));
    g_ptr_array_add(tree->blob_ids,
                    g_strdup(listed->sha256 != NULL ? listed->sha256 : listed->git_blob));
    return TRUE;
  }
  Listed *own = &tree->files[file - source->files];
  *own = (Listed){.is_listed = TRUE, .size = listed->size};
  if (listed->sha256 != NULL)
    own->sha256 = g_string_chunk_insert_const(source->strings, listed->sha256);
  if (listed->git_blob != NULL)
    own->git_blob = g_string_chunk_insert_const(source->strings, listed->git_blob);
  return TRUE;
}

/* The listing against the file that is there. */
static gboolean merge_listed(BlSourceFile *file, const Listed *listed, GError **error) {
  if (!listed->is_listed) return TRUE;
  if (listed->size != file->size) {
    g_autofree char *why = g_strdup_printf(
        "has %" G_GUINT64_FORMAT " bytes, and the commit's listing says %" G_GUINT64_FORMAT
        " (remove %s%s and download it again)",
        file->size, listed->size, file->blob != NULL ? BL_HF_BLOBS "/" : "the file",
        file->blob != NULL ? file->blob : "");
    return bl_source_set_unfit(error, file->path, why);
  }
  gboolean differs = (file->sha256 != NULL && listed->sha256 != NULL &&
                      strcmp(file->sha256, listed->sha256) != 0) ||
                     (file->git_blob != NULL && listed->git_blob != NULL &&
                      strcmp(file->git_blob, listed->git_blob) != 0);
  if (differs) {
    g_autofree char *why = g_strdup_printf(
        "leads to blobs/%s, and the commit's listing says %s (remove the link and download it "
        "again)",
        file->blob, listed->sha256 != NULL ? listed->sha256 : listed->git_blob);
    return bl_source_set_unfit(error, file->path, why);
  }
  if (file->sha256 == NULL) file->sha256 = listed->sha256;
  if (file->git_blob == NULL) file->git_blob = listed->git_blob;
  return TRUE;
}

/* The part of a shard's name that all of its set have: "model-" of "model-00001-of-00002.…". NULL
 * where it is none. Caller frees. */
static char *shard_set(const char *path) {
  const char *of = strstr(path, "-of-");
  if (of == NULL || of - path < 5) return NULL;
  const char *number = of - 5;
  if (strspn(number, "0123456789") != 5 || strspn(of + 4, "0123456789") != 5) return NULL;
  return g_strndup(path, (gsize)(number - path));
}

/* What is there, for judging what is not. */
typedef struct {
  GHashTable *shard_sets; /* of char* */
  GHashTable *begun; /* of char*: names of blobs that are not whole, without what is behind them */
  gboolean has_weights;
} Present;

static void present_init(Present *present, const BlSource *source) {
  present->shard_sets = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  present->begun = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  present->has_weights = FALSE;
  for (guint64 i = 0; i < source->n_files; i++) {
    if (!bl_manifest_is_weight_path(source->files[i].path)) continue;
    present->has_weights = TRUE;
    char *set = shard_set(source->files[i].path);
    if (set != NULL) g_hash_table_add(present->shard_sets, set);
  }
  for (guint i = 0; i < source->incomplete->len; i++) {
    const char *name = g_ptr_array_index(source->incomplete, i);
    g_hash_table_add(present->begun, g_strndup(name, strcspn(name, ".")));
  }
}

static void present_clear(Present *present) {
  g_hash_table_unref(present->shard_sets);
  g_hash_table_unref(present->begun);
}

/* Whether a missing file shows that the download did not end. Clients are often asked for a part of
 * a repository only: a file is no proof, one shard without the others, no weights at all, or a blob
 * that was begun are. */
static gboolean is_proof(const Present *present, const char *path, const char *blob_id) {
  if (g_hash_table_contains(present->begun, blob_id)) return TRUE;
  if (!bl_manifest_is_weight_path(path)) return FALSE;
  g_autofree char *set = shard_set(path);
  return !present->has_weights || (set != NULL && g_hash_table_contains(present->shard_sets, set));
}

/* "2 files, "a", "b"". Caller frees. */
static char *describe_paths(const GPtrArray *paths) {
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "%u file%s", paths->len, paths->len == 1 ? "" : "s");
  for (guint i = 0; i < MIN(paths->len, N_NAMES); i++) {
    g_autofree char *shown = bl_path_display(g_ptr_array_index(paths, i));
    g_string_append_printf(text, ", \"%s\"", shown);
  }
  if (paths->len > N_NAMES) g_string_append(text, ", …");
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static void judge_missing(const Tree *tree) {
  g_autoptr(GPtrArray) proofs = g_ptr_array_new();
  Present present;
  if (tree->missing->len == 0) return;
  present_init(&present, tree->source);
  for (guint i = 0; i < tree->missing->len; i++)
    if (is_proof(&present, tree->missing->pdata[i], tree->blob_ids->pdata[i]))
      g_ptr_array_add(proofs, tree->missing->pdata[i]);
  present_clear(&present);
  if (proofs->len > 0) {
    g_autofree char *names = describe_paths(proofs);
    tree->source->missing =
        g_strdup_printf("its download did not end: of the commit it lacks %s", names);
  } else {
    g_autofree char *names = describe_paths(tree->missing);
    g_ptr_array_add(tree->source->notes,
                    g_strdup_printf("it is a part of the commit: it lacks %s", names));
  }
}

static void note_unknown(BlSource *source, const char *why) {
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "whether the snapshot is complete is not known: %s", why);
  if (source->incomplete->len > 0)
    g_string_append_printf(text, "; %u download%s did not end (blobs/%s)", source->incomplete->len,
                           source->incomplete->len == 1 ? "" : "s",
                           (char *)source->incomplete->pdata[0]);
  g_ptr_array_add(source->notes, g_string_free(g_steal_pointer(&text), FALSE));
}

/* The listing's descriptor; -1 where there is none. */
static int open_tree(const BlHfSnapshot *snapshot) {
  g_autofree char *folder = g_build_filename(snapshot->repo, BL_HF_TREES, NULL);
  g_autofree char *name = g_strconcat(snapshot->commit, ".json", NULL);
  bl_autofd folder_fd = bl_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  bl_autofd fd =
      folder_fd >= 0 ? bl_openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0) : -1;
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return -1;
  return bl_fd_steal(&fd);
}

static gboolean apply_tree(Tree *tree, const BlHfSnapshot *snapshot, GError **error) {
  BlSource *source = tree->source;
  g_autoptr(GError) fault = NULL;
  bl_autofd fd = open_tree(snapshot);
  if (fd < 0) {
    note_unknown(source, "the cache has no listing of the commit");
    return TRUE;
  }
  BlFdInput input = {.fd = fd};
  if (!bl_hf_tree_read(bl_fd_input_read, &input, take_listed, tree, &fault)) {
    g_autofree char *why = g_strdup_printf("the listing " BL_HF_TREES "/%s.json cannot be used, %s",
                                           snapshot->commit, fault->message);
    note_unknown(source, why);
    return TRUE;
  }
  for (guint64 i = 0; i < source->n_files; i++)
    if (!merge_listed(&source->files[i], &tree->files[i], error)) return FALSE;
  judge_missing(tree);
  return TRUE;
}

gboolean bl_source_hf_complete(BlSource *source, const BlHfSnapshot *snapshot,
                               const BlSourceRequest *request, GError **error) {
  for (guint64 i = 0; i < source->n_files; i++) find_blob(source, &source->files[i]);
  g_autofree Listed *files = g_new0(Listed, MAX(source->n_files, 1));
  g_autoptr(GPtrArray) missing = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GPtrArray) blob_ids = g_ptr_array_new_with_free_func(g_free);
  Tree tree = {.source = source,
               .request = request,
               .files = files,
               .missing = missing,
               .blob_ids = blob_ids};
  return apply_tree(&tree, snapshot, error);
}
