#include "cli/options.h"

#include <string.h>

#include "base/path.h"

/* GLib's string options refuse bytes that are not UTF-8, and in the C locale all that are not
 * ASCII: every text option here is a "file name", which it takes as it is. */
static struct {
  gboolean json, quiet, verbose, help, version;
  char *store, *metrics_file;
} global;

static const GOptionEntry global_entries[] = {
    {"store", 0, 0, G_OPTION_ARG_FILENAME, &global.store, "the store (file:///path, or a path)",
     "URL"},
    {"json", 0, 0, G_OPTION_ARG_NONE, &global.json, "print one JSON document", NULL},
    {"quiet", 'q', 0, G_OPTION_ARG_NONE, &global.quiet,
     "only errors, warnings and what was asked for", NULL},
    {"verbose", 'v', 0, G_OPTION_ARG_NONE, &global.verbose, "more detail", NULL},
    {"metrics-file", 0, 0, G_OPTION_ARG_FILENAME, &global.metrics_file,
     "write how it went there, for Prometheus", "FILE"},
    {"help", 'h', 0, G_OPTION_ARG_NONE, &global.help, "show help", NULL},
    {"version", 0, 0, G_OPTION_ARG_NONE, &global.version, "show the version", NULL},
    {NULL}};

const GOptionEntry *bl_options_global(void) {
  return global_entries;
}

/* GLib knows values that may be left out only for callbacks; here the value's name begins with "[".
 */
static gboolean may_omit_value(const GOptionEntry *entry) {
  return entry->arg_description != NULL && entry->arg_description[0] == '[';
}

static const GOptionEntry *find_in(const GOptionEntry *entries, const char *word) {
  for (; entries != NULL && entries->long_name != NULL; entries++) {
    if (g_str_has_prefix(word, "--")) {
      gsize size = strcspn(word + 2, "=");
      if (size > 0 && strlen(entries->long_name) == size &&
          strncmp(entries->long_name, word + 2, size) == 0)
        return entries;
    } else if (entries->short_name != 0 && word[1] == entries->short_name) {
      return entries;
    }
  }
  return NULL;
}

const GOptionEntry *bl_option_find(const BlCommand *command, const char *word) {
  const GOptionEntry *entry = find_in(global_entries, word);
  if (entry == NULL && command != NULL) entry = find_in(command->options, word);
  return entry;
}

static gboolean is_option(const char *word) {
  return word[0] == '-' && word[1] != '\0';
}

gboolean bl_option_value_follows(const GOptionEntry *entry, const char *word) {
  if (entry == NULL || entry->arg == G_OPTION_ARG_NONE) return FALSE;
  if (may_omit_value(entry)) return FALSE;
  return g_str_has_prefix(word, "--") ? strchr(word, '=') == NULL : word[2] == '\0';
}

gssize bl_options_next_word(char **words, guint from) {
  for (guint i = from; words[i] != NULL; i++) {
    if (g_str_equal(words[i], "--")) return -1;
    if (!is_option(words[i])) return i;
    if (bl_option_value_follows(find_in(global_entries, words[i]), words[i]) &&
        words[i + 1] != NULL)
      i++;
  }
  return -1;
}

/* The first option of the line that nobody knows. */
static const char *find_unknown(const BlCommand *command, char **words) {
  for (guint i = 0; words[i] != NULL && !g_str_equal(words[i], "--"); i++) {
    if (!is_option(words[i])) continue;
    const GOptionEntry *entry = bl_option_find(command, words[i]);
    if (entry == NULL) return words[i];
    if (bl_option_value_follows(entry, words[i]) && words[i + 1] != NULL) i++;
  }
  return NULL;
}

/* A value that may be left out is given with "=" or not at all, but GLib would take the next word
 * for it: "--wait" becomes "--wait=". */
static void close_optional_values(const BlCommand *command, char **words) {
  for (guint i = 0; words[i] != NULL && !g_str_equal(words[i], "--"); i++) {
    if (!g_str_has_prefix(words[i], "--") || strchr(words[i], '=') != NULL) continue;
    const GOptionEntry *entry = bl_option_find(command, words[i]);
    if (entry == NULL) continue;
    if (may_omit_value(entry)) {
      char *closed = g_strconcat(words[i], "=", NULL);
      g_free(words[i]);
      words[i] = closed;
    } else if (bl_option_value_follows(entry, words[i]) && words[i + 1] != NULL) {
      i++;
    }
  }
}

static void take_globals(BlCli *cli) {
  cli->json |= global.json;
  cli->quiet |= global.quiet;
  cli->verbose |= global.verbose;
  cli->help |= global.help;
  cli->version |= global.version;
  g_free(cli->store_option);
  cli->store_option = g_steal_pointer(&global.store);
  g_free(cli->metrics_file);
  cli->metrics_file = g_steal_pointer(&global.metrics_file);
}

/* What GLib says begins with a capital letter, and does not say where help is. */
static void set_wrong(GError **error, const BlCommand *command, const GError *wrong) {
  g_autofree char *help = bl_command_help(command);
  bl_error_set(error, BL_ERROR_INVALID, "%c%s (see \"%s\")", g_ascii_tolower(wrong->message[0]),
               wrong->message + 1, help);
}

gboolean bl_options_parse(BlCli *cli, const BlCommand *command, char **words, char ***args,
                          GError **error) {
  g_auto(GStrv) rest = NULL;
  const GOptionEntry rest_entries[] = {
      {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &rest, NULL, NULL}, {NULL}};
  g_autoptr(GOptionContext) context = g_option_context_new(NULL);
  g_option_context_set_help_enabled(context, FALSE);
  g_option_context_add_main_entries(context, global_entries, NULL);
  if (command != NULL && command->options != NULL)
    g_option_context_add_main_entries(context, command->options, NULL);
  g_option_context_add_main_entries(context, rest_entries, NULL);

  g_autoptr(GPtrArray) list = g_ptr_array_new();
  g_ptr_array_add(list, g_strdup("ballast"));
  for (guint i = 0; words[i] != NULL; i++) g_ptr_array_add(list, g_strdup(words[i]));
  g_ptr_array_add(list, NULL);
  g_auto(GStrv) argv = (char **)g_ptr_array_steal(list, NULL);
  close_optional_values(command, argv + 1);

  g_autoptr(GError) wrong = NULL;
  if (!g_option_context_parse_strv(context, &argv, &wrong)) {
    const char *unknown = find_unknown(command, words);
    if (g_error_matches(wrong, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION) && unknown != NULL)
      bl_command_set_unknown_option(error, command, unknown);
    else
      set_wrong(error, command, wrong);
    return FALSE;
  }
  take_globals(cli);
  *args = rest != NULL ? g_steal_pointer(&rest) : g_new0(char *, 1);
  return TRUE;
}

static gboolean set_bad_size(const char *option, const char *text, GError **error) {
  g_autofree char *shown = bl_path_display(text);
  return bl_error_set(
      error, BL_ERROR_INVALID,
      "%s: \"%s\" is not a size (a number of bytes, or one with KiB, MiB, GiB, TiB or PiB)", option,
      shown);
}

/* The power of 1024 that a unit stands for; -1 for none. */
static int unit_exponent(const char *unit) {
  static const char letters[] = "KMGTP";
  if (unit[0] == '\0' || g_ascii_strcasecmp(unit, "B") == 0) return 0;
  const char *letter = strchr(letters, g_ascii_toupper(unit[0]));
  if (letter == NULL) return -1;
  const char *tail = unit + 1;
  if (tail[0] != '\0' && g_ascii_strcasecmp(tail, "B") != 0 && g_ascii_strcasecmp(tail, "iB") != 0)
    return -1;
  return (int)(letter - letters) + 1;
}

gboolean bl_option_parse_size(const char *option, const char *text, guint64 *bytes,
                              GError **error) {
  if (!g_ascii_isdigit(text[0])) return set_bad_size(option, text, error);
  char *end = NULL;
  guint64 whole = g_ascii_strtoull(text, &end, 10);
  /* strtoull gives the largest number where it is too large; no size comes near it. */
  if (whole == G_MAXUINT64) return set_bad_size(option, text, error);
  double part = 0;
  gboolean has_part = *end == '.';
  if (has_part) {
    const char *dot = end;
    if (!g_ascii_isdigit(dot[1])) return set_bad_size(option, text, error);
    end = end + 1 + strspn(dot + 1, "0123456789");
    g_autofree char *digits = g_strndup(dot, (gsize)(end - dot)); /* without an exponent */
    part = g_ascii_strtod(digits, NULL);
  }
  while (*end == ' ') end++;
  int exponent = unit_exponent(end);
  if (exponent < 0 || (has_part && exponent == 0)) return set_bad_size(option, text, error);
  guint64 unit = G_GUINT64_CONSTANT(1) << (10 * exponent);
  if (!g_uint64_checked_mul(bytes, whole, unit)) return set_bad_size(option, text, error);
  return g_uint64_checked_add(bytes, *bytes, (guint64)(part * (double)unit + 0.5)) ||
         set_bad_size(option, text, error);
}

/* Decimal digits only, and *end behind them. */
static gboolean parse_digits(const char *text, guint64 *value, const char **end) {
  if (!g_ascii_isdigit(text[0])) return FALSE;
  char *stop = NULL;
  *value = g_ascii_strtoull(text, &stop, 10);
  *end = stop;
  return *value != G_MAXUINT64;
}

gboolean bl_option_parse_range(const char *text, guint64 size, guint64 *first, guint64 *last,
                               GError **error) {
  g_autofree char *shown = bl_path_display(text);
  const char *end = text;
  guint64 n = 0;
  gboolean is_range = FALSE;
  *first = 0;
  *last = G_MAXUINT64;
  if (text[0] == '-') {
    is_range = parse_digits(text + 1, &n, &end) && *end == '\0' && n > 0;
    *first = n < size ? size - n : 0;
  } else if (parse_digits(text, first, &end) && *end == '-') {
    is_range = end[1] == '\0' || (parse_digits(end + 1, last, &end) && *end == '\0');
  }
  if (!is_range || *first > *last)
    return bl_error_set(
        error, BL_ERROR_INVALID,
        "--range: \"%s\" is not a range (0-99 is the first 100 bytes, 100- all behind "
        "them, -100 the last 100)",
        shown);
  if (*first >= size)
    return bl_error_set(error, BL_ERROR_INVALID,
                        "--range: \"%s\" begins past the end of the file (%" G_GUINT64_FORMAT
                        " bytes)",
                        shown, size);
  *last = MIN(*last, size - 1);
  return TRUE;
}

gboolean bl_option_parse_wait(const char *text, gint *wait_ms, GError **error) {
  *wait_ms = -1;
  if (text == NULL || text[0] == '\0') return TRUE;
  guint64 seconds = 0;
  const char *end = NULL;
  if (!parse_digits(text, &seconds, &end) || *end != '\0' || seconds > G_MAXINT / 1000) {
    g_autofree char *shown = bl_path_display(text);
    return bl_error_set(error, BL_ERROR_INVALID, "--wait: \"%s\" is not a number of seconds",
                        shown);
  }
  *wait_ms = (gint)seconds * 1000;
  return TRUE;
}

gboolean bl_option_parse_duration(const char *option, const char *text, gint64 *seconds,
                                  GError **error) {
  static const struct {
    const char *name;
    guint64 seconds;
  } units[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"w", 7 * 86400}};
  guint64 n = 0, total;
  const char *unit = text;
  gboolean is_number = parse_digits(text, &n, &unit);
  *seconds = 0;
  if (is_number && n == 0 && *unit == '\0') return TRUE;
  for (guint i = 0; is_number && i < G_N_ELEMENTS(units); i++) {
    if (strcmp(unit, units[i].name) != 0 || !g_uint64_checked_mul(&total, n, units[i].seconds) ||
        total > G_MAXINT)
      continue;
    *seconds = (gint64)total;
    return TRUE;
  }
  g_autofree char *shown = bl_path_display(text);
  return bl_error_set(error, BL_ERROR_INVALID,
                      "%s: \"%s\" is not a time span (90s, 15min, 12h, 30d, 4w; at most 68 years)",
                      option, shown);
}

const char *bl_option_or_arg(const char *option, char ***args, const char *name, GError **error) {
  if (option != NULL) return option;
  if (**args != NULL) return *(*args)++;
  bl_error_set(error, BL_ERROR_INVALID, "%s is missing (--help shows how the command is used)",
               name);
  return NULL;
}

gboolean bl_args_end(char **args, GError **error) {
  if (*args == NULL) return TRUE;
  g_autofree char *shown = bl_path_display(*args);
  return bl_error_set(error, BL_ERROR_INVALID,
                      "\"%s\" is one argument too many (--help shows how the command is used)",
                      shown);
}
