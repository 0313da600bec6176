/* The way in and the way back of a checkpoint being built: what of an earlier attempt must go
 * before it, and how all of it is removed again. */
#pragma once
#include "base/job.h"
#include "model/manifest.h"

/* Removes what is under the checkpoint's prefix and is none of the plan's chunks, and checks that
 * there is room for the rest. old: the manifest that is there, NULL where there is none.
 * *may_be_there: objects of the plan exist. What is removed stays named by the old manifest until
 * it is gone. */
gboolean bl_build_clear_way(BlStore *store, const BlManifest *plan, const BlManifest *old,
                            gboolean is_unreadable, gboolean *may_be_there, BlJob *job,
                            GError **error);

/* Removes chunks, digests and info and then, if nothing is left, the manifest. The number of
 * objects that could not be removed; while it is not 0 the manifest stays and names them. */
guint64 bl_build_take_back(BlStore *store, const BlManifest *manifest);
