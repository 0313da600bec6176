#include "model/tensors.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "memory_source.h"
#include "model/tensor_builder.h"

static void add_tensor(BlTensorTable *table, const char *name, gsize name_size, const char *dtype,
                       gboolean known, guint64 dim, guint64 size) {
  BlTensorRow row = {.size = size, .name_size = (guint32)name_size, .n_dims = 1};
  row.name_at = bl_tensor_table_keep(table, name, name_size);
  row.shape_at = table->arena->len;
  bl_tensor_table_keep_dim(table, dim);
  row.dtype = bl_tensor_table_dtype(table, dtype, known);
  g_array_append_val(table->rows, row);
}

static void test_rows(void) {
  static const guint64 dims[] = {0, 1, 127, 128, 16383, 16384, 1ull << 35, G_MAXINT64, G_MAXUINT64};
  g_autoptr(BlTensorTable) table = bl_tensor_table_new(BL_MODEL_FORMAT_SAFETENSORS);
  for (gsize i = 0; i < G_N_ELEMENTS(dims); i++) {
    g_autofree char *name = g_strdup_printf("t%" G_GSIZE_FORMAT, 9 - i);
    add_tensor(table, name, 2, "U8", TRUE, dims[i], dims[i]);
  }
  g_assert_true(bl_tensor_table_index_names(table, NULL));
  g_assert_cmpuint(bl_tensor_table_n_tensors(table), ==, G_N_ELEMENTS(dims));
  for (gsize i = 0; i < G_N_ELEMENTS(dims); i++) {
    BlTensor tensor;
    guint64 found = 99;
    bl_tensor_table_get(table, i, &tensor);
    const guint8 *shape = tensor.shape;
    g_assert_cmpuint(bl_tensor_shape_next(&shape), ==, dims[i]);
    g_assert_cmpuint(tensor.n_elements, ==, dims[i]);
    g_assert_true(bl_tensor_table_find(table, tensor.name, tensor.name_size, &found));
    g_assert_cmpuint(found, ==, i);
  }
  g_assert_false(bl_tensor_table_find(table, "t", 1, NULL));
  g_assert_false(bl_tensor_table_find(table, "t11", 3, NULL));
  g_assert_false(bl_tensor_table_find(table, "", 0, NULL));
}

static void test_names_of_any_bytes(void) {
  g_autoptr(BlTensorTable) table = bl_tensor_table_new(BL_MODEL_FORMAT_SAFETENSORS);
  g_autoptr(GError) error = NULL;
  add_tensor(table, "a\0b", 3, "U8", TRUE, 1, 1);
  add_tensor(table, "a", 1, "U8", TRUE, 1, 1);
  add_tensor(table, "", 0, "U8", TRUE, 1, 1);
  add_tensor(table, "a\0c", 3, "U8", TRUE, 1, 1);
  g_assert_true(bl_tensor_table_index_names(table, &error));
  guint64 i;
  g_assert_true(bl_tensor_table_find(table, "a\0c", 3, &i));
  g_assert_cmpuint(i, ==, 3);
  g_assert_true(bl_tensor_table_find(table, "", 0, &i));
  g_assert_cmpuint(i, ==, 2);

  add_tensor(table, "a\0b", 3, "U8", TRUE, 1, 1);
  g_clear_pointer(&table->by_name, g_free);
  g_assert_false(bl_tensor_table_index_names(table, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_cmpstr(error->message, ==, "duplicate key: the header names tensor \"a\\x00b\" twice");
}

static void test_totals(void) {
  g_autoptr(BlTensorTable) table = bl_tensor_table_new(BL_MODEL_FORMAT_GGUF);
  add_tensor(table, "a", 1, "F32", TRUE, 10, 40);
  add_tensor(table, "b", 1, "F16", TRUE, 5, 10);
  add_tensor(table, "c", 1, "F32", TRUE, 2, 8);
  add_tensor(table, "d", 1, "type 77", FALSE, G_MAXUINT64, 0);
  bl_tensor_table_sum(table);
  BlTensorDtypeTotal total;
  g_assert_cmpuint(bl_tensor_table_n_dtypes(table), ==, 3);
  bl_tensor_table_get_dtype(table, 0, &total);
  g_assert_cmpstr(total.name, ==, "F32");
  g_assert_true(total.known);
  g_assert_cmpuint(total.n_tensors, ==, 2);
  g_assert_cmpuint(total.n_elements, ==, 12);
  g_assert_cmpuint(total.n_bytes, ==, 48);
  bl_tensor_table_get_dtype(table, 2, &total);
  g_assert_false(total.known);
  g_assert_cmpuint(bl_tensor_table_n_bytes(table), ==, 58);
  g_assert_cmpuint(bl_tensor_table_n_parameters(table), ==, G_MAXUINT64);
  BlTensor tensor;
  bl_tensor_table_get(table, 3, &tensor);
  g_assert_false(tensor.size_known);
  bl_tensor_table_get(table, 0, &tensor);
  g_assert_true(tensor.size_known);
}

/* However many unknown dtypes a header names, few are kept. */
static void test_unknown_dtypes(void) {
  g_autoptr(BlTensorTable) table = bl_tensor_table_new(BL_MODEL_FORMAT_SAFETENSORS);
  g_autoptr(GError) error = NULL;
  g_assert_true(bl_tensor_table_check_known(table, "f", &error));
  guint16 first = bl_tensor_table_dtype(table, "X0", FALSE), others = 0;
  for (guint i = 1; i < 1000; i++) {
    g_autofree char *name = g_strdup_printf("X%u", i);
    others = bl_tensor_table_dtype(table, name, FALSE);
    bl_tensor_table_dtype(table, "F32", TRUE);
  }
  g_assert_cmpuint(bl_tensor_table_n_dtypes(table), ==, BL_UNKNOWN_DTYPES_MAX + 2);
  g_assert_cmpstr(g_array_index(table->dtypes, BlTensorDtype, others).name, ==, "(others)");
  g_assert_cmpuint(bl_tensor_table_dtype(table, "X0", FALSE), ==, first);
  /* A name is known or not by itself. */
  g_assert_cmpuint(bl_tensor_table_dtype(table, "F32", FALSE), ==, others);
  g_assert_false(bl_tensor_table_check_known(table, "f", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_UNSUPPORTED);
  g_assert_nonnull(strstr(error->message,
                          "f: dtypes that this version of ballast does not know: \"X0\", \"X1\""));
}

static void add_pair(BlTensorTable *table, const char *key, const char *value) {
  BlTensorPairRow pair = {.type = "string", .n_elements = 1};
  pair.key_size = (guint32)strlen(key);
  pair.key_at = bl_tensor_table_keep(table, key, pair.key_size);
  pair.value_size = (guint32)strlen(value);
  pair.value_at = bl_tensor_table_keep(table, value, pair.value_size);
  g_array_append_val(table->pairs, pair);
}

static void test_pairs(void) {
  g_autoptr(BlTensorTable) table = bl_tensor_table_new(BL_MODEL_FORMAT_SAFETENSORS);
  g_assert_null(bl_tensor_table_unify_pairs(table));
  add_pair(table, "k", "1");
  add_pair(table, "b", "2");
  g_assert_null(bl_tensor_table_unify_pairs(table));
  add_pair(table, "k", "3");
  add_pair(table, "k", "4");
  g_autofree char *twice = bl_tensor_table_unify_pairs(table);
  g_assert_cmpstr(twice, ==, "k");
  g_assert_cmpuint(bl_tensor_table_n_pairs(table), ==, 2);
  BlTensorPair pair;
  bl_tensor_table_get_pair(table, 0, &pair);
  g_assert_cmpmem(pair.key, pair.key_size, "b", 1);
  bl_tensor_table_get_pair(table, 1, &pair);
  g_assert_cmpmem(pair.value, pair.value_size, "4", 1);
}

static void assert_display(const char *name, gsize size, const char *wanted) {
  g_autofree char *shown = bl_name_display(name, size);
  g_assert_cmpstr(shown, ==, wanted);
}

static void test_display(void) {
  assert_display("", 0, "");
  assert_display("model.weight", 12, "model.weight");
  assert_display("a\0\0b\n", 5, "a\\x00\\x00b\\n");
  assert_display("\xff\xc3\xa9", 3, "\\xff\xc3\xa9");
  g_autofree char *name = g_strnfill(300, 'x');
  g_autofree char *shown = bl_name_display(name, 300);
  g_assert_true(g_str_has_suffix(shown, "x…"));
  g_assert_cmpuint(strlen(shown), ==, 203);
  /* Not cut within a character. */
  memcpy(name + 198, "\xe2\x82\xac", 3);
  g_autofree char *cut = bl_name_display(name, 300);
  g_assert_cmpuint(strlen(cut), ==, 201);
}

static void test_formats(void) {
  g_assert_cmpint(bl_model_format_from_path("a/b.safetensors"), ==, BL_MODEL_FORMAT_SAFETENSORS);
  g_assert_cmpint(bl_model_format_from_path("B.SafeTensors"), ==, BL_MODEL_FORMAT_SAFETENSORS);
  g_assert_cmpint(bl_model_format_from_path("x.GGUF"), ==, BL_MODEL_FORMAT_GGUF);
  g_assert_cmpint(bl_model_format_from_path("safetensors"), ==, BL_MODEL_FORMAT_NONE);
  g_assert_cmpint(bl_model_format_from_path("a.safetensors.index.json"), ==, BL_MODEL_FORMAT_NONE);
  g_assert_cmpint(bl_model_format_from_path(""), ==, BL_MODEL_FORMAT_NONE);
}

static void test_descriptor(void) {
  g_autofree char *path = NULL;
  g_autoptr(GError) error = NULL;
  bl_autofd fd = g_file_open_tmp("tensors-XXXXXX", &path, NULL);
  char data[4];
  BlByteSource source;
  g_assert_cmpint(write(fd, "abcdef", 6), ==, 6);
  g_assert_true(bl_byte_source_from_fd(&source, fd, NULL));
  g_assert_cmpuint(source.size, ==, 6);
  g_assert_true(source.read(source.user, 2, data, 4, NULL));
  g_assert_cmpmem(data, 4, "cdef", 4);
  /* The file shrinks under the reader. */
  g_assert_cmpint(ftruncate(fd, 3), ==, 0);
  g_assert_false(source.read(source.user, 2, data, 4, &error));
  g_assert_nonnull(error);
  unlink(path);
  bl_autofd folder = open("/", O_RDONLY | O_DIRECTORY);
  g_clear_error(&error);
  g_assert_false(bl_byte_source_from_fd(&source, folder, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
}

static gboolean sniffs(const char *path, const char *data, gsize size, GError **error) {
  MemoryBytes bytes;
  g_autofree char *copy = g_memdup2(data, size);
  BlByteSource source = memory_source(&bytes, copy, size);
  return bl_model_file_sniff(&source, path, error);
}

static void test_sniff(void) {
  static const char lfs[] =
      "version https://git-lfs.github.com/spec/v1\noid sha256:1234\nsize 99\n";
  static const struct {
    const char *path, *data;
    gsize size;
    const char *words; /* NULL: passes */
  } cases[] = {
      {"config.json", "", 0, NULL},
      {"pytorch_model.bin", "PK\3\4aaaaaaaa", 12, NULL},
      {"m.safetensors", "", 0, "m.safetensors: the file is empty"},
      {"m.gguf", "", 0, "m.gguf: the file is empty"},
      {"m.safetensors", "abc", 3, "3 bytes cannot hold a header"},
      {"m.safetensors", lfs, sizeof lfs - 1, "Git LFS pointer (oid sha256:1234, size 99)"},
      {"m.gguf", lfs, sizeof lfs - 1, "Git LFS pointer (oid sha256:1234, size 99)"},
      {"m.safetensors", lfs, 43, "Git LFS pointer (oid unknown, size unknown)"},
      {"m.safetensors", "PK\3\4aaaaaaaa", 12, "zip archive"},
      {"m.gguf", "PK\3\4aaaaaaaa", 12, "zip archive"},
      {"m.safetensors", "\x80\4aaaaaaaaaa", 12, "Python pickle"},
      {"m.safetensors", "<html><body>not found", 21, "web page"},
      {"m.gguf", "\n<!DOCTYPE HTML PUBLIC", 22, "web page"},
      {"m.safetensors", "GGUF\3\0\0\0aaaa", 12, "a GGUF file, not safetensors"},
      {"m.gguf", "lmgg\3\0\0\0aaaa", 12, "not a GGUF file"},
      {"m.gguf", "GGUF\3\0\0\0\0\0", 10, "truncated"},
      {"m.safetensors", "\4\0\0\0\0\0\0\0{}", 10, "truncated: 10 bytes, the header alone takes 12"},
      {"m.safetensors", "\2\0\0\0\0\0\0\0{}", 10, NULL},
      /* Broken in ways that moving it need not judge. */
      {"m.safetensors", "\2\0\0\0\0\0\0\0{]", 10, NULL},
      {"m.safetensors", "\2\0\0\0\0\0\0\0{}trailing", 18, NULL},
      {"m.gguf", "GGUF\1\0\0\0aaaaaaaaaaaaaaaa", 24, NULL},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    gboolean passes = sniffs(cases[i].path, cases[i].data, cases[i].size, &error);
    if (passes != (cases[i].words == NULL) ||
        (!passes && strstr(error->message, cases[i].words) == NULL))
      g_error("case %" G_GSIZE_FORMAT ": %s", i, passes ? "passes" : error->message);
    if (!passes) g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  }
}

static void test_sniff_truncated_data(void) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GByteArray) file = safetensors_file(
      "{\"__metadata__\":{\"data_offsets\":\"no\"},\"a\":{\"dtype\":\"??\",\"shape\":[2],"
      "\"data_offsets\":[0,8]},\"b\":{\"data_offsets\":[8,9]}}",
      9);
  const char *data = (const char *)file->data;
  g_assert_true(sniffs("x/m.safetensors", data, file->len, &error));
  g_assert_no_error(error);
  g_assert_false(sniffs("x/m.safetensors", data, file->len - 2, &error));
  g_assert_nonnull(strstr(error->message, "x/m.safetensors: truncated: "));
  g_assert_nonnull(strstr(error->message, "(2 more)"));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/tensors/rows", test_rows);
  g_test_add_func("/tensors/names-of-any-bytes", test_names_of_any_bytes);
  g_test_add_func("/tensors/totals", test_totals);
  g_test_add_func("/tensors/unknown-dtypes", test_unknown_dtypes);
  g_test_add_func("/tensors/pairs", test_pairs);
  g_test_add_func("/tensors/display", test_display);
  g_test_add_func("/tensors/formats", test_formats);
  g_test_add_func("/tensors/descriptor", test_descriptor);
  g_test_add_func("/tensors/sniff", test_sniff);
  g_test_add_func("/tensors/sniff-truncated-data", test_sniff_truncated_data);
  return g_test_run();
}
