#include "cli/pin.h"

static int run(BlCli *cli, char **args, GError **error) {
  return bl_pin_run(cli, args, FALSE, error);
}

const BlCommand bl_cmd_model_unpin = {
    .group = "model",
    .name = "unpin",
    .args = "CHECKPOINT [options]",
    .arg_kinds = "c-",
    .summary = "take a pin off: prune may remove the checkpoint",
    .text = "The checkpoint may be pruned again. Nothing is removed by this.\n",
    .examples = "ballast model unpin my-model\n",
    .options = bl_pin_options,
    .run = run,
};
