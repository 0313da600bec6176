/* One source file into its chunks: what import does for each of them, on a worker's thread. */
#pragma once
#include "base/job.h"
#include "model/digests.h"
#include "model/source.h"
#include "model/transfer.h"

typedef struct {
  BlStore *store;
  BlSource *source;
  BlManifest *manifest; /* same files in the same order; SHA-256 is set here unless it is READY */
  BlDigests *digests;   /* filled here */
  BlTransferPool *pool;
  BlJob *job;
  gboolean may_be_there; /* chunks may exist: compare before writing */
  gint cannot_clone;     /* the store said so: not asked again */
  GMutex lock;           /* protects digests and what follows */
  guint64 n_files_written, n_bytes_written;
  GPtrArray *mended; /* of char*: files of which objects were put again */
} BlImportFiles;

/* A BlWorkFunc; user is the BlImportFiles. Afterwards every chunk of file i holds the source's
 * bytes, though not yet durably. EXISTS where the manifest is READY and the source's bytes are
 * others. CORRUPT where the source keeps changing. */
gboolean bl_import_file(guint64 i, guint worker, gpointer user, GError **error);
