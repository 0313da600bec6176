/* Objects: put, get, load, batches, buffers, writers, descriptors, clones. */
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "contract/contract.h"

#define KEY "models/m/manifest"
#define LARGE_SIZE (9u * 1024 * 1024 + 1)

static void check_range(BlStore *store, guint64 offset, gsize size, const char *expected) {
  char bytes[64] = {0};
  gsize got = 99;
  must(bl_store_get(store, KEY, offset, bytes, size, &got, &error));
  g_assert_cmpmem(bytes, got, expected, strlen(expected));
  g_assert_cmpint(bytes[got], ==, 0); /* nothing is written behind */
}

static void test_ranges(Fixture *f, gconstpointer data) {
  (void)data;
  guint64 size = 0;
  contract_put(f->store, KEY, "0123456789");
  must(bl_store_size(f->other, KEY, &size, &error));
  g_assert_cmpuint(size, ==, 10);
  check_range(f->other, 0, 10, "0123456789");
  check_range(f->other, 0, 60, "0123456789");
  check_range(f->other, 0, 1, "0");
  check_range(f->other, 3, 4, "3456");
  check_range(f->other, 9, 1, "9");
  check_range(f->other, 8, 60, "89");
  check_range(f->other, 5, 0, "");
  check_range(f->other, 10, 60, "");
  check_range(f->other, 11, 60, "");
  check_range(f->other, G_MAXINT64 - 30, 60, "");
  check_range(f->other, G_MAXINT64, 60, "");
  check_range(f->other, G_MAXUINT64, 60, "");
}

static void test_absent(Fixture *f, gconstpointer data) {
  (void)data;
  guint64 size;
  gsize got = 99, loaded;
  char byte;
  char *bytes = NULL;
  contract_put(f->store, "models/m/there", "x");
  static const char *const keys[] = {KEY, "absent", "a/b/c/d/e/f", "models/m/ther"};
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++) {
    must_fail(BL_ERROR_NOT_FOUND, bl_store_size(f->store, keys[i], &size, &error));
    must_fail(BL_ERROR_NOT_FOUND, bl_store_get(f->store, keys[i], 0, &byte, 1, &got, &error));
    g_assert_cmpuint(got, ==, 0);
    must_fail(BL_ERROR_NOT_FOUND, bl_store_load(f->store, keys[i], 9, &bytes, &loaded, &error));
    must(bl_store_remove(f->store, keys[i], &error));
  }
}

static void test_put_once(Fixture *f, gconstpointer data) {
  (void)data;
  contract_put(f->store, KEY, "first");
  must_fail(BL_ERROR_EXISTS, bl_store_put(f->store, KEY, "second", 6, 0, &error));
  must_fail(BL_ERROR_EXISTS, bl_store_put(f->other, KEY, "third", 5, BL_PUT_DURABLE, &error));
  contract_check(f->other, KEY, "first");
  must(bl_store_put(f->other, KEY, "replaced", 8, BL_PUT_REPLACE, &error));
  contract_check(f->store, KEY, "replaced");
  must(bl_store_put(f->store, KEY, "again", 5, BL_PUT_REPLACE | BL_PUT_DURABLE, &error));
  contract_check(f->other, KEY, "again");
  must(bl_store_put(f->store, "models/m/new", "x", 1, BL_PUT_REPLACE, &error));
  contract_check(f->other, "models/m/new", "x");
}

static void test_remove(Fixture *f, gconstpointer data) {
  (void)data;
  contract_put(f->store, KEY, "first");
  must(bl_store_remove(f->other, KEY, &error));
  contract_check_absent(f->store, KEY);
  must(bl_store_remove(f->store, KEY, &error));
  contract_put(f->store, KEY, "second");
  contract_check(f->other, KEY, "second");
}

static void test_empty(Fixture *f, gconstpointer data) {
  (void)data;
  guint64 size = 99;
  must(bl_store_put(f->store, KEY, NULL, 0, 0, &error));
  must(bl_store_size(f->store, KEY, &size, &error));
  g_assert_cmpuint(size, ==, 0);
  contract_check(f->other, KEY, "");
  check_range(f->store, 0, 10, "");
  must_fail(BL_ERROR_EXISTS, bl_store_put(f->store, KEY, NULL, 0, 0, &error));
}

static void test_large(Fixture *f, gconstpointer data) {
  (void)data;
  g_autofree guint8 *bytes = contract_bytes(LARGE_SIZE, 1);
  g_autofree char *loaded = NULL;
  gsize size = 0;
  must(bl_store_put(f->store, KEY, bytes, LARGE_SIZE, 0, &error));
  must(bl_store_load(f->other, KEY, LARGE_SIZE, &loaded, &size, &error));
  g_assert_cmpmem(loaded, size, bytes, LARGE_SIZE);
  guint8 part[100];
  must(bl_store_get(f->other, KEY, LARGE_SIZE - 50, part, 100, &size, &error));
  g_assert_cmpmem(part, size, bytes + LARGE_SIZE - 50, 50);
}

static void test_load(Fixture *f, gconstpointer data) {
  (void)data;
  char *bytes = NULL;
  gsize size = 0;
  contract_put(f->store, KEY, "0123456789");
  must(bl_store_load(f->store, KEY, 10, &bytes, &size, &error));
  g_assert_cmpmem(bytes, size + 1, "0123456789", 11);
  g_clear_pointer(&bytes, g_free);
  must_fail(BL_ERROR_CORRUPT, bl_store_load(f->store, KEY, 9, &bytes, &size, &error));
  must_fail(BL_ERROR_CORRUPT, bl_store_load(f->store, KEY, 0, &bytes, &size, &error));
  g_assert_null(bytes);
}

static void test_get_many(Fixture *f, gconstpointer data) {
  (void)data;
  char bytes[5][8] = {{0}};
  contract_put(f->store, "b/one", "111");
  contract_put(f->store, "b/two", "222222");
  BlGetItem items[] = {
      {.key = "b/one", .data = bytes[0], .size = 8, .got = 77},
      {.key = "b/absent", .data = bytes[1], .size = 8, .got = 77},
      {.key = "b/two", .offset = 4, .data = bytes[2], .size = 8, .got = 77},
      {.key = "../bad", .data = bytes[3], .size = 8, .got = 77},
      {.key = "b/two", .offset = 1, .data = bytes[4], .size = 2, .got = 77},
  };
  /* With the bad key and, as one batch, without. */
  for (guint round = 0; round < 2; round++) {
    if (round == 1) items[3].key = "b/one";
    bl_store_get_many(f->other, items, G_N_ELEMENTS(items));
    g_assert_no_error(items[0].error);
    g_assert_cmpmem(bytes[0], items[0].got, "111", 3);
    g_assert_error(items[1].error, BL_ERROR, BL_ERROR_NOT_FOUND);
    g_assert_cmpuint(items[1].got, ==, 0);
    g_assert_no_error(items[2].error);
    g_assert_cmpmem(bytes[2], items[2].got, "22", 2);
    g_assert_no_error(items[4].error);
    g_assert_cmpmem(bytes[4], items[4].got, "22", 2);
    if (round == 0)
      g_assert_error(items[3].error, BL_ERROR, BL_ERROR_INVALID);
    else
      g_assert_cmpmem(bytes[3], items[3].got, "111", 3);
    for (guint i = 0; i < G_N_ELEMENTS(items); i++) g_clear_error(&items[i].error);
  }
  bl_store_get_many(f->store, NULL, 0);
}

static void test_put_many(Fixture *f, gconstpointer data) {
  (void)data;
  contract_put(f->store, "b/old", "old");
  BlPutItem items[] = {
      {.key = "b/one", .data = "111", .size = 3},   {.key = "b/old", .data = "new", .size = 3},
      {.key = "b/two", .data = "", .size = 0},      {.key = "b//bad", .data = "x", .size = 1},
      {.key = "b/one", .data = "twice", .size = 5},
  };
  bl_store_put_many(f->store, items, G_N_ELEMENTS(items), 0);
  g_assert_no_error(items[0].error);
  g_assert_error(items[1].error, BL_ERROR, BL_ERROR_EXISTS);
  g_assert_no_error(items[2].error);
  g_assert_error(items[3].error, BL_ERROR, BL_ERROR_INVALID);
  g_assert_error(items[4].error, BL_ERROR, BL_ERROR_EXISTS);
  for (guint i = 0; i < G_N_ELEMENTS(items); i++) g_clear_error(&items[i].error);
  contract_check(f->other, "b/one", "111");
  contract_check(f->other, "b/old", "old");
  contract_check(f->other, "b/two", "");

  bl_store_put_many(f->store, items, 3, BL_PUT_REPLACE | BL_PUT_DURABLE);
  for (guint i = 0; i < 3; i++) g_assert_no_error(items[i].error);
  contract_check(f->other, "b/old", "new");
  bl_store_put_many(f->store, NULL, 0, 0);
}

static void test_buffers(Fixture *f, gconstpointer data) {
  (void)data;
  static const gsize sizes[] = {1, 4096, 4097, 4u << 20};
  for (guint i = 0; i < G_N_ELEMENTS(sizes); i++) {
    gsize size = sizes[i], got = 0;
    BlStoreBuffer in, out;
    g_autofree guint8 *bytes = contract_bytes(size, i);
    must(bl_store_buffer_new(f->store, size, &in, &error));
    must(bl_store_buffer_new(f->store, size, &out, &error));
    g_assert_cmpuint(in.size, >=, size);
    g_assert_cmpuint((guintptr)in.data % 4096, ==, 0);
    memcpy(in.data, bytes, size);
    must(bl_store_put(f->store, KEY, in.data, size, BL_PUT_REPLACE, &error));
    must(bl_store_get(f->store, KEY, 0, out.data, size, &got, &error));
    g_assert_cmpmem(out.data, got, bytes, size);
    bl_store_buffer_free(f->store, &in);
    bl_store_buffer_free(f->store, &out);
    g_assert_null(in.data);
    bl_store_buffer_free(f->store, &in);
  }
}

static void write_all(BlStoreWriter *writer, const guint8 *bytes, gsize size, gsize step) {
  for (gsize done = 0; done < size; done += MIN(step, size - done))
    must(bl_store_writer_write(writer, bytes + done, MIN(step, size - done), &error));
}

static void test_writer(Fixture *f, gconstpointer data) {
  (void)data;
  static const gsize steps[] = {LARGE_SIZE, 1u << 20, 65537};
  const guint64 hints[] = {LARGE_SIZE, G_MAXUINT64, G_MAXUINT64};
  const BlPutFlags flags[] = {0, BL_PUT_REPLACE, BL_PUT_REPLACE | BL_PUT_DURABLE};
  for (guint i = 0; i < G_N_ELEMENTS(steps); i++) {
    g_autofree guint8 *bytes = contract_bytes(LARGE_SIZE, i);
    g_autofree char *loaded = NULL;
    gsize size = 0;
    g_autoptr(BlStoreWriter) writer = NULL;
    must((writer = bl_store_writer_open(f->store, KEY, hints[i], flags[i], &error)));
    write_all(writer, bytes, LARGE_SIZE, steps[i]);
    if (i == 0) contract_check_absent(f->other, KEY);
    must(bl_store_writer_commit(writer, &error));
    must(bl_store_load(f->other, KEY, LARGE_SIZE, &loaded, &size, &error));
    g_assert_cmpmem(loaded, size, bytes, LARGE_SIZE);
  }
}

static void test_writer_empty(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(BlStoreWriter) writer = NULL;
  must((writer = bl_store_writer_open(f->store, KEY, 0, 0, &error)));
  must(bl_store_writer_commit(writer, &error));
  contract_check(f->other, KEY, "");
}

static void test_writer_abandoned(Fixture *f, gconstpointer data) {
  (void)data;
  guint n = 99;
  contract_put(f->store, "models/m/old", "old");
  static const char *const keys[] = {"models/m/new", "models/m/old"};
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++) {
    BlStoreWriter *writer;
    must((writer = bl_store_writer_open(f->store, keys[i], 3, BL_PUT_REPLACE, &error)));
    must(bl_store_writer_write(writer, "new", 3, &error));
    bl_store_writer_free(writer);
  }
  contract_check_absent(f->other, "models/m/new");
  contract_check(f->other, "models/m/old", "old");
  must(bl_store_sweep(f->store, "models/m/", &n, &error));
  g_assert_cmpuint(n, ==, 0); /* what was written is gone already */
}

/* At open, or at commit where the object came in between. */
static void test_writer_exists(Fixture *f, gconstpointer data) {
  (void)data;
  contract_put(f->store, KEY, "first");
  g_autoptr(GError) at_open = NULL;
  g_autoptr(BlStoreWriter) late = bl_store_writer_open(f->store, KEY, 3, 0, &at_open);
  if (late == NULL)
    g_assert_error(at_open, BL_ERROR, BL_ERROR_EXISTS);
  else
    must_fail(BL_ERROR_EXISTS, bl_store_writer_commit(late, &error));

  g_autoptr(BlStoreWriter) early = NULL;
  must((early = bl_store_writer_open(f->store, "models/m/x", 5, 0, &error)));
  must(bl_store_writer_write(early, "early", 5, &error));
  contract_put(f->other, "models/m/x", "between");
  must_fail(BL_ERROR_EXISTS, bl_store_writer_commit(early, &error));
  contract_check(f->store, KEY, "first");
  contract_check(f->store, "models/m/x", "between");
}

static void test_open_fd(Fixture *f, gconstpointer data) {
  (void)data;
  char bytes[16];
  if (!bl_store_can(f->store, BL_STORE_CAN_OPEN_FD)) {
    must_fail(BL_ERROR_UNSUPPORTED, bl_store_open_fd(f->store, KEY, &error) >= 0);
    return;
  }
  must_fail(BL_ERROR_NOT_FOUND, bl_store_open_fd(f->store, KEY, &error) >= 0);
  contract_put(f->store, KEY, "0123456789");
  bl_autofd fd = bl_store_open_fd(f->other, KEY, NULL);
  g_assert_cmpint(fd, >=, 0);
  g_assert_cmpint(fcntl(fd, F_GETFD), ==, FD_CLOEXEC);
  g_assert_cmpint(read(fd, bytes, 16), ==, 10);
  g_assert_cmpmem(bytes, 10, "0123456789", 10);
  g_assert_cmpint(pwrite(fd, "x", 1, 0), ==, -1);
  must(bl_store_put(f->store, KEY, "replaced", 8, BL_PUT_REPLACE, &error));
  g_assert_cmpint(pread(fd, bytes, 16, 0), ==, 10);
  must(bl_store_remove(f->store, KEY, &error));
  g_assert_cmpint(pread(fd, bytes, 16, 0), ==, 10);
  g_assert_cmpmem(bytes, 10, "0123456789", 10);
}

/* A clone is whole or UNSUPPORTED; then nothing is left. */
static void test_clone(Fixture *f, gconstpointer data) {
  (void)data;
  const gsize size = 1u << 20;
  g_autofree guint8 *bytes = contract_bytes(size, 3);
  g_autofree char *path =
      g_build_filename(f->folder != NULL ? f->folder : g_get_tmp_dir(), "clone-XXXXXX", NULL);
  bl_autofd fd = g_mkstemp(path);
  g_assert_cmpint(fd, >=, 0);
  unlink(path);
  must(bl_pwrite_all(fd, bytes, size, 0, &error));
  must(bl_fsync(fd, "source", &error));

  g_autoptr(GError) fault = NULL;
  if (!bl_store_clone_fd(f->store, KEY, fd, size, &fault)) {
    g_assert_error(fault, BL_ERROR, BL_ERROR_UNSUPPORTED);
    g_assert_false(f->target->clones);
    contract_check_absent(f->store, KEY);
    return;
  }
  g_autofree char *loaded = NULL;
  gsize got;
  must(bl_store_load(f->other, KEY, size, &loaded, &got, &error));
  g_assert_cmpmem(loaded, got, bytes, size);
  must_fail(BL_ERROR_EXISTS, bl_store_clone_fd(f->store, KEY, fd, size, &error));
  must(bl_pwrite_all(fd, "changed", 7, 0, &error)); /* the object does not follow */
  g_clear_pointer(&loaded, g_free);
  must(bl_store_load(f->other, KEY, size, &loaded, &got, &error));
  g_assert_cmpmem(loaded, got, bytes, size);
}

/* What is durable cannot be shown here (the power cuts of tests/fault do); that every way to it
 * works can. */
static void test_sync(Fixture *f, gconstpointer data) {
  (void)data;
  must(bl_store_sync(f->store, &error));
  for (guint i = 0; i < 200; i++) {
    g_autofree char *key = g_strdup_printf("models/%u/x/%u", i % 3, i);
    contract_put(f->store, key, key);
    if (i == 3) must(bl_store_sync(f->store, &error));
  }
  for (guint i = 0; i < 200; i++) {
    g_autofree char *key = g_strdup_printf("models/%u/x/%u", i % 3, i);
    must(bl_store_adopt(f->other, key, &error));
  }
  must(bl_store_sync(f->other, &error));
  must(bl_store_remove(f->store, "models/1/x/100", &error));
  must(bl_store_sync(f->store, &error));
  must(bl_store_sync(f->store, &error));
  contract_check(f->other, "models/1/x/199", "models/1/x/199");
  contract_check_absent(f->other, "models/1/x/100");
}

static void test_free_space(Fixture *f, gconstpointer data) {
  (void)data;
  guint64 bytes = 0;
  must(bl_store_free_space(f->store, &bytes, &error));
  g_assert_cmpuint(bytes, >, 0);
}

/* Objects outlive the instances that put them. */
static void test_reopen(Fixture *f, gconstpointer data) {
  (void)data;
  contract_put(f->store, KEY, "stays");
  g_clear_pointer(&f->store, bl_store_free);
  g_clear_pointer(&f->other, bl_store_free);
  must((f->store = bl_store_open(f->url, TRUE, &error)));
  contract_check(f->store, KEY, "stays");
}

const ContractTest contract_objects[] = {
    {"ranges", test_ranges, FALSE},
    {"absent", test_absent, FALSE},
    {"put-once", test_put_once, FALSE},
    {"remove", test_remove, FALSE},
    {"empty", test_empty, FALSE},
    {"large", test_large, FALSE},
    {"load", test_load, FALSE},
    {"get-many", test_get_many, FALSE},
    {"put-many", test_put_many, FALSE},
    {"buffers", test_buffers, FALSE},
    {"writer", test_writer, FALSE},
    {"writer-empty", test_writer_empty, FALSE},
    {"writer-abandoned", test_writer_abandoned, FALSE},
    {"writer-exists", test_writer_exists, FALSE},
    {"open-fd", test_open_fd, FALSE},
    {"clone", test_clone, FALSE},
    {"sync", test_sync, FALSE},
    {"free-space", test_free_space, FALSE},
    {"reopen", test_reopen, FALSE},
    {NULL, NULL, FALSE},
};
