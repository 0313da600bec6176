/* Info from any source of bytes: the store's object, or memory in tests. */
#pragma once
#include "base/json_reader.h"
#include "model/info.h"

/* As bl_info_load, of the object's bytes. */
BlInfo *bl_info_parse(BlJsonInput input, gpointer user, const BlManifest *manifest, GError **error);
