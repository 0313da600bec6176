#include "base/path.h"
#include "fuzz.h"
#include "model/shard_index.h"

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size) {
  FuzzBytes bytes;
  BlByteSource source = fuzz_source(&bytes, data, size);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlShardIndex) index = bl_shard_index_read(&source, "name", &error);
  FUZZ_CHECK((index == NULL) == (error != NULL));
  if (index == NULL) return 0;
  for (guint s = 0; s < index->shards->len; s++) {
    const char *shard = g_ptr_array_index(index->shards, s);
    FUZZ_CHECK(bl_path_check(shard, strlen(shard), NULL));
  }
  for (guint e = 0; e < index->entries->len; e++) {
    const BlShardEntry *entry = &g_array_index(index->entries, BlShardEntry, e);
    const char *name = (const char *)index->names->data + entry->name_at;
    FUZZ_CHECK(entry->shard < index->shards->len);
    FUZZ_CHECK(bl_shard_index_find(index, name, entry->name_size) == entry);
  }
  return 0;
}
