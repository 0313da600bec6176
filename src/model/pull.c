/* The order of a pull: look at everything, refuse what is to be refused, and only then write; the
 * record that says "complete" goes first where it was of another state, and comes last. */
#include "model/pull.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "model/pull_impl.h"
#include "model/usage.h"

void bl_pull_free(BlPull *pull) {
  if (pull == NULL) return;
  bl_transfer_pool_free(pull->pool);
  bl_reader_free(pull->reader);
  bl_target_free(pull->target);
  if (pull->info != NULL) bl_info_free(pull->info);
  if (pull->digests != NULL) bl_digests_free(pull->digests);
  bl_manifest_free(pull->manifest);
  bl_store_hold_free(pull->hold);
  for (guint i = 0; i < BL_PULL_N_NAMES; i++) g_free(pull->differing[i]);
  if (pull->paths != NULL) g_ptr_array_unref(pull->paths);
  g_free(pull->files);
  g_free(pull->state);
  g_mutex_clear(&pull->lock);
  g_free(pull);
}

BlPull *bl_pull_new(BlStore *store, const char *checkpoint_id, const BlPullOptions *options,
                    BlJob *job, GError **error) {
  g_autoptr(BlPull) pull = g_new0(BlPull, 1);
  g_mutex_init(&pull->lock);
  pull->store = store;
  pull->options = options;
  pull->job = job;
  pull->link = options->link;
  pull->manifest = bl_usage_open(store, checkpoint_id, &pull->hold, error);
  if (pull->manifest == NULL) return NULL;
  pull->digests = bl_digests_load_usable(store, pull->manifest, job, error);
  if (pull->digests == NULL) return NULL;
  pull->info = bl_info_load_usable(store, pull->manifest, job, error);
  if (pull->info == NULL) return NULL;
  pull->reader = bl_reader_new(store, pull->manifest, NULL);
  bl_fallback_serve(options->fallback, pull->reader);
  /* Publishing runs without the job and its number of threads. */
  guint n_workers = MAX(bl_job_n_threads(job), bl_job_n_threads(NULL));
  pull->pool = bl_transfer_pool_new(store, n_workers);
  pull->state = g_new0(guint8, MAX(pull->manifest->n_files, 1));
  return g_steal_pointer(&pull);
}

guint64 bl_pull_count_to_write(const BlPull *pull) {
  guint64 n = 0;
  for (guint64 i = 0; i < pull->n; i++) n += pull->state[pull->files[i]] != BL_PULL_RIGHT;
  return n;
}

void bl_pull_fill_result(const BlPull *pull, BlPullResult *result) {
  *result = (BlPullResult){
      .n_files = pull->n,
      .n_bytes = pull->n_bytes,
      .n_files_written = pull->n_written,
      .n_bytes_written = pull->n_bytes_written,
      .n_files_fallback = bl_reader_n_fallback_files(pull->reader),
      .link = pull->link == BL_LINK_AUTO ? BL_LINK_COPY : pull->link,
  };
  result->n_files_kept = result->n_files - result->n_files_written;
}

static const char *link_name(BlLinkMode link) {
  static const char *const names[] = {
      [BL_LINK_AUTO] = "auto",       [BL_LINK_REFLINK] = "reflink", [BL_LINK_HARDLINK] = "hardlink",
      [BL_LINK_SYMLINK] = "symlink", [BL_LINK_COPY] = "copy",
  };
  return names[link];
}

/* Globs are the caller's bytes; in the record they are shown as names are. */
static json_t *globs_to_json(char **globs) {
  json_t *array = json_array();
  for (; globs != NULL && *globs != NULL; globs++) {
    g_autofree char *shown = bl_path_display(*globs);
    json_array_append_new(array, json_string(shown));
  }
  return array;
}

static json_t *make_record(const BlPull *pull, const BlPullResult *result) {
  char sha256[BL_SHA256_HEX_SIZE + 1];
  bl_hex_encode(pull->manifest->sha256, BL_SHA256_SIZE, sha256);
  return json_pack("{s:i,s:s,s:s,s:b,s:s,s:I,s:I,s:o,s:o}", "schema_version", 1, "checkpoint_id",
                   pull->manifest->checkpoint_id, "manifest_sha256", sha256, "complete", 1, "link",
                   link_name(result->link), "n_files", (json_int_t)result->n_files, "n_bytes",
                   (json_int_t)result->n_bytes, "include", globs_to_json(pull->options->include),
                   "exclude", globs_to_json(pull->options->exclude));
}

/* Whether the record that is there says at least what this pull could say, which wrote nothing. */
static gboolean is_record_current(const BlPull *pull, const json_t *mine) {
  gsize size;
  g_autofree char *data = bl_target_load_record(pull->target, &size);
  if (data == NULL) return FALSE;
  g_autoptr(json_t) there = bl_json_parse(data, size, "record", NULL);
  if (there == NULL || !json_is_true(json_object_get(there, "complete"))) return FALSE;
  static const char *const names[] = {"schema_version", "checkpoint_id", "manifest_sha256"};
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++)
    if (!json_equal(json_object_get(there, names[i]), json_object_get(mine, names[i])))
      return FALSE;
  const json_t *include = json_object_get(there, "include");
  const json_t *exclude = json_object_get(there, "exclude");
  gboolean is_whole = json_is_array(include) && json_array_size(include) == 0 &&
                      json_is_array(exclude) && json_array_size(exclude) == 0;
  return is_whole || (json_equal(include, json_object_get(mine, "include")) &&
                      json_equal(exclude, json_object_get(mine, "exclude")));
}

static gboolean save_record(BlPull *pull, const json_t *record, GError **error) {
  g_autofree char *text = bl_json_dump_compact(record);
  return bl_target_save_record(pull->target, text, strlen(text), error);
}

/* Says what an interrupted pull leaves. */
static gboolean explain(const BlPull *pull, GError **error) {
  if (error == NULL || *error == NULL || bl_error_code(*error) != BL_ERROR_CANCELLED) return FALSE;
  g_autoptr(GError) cause = g_steal_pointer(error);
  return bl_error_set(error, BL_ERROR_CANCELLED,
                      "%s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                      " files are whole and in \"%s\" (the same command goes on from there)",
                      cause->message, pull->n - bl_pull_count_to_write(pull) + pull->n_written,
                      pull->n, bl_target_name(pull->target));
}

gboolean bl_pull_write_files(BlPull *pull, guint64 n_to_write, GError **error) {
  if (n_to_write == 0) return TRUE;
  return bl_pull_check_names(pull, error) && bl_pull_choose_link(pull, error) &&
         bl_pull_check_space(pull, error) &&
         (pull->paths != NULL || bl_target_remove_record(pull->target, error)) &&
         (bl_pull_make_files(pull, error) || explain(pull, error));
}

gboolean bl_pull(BlStore *store, const char *checkpoint_id, const char *output,
                 const BlPullOptions *options, BlJob *job, BlPullResult *result, GError **error) {
  GError *cause = NULL;
  g_autoptr(BlPull) pull = bl_pull_new(store, checkpoint_id, options, job, error);
  if (pull == NULL || !bl_pull_select(pull, error)) return FALSE;
  pull->target = bl_target_open(output, &cause);
  if (cause != NULL) {
    g_propagate_error(error, cause);
    return FALSE;
  }
  if (!bl_pull_examine(pull, error)) return FALSE;
  guint64 n_to_write = bl_pull_count_to_write(pull);
  if (pull->target == NULL) pull->target = bl_target_make(output, error);
  if (pull->target == NULL) return FALSE;

  bl_pull_fill_result(pull, result);
  if (n_to_write == 0) {
    g_autoptr(json_t) record = make_record(pull, result);
    if (is_record_current(pull, record)) return TRUE;
  }
  if (!bl_target_begin(pull->target, n_to_write <= BL_PULL_N_SYNC_EACH, job, error) ||
      !bl_pull_write_files(pull, n_to_write, error))
    return FALSE;
  bl_pull_fill_result(pull, result);
  if (result->n_files_kept > 0 && !bl_target_sync_all(pull->target, error)) return FALSE;
  g_autoptr(json_t) record = make_record(pull, result);
  return save_record(pull, record, error);
}

/* Picks the one file. */
static gboolean select_file(BlPull *pull, const char *path, GError **error) {
  const BlManifestFile *file = bl_manifest_find(pull->manifest, path);
  if (file == NULL) {
    g_autofree char *shown = bl_path_display(path);
    return bl_error_set(
        error, BL_ERROR_NOT_FOUND,
        "checkpoint \"%s\": no file \"%s\" in it (see \"ballast model inspect --files "
        "%s\")",
        pull->manifest->checkpoint_id, shown, pull->manifest->checkpoint_id);
  }
  pull->files = g_new(guint32, 1);
  pull->files[0] = (guint32)(file - pull->manifest->files);
  pull->n = 1;
  pull->n_bytes = file->size;
  return TRUE;
}

gboolean bl_pull_file(BlStore *store, const char *checkpoint_id, const char *path,
                      const char *output, const BlPullOptions *options, BlJob *job,
                      BlPullResult *result, GError **error) {
  g_autofree char *folder = g_path_get_dirname(output);
  g_autofree char *name = g_path_get_basename(output);
  if (output[0] == '\0' || g_str_has_suffix(output, "/"))
    return bl_error_set(error, BL_ERROR_INVALID, "\"%s\" names no file to write", output);
  g_autoptr(BlPull) pull = bl_pull_new(store, checkpoint_id, options, job, error);
  if (pull == NULL || !select_file(pull, path, error)) return FALSE;
  pull->single_name = name;
  pull->target = bl_target_make(folder, error);
  if (pull->target == NULL || !bl_pull_examine(pull, error)) return FALSE;
  if (bl_pull_count_to_write(pull) > 0) {
    bl_target_begin_single(pull->target);
    if (!bl_pull_choose_link(pull, error) || !bl_pull_check_space(pull, error) ||
        !bl_pull_make_files(pull, error))
      return FALSE;
  }
  bl_pull_fill_result(pull, result);
  return TRUE;
}
