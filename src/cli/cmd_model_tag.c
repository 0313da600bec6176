#include <string.h>

#include "base/path.h"
#include "cli/config.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/key.h"
#include "model/manifest.h"
#include "model/ref.h"
#include "model/tag.h"

static struct {
  char *checkpoint_id;
  gboolean list, move, remove;
} opt;

static const GOptionEntry options[] = {
    {"list", 0, 0, G_OPTION_ARG_NONE, &opt.list, "list the refs, of MODEL_ID or of all", NULL},
    {"move", 0, 0, G_OPTION_ARG_NONE, &opt.move,
     "also where the ref means another checkpoint by now", NULL},
    {"remove", 0, 0, G_OPTION_ARG_NONE, &opt.remove, "remove the ref MODEL_ID@REF", NULL},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

/* A listed ref, and whether what it means is there. */
typedef struct {
  const GPtrArray *refs; /* of BlRef */
  guint8 *is_dangling;
} Listing;

static gboolean find_dangling(BlStore *store, Listing *listing, GError **error) {
  for (guint i = 0; i < listing->refs->len; i++) {
    const BlRef *ref = listing->refs->pdata[i];
    gboolean is_there = FALSE;
    if (bl_checkpoint_id_check(ref->checkpoint_id, NULL) &&
        !bl_manifest_exists(store, ref->checkpoint_id, &is_there, error))
      return FALSE;
    listing->is_dangling[i] = !is_there;
  }
  return TRUE;
}

static void print_list_json(BlCli *cli, const BlStore *store, const Listing *listing) {
  bl_out_json_open();
  bl_out_json_member("store", bl_json_text(store->url));
  bl_out_json_array_begin("refs");
  for (guint i = 0; i < listing->refs->len; i++) {
    const BlRef *ref = listing->refs->pdata[i];
    json_t *json = json_object();
    json_object_set_new(json, "model_id", bl_json_text(ref->model_id));
    json_object_set_new(json, "ref", bl_json_text(ref->ref));
    json_object_set_new(json, "checkpoint_id", bl_json_text(ref->checkpoint_id));
    json_object_set_new(json, "dangling", json_boolean(listing->is_dangling[i]));
    json_object_set_new(json, "updated_at", json_integer(ref->updated_at));
    bl_out_json_array_add(json);
  }
  bl_out_json_array_end();
  bl_out_json_close(cli);
}

static void fill_row(guint64 i, char **cells, gconstpointer user) {
  const Listing *listing = user;
  const BlRef *ref = listing->refs->pdata[i];
  BlSizeText age;
  cells[0] = bl_path_display(ref->model_id);
  cells[1] = bl_path_display(ref->ref);
  cells[2] = bl_path_display(ref->checkpoint_id);
  cells[3] = g_strdup(listing->is_dangling[i] ? "dangling" : "");
  cells[4] = g_strdup(ref->updated_at > 0 ? bl_age_format(age, ref->updated_at) : "-");
}

static void print_list(const BlCli *cli, const BlStore *store, const Listing *listing,
                       const char *model_id) {
  static const char *const headings[] = {"MODEL", "REF", "CHECKPOINT", "NOTE", ">AGE"};
  if (listing->refs->len > 0) {
    bl_out_table(headings, G_N_ELEMENTS(headings), listing->refs->len, fill_row, listing);
    return;
  }
  g_autofree char *url = bl_path_display(store->url);
  g_autofree char *model = model_id != NULL ? bl_path_display(model_id) : NULL;
  if (model != NULL)
    bl_out_done(cli, "no refs of model \"%s\" in %s (\"ballast model tag --list\" shows all)",
                model, url);
  else
    bl_out_done(cli, "no refs in %s (\"ballast model tag CHECKPOINT REF\" sets one)", url);
}

static int run_list(BlCli *cli, BlStore *store, char **args, GError **error) {
  const char *model_id = *args != NULL ? *args++ : NULL;
  if (!bl_args_end(args, error) || (model_id != NULL && !bl_model_id_check(model_id, error)))
    return -1;
  g_autoptr(GPtrArray) refs = bl_ref_list(store, model_id, &cli->job, error);
  if (refs == NULL) return -1;
  g_autofree guint8 *is_dangling = g_new0(guint8, MAX(refs->len, 1));
  Listing listing = {.refs = refs, .is_dangling = is_dangling};
  if (!find_dangling(store, &listing, error)) return -1;
  if (cli->json)
    print_list_json(cli, store, &listing);
  else
    print_list(cli, store, &listing, model_id);
  return 0;
}

static void print_ref_json(BlCli *cli, const char *outcome, const char *model_id, const char *ref,
                           const char *checkpoint_id, const char *previous) {
  bl_out_json_open();
  bl_out_json_member("outcome", json_string(outcome));
  bl_out_json_member("model_id", bl_json_text(model_id));
  bl_out_json_member("ref", bl_json_text(ref));
  bl_out_json_member("checkpoint_id", bl_json_text(checkpoint_id));
  bl_out_json_member("previous", bl_json_text(previous));
  bl_out_json_close(cli);
}

/* MODEL_ID@REF in one argument, or in two without the "@". */
static gboolean take_ref(char **args, char **model_id, char **ref, GError **error) {
  const char *first = bl_option_or_arg(NULL, &args, "MODEL_ID@REF", error);
  if (first == NULL) return FALSE;
  const char *second = *args != NULL ? *args++ : NULL, *at = strrchr(first, '@');
  if (!bl_args_end(args, error)) return FALSE;
  if (second == NULL && (at == NULL || at == first || at[1] == '\0')) {
    g_autofree char *shown = bl_path_display(first);
    return bl_error_set(
        error, BL_ERROR_INVALID,
        "\"%s\" names no ref: give MODEL_ID@REF (\"ballast model tag --list\" shows "
        "them)",
        shown);
  }
  *model_id = second != NULL ? g_strdup(first) : g_strndup(first, (gsize)(at - first));
  *ref = g_strdup(second != NULL ? second : at + 1);
  return bl_model_id_check(*model_id, error) && bl_model_id_check(*ref, error);
}

static int run_remove(BlCli *cli, BlStore *store, char **args, GError **error) {
  g_autofree char *model_id = NULL, *ref = NULL;
  g_autoptr(GError) fault = NULL;
  if (!take_ref(args, &model_id, &ref, error)) return -1;
  g_autofree char *id = bl_ref_get(store, model_id, ref, &fault);
  /* A damaged one can be removed, too. */
  if (id == NULL && fault != NULL && bl_error_code(fault) != BL_ERROR_CORRUPT) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return -1;
  }
  if (id == NULL && fault == NULL) {
    bl_error_set(error, BL_ERROR_NOT_FOUND,
                 "model \"%s\" has no ref \"%s\" (\"ballast model tag --list\" shows them)",
                 model_id, ref);
    return -1;
  }
  if (!bl_ref_remove(store, model_id, ref, error)) return -1;
  if (cli->json)
    print_ref_json(cli, "removed", model_id, ref, NULL, id);
  else if (id != NULL)
    bl_out_done(cli, "removed %s@%s (it meant %s)", model_id, ref, id);
  else
    bl_out_done(cli, "removed %s@%s, which was damaged", model_id, ref);
  return 0;
}

static int set_ref(BlCli *cli, BlStore *store, const char *id, const char *ref, GError **error) {
  static const char *const outcomes[] = {
      [BL_TAG_SET] = "set", [BL_TAG_MOVED] = "moved", [BL_TAG_ALREADY_THERE] = "already-there"};
  g_auto(BlTagResult) result = {0};
  if (!bl_tag_set(store, id, ref, opt.move, &result, error)) return -1;
  if (cli->json)
    print_ref_json(cli, outcomes[result.outcome], result.model_id, ref, id, result.previous);
  else if (result.outcome == BL_TAG_MOVED)
    bl_out_done(cli, "%s@%s means %s now (it meant %s)", result.model_id, ref, id, result.previous);
  else
    bl_out_done(cli, "%s@%s means %s%s", result.model_id, ref, id,
                result.outcome == BL_TAG_ALREADY_THERE ? " already" : "");
  return 0;
}

static int run(BlCli *cli, char **args, GError **error) {
  if (opt.list + opt.move + opt.remove > 1 ||
      ((opt.list || opt.remove) && opt.checkpoint_id != NULL)) {
    bl_error_set(error, BL_ERROR_INVALID,
                 "--list, --remove, and --move or --checkpoint-id exclude one another");
    return -1;
  }
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;
  gboolean is_bare = *args == NULL && !opt.move && !opt.remove && opt.checkpoint_id == NULL;
  if (opt.list || is_bare) return run_list(cli, store, args, error);
  if (opt.remove) return run_remove(cli, store, args, error);
  BlName name;
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error)) return -1;
  const char *ref = bl_option_or_arg(NULL, &args, "REF", error);
  if (ref == NULL || !bl_args_end(args, error) || !bl_tag_check(ref, error)) return -1;
  g_autofree char *id = bl_name_resolve(&name, store, error);
  return id != NULL ? set_ref(cli, store, id, ref, error) : -1;
}

const BlCommand bl_cmd_model_tag = {
    .group = "model",
    .name = "tag",
    .args = "[CHECKPOINT REF] [options]",
    .arg_kinds = "cr-",
    .summary = "list, set, move and remove the refs of models",
    .text =
        "A ref (main, a branch, a tag) is a model's name for one of its checkpoints:\n"
        "MODEL_ID@REF names it wherever a checkpoint is named. Without arguments, lists them.\n",
    .examples =
        "ballast model tag my-model prod\n"
        "ballast model tag --move my-model prod\n"
        "ballast model tag --list my-model\n"
        "ballast model tag --remove my-model@prod\n",
    .options = options,
    .run = run,
};
