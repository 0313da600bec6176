/* A streaming JSON reader for what can be large: it pulls bytes through a callback and gives one
 * token after the other, in memory that does not grow with the document. Strict RFC 8259: UTF-8
 * checked, no comments, no trailing commas, no lone surrogates, numbers by the grammar; nesting
 * counted, not recursed.
 *
 * Used for safetensors headers (whose reference refuses depth 128), manifests, digests and info.
 * Duplicate members are the caller's to judge: the reader shows them all. */
#pragma once
#include <glib.h>

/* Up to size bytes into data; 0 at the end; -1 with error set. */
typedef gssize (*BlJsonInput)(gpointer user, void *data, gsize size, GError **error);

typedef enum {
  BL_JSON_END, /* the document is over; only white space followed it */
  BL_JSON_OBJECT_START,
  BL_JSON_OBJECT_END,
  BL_JSON_ARRAY_START,
  BL_JSON_ARRAY_END,
  BL_JSON_KEY,    /* an object member's name, in text/size */
  BL_JSON_STRING, /* in text/size */
  BL_JSON_NUMBER, /* as written, in text/size */
  BL_JSON_TRUE,
  BL_JSON_FALSE,
  BL_JSON_NULL,
} BlJsonToken;

typedef struct BlJsonReader BlJsonReader;

/* max_depth: arrays and objects that may be open at once. max_string: bytes a string may have,
 * decoded. `what` begins every message
 * ("manifest of checkpoint \"x\""); copied. */
BlJsonReader *bl_json_reader_new(BlJsonInput input, gpointer user, guint max_depth,
                                 gsize max_string, const char *what);
/* Over bytes that the caller keeps. */
BlJsonReader *bl_json_reader_new_from_memory(const void *data, gsize size, guint max_depth,
                                             gsize max_string, const char *what);
void bl_json_reader_free(BlJsonReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlJsonReader, bl_json_reader_free)

/* The next token. CORRUPT, with the byte's offset and what is wrong, where the text breaks a rule;
 * the input's error as it is. After an error the reader gives nothing more. */
gboolean bl_json_reader_next(BlJsonReader *reader, BlJsonToken *token, GError **error);
/* Of the last KEY, STRING or NUMBER: UTF-8 with escapes decoded, perhaps with NULs in it, always a
 * NUL behind it. Valid until the next call. */
const char *bl_json_reader_text(const BlJsonReader *reader, gsize *size);
/* Objects and arrays open now. */
guint bl_json_reader_depth(const BlJsonReader *reader);
/* Bytes of the document read so far, up to the end of the last token. */
guint64 bl_json_reader_offset(const BlJsonReader *reader);

/* Passes over the value whose first token was just read (nothing to do for a scalar). */
gboolean bl_json_reader_skip(BlJsonReader *reader, BlJsonToken first, GError **error);
/* Reads the next token and fails with CORRUPT, naming `member`, unless it is of that kind. */
gboolean bl_json_reader_expect(BlJsonReader *reader, BlJsonToken token, const char *member,
                               GError **error);
/* The next value as a string without NUL (a copy), or as an unsigned integer in decimal digits;
 * CORRUPT, naming `member`, else. */
gboolean bl_json_reader_read_string(BlJsonReader *reader, const char *member, char **value,
                                    GError **error);
gboolean bl_json_reader_read_uint64(BlJsonReader *reader, const char *member, guint64 *value,
                                    GError **error);

/* Walks an open object whose members are known by name: the next member's index in names, or
 * n_names at the object's end; -1 on error. Its value is the next thing to read. seen collects the
 * bits of the members met (n_names is at most 32); one that comes twice is CORRUPT. Unknown members
 * are passed over; the first one's name, as it may be shown, goes to *unknown (caller frees) where
 * unknown is not NULL and *unknown still is. */
int bl_json_reader_next_member(BlJsonReader *reader, const char *const *names, int n_names,
                               guint *seen, char **unknown, GError **error);
