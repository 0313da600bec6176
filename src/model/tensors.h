/* A model file's header, read through any byte source: the table of its tensors.
 *
 * Rows are packed; names may be empty or hold NUL and are never C strings or paths. Formats:
 * safetensors.h, gguf.h. */
#pragma once
#include <glib.h>

/* Random reads of something with a length: a plain file, or a checkpoint's file in a store. */
typedef struct {
  guint64 size; /* bytes */
  /* Exactly `size` bytes at offset, within the source's length. */
  gboolean (*read)(gpointer user, guint64 offset, void *data, gsize size, GError **error);
  gpointer user;
} BlByteSource;
/* A source over a descriptor, which it borrows. */
gboolean bl_byte_source_from_fd(BlByteSource *source, int fd, GError **error);

typedef struct BlTensorTable BlTensorTable;
void bl_tensor_table_free(BlTensorTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlTensorTable, bl_tensor_table_free)

typedef enum {
  BL_MODEL_FORMAT_NONE,
  BL_MODEL_FORMAT_SAFETENSORS,
  BL_MODEL_FORMAT_GGUF
} BlModelFormat;
/* By the file's name: ".safetensors" and ".gguf", letter case ignored. */
BlModelFormat bl_model_format_from_path(const char *path);

/* The rest of this header is completed with the formats (safetensors.c, gguf.c). */
