/* How a finished temporary file gets its name, and how locks on a file are tried, on file systems
 * of all kinds. */
#pragma once
#include <glib.h>

#include "store/store.h"

/* Ways to give a name without replacing, best first. A store remembers the first that works. */
typedef enum {
  BL_PUBLISH_RENAME, /* renameat2 with RENAME_NOREPLACE */
  BL_PUBLISH_LINK,   /* linkat, then unlinkat of the old name: NFS and old kernels */
  BL_PUBLISH_LOCKED, /* flock of the folder, look, renameat: no hard links either */
} BlPublishWay;

/* Renames `from` to `to` in the folders given, failing with EEXIST where `to` is there. *way is the
 * store's memory, shared by threads. Returns 0 or an errno. */
int bl_publish_no_replace(int from_dir_fd, const char *from, int to_dir_fd, const char *to,
                          gint *way);

/* As above, for a name that others may move at the same time: one of them succeeds, the others get
 * ENOENT or EEXIST. It never links: two movers of one file would both succeed. */
int bl_publish_move(int from_dir_fd, const char *from, int to_dir_fd, const char *to);

/* Takes a whole-file lock that belongs to the open file description; write: exclusive. FALSE with
 * errno set. */
gboolean bl_lock_take(int fd, gboolean write);
/* Whether another open file description holds a lock on the file. UNKNOWN where the system cannot
 * say. */
BlHoldState bl_lock_test(int fd);
/* Whether two descriptions of the file `name` see each other's locks on this file system: where
 * they do not, a free lock proves nothing. Needs only read permission. */
gboolean bl_lock_self_test(int dir_fd, const char *name);
