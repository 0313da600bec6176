/* What the targets share. A target is one function that libFuzzer calls with bytes of its making
 * (tools/fuzz.sh), or replay.c with files. It fails by aborting. */
#pragma once
#include <string.h>

#include "base/error.h"
#include "model/tensors.h"

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size);

#define FUZZ_CHECK(condition)                                               \
  do {                                                                      \
    if (!(condition)) g_error("%s:%d: %s", __FILE__, __LINE__, #condition); \
  } while (0)

typedef struct {
  const guint8 *data;
  gsize size;
} FuzzBytes;

static inline gboolean fuzz_read(gpointer user, guint64 offset, void *data, gsize size,
                                 GError **error) {
  const FuzzBytes *bytes = user;
  (void)error;
  FUZZ_CHECK(offset <= bytes->size && size <= bytes->size - offset);
  if (size > 0) memcpy(data, bytes->data + offset, size);
  return TRUE;
}

static inline BlByteSource fuzz_source(FuzzBytes *bytes, const guint8 *data, gsize size) {
  *bytes = (FuzzBytes){data, size};
  return (BlByteSource){size, fuzz_read, bytes};
}

/* A verdict is a table, or an error of ours that names the file. */
static inline void fuzz_check_verdict(const BlTensorTable *table, const GError *error) {
  FUZZ_CHECK((table == NULL) != (error == NULL));
  if (error == NULL) return;
  FUZZ_CHECK(g_error_matches(error, BL_ERROR, BL_ERROR_CORRUPT) ||
             g_error_matches(error, BL_ERROR, BL_ERROR_UNSUPPORTED));
  FUZZ_CHECK(g_str_has_prefix(error->message, "name: "));
  FUZZ_CHECK(strchr(error->message, '\n') == NULL);
}

/* What holds of every table: names are found, tensors lie in the file, totals add up. */
static inline void fuzz_check_table(const BlTensorTable *table, guint64 file_size) {
  guint64 n_bytes = 0, n = bl_tensor_table_n_tensors(table), n_of_dtypes = 0;
  FUZZ_CHECK(bl_tensor_table_header_size(table) <= file_size || n == 0);
  for (guint64 i = 0; i < n; i++) {
    BlTensor tensor;
    guint64 found, product = 1;
    bl_tensor_table_get(table, i, &tensor);
    FUZZ_CHECK(bl_tensor_table_find(table, tensor.name, tensor.name_size, &found) && found == i);
    FUZZ_CHECK(tensor.offset >= bl_tensor_table_header_size(table));
    FUZZ_CHECK(tensor.offset <= file_size && tensor.size <= file_size - tensor.offset);
    for (guint d = 0; d < tensor.n_dims; d++) product *= bl_tensor_shape_next(&tensor.shape);
    FUZZ_CHECK(product == tensor.n_elements);
    g_autofree char *shown = bl_name_display(tensor.name, tensor.name_size);
    FUZZ_CHECK(g_utf8_validate(shown, -1, NULL) && strchr(shown, '\n') == NULL);
    n_bytes += tensor.size;
  }
  FUZZ_CHECK(n_bytes == bl_tensor_table_n_bytes(table));
  for (guint i = 0; i < bl_tensor_table_n_dtypes(table); i++) {
    BlTensorDtypeTotal total;
    bl_tensor_table_get_dtype(table, i, &total);
    n_of_dtypes += total.n_tensors;
  }
  FUZZ_CHECK(n_of_dtypes == n);
  for (guint64 i = 0; i < bl_tensor_table_n_pairs(table); i++) {
    BlTensorPair pair;
    bl_tensor_table_get_pair(table, i, &pair);
    g_autofree char *key = bl_name_display(pair.key, pair.key_size);
    g_autofree char *value = bl_name_display(pair.value, pair.value_size);
    FUZZ_CHECK(pair.type != NULL && key != NULL && value != NULL);
  }
}
