#include "base/path.h"

#include "base/error.h"

#include <stdarg.h>
#include <string.h>

#define PATH_SIZE_MAX 4095
#define PART_SIZE_MAX 255

#define NOT_UTF8 0x80000000u

static gboolean refuse(const char *path, gsize size, GError **error, const char *format, ...)
    G_GNUC_PRINTF(4, 5);

static gboolean refuse(const char *path, gsize size, GError **error, const char *format, ...) {
  g_autofree char *copy = g_strndup(path, size);
  g_autofree char *shown = bl_path_display(copy);
  va_list args;
  va_start(args, format);
  g_autofree char *fault = g_strdup_vprintf(format, args);
  va_end(args);
  return bl_error_set(error, BL_ERROR_INVALID, "path \"%s\": %s", shown, fault);
}

gboolean bl_path_check(const char *path, gsize size, GError **error) {
  if (size == 0) return bl_error_set(error, BL_ERROR_INVALID, "path is empty");
  if (size > PATH_SIZE_MAX)
    return bl_error_set(error, BL_ERROR_INVALID, "path of %" G_GSIZE_FORMAT " bytes (at most %d)",
                        size, PATH_SIZE_MAX);
  if (memchr(path, '\0', size) != NULL) return refuse(path, size, error, "has a NUL byte");
  if (!g_utf8_validate(path, (gssize)size, NULL)) return refuse(path, size, error, "is not UTF-8");
  if (path[0] == '/') return refuse(path, size, error, "is absolute");

  const char *end = path + size;
  for (const char *part = path;;) {
    const char *slash = memchr(part, '/', (gsize)(end - part));
    gsize part_size = (gsize)((slash != NULL ? slash : end) - part);
    if (part_size == 0) return refuse(path, size, error, "has an empty part");
    if (part_size > PART_SIZE_MAX)
      return refuse(path, size, error, "a part is %" G_GSIZE_FORMAT " bytes long (at most %d)",
                    part_size, PART_SIZE_MAX);
    if (part[0] == '.' && (part_size == 1 || (part_size == 2 && part[1] == '.')))
      return refuse(path, size, error, "has the part \"%.*s\"", (int)part_size, part);
    if (slash == NULL) return TRUE;
    part = slash + 1;
  }
}

/* GLib counts controls, format characters (the bidirectional ones among them) and what Unicode has
 * not assigned as not printable; line and paragraph separators would break a line too. */
static gboolean may_be_shown(gunichar c) {
  return g_unichar_isprint(c) && c != 0x2028 && c != 0x2029;
}

static void append_escaped(GString *shown, const char *bytes, gsize size) {
  for (gsize i = 0; i < size; i++) {
    switch (bytes[i]) {
      case '\n':
        g_string_append(shown, "\\n");
        break;
      case '\t':
        g_string_append(shown, "\\t");
        break;
      case '\r':
        g_string_append(shown, "\\r");
        break;
      case '\\':
        g_string_append(shown, "\\\\");
        break;
      default:
        g_string_append_printf(shown, "\\x%02x", (guint8)bytes[i]);
    }
  }
}

/* The character at p and its length; a byte that is not UTF-8 is a character of its own, above all
 * of Unicode. */
static gunichar get_char(const char *p, gsize *size) {
  gunichar c = g_utf8_get_char_validated(p, -1);
  *size = 1;
  if (c == (gunichar)-1 || c == (gunichar)-2) return NOT_UTF8 | (guint8)*p;
  *size = (gsize)g_unichar_to_utf8(c, NULL);
  return c;
}

static gunichar next_char(const char **p) {
  gsize size;
  gunichar c = get_char(*p, &size);
  *p += size;
  return c;
}

char *bl_path_display(const char *path) {
  GString *shown = g_string_new(NULL);
  gsize size;
  for (; *path != '\0'; path += size) {
    gunichar c = get_char(path, &size);
    if (c < NOT_UTF8 && c != '\\' && may_be_shown(c))
      g_string_append_len(shown, path, (gssize)size);
    else
      append_escaped(shown, path, size);
  }
  return g_string_free(shown, FALSE);
}

/* The "]" that closes the set which begins behind "["; NULL where none does, and the "[" means
 * itself. A "]" that stands first is a member. */
static const char *find_set_end(const char *set) {
  if (*set == '!') set++;
  return *set == '\0' ? NULL : strchr(set + 1, ']');
}

static gboolean set_has(const char *set, const char *end, gunichar c) {
  gboolean negated = *set == '!';
  if (negated) set++;
  gboolean found = FALSE;
  while (set < end) {
    gunichar low = next_char(&set);
    gunichar high = low;
    if (*set == '-' && set + 1 < end) {
      set++;
      high = next_char(&set);
    }
    if (low <= c && c <= high) found = TRUE;
  }
  return found != negated;
}

/* Whether the pattern's first element, which is no "*", stands for c; *pattern then points behind
 * it. */
static gboolean element_matches(const char **pattern, gunichar c) {
  const char *p = *pattern;
  const char *set_end = *p == '[' ? find_set_end(p + 1) : NULL;
  gboolean matches;
  if (set_end != NULL) {
    matches = set_has(p + 1, set_end, c);
    p = set_end + 1;
  } else {
    gunichar wanted = next_char(&p);
    matches = wanted == '?' || wanted == c;
  }
  *pattern = p;
  return matches;
}

/* Only the last "*" met is ever given more: what an earlier one could take in its place, the last
 * can take as well. So the time is at most the product of the two lengths. */
static gboolean glob_matches(const char *path, const char *pattern) {
  const char *star = NULL;      /* pattern behind the last "*" */
  const char *star_path = NULL; /* where what it stands for ends so far */
  while (*path != '\0') {
    if (*pattern == '*') {
      star = ++pattern;
      star_path = path;
      continue;
    }
    const char *rest = path;
    if (*pattern != '\0' && element_matches(&pattern, next_char(&rest))) {
      path = rest;
      continue;
    }
    if (star == NULL) return FALSE;
    next_char(&star_path);
    path = star_path;
    pattern = star;
  }
  while (*pattern == '*') pattern++;
  return *pattern == '\0';
}

gboolean bl_path_matches(const char *path, const char *pattern) {
  if (!g_str_has_suffix(pattern, "/")) return glob_matches(path, pattern);
  g_autofree char *below = g_strconcat(pattern, "*", NULL);
  return glob_matches(path, below);
}

static gboolean matches_any(const char *path, char **patterns) {
  for (; *patterns != NULL; patterns++)
    if (bl_path_matches(path, *patterns)) return TRUE;
  return FALSE;
}

gboolean bl_path_is_selected(const char *path, char **include, char **exclude) {
  if (include != NULL && include[0] != NULL && !matches_any(path, include)) return FALSE;
  return exclude == NULL || !matches_any(path, exclude);
}
