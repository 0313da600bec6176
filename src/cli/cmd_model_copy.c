#include "model/copy.h"

#include "cli/config.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"

static struct { char *to, *checkpoint_id, *file_chunk_size, *wait; } opt;

static const GOptionEntry options[] = {
    {"to", 0, 0, G_OPTION_ARG_FILENAME, &opt.to, "the store to copy into; it is made if need be",
     "URL"},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "its id there (default: the same)", "ID"},
    {"file-chunk-size", 0, 0, G_OPTION_ARG_FILENAME, &opt.file_chunk_size,
     "cut files there (default: as that store prefers)", "SIZE"},
    {"wait", 0, 0, G_OPTION_ARG_FILENAME, &opt.wait, "wait while another process works on it",
     "[=SECONDS]"},
    {NULL}};

static void print_json(BlCli *cli, const char *id, const BlStore *to, const BlCopyResult *result,
                       gint64 elapsed_us) {
  bl_out_json_open();
  bl_out_json_member("outcome", json_string(result->was_there ? "already-there" : "copied"));
  bl_out_json_member("from_checkpoint_id", bl_json_text(id));
  bl_out_json_member("checkpoint_id", bl_json_text(result->checkpoint_id));
  bl_out_json_member("to", bl_json_text(to->url));
  bl_out_json_member("n_files", bl_json_uint(result->n_files));
  bl_out_json_member("n_bytes", bl_json_uint(result->n_bytes));
  bl_out_json_member("n_files_written", bl_json_uint(result->n_files_written));
  bl_out_json_member("n_bytes_written", bl_json_uint(result->n_bytes_written));
  bl_out_json_member("n_files_shared", bl_json_uint(result->n_files_shared));
  bl_out_json_member("n_bytes_shared", bl_json_uint(result->n_bytes_shared));
  bl_out_json_member("n_refs", bl_json_uint(result->n_refs));
  bl_out_json_member("elapsed_ms", json_integer(elapsed_us / 1000));
  bl_out_json_member("mended", bl_json_texts(result->mended));
  bl_out_json_close(cli);
}

static void print_result(const BlCli *cli, const char *id, const BlStore *to,
                         const BlCopyResult *result, gint64 elapsed_us) {
  BlSizeText files, size;
  for (guint i = 0; i < result->mended->len; i++)
    bl_out_done(cli, "mended: %s", (const char *)result->mended->pdata[i]);
  if (result->was_there) {
    bl_out_done(cli, "already there: %s in %s (%s)", result->checkpoint_id, to->url,
                bl_files_format(files, result->n_files));
    return;
  }
  bl_out_done(cli, "copied %s to %s as %s", id, to->url, result->checkpoint_id);
  bl_out_done_amount(cli, result->n_files_written, result->n_bytes_written, elapsed_us);
  if (result->n_files_shared > 0)
    bl_out_done(cli, "%s shared (%s)", bl_files_format(files, result->n_files_shared),
                bl_size_format(size, result->n_bytes_shared));
}

static gboolean parse_options(BlCopyOptions *copy, GError **error) {
  if (opt.to == NULL)
    return bl_error_set(error, BL_ERROR_INVALID,
                        "--to URL is missing: it names the store to copy into");
  if (opt.wait != NULL && !bl_option_parse_wait(opt.wait, &copy->wait_ms, error)) return FALSE;
  if (opt.file_chunk_size == NULL) return TRUE;
  if (!bl_option_parse_size("--file-chunk-size", opt.file_chunk_size, &copy->file_chunk_size,
                            error))
    return FALSE;
  return copy->file_chunk_size > 0 ||
         bl_error_set(error, BL_ERROR_INVALID, "--file-chunk-size: a chunk has at least 1 byte");
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  g_autofree char *state_folder = bl_config_state_folder();
  BlCopyOptions copy = {.checkpoint_id = opt.checkpoint_id, .state_folder = state_folder};
  if (!bl_name_take(&name, NULL, &args, error) || !bl_args_end(args, error)) return -1;
  if (!parse_options(&copy, error)) return -1;
  g_autoptr(BlStore) from = bl_config_open_store(cli, FALSE, error);
  if (from == NULL) return -1;
  g_autofree char *id = bl_name_resolve(&name, from, error);
  if (id == NULL) return -1;
  g_autoptr(BlStore) to = bl_config_open_url(opt.to, TRUE, error);
  if (to == NULL) {
    g_prefix_error(error, "--to: ");
    return -1;
  }

  gint64 start_us = g_get_monotonic_time();
  bl_progress_start(&cli->progress, "copy");
  g_autoptr(BlCopyResult) result = bl_copy(from, id, to, &copy, &cli->job, error);
  bl_progress_stop(&cli->progress);
  if (result == NULL) return -1;
  gint64 elapsed_us = g_get_monotonic_time() - start_us;
  if (cli->json)
    print_json(cli, id, to, result, elapsed_us);
  else
    print_result(cli, id, to, result, elapsed_us);
  return 0;
}

const BlCommand bl_cmd_model_copy = {
    .group = "model",
    .name = "copy",
    .args = "CHECKPOINT --to URL [options]",
    .arg_kinds = "c-",
    .summary = "copy a checkpoint into another store",
    .text =
        "Copies from store to store, without a folder between; files are cut anew as the other\n"
        "store keeps them. Every byte that passes is checked; between two local stores on a\n"
        "file system with reflinks nothing is read at all. What is there already is compared.\n",
    .examples =
        "ballast model copy my-model --to file:///mnt/other-store\n"
        "ballast model copy my-model --to /mnt/other-store --checkpoint-id my-copy\n",
    .interrupted = "what is copied is kept; run the same command again to go on",
    .options = options,
    .run = run,
};
