#include <unistd.h>

#include "base/path.h"
#include "cli/config.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/read_from.h"
#include "model/manifest.h"
#include "model/pull.h"

static struct { char *checkpoint_id, *path, *range, *fallback; } opt;

static const GOptionEntry options[] = {
    {"range", 0, 0, G_OPTION_ARG_FILENAME, &opt.range, "only bytes a-b (both included), a- or -n",
     "RANGE"},
    BL_FALLBACK_OPTION(&opt.fallback),
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {"path", 0, 0, G_OPTION_ARG_FILENAME, &opt.path, "the file in it, instead of PATH", "PATH"},
    {NULL}};

/* A range may count from the end, which only the manifest knows. */
static gboolean find_range(BlStore *store, const char *id, const char *path, guint64 *first,
                           guint64 *last, GError **error) {
  if (opt.range == NULL) return TRUE;
  g_autoptr(BlManifest) manifest = bl_manifest_load_ready(store, id, error);
  if (manifest == NULL) return FALSE;
  const BlManifestFile *file = bl_manifest_find(manifest, path);
  /* bl_cat says it better. */
  if (file == NULL) return TRUE;
  return bl_option_parse_range(opt.range, file->size, first, last, error);
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error)) return -1;
  const char *path = bl_option_or_arg(opt.path, &args, "PATH", error);
  if (path == NULL || !bl_args_end(args, error)) return -1;
  if (cli->json) {
    bl_error_set(error, BL_ERROR_INVALID,
                 "--json: cat writes the file itself to standard output (materialize-file writes "
                 "it to a file)");
    return -1;
  }
  g_auto(BlReadFrom) from = {NULL};
  guint64 first = 0, last = G_MAXUINT64;
  if (!bl_read_from_open(&from, cli, &name, opt.fallback, error) ||
      !find_range(from.store, from.checkpoint_id, path, &first, &last, error))
    return -1;

  /* A bar would be drawn into the bytes where both go to one terminal. */
  if (!isatty(STDOUT_FILENO)) bl_progress_start(&cli->progress, "cat");
  gboolean done = bl_cat(from.store, from.checkpoint_id, path, first, last, STDOUT_FILENO,
                         from.fallback, &cli->job, error);
  bl_progress_stop(&cli->progress);
  return done ? 0 : -1;
}

const BlCommand bl_cmd_model_cat = {
    .group = "model",
    .name = "cat",
    .args = "CHECKPOINT PATH [options]",
    .arg_kinds = "cp-",
    .summary = "write one file, or a range of it, to standard output",
    .text =
        "Every byte is checked before it is written: a whole file by its SHA-256, a range by\n"
        "the digests of the blocks it touches.\n",
    .examples =
        "ballast model cat my-model config.json\n"
        "ballast model cat my-model model.safetensors --range 0-7\n",
    .interrupted = "standard output has a part of the file only",
    .options = options,
    .run = run,
};
