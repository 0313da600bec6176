#include "base/json.h"

#include <string.h>

#include "base/error.h"

static json_t *parse(const char *text) {
  g_autoptr(GError) error = NULL;
  json_t *json = bl_json_parse(text, strlen(text), "test", &error);
  g_assert_no_error(error);
  return json;
}

static void test_parse(void) {
  /* The size ends it, not a NUL. */
  g_autoptr(GError) error = NULL;
  g_autoptr(json_t) json = bl_json_parse("{\"a\":1}garbage", 7, "test", &error);
  g_assert_no_error(error);
  g_assert_cmpint(json_integer_value(json_object_get(json, "a")), ==, 1);
}

static void test_parse_refused(void) {
  static const char *const bad[] = {"",
                                    " ",
                                    "{",
                                    "{}x",
                                    "{\"a\":1,}",
                                    "{\"a\":1,\"a\":2}",
                                    "{'a':1}",
                                    "nul",
                                    "{\"a\":01}",
                                    "[\"\xff\"]",
                                    "{\"a\":\"\\u0000\"}",
                                    "[\"\\ud800\"]",
                                    "[18446744073709551616]",
                                    "[1]//x",
                                    "[NaN]",
                                    "[\"\n\"]"};
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_autofree char *shown = g_strescape(bad[i], NULL);
    g_test_message("%s", shown);
    g_autoptr(GError) error = NULL;
    g_assert_null(bl_json_parse(bad[i], strlen(bad[i]), "manifest of \"x\"", &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    g_assert_true(g_str_has_prefix(error->message, "manifest of \"x\": "));
  }
}

/* 100,000 deep: refused, not a stack overflow. */
/* Messages go to terminals. */
static void test_parse_escapes(void) {
  g_autoptr(GError) error = NULL;
  static const char text[] = "\033[31m";
  g_assert_null(bl_json_parse(text, sizeof text - 1, "thing", &error));
  g_assert_null(strchr(error->message, '\033'));
}

static void test_parse_deep(void) {
  g_autofree char *deep = g_strnfill(100000, '[');
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_json_parse(deep, 100000, "deep", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
}

/* What Python's json.dumps(…, sort_keys=True, separators=(",", ":"), ensure_ascii=False) gives. */
static void test_dump(void) {
  static const struct {
    const char *in, *out;
  } rows[] = {
      {"{ \"b\" : [ 1 , true , null ] , \"a\" : { } }", "{\"a\":{},\"b\":[1,true,null]}"},
      {"{\"z\":1,\"Z\":2,\"\\u00e9\":3,\"aa\":4,\"a\":5}",
       "{\"Z\":2,\"a\":5,\"aa\":4,\"z\":1,\"\xc3\xa9\":3}"},
      {"[\"/\\/\\\"\\\\\"]", "[\"//\\\"\\\\\"]"},
      {"[\"\\u0001\\u001F\\u000a\\t\\b\\f\\r\\u007f\"]", "[\"\\u0001\\u001f\\n\\t\\b\\f\\r\x7f\"]"},
      /* not an escape: a backslash, then text that looks like one */
      {"[\"\\\\u001F\"]", "[\"\\\\u001F\"]"},
      {"[9223372036854775807,-1]", "[9223372036854775807,-1]"},
      {"[]", "[]"},
  };
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autoptr(json_t) json = parse(rows[i].in);
    g_autofree char *out = bl_json_dump_compact(json);
    g_assert_cmpstr(out, ==, rows[i].out);
  }
}

static void test_get(void) {
  g_autoptr(json_t) json =
      parse("{\"s\":\"x\",\"n\":9223372036854775807,\"m\":-1,\"z\":null,\"r\":1.0}");
  g_autoptr(GError) error = NULL;
  guint64 value = 0;
  g_assert_cmpstr(bl_json_get_string(json, "s", &error), ==, "x");
  g_assert_true(bl_json_get_uint64(json, "n", &value, &error));
  g_assert_cmpuint(value, ==, G_MAXINT64);
  g_assert_no_error(error);
  g_assert_cmpstr(bl_json_find_string(json, "s", "f"), ==, "x");
  g_assert_cmpstr(bl_json_find_string(json, "z", "f"), ==, "f");
  g_assert_cmpstr(bl_json_find_string(json, "absent", "f"), ==, "f");
  g_assert_null(bl_json_find_string(json, "absent", NULL));
}

static void check_no_uint64(const json_t *json, const char *member) {
  g_autoptr(GError) error = NULL;
  guint64 value;
  g_assert_false(bl_json_get_uint64(json, member, &value, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_nonnull(strstr(error->message, member));
}

static void check_no_string(const json_t *json, const char *member) {
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_json_get_string(json, member, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_nonnull(strstr(error->message, member));
}

static void test_get_refused(void) {
  g_autoptr(json_t) object =
      parse("{\"text\":\"1\",\"minus\":-1,\"none\":null,\"real\":1.0,\"list\":[]}");
  g_autoptr(json_t) array = parse("[1]");
  static const char *const no_number[] = {"text", "minus", "none", "real", "list", "absent"};
  static const char *const no_string[] = {"minus", "none", "real", "list", "absent"};
  for (guint i = 0; i < G_N_ELEMENTS(no_number); i++) check_no_uint64(object, no_number[i]);
  for (guint i = 0; i < G_N_ELEMENTS(no_string); i++) check_no_string(object, no_string[i]);
  check_no_uint64(array, "member");
  check_no_string(array, "member");
}

/* What is written piece by piece is what a dump of the whole would be. */
static void test_append_string(void) {
  g_autoptr(GString) all = g_string_new("\xc3\xa9 \xe2\x80\xa8 \xf0\x9f\x98\x80");
  for (char c = 1; c < 127; c++) g_string_append_c(all, c);
  g_string_append_c(all, 127);
  const char *texts[] = {"", "a", "\"", "\\", "\n", "a\x1f", all->str};
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GString) out = g_string_new("x");
    bl_json_append_string(out, texts[i]);
    g_autoptr(json_t) json = json_string(texts[i]);
    g_autofree char *dumped = bl_json_dump_compact(json);
    g_assert_cmpstr(out->str + 1, ==, dumped);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/json/parse", test_parse);
  g_test_add_func("/json/parse-refused", test_parse_refused);
  g_test_add_func("/json/parse-escapes", test_parse_escapes);
  g_test_add_func("/json/parse-deep", test_parse_deep);
  g_test_add_func("/json/dump", test_dump);
  g_test_add_func("/json/get", test_get);
  g_test_add_func("/json/get-refused", test_get_refused);
  g_test_add_func("/json/append-string", test_append_string);
  return g_test_run();
}
