/* Donors: files of other READY checkpoints in the same store that give a new one their bytes, so
 * that equal files lie there once.
 *
 * What a donor's object holds now need not be what its manifest says: disks fail, and somebody may
 * have written to it. Its bytes are trusted where its identity is certain (identity.h); else
 * whoever takes them compares all of them first. So damage never spreads. */
#pragma once
#include "model/content.h"

typedef struct BlDonors BlDonors;

typedef struct {
  const BlContentFile *file; /* borrowed from the donors */
  int fd;                    /* of its object */
  gboolean is_vouched;       /* its bytes are known to be those that its manifest names */
  BlObjectStat stat;         /* of fd, when it was last looked at */
} BlDonor;

/* Donors for files of the plan's sizes; not of the plan's own checkpoint. state_folder: where
 * identities are kept, NULL: nobody is trusted. */
BlDonors *bl_donors_load(BlStore *store, const BlManifest *plan, const char *state_folder,
                         BlJob *job, GError **error);
void bl_donors_free(BlDonors *donors);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlDonors, bl_donors_free)

/* Whether a file of that size may have a donor. */
gboolean bl_donors_have_size(const BlDonors *donors, guint64 size);
/* A donor for a file of that size, with the bytes of source_fd as far as some samples tell. FALSE
 * where there is none. Any thread. */
gboolean bl_donors_find(BlDonors *donors, guint64 size, int source_fd, BlDonor *donor);
/* One that has these bytes by its manifest, for the object under the key: not one that is the same
 * file. */
gboolean bl_donors_find_known(BlDonors *donors, guint64 size, const guint8 sha256[BL_SHA256_SIZE],
                              const char *key, BlDonor *donor);
/* Whether its file is unchanged since it was found. Names that others gave it meanwhile, or took,
 * are no change. */
gboolean bl_donor_is_still(BlDonor *donor);
void bl_donor_close(BlDonor *donor);
