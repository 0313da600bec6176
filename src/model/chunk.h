/* One stored object, a chunk of a file or a whole one, open for reading: through a descriptor where
 * the store gives one, else by get. */
#pragma once
#include "model/key.h"
#include "store/store.h"

typedef struct {
  BlStore *store;
  BlKeyBuffer key;
  int fd;       /* -1 where the store gives none */
  guint64 size; /* bytes it holds */
} BlChunk;

/* NOT_FOUND where there is none. Needs bl_chunk_close only after success. */
gboolean bl_chunk_open(BlChunk *chunk, BlStore *store, const char *key, GError **error);
void bl_chunk_close(BlChunk *chunk);
/* Exactly size bytes from offset, within its size. An object that ends early is IO. */
gboolean bl_chunk_read(BlChunk *chunk, guint64 offset, void *data, gsize size, GError **error);
