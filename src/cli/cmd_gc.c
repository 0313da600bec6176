#include "upkeep/gc.h"

#include "base/path.h"
#include "cli/config.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/identity.h"

#define DEFAULT_GRACE_S 3600
/* What a person is shown without -v. */
#define MAX_LINES 100u

static struct {
  char *grace;
  gboolean dry_run;
} opt;

static const GOptionEntry options[] = {
    {"grace", 0, 0, G_OPTION_ARG_FILENAME, &opt.grace,
     "remove what was first seen so long ago (1h; 0: at once)", "TIME"},
    {"dry-run", 'n', 0, G_OPTION_ARG_NONE, &opt.dry_run, "only say what would be removed", NULL},
    {NULL}};

static json_t *item_json(const BlGcItem *item) {
  json_t *json = json_object();
  json_object_set_new(json, "outcome", json_string(bl_gc_outcome_name(item->outcome)));
  json_object_set_new(json, "kind", json_string(bl_finding_name(item->kind)));
  json_object_set_new(json, "checkpoint_id", bl_json_text(item->checkpoint_id));
  json_object_set_new(json, "name", bl_json_text(item->name));
  json_object_set_new(json, "n_objects", bl_json_uint(item->n_objects));
  json_object_set_new(json, "n_bytes", bl_json_uint(item->n_bytes));
  json_object_set_new(json, "due_at", item->due_at > 0 ? json_integer(item->due_at) : json_null());
  return json;
}

static void print_json(BlCli *cli, const BlStore *store, const BlGcResult *result) {
  bl_out_json_open();
  bl_out_json_member("store", bl_json_text(store->url));
  bl_out_json_member("dry_run", json_boolean(opt.dry_run));
  bl_out_json_member("n_removed", bl_json_uint(result->n_removed));
  bl_out_json_member("n_restored", bl_json_uint(result->n_restored));
  bl_out_json_member("n_waiting", bl_json_uint(result->n_waiting));
  bl_out_json_member("n_skipped", bl_json_uint(result->n_skipped));
  bl_out_json_member("n_objects", bl_json_uint(result->n_objects));
  bl_out_json_member("n_bytes", bl_json_uint(result->n_bytes));
  bl_out_json_member("next_at", result->next_at > 0 ? json_integer(result->next_at) : json_null());
  bl_out_json_array_begin("items");
  for (guint i = 0; i < result->items->len; i++)
    bl_out_json_array_add(item_json(result->items->pdata[i]));
  bl_out_json_array_end();
  bl_out_json_close(cli);
}

static void print_item(const BlGcItem *item) {
  BlSizeText size;
  g_autofree char *id = item->checkpoint_id != NULL ? bl_path_display(item->checkpoint_id) : NULL;
  g_autofree char *name = item->name != NULL ? bl_path_display(item->name) : NULL;
  const char *word = opt.dry_run && item->outcome == BL_GC_REMOVED
                         ? "would remove"
                         : bl_gc_outcome_name(item->outcome);
  bl_out_line("%s: %s: %s (%s)", word, bl_finding_name(item->kind),
              name != NULL ? name : (id != NULL ? id : "-"), bl_size_format(size, item->n_bytes));
}

static void print_text(const BlCli *cli, const BlGcResult *result) {
  BlSizeText size;
  guint n = cli->verbose ? result->items->len : MIN(result->items->len, MAX_LINES);
  for (guint i = 0; i < n; i++) print_item(result->items->pdata[i]);
  if (result->items->len > n) bl_out_line("and more (-v shows them)");
  if (result->n_removed == 0)
    bl_out_done(cli, "nothing to remove%s", result->n_waiting > 0 ? " yet" : "");
  else
    bl_out_done(cli, "%s %" G_GUINT64_FORMAT " (%" G_GUINT64_FORMAT " %s, %s)",
                opt.dry_run ? "would remove" : "removed", result->n_removed, result->n_objects,
                result->n_objects == 1 ? "object" : "objects",
                bl_size_format(size, result->n_bytes));
  if (result->n_waiting == 0) return;
  g_autofree char *when = bl_time_format(result->next_at);
  bl_out_done(cli,
              "%" G_GUINT64_FORMAT
              " may go later: the first when \"ballast gc\" runs at %s or "
              "after",
              result->n_waiting, when);
}

/* What this user knows of checkpoints that are gone. */
static void forget(BlStore *store, const GPtrArray *items) {
  g_autofree char *state_folder = bl_config_state_folder();
  for (guint i = 0; i < items->len; i++) {
    const BlGcItem *item = items->pdata[i];
    if (item->outcome == BL_GC_REMOVED && item->kind == BL_FINDING_FAILED)
      bl_identities_remove(state_folder, store, item->checkpoint_id);
  }
}

static int run(BlCli *cli, char **args, GError **error) {
  BlGcOptions gc = {.grace_s = DEFAULT_GRACE_S, .dry_run = opt.dry_run};
  if (opt.grace != NULL && !bl_option_parse_duration("--grace", opt.grace, &gc.grace_s, error))
    return -1;
  if (!bl_args_end(args, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;

  BlGcResult result;
  bl_progress_start(&cli->progress, "gc");
  gboolean done = bl_gc(store, &gc, &cli->job, &result, error);
  bl_progress_stop(&cli->progress);
  if (done && !gc.dry_run) forget(store, result.items);
  if (done && cli->json)
    print_json(cli, store, &result);
  else if (done)
    print_text(cli, &result);
  bl_gc_result_clear(&result);
  return done ? 0 : -1;
}

const BlCommand bl_cmd_gc = {
    .name = "gc",
    .args = "[options]",
    .arg_kinds = "-",
    .summary = "remove what killed commands left in the store",
    .text =
        "Finds what nothing needs: checkpoints that FAILED and nobody works on, objects that no\n"
        "manifest names, temporary files, claims of dead owners, refs to what is gone. The first\n"
        "run records them; one that runs an hour later (--grace) removes those that are still\n"
        "there and the same. Nothing that is READY, in use or not ballast's is touched.\n",
    .examples =
        "ballast gc\n"
        "ballast gc --dry-run -v\n"
        "ballast gc --grace 0\n",
    .interrupted = "what was removed is gone, the rest waits for the next \"ballast gc\"",
    .options = options,
    .run = run,
};
