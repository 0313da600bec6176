#include "fuzz.h"
#include "model/safetensors.h"

static void judge(const guint8 *data, gsize size) {
  FuzzBytes bytes;
  BlByteSource source = fuzz_source(&bytes, data, size);
  g_autoptr(GError) error = NULL, strict_error = NULL, length_error = NULL;
  g_autoptr(BlTensorTable) table = bl_safetensors_read_any(&source, "name", &error);
  g_autoptr(BlTensorTable) strict = bl_safetensors_read(&source, "name", &strict_error);
  gboolean has_length = bl_safetensors_check_length(&source, "name", &length_error);
  fuzz_check_verdict(table, error);
  fuzz_check_verdict(strict, strict_error);
  FUZZ_CHECK(has_length == (length_error == NULL));
  if (table == NULL) {
    FUZZ_CHECK(strict == NULL);
    return;
  }
  /* The quick look never refuses what is right, and the data is covered to its end. */
  FUZZ_CHECK(has_length);
  fuzz_check_table(table, size);
  FUZZ_CHECK(bl_tensor_table_header_size(table) + bl_tensor_table_n_bytes(table) == size);
  FUZZ_CHECK((strict == NULL) == !bl_tensor_table_check_known(table, "name", NULL));
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size) {
  judge(data, size);
  if (size < 8) return 0;
  /* Once more with a length that fits: the header ends at its last brace. */
  g_autofree guint8 *mended = g_memdup2(data, size);
  gsize end = size;
  while (end > 8 && mended[end - 1] != '}') end--;
  guint64 length = GUINT64_TO_LE((guint64)(end - 8));
  memcpy(mended, &length, 8);
  judge(mended, size);
  return 0;
}
