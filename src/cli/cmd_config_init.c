#include "base/path.h"
#include "cli/config.h"
#include "cli/options.h"
#include "cli/output.h"

static struct { gboolean system, force; } opt;

static const GOptionEntry options[] = {
    {"system", 0, 0, G_OPTION_ARG_NONE, &opt.system,
     "write the file for all users, in /etc/ballast", NULL},
    {"force", 'f', 0, G_OPTION_ARG_NONE, &opt.force, "replace a config file that is there", NULL},
    {NULL}};

static int run(BlCli *cli, char **args, GError **error) {
  if (!bl_args_end(args, error)) return -1;
  g_auto(BlConfig) config = {NULL};
  bl_config_load_without_files(cli, &config);
  /* A store that is named needs no file: one that is broken can be replaced. */
  if (config.store_url == NULL) {
    bl_config_clear(&config);
    if (!bl_config_load(cli, &config, error)) return -1;
  }
  g_autofree char *url = bl_config_store_url(config.store_url, error);
  if (url == NULL) return -1;
  const char *path = opt.system ? config.system_file : config.user_file;
  if (!bl_config_save(path, url, opt.force, error)) return -1;

  if (cli->json) {
    bl_out_json_open();
    bl_out_json_member("file", bl_json_text(path));
    bl_out_json_member("store", bl_json_text(url));
    bl_out_json_close(cli);
    return 0;
  }
  g_autofree char *shown = bl_path_display(path);
  g_autofree char *shown_url = bl_path_display(url);
  bl_out_done(cli, "wrote %s: store %s", shown, shown_url);
  return 0;
}

const BlCommand bl_cmd_config_init = {
    .group = "config",
    .name = "init",
    .args = "[options]",
    .arg_kinds = "",
    .summary = "write a config file that names the store",
    .text =
        "Writes the store that --store names (without it: the one in use now) into the user's\n"
        "config file, so that later commands need not name it.\n",
    .examples =
        "ballast config init --store /data/ballast\n"
        "ballast config init --force --store file:///srv/models\n",
    .options = options,
    .run = run,
};
