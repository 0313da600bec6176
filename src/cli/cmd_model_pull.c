#include <string.h>

#include "base/path.h"
#include "cli/config.h"
#include "cli/link_option.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/read_from.h"
#include "model/hf_export.h"

static struct {
  char *checkpoint_id, *output, *hf_cache, *model_id, *link, *fallback;
  char **include, **exclude;
  gboolean verify, force;
} opt;

static const GOptionEntry options[] = {
    {"output", 'o', 0, G_OPTION_ARG_FILENAME, &opt.output, "the folder (default: the model's name)",
     "FOLDER"},
    {"hf-cache", 0, 0, G_OPTION_ARG_FILENAME, &opt.hf_cache,
     "a cache of the Hugging Face client, instead of --output", "FOLDER"},
    {"model-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.model_id,
     "what to call it in that cache (default: the model's name)", "MODEL_ID"},
    {"include", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &opt.include,
     "only files that match; may be repeated", "GLOB"},
    {"exclude", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &opt.exclude,
     "no files that match; may be repeated", "GLOB"},
    {"link", 0, 0, G_OPTION_ARG_FILENAME, &opt.link, "auto, reflink, hardlink, symlink or copy",
     "MODE"},
    {"verify", 0, 0, G_OPTION_ARG_NONE, &opt.verify, "hash linked files, too", NULL},
    {"force", 'f', 0, G_OPTION_ARG_NONE, &opt.force, "replace files that differ", NULL},
    BL_FALLBACK_OPTION(&opt.fallback),
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

/* "./" and the last part of the model id, or the checkpoint's id where that part is no name for a
 * new folder here. */
static char *default_output(BlStore *store, const char *id, GError **error) {
  g_autoptr(BlManifest) manifest = bl_manifest_load(store, id, BL_MANIFEST_HEADER_ONLY, error);
  if (manifest == NULL) return NULL;
  const char *slash = strrchr(manifest->model_id, '/');
  const char *last = slash != NULL ? slash + 1 : manifest->model_id;
  gboolean is_name = bl_path_check(last, strlen(last), NULL);
  return g_strconcat("./", is_name ? last : id, NULL);
}

static void print_result(const BlCli *cli, const char *id, const char *output,
                         const BlPullResult *result, gint64 elapsed_us) {
  g_autofree char *shown = bl_path_display(output);
  BlSizeText files, size, time, rate;
  bl_size_format(size, result->n_bytes_written);
  bl_duration_format(time, elapsed_us);
  bl_rate_format(rate, result->n_files_written, result->n_bytes_written, elapsed_us);
  bl_out_done(cli, "%s %s %s %s", result->n_files_written > 0 ? "pulled" : "already there:", id,
              result->n_files_written > 0 ? "to" : "in", shown);
  bl_files_format(files, result->n_files_written);
  /* A link moves no bytes: a rate would say nothing. */
  if (result->n_files_written > 0 && result->link == BL_LINK_COPY)
    bl_out_done(cli, "%s, %s in %s (%s, copy)", files, size, time, rate);
  else if (result->n_files_written > 0)
    bl_out_done(cli, "%s, %s in %s (%s)", files, size, time, bl_link_name(result->link));
  if (result->n_files_kept > 0)
    bl_out_done(cli, "%s there and right", bl_files_format(files, result->n_files_kept));
}

static gboolean check_target(GError **error) {
  if (opt.output != NULL && opt.output[0] == '\0')
    return bl_error_set(error, BL_ERROR_INVALID, "--output: the folder's name is empty");
  if (opt.hf_cache != NULL && opt.hf_cache[0] == '\0')
    return bl_error_set(error, BL_ERROR_INVALID, "--hf-cache: the folder's name is empty");
  if (opt.hf_cache != NULL && opt.output != NULL)
    return bl_error_set(error, BL_ERROR_INVALID, "--output and --hf-cache: name one of them");
  return opt.hf_cache != NULL || opt.model_id == NULL ||
         bl_error_set(error, BL_ERROR_INVALID, "--model-id goes with --hf-cache");
}

/* *output: where the files are then. Caller frees. */
static gboolean pull_files(BlCli *cli, const BlReadFrom *from, const BlPullOptions *pull,
                           BlPullResult *result, char **output, GError **error) {
  const char *id = from->checkpoint_id;
  if (opt.hf_cache != NULL)
    return bl_hf_export(from->store, id, opt.hf_cache, opt.model_id, pull, &cli->job, result,
                        output, error);
  *output = opt.output != NULL ? g_strdup(opt.output) : default_output(from->store, id, error);
  return *output != NULL && bl_pull(from->store, id, *output, pull, &cli->job, result, error);
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  BlPullOptions pull = {
      .force = opt.force, .verify = opt.verify, .include = opt.include, .exclude = opt.exclude};
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error) || !bl_args_end(args, error) ||
      !bl_link_parse(opt.link, &pull.link, error))
    return -1;
  if (!check_target(error)) return -1;
  g_auto(BlReadFrom) from = {NULL};
  if (!bl_read_from_open(&from, cli, &name, opt.fallback, error)) return -1;
  const char *id = from.checkpoint_id;
  pull.fallback = from.fallback;
  g_autofree char *output = NULL;

  BlPullResult result = {0};
  gint64 start_us = g_get_monotonic_time();
  bl_progress_start(&cli->progress, "pull");
  gboolean done = pull_files(cli, &from, &pull, &result, &output, error);
  bl_progress_stop(&cli->progress);
  if (!done) return -1;
  gint64 elapsed_us = g_get_monotonic_time() - start_us;
  guint64 n_files_fallback = bl_read_from_count(&from, &result);
  if (!cli->json) {
    BlSizeText files;
    print_result(cli, id, output, &result, elapsed_us);
    if (n_files_fallback > 0)
      bl_out_done(cli, "%s from the fallback", bl_files_format(files, n_files_fallback));
    return 0;
  }
  bl_out_json_open();
  bl_out_json_member("checkpoint_id", bl_json_text(id));
  bl_out_json_member("output", bl_json_text(output));
  bl_link_print_json(cli, &result, n_files_fallback, elapsed_us);
  return 0;
}

const BlCommand bl_cmd_model_pull = {
    .group = "model",
    .name = "pull",
    .args = "CHECKPOINT [options]",
    .arg_kinds = "c-",
    .summary = "write a checkpoint's files into a folder, checked",
    .text =
        "Each file appears under its name only when it is whole and right. Files that are\n"
        "there and right stay; where one differs, nothing is written (--force replaces it).\n"
        "--link=auto shares the store's blocks where the file system can, and copies else.\n"
        "--hf-cache makes what the Hugging Face client finds without a network.\n",
    .examples =
        "ballast model pull my-model\n"
        "ballast model pull my-model --output ./served --include '*.json'\n"
        "ballast model pull my-model --hf-cache ./hub\n",
    .interrupted = "files that are complete stay; run the same command again to go on",
    .options = options,
    .run = run,
};
