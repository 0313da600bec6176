/* One file of a checkpoint into another store: what copy does for each of them. */
#pragma once
#include "model/build.h"
#include "model/donor.h"
#include "model/reader.h"
#include "model/supply.h"

typedef struct {
  BlBuild *build;         /* in the target; its manifest has the same files in the same order */
  BlStore *source;        /* the store to copy from */
  const BlManifest *from; /* there */
  BlDigests *digests;     /* there */
  BlReader *reader;       /* of it */
  BlReader *stored;       /* of what the target has, without digests */
  GPtrArray *supplies;    /* of BlSupply: the source's checkpoint */
  BlDonors *donors;       /* NULL: bytes cannot be shared */
  gboolean may_clone;     /* both are files of one file system */
  gint cannot_clone;      /* atomic: it was tried */
  GMutex lock;            /* protects what follows */
  guint64 n_files_written, n_bytes_written;
  guint64 n_files_shared, n_bytes_shared;
  GPtrArray *mended; /* of char*: of a READY checkpoint */
} BlCopyFiles;

/* For a BlBuildWork's take_file. CORRUPT where the source's bytes are not what its manifest says.
 */
gboolean bl_copy_file(BlCopyFiles *files, guint64 i, guint worker, GError **error);
