#include "store/fault.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"

static const char *const op_names[BL_FAULT_N_OPS] = {
    [BL_FAULT_STAT] = "stat",
    [BL_FAULT_GET] = "get",
    [BL_FAULT_PUT] = "put",
    [BL_FAULT_WRITER_OPEN] = "writer-open",
    [BL_FAULT_WRITE] = "write",
    [BL_FAULT_COMMIT] = "commit",
    [BL_FAULT_SYNC] = "sync",
    [BL_FAULT_REMOVE] = "remove",
    [BL_FAULT_LIST] = "list",
    [BL_FAULT_OPEN_FD] = "open-fd",
    [BL_FAULT_MOVE] = "move",
    [BL_FAULT_CLONE] = "clone",
    [BL_FAULT_PUT_HELD] = "put-held",
    [BL_FAULT_HOLD_CHECK] = "hold-check",
    [BL_FAULT_IS_HELD] = "is-held",
    [BL_FAULT_FREE_SPACE] = "free-space",
    [BL_FAULT_SWEEP] = "sweep",
    [BL_FAULT_ADOPT] = "adopt",
    [BL_FAULT_SHARE] = "share",
    [BL_FAULT_HOLD_SHARED] = "hold-shared",
    [BL_FAULT_LIST_STRAYS] = "list-strays",
    [BL_FAULT_REMOVE_STRAY] = "remove-stray",
    [BL_FAULT_SETTINGS] = "settings",
};

typedef struct {
  BlStore store;
  BlStore *inner;
  char *counts_path;                                        /* may be NULL */
  guint64 n_calls[BL_FAULT_N_OPS], n_bytes[BL_FAULT_N_OPS]; /* atomic */
  GMutex lock;                                              /* protects what is below */
  BlFaultRule rule;
  guint64 n_matches, n_hits;
} FaultStore;

typedef struct {
  BlStoreWriter writer;
  FaultStore *store;
  BlStoreWriter *inner;
  char *key;
} FaultWriter;

typedef struct {
  BlStoreHold hold;
  BlStoreHold *inner;
  char *key;
} FaultHold;

static FaultStore *fault_store(BlStore *store) {
  return (FaultStore *)store;
}

/* Counts one call and does to it what the rule says. FALSE: it fails. */
static gboolean enter(FaultStore *store, BlFaultOp op, const char *name, GError **error) {
  __atomic_fetch_add(&store->n_calls[op], 1, __ATOMIC_RELAXED);
  g_mutex_lock(&store->lock);
  BlFaultRule rule = store->rule;
  gboolean is_meant = rule.n > 0 && (rule.op == BL_FAULT_ANY || rule.op == op);
  if (is_meant) store->n_matches++;
  gboolean is_hit = is_meant && store->n_matches >= rule.n &&
                    (rule.times == 0 || store->n_matches - rule.n < rule.times);
  if (is_hit) store->n_hits++;
  g_mutex_unlock(&store->lock);

  if (!is_hit) return TRUE;
  if (rule.delay_ms > 0) g_usleep(1000ul * rule.delay_ms);
  if (!rule.fails) return TRUE;
  return bl_error_set(error, rule.code, "store %s: %s of \"%s\": failed for a test",
                      store->store.url, op_names[op], name);
}

static void count_bytes(FaultStore *store, BlFaultOp op, guint64 size) {
  __atomic_fetch_add(&store->n_bytes[op], size, __ATOMIC_RELAXED);
}

static void write_counts(FaultStore *store) {
  g_autoptr(GString) text = g_string_new(NULL);
  for (int op = 0; op < BL_FAULT_N_OPS; op++) {
    if (store->n_calls[op] > 0)
      g_string_append_printf(text, "%s %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n", op_names[op],
                             store->n_calls[op], store->n_bytes[op]);
  }
  g_autoptr(GError) error = NULL;
  bl_autofd fd = bl_open_at(AT_FDCWD, store->counts_path, O_WRONLY | O_CREAT | O_APPEND, 0666,
                            "counts file", &error);
  /* A test that asked for counts must not go on without them. */
  if (fd == -1 || !bl_write_all(fd, text->str, text->len, &error)) g_error("%s", error->message);
}

static void fault_free(BlStore *base) {
  FaultStore *store = fault_store(base);
  if (store->counts_path != NULL) write_counts(store);
  bl_store_free(store->inner);
  g_mutex_clear(&store->lock);
  g_free(store->counts_path);
  g_free(base->url);
  g_free(store);
}

static gboolean fault_buffer_new(BlStore *base, gsize size, BlStoreBuffer *buffer, GError **error) {
  return bl_store_buffer_new(fault_store(base)->inner, size, buffer, error);
}

static void fault_buffer_free(BlStore *base, BlStoreBuffer *buffer) {
  bl_store_buffer_free(fault_store(base)->inner, buffer);
}

static gboolean fault_stat(BlStore *base, const char *key, BlObjectStat *object, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_STAT, key, error) && bl_store_stat(store->inner, key, object, error);
}

static gboolean fault_get(BlStore *base, const char *key, guint64 offset, void *data, gsize size,
                          gsize *got, GError **error) {
  FaultStore *store = fault_store(base);
  if (!enter(store, BL_FAULT_GET, key, error)) return FALSE;
  if (!bl_store_get(store->inner, key, offset, data, size, got, error)) return FALSE;
  count_bytes(store, BL_FAULT_GET, *got);
  return TRUE;
}

/* Items that are not made to fail go to the wrapped store in batches: those between two that are.
 */
static void fault_get_many(BlStore *base, BlGetItem *items, gsize n) {
  FaultStore *store = fault_store(base);
  for (gsize start = 0; start < n; start++) {
    gsize end = start;
    while (end < n && enter(store, BL_FAULT_GET, items[end].key, &items[end].error)) end++;
    bl_store_get_many(store->inner, items + start, end - start);
    for (; start < end; start++) count_bytes(store, BL_FAULT_GET, items[start].got);
  }
}

static gboolean fault_put(BlStore *base, const char *key, const void *data, gsize size,
                          BlPutFlags flags, GError **error) {
  FaultStore *store = fault_store(base);
  if (!enter(store, BL_FAULT_PUT, key, error)) return FALSE;
  if (!bl_store_put(store->inner, key, data, size, flags, error)) return FALSE;
  count_bytes(store, BL_FAULT_PUT, size);
  return TRUE;
}

static void fault_put_many(BlStore *base, BlPutItem *items, gsize n, BlPutFlags flags) {
  FaultStore *store = fault_store(base);
  for (gsize start = 0; start < n; start++) {
    gsize end = start;
    while (end < n && enter(store, BL_FAULT_PUT, items[end].key, &items[end].error)) end++;
    bl_store_put_many(store->inner, items + start, end - start, flags);
    for (; start < end; start++) {
      if (items[start].error == NULL) count_bytes(store, BL_FAULT_PUT, items[start].size);
    }
  }
}

static gboolean writer_write(BlStoreWriter *base, const void *data, gsize size, GError **error) {
  FaultWriter *writer = (FaultWriter *)base;
  if (!enter(writer->store, BL_FAULT_WRITE, writer->key, error)) return FALSE;
  if (!bl_store_writer_write(writer->inner, data, size, error)) return FALSE;
  count_bytes(writer->store, BL_FAULT_WRITE, size);
  return TRUE;
}

static gboolean writer_commit(BlStoreWriter *base, GError **error) {
  FaultWriter *writer = (FaultWriter *)base;
  return enter(writer->store, BL_FAULT_COMMIT, writer->key, error) &&
         bl_store_writer_commit(writer->inner, error);
}

static void writer_free(BlStoreWriter *base) {
  FaultWriter *writer = (FaultWriter *)base;
  bl_store_writer_free(writer->inner);
  g_free(writer->key);
  g_free(writer);
}

static BlStoreWriter *fault_writer_open(BlStore *base, const char *key, guint64 size_hint,
                                        BlPutFlags flags, GError **error) {
  static const BlStoreWriterOps ops = {writer_write, writer_commit, writer_free};
  FaultStore *store = fault_store(base);
  if (!enter(store, BL_FAULT_WRITER_OPEN, key, error)) return NULL;
  BlStoreWriter *inner = bl_store_writer_open(store->inner, key, size_hint, flags, error);
  if (inner == NULL) return NULL;
  FaultWriter *writer = g_new(FaultWriter, 1);
  *writer = (FaultWriter){{&ops}, store, inner, g_strdup(key)};
  return &writer->writer;
}

static gboolean fault_sync(BlStore *base, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_SYNC, "", error) && bl_store_sync(store->inner, error);
}

static gboolean fault_adopt(BlStore *base, const char *key, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_ADOPT, key, error) && bl_store_adopt(store->inner, key, error);
}

static gboolean fault_remove(BlStore *base, const char *key, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_REMOVE, key, error) && bl_store_remove(store->inner, key, error);
}

static gboolean fault_list(BlStore *base, const char *prefix, BlKeyFunc func, gpointer user,
                           GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_LIST, prefix, error) &&
         bl_store_list(store->inner, prefix, func, user, error);
}

static gboolean fault_list_folders(BlStore *base, const char *prefix, BlFolderFunc func,
                                   gpointer user, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_LIST, prefix, error) &&
         bl_store_list_folders(store->inner, prefix, func, user, error);
}

static int fault_open_fd(BlStore *base, const char *key, GError **error) {
  FaultStore *store = fault_store(base);
  if (!enter(store, BL_FAULT_OPEN_FD, key, error)) return -1;
  return bl_store_open_fd(store->inner, key, error);
}

static gboolean fault_move(BlStore *base, const char *key, const char *new_key, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_MOVE, key, error) &&
         bl_store_move(store->inner, key, new_key, error);
}

static gboolean fault_clone_fd(BlStore *base, const char *key, int fd, guint64 size,
                               GError **error) {
  FaultStore *store = fault_store(base);
  if (!enter(store, BL_FAULT_CLONE, key, error)) return FALSE;
  if (!bl_store_clone_fd(store->inner, key, fd, size, error)) return FALSE;
  count_bytes(store, BL_FAULT_CLONE, size);
  return TRUE;
}

static gboolean fault_share_fd(BlStore *base, const char *key, int fd, BlPutFlags flags,
                               GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_SHARE, key, error) &&
         bl_store_share_fd(store->inner, key, fd, flags, error);
}

static BlStoreHold *hold_new(BlStore *base, BlStoreHold *inner, const char *key) {
  if (inner == NULL) return NULL;
  FaultHold *hold = g_new(FaultHold, 1);
  *hold = (FaultHold){{base}, inner, g_strdup(key)};
  return &hold->hold;
}

static BlStoreHold *fault_put_held(BlStore *base, const char *key, const void *data, gsize size,
                                   GError **error) {
  FaultStore *store = fault_store(base);
  if (!enter(store, BL_FAULT_PUT_HELD, key, error)) return NULL;
  BlStoreHold *inner = bl_store_put_held(store->inner, key, data, size, error);
  if (inner != NULL) count_bytes(store, BL_FAULT_PUT_HELD, size);
  return hold_new(base, inner, key);
}

static BlStoreHold *fault_hold_shared(BlStore *base, const char *key, GError **error) {
  FaultStore *store = fault_store(base);
  if (!enter(store, BL_FAULT_HOLD_SHARED, key, error)) return NULL;
  return hold_new(base, bl_store_hold_shared(store->inner, key, error), key);
}

static gboolean fault_hold_check(BlStoreHold *base, GError **error) {
  FaultHold *hold = (FaultHold *)base;
  return enter(fault_store(base->store), BL_FAULT_HOLD_CHECK, hold->key, error) &&
         bl_store_hold_check(hold->inner, error);
}

static void fault_hold_free(BlStoreHold *base) {
  FaultHold *hold = (FaultHold *)base;
  bl_store_hold_free(hold->inner);
  g_free(hold->key);
  g_free(hold);
}

static gboolean fault_is_held(BlStore *base, const char *key, BlHoldState *state, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_IS_HELD, key, error) &&
         bl_store_is_held(store->inner, key, state, error);
}

static gboolean fault_free_space(BlStore *base, guint64 *bytes, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_FREE_SPACE, "", error) &&
         bl_store_free_space(store->inner, bytes, error);
}

static gboolean fault_sweep(BlStore *base, const char *prefix, guint *n_removed, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_SWEEP, prefix, error) &&
         bl_store_sweep(store->inner, prefix, n_removed, error);
}

static gboolean fault_list_strays(BlStore *base, BlStrayFunc func, gpointer user, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_LIST_STRAYS, "", error) &&
         bl_store_list_strays(store->inner, func, user, error);
}

static gboolean fault_remove_stray(BlStore *base, const BlStray *stray, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_REMOVE_STRAY, stray->path, error) &&
         bl_store_remove_stray(store->inner, stray, error);
}

static gboolean fault_get_settings(BlStore *base, BlStoreSettings *settings, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_SETTINGS, "", error) &&
         bl_store_get_settings(store->inner, settings, error);
}

static gboolean fault_set_settings(BlStore *base, const BlStoreSettings *settings, GError **error) {
  FaultStore *store = fault_store(base);
  return enter(store, BL_FAULT_SETTINGS, "", error) &&
         bl_store_set_settings(store->inner, settings, error);
}

BlStore *bl_fault_store_new(BlStore *inner) {
  static const BlStoreOps ops = {
      .scheme = "fault",
      .free = fault_free,
      .buffer_new = fault_buffer_new,
      .buffer_free = fault_buffer_free,
      .stat = fault_stat,
      .get = fault_get,
      .get_many = fault_get_many,
      .put = fault_put,
      .put_many = fault_put_many,
      .writer_open = fault_writer_open,
      .sync = fault_sync,
      .adopt = fault_adopt,
      .remove = fault_remove,
      .list = fault_list,
      .list_folders = fault_list_folders,
      .open_fd = fault_open_fd,
      .move = fault_move,
      .clone_fd = fault_clone_fd,
      .share_fd = fault_share_fd,
      .put_held = fault_put_held,
      .hold_shared = fault_hold_shared,
      .hold_check = fault_hold_check,
      .hold_free = fault_hold_free,
      .is_held = fault_is_held,
      .free_space = fault_free_space,
      .sweep = fault_sweep,
      .list_strays = fault_list_strays,
      .remove_stray = fault_remove_stray,
      .get_settings = fault_get_settings,
      .set_settings = fault_set_settings,
  };
  FaultStore *store = g_new0(FaultStore, 1);
  store->store = (BlStore){&ops, inner->caps, g_strconcat("fault::", inner->url, NULL)};
  store->inner = inner;
  g_mutex_init(&store->lock);
  return &store->store;
}

/* The index of the word among n names, or -1. */
static int find_name(const char *word, const char *(*name)(int), int n) {
  for (int i = 0; i < n; i++) {
    if (strcmp(word, name(i)) == 0) return i;
  }
  return -1;
}

static const char *op_name(int op) {
  return op_names[op];
}

static const char *error_name(int code) {
  return bl_error_name((BlErrorCode)code);
}

static gboolean parse_word(const char *value, const char *(*name)(int), int n, int *index,
                           GError **error) {
  *index = find_name(value, name, n);
  return *index >= 0 || bl_error_set(error, BL_ERROR_INVALID, "\"%s\" is not known", value);
}

static gboolean parse_number(const char *value, guint64 max, guint64 *number, GError **error) {
  return g_ascii_string_to_unsigned(value, 10, 0, max, number, NULL) ||
         bl_error_set(error, BL_ERROR_INVALID, "\"%s\" is no number", value);
}

static gboolean parse_option(const char *option, BlFaultRule *rule, char **counts_path,
                             GError **error) {
  g_auto(GStrv) pair = g_strsplit(option, "=", 2);
  const char *name = pair[0] != NULL ? pair[0] : ""; /* an empty text splits into nothing */
  const char *value = pair[0] != NULL && pair[1] != NULL ? pair[1] : "";
  int index;
  guint64 number;
  if (strcmp(name, "op") == 0) {
    if (strcmp(value, "any") == 0) return TRUE;
    if (!parse_word(value, op_name, BL_FAULT_N_OPS, &index, error)) return FALSE;
    rule->op = (BlFaultOp)index;
  } else if (strcmp(name, "error") == 0) {
    if (!parse_word(value, error_name, BL_ERROR_N_CODES, &index, error)) return FALSE;
    rule->code = (BlErrorCode)index;
    rule->fails = TRUE;
  } else if (strcmp(name, "n") == 0) {
    return parse_number(value, G_MAXUINT64, &rule->n, error);
  } else if (strcmp(name, "times") == 0) {
    return parse_number(value, G_MAXUINT64, &rule->times, error);
  } else if (strcmp(name, "delay-ms") == 0) {
    if (!parse_number(value, G_MAXUINT, &number, error)) return FALSE;
    rule->delay_ms = (guint)number;
  } else if (strcmp(name, "counts") == 0) {
    g_free(*counts_path);
    *counts_path = g_strdup(value);
  } else {
    return bl_error_set(error, BL_ERROR_INVALID, "no such option");
  }
  return TRUE;
}

BlStore *bl_fault_store_open(const char *url, gboolean create, GError **error) {
  if (g_strcmp0(g_getenv("BALLAST_TESTING"), "1") != 0) {
    bl_error_set(error, BL_ERROR_INVALID,
                 "store \"%s\": makes a store fail, for tests (only with BALLAST_TESTING=1)", url);
    return NULL;
  }
  g_auto(GStrv) parts = g_strsplit(url, ":", 3); /* "fault", options, the wrapped store's URL */
  if (g_strv_length(parts) < 3) {
    bl_error_set(error, BL_ERROR_INVALID, "store \"%s\": wraps no store", url);
    return NULL;
  }
  BlFaultRule rule = {.op = BL_FAULT_ANY, .n = 1};
  g_autofree char *counts_path = NULL;
  g_auto(GStrv) options = g_strsplit(parts[1], ",", -1);
  for (char **option = options; *option != NULL; option++) {
    if (parse_option(*option, &rule, &counts_path, error)) continue;
    g_prefix_error(error, "store \"%s\": option \"%s\": ", url, *option);
    return NULL;
  }
  BlStore *inner = bl_store_open(parts[2], create, error);
  if (inner == NULL) return NULL;
  BlStore *store = bl_fault_store_new(inner);
  fault_store(store)->counts_path = g_steal_pointer(&counts_path);
  bl_fault_store_set_rule(store, &rule);
  return store;
}

void bl_fault_store_set_rule(BlStore *base, const BlFaultRule *rule) {
  FaultStore *store = fault_store(base);
  g_mutex_lock(&store->lock);
  store->rule = *rule;
  store->n_matches = 0;
  store->n_hits = 0;
  g_mutex_unlock(&store->lock);
}

guint64 bl_fault_store_n_hits(BlStore *base) {
  FaultStore *store = fault_store(base);
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&store->lock);
  return store->n_hits;
}

guint64 bl_fault_store_n_calls(BlStore *base, BlFaultOp op) {
  FaultStore *store = fault_store(base);
  if (op != BL_FAULT_ANY) return __atomic_load_n(&store->n_calls[op], __ATOMIC_RELAXED);
  guint64 n = 0;
  for (int i = 0; i < BL_FAULT_N_OPS; i++)
    n += __atomic_load_n(&store->n_calls[i], __ATOMIC_RELAXED);
  return n;
}

guint64 bl_fault_store_n_bytes(BlStore *base, BlFaultOp op) {
  return __atomic_load_n(&fault_store(base)->n_bytes[op], __ATOMIC_RELAXED);
}

void bl_fault_store_reset_counts(BlStore *base) {
  FaultStore *store = fault_store(base);
  for (int i = 0; i < BL_FAULT_N_OPS; i++) {
    __atomic_store_n(&store->n_calls[i], 0, __ATOMIC_RELAXED);
    __atomic_store_n(&store->n_bytes[i], 0, __ATOMIC_RELAXED);
  }
}
