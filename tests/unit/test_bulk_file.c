/* Bulk files: whatever the sizes and the memory, the bytes and the length are those that were
 * written. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bulk_file.h"
#include "base/error.h"
#include "base/file.h"

#define MIB (1024u * 1024)

typedef struct {
  const char *name;
  gsize piece;        /* bytes a write */
  gsize misalignment; /* of the memory */
  guint64 size;       /* written */
  guint64 promised;   /* to init */
} Shape;

static const Shape shapes[] = {
    {"small", 1000, 0, 5000, 5000},
    {"direct", MIB, 0, 20 * MIB, 20 * MIB},
    {"direct-tail", MIB, 0, 20 * MIB + 12345, 20 * MIB + 12345},
    {"odd-pieces", 1000003, 0, 20 * MIB + 7, 20 * MIB + 7},
    {"odd-memory", MIB, 8, 20 * MIB, 20 * MIB},
    {"shorter-than-promised", MIB, 0, 17 * MIB + 5, 40 * MIB},
    {"longer-than-promised", MIB, 0, 40 * MIB + 5, 20 * MIB},
    {"not-promised", MIB, 0, 20 * MIB + 5, 0},
};

static void test_shape(gconstpointer data) {
  const Shape *shape = data;
  g_autoptr(GError) error = NULL;
  g_autofree char *path = g_strdup_printf("%s/ballast-bulk-%d", g_get_tmp_dir(), (int)getpid());
  bl_autofd fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  g_assert_cmpint(fd, >=, 0);
  g_unlink(path);
  guint8 *block = g_aligned_alloc0(1, 2 * MIB, 4096);
  guint8 *memory = block + shape->misalignment;
  BlBulkFile file;
  bl_bulk_file_init(&file, fd, shape->promised);
  for (guint64 done = 0; done < shape->size;) {
    gsize n = (gsize)MIN(shape->piece, shape->size - done);
    for (gsize i = 0; i < n; i += 512) memory[i] = (guint8)((done + i) >> 9);
    g_assert_true(bl_bulk_file_write(&file, memory, n, &error));
    g_assert_no_error(error);
    done += n;
  }
  g_assert_true(bl_bulk_file_finish(&file, &error));
  g_assert_true(bl_fsync(fd, "file", &error));
  struct stat st;
  g_assert_cmpint(fstat(fd, &st), ==, 0);
  g_assert_cmpuint((guint64)st.st_size, ==, shape->size);
  for (guint64 start = 0; start < shape->size; start += shape->piece) {
    guint8 byte;
    g_assert_true(bl_pread_all(fd, &byte, 1, start, &error));
    g_assert_cmpuint(byte, ==, (guint8)(start >> 9));
  }
  g_aligned_free(block);
}

static void test_full(void) {
  g_autoptr(GError) error = NULL;
  bl_autofd fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
  BlBulkFile file;
  bl_bulk_file_init(&file, fd, 100);
  g_assert_false(bl_bulk_file_write(&file, "x", 1, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(shapes); i++) {
    g_autofree char *path = g_strconcat("/bulk-file/", shapes[i].name, NULL);
    g_test_add_data_func(path, &shapes[i], test_shape);
  }
  g_test_add_func("/bulk-file/full", test_full);
  return g_test_run();
}
