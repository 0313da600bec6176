/* What gc saw and when it saw it first: the object BL_KEY_GC, docs/formats/model-cache.md. Some 24
 * bytes an entry. */
#pragma once
#include "base/job.h"
#include "upkeep/finding.h"

/* More garbage than this waits for the next run: memory stays bounded. */
#define BL_GC_RECORD_MAX 200000u

typedef struct BlGcRecord BlGcRecord;

BlGcRecord *bl_gc_record_new(void);
void bl_gc_record_free(BlGcRecord *record);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlGcRecord, bl_gc_record_free)
/* One that is absent, damaged or a later version's gives an empty one; the last two with a warning.
 */
BlGcRecord *bl_gc_record_load(BlStore *store, BlJob *job, GError **error);
/* Unix seconds; 0 where the thing was not seen. */
gint64 bl_gc_record_find(const BlGcRecord *record, const guint8 identity[BL_IDENTITY_SIZE]);
/* FALSE where it is full. */
gboolean bl_gc_record_add(BlGcRecord *record, const guint8 identity[BL_IDENTITY_SIZE],
                          gint64 since);
/* Durably; an empty one removes the object. Nothing is written where `old` says the same. */
gboolean bl_gc_record_save(BlGcRecord *record, const BlGcRecord *old, BlStore *store,
                           GError **error);
