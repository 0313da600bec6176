/* A pull whose files are blobs, each named as the client names it: by the id that the source gave
 * for the bytes, else by their SHA-256. Several files with the same bytes are one blob. The target
 * is the folder of the one repository: clients take whatever else lies in the cache's own folder
 * for a damaged repository (the oldest even a CACHEDIR.TAG), temporaries of ours included. */
#include "model/hf_export.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "model/hf_layout.h"
#include "model/pull_impl.h"
#include "model/ref.h"

#define N_LINK_TRIES 100
/* The listing is written in pieces of this size. */
#define PIECE_SIZE 65536

typedef struct {
  BlPull *pull;
  const char *commit;
  guint32 *links; /* the n_links files asked for */
  guint64 n_links;
  guint8 *link_state; /* BlPullState of each */
  GPtrArray *refs;    /* of char*: names to set */
  guint n_must;       /* the first of them, 1 or 0, is the revision */
} Export;

static const char *blob_name(const BlPull *pull, guint64 file) {
  return bl_pull_path(pull, file) + strlen(BL_HF_BLOBS "/");
}

/* Names each file's blob. */
static void name_blobs(BlPull *pull) {
  char sha256[BL_SHA256_HEX_SIZE + 1];
  pull->paths = g_ptr_array_new_with_free_func(g_free);
  for (guint64 i = 0; i < pull->manifest->n_files; i++) {
    const char *id = pull->info->blob_ids[i];
    bl_hex_encode(pull->manifest->files[i].sha256, BL_SHA256_SIZE, sha256);
    g_ptr_array_add(pull->paths, g_strconcat(BL_HF_BLOBS "/", id != NULL ? id : sha256, NULL));
  }
}

/* Keeps the list of files for the links; the pull itself makes each blob once. */
static gboolean select_blobs(Export *export, GError **error) {
  BlPull *pull = export->pull;
  g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
  if (!bl_pull_select(pull, error)) return FALSE;
  export->links = g_memdup2(pull->files, MAX(pull->n, 1) * sizeof *pull->files);
  export->n_links = pull->n;
  export->link_state = g_new0(guint8, MAX(pull->n, 1));
  name_blobs(pull);
  pull->n = pull->n_bytes = 0;
  for (guint64 i = 0; i < export->n_links; i++) {
    guint32 file = export->links[i];
    if (!g_hash_table_add(seen, g_ptr_array_index(pull->paths, file))) continue;
    pull->files[pull->n++] = file;
    pull->n_bytes += pull->manifest->files[file].size;
  }
  return TRUE;
}

/* snapshots/<commit>/<path>. Caller frees. */
static char *link_path(const Export *export, guint64 link) {
  return g_strdup_printf(BL_HF_SNAPSHOTS "/%s/%s", export->commit,
                         export->pull->manifest->files[export->links[link]].path);
}

/* What the link says: from its folder up to the repository's and down to the blob. Caller frees. */
static char *link_text(const Export *export, guint64 link) {
  guint32 file = export->links[link];
  g_autoptr(GString) text = g_string_new("../../");
  for (const char *p = export->pull->manifest->files[file].path; *p != '\0'; p++)
    if (*p == '/') g_string_append(text, "../");
  g_string_append(text, bl_pull_path(export->pull, file));
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* What is at the link's place: our link, or something that gives the same bytes, is right. */
static gboolean examine_link_at(const Export *export, guint64 link, const BlTargetPlace *place,
                                BlPullState *state, GError **error) {
  char there[PATH_MAX];
  g_autofree char *wanted = link_text(export, link);
  gssize n = readlinkat(place->folder_fd, place->name, there, sizeof there - 1);
  *state = n < 0 && errno == ENOENT ? BL_PULL_ABSENT : BL_PULL_DIFFERS;
  if (*state == BL_PULL_ABSENT) return TRUE;
  there[MAX(n, 0)] = '\0';
  if (strcmp(there, wanted) == 0) {
    *state = BL_PULL_RIGHT;
    return TRUE;
  }
  bl_autofd fd = bl_openat(place->folder_fd, place->name, O_RDONLY | O_NONBLOCK, 0);
  return fd < 0 || bl_pull_compare_fd(export->pull, export->links[link], fd, 0, state, error);
}

static gboolean examine_link(const Export *export, guint64 link, BlPullState *state,
                             GError **error) {
  BlTargetPlace place;
  g_autofree char *path = link_path(export, link);
  *state = BL_PULL_ABSENT;
  BlPlaceResult found =
      bl_target_find_place(export->pull->target, path, link, FALSE, &place, error);
  if (found != BL_PLACE_FOUND) return found == BL_PLACE_NO_FOLDER;
  gboolean ok = examine_link_at(export, link, &place, state, error);
  bl_place_close(&place);
  return ok;
}

static gboolean fail_link(const Export *export, guint64 link, GError **error) {
  g_autofree char *path = link_path(export, link);
  g_autofree char *shown = bl_path_display(path);
  return bl_error_set(error, BL_ERROR_EXISTS,
                      "\"%s/%s\" is there and is not what checkpoint \"%s\" has (--force replaces "
                      "it, or choose another --hf-cache)",
                      bl_target_name(export->pull->target), shown,
                      export->pull->manifest->checkpoint_id);
}

static gboolean examine_links(Export *export, guint64 *n_to_make, GError **error) {
  *n_to_make = 0;
  for (guint64 i = 0; i < export->n_links; i++) {
    BlPullState state = BL_PULL_ABSENT;
    if (!bl_job_check(export->pull->job, error) ||
        (export->pull->target != NULL && !examine_link(export, i, &state, error)))
      return FALSE;
    if (state == BL_PULL_DIFFERS && !export->pull->options->force)
      return fail_link(export, i, error);
    export->link_state[i] = (guint8)state;
    *n_to_make += state != BL_PULL_RIGHT;
  }
  return TRUE;
}

/* Numbers that tell temporaries apart: blobs have the first n_files, links the next, what else
 * there is the ones after. */
static guint64 temp_number(const Export *export, guint64 link) {
  return export->pull->manifest->n_files + link;
}

static gboolean publish_link(Export *export, guint64 link, const BlTargetPlace *place,
                             GError **error) {
  gboolean replace = export->link_state[link] == BL_PULL_DIFFERS || export->pull->options->force;
  for (guint i = 0; i < N_LINK_TRIES; i++) {
    g_autoptr(GError) cause = NULL;
    BlPullState state = BL_PULL_ABSENT;
    if (bl_place_publish(place, replace, &cause)) return TRUE;
    if (bl_error_code(cause) != BL_ERROR_EXISTS) {
      g_propagate_error(error, g_steal_pointer(&cause));
      return FALSE;
    }
    /* Another pull of the same checkpoint, most likely. */
    if (!examine_link_at(export, link, place, &state, error)) return FALSE;
    if (state == BL_PULL_RIGHT) {
      bl_place_discard(place);
      return TRUE;
    }
    if (state == BL_PULL_DIFFERS) break;
  }
  return fail_link(export, link, error);
}

static gboolean make_link_at(Export *export, guint64 link, const BlTargetPlace *place,
                             GError **error) {
  g_autofree char *text = link_text(export, link);
  bl_place_discard(place);
  if (symlinkat(text, place->temp_folder_fd, place->temp) != 0) {
    const char *name = bl_target_name(export->pull->target);
    if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS)
      return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                          "\"%s\": its file system has no symbolic links, of which a cache is made "
                          "(use --output for a folder)",
                          name);
    return bl_error_set_errno(error, errno, "making a symbolic link in \"%s\"", name);
  }
  if (publish_link(export, link, place, error)) return TRUE;
  bl_place_discard(place);
  return FALSE;
}

static gboolean make_links(Export *export, GError **error) {
  for (guint64 i = 0; i < export->n_links; i++) {
    BlTargetPlace place;
    g_autofree char *path = link_path(export, i);
    if (export->link_state[i] == BL_PULL_RIGHT) continue;
    if (!bl_job_check(export->pull->job, error) ||
        bl_target_find_place(export->pull->target, path, temp_number(export, i), TRUE, &place,
                             error) != BL_PLACE_FOUND)
      return FALSE;
    gboolean ok = make_link_at(export, i, &place, error);
    bl_place_close(&place);
    if (!ok) return FALSE;
  }
  return bl_target_sync(export->pull->target, error);
}

/* A small file that is written into a descriptor. */
typedef gboolean (*WriteFunc)(const Export *export, int fd, gconstpointer user, GError **error);

static gboolean write_place(const Export *export, BlTargetPlace *place, WriteFunc write,
                            gconstpointer user, GError **error) {
  bl_autofd fd = bl_place_create(place, 0666, error);
  if (fd < 0) return FALSE;
  if (write(export, fd, user, error) && bl_fsync(fd, place->name, error) &&
      bl_place_publish(place, TRUE, error))
    return TRUE;
  bl_place_discard(place);
  return FALSE;
}

static gboolean write_file(const Export *export, const char *path, WriteFunc write,
                           gconstpointer user, GError **error) {
  BlTargetPlace place;
  if (bl_target_find_place(export->pull->target, path, temp_number(export, export->n_links), TRUE,
                           &place, error) != BL_PLACE_FOUND)
    return FALSE;
  gboolean ok = write_place(export, &place, write, user, error);
  bl_place_close(&place);
  if (!ok) {
    g_autofree char *shown = bl_path_display(path);
    g_prefix_error(error, "\"%s/%s\": ", bl_target_name(export->pull->target), shown);
  }
  return ok;
}

/* The content of a file of the target that is a ref; NULL where there is none. Caller frees. */
static char *read_ref(const Export *export, const char *path) {
  BlTargetPlace place;
  char *data = NULL;
  gsize size;
  if (bl_target_find_place(export->pull->target, path, 0, FALSE, &place, NULL) != BL_PLACE_FOUND)
    return NULL;
  (void)bl_file_load(place.folder_fd, place.name, BL_HF_COMMIT_SIZE, &data, &size, NULL);
  bl_place_close(&place);
  return data;
}

/* The client compares a ref's whole content: there is no line feed. */
static gboolean write_ref(const Export *export, int fd, gconstpointer user, GError **error) {
  (void)user;
  return bl_write_all(fd, export->commit, strlen(export->commit), error);
}

/* Whether the ref needs nothing: it says so already, or belongs to another commit and is not to
 * move. */
static gboolean is_ref_right(const Export *export, const char *name, gboolean must) {
  g_autofree char *path = g_strconcat(BL_HF_REFS "/", name, NULL);
  g_autofree char *now = read_ref(export, path);
  return now != NULL && (!must || strcmp(now, export->commit) == 0);
}

/* must: the checkpoint's revision, which moves, and is an error where it cannot be set. */
static gboolean set_ref(const Export *export, const char *name, gboolean must, GError **error) {
  g_autofree char *path = g_strconcat(BL_HF_REFS "/", name, NULL);
  g_autofree char *shown = bl_path_display(name);
  g_autofree char *found = read_ref(export, path);
  g_autofree char *before = found != NULL ? bl_path_display(found) : NULL;
  g_autoptr(GError) cause = NULL;
  if (is_ref_right(export, name, must)) return TRUE;
  if (write_file(export, path, write_ref, NULL, &cause)) {
    if (before != NULL)
      bl_job_note(export->pull->job, BL_NOTE_INFO, "%s of the cache now means %s (it meant %s)",
                  shown, export->commit, before);
    return TRUE;
  }
  if (must) {
    g_propagate_error(error, g_steal_pointer(&cause));
    return FALSE;
  }
  bl_job_note(export->pull->job, BL_NOTE_WARNING, "ref \"%s\" is not set in the cache: %s", shown,
              cause->message);
  return TRUE;
}

/* Whether the store itself has moved the name on to another checkpoint. */
static gboolean is_of_another(const Export *export, const char *name) {
  const BlManifest *manifest = export->pull->manifest;
  g_autofree char *id = bl_ref_get(export->pull->store, manifest->model_id, name, NULL);
  return id != NULL && strcmp(id, manifest->checkpoint_id) != 0;
}

/* Adds the names that may be refs in a cache, once each. */
static void collect_refs(Export *export, char **names) {
  for (char **name = names; *name != NULL; name++) {
    if (bl_hf_is_commit(*name) || is_of_another(export, *name) ||
        g_ptr_array_find_with_equal_func(export->refs, *name, g_str_equal, NULL))
      continue;
    if (bl_path_check(*name, strlen(*name), NULL)) {
      g_ptr_array_add(export->refs, g_strdup(*name));
      continue;
    }
    g_autofree char *shown = bl_path_display(*name);
    bl_job_note(export->pull->job, BL_NOTE_WARNING,
                "ref \"%s\" is not set in the cache: it is no name for one there", shown);
  }
}

/* The revision first, where it is a name. */
static gboolean choose_refs(Export *export, GError **error) {
  const BlManifest *manifest = export->pull->manifest;
  char *revision[] = {manifest->revision, NULL};
  g_auto(GStrv) tagged =
      bl_ref_names(export->pull->store, manifest->model_id, manifest->checkpoint_id, error);
  if (tagged == NULL) return FALSE;
  collect_refs(export, revision);
  export->n_must = export->refs->len;
  collect_refs(export, tagged);
  collect_refs(export, export->pull->info->refs);
  return TRUE;
}

static gboolean are_refs_right(const Export *export) {
  for (guint i = 0; i < export->refs->len; i++)
    if (!is_ref_right(export, export->refs->pdata[i], i < export->n_must)) return FALSE;
  return TRUE;
}

static gboolean set_refs(const Export *export, GError **error) {
  for (guint i = 0; i < export->refs->len; i++)
    if (!set_ref(export, export->refs->pdata[i], i < export->n_must, error)) return FALSE;
  return bl_target_sync(export->pull->target, error);
}

static void append_listed(const BlPull *pull, guint64 file, GString *out) {
  const BlManifestFile *record = &pull->manifest->files[file];
  const char *id = blob_name(pull, file);
  bl_json_append_string(out, record->path);
  g_string_append_printf(out, ":{\"size\":%" G_GUINT64_FORMAT ",\"blob_id\":\"%s\"", record->size,
                         id);
  if (strlen(id) == BL_SHA256_HEX_SIZE)
    g_string_append_printf(out, ",\"lfs_sha256\":\"%s\",\"lfs_size\":%" G_GUINT64_FORMAT, id,
                           record->size);
  g_string_append_c(out, '}');
}

static gboolean write_tree(const Export *export, int fd, gconstpointer user, GError **error) {
  g_autoptr(GString) out = g_string_new("{\"format_version\":1,\"files\":{");
  (void)user;
  for (guint64 i = 0; i < export->pull->manifest->n_files; i++) {
    if (i > 0) g_string_append_c(out, ',');
    append_listed(export->pull, i, out);
    if (out->len < PIECE_SIZE) continue;
    if (!bl_write_all(fd, out->str, out->len, error)) return FALSE;
    g_string_truncate(out, 0);
  }
  g_string_append(out, "}}");
  return bl_write_all(fd, out->str, out->len, error);
}

/* Whether the listing is there, or is not to be. Only a commit that was made from the content is
 * known to have these files and no others. */
static gboolean has_tree(const Export *export) {
  BlTargetPlace place;
  if (export->pull->info->commit_from_source) return TRUE;
  g_autofree char *path = g_strdup_printf(BL_HF_TREES "/%s.json", export->commit);
  if (bl_target_find_place(export->pull->target, path, 0, FALSE, &place, NULL) != BL_PLACE_FOUND)
    return FALSE;
  gboolean is_there = faccessat(place.folder_fd, place.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  bl_place_close(&place);
  return is_there;
}

/* The listing of the commit, with which clients tell a whole snapshot from a part of one. */
static gboolean make_tree(const Export *export, GError **error) {
  if (has_tree(export)) return TRUE;
  g_autofree char *path = g_strdup_printf(BL_HF_TREES "/%s.json", export->commit);
  return write_file(export, path, write_tree, NULL, error);
}

/* Links, listing and refs, each durable before the next. */
static gboolean make_rest(Export *export, GError **error) {
  return make_links(export, error) && make_tree(export, error) && set_refs(export, error);
}

/* A complete cache may be read-only; what a killed pull left in it goes where that is possible. */
static gboolean finish_complete(const Export *export, GError **error) {
  BlTarget *target = export->pull->target;
  BlTargetPlace place;
  if (bl_target_find_place(target, BL_TARGET_OWN_FOLDER "/tmp", 0, FALSE, &place, NULL) ==
      BL_PLACE_FOUND) {
    bl_place_close(&place);
    (void)bl_target_begin(target, FALSE, export->pull->job, NULL);
  }
  return bl_target_sync_all(target, error);
}

static gboolean run_export(Export *export, const char *folder, BlPullResult *result,
                           GError **error) {
  BlPull *pull = export->pull;
  g_autoptr(GError) cause = NULL;
  guint64 n_links;
  pull->target = bl_target_open(folder, &cause);
  if (cause != NULL) {
    g_propagate_error(error, g_steal_pointer(&cause));
    return FALSE;
  }
  if (!bl_pull_examine(pull, error) || !examine_links(export, &n_links, error)) return FALSE;
  guint64 n_blobs = bl_pull_count_to_write(pull);
  bl_pull_fill_result(pull, result);
  if (pull->target != NULL && n_blobs + n_links == 0 && has_tree(export) && are_refs_right(export))
    return finish_complete(export, error);
  if (pull->target == NULL) pull->target = bl_target_make(folder, error);
  if (pull->target == NULL ||
      !bl_target_begin(pull->target, n_blobs + n_links <= BL_PULL_N_SYNC_EACH, pull->job, error) ||
      !bl_pull_write_files(pull, n_blobs, error))
    return FALSE;
  bl_pull_fill_result(pull, result);
  if (result->n_files_kept > 0 && !bl_target_sync_all(pull->target, error)) return FALSE;
  return make_rest(export, error);
}

static gboolean check_repo_id(const char *repo_id, GError **error) {
  g_autoptr(GError) fault = NULL;
  if (bl_hf_repo_id_check(repo_id, &fault)) return TRUE;
  return bl_error_set(error, BL_ERROR_INVALID, "%s (--model-id says what to call it in the cache)",
                      fault->message);
}

gboolean bl_hf_export(BlStore *store, const char *checkpoint_id, const char *cache,
                      const char *repo_id, const BlPullOptions *options, BlJob *job,
                      BlPullResult *result, char **snapshot, GError **error) {
  g_autoptr(BlPull) pull = bl_pull_new(store, checkpoint_id, options, job, error);
  if (pull == NULL) return FALSE;
  if (repo_id == NULL) repo_id = pull->manifest->model_id;
  if (!check_repo_id(repo_id, error)) return FALSE;
  g_autofree char *name = bl_hf_folder_name(repo_id);
  g_autofree char *folder = g_build_filename(cache, name, NULL);
  Export export = {.pull = pull, .commit = pull->info->commit};
  export.refs = g_ptr_array_new_with_free_func(g_free);
  gboolean ok = select_blobs(&export, error) && choose_refs(&export, error) &&
                run_export(&export, folder, result, error);
  g_ptr_array_unref(export.refs);
  g_free(export.links);
  g_free(export.link_state);
  if (!ok) return FALSE;
  *snapshot = g_build_filename(folder, BL_HF_SNAPSHOTS, pull->info->commit, NULL);
  return TRUE;
}
