/* The headers and shard index of a checkpoint in a store, judged as import judges a folder's. */
#pragma once
#include "base/job.h"
#include "model/layout.h"
#include "model/reader.h"
#include "model/verify.h"

/* is_selected: by index in the manifest; files that are not are taken for there and right. NULL
 * where the store could not be read for a reason that is no damage, or the job was stopped. */
BlLayoutResult *bl_verify_deep(BlReader *reader, const BlManifest *manifest,
                               const guint8 *is_selected, BlJob *job, GError **error);
