/* Relative paths of model files, and how any name is shown to people. */
#pragma once
#include <glib.h>

/* Refuses (INVALID) what a checkpoint's path must not be: empty, absolute, not UTF-8, with a NUL,
 * with an empty, "." or ".." part, longer than 4095 bytes or with a part over 255 bytes. `size` is
 * the length in bytes. */
gboolean bl_path_check(const char *path, gsize size, GError **error);

/* The name as it may stand in a message or on a terminal: printable UTF-8 as it is, every other
 * byte (control characters, DEL, bytes that are not UTF-8, bidirectional overrides) as \xNN or \n,
 * \t, \r; a backslash as \\. Caller frees. */
char *bl_path_display(const char *path);

/* fnmatch with "*" that crosses "/" (as git's and the Hub client's globs do); a pattern that ends
 * in "/" stands for everything below it. */
gboolean bl_path_matches(const char *path, const char *pattern);

/* Whether a path is asked for: any of include matches (NULL or empty: all do) and none of exclude.
 */
gboolean bl_path_is_selected(const char *path, char **include, char **exclude);
