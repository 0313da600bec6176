#include "base/digest.h"
#include "fuzz.h"
#include "model/hf_layout.h"
#include "model/hf_tree.h"

typedef struct {
  const guint8 *data;
  gsize size;
} Rest;

static gssize read_rest(gpointer user, void *data, gsize size, GError **error) {
  Rest *rest = user;
  gsize n = MIN(size, rest->size);
  (void)error;
  if (n > 0) memcpy(data, rest->data, n);
  rest->data += n;
  rest->size -= n;
  return (gssize)n;
}

static gboolean take(const BlHfTreeFile *file, gpointer user, GError **error) {
  (void)user;
  (void)error;
  FUZZ_CHECK(file->path != NULL && (file->sha256 != NULL || file->git_blob != NULL));
  FUZZ_CHECK(file->sha256 == NULL || bl_hf_is_hex(file->sha256, BL_SHA256_HEX_SIZE));
  FUZZ_CHECK(file->git_blob == NULL || bl_hf_is_hex(file->git_blob, BL_GIT_BLOB_HEX_SIZE));
  return TRUE;
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size) {
  Rest rest = {.data = data, .size = size};
  g_autoptr(GError) error = NULL;
  gboolean ok = bl_hf_tree_read(read_rest, &rest, take, NULL, &error);
  FUZZ_CHECK(ok == (error == NULL));
  return 0;
}
