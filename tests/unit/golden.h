/* The golden checkpoint of docs/formats/golden, as the tests of manifest, digests, info and catalog
 * use it. */
#pragma once
#include <string.h>

#include "base/error.h"
#include "model/key.h"
#include "model/manifest.h"
#include "store/memory.h"

#define GOLDEN_ID "org__golden-0123456789ab"
#define GOLDEN_SHARD_SIZE (BL_BLOCK_SIZE + 10)

typedef struct {
  const char *path, *text; /* text NULL: zeros */
  guint64 size, chunk_size;
} GoldenFile;

static const GoldenFile golden_files[] = {
    {"1_Pooling/config.json", "{\"a\":1}\n", 8, 8},
    {"README.md", "", 0, 0},
    {"model.safetensors", NULL, GOLDEN_SHARD_SIZE, GOLDEN_SHARD_SIZE},
    {"odd \"\\\xc3\xa9\x1f\n\x7f.GGUF", "0123456789", 10, 4},
};

/* Caller frees with g_free. */
static inline char *golden_load(const char *folder, const char *name, gsize *size) {
  g_autofree char *path = g_test_build_filename(G_TEST_DIST, "..", folder, name, NULL);
  char *data = NULL;
  g_autoptr(GError) error = NULL;
  g_file_get_contents(path, &data, size, &error);
  g_assert_no_error(error);
  return data;
}

/* The file's SHA-256 and CRCs; free the hasher. */
static inline BlHasher *golden_hash(const GoldenFile *file, guint8 sha256[BL_SHA256_SIZE]) {
  BlHasher *hasher = bl_hasher_new();
  g_autofree char *zeros = g_malloc0(GOLDEN_SHARD_SIZE);
  bl_hasher_update(hasher, file->text != NULL ? file->text : zeros, file->size);
  bl_hasher_finish(hasher, sha256);
  return hasher;
}

/* Files are added in reverse: finish must sort them. */
static inline BlManifest *golden_manifest(gboolean is_ready) {
  BlManifest *manifest = bl_manifest_new(GOLDEN_ID, "org/golden", "main", "/data/golden");
  manifest->is_ready = is_ready;
  manifest->created_at = 1700000000;
  manifest->updated_at = 1700000060;
  if (!is_ready) manifest->error = g_strdup("import in progress: host node-1, process 4711");
  for (gsize i = G_N_ELEMENTS(golden_files); i-- > 0;) {
    const GoldenFile *from = &golden_files[i];
    BlManifestFile *file = bl_manifest_add(manifest, from->path);
    file->chunk_size = from->chunk_size;
    file->n_chunks =
        from->size > 0 ? (guint32)((from->size + from->chunk_size - 1) / from->chunk_size) : 0;
    if (!is_ready) continue;
    bl_hasher_free(golden_hash(from, file->sha256));
    file->size = from->size;
    file->has_sha256 = TRUE;
  }
  g_autoptr(GError) error = NULL;
  bl_manifest_finish(manifest, &error);
  g_assert_no_error(error);
  return manifest;
}

static inline void put_object(BlStore *store, const char *key, const void *data, gsize size) {
  g_autoptr(GError) error = NULL;
  bl_store_put(store, key, data, size, BL_PUT_REPLACE, &error);
  g_assert_no_error(error);
}

static inline void put_text(BlStore *store, const char *key, const char *text) {
  put_object(store, key, text, strlen(text));
}

/* The object's bytes are the golden file's. */
static inline void assert_golden(BlStore *store, const char *key, const char *name) {
  g_autofree char *expected = NULL, *data = NULL;
  gsize expected_size, size;
  g_autoptr(GError) error = NULL;
  expected = golden_load("docs/formats/golden", name, &expected_size);
  bl_store_load(store, key, 1 << 20, &data, &size, &error);
  g_assert_no_error(error);
  g_assert_cmpstr(data, ==, expected);
  g_assert_cmpmem(data, size, expected, expected_size);
}

/* Replaces the first `from` in the text; it must be there. */
static inline char *with_change(const char *text, const char *from, const char *to) {
  g_auto(GStrv) halves = g_strsplit(text, from, 2);
  g_assert_cmpuint(g_strv_length(halves), ==, 2);
  return g_strconcat(halves[0], to, halves[1], NULL);
}
