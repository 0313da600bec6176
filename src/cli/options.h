/* Options: the global ones, one command's, and the forms that their values have. */
#pragma once
#include "cli/command.h"

/* The options that stand before or behind any command, ended by a NULL entry. */
const GOptionEntry *bl_options_global(void);

/* The entry that the word ("--name", "--name=value", "-n") means among the global ones and the
 * command's (may be NULL); NULL where there is none. */
const GOptionEntry *bl_option_find(const BlCommand *command, const char *word);

/* Whether the value of the option that the word is stands in the next word. entry may be NULL. */
gboolean bl_option_value_follows(const GOptionEntry *entry, const char *word);

/* The index of the next word at or behind `from` that is neither a global option nor its value;
 * -1 where there is none before the end or "--". */
gssize bl_options_next_word(char **words, guint from);

/* Parses what is left of the command line once the command's words are gone. command may be NULL.
 * args: what is no option, NULL-terminated, caller frees with g_strfreev. INVALID for wrong use. */
gboolean bl_options_parse(BlCli *cli, const BlCommand *command, char **words, char ***args,
                          GError **error);

/* A number of bytes: an integer, or one with B, K, KB, KiB, M, MB, MiB … P, PB, PiB behind it
 * (letter case ignored, a decimal part allowed before a unit); all units are powers of 1024.
 * INVALID else, naming the option. */
gboolean bl_option_parse_size(const char *option, const char *text, guint64 *bytes, GError **error);

/* "a-b" (both included), "a-" (to the end), "-n" (the last n). size: the file's length, bytes. A
 * range that begins at or past the end is INVALID; an end past the end is the end. */
gboolean bl_option_parse_range(const char *text, guint64 size, guint64 *first, guint64 *last,
                               GError **error);

/* --wait's value: NULL or the empty text is -1 (for ever), a number of seconds, else INVALID.
 * Milliseconds. */
gboolean bl_option_parse_wait(const char *text, gint *wait_ms, GError **error);

/* A time span in seconds: a number with s, min, h, d or w behind it ("90s", "15min", "30d"), or 0.
 * INVALID else, naming the option. */
gboolean bl_option_parse_duration(const char *option, const char *text, gint64 *seconds,
                                  GError **error);

/* The value of a named option, or else the next positional argument, which *args steps over. `name`
 * is how the usage line calls it. INVALID where there is none. Borrowed. */
const char *bl_option_or_arg(const char *option, char ***args, const char *name, GError **error);
/* INVALID where arguments are left. */
gboolean bl_args_end(char **args, GError **error);
