#include "base/path.h"
#include "cli/config.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/verify.h"

static struct {
  char *checkpoint_id, *subset;
  char **include, **exclude;
  gboolean deep, quick;
} opt;

static const GOptionEntry options[] = {
    {"deep", 0, 0, G_OPTION_ARG_NONE, &opt.deep,
     "also the headers of model files and the shard index", NULL},
    {"quick", 0, 0, G_OPTION_ARG_NONE, &opt.quick,
     "read only what changed since it was last checked here", NULL},
    {"subset", 0, 0, G_OPTION_ARG_FILENAME, &opt.subset,
     "only part N of T; runs 1/T to T/T check everything", "N/T"},
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
  bl_out_json_member("n_files_read", bl_json_uint(result->n_files_read));
  bl_out_json_member("n_bytes_read", bl_json_uint(result->n_bytes_read));
  bl_out_json_member("n_files_bad", bl_json_uint(result->n_files_bad));
  bl_out_json_member("digests_written", json_boolean(result->digests_written));
  bl_out_json_member("degraded", json_boolean(result->is_degraded));
  bl_out_json_member("not_recorded", bl_json_text(result->not_recorded));
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

static void print_state(const BlCli *cli, const char *id, const BlVerifyResult *result) {
  if (result->not_recorded != NULL) {
    if (cli->verbose) bl_out_done(cli, "%s: nothing was recorded: %s", id, result->not_recorded);
  } else if (result->is_degraded) {
    bl_out_line("%s is DEGRADED and not given out until it is repaired", id);
  } else if (result->was_degraded) {
    bl_out_done(cli, "%s was DEGRADED and is READY again", id);
  }
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

  /* What was imported damaged (--force) is found by --deep, and nothing mends it. */
  g_autofree char *advice =
      opt.deep ? g_strdup("") : g_strdup_printf(" (\"ballast model repair %s\" mends it)", id);
  if (result->n_files_bad > 0)
    bl_out_line("%s: %" G_GUINT64_FORMAT " of %s %s bad%s", id, result->n_files_bad,
                bl_files_format(files, result->n_files), result->n_files_bad == 1 ? "is" : "are",
                advice);
  else if (bl_verify_result_is_bad(result))
    bl_out_line("%s: the files are right, the checkpoint is not%s", id, advice);
  else
    bl_out_done(cli, "verified %s%s%s: all right", opt.subset != NULL ? opt.subset : "",
                opt.subset != NULL ? " of " : "", id);
  if (opt.quick)
    bl_out_done(cli, "%" G_GUINT64_FORMAT " unchanged, %" G_GUINT64_FORMAT " read",
                result->n_files - result->n_files_read, result->n_files_read);
  if (!bl_verify_result_is_bad(result) && result->n_files_read > 0)
    bl_out_done_amount(cli, result->n_files_read, result->n_bytes_read, elapsed_us);
  print_state(cli, id, result);
  if (result->digests_written)
    bl_out_done(cli, "%s: block digests were missing and have been written", id);
}

/* "2/7". */
static gboolean parse_subset(BlVerifyOptions *verify, GError **error) {
  guint64 part = 0, n = 0;
  g_auto(GStrv) numbers = g_strsplit(opt.subset, "/", 2);
  if (g_strv_length(numbers) == 2 &&
      g_ascii_string_to_unsigned(numbers[1], 10, 1, BL_VERIFY_MAX_SUBSETS, &n, NULL) &&
      g_ascii_string_to_unsigned(numbers[0], 10, 1, n, &part, NULL)) {
    verify->subset = (guint)part;
    verify->n_subsets = (guint)n;
    return TRUE;
  }
  g_autofree char *shown = bl_path_display(opt.subset);
  return bl_error_set(error, BL_ERROR_INVALID,
                      "--subset %s: give a part and the number of parts, as in 2/7 (at most %u "
                      "parts)",
                      shown, BL_VERIFY_MAX_SUBSETS);
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  g_autofree char *state_folder = bl_config_state_folder();
  BlVerifyOptions verify = {.deep = opt.deep,
                            .quick = opt.quick,
                            .include = opt.include,
                            .exclude = opt.exclude,
                            .state_folder = state_folder};
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error) || !bl_args_end(args, error)) return -1;
  if (opt.subset != NULL && !parse_subset(&verify, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;
  g_autofree char *id = bl_name_resolve(&name, store, error);
  if (id == NULL) return -1;

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
  if (bl_verify_result_is_bad(result)) return bl_error_exit_code(BL_ERROR_CORRUPT);
  return result->is_record_lost ? bl_error_exit_code(BL_ERROR_IO) : 0;
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
        "where something is bad. --quick reads only files that changed, by the file system's\n"
        "word, since this user last checked them here.\n",
    .examples =
        "ballast model verify my-model\n"
        "ballast model verify my-model --quick\n"
        "ballast model verify my-model --subset 2/7\n"
        "ballast model verify my-model --deep --include '*.safetensors'\n",
    .interrupted =
        "what was found right is remembered; with --quick the same command goes on "
        "from there",
    .options = options,
    .run = run,
};
