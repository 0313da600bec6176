/* Identities of a checkpoint's objects as they were when every byte of them was last checked:
 * inode, size, mtime, and ctime where the file had one link. An object whose identity is the same
 * still is not read again by `verify --quick`, and may be shared without reading it.
 *
 * They stand in a folder of this machine and user, outside the store, since only here they mean
 * anything. Losing them costs time, never safety. Bound to the manifest's SHA-256. File format:
 * docs/formats/local-state.md.
 *
 * Recording takes a look before the bytes are read and one behind: a file that was changed in
 * between becomes unknown. So does one that was changed so shortly before that a change after it
 * could bear the same time.
 *
 * Threads: any, each file by one at a time. */
#pragma once
#include "base/job.h"
#include "model/manifest.h"

typedef struct BlIdentities BlIdentities;

/* folder: the state folder, made when something is saved; NULL: nothing is known and nothing kept.
 * store and manifest are borrowed and outlive it. Never fails: what cannot be read, is another
 * user's, or is of another manifest, is unknown. */
BlIdentities *bl_identities_load(const char *folder, BlStore *store, const BlManifest *manifest);
void bl_identities_free(BlIdentities *identities);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlIdentities, bl_identities_free)

/* Looks at the file's objects: TRUE where all are, by stat, those that were checked. Either way
 * they are noted as they are now, for bl_identities_record. */
gboolean bl_identities_look(BlIdentities *identities, guint64 file);
/* Whether the last look leaves no doubt: no change could have given the objects these times again,
 * since their ctime was compared, too. What shares their bytes unread needs that. */
gboolean bl_identities_is_certain(const BlIdentities *identities, guint64 file);
/* Every byte of the file was found right since bl_identities_look: what was noted is recorded where
 * it is still so, else the file becomes unknown. Objects with bytes that the caller itself wrote
 * are looked at as soon as they are there. */
void bl_identities_record(BlIdentities *identities, guint64 file);
/* The file becomes unknown. */
void bl_identities_forget(BlIdentities *identities, guint64 file);
/* Where something changed. Best effort. Atomic. */
void bl_identities_save(BlIdentities *identities);
/* Records every file that was looked at, each found right since, and saves. The manifest, loaded
 * or saved by now, may have been neither before. */
void bl_identities_save_all(BlIdentities *identities, BlJob *job);
/* Drops what is kept of a checkpoint that is gone. */
void bl_identities_remove(const char *folder, BlStore *store, const char *checkpoint_id);
