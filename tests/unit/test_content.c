/* Files of READY checkpoints by size and SHA-256: what is found, and what is passed over. */
#include "model/content.h"

#include <glib/gstdio.h>
#include <string.h>

#include "../support/folder.h"
#include "base/error.h"
#include "checkpoint.h"
#include "store/dir.h"
#include "store/memory.h"

typedef struct {
  char *folder;
  BlStore *store;
} Fixture;

static void set_up(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  f->folder = g_dir_make_tmp("ballast-content-XXXXXX", NULL);
  g_autofree char *path = g_build_filename(f->folder, "store", NULL);
  f->store = bl_dir_store_open(path, TRUE, &error);
  g_assert_no_error(error);
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  bl_store_free(f->store);
  remove_tree(f->folder);
  g_free(f->folder);
}

/* The bytes follow from the path: files of one name and size are equal. */
static const TestFile first[] = {{"a", 100, 0, FALSE}, {"x", 100, 0, FALSE}, {"c", 7, 0, FALSE}};
static const TestFile second[] = {{"a", 100, 0, FALSE}, {"c", 8, 0, FALSE}, {"empty", 0, 0, FALSE}};
static const TestFile chunked[] = {{"a", 100, 30, FALSE}};

static BlContent *load(const Fixture *f, const char *except, guint64 *sizes, gsize n_sizes) {
  g_autoptr(GError) error = NULL;
  BlContent *content = bl_content_load(f->store, except, sizes, n_sizes, NULL, &error);
  g_assert_no_error(error);
  return content;
}

static void assert_n(const BlContent *content, guint64 size, gsize wanted) {
  gsize n;
  const BlContentFile *files = bl_content_find_size(content, size, &n);
  g_assert_cmpuint(n, ==, wanted);
  g_assert_true((files != NULL) == (wanted > 0));
}

static void test_finds(Fixture *f, gconstpointer data) {
  (void)data;
  BlKeyBuffer key;
  gsize n;
  test_put_checkpoint(f->store, "one", first, 3, 0);
  test_put_checkpoint(f->store, "two", second, 3, 0);
  test_put_checkpoint(f->store, "chunked", chunked, 1, 0);
  g_autoptr(BlContent) content = load(f, NULL, NULL, 0);
  assert_n(content, 100, 3); /* a twice, x; not what is stored in pieces */
  assert_n(content, 7, 1);
  assert_n(content, 0, 0);
  assert_n(content, 9, 0);

  g_autofree guint8 *bytes = test_bytes(&first[0]);
  guint8 sha256[BL_SHA256_SIZE];
  bl_sha256(bytes, 100, sha256);
  BlKeyBuffer found_key;
  const BlContentFile *files = bl_content_find(content, 100, sha256, &n);
  g_assert_cmpuint(n, ==, 2);
  g_assert_cmpstr(files[0].checkpoint_id, ==, "one");
  g_assert_cmpstr(files[1].checkpoint_id, ==, "two");
  g_assert_cmpstr(bl_content_key(&files[0], found_key), ==, bl_key_chunk(key, "one", "a", 0));
  g_assert_null(bl_content_find(content, 7, sha256, &n));
  sha256[0] ^= 1;
  g_assert_null(bl_content_find(content, 100, sha256, &n));
}

static void test_leaves_out(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  BlKeyBuffer key;
  test_put_checkpoint(f->store, "one", first, 3, 0);
  test_put_checkpoint(f->store, "two", second, 3, 0);
  guint64 sizes[] = {9, 100, 7};
  g_autoptr(BlContent) some = load(f, "one", sizes, G_N_ELEMENTS(sizes));
  assert_n(some, 100, 1);
  assert_n(some, 7, 0);
  assert_n(some, 8, 0);
  g_autoptr(BlContent) none = load(f, NULL, sizes, 0);
  assert_n(none, 100, 0);

  /* FAILED, damaged and absent manifests. */
  g_autoptr(BlManifest) manifest = bl_manifest_load(f->store, "one", 0, &error);
  g_assert_no_error(error);
  manifest->is_ready = FALSE;
  g_assert_true(bl_manifest_save(f->store, manifest, &error));
  g_assert_true(
      bl_store_put(f->store, bl_key_manifest(key, "two"), "{", 1, BL_PUT_REPLACE, &error));
  g_assert_true(bl_store_put(f->store, bl_key_info(key, "three"), "{}", 2, 0, &error));
  g_autoptr(BlContent) rest = load(f, NULL, NULL, 0);
  assert_n(rest, 100, 0);
}

static void test_cancelled(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  BlJob job;
  test_put_checkpoint(f->store, "one", first, 3, 0);
  bl_job_init(&job);
  job.cancelled = 1;
  g_assert_null(bl_content_load(f->store, NULL, NULL, 0, &job, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CANCELLED);
  bl_job_clear(&job);
}

/* A store that cannot list, or not share, has nothing to offer. */
static void test_unable(void) {
  static const BlStoreCaps caps[] = {BL_STORE_CAN_LIST, BL_STORE_CAN_SHARE};
  for (gsize i = 0; i < G_N_ELEMENTS(caps); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(BlStore) store = bl_memory_store_new(caps[i]);
    test_put_checkpoint(store, "one", first, 3, 0);
    g_autoptr(BlContent) content = bl_content_load(store, NULL, NULL, 0, NULL, &error);
    g_assert_no_error(error);
    assert_n(content, 100, 0);
  }
}

/* Manifests above the size that is read in parallel. */
static void test_large(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GError) error = NULL;
  g_autoptr(BlManifest) manifest = bl_manifest_new("large", "org/model", "main", "/nowhere");
  for (guint i = 0; i < 12000; i++) {
    g_autofree char *path = g_strdup_printf("%05u", i);
    BlManifestFile *file = bl_manifest_add(manifest, path);
    file->size = file->chunk_size = 1 + i % 2;
    file->n_chunks = 1;
    file->has_sha256 = TRUE;
    bl_sha256(&i, sizeof i, file->sha256);
  }
  g_assert_true(bl_manifest_finish(manifest, &error));
  manifest->is_ready = TRUE;
  g_assert_true(bl_manifest_save(f->store, manifest, &error));
  g_assert_no_error(error);
  test_put_checkpoint(f->store, "one", first, 3, 0);
  g_autoptr(BlContent) content = load(f, NULL, NULL, 0);
  assert_n(content, 1, 6000);
  assert_n(content, 2, 6000);
  assert_n(content, 100, 2);
  for (guint i = 0; i < 12000; i += 1000) {
    guint8 sha256[BL_SHA256_SIZE];
    gsize n;
    bl_sha256(&i, sizeof i, sha256);
    g_assert_nonnull(bl_content_find(content, 1 + i % 2, sha256, &n));
    g_assert_cmpuint(n, ==, 1);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add("/content/finds", Fixture, NULL, set_up, test_finds, tear_down);
  g_test_add("/content/leaves-out", Fixture, NULL, set_up, test_leaves_out, tear_down);
  g_test_add("/content/cancelled", Fixture, NULL, set_up, test_cancelled, tear_down);
  g_test_add("/content/large", Fixture, NULL, set_up, test_large, tear_down);
  g_test_add_func("/content/unable", test_unable);
  return g_test_run();
}
