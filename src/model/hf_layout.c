/* Folders are opened without following links: a cache whose parts lead elsewhere is not guessed at.
 * Only what is a file of 40 hex digits below refs/ is a ref, and only a folder of such a name below
 * snapshots/ is a snapshot; a revision that the user names is looked up among these, never made
 * into a path. */
#include "model/hf_layout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/key.h"

#define FOLDER_PREFIX "models--"
#define MAX_PART 96
/* A ref's file holds 40 digits; what is longer is none. */
#define MAX_REF_BYTES 128
#define MAX_REF_DEPTH 16
#define MAX_REFS 5000u
/* Choices that a message names. */
#define N_CHOICES 10u

gboolean bl_hf_is_hex(const char *text, gsize size) {
  return strlen(text) == size && strspn(text, "0123456789abcdef") == size;
}

static gboolean is_word_char(char c) {
  return g_ascii_isalnum(c) || c == '_';
}

static gboolean is_repo_part(const char *part) {
  gsize size = strlen(part);
  if (size < 1 || size > MAX_PART || !is_word_char(part[0]) || !is_word_char(part[size - 1]))
    return FALSE;
  for (const char *p = part; *p != '\0'; p++)
    if (!is_word_char(*p) && *p != '.' && *p != '-') return FALSE;
  return TRUE;
}

gboolean bl_hf_repo_id_check(const char *repo_id, GError **error) {
  g_auto(GStrv) parts = g_strsplit(repo_id, "/", -1);
  guint n = g_strv_length(parts);
  gboolean is_legal = (n == 1 || n == 2) && strstr(repo_id, "--") == NULL &&
                      strstr(repo_id, "..") == NULL && !g_str_has_suffix(repo_id, ".git");
  for (guint i = 0; is_legal && i < n; i++) is_legal = is_repo_part(parts[i]);
  if (is_legal) return TRUE;
  g_autofree char *shown = bl_path_display(repo_id);
  return bl_error_set(error, BL_ERROR_INVALID,
                      "model id \"%s\" is no name of a repository: \"name\" or \"org/name\" of "
                      "letters, digits, \".\", \"_\" and \"-\"",
                      shown);
}

char *bl_hf_folder_name(const char *repo_id) {
  g_autoptr(GString) name = g_string_new(FOLDER_PREFIX);
  g_string_append(name, repo_id);
  g_string_replace(name, "/", "--", 0);
  return g_string_free(g_steal_pointer(&name), FALSE);
}

void bl_hf_snapshot_free(BlHfSnapshot *snapshot) {
  if (snapshot == NULL) return;
  g_free(snapshot->repo);
  g_free(snapshot->model_id);
  g_free(snapshot->commit);
  g_free(snapshot->folder);
  g_free(snapshot->revision);
  g_strfreev(snapshot->refs);
  g_clear_pointer(&snapshot->notes, g_ptr_array_unref);
  g_free(snapshot);
}

typedef struct {
  char *name, *commit;
} Ref;

static void ref_free(gpointer data) {
  Ref *ref = data;
  g_free(ref->name);
  g_free(ref->commit);
  g_free(ref);
}

/* A models--org--name folder, looked at. */
typedef struct {
  GPtrArray *refs;      /* of Ref, by name */
  GPtrArray *snapshots; /* of char*: commits whose folder holds something, sorted */
  GPtrArray *empty;     /* of char*: commits whose folder is empty */
} Repo;

static void repo_free(Repo *repo) {
  g_ptr_array_unref(repo->refs);
  g_ptr_array_unref(repo->snapshots);
  g_ptr_array_unref(repo->empty);
  g_free(repo);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Repo, repo_free)

static int open_folder(int parent_fd, const char *name) {
  return bl_openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

static int compare_texts(gconstpointer a, gconstpointer b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int compare_refs(gconstpointer a, gconstpointer b) {
  return strcmp((*(const Ref *const *)a)->name, (*(const Ref *const *)b)->name);
}

GPtrArray *bl_hf_list_folder(int fd) {
  DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
  if (dir == NULL) {
    bl_fd_clear(&fd);
    return NULL;
  }
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  errno = 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL; errno = 0)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      g_ptr_array_add(names, g_strdup(entry->d_name));
  int errnum = errno;
  closedir(dir);
  if (errnum != 0) g_clear_pointer(&names, g_ptr_array_unref);
  errno = errnum;
  if (names != NULL) g_ptr_array_sort(names, compare_texts);
  return names;
}

/* What the file of a ref names; NULL where it is none. A client may be writing it beside its name.
 */
static char *read_ref(int folder_fd, const char *name) {
  char data[MAX_REF_BYTES + 1];
  struct stat status;
  if (g_str_has_suffix(name, ".tmp")) return NULL;
  bl_autofd fd = bl_openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return NULL;
  gssize n = bl_pread_some(fd, data, sizeof data - 1, 0, NULL);
  data[MAX(n, 0)] = '\0';
  g_strstrip(data);
  return bl_hf_is_commit(data) ? g_strdup(data) : NULL;
}

/* Refs may have "/" in their names: refs/refs/pr/1 is "refs/pr/1". Takes fd over. */
static void find_refs(GPtrArray *refs, int fd, const char *prefix, guint depth) {
  bl_autofd own_fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
  g_autoptr(GPtrArray) names = bl_hf_list_folder(fd);
  for (guint i = 0; names != NULL && i < names->len && refs->len < MAX_REFS; i++) {
    const char *name = g_ptr_array_index(names, i);
    g_autofree char *path = g_strconcat(prefix, name, NULL);
    if (!bl_model_id_check(path, NULL)) continue;
    bl_autofd below = depth < MAX_REF_DEPTH ? open_folder(own_fd, name) : -1;
    if (below >= 0) {
      g_autofree char *next = g_strconcat(path, "/", NULL);
      find_refs(refs, bl_fd_steal(&below), next, depth + 1);
      continue;
    }
    char *commit = read_ref(own_fd, name);
    if (commit == NULL) continue;
    Ref *ref = g_new(Ref, 1);
    *ref = (Ref){.name = g_steal_pointer(&path), .commit = commit};
    g_ptr_array_add(refs, ref);
  }
}

static void find_snapshots(Repo *repo, int repo_fd) {
  bl_autofd fd = open_folder(repo_fd, BL_HF_SNAPSHOTS);
  bl_autofd own_fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
  g_autoptr(GPtrArray) names = bl_hf_list_folder(bl_fd_steal(&fd));
  for (guint i = 0; names != NULL && i < names->len; i++) {
    const char *name = g_ptr_array_index(names, i);
    if (!bl_hf_is_commit(name)) continue;
    int snapshot_fd = open_folder(own_fd, name);
    if (snapshot_fd < 0) continue;
    g_autoptr(GPtrArray) files = bl_hf_list_folder(snapshot_fd);
    gboolean is_empty = files != NULL && files->len == 0;
    g_ptr_array_add(is_empty ? repo->empty : repo->snapshots, g_strdup(name));
  }
}

static Repo *repo_read(const char *path, GError **error) {
  bl_autofd fd =
      bl_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, "folder", error);
  if (fd < 0) return NULL;
  Repo *repo = g_new(Repo, 1);
  repo->refs = g_ptr_array_new_with_free_func(ref_free);
  repo->snapshots = g_ptr_array_new_with_free_func(g_free);
  repo->empty = g_ptr_array_new_with_free_func(g_free);
  find_refs(repo->refs, open_folder(fd, BL_HF_REFS), "", 0);
  g_ptr_array_sort(repo->refs, compare_refs);
  find_snapshots(repo, fd);
  return repo;
}

static const char *find_ref(const Repo *repo, const char *name) {
  for (guint i = 0; i < repo->refs->len; i++) {
    const Ref *ref = g_ptr_array_index(repo->refs, i);
    if (strcmp(ref->name, name) == 0) return ref->commit;
  }
  return NULL;
}

static gboolean has_text(const GPtrArray *texts, const char *text) {
  for (guint i = 0; i < texts->len; i++)
    if (strcmp(g_ptr_array_index(texts, i), text) == 0) return TRUE;
  return FALSE;
}

/* "a, b, c, …". Caller frees. */
static char *join_choices(const GPtrArray *choices) {
  g_autoptr(GString) text = g_string_new(NULL);
  for (guint i = 0; i < MIN(choices->len, N_CHOICES); i++)
    g_string_append_printf(text, "%s%s", i > 0 ? ", " : "", (char *)choices->pdata[i]);
  if (choices->len > N_CHOICES) g_string_append(text, ", …");
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* What --revision may be. Caller frees. */
static char *describe_revisions(const Repo *repo) {
  g_autoptr(GPtrArray) choices = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 0; i < repo->refs->len; i++) {
    const Ref *ref = g_ptr_array_index(repo->refs, i);
    g_ptr_array_add(choices, bl_path_display(ref->name));
  }
  for (guint i = 0; i < repo->snapshots->len; i++)
    g_ptr_array_add(choices, g_strdup(repo->snapshots->pdata[i]));
  if (choices->len == 0) return g_strdup("it has none: download it again");
  g_autofree char *joined = join_choices(choices);
  return g_strdup_printf("--revision may be %s", joined);
}

/* The commit that is meant. Caller frees; NULL on error. */
static char *choose_commit(const Repo *repo, const char *revision, GPtrArray *notes,
                           GError **error) {
  const char *commit = find_ref(repo, revision != NULL ? revision : "main");
  if (commit != NULL) return g_strdup(commit);
  if (revision != NULL && bl_hf_is_commit(revision) &&
      (has_text(repo->snapshots, revision) || has_text(repo->empty, revision)))
    return g_strdup(revision);
  g_autofree char *choices = describe_revisions(repo);
  if (revision != NULL) {
    g_autofree char *shown = bl_path_display(revision);
    bl_error_set(error, BL_ERROR_NOT_FOUND, "it has no revision \"%s\" (%s)", shown, choices);
    return NULL;
  }
  if (repo->snapshots->len == 1) {
    commit = g_ptr_array_index(repo->snapshots, 0);
    g_ptr_array_add(
        notes, g_strdup_printf("no ref \"main\" there: the only snapshot, %s, is taken", commit));
    return g_strdup(commit);
  }
  if (repo->snapshots->len == 0)
    bl_error_set(error, BL_ERROR_CORRUPT, "it has no snapshot (download the model again)");
  else
    bl_error_set(error, BL_ERROR_INVALID, "it has no ref \"main\" and more than one snapshot (%s)",
                 choices);
  return NULL;
}

static gboolean check_snapshot(const Repo *repo, const char *commit, const char *revision,
                               GError **error) {
  if (has_text(repo->snapshots, commit)) return TRUE;
  g_autofree char *shown = bl_path_display(revision != NULL ? revision : "main");
  if (has_text(repo->empty, commit))
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "snapshots/%s is empty: its download did not end (download it again)",
                        commit);
  return bl_error_set(
      error, BL_ERROR_CORRUPT,
      "ref \"%s\" means %s, of which there is no snapshot: its download did not end "
      "(download it again)",
      shown, commit);
}

/* What the commit is called: never a name that the cache gives to another one. */
static char *choose_revision(const Repo *repo, const BlHfSnapshot *snapshot, const char *revision) {
  const char *main_commit = find_ref(repo, "main");
  if (revision != NULL && !bl_hf_is_commit(revision)) return g_strdup(revision);
  if (main_commit == NULL && snapshot->refs[0] == NULL) return g_strdup("main");
  if (g_strcmp0(main_commit, snapshot->commit) == 0) return g_strdup("main");
  return g_strdup(snapshot->refs[0] != NULL ? snapshot->refs[0] : snapshot->commit);
}

static gboolean is_model_name(const char *name) {
  return g_str_has_prefix(name, FOLDER_PREFIX) && name[strlen(FOLDER_PREFIX)] != '\0';
}

/* What the client keeps beside models. */
static gboolean is_other_name(const char *name) {
  static const char *const prefixes[] = {"datasets--", "spaces--", "kernels--"};
  for (gsize i = 0; i < G_N_ELEMENTS(prefixes); i++)
    if (g_str_has_prefix(name, prefixes[i])) return TRUE;
  return FALSE;
}

/* Fills in all but repo, and, where it is set, commit. */
static gboolean fill_snapshot(BlHfSnapshot *snapshot, const char *revision, GError **error) {
  g_autofree char *name = g_path_get_basename(snapshot->repo);
  if (is_other_name(name))
    return bl_error_set(error, BL_ERROR_INVALID, "\"%s\" is no model of the cache", name);
  g_autoptr(Repo) repo = repo_read(snapshot->repo, error);
  if (repo == NULL) return FALSE;
  snapshot->notes = g_ptr_array_new_with_free_func(g_free);
  snapshot->model_id = bl_model_id_default(snapshot->repo);
  gboolean is_named = snapshot->commit != NULL;
  if (!is_named) snapshot->commit = choose_commit(repo, revision, snapshot->notes, error);
  if (snapshot->commit == NULL || !check_snapshot(repo, snapshot->commit, revision, error))
    return FALSE;
  for (guint i = 0; !is_named && i < repo->empty->len; i++)
    g_ptr_array_add(snapshot->notes, g_strdup_printf("snapshots/%s is empty: passed over",
                                                     (char *)repo->empty->pdata[i]));
  g_autoptr(GPtrArray) refs = g_ptr_array_new();
  for (guint i = 0; i < repo->refs->len; i++) {
    const Ref *ref = g_ptr_array_index(repo->refs, i);
    if (strcmp(ref->commit, snapshot->commit) == 0) g_ptr_array_add(refs, g_strdup(ref->name));
  }
  g_ptr_array_add(refs, NULL);
  snapshot->refs = (char **)g_ptr_array_steal(refs, NULL);
  snapshot->revision = choose_revision(repo, snapshot, revision);
  snapshot->folder = g_build_filename(snapshot->repo, BL_HF_SNAPSHOTS, snapshot->commit, NULL);
  return TRUE;
}

static gboolean has_folder(int fd, const char *name) {
  struct stat status;
  return fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

/* Whether the folder, opened, has the parts of a repository's. */
static gboolean has_repo_parts(int fd) {
  return has_folder(fd, BL_HF_SNAPSHOTS) ||
         (has_folder(fd, BL_HF_REFS) && has_folder(fd, BL_HF_BLOBS));
}

/* Whether the path is a repository's folder, of whatever kind. */
static gboolean is_repo_path(const char *path) {
  g_autofree char *name = g_path_get_basename(path);
  bl_autofd fd = open_folder(AT_FDCWD, path);
  return fd >= 0 && (is_model_name(name) || is_other_name(name)) && has_repo_parts(fd);
}

/* The models in a cache: their folders' names. NULL where there is none, and it is no cache. */
static GPtrArray *list_repos(const char *path) {
  bl_autofd fd = open_folder(AT_FDCWD, path);
  g_autoptr(GPtrArray) names = bl_hf_list_folder(open_folder(AT_FDCWD, path));
  g_autoptr(GPtrArray) repos = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 0; fd >= 0 && names != NULL && i < names->len; i++) {
    const char *name = g_ptr_array_index(names, i);
    if (!is_model_name(name)) continue;
    bl_autofd below = open_folder(fd, name);
    if (below >= 0 && has_repo_parts(below)) g_ptr_array_add(repos, g_strdup(name));
  }
  return repos->len > 0 ? g_steal_pointer(&repos) : NULL;
}

/* The model's folder in a cache, by its exact name. Caller frees. */
static char *choose_repo(const char *path, const GPtrArray *repos, const char *model_id,
                         GError **error) {
  g_autoptr(GPtrArray) choices = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *wanted = model_id != NULL ? bl_hf_folder_name(model_id) : NULL;
  gboolean has_twin = FALSE;
  for (guint i = 0; i < repos->len; i++) {
    const char *name = g_ptr_array_index(repos, i);
    if (g_strcmp0(name, wanted) == 0) return g_build_filename(path, name, NULL);
    has_twin = has_twin || (wanted != NULL && g_ascii_strcasecmp(name, wanted) == 0);
    g_autofree char *id = bl_model_id_default(name);
    g_ptr_array_add(choices, bl_path_display(id));
  }
  g_autofree char *joined = join_choices(choices);
  if (model_id == NULL) {
    bl_error_set(error, BL_ERROR_INVALID,
                 "it is a cache of %u model%s (name one with --model-id: %s)", repos->len,
                 repos->len == 1 ? "" : "s", joined);
    return NULL;
  }
  g_autofree char *shown = bl_path_display(model_id);
  bl_error_set(error, BL_ERROR_NOT_FOUND, "it is a cache without a model \"%s\"%s (it has %s)",
               shown, has_twin ? ", letter case counts" : "", joined);
  return NULL;
}

/* Sets repo and commit where the path is of a snapshot. */
static gboolean take_snapshot_path(BlHfSnapshot *snapshot, const char *real) {
  g_autofree char *commit = g_path_get_basename(real);
  g_autofree char *folder = g_path_get_dirname(real);
  g_autofree char *folder_name = g_path_get_basename(folder);
  if (!bl_hf_is_commit(commit) || strcmp(folder_name, BL_HF_SNAPSHOTS) != 0) return FALSE;
  g_autofree char *repo = g_path_get_dirname(folder);
  if (!is_repo_path(repo)) return FALSE;
  snapshot->repo = g_steal_pointer(&repo);
  snapshot->commit = g_steal_pointer(&commit);
  return TRUE;
}

gboolean bl_hf_snapshot_find(const char *path, const char *model_id, const char *revision,
                             BlHfSnapshot **found, GError **error) {
  g_autoptr(BlHfSnapshot) snapshot = g_new0(BlHfSnapshot, 1);
  *found = NULL;
  /* What cannot be reached is told by who opens it. */
  char *resolved = realpath(path, NULL);
  if (resolved == NULL) return TRUE;
  g_autofree char *real = g_strdup(resolved);
  free(resolved);
  if (is_repo_path(real)) {
    snapshot->repo = g_steal_pointer(&real);
  } else if (!take_snapshot_path(snapshot, real)) {
    /* The client's home has the cache in it. */
    g_autofree char *hub = g_build_filename(real, "hub", NULL);
    g_autoptr(GPtrArray) repos = list_repos(real), below = repos == NULL ? list_repos(hub) : NULL;
    if (repos == NULL && below == NULL) return TRUE;
    snapshot->repo =
        choose_repo(repos != NULL ? real : hub, repos != NULL ? repos : below, model_id, error);
  }
  if (snapshot->repo != NULL && fill_snapshot(snapshot, revision, error)) {
    *found = g_steal_pointer(&snapshot);
    return TRUE;
  }
  g_autofree char *shown = bl_path_display(path);
  g_prefix_error(error, "source \"%s\": ", shown);
  return FALSE;
}
