/* Checkpoints for tests of what reads them: put into a store by hand, with the chunks, digests and
 * info that a test wants. */
#pragma once
#include <glib.h>
#include <string.h>

#include "model/digests.h"
#include "model/info.h"
#include "model/key.h"
#include "model/manifest.h"
#include "store/store.h"

typedef struct {
  const char *path;
  gsize size;
  guint64 chunk_size; /* 0: the file whole */
  gboolean executable;
} TestFile;

typedef enum { TEST_DIGESTS = 1 << 0, TEST_INFO = 1 << 1, TEST_HIDE_CHUNK_SIZE = 1 << 2 } TestParts;

/* The file's bytes follow from its path. Caller frees. */
static inline guint8 *test_bytes(const TestFile *file) {
  guint8 *data = g_malloc(file->size + 1);
  guint64 state = g_str_hash(file->path) | 1;
  for (gsize i = 0; i < file->size; i++) {
    state = state * G_GUINT64_CONSTANT(6364136223846793005) + 1442695040888963407u;
    data[i] = (guint8)(state >> 56);
  }
  data[file->size] = 0;
  return data;
}

static inline void test_put_chunks(BlStore *store, const BlManifest *manifest,
                                   const BlManifestFile *file, const guint8 *data) {
  guint64 chunk_size = file->chunk_size > 0 ? file->chunk_size : MAX(file->size, 1);
  for (guint32 i = 0; i < file->n_chunks; i++) {
    char key[BL_KEY_MAX];
    guint64 start = i * chunk_size;
    GError *error = NULL;
    bl_store_put(store, bl_manifest_chunk_key(manifest, file, i, key), data + start,
                 (gsize)MIN(chunk_size, file->size - start), 0, &error);
    g_assert_no_error(error);
  }
}

static inline void test_put_checkpoint(BlStore *store, const char *id, const TestFile *files,
                                       gsize n, TestParts parts) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlManifest) manifest = bl_manifest_new(id, "org/model", "main", "/nowhere");
  for (gsize i = 0; i < n; i++) {
    BlManifestFile *file = bl_manifest_add(manifest, files[i].path);
    g_autofree guint8 *data = test_bytes(&files[i]);
    file->size = files[i].size;
    file->chunk_size = files[i].chunk_size > 0 ? files[i].chunk_size : files[i].size;
    if (file->size > 0) file->n_chunks = (guint32)((file->size - 1) / file->chunk_size + 1);
    file->has_sha256 = TRUE;
    bl_sha256(data, file->size, file->sha256);
    test_put_chunks(store, manifest, file, data);
    if (parts & TEST_HIDE_CHUNK_SIZE) file->chunk_size = 0;
  }
  g_assert_true(bl_manifest_finish(manifest, &error));
  g_autoptr(BlDigests) digests = bl_digests_new(manifest);
  g_autoptr(BlInfo) info = bl_info_new(manifest);
  if (info->commit == NULL) info->commit = bl_info_content_commit(manifest);
  for (gsize i = 0; i < n; i++) {
    guint64 index = (guint64)(bl_manifest_find(manifest, files[i].path) - manifest->files);
    g_autofree guint8 *data = test_bytes(&files[i]);
    g_autoptr(BlHasher) hasher = bl_hasher_new();
    guint8 sha256[BL_SHA256_SIZE];
    gsize n_crcs;
    bl_hasher_update(hasher, data, files[i].size);
    bl_hasher_finish(hasher, sha256);
    const guint32 *crcs = bl_hasher_crcs(hasher, &n_crcs);
    if (n_crcs > 0) bl_digests_set(digests, index, crcs, n_crcs);
    info->executable[index] = files[i].executable;
  }
  if (parts & TEST_DIGESTS) g_assert_true(bl_digests_save(store, manifest, digests, &error));
  if (parts & TEST_INFO) g_assert_true(bl_info_save(store, manifest, info, &error));
  manifest->is_ready = TRUE;
  g_assert_true(bl_manifest_save(store, manifest, &error));
  g_assert_no_error(error);
}

/* The three ways in which a chunk goes bad. */
static inline void test_flip_byte(BlStore *store, const char *id, const char *path, guint32 chunk,
                                  gsize offset) {
  char key[BL_KEY_MAX];
  g_autofree char *data = NULL;
  gsize size;
  bl_key_chunk(key, id, path, chunk);
  g_assert_true(bl_store_load(store, key, 1u << 30, &data, &size, NULL));
  g_assert_cmpuint(offset, <, size);
  data[offset] ^= 1;
  g_assert_true(bl_store_put(store, key, data, size, BL_PUT_REPLACE, NULL));
}

static inline void test_resize_chunk(BlStore *store, const char *id, const char *path,
                                     guint32 chunk, gsize new_size) {
  char key[BL_KEY_MAX];
  g_autofree char *data = NULL;
  gsize size;
  bl_key_chunk(key, id, path, chunk);
  g_assert_true(bl_store_load(store, key, 1u << 30, &data, &size, NULL));
  g_autofree char *resized = g_malloc0(MAX(new_size, size));
  memcpy(resized, data, size);
  g_assert_true(bl_store_put(store, key, resized, new_size, BL_PUT_REPLACE, NULL));
}

static inline void test_remove_chunk(BlStore *store, const char *id, const char *path,
                                     guint32 chunk) {
  char key[BL_KEY_MAX];
  g_assert_true(bl_store_remove(store, bl_key_chunk(key, id, path, chunk), NULL));
}
