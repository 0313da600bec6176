#include "model/digests.h"

#include <string.h>

#include "golden.h"

static BlDigests *golden_digests(const BlManifest *manifest) {
  BlDigests *digests = bl_digests_new(manifest);
  for (gsize i = 0; i < G_N_ELEMENTS(golden_files); i++) {
    guint8 sha256[BL_SHA256_SIZE];
    g_autoptr(BlHasher) hasher = golden_hash(&golden_files[i], sha256);
    gsize n;
    const guint32 *crcs = bl_hasher_crcs(hasher, &n);
    bl_digests_set(digests, i, crcs, n);
  }
  return digests;
}

static BlDigests *load_text(const BlManifest *manifest, const char *text, GError **error) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  BlKeyBuffer key;
  put_text(store, bl_key_digests(key, GOLDEN_ID), text);
  return bl_digests_load(store, manifest, error);
}

static void test_save_is_golden(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(BlDigests) digests = golden_digests(manifest);
  g_autoptr(GError) error = NULL;
  bl_digests_save(store, manifest, digests, &error);
  g_assert_no_error(error);
  BlKeyBuffer key;
  assert_golden(store, bl_key_digests(key, GOLDEN_ID), "digests.json");

  g_autoptr(BlDigests) loaded = bl_digests_load(store, manifest, &error);
  g_assert_no_error(error);
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const guint32 *expected = bl_digests_get(digests, i), *crcs = bl_digests_get(loaded, i);
    gsize n = bl_digests_n_blocks(manifest->files[i].size);
    g_assert_cmpint(crcs == NULL, ==, n == 0);
    if (n > 0) g_assert_cmpmem(crcs, n * sizeof *crcs, expected, n * sizeof *expected);
  }
}

static void test_absent(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlDigests) digests = bl_digests_load(store, manifest, &error);
  g_assert_no_error(error);
  for (guint64 i = 0; i < manifest->n_files; i++) g_assert_null(bl_digests_get(digests, i));
}

/* Digests of other bytes than the manifest's are none; the other files keep theirs. */
static void test_bound_to_manifest(void) {
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "digests.json", &size);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(GError) error = NULL;
  manifest->files[0].sha256[31] ^= 1;
  manifest->files[3].size++;
  g_autoptr(BlDigests) digests = load_text(manifest, text, &error);
  g_assert_no_error(error);
  g_assert_null(bl_digests_get(digests, 0));
  g_assert_null(bl_digests_get(digests, 3));
  const guint32 *crcs = bl_digests_get(digests, 2);
  g_assert_cmphex(crcs[0], ==, 0xbc29e3a2);
  g_assert_cmphex(crcs[1], ==, 0xe3ddf06b);
}

/* What a peer's import, or a later version of ballast, may leave: other files, more members. */
static void test_strangers(void) {
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "digests.json", &size);
  g_autofree char *with_file = with_change(
      text, "\"files\":{", "\"files\":{\"gone\":{\"crc\":7},\"README.md/\\u0000\":[{}],");
  g_autofree char *with_member =
      with_change(with_file, "\"crc\":\"3374", "\"new\":[1,{\"a\":2}],\"crc\":\"3374");
  g_autofree char *with_both =
      with_change(with_member, "{\"algorithm\"", "{\"new\":{},\"algorithm\"");
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlDigests) digests = load_text(manifest, with_both, &error);
  g_assert_no_error(error);
  g_assert_cmphex(*bl_digests_get(digests, 0), ==, 0x337437e6);
}

static void test_refused(void) {
  const struct {
    const char *from, *to, *fault;
  } cases[] = {
      {"\"crc32c\"", "\"crc32\"", "not schema 1"},
      {"4194304", "4194305", "not schema 1"},
      {"\"schema_version\":1", "\"schema_version\":0", "not schema 1"},
      {"\"schema_version\":1", "\"new\":1", "a member is missing"},
      {"\"algorithm\":\"crc32c\",", "", "a member is missing"},
      {"\"crc\":\"337437e6\",", "", "file \"1_Pooling/config.json\": a member is missing"},
      {"337437e6", "337437e", "8 digits a block"},
      {"337437e6", "337437E6", "lower-case hex"},
      {"337437e6", "337437e6337437e6", "does not fit its \"size\""},
      {"337437e6", "", "does not fit its \"size\""},
      {"\"size\":8}", "\"size\":-8}", "\"size\" must be"},
      {"\"size\":8}", "\"size\":4194305}", "does not fit its \"size\""},
      {"e346432021b04", "e346432021b0", "\"sha256\" is not 64 digits"},
      {"\"size\":8}", "\"size\":8,\"size\":8}", "\"size\" is there twice"},
      {"\"size\":8},", "\"size\":8},\"1_Pooling/config.json\":{},", "it is there twice"},
      {"{\"algorithm\"", "[{\"algorithm\"", "must be"},
      {"\"files\":{", "\"files\":[],\"file\":{", "\"files\" must be"},
      {"\"schema_version\":1}", "\"schema_version\":1}}", "not valid JSON"},
  };
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "digests.json", &size);
  g_autoptr(BlManifest) manifest = golden_manifest(TRUE);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *changed = with_change(text, cases[i].from, cases[i].to);
    g_autoptr(GError) error = NULL;
    g_assert_null(load_text(manifest, changed, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    g_assert_true(g_str_has_prefix(error->message, "digests of checkpoint \"" GOLDEN_ID "\": "));
    if (strstr(error->message, cases[i].fault) == NULL)
      g_error("\"%s\" is not in: %s", cases[i].fault, error->message);
  }
  g_autofree char *later = with_change(text, "\"schema_version\":1", "\"schema_version\":2");
  g_autoptr(GError) error = NULL;
  g_assert_null(load_text(manifest, later, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
}

/* The text of a large file's CRCs is longer than other strings may be. */
static void test_large_file(void) {
  const guint64 n = 20000;
  g_autoptr(BlManifest) manifest = bl_manifest_new("x", "m", "r", "s");
  BlManifestFile *file = bl_manifest_add(manifest, "big");
  file->size = n * BL_BLOCK_SIZE;
  file->has_sha256 = TRUE;
  g_autofree guint32 *crcs = g_new(guint32, n);
  for (guint64 i = 0; i < n; i++) crcs[i] = (guint32)i * 2654435761u;
  g_autoptr(BlDigests) digests = bl_digests_new(manifest);
  bl_digests_set(digests, 0, crcs, n);
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  bl_digests_save(store, manifest, digests, &error);
  g_assert_no_error(error);
  g_autoptr(BlDigests) loaded = bl_digests_load(store, manifest, &error);
  g_assert_no_error(error);
  g_assert_cmpmem(bl_digests_get(loaded, 0), n * 4, crcs, n * 4);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/digests/save-is-golden", test_save_is_golden);
  g_test_add_func("/digests/absent", test_absent);
  g_test_add_func("/digests/bound-to-manifest", test_bound_to_manifest);
  g_test_add_func("/digests/strangers", test_strangers);
  g_test_add_func("/digests/refused", test_refused);
  g_test_add_func("/digests/large-file", test_large_file);
  return g_test_run();
}
