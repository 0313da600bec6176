#include "upkeep/prune.h"

#include "base/path.h"
#include "cli/config.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/identity.h"

static struct {
  char *max_bytes, *older_than, *model_id;
  gboolean yes;
} opt;

static const GOptionEntry options[] = {
    {"max-bytes", 0, 0, G_OPTION_ARG_FILENAME, &opt.max_bytes,
     "until the store holds no more (default: its own limit)", "SIZE"},
    {"older-than", 0, 0, G_OPTION_ARG_FILENAME, &opt.older_than,
     "all that were not used for so long (30d, 12h)", "TIME"},
    {"model-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.model_id, "only this model's checkpoints",
     "MODEL_ID"},
    {"yes", 0, 0, G_OPTION_ARG_NONE, &opt.yes, "remove them; else they are only named", NULL},
    {NULL}};

static json_t *item_json(const BlPruneItem *item) {
  json_t *json = json_object();
  json_object_set_new(json, "checkpoint_id", bl_json_text(item->checkpoint_id));
  json_object_set_new(json, "model_id", bl_json_text(item->model_id));
  json_object_set_new(json, "revision", bl_json_text(item->revision));
  json_object_set_new(json, "total_size", bl_json_uint(item->n_bytes));
  json_object_set_new(json, "freed_bytes", bl_json_uint(item->n_freed));
  json_object_set_new(json, "used_at", json_integer(item->used_at));
  json_object_set_new(json, "reason", bl_json_text(item->reason));
  return json;
}

static void print_items(const char *name, const GPtrArray *items) {
  bl_out_json_array_begin(name);
  for (guint i = 0; i < items->len; i++) bl_out_json_array_add(item_json(items->pdata[i]));
  bl_out_json_array_end();
}

static void print_json(BlCli *cli, const BlStore *store, const BlPruneOptions *prune,
                       const BlPruneResult *result) {
  bl_out_json_open();
  bl_out_json_member("store", bl_json_text(store->url));
  bl_out_json_member("dry_run", json_boolean(prune->dry_run));
  bl_out_json_member("ok", json_boolean(result->is_reached));
  bl_out_json_member(
      "max_bytes", prune->max_bytes == G_MAXUINT64 ? json_null() : bl_json_uint(prune->max_bytes));
  bl_out_json_member("used_bytes", bl_json_uint(result->n_used));
  bl_out_json_member("freed_bytes", bl_json_uint(result->n_freed));
  print_items("removed", result->gone);
  print_items("spared", result->spared);
  bl_out_json_close(cli);
}

static void print_text(const BlCli *cli, const BlPruneOptions *prune, const BlPruneResult *result) {
  BlSizeText size, age, used;
  for (guint i = 0; i < result->gone->len; i++) {
    const BlPruneItem *item = result->gone->pdata[i];
    bl_out_line("%s: %s (%s %s, %s %s ago)", prune->dry_run ? "would remove" : "removed",
                item->checkpoint_id, prune->dry_run ? "frees" : "freed",
                bl_size_format(size, item->n_freed),
                item->was_read ? "last used" : "never used, imported",
                bl_age_format(age, item->used_at));
  }
  for (guint i = 0; i < result->spared->len; i++) {
    const BlPruneItem *item = result->spared->pdata[i];
    g_autofree char *reason = bl_path_display(item->reason);
    bl_out_line("spared: %s: %s", item->checkpoint_id, reason);
  }
  if (result->gone->len == 0) {
    bl_out_done(cli, "nothing to remove (the store holds %s)",
                bl_size_format(used, result->n_used));
    return;
  }
  bl_out_done(cli, "%s %s of %s%s", prune->dry_run ? "would free" : "freed",
              bl_size_format(size, result->n_freed), bl_size_format(used, result->n_used),
              prune->dry_run ? " (--yes does it)" : "");
}

/* What the command line asks for, or else the store's own limit. */
static gboolean take_goals(BlStore *store, BlPruneOptions *prune, GError **error) {
  BlStoreSettings settings;
  if (opt.max_bytes != NULL &&
      !bl_option_parse_size("--max-bytes", opt.max_bytes, &prune->max_bytes, error))
    return FALSE;
  if (opt.older_than != NULL &&
      !bl_option_parse_duration("--older-than", opt.older_than, &prune->older_than_s, error))
    return FALSE;
  if (opt.max_bytes != NULL || opt.older_than != NULL) return TRUE;
  if (!bl_store_get_settings(store, &settings, error)) return FALSE;
  prune->max_bytes = settings.max_bytes;
  return settings.max_bytes != G_MAXUINT64 ||
         bl_error_set(error, BL_ERROR_INVALID,
                      "the store has no limit of its own: give --max-bytes SIZE or --older-than "
                      "TIME (or set one with \"ballast store set --max-bytes SIZE\")");
}

/* Names what is in the way. */
static gboolean set_missed(const BlPruneResult *result, GError **error) {
  BlSizeText size;
  GString *names = g_string_new(NULL);
  for (guint i = 0; i < result->spared->len && i < 5; i++) {
    const BlPruneItem *item = result->spared->pdata[i];
    g_string_append_printf(names, "%s\"%s\" (%s)", i > 0 ? ", " : "", item->checkpoint_id,
                           item->reason);
  }
  if (result->spared->len > 5)
    g_string_append_printf(names, " and %u more", result->spared->len - 5);
  g_autofree char *text = g_string_free(names, FALSE);
  g_autofree char *shown = bl_path_display(text);
  guint64 n_left = result->n_used - MIN(result->n_used, result->n_freed);
  return bl_error_set(error, BL_ERROR_NO_SPACE,
                      "prune cannot reach its goal: %s stay; in the way: %s",
                      bl_size_format(size, n_left),
                      shown[0] != '\0' ? shown : "what belongs to no checkpoint (\"ballast gc\")");
}

/* What this user knows of checkpoints that are gone. */
static void forget(BlStore *store, const GPtrArray *gone) {
  g_autofree char *state_folder = bl_config_state_folder();
  for (guint i = 0; i < gone->len; i++) {
    const BlPruneItem *item = gone->pdata[i];
    bl_identities_remove(state_folder, store, item->checkpoint_id);
  }
}

static int run(BlCli *cli, char **args, GError **error) {
  BlPruneOptions prune = BL_PRUNE_OPTIONS_INIT;
  if (!bl_args_end(args, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL || !take_goals(store, &prune, error)) return -1;
  prune.model_id = opt.model_id;
  prune.dry_run = !opt.yes;

  BlPruneResult result;
  bl_progress_start(&cli->progress, "prune");
  gboolean done = bl_prune(store, &prune, &cli->job, &result, error);
  bl_progress_stop(&cli->progress);
  int code = done ? 0 : -1;
  if (done && !prune.dry_run) forget(store, result.gone);
  if (done && cli->json) {
    print_json(cli, store, &prune, &result);
    if (!result.is_reached) code = bl_error_exit_code(BL_ERROR_NO_SPACE);
  } else if (done) {
    print_text(cli, &prune, &result);
    if (!result.is_reached) code = -1;
    if (!result.is_reached) set_missed(&result, error);
  }
  bl_prune_result_clear(&result);
  return code;
}

const BlCommand bl_cmd_prune = {
    .name = "prune",
    .args = "[options]",
    .arg_kinds = "-",
    .summary = "remove checkpoints that were not used for long",
    .text =
        "Removes whole checkpoints, the least recently used first, until the store holds no more\n"
        "than --max-bytes, and all that were not used for --older-than. Without either, until\n"
        "the store is within its own limit. Pinned ones, ones in use, and ones that are not\n"
        "READY stay. Without --yes it only says what would go, and what that frees.\n",
    .examples =
        "ballast prune --max-bytes 500GiB\n"
        "ballast prune --older-than 30d --yes\n",
    .interrupted = "what was removed is gone, the rest is as it was",
    .options = options,
    .run = run,
};
