/* What the parts of the local store share. Only store/dir*.c include it. */
#pragma once
#include <jansson.h>
#include <sys/stat.h>

#include "store/dir_name.h"
#include "store/dir_publish.h"
#include "store/store.h"

/* A put meets a folder that a concurrent delete just removed, or a temporary that a new owner
 * swept: it starts again, this often at most. */
#define BL_DIR_MAX_TRIES 8
#define BL_DIR_FILE "store.json"
#define BL_DIR_FILE_MAX (64 * 1024) /* bytes; today's has some 150 */
#define BL_DIR_TEMPORARY ".tmp-"

typedef struct {
  BlStore base;
  char *path;
  int root_fd;           /* -1: there is no store yet, and create was not asked */
  dev_t device;          /* of the root */
  int write_errno;       /* why it is read-only; 0: for another reason than the folder's */
  gboolean shared_group; /* objects and folders are the group's, too, whatever the umask */
  char token[33];        /* begins the names of this instance's temporaries */
  gint n_temporaries;
  gint publish_way; /* BlPublishWay */
  gint locks_work;  /* -1 not tried, else boolean */
  GMutex lock;
  GArray *pending_fds; /* int: objects to fsync */
  GHashTable *pending_folders;
  gboolean pending_all; /* more than fsync should do: syncfs */
  gboolean sync_failed;
} BlDirStore;

static inline BlDirStore *bl_dir(BlStore *store) {
  return (BlDirStore *)store;
}

/* Sets the error that an errno means for a key, and returns FALSE. */
gboolean bl_dir_set_error(GError **error, int errnum, const BlDirStore *store, const char *doing,
                          const char *key);
/* Sets the error that this version may not write to the store, and returns FALSE. */
gboolean bl_dir_set_feature_unknown(const BlDirStore *store, GError **error);
/* NOT_FOUND where there is no store, DENIED where it is read-only. */
gboolean bl_dir_check_writable(const BlDirStore *store, GError **error);
/* Records what the next sync must make durable: a folder's entries; an object, whose descriptor it
 * takes over or leaves. folder_fd is the object's folder; where that is another file system, the
 * object is made durable at once. */
void bl_dir_mark_folder(BlDirStore *store, const char *folder);
gboolean bl_dir_mark_object(BlDirStore *store, const char *folder, int folder_fd, int *fd,
                            GError **error);
/* fsyncs a folder and those above it up to the root: any of them may be new. */
gboolean bl_dir_sync_folder(BlDirStore *store, const char *folder, GError **error);

/* dir_write.c */
gboolean bl_dir_put(BlStore *store, const char *key, const void *data, gsize size, BlPutFlags flags,
                    GError **error);
BlStoreWriter *bl_dir_writer_open(BlStore *store, const char *key, guint64 size_hint,
                                  BlPutFlags flags, GError **error);
gboolean bl_dir_clone_fd(BlStore *store, const char *key, int fd, guint64 size, GError **error);
gboolean bl_dir_share_fd(BlStore *store, const char *key, int fd, BlPutFlags flags, GError **error);
gboolean bl_dir_adopt(BlStore *store, const char *key, GError **error);
gboolean bl_dir_remove(BlStore *store, const char *key, GError **error);
gboolean bl_dir_move(BlStore *store, const char *key, const char *new_key, GError **error);
BlStoreHold *bl_dir_put_held(BlStore *store, const char *key, const void *data, gsize size,
                             GError **error);
BlStoreHold *bl_dir_hold_shared(BlStore *store, const char *key, GError **error);
gboolean bl_dir_hold_check(BlStoreHold *hold, GError **error);
void bl_dir_hold_free(BlStoreHold *hold);

/* dir_read.c */
gboolean bl_dir_stat(BlStore *store, const char *key, BlObjectStat *object, GError **error);
gboolean bl_dir_get(BlStore *store, const char *key, guint64 offset, void *data, gsize size,
                    gsize *got, GError **error);
int bl_dir_open_fd(BlStore *store, const char *key, GError **error);
/* What the system says of a file, as an object's. */
/* Whether locks of this file system prove anything; tried once. */
gboolean bl_dir_locks_work(BlDirStore *store);
gboolean bl_dir_is_held(BlStore *store, const char *key, BlHoldState *state, GError **error);

/* dir_list.c */
gboolean bl_dir_list(BlStore *store, const char *prefix, BlKeyFunc func, gpointer user,
                     GError **error);
gboolean bl_dir_list_folders(BlStore *store, const char *prefix, BlFolderFunc func, gpointer user,
                             GError **error);
/* UNSUPPORTED where the folder is there only by way of a link, or of a file system that takes
 * another spelling for it: two prefixes would then share one folder, and what is done to one would
 * harm the other. */
gboolean bl_dir_check_own_name(BlDirStore *store, const char *folder, GError **error);
/* Removes the temporaries in the folder that the prefix names. */
gboolean bl_dir_sweep(BlStore *store, const char *prefix, guint *n_removed, GError **error);
gboolean bl_dir_list_strays(BlStore *store, BlStrayFunc func, gpointer user, GError **error);
gboolean bl_dir_remove_stray(BlStore *store, const BlStray *stray, GError **error);
/* Opens what is there to the group of the store's folder: folders to write, objects to read. */
gboolean bl_dir_open_to_group(BlDirStore *store, GError **error);

/* dir_settings.c */
/* What store.json says of the features: UNSUPPORTED where the store needs one that is not known;
 * *is_read_only where one is not known that writers must know. */
gboolean bl_dir_check_features(const json_t *format, const char *what, gboolean *is_read_only,
                               GError **error);
gboolean bl_dir_get_settings(BlStore *store, BlStoreSettings *settings, GError **error);
gboolean bl_dir_set_settings(BlStore *store, const BlStoreSettings *settings, GError **error);
