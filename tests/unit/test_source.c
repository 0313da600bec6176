/* What an import finds in a folder, and what it refuses. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../support/in_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "model/source.h"

static void set_up(Fixture *f, gconstpointer data) {
  enter_folder(f, data);
  g_assert_cmpint(g_mkdir("m", 0755), ==, 0);
}

static void put(const char *path) {
  put_text(path, "abc");
}

static void link_to(const char *target, const char *path) {
  g_assert_cmpint(symlink(target, path), ==, 0);
}

static BlSource *open_folder(const char *path, char **include, char **exclude, GError **error) {
  BlSourceRequest request = {.path = path, .include = include, .exclude = exclude};
  return bl_source_open(&request, error);
}

/* The paths found, joined by spaces. */
static void expect_paths(char **include, char **exclude, const char *expected) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlSource) source = open_folder("m", include, exclude, &error);
  g_assert_no_error(error);
  g_autoptr(GString) paths = g_string_new(NULL);
  guint64 n_bytes = 0;
  for (guint64 i = 0; i < source->n_files; i++) {
    g_string_append_printf(paths, "%s%s", i > 0 ? " " : "", source->files[i].path);
    n_bytes += source->files[i].size;
  }
  g_assert_cmpstr(paths->str, ==, expected);
  g_assert_cmpuint(n_bytes, ==, source->n_bytes);
}

static void expect_refused(BlErrorCode code, const char *named, const char *why) {
  g_autoptr(GError) error = NULL;
  g_assert_null(open_folder("m", NULL, NULL, &error));
  g_assert_error(error, BL_ERROR, (gint)code);
  g_assert_nonnull(strstr(error->message, named));
  g_assert_nonnull(strstr(error->message, why));
}

static void test_sorted(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("m/b.json");
  put("m/a/z");
  put("m/a-b");
  put("m/a.json");
  put("m/\xc3\xa9");
  put("m/-x y");
  put("m/new\nline");
  expect_paths(NULL, NULL, "-x y a-b a.json a/z b.json new\nline \xc3\xa9");
}

static void test_globs(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("m/model.safetensors");
  put("m/original/model.safetensors");
  put("m/config.json");
  put("m/1_Pooling/config.json");
  char *json[] = {(char[]){"*.json"}, NULL};
  char *original[] = {(char[]){"original/"}, NULL};
  char *original_folder[] = {(char[]){"original"}, NULL};
  expect_paths(json, NULL, "1_Pooling/config.json config.json");
  expect_paths(NULL, original, "1_Pooling/config.json config.json model.safetensors");
  expect_paths(NULL, original_folder, "1_Pooling/config.json config.json model.safetensors");
  expect_paths(NULL, json, "model.safetensors original/model.safetensors");
}

static void test_left_out(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("m/config.json");
  put("m/.git/HEAD");
  put("m/.cache/huggingface/download/x.lock");
  put("m/.cache/other");
  put("m/.locks/x");
  put("m/.ballast/pull.json");
  put("m/blob.incomplete");
  put("m/tokens.txt.lock");
  put("m/.gitattributes");
  expect_paths(NULL, NULL, ".cache/other .gitattributes config.json tokens.txt.lock");
  g_autoptr(BlSource) source = open_folder("m", NULL, NULL, NULL);
  g_assert_cmpuint(source->left_out->len, ==, 5);
  const char *const named[] = {".ballast", ".cache/huggingface", ".git", ".locks",
                               "blob.incomplete"};
  for (guint i = 0; i < 5; i++)
    g_assert_true(g_str_has_prefix(g_ptr_array_index(source->left_out, i), named[i]));
}

static void test_links_inside(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("m/blobs/abc");
  g_assert_cmpint(g_mkdir("m/snapshot", 0755), ==, 0);
  link_to("../blobs/abc", "m/snapshot/weights.bin");
  link_to("snapshot", "m/again");
  expect_paths(NULL, NULL, "again/weights.bin blobs/abc snapshot/weights.bin");
}

static void test_link_outside(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("secret");
  put("m/config.json");
  link_to("../secret", "m/x\n.json");
  expect_refused(BL_ERROR_CORRUPT, "x\\n.json", "leads out of the folder");
  char *exclude[] = {(char[]){"x*"}, NULL}, *include[] = {(char[]){"config.json"}, NULL};
  expect_paths(NULL, exclude, "config.json");
  expect_paths(include, NULL, "config.json");
}

/* A link whose name looks inside, by way of a link that leads out. */
static void test_link_outside_by_folder(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("elsewhere/x");
  put("m/a/b");
  link_to("../elsewhere", "m/out");
  expect_refused(BL_ERROR_CORRUPT, "\"out\"", "leads out of the folder");
  g_assert_cmpint(unlink("m/out"), ==, 0);
  /* "m" is a prefix of "mm", which is not inside it. */
  put("mm/x");
  link_to("../mm/x", "m/near");
  expect_refused(BL_ERROR_CORRUPT, "near", "leads out of the folder");
}

static void test_link_dangling(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  link_to("tmp/blobs/x", "m/config.json");
  expect_refused(BL_ERROR_CORRUPT, "config.json", "tmp/blobs/x");
}

static void test_link_loops(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  link_to("self", "m/self");
  expect_refused(BL_ERROR_CORRUPT, "self", "leads to itself");
  g_assert_cmpint(unlink("m/self"), ==, 0);
  put("m/a/x");
  link_to("..", "m/a/up");
  expect_refused(BL_ERROR_CORRUPT, "a/up", "folder that it lies in");
}

static void test_special(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("m/config.json");
  g_assert_cmpint(mkfifo("m/pipe", 0600), ==, 0);
  expect_refused(BL_ERROR_CORRUPT, "pipe", "neither a file nor a folder");
}

static void test_not_utf8(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("m/\xff.bin");
  expect_refused(BL_ERROR_CORRUPT, "\\xff.bin", "not UTF-8");
}

static void test_too_deep(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  g_autoptr(GString) path = g_string_new("m");
  for (int i = 0; i < 70; i++) g_string_append(path, "/d");
  g_assert_cmpint(g_mkdir_with_parents(path->str, 0755), ==, 0);
  expect_refused(BL_ERROR_CORRUPT, "d/d", "64 folders deep");
}

static void test_no_folder(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  g_assert_cmpint(g_rmdir("m"), ==, 0);
  expect_refused(BL_ERROR_NOT_FOUND, "\"m\"", "No such file");
  put("m");
  expect_refused(BL_ERROR_INVALID, "\"m\"", "is a file");
}

static void test_names_from_path(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  const char *snapshot = "models--org--name/snapshots/0123456789abcdef0123456789abcdef01234567";
  g_autofree char *config = g_build_filename(snapshot, "config.json", NULL);
  put(config);
  g_autoptr(BlSource) source = open_folder(snapshot, NULL, NULL, NULL);
  g_assert_cmpstr(source->model_id, ==, "org/name");
  g_assert_cmpstr(source->commit, ==, "0123456789abcdef0123456789abcdef01234567");
  put("m/x");
  g_autoptr(BlSource) plain = open_folder("m", NULL, NULL, NULL);
  g_assert_cmpstr(plain->model_id, ==, "m");
  g_assert_null(plain->commit);
  g_assert_true(g_str_has_prefix(plain->uri, "file:///"));
}

static void test_state(Fixture *f, gconstpointer data) {
  (void)f;
  (void)data;
  put("m/x");
  g_assert_cmpint(chmod("m/x", 0755), ==, 0);
  put("m/y");
  g_autoptr(BlSource) source = open_folder("m", NULL, NULL, NULL);
  g_assert_true(source->files[0].executable);
  g_assert_false(source->files[1].executable);
  BlSourceState state;
  bl_autofd fd = bl_source_open_file(source, 0, &state, NULL);
  g_assert_cmpint(fd, >=, 0);
  g_assert_true(bl_source_is_still(source, 0, &state));
  /* Replaced by another file with the same bytes and times. */
  put("m/z");
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                    {state.mtime_ns / 1000000000, state.mtime_ns % 1000000000}};
  g_assert_cmpint(utimensat(AT_FDCWD, "m/z", times, 0), ==, 0);
  g_assert_cmpint(rename("m/z", "m/x"), ==, 0);
  g_assert_false(bl_source_is_still(source, 0, &state));
}

#define ADD(name, test) \
  g_test_add("/source/" name, Fixture, "ballast-source-XXXXXX", set_up, test, leave_folder)

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  ADD("sorted", test_sorted);
  ADD("globs", test_globs);
  ADD("left-out", test_left_out);
  ADD("links-inside", test_links_inside);
  ADD("link-outside", test_link_outside);
  ADD("link-outside-by-folder", test_link_outside_by_folder);
  ADD("link-dangling", test_link_dangling);
  ADD("link-loops", test_link_loops);
  ADD("special", test_special);
  ADD("not-utf8", test_not_utf8);
  ADD("too-deep", test_too_deep);
  ADD("no-folder", test_no_folder);
  ADD("names-from-path", test_names_from_path);
  ADD("state", test_state);
  return g_test_run();
}
