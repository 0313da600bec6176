/* Which files of a checkpoint a verification is about. */
#pragma once
#include "model/manifest.h"
#include "model/verify.h"

typedef struct {
  guint32 *files; /* indexes in the manifest, largest first */
  guint64 n, n_bytes;
  guint8 *is_selected; /* by index in the manifest */
} BlVerifySelection;

/* By the options' globs; of these the options' part. Clear it in any case. */
void bl_verify_select(BlVerifySelection *selection, const BlManifest *manifest,
                      const BlVerifyOptions *options);
void bl_verify_selection_clear(BlVerifySelection *selection);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(BlVerifySelection, bl_verify_selection_clear)
