/* The way in and the way back of a checkpoint being built: what of an earlier attempt must go
 * before it, and how all of it is removed again. */
#pragma once
#include "base/job.h"
#include "model/manifest.h"

/* Removes what is under the checkpoint's prefix and is none of the plan's chunks. old: the manifest
 * that is there, NULL where there is none. there_bytes, one for each of the plan's files: bytes of
 * its chunks that exist, whatever they hold. *may_be_there: some do, or nobody can tell. What is
 * removed stays named by the old manifest until it is gone. */
gboolean bl_build_clear_way(BlStore *store, const BlManifest *plan, const BlManifest *old,
                            gboolean is_unreadable, guint64 *there_bytes, gboolean *may_be_there,
                            BlJob *job, GError **error);
/* Bytes that the disk has free; G_MAXUINT64 where nobody can tell. */
gboolean bl_build_free_space(BlStore *store, guint64 *n_bytes, GError **error);
/* At most so many bytes are written of manifest, digests, info and what else stands beside the
 * chunks, old and new versions together. */
guint64 bl_build_control_bytes(const BlManifest *plan);

/* Whether any of the file's objects is in the store, whatever it holds. */
gboolean bl_build_has_file(BlStore *store, const BlManifest *manifest, const BlManifestFile *file);
/* Removes the file's chunks. The number of those that could not be removed. */
guint64 bl_build_remove_file(BlStore *store, const BlManifest *manifest,
                             const BlManifestFile *file);
/* Removes chunks, digests and info and then, if nothing is left, the manifest. The number of
 * objects that could not be removed; while it is not 0 the manifest stays and names them. */
guint64 bl_build_take_back(BlStore *store, const BlManifest *manifest);
