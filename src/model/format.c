/* Which format a file is, by its name and by its first bytes. */
#include <string.h>

#include "base/error.h"
#include "model/gguf.h"
#include "model/safetensors.h"
#include "model/tensors.h"

/* Holds a whole Git LFS pointer. */
#define HEAD_SIZE 512

static gboolean has_suffix(const char *path, const char *suffix) {
  gsize n = strlen(path), m = strlen(suffix);
  return n >= m && g_ascii_strcasecmp(path + n - m, suffix) == 0;
}

BlModelFormat bl_model_format_from_path(const char *path) {
  if (has_suffix(path, ".safetensors")) return BL_MODEL_FORMAT_SAFETENSORS;
  return has_suffix(path, ".gguf") ? BL_MODEL_FORMAT_GGUF : BL_MODEL_FORMAT_NONE;
}

const char *bl_model_format_name(BlModelFormat format) {
  static const char *const names[] = {"none", "safetensors", "GGUF"};
  return names[format];
}

BlTensorTable *bl_tensor_table_read(const BlByteSource *source, BlModelFormat format,
                                    const char *what, GError **error) {
  if (format == BL_MODEL_FORMAT_GGUF) return bl_gguf_read(source, what, error);
  return bl_safetensors_read_any(source, what, error);
}

/* The rest of the line that begins with the word, or "unknown". Caller frees. */
static char *pointer_field(const char *text, const char *word) {
  const char *at = strstr(text, word);
  if (at == NULL) return g_strdup("unknown");
  at += strlen(word);
  return bl_name_display(at, strcspn(at, "\r\n"));
}

static gboolean check_lfs_pointer(const char *head, GError **error) {
  if (!g_str_has_prefix(head, "version https://git-lfs.github.com/spec/")) return TRUE;
  g_autofree char *oid = pointer_field(head, "\noid ");
  g_autofree char *size = pointer_field(head, "\nsize ");
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "this is a Git LFS pointer (oid %s, size %s), not the file itself: run "
                      "\"git lfs pull\" or download it again",
                      oid, size);
}

static gboolean looks_like_html(const char *head) {
  const char *p = head + strspn(head, " \t\r\n");
  return g_ascii_strncasecmp(p, "<!doctype html", 14) == 0 ||
         g_ascii_strncasecmp(p, "<html", 5) == 0;
}

gboolean bl_model_file_check_foreign(const BlByteSource *source, BlModelFormat format,
                                     GError **error) {
  char head[HEAD_SIZE + 1] = {0};
  gsize n = (gsize)MIN(source->size, HEAD_SIZE);
  const char *found = NULL;
  if (!source->read(source->user, 0, head, n, error)) return FALSE;
  if (!check_lfs_pointer(head, error)) return FALSE;
  if (memcmp(head, "PK\3\4", 4) == 0)
    found = "a zip archive (PyTorch's own format, perhaps)";
  else if (head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    found = "a Python pickle";
  else if (looks_like_html(head))
    found = "a web page";
  else if (format != BL_MODEL_FORMAT_GGUF && memcmp(head, "GGUF", 4) == 0)
    found = "a GGUF file";
  if (found == NULL) return TRUE;
  return bl_error_set(error, BL_ERROR_CORRUPT, "this is %s, not %s", found,
                      bl_model_format_name(format));
}

gboolean bl_model_file_sniff(const BlByteSource *source, const char *path, GError **error) {
  BlModelFormat format = bl_model_format_from_path(path);
  if (format == BL_MODEL_FORMAT_NONE) return TRUE;
  g_autofree char *shown = bl_name_display(path, strlen(path));
  if (format == BL_MODEL_FORMAT_GGUF) return bl_gguf_check_length(source, shown, error);
  return bl_safetensors_check_length(source, shown, error);
}
