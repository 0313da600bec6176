/* The store contract: objects are bytes under a key.
 *
 * A store is a table of operations (BlStoreOps) and an instance that begins with a BlStore. A store
 * may wrap another. Everything above this header works on any store; what one store can and another
 * cannot is a capability bit, and calling what a store lacks is UNSUPPORTED.
 *
 * Keys are "/"-separated, ASCII, each part 1 to 255 characters of [A-Za-z0-9._-], no part "." or
 * "..", at most 1024 characters; bl_key_check refuses others (INVALID) before any store is asked.
 *
 * Promises of every store:
 *  - A put is atomic: readers see the whole object or none, from any process.
 *  - put without BL_PUT_REPLACE never changes an existing object: it fails with EXISTS.
 *  - A missing object is NOT_FOUND; a store that cannot be reached is UNAVAILABLE (or TIMED_OUT).
 * Never mixed up.
 *  - Removing a missing object is success.
 *  - A put with BL_PUT_DURABLE is on stable storage when it returns. Others are durable after the
 * next bl_store_sync. After a failed sync nothing put since the last good one may be trusted: the
 * caller abandons it; sync is never retried.
 *  - An instance is used by many threads at once. A writer belongs to one thread.
 */
#pragma once
#include <glib.h>
#include <sys/stat.h>

typedef struct BlStore BlStore;
typedef struct BlStoreWriter BlStoreWriter;
typedef struct BlStoreHold BlStoreHold;

typedef enum {
  BL_STORE_CAN_LIST = 1 << 0,    /* list, list_folders */
  BL_STORE_CAN_OPEN_FD = 1 << 1, /* open_fd */
  BL_STORE_CAN_MOVE = 1 << 2,    /* move */
  BL_STORE_CAN_HOLD = 1 << 3,    /* put_held, is_held */
  BL_STORE_CAN_CLONE = 1 << 4,   /* clone_fd may succeed */
  BL_STORE_CAN_SHARE = 1 << 8,   /* share_fd may succeed */
  /* Others write to it who know nothing of ballast: index objects are kept for them. */
  BL_STORE_IS_SHARED = 1 << 5,
  /* What arrives must be checked against its digest on every read. */
  BL_STORE_IS_REMOTE = 1 << 6,
  /* Nothing can be put or removed here (a read-only mount, an unknown read-only-compatible
     feature). */
  BL_STORE_IS_READ_ONLY = 1 << 7,
} BlStoreCaps;

typedef enum {
  BL_PUT_REPLACE = 1 << 0,  /* an existing object is replaced, atomically */
  BL_PUT_DURABLE = 1 << 1,  /* on stable storage, folder entry included, when the put returns */
  BL_PUT_VOLATILE = 1 << 2, /* need not survive a crash (heartbeats): no sync is owed to it */
} BlPutFlags;

typedef enum { BL_HOLD_FREE, BL_HOLD_HELD, BL_HOLD_UNKNOWN } BlHoldState;

/* Memory that the store itself hands out, so that it can be aligned, shared or registered memory.
 * Bulk transfers use it; any other memory works too, at the price of a copy where the store needs
 * its own. */
typedef struct {
  guint8 *data;
  gsize size;
  gpointer owner; /* the store's */
} BlStoreBuffer;

typedef struct {
  const char *key;
  guint64 offset; /* where in the object to start */
  void *data;     /* room for size bytes */
  gsize size;     /* wanted; fewer arrive only at the object's end */
  gsize got;      /* out: bytes that arrived */
  GError *error;  /* out: this item's failure (caller frees), NULL where it succeeded */
} BlGetItem;

typedef struct {
  const char *key;
  const void *data;
  gsize size;
  GError *error; /* out: this item's failure (caller frees) */
} BlPutItem;

/* What a store knows of an object without reading it. */
typedef struct {
  guint64 size; /* bytes */
  /* Which file holds the bytes: objects that share one have the same two numbers. 0 and 0 where the
   * store has no files. */
  guint64 device, inode;
  guint n_links;             /* names of that file, in the store and outside; 1 without files */
  gint64 mtime_ns, ctime_ns; /* of that file; 0 without files */
} BlObjectStat;

/* Of a store's own file. What is no regular file is in an object's place: it has no bytes, and one
 * name. */
BlObjectStat bl_object_stat_from(const struct stat *st);

/* Something in a store that is no object of it. */
typedef struct {
  const char *path; /* below the store's root, bytes as they are */
  BlObjectStat stat;
  gboolean is_temporary; /* of a put that has not ended, or never will */
  gboolean is_folder;    /* an empty one */
} BlStray;               /* neither: a thing that ballast did not put there */
typedef gboolean (*BlStrayFunc)(const BlStray *stray, gpointer user, GError **error);

/* What an operator sets for a whole store. */
typedef struct {
  guint64 max_bytes; /* the most that all its files may hold together; G_MAXUINT64: no limit */
  gboolean is_group_shared; /* all of the folder's group may write */
} BlStoreSettings;

/* Called with each key; ends the listing and fails it when it returns FALSE with error set. */
typedef gboolean (*BlKeyFunc)(const char *key, const BlObjectStat *object, gpointer user,
                              GError **error);

/* Called with each distinct part, without the "/". */
typedef gboolean (*BlFolderFunc)(const char *part, gpointer user, GError **error);

typedef struct {
  const char *scheme; /* of the URL, "file", "memory", … */
  void (*free)(BlStore *store);
  /* Optional: NULL means g_aligned_alloc'ed memory of 4096. */
  gboolean (*buffer_new)(BlStore *store, gsize size, BlStoreBuffer *buffer, GError **error);
  void (*buffer_free)(BlStore *store, BlStoreBuffer *buffer);
  gboolean (*stat)(BlStore *store, const char *key, BlObjectStat *object, GError **error);
  gboolean (*get)(BlStore *store, const char *key, guint64 offset, void *data, gsize size,
                  gsize *got, GError **error);
  /* Optional: NULL means get, one after the other. Sets each item's error. */
  void (*get_many)(BlStore *store, BlGetItem *items, gsize n);
  gboolean (*put)(BlStore *store, const char *key, const void *data, gsize size, BlPutFlags flags,
                  GError **error);
  void (*put_many)(BlStore *store, BlPutItem *items, gsize n, BlPutFlags flags); /* as get_many */
  BlStoreWriter *(*writer_open)(BlStore *store, const char *key, guint64 size_hint,
                                BlPutFlags flags, GError **error);
  /* Optional: NULL where nothing of an object is ever lost. */
  gboolean (*adopt)(BlStore *store, const char *key, GError **error);
  gboolean (*sync)(BlStore *store, GError **error);
  gboolean (*remove)(BlStore *store, const char *key, GError **error);
  gboolean (*list)(BlStore *store, const char *prefix, BlKeyFunc func, gpointer user,
                   GError **error);
  gboolean (*list_folders)(BlStore *store, const char *prefix, BlFolderFunc func, gpointer user,
                           GError **error);
  int (*open_fd)(BlStore *store, const char *key, GError **error);
  gboolean (*move)(BlStore *store, const char *key, const char *new_key, GError **error);
  gboolean (*clone_fd)(BlStore *store, const char *key, int fd, guint64 size, GError **error);
  gboolean (*share_fd)(BlStore *store, const char *key, int fd, BlPutFlags flags, GError **error);
  BlStoreHold *(*put_held)(BlStore *store, const char *key, const void *data, gsize size,
                           GError **error);
  BlStoreHold *(*hold_shared)(BlStore *store, const char *key, GError **error);
  gboolean (*hold_check)(BlStoreHold *hold, GError **error);
  void (*hold_free)(BlStoreHold *hold);
  gboolean (*is_held)(BlStore *store, const char *key, BlHoldState *state, GError **error);
  gboolean (*free_space)(BlStore *store, guint64 *bytes, GError **error);
  /* Optional: removes what puts that never ended left below the prefix. */
  gboolean (*sweep)(BlStore *store, const char *prefix, guint *n_removed, GError **error);
  /* Optional, both or none: NULL where there can be no strays. */
  gboolean (*list_strays)(BlStore *store, BlStrayFunc func, gpointer user, GError **error);
  gboolean (*remove_stray)(BlStore *store, const BlStray *stray, GError **error);
  /* Optional, both or none: NULL where nothing can be set. */
  gboolean (*get_settings)(BlStore *store, BlStoreSettings *settings, GError **error);
  gboolean (*set_settings)(BlStore *store, const BlStoreSettings *settings, GError **error);
} BlStoreOps;

struct BlStore {
  const BlStoreOps *ops;
  BlStoreCaps caps;
  char *url; /* as it is shown; owned */
};

/* Operations of a writer; a store's writer struct begins with a BlStoreWriter. */
typedef struct {
  gboolean (*write)(BlStoreWriter *writer, const void *data, gsize size, GError **error);
  gboolean (*commit)(BlStoreWriter *writer, GError **error);
  void (*free)(BlStoreWriter
                   *writer); /* uncommitted: nothing becomes visible, what was written is removed */
} BlStoreWriterOps;

struct BlStoreWriter {
  const BlStoreWriterOps *ops;
};

struct BlStoreHold {
  BlStore *store;
};

/* Opens the store that the URL names: "file:///path" (or a path that begins with "/", "./", "../"
 * or "~/"), "memory:" (tests). create: make it where it does not exist yet; without it a store that
 * is not there is opened as an empty read-only one. INVALID for a URL of no known kind. */
BlStore *bl_store_open(const char *url, gboolean create, GError **error);
void bl_store_free(BlStore *store);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlStore, bl_store_free)
static inline gboolean bl_store_can(const BlStore *store, BlStoreCaps cap) {
  return (store->caps & cap) != 0;
}

gboolean bl_key_check(const char *key, GError **error);

gboolean bl_store_buffer_new(BlStore *store, gsize size, BlStoreBuffer *buffer, GError **error);
void bl_store_buffer_free(BlStore *store, BlStoreBuffer *buffer);

gboolean bl_store_stat(BlStore *store, const char *key, BlObjectStat *object, GError **error);
/* The object's length in bytes. */
gboolean bl_store_size(BlStore *store, const char *key, guint64 *size, GError **error);
/* Up to size bytes from offset on; *got is fewer only at the object's end (0 at or past it). */
gboolean bl_store_get(BlStore *store, const char *key, guint64 offset, void *data, gsize size,
                      gsize *got, GError **error);
/* The whole object, at most max_bytes (a larger one is CORRUPT); a NUL stands behind it that *size
 * does not count. Caller frees with g_free. For control objects. */
gboolean bl_store_load(BlStore *store, const char *key, gsize max_bytes, char **data, gsize *size,
                       GError **error);
/* Every item is tried; each has its own error. */
void bl_store_get_many(BlStore *store, BlGetItem *items, gsize n);
void bl_store_put_many(BlStore *store, BlPutItem *items, gsize n, BlPutFlags flags);
gboolean bl_store_put(BlStore *store, const char *key, const void *data, gsize size,
                      BlPutFlags flags, GError **error);

/* Streams one object in order. size_hint: its exact length where known (room is reserved), else
 * G_MAXUINT64. Nothing is visible before commit, which fails with EXISTS as put does (at open
 * already, where the store sees it). After a failed write or commit the writer can only be freed.
 */
BlStoreWriter *bl_store_writer_open(BlStore *store, const char *key, guint64 size_hint,
                                    BlPutFlags flags, GError **error);
gboolean bl_store_writer_write(BlStoreWriter *writer, const void *data, gsize size, GError **error);
gboolean bl_store_writer_commit(BlStoreWriter *writer, GError **error);
void bl_store_writer_free(BlStoreWriter *writer);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlStoreWriter, bl_store_writer_free)

/* Counts an object that is there, put by whoever, to what the next sync makes durable: one that a
 * killed process put may so far be in the page cache alone. */
gboolean bl_store_adopt(BlStore *store, const char *key, GError **error);
/* Makes all that this instance put, adopted, moved or removed since it was opened, or since the
 * last sync, durable, folder entries included. */
gboolean bl_store_sync(BlStore *store, GError **error);
gboolean bl_store_remove(BlStore *store, const char *key, GError **error);
/* Every key that begins with prefix, in no order; keys that come or go meanwhile may or may not be
 * seen. The prefix ends in "/" or is empty. */
gboolean bl_store_list(BlStore *store, const char *prefix, BlKeyFunc func, gpointer user,
                       GError **error);
/* Every distinct next part of the keys below prefix that has more parts behind it ("weight/models/"
 * gives checkpoint ids), in no order. */
gboolean bl_store_list_folders(BlStore *store, const char *prefix, BlFolderFunc func, gpointer user,
                               GError **error);
/* A read-only descriptor of the object's bytes, which stays valid when the object is removed.
 * Caller closes. -1 on error. */
int bl_store_open_fd(BlStore *store, const char *key, GError **error);
/* Renames the object; EXISTS where new_key is there, NOT_FOUND where key is not. One of several
 * movers wins. */
gboolean bl_store_move(BlStore *store, const char *key, const char *new_key, GError **error);
/* An object with the first `size` bytes of fd, shared with it by the file system or copied within
 * the kernel: what the object then holds was not read by us and must be hashed from the object.
 * UNSUPPORTED where that is not possible or would be no faster than writing. */
gboolean bl_store_clone_fd(BlStore *store, const char *key, int fd, guint64 size, GError **error);

/* An object with the bytes of fd, a descriptor that bl_store_open_fd of this very store gave: by
 * another name for the same file, else by bytes that the file system shares. Nothing is read: the
 * caller knows what they are. With BL_PUT_REPLACE an object that is there is replaced, else EXISTS.
 * NOT_FOUND: the file was removed meanwhile. UNSUPPORTED: it cannot be shared (too many links,
 * another owner's, another file system's): write it. */
gboolean bl_store_share_fd(BlStore *store, const char *key, int fd, BlPutFlags flags,
                           GError **error);

/* A put-once object (EXISTS where it is there) that is held from the instant it is visible until
 * bl_store_hold_free, or until the process is gone, however it ends. Freeing the hold does not
 * remove the object. */
BlStoreHold *bl_store_put_held(BlStore *store, const char *key, const void *data, gsize size,
                               GError **error);
/* Holds an object that is there, together with any number of others, until bl_store_hold_free or
 * the process's end: bl_store_is_held then says HELD, to this process too. Needs only the right to
 * read. A hold is on the bytes: objects that share a file are held together. NULL with UNSUPPORTED
 * where locks prove nothing, with BUSY where the one who put it holds it alone. */
BlStoreHold *bl_store_hold_shared(BlStore *store, const char *key, GError **error);
/* FALSE with BUSY when the object under the key is no longer the one that was put (it was taken
 * over). */
gboolean bl_store_hold_check(BlStoreHold *hold, GError **error);
void bl_store_hold_free(BlStoreHold *hold);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlStoreHold, bl_store_hold_free)
/* Whether a living process holds the object. UNKNOWN where locks prove nothing here (the store
 * tests itself). */
gboolean bl_store_is_held(BlStore *store, const char *key, BlHoldState *state, GError **error);

/* Bytes that a put by this user can still use. */
gboolean bl_store_free_space(BlStore *store, guint64 *bytes, GError **error);
/* Removes what unfinished puts left below the prefix (callers own the prefix: they hold its claim).
 * n_removed may be NULL. */
gboolean bl_store_sweep(BlStore *store, const char *prefix, guint *n_removed, GError **error);

/* Everything in the store that is no object: temporaries, empty folders (but those that all stores
 * have in time), foreign things. In no order. What this user may not look into is passed over. */
gboolean bl_store_list_strays(BlStore *store, BlStrayFunc func, gpointer user, GError **error);
/* Removes a temporary or an empty folder as it was listed; success where it is gone or another one
 * by now, or the folder no longer empty. INVALID for a foreign thing. */
gboolean bl_store_remove_stray(BlStore *store, const BlStray *stray, GError **error);

/* As they are now: read anew at each call. A store that has none gives no limit. */
gboolean bl_store_get_settings(BlStore *store, BlStoreSettings *settings, GError **error);
/* Durably; of several at once one wins. UNSUPPORTED where the store has none. */
gboolean bl_store_set_settings(BlStore *store, const BlStoreSettings *settings, GError **error);
