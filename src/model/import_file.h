/* One source file into its chunks: what import does for each of them, on a worker's thread. */
#pragma once
#include "model/build.h"
#include "model/source.h"

typedef struct {
  BlBuild *build; /* its manifest has the source's files, in the same order */
  BlSource *source;
  gint cannot_clone; /* the store said so: not asked again */
  GMutex lock;       /* protects what follows */
  guint64 n_files_written, n_bytes_written;
  GPtrArray *mended; /* of char*: files of which objects were put again */
} BlImportFiles;

/* For a BlBuildWork's take_file. Afterwards every chunk of file i holds the source's
 * bytes, though not yet durably. EXISTS where the manifest is READY and the source's bytes are
 * others. CORRUPT where the source keeps changing. */
gboolean bl_import_file(BlImportFiles *files, guint64 i, guint worker, GError **error);
