#include <string.h>

#include "base/path.h"
#include "cli/config.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/identity.h"
#include "model/import.h"
#include "upkeep/prune.h"

/* Files left out that are named one by one without -v. */
#define MAX_LEFT_OUT 10

static struct {
  char *source, *checkpoint_id, *model_id, *revision, *chunk_size, *replica_num, *wait, *keep;
  char **include, **exclude;
  gboolean dry_run, force, quick;
} opt;

static const GOptionEntry options[] = {
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "its id (default: from the model id)", "ID"},
    {"model-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.model_id, "its model (default: from the folder)",
     "MODEL_ID"},
    {"revision", 0, 0, G_OPTION_ARG_FILENAME, &opt.revision, "its revision (default: main)",
     "REVISION"},
    {"include", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &opt.include,
     "only files that match; may be repeated", "GLOB"},
    {"exclude", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &opt.exclude,
     "no files that match; may be repeated", "GLOB"},
    {"dry-run", 'n', 0, G_OPTION_ARG_NONE, &opt.dry_run, "say what would be done, write nothing",
     NULL},
    {"force", 'f', 0, G_OPTION_ARG_NONE, &opt.force, "take files that cannot be model files, too",
     NULL},
    {"quick", 0, 0, G_OPTION_ARG_NONE, &opt.quick,
     "where it is there already: compare sizes and times", NULL},
    {"keep", 0, 0, G_OPTION_ARG_FILENAME, &opt.keep,
     "then remove all but the newest N of this revision", "N"},
    {"wait", 0, 0, G_OPTION_ARG_FILENAME, &opt.wait, "wait while another process works on it",
     "[=SECONDS]"},
    {"file-chunk-size", 0, 0, G_OPTION_ARG_FILENAME, &opt.chunk_size,
     "cut files into objects of this size", "SIZE"},
    {"source", 0, 0, G_OPTION_ARG_FILENAME, &opt.source, "the folder, instead of SOURCE", "SOURCE"},
    {"replica-num", 0, 0, G_OPTION_ARG_FILENAME, &opt.replica_num,
     "copies on a shared store; nothing on a local one", "N"},
    {NULL}};

/* The folder that SOURCE, a path or a file: URL, stands for. Caller frees. */
static char *source_folder(const char *source, GError **error) {
  g_autofree char *shown = bl_path_display(source);
  g_autoptr(GError) fault = NULL;
  if (strstr(source, "://") == NULL) return g_strdup(source);
  if (!g_str_has_prefix(source, "file:")) {
    bl_error_set(error, BL_ERROR_INVALID,
                 "source \"%s\": a source is a folder of this machine (fetch the model first, then "
                 "import the folder)",
                 shown);
    return NULL;
  }
  char *folder = g_filename_from_uri(source, NULL, &fault);
  if (folder == NULL)
    bl_error_set(error, BL_ERROR_INVALID, "source \"%s\": %s", shown, fault->message);
  return folder;
}

/* "org/name" may have meant a model of a hub. */
static void add_source_hint(const char *source, GError **error) {
  const char *slash = strchr(source, '/');
  gboolean is_like_a_model = source[0] != '.' && slash != NULL && slash != source &&
                             slash[1] != '\0' && strchr(slash + 1, '/') == NULL;
  if (error == NULL || *error == NULL || bl_error_code(*error) != BL_ERROR_NOT_FOUND ||
      !is_like_a_model || g_file_test(source, G_FILE_TEST_EXISTS))
    return;
  g_autoptr(GError) miss = g_steal_pointer(error);
  bl_error_set(error, BL_ERROR_NOT_FOUND,
               "%s (a source is a folder of this machine: a model of a hub must be fetched first)",
               miss->message);
}

static gboolean fill_options(BlImportOptions *import, GError **error) {
  import->checkpoint_id = opt.checkpoint_id;
  import->model_id = opt.model_id;
  import->revision = opt.revision;
  import->include = opt.include;
  import->exclude = opt.exclude;
  import->dry_run = opt.dry_run;
  import->force = opt.force;
  import->quick = opt.quick;
  if (opt.wait != NULL && !bl_option_parse_wait(opt.wait, &import->wait_ms, error)) return FALSE;
  if (opt.chunk_size == NULL) return TRUE;
  if (!bl_option_parse_size("--file-chunk-size", opt.chunk_size, &import->file_chunk_size, error))
    return FALSE;
  return import->file_chunk_size > 0 ||
         bl_error_set(error, BL_ERROR_INVALID, "--file-chunk-size: a chunk has at least 1 byte");
}

static gboolean check_replica_num(BlCli *cli, GError **error) {
  guint64 n = 0;
  if (opt.replica_num == NULL) return TRUE;
  if (!g_ascii_string_to_unsigned(opt.replica_num, 10, 1, G_MAXUINT, &n, NULL)) {
    g_autofree char *shown = bl_path_display(opt.replica_num);
    return bl_error_set(error, BL_ERROR_INVALID, "--replica-num: \"%s\" is not a number from 1 on",
                        shown);
  }
  if (cli->verbose)
    bl_job_note(&cli->job, BL_NOTE_INFO, "--replica-num is ignored on a local store");
  return TRUE;
}

/* *n stays 0 without the option. */
static gboolean parse_keep(guint *n, GError **error) {
  guint64 number = 0;
  if (opt.keep == NULL) return TRUE;
  if (!g_ascii_string_to_unsigned(opt.keep, 10, 1, G_MAXUINT, &number, NULL)) {
    g_autofree char *shown = bl_path_display(opt.keep);
    return bl_error_set(error, BL_ERROR_INVALID, "--keep: \"%s\" is not a number from 1 on", shown);
  }
  *n = (guint)number;
  return TRUE;
}

/* The import is done, whatever becomes of the older ones. Adds the ids of those that went. */
static void remove_older(BlCli *cli, BlStore *store, const BlImportResult *imported,
                         const char *state_folder, guint keep, GPtrArray *pruned) {
  BlPruneOptions prune = BL_PRUNE_OPTIONS_INIT;
  BlPruneResult result;
  g_autoptr(GError) fault = NULL;
  prune.keep = keep;
  prune.model_id = imported->model_id;
  prune.revision = imported->revision;
  prune.spare_id = imported->checkpoint_id;
  prune.dry_run = FALSE;
  if (!bl_prune(store, &prune, &cli->job, &result, &fault))
    bl_job_note(&cli->job, BL_NOTE_WARNING, "older checkpoints were not all removed: %s",
                fault->message);
  for (guint i = 0; i < result.gone->len; i++) {
    const BlPruneItem *item = g_ptr_array_index(result.gone, i);
    bl_identities_remove(state_folder, store, item->checkpoint_id);
    g_ptr_array_add(pruned, g_strdup(item->checkpoint_id));
  }
  for (guint i = 0; i < result.spared->len; i++) {
    const BlPruneItem *item = g_ptr_array_index(result.spared, i);
    if (strcmp(item->checkpoint_id, imported->checkpoint_id) != 0)
      bl_job_note(&cli->job, BL_NOTE_INFO, "\"%s\" stays: %s", item->checkpoint_id, item->reason);
  }
  bl_prune_result_clear(&result);
}

static const char *outcome_name(BlImportOutcome outcome) {
  switch (outcome) {
    case BL_IMPORT_ALREADY_THERE:
      return "already-there";
    case BL_IMPORT_WOULD:
      return "would-import";
    default:
      return "imported";
  }
}

static void print_json(BlCli *cli, const BlImportResult *result, const GPtrArray *pruned,
                       gint64 elapsed_us) {
  bl_out_json_open();
  bl_out_json_member("outcome", json_string(outcome_name(result->outcome)));
  bl_out_json_member("checkpoint_id", bl_json_text(result->checkpoint_id));
  bl_out_json_member("model_id", bl_json_text(result->model_id));
  bl_out_json_member("revision", bl_json_text(result->revision));
  bl_out_json_member("commit", bl_json_text(result->commit));
  bl_out_json_member("n_files", bl_json_uint(result->n_files));
  bl_out_json_member("n_bytes", bl_json_uint(result->n_bytes));
  bl_out_json_member("n_files_written", bl_json_uint(result->n_files_written));
  bl_out_json_member("n_bytes_written", bl_json_uint(result->n_bytes_written));
  bl_out_json_member("n_files_shared", bl_json_uint(result->n_files_shared));
  bl_out_json_member("n_bytes_shared", bl_json_uint(result->n_bytes_shared));
  bl_out_json_member("elapsed_ms", json_integer(elapsed_us / 1000));
  bl_out_json_member("left_out", bl_json_texts(result->left_out));
  bl_out_json_member("mended", bl_json_texts(result->mended));
  bl_out_json_member("pruned", bl_json_texts(pruned));
  bl_out_json_close(cli);
}

static void print_left_out(BlCli *cli, const GPtrArray *left_out) {
  guint n = left_out != NULL ? left_out->len : 0;
  guint shown = cli->verbose ? n : MIN(n, MAX_LEFT_OUT);
  for (guint i = 0; i < shown; i++)
    bl_out_done(cli, "left out: %s", (const char *)left_out->pdata[i]);
  if (shown < n) bl_out_done(cli, "left out: %u more (-v names them)", n - shown);
}

/* What was done to the checkpoint; a dry run's answer is what was asked for, with -q too. */
static void print_result(BlCli *cli, const BlImportResult *result, gint64 elapsed_us) {
  g_autofree char *model = bl_path_display(result->model_id);
  g_autofree char *revision = bl_path_display(result->revision);
  BlSizeText files, size;
  print_left_out(cli, result->left_out);
  guint n_mended = result->mended != NULL ? result->mended->len : 0;
  for (guint i = 0; i < n_mended; i++)
    bl_out_done(cli, "mended: %s", (const char *)result->mended->pdata[i]);
  if (result->outcome == BL_IMPORT_WOULD) {
    bl_out_line("would import %s (model %s, revision %s)", result->checkpoint_id, model, revision);
    bl_out_line("%s, %s", bl_files_format(files, result->n_files),
                bl_size_format(size, result->n_bytes));
    return;
  }

  const char *verb = result->outcome == BL_IMPORT_DONE ? "imported"
                     : n_mended > 0                    ? "mended"
                                                       : "already there:";
  bl_out_done(cli, "%s %s (model %s, revision %s)", verb, result->checkpoint_id, model, revision);
  /* Where --quick read nothing, a rate would say nothing. */
  BlSizeText time;
  if (result->outcome == BL_IMPORT_ALREADY_THERE && opt.quick)
    bl_out_done(cli, "%s, %s in %s", bl_files_format(files, result->n_files),
                bl_size_format(size, result->n_bytes), bl_duration_format(time, elapsed_us));
  else
    bl_out_done_amount(cli, result->n_files, result->n_bytes, elapsed_us);
  if (result->n_files_shared > 0)
    bl_out_done(cli, "shared with other checkpoints: %s, %s",
                bl_files_format(files, result->n_files_shared),
                bl_size_format(size, result->n_bytes_shared));
  if (result->outcome == BL_IMPORT_DONE &&
      result->n_files_written + result->n_files_shared < result->n_files)
    bl_out_done(cli, "written now: %s, %s; the rest was there and right",
                bl_files_format(files, result->n_files_written),
                bl_size_format(size, result->n_bytes_written));
}

static int run(BlCli *cli, char **args, GError **error) {
  BlImportOptions import = {NULL};
  guint keep = 0;
  const char *source = bl_option_or_arg(opt.source, &args, "SOURCE", error);
  if (source == NULL || !bl_args_end(args, error)) return -1;
  g_autofree char *folder = source_folder(source, error);
  if (folder == NULL) return -1;
  import.source = folder;
  if (!fill_options(&import, error) || !check_replica_num(cli, error) || !parse_keep(&keep, error))
    return -1;
  g_autofree char *state_folder = bl_config_state_folder();
  import.state_folder = state_folder;
  g_autoptr(BlStore) store = bl_config_open_store(cli, !opt.dry_run, error);
  if (store == NULL) return -1;

  gint64 start_us = g_get_monotonic_time();
  bl_progress_start(&cli->progress, "import");
  g_autoptr(BlImportResult) result = bl_import(store, &import, &cli->job, error);
  bl_progress_stop(&cli->progress);
  if (result == NULL) {
    add_source_hint(folder, error);
    return -1;
  }
  gint64 elapsed_us = g_get_monotonic_time() - start_us;
  g_autoptr(GPtrArray) pruned = g_ptr_array_new_with_free_func(g_free);
  if (keep > 0 && result->outcome != BL_IMPORT_WOULD)
    remove_older(cli, store, result, state_folder, keep, pruned);
  if (cli->json)
    print_json(cli, result, pruned, elapsed_us);
  else
    print_result(cli, result, elapsed_us);
  for (guint i = 0; !cli->json && i < pruned->len; i++)
    bl_out_done(cli, "removed: %s", (const char *)g_ptr_array_index(pruned, i));
  return 0;
}

const BlCommand bl_cmd_model_import = {
    .group = "model",
    .name = "import",
    .args = "SOURCE [options]",
    .arg_kinds = "f-",
    .summary = "put a folder's files into the store, checked",
    .text =
        "Reads each file of the folder once, hashes it while it is stored, and shows the\n"
        "checkpoint only when all of it is safe on disk. Run again, it finds it there;\n"
        "after Ctrl-C or a crash it goes on where it was.\n",
    .examples =
        "ballast model import ./my-model\n"
        "ballast model import ./my-model --checkpoint-id my-model-v2 --keep 2\n"
        "ballast model import ./my-model --checkpoint-id my-model-v1\n"
        "ballast model import ./my-model --exclude '*.bin' --dry-run\n",
    .interrupted =
        "nothing of it is shown as ready; what was written stays, run the same command "
        "again to go on (or \"ballast model delete\" to remove it)",
    .options = options,
    .run = run,
};
