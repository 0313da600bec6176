/* The listing of a commit: what is taken, and what is refused. */
#include <string.h>

#include "base/error.h"
#include "model/hf_tree.h"

#define SHA256 "49fe6f84a6f0f558bfde76e401dae815f3c2548e747d2913dfc10f2dfeaf6e11"
#define GIT_BLOB "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

static gboolean append(const BlHfTreeFile *file, gpointer user, GError **error) {
  GString *found = user;
  (void)error;
  g_string_append_printf(found, "%s %" G_GUINT64_FORMAT " %s %s;", file->path, file->size,
                         file->sha256 != NULL ? file->sha256 : "-",
                         file->git_blob != NULL ? file->git_blob : "-");
  return TRUE;
}

/* Gives the text in small pieces. */
static gssize read_piece(gpointer user, void *data, gsize size, GError **error) {
  const char **rest = user;
  gsize n = MIN(MIN(size, strlen(*rest)), 7);
  (void)error;
  memcpy(data, *rest, n);
  *rest += n;
  return (gssize)n;
}

static gboolean read_text(const char *text, GString *found, GError **error) {
  return bl_hf_tree_read(read_piece, &text, append, found, error);
}

static void test_records(void) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) found = g_string_new(NULL);
  g_assert_true(
      read_text("{\"format_version\": 1, \"files\": {"
                "\"a b/config.json\": {\"size\": 519, \"blob_id\": \"" GIT_BLOB "\"},"
                "\"m.safetensors\": {\"xet_hash\": \"x\", \"size\": 130, \"blob_id\": "
                "\"" GIT_BLOB "\", \"lfs_sha256\": \"" SHA256 "\", \"lfs_size\": 7},"
                "\"n.bin\": {\"size\": 8, \"blob_id\": \"" SHA256 "\"}}}\n",
                found, &error));
  g_assert_no_error(error);
  g_assert_cmpstr(found->str, ==,
                  "a b/config.json 519 - " GIT_BLOB ";m.safetensors 7 " SHA256 " -;n.bin 8 " SHA256
                  " -;");
}

static void test_refused(void) {
  static const char *const texts[] = {
      "",
      "{}",
      "[]",
      "{\"format_version\":1}",
      "{\"files\":{}}",
      "{\"format_version\":1,\"files\":[]}",
      "{\"format_version\":1,\"files\":{\"a\":1}}",
      "{\"format_version\":1,\"files\":{\"a\":{\"size\":1}}}",
      ("{\"format_version\":1,\"files\":{\"a\":{\"blob_id\":\"" GIT_BLOB "\"}}}"),
      "{\"format_version\":1,\"files\":{\"a\":{\"size\":1,\"blob_id\":\"abc\"}}}",
      "{\"format_version\":1,\"files\":{\"a\":{\"size\":1,\"blob_id\":\"../../x\"}}}",
      ("{\"format_version\":1,\"files\":{\"a\":{\"size\":1.5,\"blob_id\":\"" GIT_BLOB "\"}}}"),
      ("{\"format_version\":1,\"files\":{\"a\":{\"size\":1,\"blob_id\":\"" GIT_BLOB
       "\",\"lfs_sha256\":\"" GIT_BLOB "\"}}}"),
      "{\"format_version\":1,\"files\":{}} {}",
      "{\"format_version\":1,\"files\":{},\"files\":{}}",
  };
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(GString) found = g_string_new(NULL);
    g_assert_false(read_text(texts[i], found, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  }
}

static void test_later_version(void) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) found = g_string_new(NULL);
  g_assert_false(read_text("{\"format_version\":2,\"files\":{}}", found, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
}

static gboolean stop(const BlHfTreeFile *file, gpointer user, GError **error) {
  (void)file;
  (void)user;
  return bl_error_set(error, BL_ERROR_INVALID, "stopped");
}

static void test_callers_error(void) {
  g_autoptr(GError) error = NULL;
  const char *text =
      "{\"format_version\":1,\"files\":{\"a\":{\"size\":1,\"blob_id\":\"" GIT_BLOB "\"}}}";
  g_assert_false(bl_hf_tree_read(read_piece, &text, stop, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/hf_tree/records", test_records);
  g_test_add_func("/hf_tree/refused", test_refused);
  g_test_add_func("/hf_tree/later-version", test_later_version);
  g_test_add_func("/hf_tree/callers-error", test_callers_error);
  return g_test_run();
}
