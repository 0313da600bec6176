#include "model/identity.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <unistd.h>
#include <utime.h>

#include "../support/folder.h"
#include "checkpoint.h"

static const TestFile files[] = {
    {"a.json", 500, 0, FALSE},
    {"b.bin", 3000, 1000, FALSE},
    {"empty", 0, 0, FALSE},
};

typedef struct {
  char *folder, *root, *state;
  BlStore *store;
  BlManifest *manifest;
} Fixture;

static char *object_path(const Fixture *f, guint64 file, guint32 chunk) {
  char key[BL_KEY_MAX], hex[BL_SHA256_HEX_SIZE + 1];
  guint32 number;
  bl_manifest_chunk_key(f->manifest, &f->manifest->files[file], chunk, key);
  g_assert_true(bl_key_is_chunk(key, "x", hex, &number));
  return g_strdup_printf("%s/weight/models/x/files,%s,chunks,%08u", f->root, hex, number);
}

/* A day old: no change can bear the same time. */
static void set_old(const Fixture *f, guint64 file, guint32 chunk) {
  g_autofree char *path = object_path(f, file, chunk);
  struct utimbuf times = {.actime = 1700000000, .modtime = 1700000000};
  g_assert_cmpint(utime(path, &times), ==, 0);
}

static void set_up(Fixture *f, gconstpointer data) {
  (void)data;
  f->folder = g_dir_make_tmp("ballast-identity-XXXXXX", NULL);
  f->root = g_build_filename(f->folder, "store", NULL);
  f->state = g_build_filename(f->folder, "state", "ballast", NULL);
  f->store = bl_store_open(f->root, TRUE, NULL);
  test_put_checkpoint(f->store, "x", files, G_N_ELEMENTS(files), 0);
  f->manifest = bl_manifest_load(f->store, "x", 0, NULL);
  for (guint64 i = 0; i < f->manifest->n_files; i++)
    for (guint32 c = 0; c < f->manifest->files[i].n_chunks; c++) set_old(f, i, c);
  g_usleep(40 * 1000); /* ctimes settle */
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  bl_manifest_free(f->manifest);
  bl_store_free(f->store);
  remove_tree(f->folder);
  g_free(f->state);
  g_free(f->root);
  g_free(f->folder);
}

static void save_all(const Fixture *f) {
  g_autoptr(BlIdentities) identities = bl_identities_load(f->state, f->store, f->manifest);
  for (guint64 i = 0; i < f->manifest->n_files; i++) bl_identities_look(identities, i);
  bl_identities_save_all(identities, NULL);
}

/* Which files are known to be as they were: a bit each. */
static guint matches(const Fixture *f) {
  g_autoptr(BlIdentities) identities = bl_identities_load(f->state, f->store, f->manifest);
  guint bits = 0;
  for (guint i = 0; i < f->manifest->n_files; i++)
    if (bl_identities_look(identities, i)) bits |= 1u << i;
  return bits;
}

static void test_recorded(Fixture *f, gconstpointer data) {
  (void)data;
  g_assert_cmpuint(matches(f), ==, 4); /* the empty one has nothing to read */
  save_all(f);
  g_assert_cmpuint(matches(f), ==, 7);
  g_autoptr(BlIdentities) identities = bl_identities_load(f->state, f->store, f->manifest);
  bl_identities_forget(identities, 1);
  bl_identities_save(identities);
  g_assert_cmpuint(matches(f), ==, 5);
}

static void test_without_folder(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(BlIdentities) identities = bl_identities_load(NULL, f->store, f->manifest);
  g_assert_false(bl_identities_look(identities, 0));
  bl_identities_record(identities, 0);
  g_assert_false(bl_identities_look(identities, 0));
  bl_identities_forget(identities, 0);
  bl_identities_save(identities);
  bl_identities_remove(NULL, f->store, "x");
  g_assert_false(g_file_test(f->state, G_FILE_TEST_EXISTS));
}

/* A write, and one whose mtime was set back: ctime tells. */
static void test_changed(Fixture *f, gconstpointer data) {
  (void)data;
  save_all(f);
  g_autofree char *path = object_path(f, 1, 2);
  g_chmod(path, 0644);
  g_usleep(20 * 1000);
  g_assert_cmpuint(matches(f), ==, 5);
  save_all(f);
  set_old(f, 0, 0);
  g_assert_cmpuint(matches(f), ==, 6);
  g_assert_cmpint(g_remove(path), ==, 0);
  g_assert_cmpuint(matches(f), ==, 4);
}

/* Names that come and go change the ctime of a file whose bytes are the same. */
static void test_links(Fixture *f, gconstpointer data) {
  (void)data;
  g_autofree char *path = object_path(f, 0, 0), *other = g_strconcat(f->folder, "/link", NULL);
  save_all(f);
  g_assert_cmpint(link(path, other), ==, 0);
  g_assert_cmpuint(matches(f), ==, 7);
  save_all(f);
  g_assert_cmpint(g_remove(other), ==, 0);
  g_assert_cmpuint(matches(f), ==, 7);
  /* Another file of the same size and time. */
  g_autofree char *bytes = NULL;
  gsize size;
  g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
  g_assert_true(g_file_set_contents(other, bytes, (gssize)size, NULL));
  g_assert_cmpint(g_rename(other, path), ==, 0);
  set_old(f, 0, 0);
  g_assert_cmpuint(matches(f), ==, 6);
}

/* A file that changes between the look and the record, and one that changed right before. */
static gboolean is_certain(const Fixture *f, guint64 file) {
  g_autoptr(BlIdentities) identities = bl_identities_load(f->state, f->store, f->manifest);
  return bl_identities_look(identities, file) && bl_identities_is_certain(identities, file);
}

/* Whoever shares an object unread wants its ctime, too, whatever number of names it has. */
static void test_certain(Fixture *f, gconstpointer data) {
  (void)data;
  g_autofree char *path = object_path(f, 0, 0);
  g_autofree char *other = g_build_filename(f->folder, "other", NULL);
  g_assert_false(is_certain(f, 0));
  save_all(f);
  g_assert_true(is_certain(f, 0));
  g_assert_cmpint(link(path, other), ==, 0);
  g_assert_false(is_certain(f, 0));
  g_usleep(40 * 1000);
  save_all(f);
  g_assert_true(is_certain(f, 0));
  /* Written to through the other name, and its time set back: only ctime tells. */
  g_assert_cmpint(g_chmod(other, 0644), ==, 0);
  FILE *file = fopen(other, "r+b");
  g_assert_nonnull(file);
  g_assert_cmpint(fputc('x', file), ==, 'x');
  g_assert_cmpint(fclose(file), ==, 0);
  set_old(f, 0, 0);
  g_assert_cmpuint(matches(f) & 1, ==, 1);
  g_assert_false(is_certain(f, 0));
}

static void test_changed_meanwhile(Fixture *f, gconstpointer data) {
  (void)data;
  save_all(f);
  g_autoptr(BlIdentities) identities = bl_identities_load(f->state, f->store, f->manifest);
  bl_identities_look(identities, 0);
  g_usleep(20 * 1000);
  set_old(f, 0, 0);
  bl_identities_record(identities, 0);
  g_autofree char *path = object_path(f, 1, 0);
  g_assert_cmpint(utime(path, NULL), ==, 0);
  bl_identities_look(identities, 1);
  bl_identities_record(identities, 1);
  bl_identities_save(identities);
  g_assert_cmpuint(matches(f), ==, 4);
}

static char *identities_path(const Fixture *f) {
  g_autofree char *folder = g_build_filename(f->state, "identities", NULL);
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  return g_build_filename(folder, g_dir_read_name(dir), "x", NULL);
}

static void test_untrusted(Fixture *f, gconstpointer data) {
  (void)data;
  save_all(f);
  g_autofree char *path = identities_path(f);
  g_chmod(path, 0620); /* others may have written it */
  g_assert_cmpuint(matches(f), ==, 4);
  g_chmod(path, 0600);
  g_assert_cmpuint(matches(f), ==, 7);
  g_autofree char *bytes = NULL;
  gsize size;
  g_assert_true(g_file_get_contents(path, &bytes, &size, NULL));
  g_assert_cmpuint(size, ==, 56 + 4 * 32 + 4);
  for (gsize i = 0; i <= size; i += 11) {
    g_autofree char *damaged = g_memdup2(bytes, size);
    if (i < size) damaged[i] ^= 4;
    g_assert_true(g_file_set_contents(path, damaged, (gssize)(i < size ? size : size - 1), NULL));
    g_chmod(path, 0600);
    g_assert_cmpuint(matches(f), ==, 4);
  }
  g_remove(path);
  g_assert_cmpint(g_mkdir(path, 0700), ==, 0);
  save_all(f); /* nothing can be kept: no failure */
  g_assert_cmpuint(matches(f), ==, 4);
}

/* The id was imported anew. */
static void test_other_manifest(Fixture *f, gconstpointer data) {
  (void)data;
  save_all(f);
  f->manifest->updated_at++;
  g_assert_true(bl_manifest_save(f->store, f->manifest, NULL));
  g_assert_cmpuint(matches(f), ==, 4);
}

static void test_remove(Fixture *f, gconstpointer data) {
  (void)data;
  save_all(f);
  g_autofree char *path = identities_path(f), *folder = g_path_get_dirname(path);
  bl_identities_remove(f->state, f->store, "../x");
  g_assert_cmpuint(matches(f), ==, 7);
  bl_identities_remove(f->state, f->store, "x");
  g_assert_cmpuint(matches(f), ==, 4);
  g_assert_false(g_file_test(folder, G_FILE_TEST_EXISTS));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
#define ADD(name, func) g_test_add("/identity/" name, Fixture, NULL, set_up, func, tear_down)
  ADD("recorded", test_recorded);
  ADD("without-folder", test_without_folder);
  ADD("changed", test_changed);
  ADD("links", test_links);
  ADD("certain", test_certain);
  ADD("changed-meanwhile", test_changed_meanwhile);
  ADD("untrusted", test_untrusted);
  ADD("other-manifest", test_other_manifest);
  ADD("remove", test_remove);
#undef ADD
  return g_test_run();
}
