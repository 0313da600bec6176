#include "base/json.h"

#include "base/error.h"
#include "base/path.h"

json_t *bl_json_parse(const char *data, gsize size, const char *what, GError **error) {
  json_error_t fault;
  json_t *json = json_loadb(data, size, JSON_REJECT_DUPLICATES, &fault);
  if (json == NULL) {
    /* It quotes the bytes that are there. */
    g_autofree char *text = bl_path_display(fault.text);
    bl_error_set(error, BL_ERROR_CORRUPT, "%s: not valid JSON: line %d, column %d: %s", what,
                 fault.line, fault.column, text);
  }
  return json;
}

/* jansson writes control characters as \u001F, everyone else as \u001f. */
static void lower_escapes(char *text) {
  for (char *p = text; *p != '\0'; p++) {
    if (*p != '\\') continue;
    p++;
    if (*p != 'u') continue;
    for (int i = 1; i <= 4; i++) p[i] = g_ascii_tolower(p[i]);
    p += 4;
  }
}

char *bl_json_dump_compact(const json_t *json) {
  const size_t flags = JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY;
  size_t size = json_dumpb(json, NULL, 0, flags);
  g_assert(size > 0); /* only text that is not UTF-8 makes it fail, and no json_t holds any */
  char *text = g_malloc(size + 1);
  json_dumpb(json, text, size, flags);
  text[size] = '\0';
  lower_escapes(text);
  return text;
}

void bl_json_append_string(GString *out, const char *text) {
  static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  g_string_append_c(out, '"');
  for (const char *p = text; *p != '\0';) {
    const char *run = p;
    while ((guint8)*p >= 0x20 && *p != '"' && *p != '\\') p++;
    g_string_append_len(out, run, p - run);
    if (*p == '\0') break;
    const char *escape = short_escapes;
    while (*escape != '\0' && *escape != *p) escape += 2;
    if (*escape != '\0')
      g_string_append_printf(out, "\\%c", escape[1]);
    else
      g_string_append_printf(out, "\\u%04x", (guint8)*p);
    p++;
  }
  g_string_append_c(out, '"');
}

static json_t *get_member(const json_t *object, const char *member, GError **error) {
  if (!json_is_object(object)) {
    bl_error_set(error, BL_ERROR_CORRUPT, "no object where one with \"%s\" must be", member);
    return NULL;
  }
  json_t *value = json_object_get(object, member);
  if (value == NULL) bl_error_set(error, BL_ERROR_CORRUPT, "\"%s\" is missing", member);
  return value;
}

const char *bl_json_get_string(const json_t *object, const char *member, GError **error) {
  const json_t *value = get_member(object, member, error);
  if (value == NULL) return NULL;
  if (!json_is_string(value)) bl_error_set(error, BL_ERROR_CORRUPT, "\"%s\" is no string", member);
  return json_string_value(value);
}

gboolean bl_json_get_uint64(const json_t *object, const char *member, guint64 *value,
                            GError **error) {
  const json_t *number = get_member(object, member, error);
  if (number == NULL) return FALSE;
  if (!json_is_integer(number) || json_integer_value(number) < 0)
    return bl_error_set(error, BL_ERROR_CORRUPT, "\"%s\" is no unsigned integer", member);
  *value = (guint64)json_integer_value(number);
  return TRUE;
}

const char *bl_json_find_string(const json_t *object, const char *member, const char *fallback) {
  const json_t *value = json_object_get(object, member);
  return json_is_string(value) ? json_string_value(value) : fallback;
}
