/* A byte source over memory for tests; it fails from the n-th read on. */
#pragma once
#include <string.h>

#include "base/error.h"
#include "model/tensors.h"

typedef struct {
  const guint8 *data;
  gsize size;
  guint reads_left;
} MemoryBytes;

static inline gboolean memory_read(gpointer user, guint64 offset, void *data, gsize size,
                                   GError **error) {
  MemoryBytes *bytes = user;
  if (bytes->reads_left == 0) return bl_error_set(error, BL_ERROR_IO, "the disk is gone");
  bytes->reads_left--;
  g_assert_cmpuint(offset, <=, bytes->size);
  g_assert_cmpuint(size, <=, bytes->size - offset);
  memcpy(data, bytes->data + offset, size);
  return TRUE;
}

static inline BlByteSource memory_source(MemoryBytes *bytes, gconstpointer data, gsize size) {
  *bytes = (MemoryBytes){data, size, G_MAXUINT};
  return (BlByteSource){size, memory_read, bytes};
}

/* A safetensors file: the length, the header's text, data_size zero bytes. */
static inline GByteArray *safetensors_file(const char *header, gsize data_size) {
  GByteArray *file = g_byte_array_new();
  guint64 length = GUINT64_TO_LE(strlen(header));
  g_byte_array_append(file, (const guint8 *)&length, 8);
  g_byte_array_append(file, (const guint8 *)header, (guint)strlen(header));
  gsize at = file->len;
  g_byte_array_set_size(file, (guint)(at + data_size));
  memset(file->data + at, 0, data_size);
  return file;
}
