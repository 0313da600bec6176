#include "base/path.h"
#include "cli/config.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/catalog.h"

static struct { char *model_id; } opt;

static const GOptionEntry options[] = {{"model-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.model_id,
                                        "only this model's, as the argument", "MODEL_ID"},
                                       {NULL}};

static void print_json(BlCli *cli, const BlStore *store, const GPtrArray *checkpoints) {
  bl_out_json_open();
  bl_out_json_member("store", bl_json_text(store->url));
  bl_out_json_array_begin("checkpoints");
  for (guint i = 0; i < checkpoints->len; i++) {
    const BlCheckpoint *checkpoint = checkpoints->pdata[i];
    json_t *json = json_object();
    json_object_set_new(json, "checkpoint_id", bl_json_text(checkpoint->checkpoint_id));
    json_object_set_new(json, "model_id", bl_json_text(checkpoint->model_id));
    json_object_set_new(json, "revision", bl_json_text(checkpoint->revision));
    json_object_set_new(json, "status", json_string(bl_checkpoint_status_name(checkpoint->status)));
    json_object_set_new(json, "failure", bl_json_text(checkpoint->error));
    json_object_set_new(json, "pinned", json_boolean(checkpoint->is_pinned));
    json_object_set_new(json, "n_files", bl_json_uint(checkpoint->n_files));
    json_object_set_new(json, "total_size", bl_json_uint(checkpoint->total_size));
    json_object_set_new(json, "created_at", json_integer(checkpoint->created_at));
    json_object_set_new(json, "updated_at", json_integer(checkpoint->updated_at));
    bl_out_json_array_add(json);
  }
  bl_out_json_array_end();
  bl_out_json_close(cli);
}

static char *show(const char *text) {
  return text != NULL ? bl_path_display(text) : g_strdup("-");
}

static void fill_row(guint64 i, char **cells, gconstpointer user) {
  const BlCheckpoint *checkpoint = ((const GPtrArray *)user)->pdata[i];
  BlSizeText size, age;
  cells[0] = show(checkpoint->checkpoint_id);
  cells[1] = show(checkpoint->model_id);
  cells[2] = show(checkpoint->revision);
  cells[3] = g_strconcat(bl_checkpoint_status_name(checkpoint->status),
                         checkpoint->is_pinned ? ", pinned" : NULL, NULL);
  /* Without a manifest that can be read nothing more is known. */
  gboolean is_known = checkpoint->model_id != NULL;
  cells[4] = is_known ? g_strdup_printf("%" G_GUINT64_FORMAT, checkpoint->n_files) : g_strdup("-");
  cells[5] = g_strdup(is_known ? bl_size_format(size, checkpoint->total_size) : "-");
  cells[6] =
      g_strdup(checkpoint->created_at > 0 ? bl_age_format(age, checkpoint->created_at) : "-");
}

/* Caller frees. */
static char *advice(BlCheckpointStatus status, const char *id) {
  switch (status) {
    case BL_CHECKPOINT_FAILED:
    case BL_CHECKPOINT_CORRUPT:
      return g_strdup(" (import it again, or delete it)");
    case BL_CHECKPOINT_LEFTOVER:
      return g_strdup_printf(" (\"ballast model delete %s\" removes it)", id);
    case BL_CHECKPOINT_DEGRADED:
      return g_strdup_printf(" (\"ballast model repair %s\" mends it)", id);
    default:
      return g_strdup("");
  }
}

/* What is not READY and why, below the table; without -v only that there is more to know. */
static void print_errors(const BlCli *cli, const GPtrArray *checkpoints) {
  guint n = 0;
  for (guint i = 0; i < checkpoints->len; i++) {
    const BlCheckpoint *checkpoint = checkpoints->pdata[i];
    if (checkpoint->status == BL_CHECKPOINT_READY || checkpoint->error == NULL) continue;
    n++;
    if (!cli->verbose) continue;
    g_autofree char *id = show(checkpoint->checkpoint_id);
    g_autofree char *text = show(checkpoint->error);
    g_autofree char *next = advice(checkpoint->status, id);
    bl_out_line("%s: %s%s", id, text, next);
  }
  if (n > 0 && !cli->verbose)
    bl_out_done(cli, "%u %s not READY (\"ballast model list -v\" says why)", n,
                n == 1 ? "is" : "are");
}

static void print_table(BlCli *cli, const BlStore *store, GPtrArray *checkpoints,
                        const char *model_id) {
  static const char *const headings[] = {"CHECKPOINT", "MODEL", "REVISION", "STATUS",
                                         ">FILES",     ">SIZE", ">AGE"};
  if (checkpoints->len > 0) {
    bl_out_table(headings, G_N_ELEMENTS(headings), checkpoints->len, fill_row, checkpoints);
    print_errors(cli, checkpoints);
    return;
  }
  g_autofree char *url = bl_path_display(store->url);
  g_autofree char *model = show(model_id);
  if (model_id != NULL)
    bl_out_done(cli, "no checkpoints of model \"%s\" in %s (\"ballast model list\" shows all)",
                model, url);
  else
    bl_out_done(cli, "no checkpoints in %s (\"ballast model import FOLDER\" puts one in)", url);
}

static int run(BlCli *cli, char **args, GError **error) {
  const char *model_id = opt.model_id;
  if (model_id == NULL && *args != NULL) model_id = *args++;
  if (!bl_args_end(args, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;

  bl_progress_start(&cli->progress, "list");
  g_autoptr(GPtrArray) checkpoints = bl_catalog_list(store, model_id, &cli->job, error);
  bl_progress_stop(&cli->progress);
  if (checkpoints == NULL) return -1;
  if (cli->json)
    print_json(cli, store, checkpoints);
  else
    print_table(cli, store, checkpoints, model_id);
  return 0;
}

const BlCommand bl_cmd_model_list = {
    .group = "model",
    .name = "list",
    .args = "[MODEL_ID] [options]",
    .arg_kinds = "m-",
    .summary = "list the checkpoints in the store",
    .text =
        "Lists every checkpoint, or one model's. READY ones can be used; with -v the reason\n"
        "stands below for each that is not. Of a DEGRADED one files are missing or damaged:\n"
        "\"ballast model repair\" mends it.\n",
    .examples =
        "ballast model list\n"
        "ballast model list my-model --json\n",
    .options = options,
    .run = run,
};
