/* Manifests from any source of bytes: the store's object, or memory in tests. */
#pragma once
#include "base/json_reader.h"
#include "model/manifest.h"

/* CORRUPT, naming checkpoint, member and fault, where the bytes break a rule of
 * docs/formats/model-cache.md, or are the manifest of another checkpoint; UNSUPPORTED for a later
 * schema; the input's own error as it is. */
BlManifest *bl_manifest_parse(BlJsonInput input, gpointer user, const char *checkpoint_id,
                              BlManifestLoadFlags flags, GError **error);
