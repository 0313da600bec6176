/* The local store: objects are read-only files below a folder. Layout: docs/formats/dir-store.md.
 */
#pragma once
#include "store/store.h"

/* path: the store's folder. create: make it, with its store.json, where it is not there or is
 * empty; else a folder that is not there gives a store without objects that cannot be written.
 * UNSUPPORTED: the folder holds something else, or a store of a format this version does not know.
 */
BlStore *bl_dir_store_open(const char *path, gboolean create, GError **error);

/* Whether the open folder is a local store, by its store.json. */
gboolean bl_dir_is_store(int folder_fd);

/* The store's folder, whether it is there or not; NULL where the store is no local one. Borrowed.
 */
const char *bl_dir_store_path(const BlStore *store);
