/* A store in this process's memory, for tests: the whole contract but clone_fd, and with what
 * capabilities the test wants, so that the layers above can be tried as on a remote or shared
 * store. */
#pragma once
#include "store/store.h"

#define BL_MEMORY_STORE_CAPS \
  (BL_STORE_CAN_LIST | BL_STORE_CAN_OPEN_FD | BL_STORE_CAN_MOVE | BL_STORE_CAN_HOLD)

/* caps: BL_MEMORY_STORE_CAPS or fewer, with any BL_STORE_IS_ bits. */
BlStore *bl_memory_store_new(BlStoreCaps caps);

/* What "memory:" (name is "": a store of its own) and "memory:name" open. All instances of a name
 * hold the same objects, which stay until the process ends, as a folder's do. Without create, a
 * name nobody made gives an empty read-only store. */
BlStore *bl_memory_store_open(const char *name, gboolean create);

/* Puts that would make the objects' bytes more than this fail with NO_SPACE. Until set: no bound.
 */
void bl_memory_store_set_capacity(BlStore *store, guint64 capacity_bytes);
