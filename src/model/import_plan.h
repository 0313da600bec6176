/* What an import decides and does before and after the bytes move: is the source fit, which chunks
 * will there be, what of an earlier attempt must go, and how all of it is taken back. */
#pragma once
#include "base/job.h"
#include "model/import.h"
#include "model/source.h"

/* CORRUPT where the source cannot be a model (no files, a shard its index names is missing, a
 * weight file that is none), unless forced. What is only odd is noted to the job. */
gboolean bl_import_check_source(BlSource *source, const BlImportOptions *options, BlJob *job,
                                GError **error);

/* The FAILED manifest that names every chunk the import may make. chunk_size 0: as the store
 * prefers; on a local one files are stored whole. Caller frees. */
BlManifest *bl_import_plan(BlStore *store, const BlSource *source, const char *checkpoint_id,
                           const char *model_id, const char *revision, guint64 chunk_size,
                           GError **error);

/* Removes what is under the checkpoint's prefix and is none of the plan's chunks, and checks that
 * there is room for the rest. old: the manifest that is there, NULL where there is none.
 * *may_be_there: objects of the plan exist. What is removed stays named by the old manifest until
 * it is gone. */
gboolean bl_import_clear_way(BlStore *store, const BlManifest *plan, const BlManifest *old,
                             gboolean is_unreadable, gboolean *may_be_there, BlJob *job,
                             GError **error);

/* Removes chunks, digests and info and then, if nothing is left, the manifest. The number of
 * objects that could not be removed; while it is not 0 the manifest stays and names them. */
guint64 bl_import_take_back(BlStore *store, const BlManifest *manifest);
