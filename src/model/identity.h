/* Identities of a checkpoint's objects as they were when every byte of them was last checked:
 * inode, size, mtime, and ctime where the file had one link. An object whose identity is the same
 * still is not read again by `verify --quick`, and may be shared without reading it.
 *
 * They stand in a folder of this machine and user, outside the store, since only here they mean
 * anything. Losing them costs time, never safety. Bound to the manifest's SHA-256. File format:
 * docs/formats/local-state.md. */
#pragma once
#include "base/job.h"
#include "model/manifest.h"

typedef struct BlIdentities BlIdentities;

/* folder: the state folder, made when something is saved; NULL: nothing is known and nothing kept.
 * Never fails: what cannot be read, or is of another manifest, is unknown. */
BlIdentities *bl_identities_load(const char *folder, BlStore *store, const BlManifest *manifest);
void bl_identities_free(BlIdentities *identities);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlIdentities, bl_identities_free)
/* Whether all objects of the file are, by stat, those that were checked. */
gboolean bl_identities_match(const BlIdentities *identities, BlStore *store,
                             const BlManifest *manifest, guint64 file);
/* Records the file's objects as `before`, a stat taken before they were read, and now agree on; a
 * file whose objects changed meanwhile becomes unknown. Threads: one file each. */
void bl_identities_record(BlIdentities *identities, BlStore *store, const BlManifest *manifest,
                          guint64 file);
void bl_identities_forget(BlIdentities *identities, guint64 file);
/* Best effort. Atomic. */
void bl_identities_save(const BlIdentities *identities);
/* Drops what is kept of a checkpoint that is gone. */
void bl_identities_remove(const char *folder, BlStore *store, const char *checkpoint_id);
