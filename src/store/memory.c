/* One table of immutable objects under one lock, shared by all instances of a name. A reader takes
 * a reference under the lock and copies outside of it, so that an object replaced or removed
 * meanwhile stays whole for it. */
#include "store/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/file.h"

/* A GByteArray ends at 4 GiB; no test comes near. */
#define OBJECT_SIZE_MAX (1u << 30)

/* Counted by GLib (g_atomic_rc_box). */
typedef struct {
  GBytes *bytes;
  /* Under the table's lock; they go with the object when it is moved. */
  guint n_holds;
  gboolean is_exclusive; /* the hold is its putter's */
} Object;

typedef struct {
  gint refs;
  GMutex lock;         /* protects all below */
  GHashTable *objects; /* key to Object */
  guint64 used_bytes, capacity_bytes;
} Table;

typedef struct {
  BlStore store;
  Table *table;
} MemoryStore;

typedef struct {
  BlStoreWriter writer;
  MemoryStore *store;
  char *key;
  BlPutFlags flags;
  GByteArray *bytes;
} MemoryWriter;

typedef struct {
  BlStoreHold hold;
  char *key;
  Object *object;
} MemoryHold;

/* name to Table; never emptied: a name's objects live as long as the process. */
static GHashTable *named_tables;
G_LOCK_DEFINE_STATIC(named_tables);

static MemoryStore *memory_store(BlStore *store) {
  return (MemoryStore *)store;
}

static void object_clear(gpointer object) {
  g_bytes_unref(((Object *)object)->bytes);
}

static void object_unref(gpointer object) {
  g_atomic_rc_box_release_full(object, object_clear);
}

static Object *object_new(GBytes *bytes) {
  Object *object = g_atomic_rc_box_new0(Object);
  object->bytes = bytes;
  return object;
}

static Table *table_new(void) {
  Table *table = g_new0(Table, 1);
  table->refs = 1;
  table->capacity_bytes = G_MAXUINT64;
  table->objects = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, object_unref);
  g_mutex_init(&table->lock);
  return table;
}

static void table_unref(Table *table) {
  if (!g_atomic_int_dec_and_test(&table->refs)) return;
  g_hash_table_unref(table->objects);
  g_mutex_clear(&table->lock);
  g_free(table);
}

static gboolean fail_missing(MemoryStore *store, const char *key, GError **error) {
  return bl_error_set(error, BL_ERROR_NOT_FOUND, "store %s has no object \"%s\"", store->store.url,
                      key);
}

static gboolean fail_existing(MemoryStore *store, const char *key, GError **error) {
  return bl_error_set(error, BL_ERROR_EXISTS, "store %s: object \"%s\" exists", store->store.url,
                      key);
}

static gboolean check_writable(MemoryStore *store, GError **error) {
  if (!bl_store_can(&store->store, BL_STORE_IS_READ_ONLY)) return TRUE;
  return bl_error_set(error, BL_ERROR_DENIED, "store %s is read-only", store->store.url);
}

static GBytes *find_bytes(MemoryStore *store, const char *key, GError **error) {
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->table->lock);
  Object *object = g_hash_table_lookup(store->table->objects, key);
  if (object == NULL) {
    fail_missing(store, key, error);
    return NULL;
  }
  return g_bytes_ref(object->bytes);
}

/* Takes the object over; what it replaces is freed. */
static gboolean insert(MemoryStore *store, const char *key, Object *object, BlPutFlags flags,
                       GError **error) {
  Table *table = store->table;
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&table->lock);
  Object *old = g_hash_table_lookup(table->objects, key);
  guint64 old_size = old != NULL ? g_bytes_get_size(old->bytes) : 0;
  guint64 used_bytes = table->used_bytes - old_size + g_bytes_get_size(object->bytes);
  if (old != NULL && !(flags & BL_PUT_REPLACE)) {
    object_unref(object);
    return fail_existing(store, key, error);
  }
  if (used_bytes > table->capacity_bytes) {
    object_unref(object);
    return bl_error_set(error, BL_ERROR_NO_SPACE, "store %s: no room for object \"%s\"",
                        store->store.url, key);
  }
  table->used_bytes = used_bytes;
  g_hash_table_insert(table->objects, g_strdup(key), object);
  return TRUE;
}

static void memory_free(BlStore *base) {
  MemoryStore *store = memory_store(base);
  table_unref(store->table);
  g_free(base->url);
  g_free(store);
}

static gboolean memory_stat(BlStore *base, const char *key, BlObjectStat *object, GError **error) {
  g_autoptr(GBytes) bytes = find_bytes(memory_store(base), key, error);
  if (bytes == NULL) return FALSE;
  *object = (BlObjectStat){.size = g_bytes_get_size(bytes), .n_links = 1};
  return TRUE;
}

static gboolean memory_get(BlStore *base, const char *key, guint64 offset, void *data, gsize size,
                           gsize *got, GError **error) {
  g_autoptr(GBytes) bytes = find_bytes(memory_store(base), key, error);
  if (bytes == NULL) return FALSE;
  gsize object_size;
  const guint8 *object = g_bytes_get_data(bytes, &object_size);
  *got = offset < object_size ? MIN(size, object_size - (gsize)offset) : 0;
  if (*got > 0) memcpy(data, object + offset, *got);
  return TRUE;
}

static gboolean memory_put(BlStore *base, const char *key, const void *data, gsize size,
                           BlPutFlags flags, GError **error) {
  MemoryStore *store = memory_store(base);
  return check_writable(store, error) &&
         insert(store, key, object_new(g_bytes_new(data, size)), flags, error);
}

static gboolean writer_write(BlStoreWriter *base, const void *data, gsize size, GError **error) {
  MemoryWriter *writer = (MemoryWriter *)base;
  if (size > OBJECT_SIZE_MAX - writer->bytes->len)
    return bl_error_set(error, BL_ERROR_NO_SPACE, "store %s: object \"%s\" is larger than %u bytes",
                        writer->store->store.url, writer->key, OBJECT_SIZE_MAX);
  g_byte_array_append(writer->bytes, data, (guint)size);
  return TRUE;
}

static gboolean writer_commit(BlStoreWriter *base, GError **error) {
  MemoryWriter *writer = (MemoryWriter *)base;
  GBytes *bytes = g_byte_array_free_to_bytes(g_steal_pointer(&writer->bytes));
  return insert(writer->store, writer->key, object_new(bytes), writer->flags, error);
}

static void writer_free(BlStoreWriter *base) {
  MemoryWriter *writer = (MemoryWriter *)base;
  g_clear_pointer(&writer->bytes, g_byte_array_unref);
  g_free(writer->key);
  g_free(writer);
}

static BlStoreWriter *memory_writer_open(BlStore *base, const char *key, guint64 size_hint,
                                         BlPutFlags flags, GError **error) {
  static const BlStoreWriterOps ops = {writer_write, writer_commit, writer_free};
  (void)size_hint;
  MemoryStore *store = memory_store(base);
  if (!check_writable(store, error)) return NULL;
  MemoryWriter *writer = g_new0(MemoryWriter, 1);
  *writer = (MemoryWriter){{&ops}, store, g_strdup(key), flags, g_byte_array_new()};
  return &writer->writer;
}

static gboolean memory_sync(BlStore *base, GError **error) {
  (void)base;
  (void)error;
  return TRUE;
}

static gboolean memory_remove(BlStore *base, const char *key, GError **error) {
  MemoryStore *store = memory_store(base);
  if (!check_writable(store, error)) return FALSE;
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->table->lock);
  Object *object = g_hash_table_lookup(store->table->objects, key);
  if (object == NULL) return TRUE;
  store->table->used_bytes -= g_bytes_get_size(object->bytes);
  g_hash_table_remove(store->table->objects, key);
  return TRUE;
}

typedef struct {
  char *key;
  guint64 size;
} Entry;

static void entry_clear(gpointer entry) {
  g_free(((Entry *)entry)->key);
}

/* The callback may use the store, so it is called on a copy, without the lock. */
static gboolean memory_list(BlStore *base, const char *prefix, BlKeyFunc func, gpointer user,
                            GError **error) {
  Table *table = memory_store(base)->table;
  g_autoptr(GArray) entries = g_array_new(FALSE, FALSE, sizeof(Entry));
  g_array_set_clear_func(entries, entry_clear);
  GHashTableIter iter;
  gpointer key, object;
  g_mutex_lock(&table->lock);
  g_hash_table_iter_init(&iter, table->objects);
  while (g_hash_table_iter_next(&iter, &key, &object)) {
    if (!g_str_has_prefix(key, prefix)) continue;
    Entry entry = {g_strdup(key), g_bytes_get_size(((Object *)object)->bytes)};
    g_array_append_val(entries, entry);
  }
  g_mutex_unlock(&table->lock);
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = &g_array_index(entries, Entry, i);
    BlObjectStat stat = {.size = entry->size, .n_links = 1};
    if (!func(entry->key, &stat, user, error)) return FALSE;
  }
  return TRUE;
}

static int memory_open_fd(BlStore *base, const char *key, GError **error) {
  g_autoptr(GBytes) bytes = find_bytes(memory_store(base), key, error);
  if (bytes == NULL) return -1;
  bl_autofd fd = memfd_create("ballast-object", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd == -1) {
    bl_error_set_errno(error, errno, "store %s: cannot open \"%s\"", base->url, key);
    return -1;
  }
  gsize size;
  const void *data = g_bytes_get_data(bytes, &size);
  if (!bl_pwrite_all(fd, data, size, 0, error)) return -1;
  /* Read-only, as other stores' descriptors are. */
  int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (fcntl(fd, F_ADD_SEALS, seals) == 0) return bl_fd_steal(&fd);
  bl_error_set_errno(error, errno, "store %s: cannot seal \"%s\"", base->url, key);
  return -1;
}

static gboolean memory_move(BlStore *base, const char *key, const char *new_key, GError **error) {
  MemoryStore *store = memory_store(base);
  if (!check_writable(store, error)) return FALSE;
  GHashTable *objects = store->table->objects;
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->table->lock);
  if (!g_hash_table_contains(objects, key)) return fail_missing(store, key, error);
  if (g_hash_table_contains(objects, new_key)) return fail_existing(store, new_key, error);
  gpointer old_key, object;
  g_hash_table_steal_extended(objects, key, &old_key, &object);
  g_free(old_key);
  g_hash_table_insert(objects, g_strdup(new_key), object);
  return TRUE;
}

static BlStoreHold *memory_put_held(BlStore *base, const char *key, const void *data, gsize size,
                                    GError **error) {
  MemoryStore *store = memory_store(base);
  if (!check_writable(store, error)) return NULL;
  Object *object = object_new(g_bytes_new(data, size));
  object->n_holds = 1;
  object->is_exclusive = TRUE;
  g_autofree MemoryHold *hold = g_new0(MemoryHold, 1);
  hold->hold.store = base;
  hold->object = g_atomic_rc_box_acquire(object);
  if (!insert(store, key, object, 0, error)) {
    object_unref(hold->object);
    return NULL;
  }
  hold->key = g_strdup(key);
  return &g_steal_pointer(&hold)->hold;
}

static BlStoreHold *memory_hold_shared(BlStore *base, const char *key, GError **error) {
  MemoryStore *store = memory_store(base);
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->table->lock);
  Object *object = g_hash_table_lookup(store->table->objects, key);
  if (object == NULL || object->is_exclusive) {
    if (object == NULL)
      fail_missing(store, key, error);
    else
      bl_error_set(error, BL_ERROR_BUSY, "store %s: \"%s\" is held by its owner alone", base->url,
                   key);
    return NULL;
  }
  object->n_holds++;
  MemoryHold *hold = g_new(MemoryHold, 1);
  *hold = (MemoryHold){{base}, g_strdup(key), g_atomic_rc_box_acquire(object)};
  return &hold->hold;
}

static gboolean memory_hold_check(BlStoreHold *base, GError **error) {
  MemoryHold *hold = (MemoryHold *)base;
  Table *table = memory_store(base->store)->table;
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&table->lock);
  if (g_hash_table_lookup(table->objects, hold->key) == hold->object) return TRUE;
  return bl_error_set(error, BL_ERROR_BUSY, "store %s: \"%s\" was taken over by another owner",
                      base->store->url, hold->key);
}

static void memory_hold_free(BlStoreHold *base) {
  MemoryHold *hold = (MemoryHold *)base;
  Table *table = memory_store(base->store)->table;
  g_mutex_lock(&table->lock);
  if (--hold->object->n_holds == 0) hold->object->is_exclusive = FALSE;
  g_mutex_unlock(&table->lock);
  object_unref(hold->object);
  g_free(hold->key);
  g_free(hold);
}

static gboolean memory_is_held(BlStore *base, const char *key, BlHoldState *state, GError **error) {
  MemoryStore *store = memory_store(base);
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->table->lock);
  const Object *object = g_hash_table_lookup(store->table->objects, key);
  if (object == NULL) return fail_missing(store, key, error);
  *state = object->n_holds > 0 ? BL_HOLD_HELD : BL_HOLD_FREE;
  return TRUE;
}

static gboolean memory_free_space(BlStore *base, guint64 *bytes, GError **error) {
  (void)error;
  Table *table = memory_store(base)->table;
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&table->lock);
  *bytes = table->capacity_bytes - MIN(table->used_bytes, table->capacity_bytes);
  return TRUE;
}

static BlStore *store_new(Table *table, BlStoreCaps caps, const char *name) {
  static const BlStoreOps ops = {
      .scheme = "memory",
      .free = memory_free,
      .stat = memory_stat,
      .get = memory_get,
      .put = memory_put,
      .writer_open = memory_writer_open,
      .sync = memory_sync,
      .remove = memory_remove,
      .list = memory_list,
      .open_fd = memory_open_fd,
      .move = memory_move,
      .put_held = memory_put_held,
      .hold_shared = memory_hold_shared,
      .hold_check = memory_hold_check,
      .hold_free = memory_hold_free,
      .is_held = memory_is_held,
      .free_space = memory_free_space,
  };
  MemoryStore *store = g_new0(MemoryStore, 1);
  store->store = (BlStore){&ops, caps, g_strconcat("memory:", name, NULL)};
  store->table = table;
  return &store->store;
}

BlStore *bl_memory_store_new(BlStoreCaps caps) {
  return store_new(table_new(), caps, "");
}

BlStore *bl_memory_store_open(const char *name, gboolean create) {
  Table *table = NULL;
  G_LOCK(named_tables);
  if (named_tables == NULL) named_tables = g_hash_table_new(g_str_hash, g_str_equal);
  table = g_hash_table_lookup(named_tables, name);
  if (table == NULL && create && name[0] != '\0') {
    table = table_new();
    g_hash_table_insert(named_tables, g_strdup(name), table);
  }
  if (table != NULL) g_atomic_int_inc(&table->refs);
  G_UNLOCK(named_tables);

  gboolean is_there = table != NULL || create;
  BlStoreCaps caps = BL_MEMORY_STORE_CAPS | (is_there ? 0 : BL_STORE_IS_READ_ONLY);
  return store_new(table != NULL ? table : table_new(), caps, name);
}

void bl_memory_store_set_capacity(BlStore *store, guint64 capacity_bytes) {
  Table *table = memory_store(store)->table;
  g_mutex_lock(&table->lock);
  table->capacity_bytes = capacity_bytes;
  g_mutex_unlock(&table->lock);
}
