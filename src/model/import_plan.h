/* What an import decides before anything is written: is the source fit, and which chunks will there
 * be. */
#pragma once
#include "base/job.h"
#include "model/import.h"
#include "model/source.h"

/* CORRUPT where the source cannot be a model (no files, a shard its index names is missing, a
 * weight file that is none), unless forced. What is only odd is noted to the job. */
gboolean bl_import_check_source(BlSource *source, const BlImportOptions *options, BlJob *job,
                                GError **error);

/* The FAILED manifest of what the source will be, under the names that the result has. chunk_size
 * 0: as the store prefers. Caller frees. */
BlManifest *bl_import_plan(BlStore *store, const BlSource *source, const BlImportResult *names,
                           guint64 chunk_size, GError **error);
