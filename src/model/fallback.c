#include "model/fallback.h"

struct BlFallback {
  BlManifest *manifest;
  BlDigests *digests;
  BlReader *reader;
};

BlFallback *bl_fallback_open(BlStore *store, const char *checkpoint_id, BlJob *job,
                             GError **error) {
  g_autoptr(BlFallback) fallback = g_new0(BlFallback, 1);
  fallback->manifest = bl_manifest_load_ready(store, checkpoint_id, error);
  if (fallback->manifest == NULL) return NULL;
  fallback->digests = bl_digests_load_usable(store, fallback->manifest, job, error);
  if (fallback->digests == NULL) return NULL;
  fallback->reader = bl_reader_new(store, fallback->manifest, fallback->digests);
  return g_steal_pointer(&fallback);
}

void bl_fallback_free(BlFallback *fallback) {
  if (fallback == NULL) return;
  bl_reader_free(fallback->reader);
  if (fallback->digests != NULL) bl_digests_free(fallback->digests);
  bl_manifest_free(fallback->manifest);
  g_free(fallback);
}

void bl_fallback_serve(const BlFallback *fallback, BlReader *reader) {
  if (fallback != NULL) bl_reader_set_fallback(reader, fallback->reader);
}
