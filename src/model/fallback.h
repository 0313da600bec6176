/* A checkpoint as a second store has it, for readers of the first one that has lost bytes of it. */
#pragma once
#include "model/reader.h"

typedef struct BlFallback BlFallback;

/* store is borrowed and outlives it. NOT_FOUND: no such checkpoint there; CORRUPT: it is not READY.
 */
BlFallback *bl_fallback_open(BlStore *store, const char *checkpoint_id, BlJob *job, GError **error);
void bl_fallback_free(BlFallback *fallback);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlFallback, bl_fallback_free)
/* Lets the reader take from it what its own store cannot give. fallback may be NULL: nothing is
 * done. */
void bl_fallback_serve(const BlFallback *fallback, BlReader *reader);
