#include "base/path.h"

#include <string.h>

#include "base/error.h"

static void test_accepted(void) {
  g_autofree char *part = g_strnfill(255, 'p');
  g_autofree char *sixteen = g_strjoin("/", part, part, part, part, part, part, part, part, part,
                                       part, part, part, part, part, part, part, NULL);
  g_assert_cmpuint(strlen(sixteen), ==, 4095);
  const char *good[] = {"a",           "config.json", "1_Pooling/config.json",
                        "...",         "..a",         ".hidden",
                        "a b\nc",      "-rf",         "é",
                        "a/.b/c..",    "~",           "c:\\x",
                        "a,b%2F",      part,          sixteen,
                        "\xef\xbb\xbf"};
  for (guint i = 0; i < G_N_ELEMENTS(good); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_true(bl_path_check(good[i], strlen(good[i]), &error));
    g_assert_no_error(error);
  }
}

static void check_refused(const char *path, gsize size, const char *why) {
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_path_check(path, size, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  g_assert_nonnull(strstr(error->message, why));
}

static void test_refused(void) {
  static const struct {
    const char *path, *why;
  } bad[] = {
      {"", "empty"},
      {"/", "absolute"},
      {"/etc/passwd", "absolute"},
      {"//x", "absolute"},
      {".", "part \".\""},
      {"..", "part \"..\""},
      {"../x", "part \"..\""},
      {"a/..", "part \"..\""},
      {"a/../b", "part \"..\""},
      {"a/./b", "part \".\""},
      {"a//b", "empty part"},
      {"a/", "empty part"},
      {"\xff", "UTF-8"},
      {"a\xc3", "UTF-8"},
      {"\xc0\xae\xc0\xae/x", "UTF-8"}, /* ".." in too many bytes */
      {"\xed\xa0\x80", "UTF-8"},       /* a surrogate */
  };
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++)
    check_refused(bad[i].path, strlen(bad[i].path), bad[i].why);
  check_refused("a\0b", 3, "NUL");
  check_refused("a\0", 2, "NUL");
  g_autofree char *part = g_strnfill(256, 'p');
  check_refused(part, 256, "256 bytes");
  g_autofree char *long_path = g_strnfill(4096, 'p');
  check_refused(long_path, 4096, "4096 bytes");
}

/* A message never carries a raw control character. */
static void test_refused_is_shown_escaped(void) {
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_path_check("a\x1b[31m\xff", 7, &error));
  g_assert_nonnull(strstr(error->message, "a\\x1b[31m\\xff"));
}

static void test_display(void) {
  static const struct {
    const char *path, *shown;
  } rows[] = {
      {"plain name.txt", "plain name.txt"},
      {"\xc3\xa9\xe6\xa8\xa1", "\xc3\xa9\xe6\xa8\xa1"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"\x1b[0m\x7f\x01", "\\x1b[0m\\x7f\\x01"},
      {"back\\slash", "back\\\\slash"},
      {"\xff\xfe.bin", "\\xff\\xfe.bin"},
      {"cut\xe6\xa8", "cut\\xe6\\xa8"},
      {"\xe2\x80\xaegpj.exe", "\\xe2\\x80\\xaegpj.exe"}, /* right-to-left override */
      {"\xe2\x81\xa6x", "\\xe2\\x81\\xa6x"},             /* left-to-right isolate */
      {"\xe2\x80\xa8x", "\\xe2\\x80\\xa8x"},             /* line separator */
      {"\xc2\x9bx", "\\xc2\\x9bx"},                      /* a control of the second kind */
      {"", ""},
  };
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *shown = bl_path_display(rows[i].path);
    g_assert_cmpstr(shown, ==, rows[i].shown);
  }
}

static void test_matches(void) {
  static const struct {
    const char *path, *pattern;
    gboolean matches;
  } rows[] = {
      {"model.safetensors", "*.safetensors", TRUE},
      {"a/b/model.safetensors", "*.safetensors", TRUE},
      {"model.safetensors.index.json", "*.safetensors", FALSE},
      {"a/b", "a?b", TRUE},
      {"a/b", "a[/]b", TRUE},
      {"ab", "a?b", FALSE},
      {"", "", TRUE},
      {"", "*", TRUE},
      {"a", "", FALSE},
      {"abc", "a**c", TRUE},
      {"abc", "a*b", FALSE},
      {"abcb", "a*b", TRUE},
      {"original/x/y", "original/", TRUE},
      {"original", "original/", FALSE},
      {"originals/x", "original/", FALSE},
      {"x/original/y", "*/original/", TRUE},
      {"\xc3\xa9.txt", "?.txt", TRUE}, /* a character, not a byte */
      {"\xff.txt", "?.txt", TRUE},
      {"b", "[a-c]", TRUE},
      {"d", "[a-c]", FALSE},
      {"d", "[!a-c]", TRUE},
      {"b", "[!a-c]", FALSE},
      {"]", "[]]", TRUE},
      {"a", "[!]]", TRUE},
      {"]", "[!]]", FALSE},
      {"-", "[a-]", TRUE},
      {"\xc3\xa9", "[\xc3\xa0-\xc3\xbf]", TRUE},
      {"[a", "[a", TRUE}, /* no set: it never closes */
      {"[", "[", TRUE},
      {"a*b", "a[*]b", TRUE},
      {"axb", "a[*]b", FALSE},
      {"a\\b", "a\\b", TRUE},
      {"A", "a", FALSE},
  };
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *shown = bl_path_display(rows[i].path);
    g_test_message("%s ~ %s", shown, rows[i].pattern);
    g_assert_cmpint(bl_path_matches(rows[i].path, rows[i].pattern), ==, rows[i].matches);
  }
}

/* Naive backtracking takes ages here. */
static void test_matches_in_bounded_time(void) {
  g_autofree char *path = g_strnfill(4000, 'a');
  g_autoptr(GString) pattern = g_string_new(NULL);
  for (guint i = 0; i < 1000; i++) g_string_append(pattern, "a*");
  g_string_append_c(pattern, 'b');
  gint64 start_us = g_get_monotonic_time();
  g_assert_false(bl_path_matches(path, pattern->str));
  g_assert_cmpint(g_get_monotonic_time() - start_us, <, 5 * G_USEC_PER_SEC);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/path/accepted", test_accepted);
  g_test_add_func("/path/refused", test_refused);
  g_test_add_func("/path/refused-is-shown-escaped", test_refused_is_shown_escaped);
  g_test_add_func("/path/display", test_display);
  g_test_add_func("/path/matches", test_matches);
  g_test_add_func("/path/matches-in-bounded-time", test_matches_in_bounded_time);
  return g_test_run();
}
