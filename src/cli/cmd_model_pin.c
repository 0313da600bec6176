#include "cli/pin.h"

static int run(BlCli *cli, char **args, GError **error) {
  return bl_pin_run(cli, args, TRUE, error);
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
    .options = bl_pin_options,
    .run = run,
};
