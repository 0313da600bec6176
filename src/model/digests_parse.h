/* Digests from any source of bytes: the store's object, or memory in tests. */
#pragma once
#include "base/json_reader.h"
#include "model/digests.h"

/* As bl_digests_load, of the object's bytes. */
BlDigests *bl_digests_parse(BlJsonInput input, gpointer user, const BlManifest *manifest,
                            GError **error);
