#include "base/path.h"
#include "cli/config.h"
#include "cli/options.h"
#include "cli/output.h"

static void show_file(const char *label, const char *path, gboolean is_there) {
  g_autofree char *shown = bl_path_display(path);
  bl_out_fieldf(label, "%s%s", shown, is_there ? "" : " (not there)");
}

static json_t *file_json(const char *path, gboolean is_there) {
  json_t *file = json_object();
  json_object_set_new(file, "path", bl_json_text(path));
  json_object_set_new(file, "exists", json_boolean(is_there));
  return file;
}

static int run(BlCli *cli, char **args, GError **error) {
  if (!bl_args_end(args, error)) return -1;
  g_auto(BlConfig) config = {NULL};
  if (!bl_config_load(cli, &config, error)) return -1;

  if (cli->json) {
    json_t *store = json_object();
    json_object_set_new(store, "value", bl_json_text(config.store_url));
    json_object_set_new(store, "from", json_string(bl_config_from_name(config.store_from)));
    bl_out_json_open();
    bl_out_json_member("store", store);
    bl_out_json_member("fallback", bl_json_text(config.fallback_url));
    bl_out_json_member("user_file", file_json(config.user_file, config.has_user_file));
    bl_out_json_member("system_file", file_json(config.system_file, config.has_system_file));
    bl_out_json_close(cli);
    return 0;
  }

  g_autofree char *url = bl_path_display(config.store_url);
  g_autofree char *origin = bl_path_display(bl_config_origin(&config));
  bl_out_fieldf("store", "%s (from %s)", url, origin);
  if (config.fallback_url != NULL) {
    g_autofree char *fallback = bl_path_display(config.fallback_url);
    bl_out_fieldf("fallback", "%s", fallback);
  }
  show_file("user file", config.user_file, config.has_user_file);
  show_file("system file", config.system_file, config.has_system_file);
  return 0;
}

const BlCommand bl_cmd_config_show = {
    .group = "config",
    .name = "show",
    .args = "",
    .arg_kinds = "",
    .summary = "show which store is used, and what says so",
    .text =
        "The first of these that names a store counts: --store, the environment variable\n"
        "BALLAST_STORE, the user's config file, the system's config file, the default.\n",
    .examples =
        "ballast config show\n"
        "ballast config show --json\n",
    .run = run,
};
