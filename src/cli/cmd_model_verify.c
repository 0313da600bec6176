#include "cli/config.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/verify.h"

static struct {
  char *checkpoint_id;
  char **include, **exclude;
  gboolean deep;
} opt;

static const GOptionEntry options[] = {
    {"deep", 0, 0, G_OPTION_ARG_NONE, &opt.deep,
     "also the headers of model files and the shard index", NULL},
    {"include", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &opt.include,
     "only files that match; may be repeated", "GLOB"},
    {"exclude", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &opt.exclude,
     "no files that match; may be repeated", "GLOB"},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

static const char *kind_name(BlFindingKind kind) {
  static const char *const names[] = {
      [BL_FINDING_MISSING] = "missing",       [BL_FINDING_SIZE] = "size",
      [BL_FINDING_BLOCK] = "block",           [BL_FINDING_SHA256] = "sha256",
      [BL_FINDING_DIGESTS] = "digests",       [BL_FINDING_INFO] = "info",
      [BL_FINDING_UNREADABLE] = "unreadable", [BL_FINDING_FORMAT] = "format",
      [BL_FINDING_WARNING] = "warning",
  };
  return names[kind];
}

static void print_json(BlCli *cli, const char *id, const BlVerifyResult *result,
                       gint64 elapsed_us) {
  bl_out_json_open();
  bl_out_json_member("checkpoint_id", bl_json_text(id));
  bl_out_json_member("ok", json_boolean(!bl_verify_result_is_bad(result)));
  bl_out_json_member("deep", json_boolean(opt.deep));
  bl_out_json_member("n_files", bl_json_uint(result->n_files));
  bl_out_json_member("n_bytes", bl_json_uint(result->n_bytes));
  bl_out_json_member("n_files_bad", bl_json_uint(result->n_files_bad));
  bl_out_json_member("digests_written", json_boolean(result->digests_written));
  bl_out_json_member("elapsed_ms", json_integer(elapsed_us / 1000));
  bl_out_json_member("n_findings", bl_json_uint(result->n_findings));
  bl_out_json_array_begin("findings");
  for (guint i = 0; i < result->findings->len; i++) {
    const BlFinding *finding = result->findings->pdata[i];
    json_t *json = json_object();
    json_object_set_new(json, "kind", json_string(kind_name(finding->kind)));
    json_object_set_new(json, "path", bl_json_text(finding->path));
    json_object_set_new(json, "offset", bl_json_uint(finding->offset));
    json_object_set_new(json, "size", bl_json_uint(finding->size));
    json_object_set_new(
        json, "block",
        finding->kind == BL_FINDING_BLOCK ? bl_json_uint(finding->block) : json_null());
    json_object_set_new(json, "text", bl_json_text(finding->text));
    bl_out_json_array_add(json);
  }
  bl_out_json_array_end();
  bl_out_json_close(cli);
}

static void print_result(const BlCli *cli, const char *id, const BlVerifyResult *result,
                         gint64 elapsed_us) {
  BlSizeText files;
  for (guint i = 0; i < result->findings->len; i++) {
    const BlFinding *finding = result->findings->pdata[i];
    bl_out_line("%s: %s", finding->kind == BL_FINDING_WARNING ? "warning" : "bad", finding->text);
  }
  if (result->n_findings > result->findings->len)
    bl_out_line("%" G_GUINT64_FORMAT " more findings", result->n_findings - result->findings->len);

  /* What was imported damaged (--force) is found by --deep, and no import mends it. */
  const char *advice = opt.deep ? "" : " (importing the same source again mends it)";
  if (result->n_files_bad > 0)
    bl_out_line("%s: %" G_GUINT64_FORMAT " of %s %s bad%s", id, result->n_files_bad,
                bl_files_format(files, result->n_files), result->n_files_bad == 1 ? "is" : "are",
                advice);
  else if (bl_verify_result_is_bad(result))
    bl_out_line("%s: the files are right, the checkpoint is not%s", id, advice);
  else
    bl_out_done(cli, "verified %s: all right", id);
  if (!bl_verify_result_is_bad(result))
    bl_out_done_amount(cli, result->n_files, result->n_bytes, elapsed_us);
  if (result->digests_written)
    bl_out_done(cli, "%s: block digests were missing and have been written", id);
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error) || !bl_args_end(args, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;
  g_autofree char *id = bl_name_resolve(&name, store, error);
  if (id == NULL) return -1;

  BlVerifyOptions verify = {.deep = opt.deep, .include = opt.include, .exclude = opt.exclude};
  gint64 start_us = g_get_monotonic_time();
  bl_progress_start(&cli->progress, "verify");
  g_autoptr(BlVerifyResult) result = bl_verify(store, id, &verify, &cli->job, error);
  bl_progress_stop(&cli->progress);
  if (result == NULL) return -1;
  gint64 elapsed_us = g_get_monotonic_time() - start_us;
  if (cli->json)
    print_json(cli, id, result, elapsed_us);
  else
    print_result(cli, id, result, elapsed_us);
  return bl_verify_result_is_bad(result) ? bl_error_exit_code(BL_ERROR_CORRUPT) : 0;
}

const BlCommand bl_cmd_model_verify = {
    .group = "model",
    .name = "verify",
    .args = "CHECKPOINT [options]",
    .arg_kinds = "c-",
    .summary = "read every byte again and compare it with its digests",
    .text =
        "Reads the checkpoint's files on all cores, compares them with the SHA-256 of the\n"
        "manifest and the digest of each block, and names every bad block. Exit code 4\n"
        "where something is bad.\n",
    .examples =
        "ballast model verify my-model\n"
        "ballast model verify my-model --deep --include '*.safetensors'\n",
    .interrupted = "nothing was changed; run the same command again to check from the start",
    .options = options,
    .run = run,
};
