#include <string.h>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/output.h"

static void add_command(const BlCommand *command) {
  g_autofree char *name = bl_command_full_name(command);
  json_t *json = json_object();
  json_object_set_new(json, "name", json_string(name));
  json_object_set_new(json, "arguments", json_string(command->args));
  json_object_set_new(json, "summary", json_string(command->summary));
  bl_out_json_array_add(json);
}

static void print_json(BlCli *cli, const char *group, const BlCommand *only) {
  bl_out_json_open();
  bl_out_json_member("version", json_string(BALLAST_VERSION));
  bl_out_json_array_begin("commands");
  for (const BlCommand *const *c = bl_commands; *c != NULL; c++)
    if (only == NULL ? group == NULL || g_strcmp0((*c)->group, group) == 0 : *c == only)
      add_command(*c);
  bl_out_json_array_end();
  bl_out_json_close(cli);
}

static int run(BlCli *cli, char **args, GError **error) {
  const char *group = args[0] != NULL && bl_command_group_summary(args[0]) != NULL ? *args++ : NULL;
  const BlCommand *command = NULL;
  if (args[0] != NULL) {
    command = bl_command_find(group, args[0]);
    if (command == NULL) {
      bl_command_set_unknown(error, group, args[0]);
      return -1;
    }
    if (!bl_args_end(args + 1, error)) return -1;
  }

  if (cli->json)
    print_json(cli, group, command);
  else if (command != NULL)
    bl_help_command(stdout, command);
  else if (group != NULL)
    bl_help_group(stdout, group);
  else
    bl_help_overview(stdout);
  return 0;
}

const BlCommand bl_cmd_help = {
    .group = NULL,
    .name = "help",
    .args = "[COMMAND]",
    .arg_kinds = "h",
    .summary = "show what a command does and how it is used",
    .text = "Shows what a command does, its options, and examples.\n",
    .examples =
        "ballast help model import\n"
        "ballast help --json\n",
    .run = run,
};
