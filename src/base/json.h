/* Small JSON documents: jansson, with getters that name what is wrong. Large ones: json_reader.h.
 */
#pragma once
#include <glib.h>
#include <jansson.h>

G_DEFINE_AUTOPTR_CLEANUP_FUNC(json_t, json_decref)

/* Parses one document, duplicates refused, NUL behind it not needed. `what` begins the message.
 * CORRUPT on a fault. New reference. */
json_t *bl_json_parse(const char *data, gsize size, const char *what, GError **error);

/* Sorted keys, no spaces, non-ASCII as it is; what is hashed and stored. Caller frees with g_free.
 */
char *bl_json_dump_compact(const json_t *json);

/* Appends text (UTF-8) as a JSON string, quotes included, escaped as bl_json_dump_compact does: for
 * documents written piece by piece. */
void bl_json_append_string(GString *out, const char *text);

/* Borrowed; an absent member or one of another type is CORRUPT, naming the member. */
const char *bl_json_get_string(const json_t *object, const char *member, GError **error);
gboolean bl_json_get_uint64(const json_t *object, const char *member, guint64 *value,
                            GError **error);
/* As above, but an absent member or null gives the fallback. */
const char *bl_json_find_string(const json_t *object, const char *member, const char *fallback);
