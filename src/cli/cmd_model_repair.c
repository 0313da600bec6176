#include "model/repair.h"

#include "base/path.h"
#include "cli/config.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"

static struct {
  char *checkpoint_id, *wait;
  char **from;
  gboolean dry_run;
} opt;

static const GOptionEntry options[] = {
    {"from", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &opt.from,
     "a folder or store that has the files; may be repeated", "PLACE"},
    {"dry-run", 'n', 0, G_OPTION_ARG_NONE, &opt.dry_run, "say what would be mended; write nothing",
     NULL},
    {"wait", 0, 0, G_OPTION_ARG_FILENAME, &opt.wait, "wait while another process works on it",
     "[=SECONDS]"},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

static void print_items(const char *name, const char *text_name, const GPtrArray *items) {
  bl_out_json_array_begin(name);
  for (guint i = 0; i < items->len; i++) {
    const BlRepairItem *item = items->pdata[i];
    json_t *json = json_object();
    json_object_set_new(json, "path", bl_json_text(item->path));
    json_object_set_new(json, text_name, bl_json_text(item->text));
    bl_out_json_array_add(json);
  }
  bl_out_json_array_end();
}

static const char *outcome_name(const BlRepairResult *result) {
  if (result->left->len > 0) return "incomplete";
  if (result->mended->len == 0) return "nothing-to-do";
  return opt.dry_run ? "would-repair" : "repaired";
}

static void print_json(BlCli *cli, const char *id, const BlRepairResult *result,
                       gint64 elapsed_us) {
  bl_out_json_open();
  bl_out_json_member("checkpoint_id", bl_json_text(id));
  bl_out_json_member("outcome", json_string(outcome_name(result)));
  bl_out_json_member("dry_run", json_boolean(opt.dry_run));
  bl_out_json_member("n_files", bl_json_uint(result->n_files));
  bl_out_json_member("n_bytes", bl_json_uint(result->n_bytes));
  bl_out_json_member("n_files_bad", bl_json_uint(result->n_files_bad));
  bl_out_json_member("n_files_mended", bl_json_uint(result->n_files_mended));
  bl_out_json_member("n_bytes_written", bl_json_uint(result->n_bytes_written));
  bl_out_json_member("n_bytes_shared", bl_json_uint(result->n_bytes_shared));
  bl_out_json_member("digests_written", json_boolean(result->digests_written));
  bl_out_json_member("info_written", json_boolean(result->info_written));
  bl_out_json_member("elapsed_ms", json_integer(elapsed_us / 1000));
  print_items("mended", "from", result->mended);
  print_items("left", "text", result->left);
  bl_out_json_close(cli);
}

static void print_item(const BlCli *cli, const BlRepairItem *item, gboolean is_mended) {
  g_autofree char *path = item->path != NULL ? bl_path_display(item->path) : NULL;
  if (!is_mended)
    bl_out_line("not mended: \"%s\": %s", path, item->text);
  else if (path != NULL)
    bl_out_done(cli, "%s: \"%s\", from %s", opt.dry_run ? "would mend" : "mended", path,
                item->text);
  else
    bl_out_done(cli, "%s: %s", opt.dry_run ? "would mend" : "mended", item->text);
}

static void print_result(const BlCli *cli, const char *id, const BlRepairResult *result) {
  BlSizeText written, shared, files;
  for (guint i = 0; i < result->mended->len; i++) print_item(cli, result->mended->pdata[i], TRUE);
  for (guint i = 0; i < result->left->len; i++) print_item(cli, result->left->pdata[i], FALSE);
  if (result->left->len == 0 && result->mended->len == 0) {
    bl_out_done(cli, "nothing to do: %s is whole (%s)", id,
                bl_files_format(files, result->n_files));
    return;
  }
  const char *verb = result->left->len == 0     ? "repaired"
                     : result->mended->len == 0 ? "not repaired:"
                                                : "partly repaired";
  bl_size_format(written, result->n_bytes_written);
  bl_size_format(shared, result->n_bytes_shared);
  if (opt.dry_run)
    bl_out_done(cli, "%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bad files of %s can be mended",
                result->n_files_mended, result->n_files_bad, id);
  else
    bl_out_done(cli,
                "%s %s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                " bad files mended (%s written, %s shared)",
                verb, id, result->n_files_mended, result->n_files_bad, written, shared);
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  BlRepairOptions repair = {.from = opt.from, .dry_run = opt.dry_run};
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error) || !bl_args_end(args, error)) return -1;
  if (opt.wait != NULL && !bl_option_parse_wait(opt.wait, &repair.wait_ms, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;
  g_autofree char *id = bl_name_resolve(&name, store, error);
  if (id == NULL) return -1;

  gint64 start_us = g_get_monotonic_time();
  bl_progress_start(&cli->progress, "repair");
  g_autoptr(BlRepairResult) result = bl_repair(store, id, &repair, &cli->job, error);
  bl_progress_stop(&cli->progress);
  if (result == NULL) return -1;
  if (cli->json)
    print_json(cli, id, result, g_get_monotonic_time() - start_us);
  else
    print_result(cli, id, result);
  return result->left->len > 0 ? bl_error_exit_code(BL_ERROR_CORRUPT) : 0;
}

const BlCommand bl_cmd_model_repair = {
    .group = "model",
    .name = "repair",
    .args = "CHECKPOINT [options]",
    .arg_kinds = "c-",
    .summary = "put back what a checkpoint has lost or damaged",
    .text =
        "Checks every byte and puts back only what is bad: from an identical file of another\n"
        "checkpoint in the store, from the places that --from names, or from the folder that\n"
        "was imported. Nothing is replaced before a source's SHA-256 is right. What cannot be\n"
        "mended is named, and the exit code is 4.\n",
    .examples =
        "ballast model repair my-model\n"
        "ballast model repair my-model --from ./my-model --from file:///mnt/other-store\n",
    .interrupted = "files that are mended stay so; run the same command again to go on",
    .options = options,
    .run = run,
};
