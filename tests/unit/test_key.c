#include "model/key.h"

#include <string.h>

#include "base/error.h"

static char *repeat(const char *text, gsize n) {
  GString *out = g_string_new(NULL);
  while (n-- > 0) g_string_append(out, text);
  return g_string_free(out, FALSE);
}

static void test_id_check(void) {
  g_autofree char *longest = repeat("a", 255), *too_long = repeat("a", 256);
  const char *good[] = {"a",  "0",    "org__name-0123456789ab", "A.b_c-d", "a..b", "a--b",
                        "a.", longest};
  for (gsize i = 0; i < G_N_ELEMENTS(good); i++)
    g_assert_true(bl_checkpoint_id_check(good[i], NULL));
  const char *bad[] = {"",    ".", "..",  ".a",  "-a",   "_a",   "a/b",   "a b",
                       "a\n", "é", "a@b", "a,b", "a%2e", "../x", too_long};
  for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_false(bl_checkpoint_id_check(bad[i], &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  }
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_checkpoint_id_check("a\nb", &error));
  g_assert_nonnull(strstr(error->message, "\"a\\nb\""));
}

static void test_model_id_check(void) {
  g_autofree char *longest = repeat("a", 1024), *too_long = repeat("a", 1025);
  const char *good[] = {"a", "org/name", "名前/模型", "a b@c", "../x", longest};
  for (gsize i = 0; i < G_N_ELEMENTS(good); i++) g_assert_true(bl_model_id_check(good[i], NULL));
  const char *bad[] = {"", "a\nb", "a\x7f", "a\xff", "\x1b[31m", "a\xc2\x85z", too_long};
  for (gsize i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_false(bl_model_id_check(bad[i], &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  }
}

static void test_model_id_default(void) {
  const char *cases[][2] = {
      {"/data/qwen3", "qwen3"},
      {"/data/qwen3/", "qwen3"},
      {"/data/qwen3///", "qwen3"},
      {"qwen3", "qwen3"},
      {"/", ""},
      {"", ""},
      {"/c/hub/models--org--name/snapshots/0123456789abcdef0123456789abcdef01234567", "org/name"},
      {"/c/hub/models--org--name/snapshots/abc/", "org/name"},
      {"/c/hub/models--org--name", "org/name"},
      {"/c/hub/models--org--name-with-dashes/x", "org/name-with-dashes"},
      {"/c/hub/models--gpt2/snapshots/x", "gpt2"},
      {"/models--a--b/copies/models--c--d/x", "c/d"},
      {"/c/models--/x", "x"},
      {"/c/models----name/x", "x"},
      {"/c/models--org--/x", "x"},
      {"/c/xmodels--org--name/x", "x"},
      {"/c/datasets--org--name/x", "x"},
      {"/data/模型", "模型"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *id = bl_model_id_default(cases[i][0]);
    g_assert_cmpstr(id, ==, cases[i][1]);
  }
}

static void test_checkpoint_id_default(void) {
  const char *commit = "0123456789abcdef0123456789abcdef01234567";
  const struct {
    const char *model_id, *commit, *id;
  } cases[] = {
      {"org/name", NULL, "org__name"},
      {"org/name", commit, "org__name-0123456789ab"},
      {"name", commit, "name-0123456789ab"},
      {"a/b/c", NULL, "a__b__c"},
      {"a--b", NULL, "a-b"},
      {"a - b", NULL, "a-b"},
      {"a-é-b", NULL, "a-b"},
      {"a..b...c", NULL, "a.b.c"},
      {"a.-.b", NULL, "a.-.b"},
      {"..", commit, "0123456789ab"},
      {"../../etc", NULL, "etc"},
      {".hidden", NULL, "hidden"},
      {"__x", NULL, "x"},
      {"-x", NULL, "x"},
      {"/x", NULL, "x"},
      {"é/x", NULL, "x"},
      {"模型-7b", NULL, "7b"},
      {"qwen模型", NULL, "qwen-"},
      {"qwen-", commit, "qwen-0123456789ab"},
      {"qwen模", commit, "qwen-0123456789ab"},
      {"a@b:c,d%e", NULL, "a-b-c-d-e"},
      {"a\nb", NULL, "a-b"},
      {"Qwen2.5-7B_Instruct", NULL, "Qwen2.5-7B_Instruct"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autofree char *id = bl_checkpoint_id_default(cases[i].model_id, cases[i].commit, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(id, ==, cases[i].id);
    g_assert_true(bl_checkpoint_id_check(id, NULL));
  }
  const char *hopeless[] = {"", "模型", "...", "--", "/"};
  for (gsize i = 0; i < G_N_ELEMENTS(hopeless); i++) {
    g_autoptr(GError) error = NULL;
    g_assert_null(bl_checkpoint_id_default(hopeless[i], NULL, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  }
}

static void test_checkpoint_id_default_long(void) {
  g_autofree char *fits = repeat("a", 200), *long_one = repeat("a", 201),
                  *very_long = repeat("b.", 500);
  g_autofree char *same = bl_checkpoint_id_default(fits, NULL, NULL);
  g_assert_cmpstr(same, ==, fits);
  /* 200 characters and the first 8 digits of the SHA-256 of all 201, from sha256sum. */
  g_autofree char *cut = bl_checkpoint_id_default(long_one, NULL, NULL);
  g_autofree char *expected = g_strconcat(fits, "a92efd82", NULL);
  g_assert_cmpstr(cut, ==, expected);
  g_autofree char *cut_again = bl_checkpoint_id_default(very_long, "0123456789ab", NULL);
  g_autofree char *cut_other = bl_checkpoint_id_default(very_long, "1123456789ab", NULL);
  g_assert_cmpuint(strlen(cut_again), ==, 208);
  g_assert_true(bl_checkpoint_id_check(cut_again, NULL));
  g_assert_cmpstr(cut_again, !=, cut_other);
}

/* SHA-256 in hex of "a/b.bin", from sha256sum; likewise of "org/name" and "main". */
#define PATH_HEX "cdfd966c004eb82a805a026a05664608c1b1e131c90fe245b74ceded566692a0"
#define MODEL_HEX "7e624f0637ab03b2bad438d7a7c6528c419727441dfabb17d32e63d64ce2ee2b"
#define MAIN_HEX "0d6e4079e36703ebd37c00722f5891d28b0e2811dc114b129215123adcce3605"

static void test_keys(void) {
  BlKeyBuffer key, own;
  g_assert_cmpstr(bl_key_prefix(key, "x"), ==, "weight/models/x/");
  g_assert_cmpstr(bl_key_manifest(key, "x"), ==, "weight/models/x/manifest");
  g_assert_cmpstr(bl_key_info(key, "x"), ==, "weight/models/x/info");
  g_assert_cmpstr(bl_key_digests(key, "x"), ==, "weight/models/x/digests");
  g_assert_cmpstr(bl_key_state(key, "x"), ==, "weight/models/x/state");
  g_assert_cmpstr(bl_key_claim(key, "x"), ==, "weight/models/x/claim");
  g_assert_cmpstr(bl_key_file(key, "x", "a/b.bin"), ==, "weight/models/x/files/" PATH_HEX);
  g_assert_cmpstr(bl_key_file_of_hex(own, "x", PATH_HEX), ==, key);
  g_assert_cmpstr(bl_key_chunk_of_file(own, key, 7), ==,
                  "weight/models/x/files/" PATH_HEX "/chunks/00000007");
  g_assert_cmpstr(bl_key_chunk(key, "x", "a/b.bin", 12345678), ==,
                  "weight/models/x/files/" PATH_HEX "/chunks/12345678");
  g_assert_cmpstr(bl_key_ref(key, "org/name", "main"), ==, "weight/refs/" MODEL_HEX "/" MAIN_HEX);
  g_assert_cmpstr(bl_key_refs_of_model(key, "org/name"), ==, "weight/refs/" MODEL_HEX "/");
  g_assert_cmpstr(bl_key_index_model(key, "org/name"), ==, "weight/index/model/" MODEL_HEX);
}

static void test_longest_key_fits(void) {
  BlKeyBuffer key;
  g_autofree char *id = repeat("a", 255), *path = repeat("p", 4095);
  bl_key_chunk(key, id, path, 99999999);
  g_assert_true(g_str_has_suffix(key, "/chunks/99999999"));
}

static void test_split(void) {
  char id[256];
  const char *rest;
  g_assert_true(bl_key_split("weight/models/x/files/a", id, &rest));
  g_assert_cmpstr(id, ==, "x");
  g_assert_cmpstr(rest, ==, "files/a");
  g_assert_true(bl_key_split("weight/models/x/", id, &rest));
  g_assert_cmpstr(rest, ==, "");
  g_autofree char *longest = repeat("a", 255), *too_long = repeat("a", 256);
  g_autofree char *fits = g_strconcat("weight/models/", longest, "/m", NULL);
  g_autofree char *overflows = g_strconcat("weight/models/", too_long, "/m", NULL);
  g_assert_true(bl_key_split(fits, id, &rest));
  g_assert_cmpstr(id, ==, longest);
  const char *others[] = {"",
                          "weight/models/",
                          "weight/models/x",
                          "weight/models//m",
                          "weight/models/.x/m",
                          "weight/index/models",
                          overflows};
  for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
    g_assert_false(bl_key_split(others[i], id, &rest));
}

static void test_is_chunk(void) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  guint32 chunk;
  const char *base = "weight/models/x/files/" PATH_HEX "/chunks/";
  g_autofree char *good = g_strconcat(base, "00000042", NULL);
  g_assert_true(bl_key_is_chunk(good, "x", hex, &chunk));
  g_assert_cmpstr(hex, ==, PATH_HEX);
  g_assert_cmpuint(chunk, ==, 42);
  g_assert_false(bl_key_is_chunk(good, "y", hex, &chunk));
  const char *ends[] = {"0000042", "000000042", "0000004x", "+0000042", "", "00000042/"};
  for (gsize i = 0; i < G_N_ELEMENTS(ends); i++) {
    g_autofree char *key = g_strconcat(base, ends[i], NULL);
    g_assert_false(bl_key_is_chunk(key, "x", hex, &chunk));
  }
  g_autofree char *upper = g_ascii_strup(good, -1);
  g_assert_false(bl_key_is_chunk(upper, "x", hex, &chunk));
  g_assert_false(bl_key_is_chunk("weight/models/x/manifest", "x", hex, &chunk));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/key/id-check", test_id_check);
  g_test_add_func("/key/model-id-check", test_model_id_check);
  g_test_add_func("/key/model-id-default", test_model_id_default);
  g_test_add_func("/key/checkpoint-id-default", test_checkpoint_id_default);
  g_test_add_func("/key/checkpoint-id-default-long", test_checkpoint_id_default_long);
  g_test_add_func("/key/keys", test_keys);
  g_test_add_func("/key/longest-fits", test_longest_key_fits);
  g_test_add_func("/key/split", test_split);
  g_test_add_func("/key/is-chunk", test_is_chunk);
  return g_test_run();
}
