/* What the memory store has beyond the contract: capabilities as asked, a capacity, names. */
#include "store/memory.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

static void check_unsupported(const GError *error) {
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
}

static gboolean ignore_key(const char *key, const BlObjectStat *object, gpointer user,
                           GError **error) {
  (void)key;
  (void)object;
  (void)user;
  (void)error;
  return TRUE;
}

static gboolean ignore_folder(const char *part, gpointer user, GError **error) {
  return ignore_key(part, 0, user, error);
}

/* A store that can only put, get and remove, as a remote one may be. */
static void test_no_capabilities(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_STORE_IS_REMOTE | BL_STORE_IS_SHARED);
  g_assert_true(bl_store_can(store, BL_STORE_IS_REMOTE));
  g_assert_true(bl_store_can(store, BL_STORE_IS_SHARED));
  g_assert_true(bl_store_put(store, "k", "x", 1, 0, NULL));
  g_autoptr(GError) list = NULL, folders = NULL, fd = NULL, move = NULL, held = NULL,
                    put_held = NULL, clone = NULL;
  BlHoldState state;
  g_assert_false(bl_store_list(store, "", ignore_key, NULL, &list));
  check_unsupported(list);
  g_assert_false(bl_store_list_folders(store, "", ignore_folder, NULL, &folders));
  check_unsupported(folders);
  g_assert_cmpint(bl_store_open_fd(store, "k", &fd), ==, -1);
  check_unsupported(fd);
  g_assert_false(bl_store_move(store, "k", "l", &move));
  check_unsupported(move);
  g_assert_false(bl_store_is_held(store, "k", &state, &held));
  check_unsupported(held);
  g_assert_null(bl_store_put_held(store, "l", "x", 1, &put_held));
  check_unsupported(put_held);
  g_assert_false(bl_store_clone_fd(store, "l", 0, 1, &clone));
  check_unsupported(clone);
  g_autoptr(GError) share = NULL, hold = NULL;
  g_assert_false(bl_store_share_fd(store, "l", 0, 0, &share));
  check_unsupported(share);
  g_assert_null(bl_store_hold_shared(store, "k", &hold));
  check_unsupported(hold);
}

static void check_denied(gboolean done, GError **error) {
  g_assert_false(done);
  g_assert_error(*error, BL_ERROR, BL_ERROR_DENIED);
  g_clear_error(error);
}

static void test_read_only(void) {
  g_autoptr(BlStore) writable = bl_memory_store_open("read-only", TRUE);
  g_assert_true(bl_store_put(writable, "k", "x", 1, 0, NULL));
  g_autoptr(BlStore) store = bl_memory_store_open("read-only", TRUE);
  store->caps |= BL_STORE_IS_READ_ONLY;
  g_autoptr(GError) error = NULL;
  check_denied(bl_store_put(store, "k", "y", 1, BL_PUT_REPLACE, &error), &error);
  check_denied(bl_store_writer_open(store, "l", 1, 0, &error) != NULL, &error);
  check_denied(bl_store_remove(store, "k", &error), &error);
  check_denied(bl_store_move(store, "k", "l", &error), &error);
  check_denied(bl_store_put_held(store, "l", "y", 1, &error) != NULL, &error);
  guint64 size = 0;
  g_assert_true(bl_store_size(store, "k", &size, &error));
  g_assert_cmpuint(size, ==, 1);
}

static void check_no_space(gboolean done, GError **error) {
  g_assert_false(done);
  g_assert_error(*error, BL_ERROR, BL_ERROR_NO_SPACE);
  g_clear_error(error);
}

static void check_free(BlStore *store, guint64 expected) {
  guint64 bytes = 0;
  g_assert_true(bl_store_free_space(store, &bytes, NULL));
  g_assert_cmpuint(bytes, ==, expected);
}

static void test_capacity(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  bl_memory_store_set_capacity(store, 10);
  check_free(store, 10);
  g_assert_true(bl_store_put(store, "a", "12345678", 8, 0, &error));
  check_free(store, 2);
  check_no_space(bl_store_put(store, "b", "123", 3, 0, &error), &error);
  check_no_space(bl_store_put_held(store, "b", "123", 3, &error) != NULL, &error);
  g_autoptr(BlStoreWriter) writer = bl_store_writer_open(store, "b", 3, 0, &error);
  g_assert_true(bl_store_writer_write(writer, "123", 3, &error));
  check_no_space(bl_store_writer_commit(writer, &error), &error);
  g_assert_true(bl_store_put(store, "a", "1234567890", 10, BL_PUT_REPLACE, &error));
  check_no_space(bl_store_put(store, "a", "1234567890x", 11, BL_PUT_REPLACE, &error), &error);
  check_free(store, 0);
  g_assert_true(bl_store_move(store, "a", "c", &error));
  check_free(store, 0);
  g_assert_true(bl_store_remove(store, "c", &error));
  check_free(store, 10);
  g_assert_true(bl_store_put(store, "b", "123", 3, 0, &error));
  bl_memory_store_set_capacity(store, 1);
  check_free(store, 0);
}

/* An empty name is always a store of its own; another is one store for the process. */
static void test_names(void) {
  g_autoptr(BlStore) one = bl_store_open("memory:", TRUE, NULL);
  g_autoptr(BlStore) two = bl_store_open("memory:", TRUE, NULL);
  g_autoptr(BlStore) named = bl_store_open("memory:names", TRUE, NULL);
  g_autoptr(BlStore) same = bl_store_open("memory:names", FALSE, NULL);
  g_autoptr(BlStore) absent = bl_store_open("memory:names-absent", FALSE, NULL);
  guint64 size;
  g_assert_true(bl_store_put(one, "k", "x", 1, 0, NULL));
  g_assert_false(bl_store_size(two, "k", &size, NULL));
  g_assert_true(bl_store_put(named, "k", "x", 1, 0, NULL));
  g_assert_true(bl_store_size(same, "k", &size, NULL));
  g_assert_false(bl_store_can(same, BL_STORE_IS_READ_ONLY));
  g_assert_true(bl_store_can(absent, BL_STORE_IS_READ_ONLY));
  g_assert_cmpstr(named->url, ==, "memory:names");
}

static void test_fd_is_sealed(void) {
  g_autoptr(BlStore) store = bl_store_open("memory:", TRUE, NULL);
  g_assert_true(bl_store_put(store, "k", "abc", 3, 0, NULL));
  int fd = bl_store_open_fd(store, "k", NULL);
  g_assert_cmpint(ftruncate(fd, 1), ==, -1);
  g_assert_cmpint(ftruncate(fd, 9), ==, -1);
  g_assert_cmpint(lseek(fd, 0, SEEK_CUR), ==, 0);
  close(fd);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/memory/no-capabilities", test_no_capabilities);
  g_test_add_func("/memory/read-only", test_read_only);
  g_test_add_func("/memory/capacity", test_capacity);
  g_test_add_func("/memory/names", test_names);
  g_test_add_func("/memory/fd-is-sealed", test_fd_is_sealed);
  return g_test_run();
}
