/* One source file into its chunks: what import does for each of them, on a worker's thread. */
#pragma once
#include "model/build.h"
#include "model/donor.h"
#include "model/identity.h"
#include "model/source.h"

typedef struct {
  BlBuild *build; /* its manifest has the source's files, in the same order */
  BlSource *source;
  const char *state_folder; /* of identities; may be NULL */
  /* Of the manifest: each file's objects as they were before they were compared, or when they had
   * been written. */
  BlIdentities *identities;
  gint cannot_clone;  /* the store said so: not asked again */
  GMutex donors_lock; /* held while they are loaded, by whoever needs them first */
  BlDonors *donors;   /* NULL: not loaded yet, or bytes cannot be shared */
  gboolean are_donors_loaded;
  GMutex lock; /* protects what follows */
  guint64 n_files_written, n_bytes_written;
  guint64 n_files_shared, n_bytes_shared; /* with other checkpoints */
  GPtrArray *mended;                      /* of char*: files of which objects were put again */
} BlImportFiles;

/* manifest: what the build's will be, or is; it outlives the files. */
void bl_import_files_init(BlImportFiles *files, const BlManifest *manifest);
void bl_import_files_clear(BlImportFiles *files);
/* For a BlBuildWork's is_shared. */
gboolean bl_import_file_is_shared(BlImportFiles *files, guint64 i);
/* For a BlBuildWork's take_file. Afterwards every chunk of file i holds the source's
 * bytes, though not yet durably. EXISTS where the manifest is READY and the source's bytes are
 * others. CORRUPT where the source keeps changing. */
gboolean bl_import_file(BlImportFiles *files, guint64 i, guint worker, GError **error);
