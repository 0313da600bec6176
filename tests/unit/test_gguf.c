/* What the table holds after reading, and damage at every byte; the list of refused files is
 * tests/refuse. */
#include "model/gguf.h"

#include <string.h>

#include "base/error.h"
#include "memory_source.h"

typedef struct {
  GByteArray *bytes;
  gboolean big_endian;
} Writer;

static void put(Writer *writer, guint64 value, gsize size) {
  for (gsize i = 0; i < size; i++) {
    guint shift = (guint)(8 * (writer->big_endian ? size - 1 - i : i));
    guint8 byte = (guint8)(value >> shift);
    g_byte_array_append(writer->bytes, &byte, 1);
  }
}

static void put_string(Writer *writer, const char *text) {
  put(writer, strlen(text), 8);
  g_byte_array_append(writer->bytes, (const guint8 *)text, (guint)strlen(text));
}

static void put_key(Writer *writer, const char *key, guint32 type) {
  put_string(writer, key);
  put(writer, type, 4);
}

static void put_tensor(Writer *writer, const char *name, guint64 ne0, guint64 ne1, guint32 type,
                       guint64 offset) {
  put_string(writer, name);
  put(writer, 2, 4);
  put(writer, ne0, 8);
  put(writer, ne1, 8);
  put(writer, type, 4);
  put(writer, offset, 8);
}

/* Every kind of value, an array of numbers and one of strings, three tensors (the last of an
 * unknown type). */
static GByteArray *sample(gboolean big_endian, gboolean with_unknown) {
  Writer w = {g_byte_array_new(), big_endian};
  g_byte_array_append(w.bytes, (const guint8 *)"GGUF", 4);
  put(&w, 3, 4);
  put(&w, with_unknown ? 3 : 2, 8);
  put(&w, 16, 8);
  put_key(&w, "general.architecture", 8);
  put_string(&w, "llama");
  static const struct {
    guint type;
    guint size;
    guint64 value;
  } numbers[] = {{0, 1, 200},
                 {1, 1, 0xfd},
                 {2, 2, 60000},
                 {3, 2, 0xfed4},
                 {4, 4, 4000000000},
                 {5, 4, 0xfffffffe},
                 {6, 4, 0x3fc00000},
                 {7, 1, 2},
                 {10, 8, G_MAXUINT64},
                 {11, 8, G_MAXUINT64},
                 {12, 8, 0xbfd0000000000000}};
  for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
    g_autofree char *key = g_strdup_printf("n%u", numbers[i].type);
    put_key(&w, key, numbers[i].type);
    put(&w, numbers[i].value, numbers[i].size);
  }
  put_key(&w, "general.quantization_version", 4);
  put(&w, 2, 4);
  put_key(&w, "few", 9);
  put(&w, 5, 4);
  put(&w, 2, 8);
  put(&w, 7, 4);
  put(&w, 0xffffffff, 4);
  put_key(&w, "tokens", 9);
  put(&w, 8, 4);
  put(&w, 12, 8);
  for (guint i = 0; i < 12; i++) put_string(&w, i == 1 ? "two\n" : "t");
  put_key(&w, "template", 8);
  g_autofree char *template = g_strnfill(5000, 'x');
  put_string(&w, template);
  put_tensor(&w, "q", 64, 3, 2, 0);  /* Q4_0: 2 blocks of 18 bytes, 3 rows: 108 */
  put_tensor(&w, "f", 5, 1, 0, 128); /* F32: 20 bytes */
  if (with_unknown) put_tensor(&w, "u", 4, 1, 99, 160);
  while (w.bytes->len % 32 != 0) put(&w, 0, 1);
  for (guint i = 0; i < (with_unknown ? 192 : 148); i++) put(&w, i, 1);
  return w.bytes;
}

static BlTensorTable *read_bytes(const guint8 *data, gsize size, GError **error) {
  MemoryBytes bytes;
  g_autofree guint8 *copy = g_memdup2(data, size);
  BlByteSource source = memory_source(&bytes, copy, size);
  return bl_gguf_read(&source, "m.gguf", error);
}

static void assert_pair(const BlTensorTable *table, const char *key, const char *type,
                        const char *value, guint64 n, gboolean shortened) {
  for (guint64 i = 0; i < bl_tensor_table_n_pairs(table); i++) {
    BlTensorPair pair;
    bl_tensor_table_get_pair(table, i, &pair);
    if (pair.key_size != strlen(key) || memcmp(pair.key, key, pair.key_size) != 0) continue;
    g_assert_cmpstr(pair.type, ==, type);
    g_assert_cmpmem(pair.value, pair.value_size, value, strlen(value));
    g_assert_cmpuint(pair.n_elements, ==, n);
    g_assert_cmpint(pair.shortened, ==, shortened);
    return;
  }
  g_error("no pair \"%s\"", key);
}

static void check_contents(gboolean big_endian) {
  g_autoptr(GByteArray) file = sample(big_endian, TRUE);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlTensorTable) table = read_bytes(file->data, file->len, &error);
  g_assert_no_error(error);
  g_assert_cmpstr(bl_tensor_table_version(table), ==, big_endian ? "3, big-endian" : "3");
  g_assert_cmpuint(bl_tensor_table_alignment(table), ==, 32);
  g_assert_cmpuint(bl_tensor_table_header_size(table), ==, file->len - 192);
  g_assert_cmpuint(bl_tensor_table_n_parameters(table), ==, 201);
  g_assert_cmpuint(bl_tensor_table_n_bytes(table), ==, 128);

  assert_pair(table, "general.architecture", "string", "llama", 1, FALSE);
  assert_pair(table, "n0", "u8", "200", 1, FALSE);
  assert_pair(table, "n1", "i8", "-3", 1, FALSE);
  assert_pair(table, "n2", "u16", "60000", 1, FALSE);
  assert_pair(table, "n3", "i16", "-300", 1, FALSE);
  assert_pair(table, "n4", "u32", "4000000000", 1, FALSE);
  assert_pair(table, "n5", "i32", "-2", 1, FALSE);
  assert_pair(table, "n6", "f32", "1.5", 1, FALSE);
  assert_pair(table, "n7", "bool", "true", 1, FALSE);
  assert_pair(table, "n10", "u64", "18446744073709551615", 1, FALSE);
  assert_pair(table, "n11", "i64", "-1", 1, FALSE);
  assert_pair(table, "n12", "f64", "-0.25", 1, FALSE);
  assert_pair(table, "few", "array of i32", "[7, -1]", 2, FALSE);
  assert_pair(table, "tokens", "array of string",
              "[\"t\", \"two\\n\", \"t\", \"t\", \"t\", \"t\", \"t\", \"t\", \"t\", \"t\", …]", 12,
              TRUE);
  g_autofree char *template = g_strnfill(BL_PREVIEW_STRING, 'x');
  assert_pair(table, "template", "string", template, 1, TRUE);

  BlTensor tensor;
  g_assert_cmpuint(bl_tensor_table_n_tensors(table), ==, 3);
  bl_tensor_table_get(table, 0, &tensor);
  g_assert_cmpmem(tensor.name, tensor.name_size, "q", 1);
  g_assert_cmpstr(tensor.dtype, ==, "Q4_0");
  g_assert_cmpuint(bl_tensor_shape_next(&tensor.shape), ==, 64);
  g_assert_cmpuint(bl_tensor_shape_next(&tensor.shape), ==, 3);
  g_assert_cmpuint(tensor.size, ==, 108);
  bl_tensor_table_get(table, 1, &tensor);
  g_assert_cmpuint(tensor.offset, ==, file->len - 192 + 128);
  g_assert_cmpuint(tensor.size, ==, 20);
  g_assert_true(tensor.size_known);
  bl_tensor_table_get(table, 2, &tensor);
  g_assert_cmpstr(tensor.dtype, ==, "type 99");
  g_assert_false(tensor.size_known);
  g_assert_cmpuint(tensor.n_elements, ==, 4);
  g_assert_false(bl_tensor_table_check_known(table, "m.gguf", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
}

static void test_contents(void) {
  check_contents(FALSE);
}

static void test_big_endian(void) {
  check_contents(TRUE);
}

static void test_truncated_at_every_byte(void) {
  g_autoptr(GByteArray) file = sample(FALSE, FALSE);
  g_autoptr(BlTensorTable) whole = read_bytes(file->data, file->len, NULL);
  g_assert_nonnull(whole);
  for (gsize size = 0; size < file->len; size++) {
    g_autoptr(GError) error = NULL;
    MemoryBytes bytes;
    g_autofree guint8 *copy = g_memdup2(file->data, size);
    BlByteSource source = memory_source(&bytes, copy, size);
    g_assert_null(bl_gguf_read(&source, "m.gguf", &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    g_assert_true(g_str_has_prefix(error->message, "m.gguf: "));
    g_clear_error(&error);
    g_assert_false(bl_gguf_check_length(&source, "m.gguf", &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  }
}

/* Any byte of the header set to any of some values: an answer, no crash, and memory within the
 * file's scale. */
static void test_every_byte_changed(void) {
  static const guint8 values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  g_autoptr(GByteArray) file = sample(FALSE, FALSE);
  guint n_refused = 0;
  for (gsize at = 0; at < file->len - 148; at++) {
    for (gsize v = 0; v < G_N_ELEMENTS(values); v++) {
      g_autoptr(GError) error = NULL;
      guint8 kept = file->data[at];
      file->data[at] = values[v];
      g_autoptr(BlTensorTable) table = read_bytes(file->data, file->len, &error);
      file->data[at] = kept;
      g_assert_true((table == NULL) == (error != NULL));
      if (table == NULL) n_refused++;
    }
  }
  g_assert_cmpuint(n_refused, >, 1000);
}

static void test_source_fails(void) {
  g_autoptr(GByteArray) file = sample(FALSE, FALSE);
  MemoryBytes bytes;
  g_autoptr(GError) error = NULL;
  BlByteSource source = memory_source(&bytes, file->data, file->len);
  bytes.reads_left = 0;
  g_assert_null(bl_gguf_read(&source, "m.gguf", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  g_clear_error(&error);
  g_assert_false(bl_gguf_check_length(&source, "m.gguf", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_IO);
}

/* Fields across the ends of the reader's window. */
static void test_large_arrays(void) {
  Writer w = {g_byte_array_new(), FALSE};
  g_byte_array_append(w.bytes, (const guint8 *)"GGUF", 4);
  put(&w, 3, 4);
  put(&w, 0, 8);
  put(&w, 3, 8);
  put_key(&w, "tokens", 9);
  put(&w, 8, 4);
  put(&w, 50000, 8);
  for (guint i = 0; i < 50000; i++) put_string(&w, i % 3 == 0 ? "" : "token");
  put_key(&w, "scores", 9);
  put(&w, 6, 4);
  put(&w, 50000, 8);
  for (guint i = 0; i < 50000; i++) put(&w, 0, 4);
  put_key(&w, "last", 0);
  put(&w, 7, 1);
  g_autoptr(BlTensorTable) table = read_bytes(w.bytes->data, w.bytes->len, NULL);
  g_assert_nonnull(table);
  assert_pair(table, "last", "u8", "7", 1, FALSE);
  BlTensorPair pair;
  bl_tensor_table_get_pair(table, 0, &pair);
  g_assert_cmpuint(pair.n_elements, ==, 50000);
  g_byte_array_unref(w.bytes);
}

/* Counts past what is supported, in a file that could be large enough for them: refused before any
 * is read. */
typedef struct {
  guint8 head[64];
  guint n_reads;
} Huge;

static gboolean huge_read(gpointer user, guint64 offset, void *data, gsize size, GError **error) {
  Huge *huge = user;
  (void)error;
  huge->n_reads++;
  memset(data, 0, size);
  if (offset == 0) memcpy(data, huge->head, MIN(size, sizeof huge->head));
  return TRUE;
}

static void test_limits(void) {
  Writer w = {g_byte_array_new(), FALSE};
  g_byte_array_append(w.bytes, (const guint8 *)"GGUF", 4);
  put(&w, 3, 4);
  put(&w, BL_GGUF_TENSORS_MAX + 1, 8);
  put(&w, BL_GGUF_PAIRS_MAX + 1, 8);
  Huge huge = {.n_reads = 0};
  memcpy(huge.head, w.bytes->data, w.bytes->len);
  g_byte_array_unref(w.bytes);
  BlByteSource source = {G_GUINT64_CONSTANT(1) << 40, huge_read, &huge};
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_gguf_read(&source, "m", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
  g_assert_cmpstr(error->message, ==, "m: 1000001 tensors (at most 1000000 are supported)");
  memset(huge.head + 8, 0, 8);
  g_clear_error(&error);
  g_assert_null(bl_gguf_read(&source, "m", &error));
  g_assert_cmpstr(error->message, ==, "m: 65537 keys (at most 65536 are supported)");
  /* One key, and that empty. */
  g_clear_error(&error);
  memset(huge.head + 16, 0, 8);
  huge.head[16] = 1;
  g_assert_null(bl_gguf_read(&source, "m", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  /* One key with a string of 2 GiB. */
  g_clear_error(&error);
  huge.head[24] = 1;
  huge.head[32] = 'x';
  huge.head[33] = 8;
  huge.head[40] = 0x80;
  g_assert_null(bl_gguf_read(&source, "m", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
  g_assert_nonnull(strstr(error->message, "the header is larger than 1073741824 bytes"));
  g_assert_cmpuint(huge.n_reads, ==, 4);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/gguf/contents", test_contents);
  g_test_add_func("/gguf/big-endian", test_big_endian);
  g_test_add_func("/gguf/truncated-at-every-byte", test_truncated_at_every_byte);
  g_test_add_func("/gguf/every-byte-changed", test_every_byte_changed);
  g_test_add_func("/gguf/source-fails", test_source_fails);
  g_test_add_func("/gguf/large-arrays", test_large_arrays);
  g_test_add_func("/gguf/limits", test_limits);
  return g_test_run();
}
