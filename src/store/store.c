#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "store/dir.h"
#include "store/fault.h"
#include "store/memory.h"

#define KEY_SIZE_MAX 1024
#define KEY_PART_SIZE_MAX 255
#define BUFFER_ALIGNMENT 4096
/* Nearly every control object is smaller: it takes one get and no size. */
#define LOAD_GUESS (64u * 1024)
/* An object that grows under a load each time it is asked again is not a control object. */
#define LOAD_TRIES_MAX 8

static gboolean is_path(const char *url) {
  gsize lead = strspn(url, ".");
  if (lead == 0 && url[0] == '~') lead = 1;
  return url[0] == '/' || (lead >= 1 && lead <= 2 && (url[lead] == '/' || url[lead] == '\0'));
}

/* The path that a "file:" URL or a path as people write it stands for; NULL and INVALID where none.
 */
static char *parse_path(const char *url, GError **error) {
  if (url[0] == '~') return g_strconcat(g_get_home_dir(), url + 1, NULL);
  if (is_path(url)) return g_strdup(url);
  g_autofree char *host = NULL;
  g_autoptr(GError) fault = NULL;
  g_autofree char *path = g_filename_from_uri(url, &host, &fault);
  if (path == NULL)
    bl_error_set(error, BL_ERROR_INVALID, "store \"%s\": %s", url, fault->message);
  else if (host != NULL && strcmp(host, "localhost") != 0)
    bl_error_set(error, BL_ERROR_INVALID,
                 "store \"%s\": names the host \"%s\" (write \"file:///path\" for a path here)",
                 url, host);
  else
    return g_steal_pointer(&path);
  return NULL;
}

BlStore *bl_store_open(const char *url, gboolean create, GError **error) {
  if (is_path(url) || g_str_has_prefix(url, "file:")) {
    g_autofree char *path = parse_path(url, error);
    return path != NULL ? bl_dir_store_open(path, create, error) : NULL;
  }
  if (g_str_has_prefix(url, "memory:")) return bl_memory_store_open(url + 7, create);
  if (g_str_has_prefix(url, "fault:")) return bl_fault_store_open(url, create, error);
  bl_error_set(
      error, BL_ERROR_INVALID,
      "store \"%s\": not a kind of store that is known (give \"file:///path\", or a path that "
      "begins with \"/\", \"./\", \"../\" or \"~/\")",
      url);
  return NULL;
}

void bl_store_free(BlStore *store) {
  if (store != NULL) store->ops->free(store);
}

static gboolean check_part(const char *key, const char *part, gsize size, GError **error) {
  if (size == 0 || size > KEY_PART_SIZE_MAX)
    return bl_error_set(error, BL_ERROR_INVALID,
                        "key \"%s\": a part has %" G_GSIZE_FORMAT " characters (1 to %d)", key,
                        size, KEY_PART_SIZE_MAX);
  if (part[0] == '.' && (size == 1 || (size == 2 && part[1] == '.')))
    return bl_error_set(error, BL_ERROR_INVALID, "key \"%s\": \".\" and \"..\" are no parts", key);
  for (gsize i = 0; i < size; i++) {
    if (!g_ascii_isalnum(part[i]) && strchr("._-", part[i]) == NULL)
      return bl_error_set(error, BL_ERROR_INVALID,
                          "key: byte 0x%02x in part \"%.*s…\" (allowed are A-Z a-z 0-9 . _ -)",
                          (guint8)part[i], (int)i, part);
  }
  return TRUE;
}

static gboolean check_parts(const char *key, gsize size, GError **error) {
  if (size > KEY_SIZE_MAX)
    return bl_error_set(error, BL_ERROR_INVALID,
                        "key \"%.40s…\": %" G_GSIZE_FORMAT " characters (at most %d)", key, size,
                        KEY_SIZE_MAX);
  const char *end = key + size;
  for (const char *part = key;;) {
    const char *slash = memchr(part, '/', (gsize)(end - part));
    const char *part_end = slash != NULL ? slash : end;
    if (!check_part(key, part, (gsize)(part_end - part), error)) return FALSE;
    if (slash == NULL) return TRUE;
    part = slash + 1;
  }
}

gboolean bl_key_check(const char *key, GError **error) {
  return check_parts(key, strlen(key), error);
}

static gboolean check_prefix(const char *prefix, GError **error) {
  gsize size = strlen(prefix);
  if (size == 0) return TRUE;
  if (prefix[size - 1] != '/')
    return bl_error_set(error, BL_ERROR_INVALID, "prefix \"%s\" does not end in \"/\"", prefix);
  return check_parts(prefix, size - 1, error);
}

/* `doing` completes "store URL cannot …". */
static gboolean check_can(BlStore *store, gboolean can, const char *doing, GError **error) {
  if (can) return TRUE;
  bl_error_set(error, BL_ERROR_UNSUPPORTED, "store %s cannot %s", store->url, doing);
  return FALSE;
}

gboolean bl_store_buffer_new(BlStore *store, gsize size, BlStoreBuffer *buffer, GError **error) {
  if (store->ops->buffer_new != NULL) return store->ops->buffer_new(store, size, buffer, error);
  *buffer = (BlStoreBuffer){
      .data = g_aligned_alloc(1, MAX(size, 1), BUFFER_ALIGNMENT),
      .size = size,
  };
  return TRUE;
}

void bl_store_buffer_free(BlStore *store, BlStoreBuffer *buffer) {
  if (buffer->data == NULL) return;
  if (store->ops->buffer_free != NULL)
    store->ops->buffer_free(store, buffer);
  else
    g_aligned_free(buffer->data);
  *buffer = (BlStoreBuffer){0};
}

BlObjectStat bl_object_stat_from(const struct stat *st) {
  gboolean is_file = S_ISREG(st->st_mode);
  return (BlObjectStat){
      .size = is_file ? (guint64)st->st_size : 0,
      .device = st->st_dev,
      .inode = st->st_ino,
      .n_links = is_file ? (guint)st->st_nlink : 1,
      .mtime_ns = bl_time_ns(&st->st_mtim),
      .ctime_ns = bl_time_ns(&st->st_ctim),
  };
}

gboolean bl_store_stat(BlStore *store, const char *key, BlObjectStat *object, GError **error) {
  return bl_key_check(key, error) && store->ops->stat(store, key, object, error);
}

gboolean bl_store_size(BlStore *store, const char *key, guint64 *size, GError **error) {
  BlObjectStat object;
  if (!bl_store_stat(store, key, &object, error)) return FALSE;
  *size = object.size;
  return TRUE;
}

gboolean bl_store_get(BlStore *store, const char *key, guint64 offset, void *data, gsize size,
                      gsize *got, GError **error) {
  *got = 0;
  return bl_key_check(key, error) && store->ops->get(store, key, offset, data, size, got, error);
}

gboolean bl_store_load(BlStore *store, const char *key, gsize max_bytes, char **data, gsize *size,
                       GError **error) {
  guint64 expected = MIN(max_bytes, LOAD_GUESS);
  for (int i = 0; i < LOAD_TRIES_MAX; i++) {
    /* One byte more than expected shows whether more is there. */
    gsize room = (gsize)expected + 1;
    g_autofree char *bytes = g_malloc(room + 1);
    gsize got;
    if (!bl_store_get(store, key, 0, bytes, room, &got, error)) return FALSE;
    if (got < room) {
      bytes[got] = '\0';
      *data = g_realloc(g_steal_pointer(&bytes), got + 1);
      *size = got;
      return TRUE;
    }
    if (!bl_store_size(store, key, &expected, error)) return FALSE;
    if (expected > max_bytes)
      return bl_error_set(error, BL_ERROR_CORRUPT,
                          "object \"%s\" has %" G_GUINT64_FORMAT " bytes (at most %" G_GSIZE_FORMAT
                          ")",
                          key, expected, max_bytes);
  }
  return bl_error_set(error, BL_ERROR_BUSY, "object \"%s\" changes too often to be read", key);
}

void bl_store_get_many(BlStore *store, BlGetItem *items, gsize n) {
  gboolean valid = TRUE;
  for (gsize i = 0; i < n; i++) {
    items[i].got = 0;
    items[i].error = NULL;
    valid = bl_key_check(items[i].key, NULL) && valid;
  }
  /* A batch with a bad key is not worth a batch: each item then takes its own way. */
  if (valid && store->ops->get_many != NULL) {
    store->ops->get_many(store, items, n);
    return;
  }
  for (gsize i = 0; i < n; i++)
    bl_store_get(store, items[i].key, items[i].offset, items[i].data, items[i].size, &items[i].got,
                 &items[i].error);
}

void bl_store_put_many(BlStore *store, BlPutItem *items, gsize n, BlPutFlags flags) {
  gboolean valid = TRUE;
  for (gsize i = 0; i < n; i++) {
    items[i].error = NULL;
    valid = bl_key_check(items[i].key, NULL) && valid;
  }
  if (valid && store->ops->put_many != NULL) {
    store->ops->put_many(store, items, n, flags);
    return;
  }
  for (gsize i = 0; i < n; i++)
    bl_store_put(store, items[i].key, items[i].data, items[i].size, flags, &items[i].error);
}

gboolean bl_store_put(BlStore *store, const char *key, const void *data, gsize size,
                      BlPutFlags flags, GError **error) {
  return bl_key_check(key, error) && store->ops->put(store, key, data, size, flags, error);
}

BlStoreWriter *bl_store_writer_open(BlStore *store, const char *key, guint64 size_hint,
                                    BlPutFlags flags, GError **error) {
  if (!bl_key_check(key, error)) return NULL;
  return store->ops->writer_open(store, key, size_hint, flags, error);
}

gboolean bl_store_writer_write(BlStoreWriter *writer, const void *data, gsize size,
                               GError **error) {
  return writer->ops->write(writer, data, size, error);
}

gboolean bl_store_writer_commit(BlStoreWriter *writer, GError **error) {
  return writer->ops->commit(writer, error);
}

void bl_store_writer_free(BlStoreWriter *writer) {
  if (writer != NULL) writer->ops->free(writer);
}

gboolean bl_store_adopt(BlStore *store, const char *key, GError **error) {
  return bl_key_check(key, error) &&
         (store->ops->adopt == NULL || store->ops->adopt(store, key, error));
}

gboolean bl_store_sync(BlStore *store, GError **error) {
  return store->ops->sync(store, error);
}

gboolean bl_store_remove(BlStore *store, const char *key, GError **error) {
  return bl_key_check(key, error) && store->ops->remove(store, key, error);
}

gboolean bl_store_list(BlStore *store, const char *prefix, BlKeyFunc func, gpointer user,
                       GError **error) {
  return check_prefix(prefix, error) &&
         check_can(store, bl_store_can(store, BL_STORE_CAN_LIST), "list objects", error) &&
         store->ops->list(store, prefix, func, user, error);
}

/* Folders from keys, for a store that has no list of its own for them. */
typedef struct {
  gsize prefix_size;
  GHashTable *seen;
  BlFolderFunc func;
  gpointer user;
} Folders;

static gboolean add_folder(const char *key, const BlObjectStat *object, gpointer user,
                           GError **error) {
  (void)object;
  Folders *folders = user;
  const char *part = key + folders->prefix_size;
  const char *slash = strchr(part, '/');
  if (slash == NULL) return TRUE;
  char *folder = g_strndup(part, (gsize)(slash - part));
  if (!g_hash_table_add(folders->seen, folder)) return TRUE;
  return folders->func(folder, folders->user, error);
}

gboolean bl_store_list_folders(BlStore *store, const char *prefix, BlFolderFunc func, gpointer user,
                               GError **error) {
  if (!check_prefix(prefix, error)) return FALSE;
  if (!check_can(store, bl_store_can(store, BL_STORE_CAN_LIST), "list folders", error))
    return FALSE;
  if (store->ops->list_folders != NULL)
    return store->ops->list_folders(store, prefix, func, user, error);
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  Folders folders = {strlen(prefix), seen, func, user};
  return store->ops->list(store, prefix, add_folder, &folders, error);
}

int bl_store_open_fd(BlStore *store, const char *key, GError **error) {
  gboolean can = bl_store_can(store, BL_STORE_CAN_OPEN_FD);
  if (!bl_key_check(key, error) || !check_can(store, can, "open objects as files", error))
    return -1;
  return store->ops->open_fd(store, key, error);
}

gboolean bl_store_move(BlStore *store, const char *key, const char *new_key, GError **error) {
  return bl_key_check(key, error) && bl_key_check(new_key, error) &&
         check_can(store, bl_store_can(store, BL_STORE_CAN_MOVE), "move objects", error) &&
         store->ops->move(store, key, new_key, error);
}

gboolean bl_store_clone_fd(BlStore *store, const char *key, int fd, guint64 size, GError **error) {
  return bl_key_check(key, error) &&
         check_can(store, bl_store_can(store, BL_STORE_CAN_CLONE), "clone files", error) &&
         store->ops->clone_fd(store, key, fd, size, error);
}

gboolean bl_store_share_fd(BlStore *store, const char *key, int fd, BlPutFlags flags,
                           GError **error) {
  return bl_key_check(key, error) &&
         check_can(store, bl_store_can(store, BL_STORE_CAN_SHARE), "share objects", error) &&
         store->ops->share_fd(store, key, fd, flags, error);
}

BlStoreHold *bl_store_hold_shared(BlStore *store, const char *key, GError **error) {
  gboolean can = bl_store_can(store, BL_STORE_CAN_HOLD);
  if (!bl_key_check(key, error) || !check_can(store, can, "hold objects", error)) return NULL;
  return store->ops->hold_shared(store, key, error);
}

BlStoreHold *bl_store_put_held(BlStore *store, const char *key, const void *data, gsize size,
                               GError **error) {
  gboolean can = bl_store_can(store, BL_STORE_CAN_HOLD);
  if (!bl_key_check(key, error) || !check_can(store, can, "hold objects", error)) return NULL;
  return store->ops->put_held(store, key, data, size, error);
}

gboolean bl_store_hold_check(BlStoreHold *hold, GError **error) {
  return hold->store->ops->hold_check(hold, error);
}

void bl_store_hold_free(BlStoreHold *hold) {
  if (hold != NULL) hold->store->ops->hold_free(hold);
}

gboolean bl_store_is_held(BlStore *store, const char *key, BlHoldState *state, GError **error) {
  return bl_key_check(key, error) &&
         check_can(store, bl_store_can(store, BL_STORE_CAN_HOLD), "hold objects", error) &&
         store->ops->is_held(store, key, state, error);
}

gboolean bl_store_free_space(BlStore *store, guint64 *bytes, GError **error) {
  return check_can(store, store->ops->free_space != NULL, "tell its free space", error) &&
         store->ops->free_space(store, bytes, error);
}

gboolean bl_store_sweep(BlStore *store, const char *prefix, guint *n_removed, GError **error) {
  guint n = 0;
  gboolean swept = check_prefix(prefix, error) &&
                   (store->ops->sweep == NULL || store->ops->sweep(store, prefix, &n, error));
  if (n_removed != NULL) *n_removed = n;
  return swept;
}

gboolean bl_store_list_strays(BlStore *store, BlStrayFunc func, gpointer user, GError **error) {
  return store->ops->list_strays == NULL || store->ops->list_strays(store, func, user, error);
}

gboolean bl_store_remove_stray(BlStore *store, const BlStray *stray, GError **error) {
  if (!stray->is_temporary && !stray->is_folder)
    return bl_error_set(error, BL_ERROR_INVALID, "store %s: \"%s\" was not put there by ballast",
                        store->url, stray->path);
  return store->ops->remove_stray == NULL || store->ops->remove_stray(store, stray, error);
}

gboolean bl_store_get_settings(BlStore *store, BlStoreSettings *settings, GError **error) {
  *settings = (BlStoreSettings){.max_bytes = G_MAXUINT64};
  return store->ops->get_settings == NULL || store->ops->get_settings(store, settings, error);
}

gboolean bl_store_set_settings(BlStore *store, const BlStoreSettings *settings, GError **error) {
  return check_can(store, store->ops->set_settings != NULL, "keep settings", error) &&
         store->ops->set_settings(store, settings, error);
}
