/* What the table holds after reading; which headers are refused is tested on files (tests/refuse,
 * tests/e2e/test_formats.py). */
#include "model/safetensors.h"

#include <string.h>

#include "base/error.h"
#include "memory_source.h"

static BlTensorTable *read_bytes(const GByteArray *file, gsize size, GError **error) {
  MemoryBytes bytes;
  g_autofree guint8 *copy = g_memdup2(file->data, size);
  BlByteSource source = memory_source(&bytes, copy, size);
  return bl_safetensors_read(&source, "m.safetensors", error);
}

static const char full[] =
    " {\"__metadata__\":{\"format\":\"pt\",\"n\\u0000ul\":\"\"},"
    "\"b\":{\"dtype\":\"BF16\",\"shape\":[3,2],\"data_offsets\":[8,20]},"
    "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
    "\"c\":{\"dtype\":\"F4\",\"shape\":[8],\"data_offsets\":[4,8]}}  ";

static void test_contents(void) {
  g_autoptr(GByteArray) file = safetensors_file(full, 20);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlTensorTable) table = read_bytes(file, file->len, &error);
  g_assert_no_error(error);
  g_assert_cmpint(bl_tensor_table_format(table), ==, BL_MODEL_FORMAT_SAFETENSORS);
  g_assert_cmpstr(bl_tensor_table_version(table), ==, "");
  g_assert_cmpuint(bl_tensor_table_alignment(table), ==, 1);
  g_assert_cmpuint(bl_tensor_table_header_size(table), ==, 8 + strlen(full));
  g_assert_cmpuint(bl_tensor_table_n_parameters(table), ==, 15);
  g_assert_cmpuint(bl_tensor_table_n_bytes(table), ==, 20);

  BlTensor tensor;
  bl_tensor_table_get(table, 0, &tensor);
  g_assert_cmpmem(tensor.name, tensor.name_size, "b", 1);
  g_assert_cmpstr(tensor.dtype, ==, "BF16");
  g_assert_cmpuint(tensor.n_dims, ==, 2);
  g_assert_cmpuint(bl_tensor_shape_next(&tensor.shape), ==, 3);
  g_assert_cmpuint(bl_tensor_shape_next(&tensor.shape), ==, 2);
  g_assert_cmpuint(tensor.n_elements, ==, 6);
  g_assert_cmpuint(tensor.offset, ==, 8 + strlen(full) + 8);
  g_assert_cmpuint(tensor.size, ==, 12);
  g_assert_true(tensor.size_known);
  bl_tensor_table_get(table, 1, &tensor);
  g_assert_cmpuint(tensor.n_dims, ==, 0);
  g_assert_cmpuint(tensor.n_elements, ==, 1);

  BlTensorPair pair;
  g_assert_cmpuint(bl_tensor_table_n_pairs(table), ==, 2);
  bl_tensor_table_get_pair(table, 0, &pair);
  g_assert_cmpmem(pair.key, pair.key_size, "format", 6);
  g_assert_cmpmem(pair.value, pair.value_size, "pt", 2);
  g_assert_cmpstr(pair.type, ==, "string");
  g_assert_false(pair.shortened);
  bl_tensor_table_get_pair(table, 1, &pair);
  g_assert_cmpmem(pair.key, pair.key_size, "n\0ul", 4);
  g_assert_cmpuint(pair.value_size, ==, 0);

  g_assert_cmpuint(bl_tensor_table_n_notes(table), ==, 2);
  g_assert_nonnull(strstr(bl_tensor_table_note(table, 0), "safetensors 0.6 or later"));
  g_assert_nonnull(strstr(bl_tensor_table_note(table, 1), "white space"));
}

static void test_truncated_at_every_byte(void) {
  g_autoptr(GByteArray) file = safetensors_file(full, 20);
  for (gsize size = 0; size < file->len; size++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(BlTensorTable) table = read_bytes(file, size, &error);
    g_assert_null(table);
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    g_assert_true(g_str_has_prefix(error->message, "m.safetensors: "));
  }
}

/* A header cut at every byte, its length set to what is left: never right, never a crash. */
static void test_header_cut_at_every_byte(void) {
  for (gsize size = 0; size < strlen(full) - 2; size++) {
    g_autofree char *cut = g_strndup(full, size);
    g_autoptr(GByteArray) file = safetensors_file(cut, 20);
    g_autoptr(GError) error = NULL;
    g_assert_null(read_bytes(file, file->len, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  }
}

static void test_source_fails(void) {
  g_autoptr(GByteArray) file = safetensors_file(full, 20);
  for (guint reads = 0;; reads++) {
    g_autoptr(GError) error = NULL;
    MemoryBytes bytes;
    BlByteSource source = memory_source(&bytes, file->data, file->len);
    bytes.reads_left = reads;
    g_autoptr(BlTensorTable) table = bl_safetensors_read(&source, "m", &error);
    if (table != NULL) break;
    g_assert_error(error, BL_ERROR, BL_ERROR_IO);
    g_assert_nonnull(strstr(error->message, "the disk is gone"));
    g_assert_cmpuint(reads, <, 10);
    /* The quick look at it passes the error on, too. */
    g_clear_error(&error);
    bytes.reads_left = MIN(reads, 1);
    g_assert_false(bl_safetensors_check_length(&source, "m", &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_IO);
  }
}

static void test_unknown_dtype(void) {
  g_autoptr(GByteArray) file =
      safetensors_file("{\"a\":{\"dtype\":\"F99\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3);
  g_autoptr(GError) error = NULL;
  g_assert_null(read_bytes(file, file->len, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
  g_assert_nonnull(strstr(error->message, "\"F99\""));
  MemoryBytes bytes;
  BlByteSource source = memory_source(&bytes, file->data, file->len);
  g_autoptr(BlTensorTable) table = bl_safetensors_read_any(&source, "m", NULL);
  BlTensor tensor;
  bl_tensor_table_get(table, 0, &tensor);
  g_assert_cmpstr(tensor.dtype, ==, "F99");
  g_assert_cmpuint(tensor.size, ==, 3);
  g_assert_true(tensor.size_known);
}

/* The rows cost no more than the text that made them, whatever the shape of the header. */
static void test_many_dimensions(void) {
  g_autoptr(GString) header = g_string_new("{\"a\":{\"dtype\":\"U8\",\"shape\":[1");
  for (guint i = 1; i < 100000; i++) g_string_append(header, ",1");
  g_string_append(header, "],\"data_offsets\":[0,1]}}");
  g_autoptr(GByteArray) file = safetensors_file(header->str, 1);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlTensorTable) table = read_bytes(file, file->len, &error);
  g_assert_no_error(error);
  BlTensor tensor;
  bl_tensor_table_get(table, 0, &tensor);
  g_assert_cmpuint(tensor.n_dims, ==, 100000);
  g_assert_cmpuint(tensor.n_elements, ==, 1);
}

static void test_many_tensors(void) {
  g_autoptr(GString) header = g_string_new("{");
  const guint n = 30000;
  for (guint i = 0; i < n; i++)
    g_string_append_printf(
        header, "%s\"layer.%u\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[%u,%u]}",
        i > 0 ? "," : "", i, 2 * (n - 1 - i), 2 * (n - i));
  g_string_append_c(header, '}');
  g_autoptr(GByteArray) file = safetensors_file(header->str, 2 * n);
  g_autoptr(BlTensorTable) table = read_bytes(file, file->len, NULL);
  g_assert_nonnull(table);
  for (guint i = 0; i < n; i += 777) {
    g_autofree char *name = g_strdup_printf("layer.%u", i);
    guint64 found;
    BlTensor tensor;
    g_assert_true(bl_tensor_table_find(table, name, strlen(name), &found));
    g_assert_cmpuint(found, ==, i);
    bl_tensor_table_get(table, found, &tensor);
    g_assert_cmpuint(tensor.offset, ==, 8 + header->len + 2 * (n - 1 - i));
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/safetensors/contents", test_contents);
  g_test_add_func("/safetensors/truncated-at-every-byte", test_truncated_at_every_byte);
  g_test_add_func("/safetensors/header-cut-at-every-byte", test_header_cut_at_every_byte);
  g_test_add_func("/safetensors/source-fails", test_source_fails);
  g_test_add_func("/safetensors/unknown-dtype", test_unknown_dtype);
  g_test_add_func("/safetensors/many-dimensions", test_many_dimensions);
  g_test_add_func("/safetensors/many-tensors", test_many_tensors);
  return g_test_run();
}
