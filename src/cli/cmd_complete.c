/* What the shell may complete: "ballast __complete INDEX WORD...", where WORD... is the command
 * line without "ballast" and INDEX (from 0) is the word to complete. Candidates come one a line; a
 * line ":files" stands for the shell's own completion of file names. Never an error: a shell shows
 * nothing then. */
#include <string.h>

#include "cli/config.h"
#include "cli/link_option.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/catalog.h"

/* Commands whose first word stands in words[0..index-1]. */
typedef struct {
  const char *word; /* to complete */
  const char *group;
  const BlCommand *command;
  guint n_args;           /* arguments before the word */
  const char *checkpoint; /* the first of them; NULL: none */
  char *store;            /* --store's value on the line; borrowed */
} Line;

static void offer(const Line *line, const char *candidate) {
  if (g_str_has_prefix(candidate, line->word)) bl_out_line("%s", candidate);
}

static void offer_commands(const Line *line) {
  const char *last = NULL;
  for (const BlCommand *const *c = bl_commands; *c != NULL; c++) {
    if (line->group != NULL && g_strcmp0((*c)->group, line->group) != 0) continue;
    const char *name = line->group == NULL && (*c)->group != NULL ? (*c)->group : (*c)->name;
    if (g_strcmp0(name, last) != 0) offer(line, name);
    last = name;
  }
}

static void offer_entries(const Line *line, const GOptionEntry *entries) {
  for (; entries != NULL && entries->long_name != NULL; entries++) {
    g_autofree char *name = g_strconcat("--", entries->long_name, NULL);
    offer(line, name);
  }
}

/* The store in use and its checkpoints; a shell gets nothing where there is none. */
typedef struct {
  BlStore *store;
  GPtrArray *checkpoints; /* of BlCheckpoint */
} Catalog;

static void catalog_clear(Catalog *catalog) {
  g_clear_pointer(&catalog->checkpoints, g_ptr_array_unref);
  g_clear_pointer(&catalog->store, bl_store_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Catalog, catalog_clear)

static gboolean catalog_open(Catalog *catalog, const Line *line) {
  BlCli quiet = {.quiet = TRUE, .store_option = line->store};
  bl_job_init(&quiet.job);
  catalog->store = bl_config_open_store(&quiet, FALSE, NULL);
  if (catalog->store != NULL)
    catalog->checkpoints = bl_catalog_list(catalog->store, NULL, &quiet.job, NULL);
  bl_job_clear(&quiet.job);
  return catalog->checkpoints != NULL;
}

/* Checkpoints of the store in use, or their models. */
static void offer_names(const Line *line, gboolean models_only) {
  g_auto(Catalog) catalog = {NULL};
  if (!catalog_open(&catalog, line)) return;
  g_autoptr(GHashTable) models = g_hash_table_new(g_str_hash, g_str_equal);
  for (guint i = 0; i < catalog.checkpoints->len; i++) {
    const BlCheckpoint *checkpoint = catalog.checkpoints->pdata[i];
    if (!models_only) offer(line, checkpoint->checkpoint_id);
    if (checkpoint->model_id == NULL || !g_hash_table_add(models, checkpoint->model_id)) continue;
    if (models_only || !g_str_equal(checkpoint->model_id, checkpoint->checkpoint_id))
      offer(line, checkpoint->model_id);
  }
}

/* Refs of a model, which may be named by one of its checkpoints, each behind the prefix. */
static void offer_refs(const Line *line, const char *name, const char *prefix) {
  g_auto(Catalog) catalog = {NULL};
  if (!catalog_open(&catalog, line)) return;
  for (guint i = 0; i < catalog.checkpoints->len; i++) {
    const BlCheckpoint *checkpoint = catalog.checkpoints->pdata[i];
    const char *model_id = checkpoint->model_id;
    if (model_id == NULL ||
        (!g_str_equal(model_id, name) && !g_str_equal(checkpoint->checkpoint_id, name)))
      continue;
    g_auto(GStrv) refs = bl_ref_names(catalog.store, model_id, checkpoint->checkpoint_id, NULL);
    for (guint r = 0; refs != NULL && refs[r] != NULL; r++) {
      g_autofree char *candidate = g_strconcat(prefix, refs[r], NULL);
      offer(line, candidate);
    }
  }
}

/* "MODEL_ID@REF" once the word has an "@", else ids and models. */
static void offer_checkpoints(const Line *line) {
  const char *at = strchr(line->word, '@');
  if (at == NULL) {
    offer_names(line, FALSE);
    return;
  }
  g_autofree char *model_id = g_strndup(line->word, (gsize)(at - line->word));
  g_autofree char *prefix = g_strconcat(model_id, "@", NULL);
  offer_refs(line, model_id, prefix);
}

/* Files of the checkpoint that the line names. */
static void offer_paths(const Line *line) {
  BlCli quiet = {.quiet = TRUE, .store_option = line->store};
  if (line->checkpoint == NULL) return;
  g_autoptr(BlStore) store = bl_config_open_store(&quiet, FALSE, NULL);
  g_autofree char *id = store != NULL ? bl_catalog_resolve(store, line->checkpoint, NULL) : NULL;
  g_autoptr(BlManifest) manifest = id != NULL ? bl_manifest_load(store, id, 0, NULL) : NULL;
  for (guint64 i = 0; manifest != NULL && i < manifest->n_files; i++)
    offer(line, manifest->files[i].path);
}

/* What the value's name in the help says it is. */
static void offer_value(const Line *line, const GOptionEntry *entry) {
  static const char *const files[] = {"FILE", "FOLDER", "OUTPUT", "PLACE", "SOURCE", "URL", NULL};
  const char *name = entry->arg_description;
  if (name == NULL) return;
  g_auto(GStrv) choices = g_strsplit(name, "|", -1);
  if (choices[1] != NULL)
    for (guint i = 0; choices[i] != NULL; i++) offer(line, choices[i]);
  else if (g_str_equal(name, "MODE"))
    for (int mode = BL_LINK_AUTO; mode <= BL_LINK_COPY; mode++)
      offer(line, bl_link_name((BlLinkMode)mode));
  else if (g_str_equal(name, "ID"))
    offer_names(line, FALSE);
  else if (g_str_equal(name, "MODEL_ID"))
    offer_names(line, TRUE);
  else if (g_str_equal(name, "PATH"))
    offer_paths(line);
  else if (g_strv_contains(files, name))
    bl_out_line(":files");
}

static void offer_argument(const Line *line) {
  const char *kinds = line->command->arg_kinds;
  gsize n = strlen(kinds);
  if (n == 0) return;
  switch (kinds[MIN(line->n_args, n - 1)]) {
    case 'c':
      offer_checkpoints(line);
      /* inspect takes paths, too. */
      if (line->command == &bl_cmd_model_inspect) bl_out_line(":files");
      break;
    case 'm':
      offer_names(line, TRUE);
      break;
    case 'r':
      if (line->checkpoint != NULL) offer_refs(line, line->checkpoint, "");
      break;
    case 'p':
      offer_paths(line);
      break;
    case 'f':
      bl_out_line(":files");
      break;
    case 'h':
      offer_commands(line);
      break;
    default:
      break;
  }
}

/* A word before the one to complete that is no option. */
static void take_word(Line *line, const char *word) {
  if (line->command != NULL && line->command != &bl_cmd_help) {
    if (line->n_args++ == 0) line->checkpoint = word;
  } else if (line->group == NULL && bl_command_group_summary(word) != NULL) {
    line->group = g_intern_string(word);
  } else if (line->command == NULL) {
    line->command = bl_command_find(line->group, word);
  }
}

/* Reads the words before the one to complete; gives the option whose value that one is, or NULL. */
static const GOptionEntry *read_line(Line *line, char **words, guint index) {
  for (guint i = 0; i < index; i++) {
    if (words[i][0] != '-' || words[i][1] == '\0') {
      take_word(line, words[i]);
      continue;
    }
    const GOptionEntry *entry = bl_option_find(line->command, words[i]);
    if (entry == NULL || !bl_option_value_follows(entry, words[i])) continue;
    if (i + 1 == index) return entry;
    i++;
    if (g_str_equal(entry->long_name, "store")) line->store = words[i];
  }
  return NULL;
}

static int run(BlCli *cli, char **args, GError **error) {
  guint64 index = 0;
  (void)cli;
  (void)error;
  if (args[0] == NULL || !g_ascii_string_to_unsigned(args[0], 10, 0, 10000, &index, NULL)) return 0;
  char **words = args + 1;
  guint n = g_strv_length(words);
  if (index > n) return 0;

  Line line = {.word = index < n ? words[index] : ""};
  const GOptionEntry *entry = read_line(&line, words, (guint)index);
  if (entry != NULL) {
    offer_value(&line, entry);
  } else if (line.word[0] == '-') {
    offer_entries(&line, bl_options_global());
    if (line.command != NULL) offer_entries(&line, line.command->options);
  } else if (line.command != NULL) {
    offer_argument(&line);
  } else {
    offer_commands(&line);
  }
  return 0;
}

const BlCommand bl_cmd_complete = {
    .name = "__complete",
    .args = "",
    .arg_kinds = "",
    .summary = "",
    .text = "",
    .examples = "",
    .run = run,
};
