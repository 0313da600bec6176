#include <string.h>

#include "base/path.h"
#include "cli/config.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/room.h"

static struct { char *max_bytes, *shared; } opt;

static const GOptionEntry options[] = {
    {"max-bytes", 0, 0, G_OPTION_ARG_FILENAME, &opt.max_bytes,
     "the most that the store may hold, or \"none\"", "SIZE"},
    {"shared", 0, 0, G_OPTION_ARG_FILENAME, &opt.shared,
     "who may write: \"umask\", or all of its \"group\"", "umask|group"},
    {NULL}};

/* Changes what the options name. */
static gboolean take_options(BlStoreSettings *settings, GError **error) {
  guint64 max_bytes = G_MAXUINT64;
  if (opt.max_bytes != NULL && strcmp(opt.max_bytes, "none") != 0) {
    if (!bl_option_parse_size("--max-bytes", opt.max_bytes, &max_bytes, error)) return FALSE;
    if (max_bytes == 0 || max_bytes > G_MAXINT64)
      return bl_error_set(error, BL_ERROR_INVALID,
                          "--max-bytes: %s is out of bounds (1 byte to 8 EiB, or \"none\")",
                          opt.max_bytes);
  }
  if (opt.max_bytes != NULL) settings->max_bytes = max_bytes;
  if (opt.shared == NULL) return TRUE;
  settings->is_group_shared = strcmp(opt.shared, "group") == 0;
  if (settings->is_group_shared || strcmp(opt.shared, "umask") == 0) return TRUE;
  g_autofree char *shown = bl_path_display(opt.shared);
  return bl_error_set(error, BL_ERROR_INVALID,
                      "--shared: \"%s\" is neither \"umask\" nor \"group\"", shown);
}

static const char *shared_word(const BlStoreSettings *settings) {
  return settings->is_group_shared ? "group" : "umask";
}

static void print_json(BlCli *cli, const BlStore *store, const BlStoreSettings *settings,
                       guint64 n_bytes) {
  gboolean has_limit = settings->max_bytes != G_MAXUINT64;
  bl_out_json_open();
  bl_out_json_member("store", bl_json_text(store->url));
  bl_out_json_member("max_bytes", has_limit ? bl_json_uint(settings->max_bytes) : json_null());
  bl_out_json_member("shared", json_string(shared_word(settings)));
  bl_out_json_member("n_bytes", bl_json_uint(n_bytes));
  bl_out_json_close(cli);
}

static void print_settings(const BlStore *store, const BlStoreSettings *settings, guint64 n_bytes) {
  BlSizeText held, limit;
  bl_out_field("store", store->url);
  bl_out_field("holds", bl_size_format(held, n_bytes));
  bl_out_field("max bytes", settings->max_bytes == G_MAXUINT64
                                ? "none"
                                : bl_size_format(limit, settings->max_bytes));
  bl_out_field("shared", shared_word(settings));
}

static int run(BlCli *cli, char **args, GError **error) {
  BlStoreSettings settings = {.max_bytes = G_MAXUINT64};
  guint64 n_bytes = 0;
  gboolean sets = opt.max_bytes != NULL || opt.shared != NULL;
  /* Wrong options make no store. */
  if (!bl_args_end(args, error) || !take_options(&settings, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, sets, error);
  if (store == NULL || !bl_store_get_settings(store, &settings, error)) return -1;
  if (sets && (!take_options(&settings, error) || !bl_store_set_settings(store, &settings, error)))
    return -1;
  if (!bl_room_used(store, &n_bytes, error)) return -1;
  if (sets && n_bytes > settings.max_bytes)
    bl_job_note(&cli->job, BL_NOTE_WARNING,
                "the store holds more than that already: nothing is imported until there is room "
                "(\"ballast prune\")");
  if (cli->json)
    print_json(cli, store, &settings, n_bytes);
  else if (!sets || !cli->quiet)
    print_settings(store, &settings, n_bytes);
  return 0;
}

const BlCommand bl_cmd_store_set = {
    .group = "store",
    .name = "set",
    .args = "[options]",
    .arg_kinds = "",
    .summary = "set how much the store may hold, and who may write",
    .text =
        "Makes the store where it is not there yet. Without options it shows what is set.\n"
        "An import that would pass --max-bytes is refused before it writes.\n",
    .examples =
        "ballast store set --max-bytes 500GiB\n"
        "ballast store set --max-bytes none --shared group\n"
        "ballast store set\n",
    .options = options,
    .run = run,
};
