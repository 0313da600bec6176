#include "base/json_reader.h"

#include <string.h>

#include "base/error.h"

/* Gives a document in pieces of `piece` bytes; fails once `fail_at` bytes were given. */
typedef struct {
  const char *data;
  gsize size, pos, piece, fail_at;
} Pieces;

static gssize pieces_read(gpointer user, void *data, gsize size, GError **error) {
  Pieces *pieces = user;
  if (pieces->pos >= pieces->fail_at) {
    bl_error_set(error, BL_ERROR_UNAVAILABLE, "the disk is gone");
    return -1;
  }
  gsize n = MIN(MIN(size, pieces->piece), pieces->size - pieces->pos);
  memcpy(data, pieces->data + pieces->pos, n);
  pieces->pos += n;
  return (gssize)n;
}

/* The tokens as one line: structure as itself, k:name, s:string, n:number; "!" and the error where
 * it fails. */
static char *trace(BlJsonReader *reader) {
  static const char *const marks[] = {".", "{", "}", "[", "]", "k:", "s:", "n:", "t", "f", "0"};
  GString *out = g_string_new(NULL);
  for (;;) {
    BlJsonToken token;
    g_autoptr(GError) error = NULL;
    if (!bl_json_reader_next(reader, &token, &error)) {
      g_string_append_printf(out, "!%s", error->message);
      BlJsonToken again;
      g_autoptr(GError) kept = NULL;
      g_assert_false(bl_json_reader_next(reader, &again, &kept));
      g_assert_cmpstr(kept->message, ==, error->message);
      return g_string_free(out, FALSE);
    }
    g_string_append(out, marks[token]);
    gsize size;
    const char *text = bl_json_reader_text(reader, &size);
    if (token >= BL_JSON_KEY && token <= BL_JSON_NUMBER) {
      g_assert_cmpint(text[size], ==, '\0');
      for (gsize i = 0; i < size; i++)
        if (text[i] == '\0')
          g_string_append(out, "<NUL>");
        else
          g_string_append_c(out, text[i]);
      g_string_append_c(out, ' ');
    }
    if (token == BL_JSON_END) return g_string_free(out, FALSE);
  }
}

static char *trace_memory(const char *json, gsize size, guint depth, gsize max_string) {
  /* An exact copy, so that a sanitizer sees a read past the end. */
  g_autofree char *copy = g_memdup2(json, size);
  g_autoptr(BlJsonReader) reader =
      bl_json_reader_new_from_memory(copy, size, depth, max_string, "doc");
  return trace(reader);
}

/* From memory and in pieces of every small size: the same tokens. */
static char *trace_all_ways(const char *json, gsize size) {
  char *whole = trace_memory(json, size, 8, 64);
  for (gsize piece = 1; piece <= 9; piece++) {
    Pieces pieces = {json, size, 0, piece, G_MAXSIZE};
    g_autoptr(BlJsonReader) reader = bl_json_reader_new(pieces_read, &pieces, 8, 64, "doc");
    g_autofree char *other = trace(reader);
    g_assert_cmpstr(other, ==, whole);
  }
  return whole;
}

static void test_accepts(void) {
  static const struct {
    const char *json, *tokens;
  } cases[] = {
      {"{}", "{}."},
      {" \t\r\n[ ] \n", "[]."},
      {"{\"a\":1,\"b\":[true,false,null]}", "{k:a n:1 k:b [tf0]}."},
      {"{ \"a\" : { \"b\" : \"c\" } , \"a\" : 2 }", "{k:a {k:b s:c }k:a n:2 }."},
      {"\"\"", "s: ."},
      {"0", "n:0 ."},
      {"[-0,1.50,-2e+3,4E-5,18446744073709551616]",
       "[n:-0 n:1.50 n:-2e+3 n:4E-5 n:18446744073709551616 ]."},
      {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s:\"\\/\b\f\n\r\t ."},
      {"\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"", "s:A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 ."},
      {"\"\\u0000x\"", "s:<NUL>x ."},
      {"\"\x7f\xc3\xa9\xe2\x82\xac\xed\x9f\xbf\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\"",
       "s:\x7f\xc3\xa9\xe2\x82\xac\xed\x9f\xbf\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf ."},
      {"[[[[[[[[]]]]]]]]", "[[[[[[[[]]]]]]]]."},
      {"\"0123456789012345678901234567890123456789012345678901234567890123\"",
       "s:0123456789012345678901234567890123456789012345678901234567890123 ."},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *got = trace_all_ways(cases[i].json, strlen(cases[i].json));
    g_assert_cmpstr(got, ==, cases[i].tokens);
  }
}

static void test_refuses(void) {
  static const struct {
    const char *json;
    gsize size; /* 0: its strlen */
    const char *words;
  } cases[] = {
      {"", 0, "at byte 0: it ends where a value must follow"},
      {"   ", 0, "at byte 3: it ends"},
      {"\xef\xbb\xbf{}", 0, "at byte 0: byte 0xef where a value"},
      {"{", 0, "it ends where a name"},
      {"[", 0, "it ends where a value"},
      {"[1", 0, "it ends where ',' or ']'"},
      {"{\"a\"", 0, "it ends where ':'"},
      {"{\"a\":", 0, "it ends where a value"},
      {"{\"a\":1", 0, "it ends where ',' or '}'"},
      {"[1,]", 0, "']' where a value"},
      {"{\"a\":1,}", 0, "'}' where a name"},
      {"{,}", 0, "',' where a name"},
      {"[,1]", 0, "',' where a value"},
      {"[1 2]", 0, "at byte 3: '2' where ',' or ']'"},
      {"{\"a\" 1}", 0, "'1' where ':'"},
      {"{a:1}", 0, "'a' where a name"},
      {"{1:2}", 0, "'1' where a name"},
      {"[1}", 0, "'}' where ',' or ']'"},
      {"{\"a\":1]", 0, "']' where ',' or '}'"},
      {"]", 0, "']' where a value"},
      {"{}{}", 0, "'{' where nothing but white space"},
      {"{} x", 0, "'x' where nothing but white space"},
      {"{}\0", 3, "byte 0x00 where nothing but white space"},
      {"{}// c", 0, "'/' where nothing"},
      {"[/**/]", 0, "'/' where a value"},
      {"[NaN]", 0, "'N' where a value"},
      {"[Infinity]", 0, "'I' where a value"},
      {"[-Infinity]", 0, "\"-\" is not a number"},
      {"[nul]", 0, "']' where null"},
      {"[truE]", 0, "'E' where true"},
      {"[truex]", 0, "'x' where ',' or ']'"},
      {"[01]", 0, "\"01\" is not a number"},
      {"[1.]", 0, "\"1.\" is not a number"},
      {"[.5]", 0, "'.' where a value"},
      {"[+1]", 0, "'+' where a value"},
      {"[1e]", 0, "\"1e\" is not a number"},
      {"[1e+]", 0, "\"1e+\" is not a number"},
      {"[-]", 0, "\"-\" is not a number"},
      {"[1-2]", 0, "\"1-2\" is not a number"},
      {"[0x1]", 0, "'x' where ',' or ']'"},
      {"'a'", 0, "''' where a value"},
      {"\"a", 0, "it ends where the rest of a string"},
      {"\"a\nb\"", 0, "control character 0x0a"},
      {"\"a\0b\"", 5, "control character 0x00"},
      {"\"12345678\x1f\"", 0, "control character 0x1f"},
      {"\"\\x\"", 0, "'x' where an escape's letter"},
      {"\"\\\0\"", 4, "byte 0x00 where an escape's letter"},
      {"\"\\", 0, "it ends where an escape's letter"},
      {"\"\\u12g4\"", 0, "'g' where a hexadecimal digit"},
      {"\"\\u12", 0, "it ends where a hexadecimal digit"},
      {"\"\\ud800\"", 0, "a lone high surrogate"},
      {"\"\\ud800\\n\"", 0, "a lone high surrogate"},
      {"\"\\ud800\\u0041\"", 0, "a lone high surrogate"},
      {"\"\\udc00\"", 0, "a lone low surrogate"},
      {"\"\x80\"", 0, "byte 0x80 is not UTF-8"},
      {"\"\xff\"", 0, "byte 0xff is not UTF-8"},
      {"\"\xc0\xaf\"", 0, "byte 0xc0 is not UTF-8"},
      {"\"\xc3\"", 0, "a UTF-8 sequence is cut off"},
      {"\"\xe2\x82", 0, "a UTF-8 sequence is cut off"},
      {"\"\xe0\x80\xaf\"", 0, "stands for no character"},
      {"\"\xed\xa0\x80\"", 0, "stands for no character"},
      {"\"\xf0\x80\x80\xaf\"", 0, "stands for no character"},
      {"\"\xf4\x90\x80\x80\"", 0, "stands for no character"},
      {"\"\xf5\x80\x80\x80\"", 0, "byte 0xf5 is not UTF-8"},
      {"[[[[[[[[[]]]]]]]]]", 0, "at byte 8: nested deeper than 8 levels"},
      {"\"01234567890123456789012345678901234567890123456789012345678901234\"", 0,
       "longer than 64 bytes"},
      {"12345678901234567890123456789012345678901234567890123456789012345", 0,
       "longer than 64 bytes"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    gsize size = cases[i].size > 0 ? cases[i].size : strlen(cases[i].json);
    g_autofree char *got = trace_all_ways(cases[i].json, size);
    const char *message = strchr(got, '!');
    g_assert_nonnull(message);
    g_assert_nonnull(strstr(message, "doc: not valid JSON at byte "));
    if (strstr(message, cases[i].words) == NULL)
      g_error("\"%s\" gave %s, wanted %s", cases[i].json, message, cases[i].words);
  }
}

/* Every byte value in every place of the eight-byte scan. */
static void test_every_byte_in_every_place(void) {
  for (guint at = 0; at < 20; at++) {
    for (guint byte = 0; byte < 128; byte++) {
      char json[23] = "\"aaaaaaaaaaaaaaaaaaaa\"";
      json[1 + at] = (char)byte;
      g_autofree char *got = trace_memory(json, 22, 8, 64);
      gboolean plain = byte >= 0x20 && byte != '"' && byte != '\\';
      g_assert_cmpint(g_str_has_suffix(got, " ."), ==, plain);
    }
  }
}

static void test_windows(void) {
  /* Strings and multi-byte characters across the reader's own windows. */
  GString *json = g_string_new("[");
  for (guint i = 0; i < 60000; i++)
    g_string_append_printf(json, "%s\"x%u\xe2\x82\xac\"", i > 0 ? "," : "", i);
  g_string_append_c(json, ']');
  Pieces pieces = {json->str, json->len, 0, G_MAXSIZE, G_MAXSIZE};
  g_autoptr(BlJsonReader) reader = bl_json_reader_new(pieces_read, &pieces, 8, 64, "doc");
  BlJsonToken token;
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  for (guint i = 0; i < 60000; i++) {
    g_autofree char *want = g_strdup_printf("x%u\xe2\x82\xac", i);
    g_assert_true(bl_json_reader_next(reader, &token, NULL));
    g_assert_cmpint(token, ==, BL_JSON_STRING);
    g_assert_cmpstr(bl_json_reader_text(reader, NULL), ==, want);
  }
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  g_assert_cmpint(token, ==, BL_JSON_ARRAY_END);
  g_assert_cmpuint(bl_json_reader_offset(reader), ==, json->len);
  g_string_free(json, TRUE);
}

static void test_input_error(void) {
  const char json[] = "{\"abc\":[1,\"x\\u0041\xc3\xa9\",true]}";
  for (gsize fail_at = 0; fail_at < sizeof json; fail_at++) {
    Pieces pieces = {json, sizeof json - 1, 0, 1, fail_at};
    g_autoptr(BlJsonReader) reader = bl_json_reader_new(pieces_read, &pieces, 8, 64, "doc");
    g_autofree char *got = trace(reader);
    g_assert_nonnull(strstr(got, "!the disk is gone"));
  }
}

static void test_skip_and_depth(void) {
  const char json[] = "{\"a\":{\"b\":[{},[[]],\"]\"]},\"c\":7}";
  g_autoptr(BlJsonReader) reader =
      bl_json_reader_new_from_memory(json, sizeof json - 1, 8, 64, "doc");
  BlJsonToken token;
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  g_assert_cmpint(token, ==, BL_JSON_OBJECT_START);
  g_assert_cmpuint(bl_json_reader_depth(reader), ==, 2);
  g_assert_true(bl_json_reader_skip(reader, token, NULL));
  g_assert_cmpuint(bl_json_reader_depth(reader), ==, 1);
  g_assert_true(bl_json_reader_expect(reader, BL_JSON_KEY, "c", NULL));
  g_assert_cmpstr(bl_json_reader_text(reader, NULL), ==, "c");
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  g_assert_true(bl_json_reader_skip(reader, token, NULL));
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  g_assert_cmpint(token, ==, BL_JSON_OBJECT_END);
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  g_assert_cmpint(token, ==, BL_JSON_END);
  g_assert_true(bl_json_reader_next(reader, &token, NULL));
  g_assert_cmpint(token, ==, BL_JSON_END);
}

static void assert_number(const char *json, gboolean ok, guint64 value) {
  g_autoptr(BlJsonReader) reader = bl_json_reader_new_from_memory(json, strlen(json), 8, 64, "doc");
  g_autoptr(GError) error = NULL;
  guint64 got = 0;
  g_assert_cmpint(bl_json_reader_read_uint64(reader, "size", &got, &error), ==, ok);
  if (ok) {
    g_assert_cmpuint(got, ==, value);
    return;
  }
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_nonnull(strstr(error->message, "doc: \"size\" must be "));
}

static void test_getters(void) {
  assert_number("0", TRUE, 0);
  assert_number("18446744073709551615", TRUE, G_MAXUINT64);
  assert_number("18446744073709551616", FALSE, 0);
  assert_number("99999999999999999999", FALSE, 0);
  assert_number("-1", FALSE, 0);
  assert_number("1.0", FALSE, 0);
  assert_number("1e2", FALSE, 0);
  assert_number("\"1\"", FALSE, 0);
  assert_number("null", FALSE, 0);

  const char json[] = "[\"ok\",\"n\\u0000l\"]";
  g_autoptr(BlJsonReader) reader =
      bl_json_reader_new_from_memory(json, sizeof json - 1, 8, 64, "doc");
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL, *none = NULL;
  g_assert_true(bl_json_reader_expect(reader, BL_JSON_ARRAY_START, "list", NULL));
  g_assert_true(bl_json_reader_read_string(reader, "item", &text, NULL));
  g_assert_cmpstr(text, ==, "ok");
  g_assert_false(bl_json_reader_read_string(reader, "item", &none, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_clear_error(&error);
  g_assert_false(bl_json_reader_expect(reader, BL_JSON_STRING, "item", &error));
  g_assert_cmpstr(error->message, ==, "doc: \"item\" must be a string, found ']' (before byte 17)");
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/json-reader/accepts", test_accepts);
  g_test_add_func("/json-reader/refuses", test_refuses);
  g_test_add_func("/json-reader/every-byte-in-every-place", test_every_byte_in_every_place);
  g_test_add_func("/json-reader/windows", test_windows);
  g_test_add_func("/json-reader/input-error", test_input_error);
  g_test_add_func("/json-reader/skip-and-depth", test_skip_and_depth);
  g_test_add_func("/json-reader/getters", test_getters);
  return g_test_run();
}
