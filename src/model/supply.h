/* Where the bytes of a file may be had from anew: a folder, another store, or the files of other
 * checkpoints in the same one. It vouches for nothing: whoever takes bytes hashes them. */
#pragma once
#include "model/content.h"

typedef struct BlSupply BlSupply;

/* from: a folder or a store, by path or URL. checkpoint_id: looked for in a store; any other
 * checkpoint of it that has the file does, too. sizes: of the files that will be asked for (sorted
 * here). */
BlSupply *bl_supply_open(const char *from, const char *checkpoint_id, guint64 *sizes, gsize n_sizes,
                         BlJob *job, GError **error);
/* The other checkpoints of the store itself (borrowed). */
BlSupply *bl_supply_open_own(BlStore *store, const char *checkpoint_id, guint64 *sizes,
                             gsize n_sizes, BlJob *job, GError **error);
/* One checkpoint of an open store; both are borrowed. */
BlSupply *bl_supply_open_checkpoint(BlStore *store, BlManifest *manifest);
void bl_supply_free(BlSupply *supply);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlSupply, bl_supply_free)

/* As it is named to people. */
const char *bl_supply_name(const BlSupply *supply);

/* One file to take. Belongs to one thread. */
typedef struct BlSupplyFile BlSupplyFile;
/* The n-th (from 0) that should be the file, by path or SHA-256, and size. NULL without an error
 * where there are no more; with one where that one cannot be opened. Threads: any. */
BlSupplyFile *bl_supply_find(const BlSupply *supply, const BlManifestFile *file, guint n,
                             GError **error);
void bl_supply_file_free(BlSupplyFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlSupplyFile, bl_supply_file_free)
/* As it is named to people. */
const char *bl_supply_file_name(const BlSupplyFile *file);
/* A descriptor that bl_store_open_fd of the own store gave; -1 where it is not from there. */
int bl_supply_file_own_fd(const BlSupplyFile *file);
/* From where the next bytes come. */
gboolean bl_supply_file_seek(BlSupplyFile *file, guint64 offset, GError **error);
/* The next bytes, up to size; 0 at the end, -1 on error. */
gssize bl_supply_file_read(BlSupplyFile *file, void *data, gsize size, GError **error);
