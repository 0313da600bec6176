/* What ballast knows of a checkpoint beside the manifest: commit, refs, source, executable bits.
 * Object: `info`, docs/formats/model-cache.md. */
#pragma once
#include "model/manifest.h"

typedef struct {
  char *commit;                /* 40 hex digits */
  gboolean commit_from_source; /* else computed from the content */
  char **refs, **tags;         /* NULL-terminated */
  char *source_kind, *source_uri;
  char *imported_by_host, *imported_by_version;
  guint64 n_files;    /* as in the manifest, same order */
  guint8 *executable; /* per file */
  gint64 *mtime_ns; /* per file: the source's time at import, for import --quick; 0 is not known */
  char **blob_ids;  /* per file, NULL where the source named none */
} BlInfo;

BlInfo *bl_info_new(const BlManifest *manifest);
void bl_info_free(BlInfo *info);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlInfo, bl_info_free)
/* The content commit: first 40 hex digits of SHA-256 over path NUL hex LF of each file in order.
 * Caller frees. */
char *bl_info_content_commit(const BlManifest *manifest);
/* An absent object (a peer's checkpoint) gives one with the content commit and nothing else.
 * CORRUPT where it breaks its rules. */
BlInfo *bl_info_load(BlStore *store, const BlManifest *manifest, GError **error);
gboolean bl_info_save(BlStore *store, const BlManifest *manifest, const BlInfo *info,
                      GError **error);
