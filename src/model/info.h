/* What ballast knows of a checkpoint beside the manifest: commit, refs, source, executable bits.
 * Object: `info`, docs/formats/model-cache.md. */
#pragma once
#include "base/job.h"
#include "model/manifest.h"

typedef struct {
  char *commit;                /* 40 hex digits; NULL where nothing is known */
  gboolean commit_from_source; /* else computed from the content */
  char **refs, **tags;         /* NULL-terminated */
  char *source_kind, *source_uri;
  char *imported_by_host, *imported_by_version;
  guint64 n_files;    /* as in the manifest, same order */
  guint8 *executable; /* per file */
  gint64 *mtime_ns; /* per file: the source's time at import, for import --quick; 0 is not known */
  char **blob_ids;  /* per file, NULL where the source named none */
} BlInfo;

/* Empty lists, no commit, nothing known of any file. */
BlInfo *bl_info_new(const BlManifest *manifest);
void bl_info_free(BlInfo *info);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlInfo, bl_info_free)
/* The content commit: first 40 hex digits of SHA-256 over path NUL hex LF of each file in order.
 * Caller frees; NULL where a file's SHA-256 is not known (of a FAILED manifest). */
char *bl_info_content_commit(const BlManifest *manifest);
/* An absent object (a peer's checkpoint), or one of other content than the manifest's (a peer
 * imported the id again), gives one with the content commit and nothing else. CORRUPT where it
 * breaks its rules. */
BlInfo *bl_info_load(BlStore *store, const BlManifest *manifest, GError **error);
/* As load, for readers that can do without: an object that is damaged, or a later version's, is
 * noted to the job and counts as absent. */
BlInfo *bl_info_load_usable(BlStore *store, const BlManifest *manifest, BlJob *job, GError **error);
/* commit must be set. */
gboolean bl_info_save(BlStore *store, const BlManifest *manifest, const BlInfo *info,
                      GError **error);
