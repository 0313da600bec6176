/* The control documents of a checkpoint: the same bytes as its manifest, its digests and its info.
 */
#include "fuzz.h"
#include "model/digests.h"
#include "model/info.h"
#include "model/key.h"
#include "model/manifest.h"

#define ID "org__golden-0123456789ab"

static void put(BlStore *store, const char *key, const guint8 *data, gsize size) {
  FUZZ_CHECK(bl_store_put(store, key, data, size, BL_PUT_REPLACE, NULL));
}

static void check_error(const GError *error) {
  FUZZ_CHECK(g_error_matches(error, BL_ERROR, BL_ERROR_CORRUPT) ||
             g_error_matches(error, BL_ERROR, BL_ERROR_UNSUPPORTED));
  FUZZ_CHECK(strchr(error->message, '\n') == NULL);
}

/* What was loaded and can be saved loads as the same. */
static void check_round_trip(BlStore *store, BlManifest *manifest) {
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const BlManifestFile *file = &manifest->files[i];
    FUZZ_CHECK(bl_manifest_find(manifest, file->path) == file);
    if (!file->has_sha256 || file->odd_keys != 0 || file->is_whole) return;
  }
  if (!bl_manifest_save(store, manifest, NULL)) return;
  g_autoptr(BlManifest) again = bl_manifest_load(store, ID, 0, NULL);
  FUZZ_CHECK(again != NULL);
  FUZZ_CHECK(again->n_files == manifest->n_files && again->total_size == manifest->total_size);
  FUZZ_CHECK(memcmp(again->sha256, manifest->sha256, sizeof again->sha256) == 0);
}

static void judge_manifest(const guint8 *data, gsize size) {
  g_autoptr(BlStore) store = bl_store_open("memory:", TRUE, NULL);
  g_autoptr(GError) error = NULL, header_error = NULL;
  BlKeyBuffer key;
  put(store, bl_key_manifest(key, ID), data, size);
  g_autoptr(BlManifest) header =
      bl_manifest_load(store, ID, BL_MANIFEST_HEADER_ONLY, &header_error);
  g_autoptr(BlManifest) manifest = bl_manifest_load(store, ID, 0, &error);
  if (header == NULL) check_error(header_error);
  if (manifest == NULL) {
    check_error(error);
    return;
  }
  FUZZ_CHECK(header != NULL && header->n_files == manifest->n_files);
  check_round_trip(store, manifest);
}

static void judge_beside(const guint8 *data, gsize size) {
  static const char *const paths[] = {"1_Pooling/config.json", "README.md", "model.safetensors"};
  g_autoptr(BlStore) store = bl_store_open("memory:", TRUE, NULL);
  g_autoptr(BlManifest) manifest = bl_manifest_new(ID, "org/golden", "main", "/nowhere");
  g_autoptr(GError) error = NULL;
  BlKeyBuffer key;
  for (gsize i = 0; i < G_N_ELEMENTS(paths); i++) bl_manifest_add(manifest, paths[i])->size = i * 8;
  FUZZ_CHECK(bl_manifest_finish(manifest, NULL));
  put(store, bl_key_digests(key, ID), data, size);
  put(store, bl_key_info(key, ID), data, size);
  g_autoptr(BlDigests) digests = bl_digests_load(store, manifest, &error);
  if (digests == NULL) check_error(error);
  g_clear_error(&error);
  g_autoptr(BlInfo) info = bl_info_load(store, manifest, &error);
  if (info == NULL) check_error(error);
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size) {
  judge_manifest(data, size);
  judge_beside(data, size);
  return 0;
}
