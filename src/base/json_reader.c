/* The reader is a state machine over a window of the input. `state` says what the grammar allows
 * next; `stack` holds one byte for each open array or object, so nesting costs no recursion.
 *
 * Strings are copied run by run: a run ends at a quote, a backslash, a control character or a byte
 * that is not ASCII. Runs are found eight bytes at a time, which is what makes large headers cheap.
 *
 * The text buffer grows to the longest string met, at most max_string. The first error is kept and
 * given again to every later call. */
#include "base/json_reader.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"

/* Large enough that a read costs little against parsing it, small enough to stay in the cache. */
#define WINDOW_SIZE (64 * 1024)
#define TEXT_ROOM_MIN 256

typedef enum {
  AT_VALUE,       /* a value must follow */
  AT_FIRST_VALUE, /* after "[": a value or "]" */
  AT_FIRST_KEY,   /* after "{": a name or "}" */
  AT_KEY,         /* after "," in an object */
  AT_COLON,       /* after a name */
  AFTER_VALUE,    /* "," or the closing bracket; the end where nothing is open */
  AT_END,         /* END was given */
} State;

struct BlJsonReader {
  BlJsonInput input; /* NULL: the window is all there is */
  gpointer user;
  char *what;
  guint8 *window; /* owned; NULL for memory */
  const guint8 *data;
  gsize pos, end;
  guint64 base; /* offset of data[0] in the document */
  State state;
  guint depth, max_depth;
  char *stack; /* '{' or '[' of each open level */
  char *text;
  gsize text_size, text_room, max_string;
  GError *failure;
};

BlJsonReader *bl_json_reader_new(BlJsonInput input, gpointer user, guint max_depth,
                                 gsize max_string, const char *what) {
  BlJsonReader *reader = g_new0(BlJsonReader, 1);
  reader->input = input;
  reader->user = user;
  reader->what = g_strdup(what);
  reader->max_depth = max_depth;
  reader->max_string = max_string;
  reader->stack = g_malloc(max_depth);
  reader->text_room = TEXT_ROOM_MIN;
  reader->text = g_malloc(reader->text_room);
  reader->text[0] = '\0';
  if (input != NULL) reader->data = reader->window = g_malloc(WINDOW_SIZE);
  return reader;
}

BlJsonReader *bl_json_reader_new_from_memory(const void *data, gsize size, guint max_depth,
                                             gsize max_string, const char *what) {
  BlJsonReader *reader = bl_json_reader_new(NULL, NULL, max_depth, max_string, what);
  reader->data = data;
  reader->end = size;
  return reader;
}

void bl_json_reader_free(BlJsonReader *reader) {
  if (reader == NULL) return;
  g_free(reader->what);
  g_free(reader->window);
  g_free(reader->stack);
  g_free(reader->text);
  g_clear_error(&reader->failure);
  g_free(reader);
}

const char *bl_json_reader_text(const BlJsonReader *reader, gsize *size) {
  if (size != NULL) *size = reader->text_size;
  return reader->text;
}

guint bl_json_reader_depth(const BlJsonReader *reader) {
  return reader->depth;
}

guint64 bl_json_reader_offset(const BlJsonReader *reader) {
  return reader->base + reader->pos;
}

static gboolean fail(BlJsonReader *reader, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Keeps the error; next() hands it out. Always FALSE. */
static gboolean fail(BlJsonReader *reader, const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  bl_error_set(&reader->failure, BL_ERROR_CORRUPT,
               "%s: not valid JSON at byte %" G_GUINT64_FORMAT ": %s", reader->what,
               bl_json_reader_offset(reader), text);
  return FALSE;
}

/* TRUE where data[pos] is a byte of the document. FALSE at its end, or with failure set. */
static gboolean fill(BlJsonReader *reader) {
  if (G_LIKELY(reader->pos < reader->end)) return TRUE;
  if (reader->input == NULL) return FALSE;
  gssize n = reader->input(reader->user, reader->window, WINDOW_SIZE, &reader->failure);
  if (n <= 0) return FALSE;
  reader->base += reader->end;
  reader->pos = 0;
  reader->end = (gsize)n;
  return TRUE;
}

/* The byte at the position, not consumed; -1 at the end or with failure set. */
static int peek(BlJsonReader *reader) {
  return fill(reader) ? reader->data[reader->pos] : -1;
}

static int peek_past_space(BlJsonReader *reader) {
  for (;;) {
    int c = peek(reader);
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    reader->pos++;
  }
}

static gboolean fail_at_byte(BlJsonReader *reader, int c, const char *wanted) {
  if (reader->failure != NULL) return FALSE;
  if (c < 0) return fail(reader, "it ends where %s must follow", wanted);
  if (c > ' ' && c < 0x7f) return fail(reader, "'%c' where %s must follow", c, wanted);
  return fail(reader, "byte 0x%02x where %s must follow", (unsigned)c, wanted);
}

static gboolean append(BlJsonReader *reader, const void *bytes, gsize n) {
  if (n > reader->max_string - reader->text_size)
    return fail(reader, "a string or number is longer than %" G_GSIZE_FORMAT " bytes",
                reader->max_string);
  gsize needed = reader->text_size + n + 1;
  if (needed > reader->text_room) {
    while (reader->text_room < needed) reader->text_room *= 2;
    reader->text = g_realloc(reader->text, reader->text_room);
  }
  memcpy(reader->text + reader->text_size, bytes, n);
  reader->text_size += n;
  return TRUE;
}

/* Appends the next n bytes of the window and passes them. */
static gboolean append_run(BlJsonReader *reader, gsize n) {
  const guint8 *start = reader->data + reader->pos;
  reader->pos += MIN(n, reader->max_string - reader->text_size);
  return append(reader, start, n);
}

static gboolean append_code_point(BlJsonReader *reader, gunichar c) {
  char bytes[6];
  return append(reader, bytes, (gsize)g_unichar_to_utf8(c, bytes));
}

/* Length of the run of printable ASCII without quote and backslash that begins at p. */
static gsize plain_run(const guint8 *p, gsize size) {
  const guint64 ones = G_GUINT64_CONSTANT(0x0101010101010101);
  const guint64 highs = ones << 7;
  gsize i = 0;
  for (; i + 8 <= size; i += 8) {
    guint64 v;
    memcpy(&v, p + i, 8);
    guint64 quote = v ^ (ones * '"');
    guint64 backslash = v ^ (ones * '\\');
    /* Each term sets the high bit of a byte below the one subtracted. A borrow can only mark bytes
     * above a true hit. */
    guint64 hit = (v - ones * 0x20) | (quote - ones) | (backslash - ones) | v;
    if ((hit & highs) != 0) break;
  }
  while (i < size && p[i] >= 0x20 && p[i] < 0x80 && p[i] != '"' && p[i] != '\\') i++;
  return i;
}

/* One UTF-8 sequence of two to four bytes; it may lie across two windows. */
static gboolean read_utf8(BlJsonReader *reader) {
  guint8 bytes[4];
  int lead = peek(reader);
  gsize n = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return fail(reader, "byte 0x%02x is not UTF-8", (unsigned)lead);
  for (gsize i = 0; i < n; i++) {
    int c = peek(reader);
    if (reader->failure != NULL) return FALSE;
    if (c < 0 || (i > 0 && (c & 0xc0) != 0x80)) return fail(reader, "a UTF-8 sequence is cut off");
    bytes[i] = (guint8)c;
    reader->pos++;
  }
  /* Overlong forms, surrogates and what is past U+10FFFF show in the second byte. */
  gboolean bad = (lead == 0xe0 && bytes[1] < 0xa0) || (lead == 0xed && bytes[1] > 0x9f) ||
                 (lead == 0xf0 && bytes[1] < 0x90) || (lead == 0xf4 && bytes[1] > 0x8f);
  if (bad) return fail(reader, "a UTF-8 sequence stands for no character");
  return append(reader, bytes, n);
}

static gboolean read_hex4(BlJsonReader *reader, gunichar *value) {
  *value = 0;
  for (int i = 0; i < 4; i++) {
    int c = peek(reader);
    if (c < 0 || !g_ascii_isxdigit(c)) return fail_at_byte(reader, c, "a hexadecimal digit");
    *value = *value * 16 + (gunichar)g_ascii_xdigit_value((char)c);
    reader->pos++;
  }
  return TRUE;
}

/* After "\u". */
static gboolean read_unicode_escape(BlJsonReader *reader) {
  gunichar high, low;
  if (!read_hex4(reader, &high)) return FALSE;
  if (high >= 0xdc00 && high <= 0xdfff) return fail(reader, "a lone low surrogate");
  if (high < 0xd800 || high > 0xdbff) return append_code_point(reader, high);
  for (const char *p = "\\u"; *p != '\0'; p++) {
    if (peek(reader) != *p)
      return reader->failure == NULL ? fail(reader, "a lone high surrogate") : FALSE;
    reader->pos++;
  }
  if (!read_hex4(reader, &low)) return FALSE;
  if (low < 0xdc00 || low > 0xdfff) return fail(reader, "a lone high surrogate");
  return append_code_point(reader, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
}

/* After the backslash. */
static gboolean read_escape(BlJsonReader *reader) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  int c = peek(reader);
  if (c == 'u') {
    reader->pos++;
    return read_unicode_escape(reader);
  }
  const char *found = c > 0 ? strchr(from, c) : NULL;
  if (found == NULL) return fail_at_byte(reader, c, "an escape's letter");
  reader->pos++;
  return append(reader, &to[found - from], 1);
}

/* At the opening quote. */
static gboolean read_string_text(BlJsonReader *reader) {
  reader->pos++;
  reader->text_size = 0;
  for (;;) {
    if (!fill(reader)) return fail_at_byte(reader, -1, "the rest of a string");
    const guint8 *start = reader->data + reader->pos;
    gsize run = plain_run(start, reader->end - reader->pos);
    if (!append_run(reader, run)) return FALSE;
    if (reader->pos == reader->end) continue;
    int c = reader->data[reader->pos];
    if (c < 0x20) return fail(reader, "control character 0x%02x in a string", (unsigned)c);
    if (c >= 0x80) {
      if (!read_utf8(reader)) return FALSE;
      continue;
    }
    reader->pos++;
    if (c == '"') break;
    if (!read_escape(reader)) return FALSE;
  }
  reader->text[reader->text_size] = '\0';
  return TRUE;
}

static const char *skip_digits(const char *p) {
  while (g_ascii_isdigit(*p)) p++;
  return p;
}

static gboolean number_is_valid(const char *p) {
  if (*p == '-') p++;
  if (!g_ascii_isdigit(*p)) return FALSE;
  p = *p == '0' ? p + 1 : skip_digits(p);
  if (*p == '.') {
    if (!g_ascii_isdigit(*++p)) return FALSE;
    p = skip_digits(p);
  }
  if (*p == 'e' || *p == 'E') {
    p++;
    if (*p == '+' || *p == '-') p++;
    if (!g_ascii_isdigit(*p)) return FALSE;
    p = skip_digits(p);
  }
  return *p == '\0';
}

static gboolean is_number_byte(int c) {
  return g_ascii_isdigit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static gboolean read_number_text(BlJsonReader *reader) {
  reader->text_size = 0;
  while (fill(reader)) {
    const guint8 *start = reader->data + reader->pos;
    gsize room = reader->end - reader->pos, run = 0;
    while (run < room && is_number_byte(start[run])) run++;
    if (!append_run(reader, run)) return FALSE;
    if (run < room) break;
  }
  if (reader->failure != NULL) return FALSE;
  reader->text[reader->text_size] = '\0';
  if (!number_is_valid(reader->text))
    return fail(reader, "\"%.40s\" is not a number", reader->text);
  return TRUE;
}

static gboolean read_word(BlJsonReader *reader, const char *word) {
  for (const char *p = word; *p != '\0'; p++) {
    int c = peek(reader);
    if (c != *p) return fail_at_byte(reader, c, word);
    reader->pos++;
  }
  return TRUE;
}

static gboolean open_level(BlJsonReader *reader, char kind) {
  if (reader->depth == reader->max_depth)
    return fail(reader, "nested deeper than %u levels", reader->max_depth);
  reader->stack[reader->depth++] = kind;
  reader->state = kind == '{' ? AT_FIRST_KEY : AT_FIRST_VALUE;
  reader->pos++;
  return TRUE;
}

static void close_level(BlJsonReader *reader) {
  reader->depth--;
  reader->state = AFTER_VALUE;
  reader->pos++;
}

static gboolean read_value(BlJsonReader *reader, int c, BlJsonToken *token) {
  reader->state = AFTER_VALUE;
  switch (c) {
    case '{':
      *token = BL_JSON_OBJECT_START;
      return open_level(reader, '{');
    case '[':
      *token = BL_JSON_ARRAY_START;
      return open_level(reader, '[');
    case '"':
      *token = BL_JSON_STRING;
      return read_string_text(reader);
    case 't':
      *token = BL_JSON_TRUE;
      return read_word(reader, "true");
    case 'f':
      *token = BL_JSON_FALSE;
      return read_word(reader, "false");
    case 'n':
      *token = BL_JSON_NULL;
      return read_word(reader, "null");
    default:
      if (c != '-' && !g_ascii_isdigit(c)) return fail_at_byte(reader, c, "a value");
      *token = BL_JSON_NUMBER;
      return read_number_text(reader);
  }
}

static gboolean read_key(BlJsonReader *reader, int c, BlJsonToken *token) {
  if (c != '"') return fail_at_byte(reader, c, "a name in quotes");
  *token = BL_JSON_KEY;
  reader->state = AT_COLON;
  return read_string_text(reader);
}

/* Passes a comma, or gives the closing token (*closed). */
static gboolean read_after_value(BlJsonReader *reader, int c, BlJsonToken *token,
                                 gboolean *closed) {
  *closed = TRUE;
  if (reader->depth == 0) {
    if (c >= 0) return fail_at_byte(reader, c, "nothing but white space");
    if (reader->failure != NULL) return FALSE;
    reader->state = AT_END;
    *token = BL_JSON_END;
    return TRUE;
  }
  gboolean in_object = reader->stack[reader->depth - 1] == '{';
  if (c == (in_object ? '}' : ']')) {
    *token = in_object ? BL_JSON_OBJECT_END : BL_JSON_ARRAY_END;
    close_level(reader);
    return TRUE;
  }
  if (c != ',') return fail_at_byte(reader, c, in_object ? "',' or '}'" : "',' or ']'");
  *closed = FALSE;
  reader->pos++;
  reader->state = in_object ? AT_KEY : AT_VALUE;
  return TRUE;
}

static gboolean read_token(BlJsonReader *reader, BlJsonToken *token) {
  int c = peek_past_space(reader);
  if (reader->state == AFTER_VALUE) {
    gboolean closed;
    if (!read_after_value(reader, c, token, &closed)) return FALSE;
    if (closed) return TRUE;
    c = peek_past_space(reader);
  } else if (reader->state == AT_COLON) {
    if (c != ':') return fail_at_byte(reader, c, "':'");
    reader->pos++;
    reader->state = AT_VALUE;
    c = peek_past_space(reader);
  }
  if (reader->failure != NULL) return FALSE;
  if (reader->state == AT_FIRST_KEY && c == '}') {
    *token = BL_JSON_OBJECT_END;
    close_level(reader);
    return TRUE;
  }
  if (reader->state == AT_FIRST_VALUE && c == ']') {
    *token = BL_JSON_ARRAY_END;
    close_level(reader);
    return TRUE;
  }
  if (reader->state == AT_FIRST_KEY || reader->state == AT_KEY) return read_key(reader, c, token);
  return read_value(reader, c, token);
}

gboolean bl_json_reader_next(BlJsonReader *reader, BlJsonToken *token, GError **error) {
  if (reader->failure == NULL && reader->state == AT_END) {
    *token = BL_JSON_END;
    return TRUE;
  }
  if (reader->failure == NULL && read_token(reader, token)) return TRUE;
  if (error != NULL) *error = g_error_copy(reader->failure);
  return FALSE;
}

gboolean bl_json_reader_skip(BlJsonReader *reader, BlJsonToken first, GError **error) {
  if (first != BL_JSON_OBJECT_START && first != BL_JSON_ARRAY_START) return TRUE;
  guint outside = reader->depth - 1;
  while (reader->depth > outside) {
    BlJsonToken token;
    if (!bl_json_reader_next(reader, &token, error)) return FALSE;
  }
  return TRUE;
}

static const char *token_words(BlJsonToken token) {
  static const char *const words[] = {
      [BL_JSON_END] = "the end",     [BL_JSON_OBJECT_START] = "an object",
      [BL_JSON_OBJECT_END] = "'}'",  [BL_JSON_ARRAY_START] = "an array",
      [BL_JSON_ARRAY_END] = "']'",   [BL_JSON_KEY] = "a name",
      [BL_JSON_STRING] = "a string", [BL_JSON_NUMBER] = "a number",
      [BL_JSON_TRUE] = "true",       [BL_JSON_FALSE] = "false",
      [BL_JSON_NULL] = "null",
  };
  return words[token];
}

static gboolean fail_member(BlJsonReader *reader, const char *member, GError **error,
                            const char *wanted, const char *found) {
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "%s: \"%s\" must be %s, found %s (before byte %" G_GUINT64_FORMAT ")",
                      reader->what, member, wanted, found, bl_json_reader_offset(reader));
}

gboolean bl_json_reader_expect(BlJsonReader *reader, BlJsonToken token, const char *member,
                               GError **error) {
  BlJsonToken found;
  if (!bl_json_reader_next(reader, &found, error)) return FALSE;
  if (found == token) return TRUE;
  return fail_member(reader, member, error, token_words(token), token_words(found));
}

gboolean bl_json_reader_read_string(BlJsonReader *reader, const char *member, char **value,
                                    GError **error) {
  if (!bl_json_reader_expect(reader, BL_JSON_STRING, member, error)) return FALSE;
  if (memchr(reader->text, '\0', reader->text_size) != NULL)
    return fail_member(reader, member, error, "a string without NUL", "one with NUL");
  *value = g_strndup(reader->text, reader->text_size);
  return TRUE;
}

gboolean bl_json_reader_read_uint64(BlJsonReader *reader, const char *member, guint64 *value,
                                    GError **error) {
  if (!bl_json_reader_expect(reader, BL_JSON_NUMBER, member, error)) return FALSE;
  guint64 sum = 0;
  for (const char *p = reader->text; *p != '\0'; p++) {
    if (!g_ascii_isdigit(*p) || !g_uint64_checked_mul(&sum, sum, 10) ||
        !g_uint64_checked_add(&sum, sum, (guint64)(*p - '0')))
      return fail_member(reader, member, error, "a whole number from 0 to 2^64-1", reader->text);
  }
  *value = sum;
  return TRUE;
}

int bl_json_reader_next_member(BlJsonReader *reader, const char *const *names, int n_names,
                               guint *seen, char **unknown, GError **error) {
  BlJsonToken token = BL_JSON_END;
  while (bl_json_reader_next(reader, &token, error)) {
    if (token == BL_JSON_OBJECT_END) return n_names;
    int i = 0;
    while (i < n_names && (strlen(names[i]) != reader->text_size ||
                           memcmp(names[i], reader->text, reader->text_size) != 0))
      i++;
    if (i < n_names && (*seen & 1u << i) != 0) {
      bl_error_set(error, BL_ERROR_CORRUPT, "%s: member \"%s\" is there twice", reader->what,
                   names[i]);
      return -1;
    }
    if (i < n_names) {
      *seen |= 1u << i;
      return i;
    }
    if (unknown != NULL && *unknown == NULL) *unknown = bl_path_display(reader->text);
    if (!bl_json_reader_next(reader, &token, error) || !bl_json_reader_skip(reader, token, error))
      break;
  }
  return -1;
}
