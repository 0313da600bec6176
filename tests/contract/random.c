/* Random operations on a store and on a table that says what must come out. The seed is GLib's: it
 * is printed, and
 * --seed gives it again. */
#include "contract/contract.h"

#define N_STEPS 1500
/* Another number of steps, for a long run. */
#define STEPS_VARIABLE "BALLAST_TEST_STEPS"
#define N_KEYS 7
#define OBJECT_SIZE_MAX 20000

static const char *const all_keys[N_KEYS] = {"top",
                                             "w/r/main",
                                             "w/m/id1/manifest",
                                             "w/m/id1/chunks/0/a",
                                             "w/m/id1/chunks/0/b",
                                             "w/m/id2/manifest",
                                             "w/m/id2/chunks/0/a"};

typedef struct {
  Fixture *f;
  GHashTable *model; /* key to GBytes */
} Walk;

static BlStore *any_store(Walk *w) {
  return g_test_rand_bit() ? w->f->store : w->f->other;
}

static const char *any_key(void) {
  return all_keys[g_test_rand_int_range(0, N_KEYS)];
}

static GBytes *any_bytes(void) {
  gsize size = (gsize)g_test_rand_int_range(0, OBJECT_SIZE_MAX);
  return g_bytes_new_take(contract_bytes(size, (guint)g_test_rand_int()), size);
}

static void expect(gboolean done, const GError *error, gboolean must_work, BlErrorCode otherwise) {
  if (must_work)
    g_assert_no_error(error);
  else
    g_assert_error(error, BL_ERROR, (gint)otherwise);
  g_assert_cmpint(done, ==, must_work);
}

static gboolean put_somehow(BlStore *store, const char *key, GBytes *bytes, BlPutFlags flags,
                            GError **error) {
  gsize size;
  const guint8 *data = g_bytes_get_data(bytes, &size);
  if (g_test_rand_bit()) return bl_store_put(store, key, data, size, flags, error);
  guint64 hint = g_test_rand_bit() ? size : G_MAXUINT64;
  gsize half = size / 3;
  g_autoptr(BlStoreWriter) writer = bl_store_writer_open(store, key, hint, flags, error);
  return writer != NULL && bl_store_writer_write(writer, data, half, error) &&
         bl_store_writer_write(writer, data + half, size - half, error) &&
         bl_store_writer_commit(writer, error);
}

static void step_put(Walk *w) {
  const char *key = any_key();
  BlPutFlags flags = (g_test_rand_bit() ? BL_PUT_REPLACE : 0) |
                     (g_test_rand_int_range(0, 20) == 0 ? BL_PUT_DURABLE : 0);
  g_autoptr(GError) error = NULL;
  g_autoptr(GBytes) bytes = any_bytes();
  gboolean free_way = (flags & BL_PUT_REPLACE) || !g_hash_table_contains(w->model, key);
  gboolean done = put_somehow(any_store(w), key, bytes, flags, &error);
  expect(done, error, free_way, BL_ERROR_EXISTS);
  if (done) g_hash_table_insert(w->model, g_strdup(key), g_bytes_ref(bytes));
}

static void step_get(Walk *w) {
  const char *key = any_key();
  GBytes *expected = g_hash_table_lookup(w->model, key);
  guint8 data[OBJECT_SIZE_MAX];
  guint64 offset = (guint64)g_test_rand_int_range(0, OBJECT_SIZE_MAX + 100);
  gsize size = (gsize)g_test_rand_int_range(0, OBJECT_SIZE_MAX);
  gsize got = 0;
  g_autoptr(GError) error = NULL;
  gboolean done = bl_store_get(any_store(w), key, offset, data, size, &got, &error);
  expect(done, error, expected != NULL, BL_ERROR_NOT_FOUND);
  if (!done) return;
  gsize all;
  const guint8 *bytes = g_bytes_get_data(expected, &all);
  gsize start = MIN(all, offset);
  g_assert_cmpmem(data, got, bytes + start, MIN(size, all - start));
}

static void step_remove(Walk *w) {
  const char *key = any_key();
  must(bl_store_remove(any_store(w), key, &error));
  g_hash_table_remove(w->model, key);
}

static void step_move(Walk *w) {
  const char *from = any_key(), *to = any_key();
  if (!bl_store_can(w->f->store, BL_STORE_CAN_MOVE) || from == to) return;
  gboolean is_there = g_hash_table_contains(w->model, from);
  gboolean is_taken = g_hash_table_contains(w->model, to);
  g_autoptr(GError) error = NULL;
  gboolean done = bl_store_move(any_store(w), from, to, &error);
  expect(done, error, is_there && !is_taken, is_there ? BL_ERROR_EXISTS : BL_ERROR_NOT_FOUND);
  if (!done) return;
  g_hash_table_insert(w->model, g_strdup(to), g_bytes_ref(g_hash_table_lookup(w->model, from)));
  g_hash_table_remove(w->model, from);
}

static gboolean check_listed(const char *key, const BlObjectStat *object, gpointer user,
                             GError **error) {
  (void)error;
  GHashTable *left = user;
  GBytes *bytes = g_hash_table_lookup(left, key);
  g_assert_nonnull(bytes);
  g_assert_cmpuint(object->size, ==, g_bytes_get_size(bytes));
  g_hash_table_remove(left, key);
  return TRUE;
}

static void step_list(Walk *w) {
  static const char *const prefixes[] = {
      "", "w/", "w/m/", "w/m/id1/", "w/m/id1/chunks/", "w/m/id2/chunks/0/"};
  if (!bl_store_can(w->f->store, BL_STORE_CAN_LIST)) return;
  const char *prefix = prefixes[g_test_rand_int_range(0, G_N_ELEMENTS(prefixes))];
  g_autoptr(GHashTable) left = g_hash_table_new(g_str_hash, g_str_equal);
  GHashTableIter iter;
  gpointer key, bytes;
  g_hash_table_iter_init(&iter, w->model);
  while (g_hash_table_iter_next(&iter, &key, &bytes)) {
    if (g_str_has_prefix(key, prefix)) g_hash_table_insert(left, key, bytes);
  }
  must(bl_store_list(any_store(w), prefix, check_listed, left, &error));
  g_assert_cmpuint(g_hash_table_size(left), ==, 0);
}

/* A writer that is dropped, a sync, a sweep, another instance: none may change anything. */
static void step_nothing(Walk *w) {
  BlStore *store = any_store(w);
  switch (g_test_rand_int_range(0, 4)) {
    case 0: {
      g_autoptr(BlStoreWriter) writer =
          bl_store_writer_open(store, any_key(), 9, BL_PUT_REPLACE, NULL);
      must(bl_store_writer_write(writer, "abandoned", 9, &error));
      break;
    }
    case 1:
      must(bl_store_sync(store, &error));
      break;
    case 2:
      must(bl_store_sweep(store, "w/m/id1/", NULL, &error));
      break;
    default:
      g_clear_pointer(&w->f->other, bl_store_free);
      must((w->f->other = bl_store_open(w->f->url, FALSE, &error)));
  }
}

static void test_walk(Fixture *f, gconstpointer data) {
  (void)data;
  static void (*const steps[])(Walk *) = {step_put,  step_put,  step_put,    step_get,    step_get,
                                          step_list, step_move, step_remove, step_nothing};
  g_autoptr(GHashTable) model =
      g_hash_table_new_full(g_str_hash, g_str_equal, g_free, (GDestroyNotify)g_bytes_unref);
  Walk walk = {f, model};
  const char *wanted = g_getenv(STEPS_VARIABLE);
  guint64 n_steps = wanted != NULL ? g_ascii_strtoull(wanted, NULL, 10) : N_STEPS;
  for (guint64 i = 0; i < n_steps; i++) steps[g_test_rand_int_range(0, G_N_ELEMENTS(steps))](&walk);
}

const ContractTest contract_random[] = {
    {"random", test_walk, FALSE},
    {NULL, NULL, FALSE},
};
