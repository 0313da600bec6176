#include "cli/pin.h"

static struct { char *checkpoint_id, *wait; } opt;

static const GOptionEntry options[] = {
    {"wait", 0, 0, G_OPTION_ARG_FILENAME, &opt.wait, "wait while another process works on it",
     "[=SECONDS]"},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

static int run(BlCli *cli, char **args, GError **error) {
  return bl_pin_run(cli, opt.checkpoint_id, opt.wait, TRUE, args, error);
}

const BlCommand bl_cmd_model_pin = {
    .group = "model",
    .name = "pin",
    .args = "CHECKPOINT [options]",
    .arg_kinds = "c-",
    .summary = "keep a checkpoint: prune leaves it alone",
    .text =
        "A pinned checkpoint is never pruned, however long it was not read. It can still be\n"
        "deleted by name. \"ballast model list\" shows what is pinned.\n",
    .examples = "ballast model pin my-model\n",
    .options = options,
    .run = run,
};
