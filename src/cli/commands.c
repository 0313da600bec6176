#include "cli/command.h"

#include <string.h>

#include "base/path.h"
#include "cli/options.h"

const BlCommand *const bl_commands[] = {
    &bl_cmd_model_import,
    &bl_cmd_model_list,
    &bl_cmd_model_inspect,
    &bl_cmd_model_verify,
    &bl_cmd_model_pull,
    &bl_cmd_model_materialize_file,
    &bl_cmd_model_cat,
    &bl_cmd_model_delete,
    &bl_cmd_model_repair,
    &bl_cmd_model_copy,
    &bl_cmd_model_tag,
    &bl_cmd_model_pin,
    &bl_cmd_model_unpin,
    &bl_cmd_stats,
    &bl_cmd_prune,
    &bl_cmd_fsck,
    &bl_cmd_gc,
    &bl_cmd_store_set,
    &bl_cmd_doctor,
    &bl_cmd_config_init,
    &bl_cmd_config_show,
    &bl_cmd_help,
    NULL,
};

static const struct {
  const char *name, *summary;
} groups[] = {
    {"model", "checkpoints in the store"},
    {"store", "the store as a whole"},
    {"config", "which store is used"},
};

/* Words people try for a command whose name is another. */
static const struct {
  const char *word, *name;
} other_words[] = {
    {"add", "import"},    {"put", "import"},    {"push", "import"},
    {"upload", "import"}, {"ls", "list"},       {"show", "inspect"},
    {"info", "inspect"},  {"stat", "inspect"},  {"check", "verify"},
    {"fsck", "verify"},   {"get", "pull"},      {"download", "pull"},
    {"export", "pull"},   {"checkout", "pull"}, {"rm", "delete"},
    {"remove", "delete"}, {"del", "delete"},    {"materialize", "materialize-file"},
    {"fix", "repair"},    {"mend", "repair"},   {"cp", "copy"},
    {"clone", "copy"},
};

const char *bl_command_group_summary(const char *group) {
  for (gsize i = 0; i < G_N_ELEMENTS(groups); i++)
    if (g_str_equal(group, groups[i].name)) return groups[i].summary;
  return NULL;
}

const BlCommand *bl_command_find(const char *group, const char *name) {
  for (const BlCommand *const *c = bl_commands; *c != NULL; c++)
    if (g_strcmp0((*c)->group, group) == 0 && g_str_equal((*c)->name, name)) return *c;
  if (group == NULL && g_str_equal(name, bl_cmd_complete.name)) return &bl_cmd_complete;
  return NULL;
}

/* Edits that turn a into b: a letter put in, left out, changed, or two neighbours swapped. Words of
 * 32 bytes and more are as far apart as can be. */
static guint distance(const char *a, const char *b) {
  enum { MAX = 32 };
  gsize n = strlen(a), m = strlen(b);
  if (n >= MAX || m >= MAX) return G_MAXUINT;

  guint d[MAX + 1][MAX + 1];
  for (gsize i = 0; i <= n; i++) d[i][0] = (guint)i;
  for (gsize j = 0; j <= m; j++) d[0][j] = (guint)j;
  for (gsize i = 1; i <= n; i++) {
    for (gsize j = 1; j <= m; j++) {
      guint best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      best = MIN(best, d[i - 1][j] + 1);
      best = MIN(best, d[i][j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = MIN(best, d[i - 2][j - 2] + 1);
      d[i][j] = best;
    }
  }
  return d[n][m];
}

/* The best of several candidates offered one by one. */
typedef struct {
  const char *word;
  const char *group, *name; /* the nearest so far; name NULL: none is near */
  guint distance;
} Nearest;

static void nearest_offer(Nearest *nearest, const char *group, const char *name) {
  guint d = distance(nearest->word, name);
  /* A third of the letters may be wrong: "imprt" is near "import", "xyz" near nothing. */
  gboolean is_near = d <= 1 || d * 3 <= strlen(name);
  if (strlen(nearest->word) >= 3 && g_str_has_prefix(name, nearest->word)) is_near = TRUE;
  if (!is_near || (nearest->name != NULL && d >= nearest->distance)) return;
  nearest->group = group;
  nearest->name = name;
  nearest->distance = d;
}

static void nearest_offer_commands(Nearest *nearest, const char *group) {
  for (const BlCommand *const *c = bl_commands; *c != NULL; c++)
    if (group == NULL || g_strcmp0((*c)->group, group) == 0)
      nearest_offer(nearest, (*c)->group, (*c)->name);
  if (nearest->name != NULL) return;

  for (gsize i = 0; i < G_N_ELEMENTS(other_words); i++) {
    if (!g_str_equal(nearest->word, other_words[i].word)) continue;
    if (group != NULL && bl_command_find(group, other_words[i].name) == NULL) continue;
    nearest->group = "model";
    nearest->name = other_words[i].name;
  }
}

void bl_command_set_unknown(GError **error, const char *group, const char *word) {
  Nearest nearest = {.word = word};
  if (group == NULL)
    for (gsize i = 0; i < G_N_ELEMENTS(groups); i++) nearest_offer(&nearest, NULL, groups[i].name);
  nearest_offer_commands(&nearest, group);

  g_autofree char *shown = bl_path_display(word);
  const char *space = group != NULL ? " " : "";
  const char *of = group != NULL ? group : "";
  if (nearest.name == NULL)
    bl_error_set(error, BL_ERROR_INVALID,
                 "\"%s\" is not a command of \"ballast%s%s\" (see \"ballast help%s%s\")", shown,
                 space, of, space, of);
  else
    bl_error_set(error, BL_ERROR_INVALID,
                 "\"%s\" is not a command of \"ballast%s%s\"; did you mean \"ballast %s%s%s\"?",
                 shown, space, of, nearest.group != NULL ? nearest.group : "",
                 nearest.group != NULL ? " " : "", nearest.name);
}

static void nearest_offer_options(Nearest *nearest, const GOptionEntry *entries) {
  for (; entries != NULL && entries->long_name != NULL; entries++)
    if (entries->long_name[0] != '\0') nearest_offer(nearest, NULL, entries->long_name);
}

char *bl_command_help(const BlCommand *command) {
  if (command == NULL) return g_strdup("ballast help");
  return g_strjoin(" ", "ballast help", command->group != NULL ? command->group : command->name,
                   command->group != NULL ? command->name : NULL, NULL);
}

void bl_command_set_unknown_option(GError **error, const BlCommand *command, const char *option) {
  g_autofree char *word = g_strndup(option, strcspn(option, "="));
  Nearest nearest = {.word = word + strspn(word, "-")};
  nearest_offer_options(&nearest, bl_options_global());
  if (command != NULL) nearest_offer_options(&nearest, command->options);

  g_autofree char *shown = bl_path_display(word);
  g_autofree char *help = bl_command_help(command);
  if (nearest.name == NULL)
    bl_error_set(error, BL_ERROR_INVALID, "unknown option %s (see \"%s\")", shown, help);
  else
    bl_error_set(error, BL_ERROR_INVALID, "unknown option %s; did you mean --%s? (see \"%s\")",
                 shown, nearest.name, help);
}
