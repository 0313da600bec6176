/* Block digests of a checkpoint: CRC32C of each 4 MiB block of each file, bound to the file's size
 * and SHA-256. Packed: four bytes a block. Object: `digests`, docs/formats/model-cache.md. */
#pragma once
#include "base/job.h"
#include "model/manifest.h"

typedef struct {
  guint64 n_files; /* as in the manifest, same order */
  guint64 *first;  /* index of the file's first CRC in crcs, or G_MAXUINT64 where it has none */
  GArray *crcs;    /* guint32 */
} BlDigests;

BlDigests *bl_digests_new(const BlManifest *manifest);
void bl_digests_free(BlDigests *digests);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlDigests, bl_digests_free)
/* Blocks of a file of that size. */
static inline guint64 bl_digests_n_blocks(guint64 size) {
  return size / BL_BLOCK_SIZE + (size % BL_BLOCK_SIZE != 0);
}
/* Records a file's CRCs (copied); n must be bl_digests_n_blocks of its size. Not for two threads at
 * once. */
void bl_digests_set(BlDigests *digests, guint64 file, const guint32 *crcs, guint64 n);
/* Its CRCs (valid until the next set), or NULL where it has none. An empty file has none and needs
 * none. */
const guint32 *bl_digests_get(const BlDigests *digests, guint64 file);
/* The stored digests of the manifest's files; those whose size or SHA-256 are another's count as
 * absent. An object that is not there gives a table without entries; one that breaks its rules is
 * CORRUPT. */
BlDigests *bl_digests_load(BlStore *store, const BlManifest *manifest, GError **error);
/* As load, for readers that can do without: an object that is damaged, or a later version's, is
 * noted to the job and counts as absent. */
BlDigests *bl_digests_load_usable(BlStore *store, const BlManifest *manifest, BlJob *job,
                                  GError **error);
gboolean bl_digests_save(BlStore *store, const BlManifest *manifest, const BlDigests *digests,
                         GError **error);
