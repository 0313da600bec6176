/* A shard index ("model.safetensors.index.json"): which file holds which tensor. Read as a stream
 * into packed rows: 16 bytes and the name for each tensor. */
#pragma once
#include "model/tensors.h"

/* More tensors than any model has; an index with more is UNSUPPORTED. */
#define BL_SHARD_INDEX_TENSORS_MAX 2000000

typedef struct {
  guint32 name_at, name_size; /* in names */
  guint32 shard;              /* in shards */
  guint32 other : 31;         /* for the caller: another shard that holds it, plus 1 */
  guint32 found : 1;          /* for the caller: its shard holds it */
} BlShardEntry;

typedef struct {
  GPtrArray *shards; /* of char*: as the index has them, relative to its folder; each once */
  GArray *entries;   /* of BlShardEntry, sorted by name */
  GByteArray *names;
  gboolean has_total_size;
  guint64 total_size; /* bytes, as its metadata says */
  guint n_duplicates; /* tensors named twice; the last one counts */
} BlShardIndex;

/* TRUE for "*.safetensors.index.json" and "*.bin.index.json". */
gboolean bl_shard_index_is_path(const char *path);
/* CORRUPT where it is not JSON, has no weight_map, or that does not map strings to paths below the
 * index's folder. */
BlShardIndex *bl_shard_index_read(const BlByteSource *source, const char *what, GError **error);
void bl_shard_index_free(BlShardIndex *index);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlShardIndex, bl_shard_index_free)
/* NULL where the index does not name the tensor. */
BlShardEntry *bl_shard_index_find(const BlShardIndex *index, const char *name, gsize name_size);
