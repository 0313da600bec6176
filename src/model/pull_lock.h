/* Whose temporaries are whose: the part of a pull's target that is held by a lock. pull_target.h
 * says where temporaries stand. All locks are open-file-description locks: they end with their
 * process. A lock is believed only where a second try for it is refused; elsewhere nothing of
 * others is ever removed. */
#pragma once
#include "base/job.h"

typedef struct BlPullLock BlPullLock;

/* Makes `<own_folder>/tmp/<token>/` below the target, held, and removes those that nobody holds. */
BlPullLock *bl_pull_lock_new(int target_fd, const char *own_folder, BlJob *job, GError **error);
/* Removes the folder and all in it, and the folders above it that are empty then. */
void bl_pull_lock_free(BlPullLock *lock);
const char *bl_pull_lock_token(const BlPullLock *lock);
/* Borrowed: the folder for temporaries. */
int bl_pull_lock_folder(const BlPullLock *lock);

/* Opens a folder that is no symbolic link, and makes it if need be; sync_parent: durably. -1 with
 * errno. */
int bl_folder_open(int parent_fd, const char *name, gboolean make, gboolean sync_parent);

/* The name of a temporary beside its file; 80 bytes have room for it. */
void bl_pull_lock_name_beside(char *name, gsize size, const char *token, guint64 number);
/* Creates a temporary beside its file, held while the descriptor is open. Sets name. -1 with errno.
 */
int bl_pull_lock_create_beside(int folder_fd, char *name, gsize size, mode_t mode);
/* Removes the temporaries in this folder that nobody holds. */
void bl_pull_lock_sweep_beside(int folder_fd);
