#include "cli/pin.h"

static struct { char *checkpoint_id, *wait; } opt;

static const GOptionEntry options[] = {
    {"wait", 0, 0, G_OPTION_ARG_FILENAME, &opt.wait, "wait while another process works on it",
     "[=SECONDS]"},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

static int run(BlCli *cli, char **args, GError **error) {
  return bl_pin_run(cli, opt.checkpoint_id, opt.wait, FALSE, args, error);
}

const BlCommand bl_cmd_model_unpin = {
    .group = "model",
    .name = "unpin",
    .args = "CHECKPOINT [options]",
    .arg_kinds = "c-",
    .summary = "take a pin off: prune may remove the checkpoint",
    .text = "The checkpoint may be pruned again. Nothing is removed by this.\n",
    .examples = "ballast model unpin my-model\n",
    .options = options,
    .run = run,
};
