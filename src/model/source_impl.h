/* What source.c (finds the files) shares with source_hf.c and source_local.c (what the Hugging Face
 * client wrote beside them). Nothing else includes it. */
#pragma once
#include "model/hf_layout.h"
#include "model/source.h"

/* CORRUPT: "path" why. */
gboolean bl_source_set_unfit(GError **error, const char *path, const char *why);

/* source_hf.c */

/* Before the files are found: names from the snapshot, and where its links may lead. */
void bl_source_hf_prepare(BlSource *source, const BlHfSnapshot *snapshot);
/* Afterwards: what blobs and the listing of the commit say of each file. CORRUPT where a file is
 * other than they say. */
gboolean bl_source_hf_complete(BlSource *source, const BlHfSnapshot *snapshot,
                               const BlSourceRequest *request, GError **error);

/* source_local.c */

/* For a folder that the client filled (local_dir): what its metadata say of each file. */
void bl_source_local_complete(BlSource *source);
