/* A checkpoint into a cache of the Hugging Face client, so that the client finds it without a
 * network: docs/formats/hf-cache.md. */
#pragma once
#include "model/pull.h"

/* cache: the folder that holds models--org--name folders, made if need be. repo_id: the
 * repository's name there; NULL: the model id, INVALID where the client takes that for no name.
 * Blobs come first, then the snapshot's links, then refs: a client never meets a ref whose snapshot
 * is not whole. Refuses with EXISTS before the first write where something there differs (named).
 * *snapshot: the snapshot's folder; caller frees. */
gboolean bl_hf_export(BlStore *store, const char *checkpoint_id, const char *cache,
                      const char *repo_id, const BlPullOptions *options, BlJob *job,
                      BlPullResult *result, char **snapshot, GError **error);
