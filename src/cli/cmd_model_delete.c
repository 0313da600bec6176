#include "cli/config.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/identity.h"
#include "model/remove.h"

static struct { char *checkpoint_id, *wait; } opt;

static const GOptionEntry options[] = {
    {"wait", 0, 0, G_OPTION_ARG_FILENAME, &opt.wait, "wait while another process works on it",
     "[=SECONDS]"},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

static void print_json(BlCli *cli, const BlRemoveResult *result) {
  bl_out_json_open();
  bl_out_json_member("checkpoint_id", bl_json_text(result->checkpoint_id));
  bl_out_json_member("n_objects", bl_json_uint(result->n_objects));
  bl_out_json_member("n_bytes", bl_json_uint(result->n_bytes));
  bl_out_json_member("n_refs", bl_json_uint(result->n_refs));
  bl_out_json_close(cli);
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  gint wait_ms = 0;
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error) || !bl_args_end(args, error)) return -1;
  if (opt.wait != NULL && !bl_option_parse_wait(opt.wait, &wait_ms, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;
  g_autofree char *id = bl_name_resolve(&name, store, error);
  if (id == NULL) return -1;

  BlRemoveResult result = {NULL};
  bl_progress_start(&cli->progress, "delete");
  gboolean done = bl_remove(store, id, wait_ms, &cli->job, &result, error);
  bl_progress_stop(&cli->progress);
  if (done) {
    g_autofree char *state_folder = bl_config_state_folder();
    bl_identities_remove(state_folder, store, id);
  }
  if (done && cli->json) print_json(cli, &result);
  if (done && !cli->json) {
    BlSizeText size;
    bl_out_done(cli, "deleted %s (%" G_GUINT64_FORMAT " objects, %s)", id, result.n_objects,
                bl_size_format(size, result.n_bytes));
  }
  bl_remove_result_clear(&result);
  return done ? 0 : -1;
}

const BlCommand bl_cmd_model_delete = {
    .group = "model",
    .name = "delete",
    .args = "CHECKPOINT [options]",
    .arg_kinds = "c-",
    .summary = "remove a checkpoint from the store",
    .text =
        "Removes the checkpoint and all that belongs to it, without asking. It also removes\n"
        "what a failed import left. A delete that was killed is finished by the next one.\n",
    .examples = "ballast model delete my-model\n",
    .interrupted =
        "the checkpoint is half removed and not shown as ready; run the same command "
        "again to finish",
    .options = options,
    .run = run,
};
