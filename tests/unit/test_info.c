#include "model/info.h"

#include <string.h>

#include "golden.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define MTIME G_GINT64_CONSTANT(1699999999123456789)

static char **names(const char *first, const char *second) {
  char **list = g_new0(char *, 3);
  list[0] = g_strdup(first);
  list[1] = g_strdup(second);
  return list;
}

static BlInfo *minimal_info(const BlManifest *manifest) {
  BlInfo *info = bl_info_new(manifest);
  info->commit = bl_info_content_commit(manifest);
  info->source_kind = g_strdup("folder");
  info->source_uri = g_strdup("/data/golden");
  info->imported_by_host = g_strdup("node-1");
  info->imported_by_version = g_strdup("0.1.0");
  return info;
}

static BlInfo *full_info(const BlManifest *manifest) {
  BlInfo *info = minimal_info(manifest);
  g_free(info->commit);
  info->commit = g_strdup(COMMIT);
  info->commit_from_source = TRUE;
  g_strfreev(info->refs);
  info->refs = names("main", "v1.0");
  g_free(info->source_kind);
  info->source_kind = g_strdup("hf-cache");
  g_strfreev(info->tags);
  info->tags = names("prod", NULL);
  for (guint64 i = 0; i < manifest->n_files; i++) info->mtime_ns[i] = MTIME;
  info->executable[1] = TRUE;
  info->blob_ids[1] = g_strdup("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  char hex[BL_SHA256_HEX_SIZE + 1];
  bl_hex_encode(manifest->files[2].sha256, BL_SHA256_SIZE, hex);
  info->blob_ids[2] = g_strdup(hex);
  return info;
}

static BlInfo *load_text(const BlManifest *manifest, const char *text, GError **error) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  put_text(store, bl_key_info(key, GOLDEN_ID), text);
  return bl_info_load(store, manifest, error);
}

static void assert_same_names(char **found, char **expected) {
  g_autofree char *a = g_strjoinv("\n", found), *b = g_strjoinv("\n", expected);
  g_assert_cmpstr(a, ==, b);
}

static void assert_same(const BlInfo *info, const BlInfo *expected) {
  g_assert_cmpstr(info->commit, ==, expected->commit);
  g_assert_cmpint(info->commit_from_source, ==, expected->commit_from_source);
  assert_same_names(info->refs, expected->refs);
  assert_same_names(info->tags, expected->tags);
  g_assert_cmpstr(info->source_kind, ==, expected->source_kind);
  g_assert_cmpstr(info->source_uri, ==, expected->source_uri);
  g_assert_cmpstr(info->imported_by_host, ==, expected->imported_by_host);
  g_assert_cmpstr(info->imported_by_version, ==, expected->imported_by_version);
  for (guint64 i = 0; i < expected->n_files; i++) {
    g_assert_cmpint(info->executable[i], ==, expected->executable[i]);
    g_assert_cmpint(info->mtime_ns[i], ==, expected->mtime_ns[i]);
    g_assert_cmpstr(info->blob_ids[i], ==, expected->blob_ids[i]);
  }
}

static void check_golden(const BlManifest *manifest, const BlInfo *info, const char *name) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  bl_info_save(store, manifest, info, &error);
  g_assert_no_error(error);
  BlKeyBuffer key;
  assert_golden(store, bl_key_info(key, GOLDEN_ID), name);
  g_autoptr(BlInfo) loaded = bl_info_load(store, manifest, &error);
  g_assert_no_error(error);
  assert_same(loaded, info);
}

static void test_golden(void) {
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(BlInfo) minimal = minimal_info(manifest), full = full_info(manifest);
  check_golden(manifest, minimal, "info-content.json");
  check_golden(manifest, full, "info-source.json");
}

/* Nothing but the content commit is known. */
static void assert_unknown(const BlInfo *info, const BlManifest *manifest) {
  g_autoptr(BlInfo) unknown = bl_info_new(manifest);
  unknown->commit = bl_info_content_commit(manifest);
  assert_same(info, unknown);
}

static void test_absent(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlInfo) info = bl_info_load(store, manifest, &error);
  g_assert_no_error(error);
  assert_unknown(info, manifest);
}

/* A FAILED manifest has no content to make a commit of. */
static void test_absent_of_failed(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlManifest) manifest = golden_manifest(FALSE);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlInfo) info = bl_info_load(store, manifest, &error);
  g_assert_no_error(error);
  g_assert_null(info->commit);
}

/* Info of what the id held before someone who does not know of info imported it again. */
static void test_of_other_content(void) {
  gsize size;
  g_autofree char *content = golden_load("docs/formats/golden", "info-content.json", &size);
  g_autofree char *source = golden_load("docs/formats/golden", "info-source.json", &size);
  g_autofree char *one_less =
      with_change(source, "\"1_Pooling/config.json\"", "\"1_Pooling/other.json\"");
  const struct {
    const char *text;
    gsize changed_file;
  } cases[] = {{content, 0}, {source, 2}, {source, 3}, {one_less, G_MAXSIZE}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
    if (cases[i].changed_file != G_MAXSIZE) manifest->files[cases[i].changed_file].sha256[0] ^= 1;
    g_autoptr(GError) error = NULL;
    g_autoptr(BlInfo) info = load_text(manifest, cases[i].text, &error);
    g_assert_no_error(error);
    assert_unknown(info, manifest);
  }
}

/* What ballast 0.1.0 wrote: it is of the manifest's content unless something says otherwise. */
static void test_without_content_commit(void) {
  gsize size;
  g_autofree char *source = golden_load("docs/formats/golden", "info-source.json", &size);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autofree char *commit = bl_info_content_commit(manifest);
  g_autofree char *member = g_strdup_printf("\"content_commit\":\"%s\",", commit);
  g_autofree char *text = with_change(source, member, "");
  g_autoptr(BlInfo) expected = full_info(manifest);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlInfo) info = load_text(manifest, text, &error);
  g_assert_no_error(error);
  assert_same(info, expected);
  manifest->files[2].sha256[0] ^= 1; /* its blob id is its SHA-256 */
  g_autoptr(BlInfo) other = load_text(manifest, text, &error);
  g_assert_no_error(error);
  assert_unknown(other, manifest);
}

static void test_unknown_members(void) {
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "info-source.json", &size);
  g_autofree char *first = with_change(text, "{\"commit\"", "{\"new\":[{}],\"commit\"");
  g_autofree char *second = with_change(first, "\"kind\":", "\"new\":1,\"kind\":");
  g_autofree char *third =
      with_change(second, "\"executable\":true", "\"new\":null,\"executable\":true");
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(BlInfo) expected = full_info(manifest);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlInfo) info = load_text(manifest, third, &error);
  g_assert_no_error(error);
  assert_same(info, expected);
}

static void test_mtime_bounds(void) {
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "info-source.json", &size);
  g_autofree char *changed = with_change(text, "1699999999123456789", "-1");
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlInfo) info = load_text(manifest, changed, &error);
  g_assert_no_error(error);
  g_assert_cmpint(info->mtime_ns[0], ==, -1);
}

static void test_refused(void) {
  const struct {
    const char *from, *to, *fault;
  } cases[] = {
      {COMMIT, "0123", "\"commit\" is not 40 digits"},
      {COMMIT, "0123456789ABCDEF0123456789ABCDEF01234567", "\"commit\" is not 40 digits"},
      {"\"content_commit\":\"", "\"content_commit\":\"x", "\"content_commit\" is not 40 digits"},
      {"\"commit_from\":\"source\"", "\"commit_from\":\"guess\"", "neither source nor content"},
      {"\"commit_from\":\"source\",", "", "a member is missing"},
      {"\"refs\":[\"main\"", "\"refs\":[1", "holds more than strings"},
      {"\"refs\":[\"main\",\"v1.0\"]", "\"refs\":\"main\"", "\"refs\" must be"},
      {"\"tags\":[\"prod\"]", "\"tags\":null", "\"tags\" must be"},
      {"\"kind\":\"hf-cache\"", "\"kind\":[]", "\"kind\" must be"},
      {"\"executable\":true", "\"executable\":1", "\"executable\" is no boolean"},
      {"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "../../x", "\"blob_id\" is not 40 or 64 digits"},
      {"1699999999123456789", "9223372036854775808", "\"mtime_ns\" is no integer of 64 bits"},
      {"1699999999123456789", "1.5", "\"mtime_ns\" is no integer of 64 bits"},
      {"\"schema_version\":1", "\"schema_version\":0", "\"schema_version\" is 0"},
      {"\"README.md\":{", "\"README.md\":{},\"README.md\":{", "a file is there twice"},
      {"\"tags\":[\"prod\"]}", "\"tags\":[\"prod\"]", "not valid JSON"},
  };
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "info-source.json", &size);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *changed = with_change(text, cases[i].from, cases[i].to);
    g_autoptr(GError) error = NULL;
    g_assert_null(load_text(manifest, changed, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    g_assert_true(g_str_has_prefix(error->message, "info of checkpoint \"" GOLDEN_ID "\": "));
    if (strstr(error->message, cases[i].fault) == NULL)
      g_error("\"%s\" is not in: %s", cases[i].fault, error->message);
  }
  g_autofree char *later = with_change(text, "\"schema_version\":1", "\"schema_version\":2");
  g_autoptr(GError) error = NULL;
  g_assert_null(load_text(manifest, later, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/info/golden", test_golden);
  g_test_add_func("/info/absent", test_absent);
  g_test_add_func("/info/absent-of-failed", test_absent_of_failed);
  g_test_add_func("/info/of-other-content", test_of_other_content);
  g_test_add_func("/info/without-content-commit", test_without_content_commit);
  g_test_add_func("/info/unknown-members", test_unknown_members);
  g_test_add_func("/info/mtime-bounds", test_mtime_bounds);
  g_test_add_func("/info/refused", test_refused);
  return g_test_run();
}
