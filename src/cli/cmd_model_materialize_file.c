#include "base/path.h"
#include "cli/config.h"
#include "cli/link_option.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/read_from.h"

static struct {
  char *checkpoint_id, *path, *output, *link, *fallback;
  gboolean verify, force;
} opt;

static const GOptionEntry options[] = {
    {"link", 0, 0, G_OPTION_ARG_FILENAME, &opt.link, "auto, reflink, hardlink, symlink or copy",
     "MODE"},
    {"verify", 0, 0, G_OPTION_ARG_NONE, &opt.verify, "hash a linked file, too", NULL},
    {"force", 'f', 0, G_OPTION_ARG_NONE, &opt.force, "replace a file that differs", NULL},
    BL_FALLBACK_OPTION(&opt.fallback),
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {"path", 0, 0, G_OPTION_ARG_FILENAME, &opt.path, "the file in it, instead of PATH", "PATH"},
    {"output", 'o', 0, G_OPTION_ARG_FILENAME, &opt.output, "where to write it, instead of OUTPUT",
     "OUTPUT"},
    {NULL}};

static void print_result(const BlCli *cli, const char *path, const char *output,
                         const BlPullResult *result) {
  g_autofree char *shown = bl_path_display(path);
  g_autofree char *shown_output = bl_path_display(output);
  BlSizeText size;
  bl_size_format(size, result->n_bytes);
  if (result->n_files_kept > 0)
    bl_out_done(cli, "already there: %s (%s)", shown_output, size);
  else
    bl_out_done(cli, "wrote %s to %s (%s, %s)", shown, shown_output, size,
                bl_link_name(result->link));
}

/* cp would take a folder: whoever gives one is told what to write instead. */
static gboolean check_output(const char *output, const char *path, GError **error) {
  if (!g_file_test(output, G_FILE_TEST_IS_DIR)) return TRUE;
  g_autofree char *name = g_path_get_basename(path);
  g_autofree char *file = g_build_filename(output, name, NULL);
  g_autofree char *shown = bl_path_display(output);
  g_autofree char *shown_file = bl_path_display(file);
  return bl_error_set(error, BL_ERROR_INVALID, "output \"%s\" is a folder: name the file (\"%s\")",
                      shown, shown_file);
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  BlPullOptions pull = {.force = opt.force, .verify = opt.verify};
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error)) return -1;
  const char *path = bl_option_or_arg(opt.path, &args, "PATH", error);
  if (path == NULL) return -1;
  const char *output = bl_option_or_arg(opt.output, &args, "OUTPUT", error);
  if (output == NULL || !bl_args_end(args, error) || !bl_link_parse(opt.link, &pull.link, error) ||
      !check_output(output, path, error))
    return -1;
  g_auto(BlReadFrom) from = {NULL};
  if (!bl_read_from_open(&from, cli, &name, opt.fallback, error)) return -1;
  pull.fallback = from.fallback;

  BlPullResult result = {0};
  gint64 start_us = g_get_monotonic_time();
  bl_progress_start(&cli->progress, "materialize-file");
  gboolean done =
      bl_pull_file(from.store, from.checkpoint_id, path, output, &pull, &cli->job, &result, error);
  bl_progress_stop(&cli->progress);
  if (!done) return -1;
  if (!cli->json) {
    print_result(cli, path, output, &result);
    return 0;
  }
  bl_out_json_open();
  bl_out_json_member("checkpoint_id", bl_json_text(from.checkpoint_id));
  bl_out_json_member("path", bl_json_text(path));
  bl_out_json_member("output", bl_json_text(output));
  bl_link_print_json(cli, &result, bl_read_from_count(&from, &result),
                     g_get_monotonic_time() - start_us);
  return 0;
}

const BlCommand bl_cmd_model_materialize_file = {
    .group = "model",
    .name = "materialize-file",
    .args = "CHECKPOINT PATH OUTPUT [options]",
    .arg_kinds = "cpf-",
    .summary = "write one file of a checkpoint, checked",
    .text =
        "Writes the file PATH of the checkpoint to OUTPUT. It appears under that name only\n"
        "when it is whole and right.\n",
    .examples = "ballast model materialize-file my-model config.json ./config.json\n",
    .interrupted = "nothing was written under the final name; run the same command again",
    .options = options,
    .run = run,
};
