#include "cli/help.h"

#include <string.h>

#include "cli/options.h"

/* Where the descriptions of options and commands begin. */
#define COLUMN 26

char *bl_command_full_name(const BlCommand *command) {
  return command->group != NULL ? g_strconcat(command->group, " ", command->name, NULL)
                                : g_strdup(command->name);
}

static void print_entry(FILE *file, const char *name, const char *text) {
  int used = (int)strlen(name) + 2;
  if (used + 1 >= COLUMN)
    fprintf(file, "  %s\n%*s%s\n", name, COLUMN, "", text);
  else
    fprintf(file, "  %s%*s%s\n", name, COLUMN - used, "", text);
}

static void print_command(FILE *file, const BlCommand *command) {
  g_autofree char *name = bl_command_full_name(command);
  print_entry(file, name, command->summary);
}

/* group NULL: those that stand alone, but for "help". */
static void print_commands(FILE *file, const char *group) {
  for (const BlCommand *const *c = bl_commands; *c != NULL; c++)
    if (g_strcmp0((*c)->group, group) == 0 && *c != &bl_cmd_help) print_command(file, *c);
}

static void print_options(FILE *file, const GOptionEntry *entries) {
  for (; entries != NULL && entries->long_name != NULL; entries++) {
    if (entries->flags & G_OPTION_FLAG_HIDDEN) continue;
    g_autoptr(GString) name = g_string_new(NULL);
    if (entries->short_name != 0) g_string_append_printf(name, "-%c, ", entries->short_name);
    g_string_append_printf(name, "--%s", entries->long_name);
    const char *value = entries->arg_description;
    if (value != NULL) g_string_append_printf(name, "%s%s", value[0] == '[' ? "" : " ", value);
    print_entry(file, name->str, entries->description);
  }
}

void bl_help_overview(FILE *file) {
  fputs(
      "usage: ballast [--store URL] [--json] [-q | -v] COMMAND ...\n"
      "\n"
      "A cache for the weights that LLM servers load: put a checkpoint in once, checked,\n"
      "and read it from there at every later start.\n"
      "\n",
      file);
  static const char *const groups[] = {"model", "store", "config"};
  for (guint i = 0; i < G_N_ELEMENTS(groups); i++) {
    fprintf(file, "%s:\n", bl_command_group_summary(groups[i]));
    /* A command that stands alone is one for the whole store. */
    if (g_str_equal(groups[i], "store")) print_commands(file, NULL);
    print_commands(file, groups[i]);
    fputc('\n', file);
  }
  fputs("help:\n", file);
  print_command(file, &bl_cmd_help);
  fputs("\noptions of every command:\n", file);
  print_options(file, bl_options_global());
  fputs(
      "\n"
      "Begin with:\n"
      "  ballast model import ./my-model\n"
      "  ballast model list\n",
      file);
}

void bl_help_group(FILE *file, const char *group) {
  fprintf(file, "usage: ballast %s COMMAND ...\n\n%s:\n", group, bl_command_group_summary(group));
  print_commands(file, group);
  fprintf(file, "\nOne command: \"ballast help %s COMMAND\".\n", group);
}

static void print_examples(FILE *file, const char *examples) {
  g_auto(GStrv) lines = g_strsplit(examples, "\n", -1);
  fputs("\nexamples:\n", file);
  for (guint i = 0; lines[i] != NULL; i++)
    if (lines[i][0] != '\0') fprintf(file, "  %s\n", lines[i]);
}

void bl_help_command(FILE *file, const BlCommand *command) {
  g_autofree char *name = bl_command_full_name(command);
  fprintf(file, "usage: ballast %s%s%s\n\n%s", name, command->args[0] != '\0' ? " " : "",
          command->args, command->text);
  if (command->options != NULL) {
    fputs("\noptions:\n", file);
    print_options(file, command->options);
  }
  print_examples(file, command->examples);
  if (command == &bl_cmd_help) return;
  /* The commands of a group have one page together, but those of "model" one each. */
  const char *group = command->group != NULL ? command->group : command->name;
  gboolean is_model = g_str_equal(group, "model");
  fprintf(file, "\nOptions of every command: \"ballast help\". More: \"man ballast-%s%s%s\".\n",
          group, is_model ? "-" : "", is_model ? command->name : "");
}
