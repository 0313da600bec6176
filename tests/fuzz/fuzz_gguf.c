#include "fuzz.h"
#include "model/gguf.h"

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size) {
  FuzzBytes bytes;
  BlByteSource source = fuzz_source(&bytes, data, size);
  g_autoptr(GError) error = NULL, length_error = NULL;
  g_autoptr(BlTensorTable) table = bl_gguf_read(&source, "name", &error);
  gboolean has_length = bl_gguf_check_length(&source, "name", &length_error);
  fuzz_check_verdict(table, error);
  FUZZ_CHECK(has_length == (length_error == NULL));
  if (table == NULL) return 0;
  FUZZ_CHECK(has_length);
  fuzz_check_table(table, size);
  return 0;
}
