/* Room: what counts as held, what reservations add to it, who may start. */
#include "model/room.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/folder.h"
#include "base/error.h"
#include "base/file.h"
#include "golden.h"
#include "model/key.h"
#include "store/claim.h"
#include "store/fault.h"

#define KIB 1024
#define MIB (1024 * KIB)
/* Claims, heartbeats and reservations are objects, too. */
#define SLACK (64 * KIB)

typedef struct {
  char *folder;
  BlStore *store;
} Fixture;

static void set_up(Fixture *f, gconstpointer data) {
  (void)data;
  f->folder = g_dir_make_tmp("ballast-room-XXXXXX", NULL);
  f->store = bl_store_open(f->folder, TRUE, NULL);
  g_assert_nonnull(f->store);
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  bl_store_free(f->store);
  remove_tree(f->folder);
  g_free(f->folder);
}

static void set_limit(BlStore *store, guint64 max_bytes) {
  BlStoreSettings settings = {.max_bytes = max_bytes};
  g_autoptr(GError) error = NULL;
  bl_store_set_settings(store, &settings, &error);
  g_assert_no_error(error);
}

static void put_bytes(BlStore *store, const char *key, gsize size) {
  g_autofree guint8 *data = g_malloc0(size);
  g_autoptr(GError) error = NULL;
  bl_store_put(store, key, data, size, 0, &error);
  g_assert_no_error(error);
}

static char *chunk_key(BlKeyBuffer key, const char *id) {
  return bl_key_chunk(key, id, "model.safetensors", 0);
}

static BlClaim *claim(BlStore *store, const char *id) {
  BlKeyBuffer prefix;
  g_autoptr(GError) error = NULL;
  BlClaim *claim = bl_claim_acquire(store, bl_key_prefix(prefix, id), "import", 0, NULL, &error);
  g_assert_no_error(error);
  return claim;
}

static void release(BlClaim *claim) {
  g_autoptr(GError) error = NULL;
  bl_claim_release(claim, &error);
  g_assert_no_error(error);
}

/* What is put behind it bears a later time. */
static void reserve(BlStore *store, const char *id, guint64 n_bytes) {
  g_autoptr(GError) error = NULL;
  bl_room_reserve(store, id, n_bytes, NULL, &error);
  g_assert_no_error(error);
  g_usleep(20 * 1000);
}

/* The message says it all. Caller frees. */
static char *refuse(BlStore *store, const char *id, guint64 n_bytes) {
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_room_reserve(store, id, n_bytes, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
  return g_strdup(error->message);
}

static void check_refused(BlStore *store, const char *id, guint64 n_bytes) {
  g_autofree char *message = refuse(store, id, n_bytes);
  g_assert_nonnull(strstr(message, "ballast prune"));
}

static guint64 used(BlStore *store) {
  guint64 n_bytes = 0;
  g_autoptr(GError) error = NULL;
  bl_room_used(store, &n_bytes, &error);
  g_assert_no_error(error);
  return n_bytes;
}

/* Without a limit nothing is asked but that there is none. */
static void test_no_limit(void) {
  BlStore *store = bl_fault_store_new(bl_store_open("memory:", TRUE, NULL));
  guint64 n_settings;
  reserve(store, "m", G_MAXUINT64);
  n_settings = bl_fault_store_n_calls(store, BL_FAULT_SETTINGS);
  g_assert_cmpuint(n_settings, ==, 1);
  g_assert_cmpuint(bl_fault_store_n_calls(store, BL_FAULT_ANY), ==, 1);
  g_autoptr(GError) error = NULL;
  g_assert_true(bl_room_release(store, "m", &error));
  bl_store_free(store);
}

static void test_used(Fixture *f, gconstpointer data) {
  (void)data;
  BlKeyBuffer a, b;
  g_assert_cmpuint(used(f->store), ==, 0);
  put_bytes(f->store, chunk_key(a, "a"), 1000);
  put_bytes(f->store, "weight/models/a/manifest", 30);
  g_assert_cmpuint(used(f->store), ==, 1030);
  bl_autofd fd = bl_store_open_fd(f->store, a, NULL);
  g_assert_true(bl_store_share_fd(f->store, chunk_key(b, "b"), fd, 0, NULL));
  g_assert_cmpuint(used(f->store), ==, 1030);
  g_assert_true(bl_store_remove(f->store, a, NULL));
  g_assert_cmpuint(used(f->store), ==, 1030);
  BlKeyBuffer c;
  g_autoptr(BlStoreWriter) writer = bl_store_writer_open(f->store, chunk_key(c, "c"), 500, 0, NULL);
  g_assert_true(bl_store_writer_write(writer, "12345", 5, NULL));
  guint64 with_temporary = used(f->store);
  g_assert_cmpuint(with_temporary, >=, 1030);
  g_assert_true(bl_store_writer_commit(writer, NULL));
  g_assert_cmpuint(used(f->store), ==, 1035);
}

static void test_reserve(Fixture *f, gconstpointer data) {
  (void)data;
  BlKeyBuffer key;
  guint64 size;
  set_limit(f->store, 10 * MIB + SLACK);
  put_bytes(f->store, chunk_key(key, "old"), 2 * MIB);
  check_refused(f->store, "a", 9 * MIB);
  check_refused(f->store, "a", G_MAXUINT64);
  BlClaim *a = claim(f->store, "a"), *b = claim(f->store, "b");
  reserve(f->store, "a", 5 * MIB);
  g_autofree char *message = refuse(f->store, "b", 4 * MIB);
  const char *parts[] = {f->folder, "10.1", "2.0", "5.0", "4.0", "\"b\"", "max_bytes", "reserved"};
  for (guint i = 0; i < G_N_ELEMENTS(parts); i++) g_assert_nonnull(strstr(message, parts[i]));
  g_assert_false(bl_store_size(f->store, bl_key_reserved(key, "b"), &size, NULL));
  reserve(f->store, "b", 3 * MIB);

  /* What an import puts is held from then on, and no longer reserved. */
  put_bytes(f->store, chunk_key(key, "a"), 4 * MIB);
  reserve(f->store, "b", 3 * MIB);
  check_refused(f->store, "b", 4 * MIB);
  put_bytes(f->store, bl_key_chunk(key, "a", "more", 0), MIB);
  reserve(f->store, "b", 3 * MIB);
  g_assert_true(bl_room_release(f->store, "a", NULL));
  g_assert_true(bl_room_release(f->store, "a", NULL));
  check_refused(f->store, "b", 4 * MIB);
  g_assert_true(bl_store_remove(f->store, key, NULL));
  reserve(f->store, "b", 4 * MIB);
  release(a);
  release(b);
}

/* An import that goes on from an earlier one: what was there before is not taken off. */
static void test_resumed(Fixture *f, gconstpointer data) {
  (void)data;
  BlKeyBuffer key;
  set_limit(f->store, 10 * MIB + SLACK);
  put_bytes(f->store, chunk_key(key, "a"), 4 * MIB);
  BlClaim *a = claim(f->store, "a");
  reserve(f->store, "a", 4 * MIB);
  check_refused(f->store, "b", 3 * MIB);
  reserve(f->store, "b", 2 * MIB);
  g_assert_true(bl_store_remove(f->store, key, NULL));
  reserve(f->store, "b", 6 * MIB);
  check_refused(f->store, "b", 7 * MIB);
  release(a);
}

/* A file that was shared is the sharer's alone once the donor is gone: it did not put it. */
static void test_donor_gone(Fixture *f, gconstpointer data) {
  (void)data;
  BlKeyBuffer donor, key;
  set_limit(f->store, 10 * MIB + SLACK);
  put_bytes(f->store, chunk_key(donor, "donor"), 4 * MIB);
  BlClaim *a = claim(f->store, "a");
  reserve(f->store, "a", 4 * MIB);
  bl_autofd fd = bl_store_open_fd(f->store, donor, NULL);
  g_assert_true(bl_store_share_fd(f->store, chunk_key(key, "a"), fd, 0, NULL));
  check_refused(f->store, "b", 3 * MIB);
  g_assert_true(bl_store_remove(f->store, donor, NULL));
  check_refused(f->store, "b", 3 * MIB);
  put_bytes(f->store, bl_key_chunk(key, "a", "more", 0), 4 * MIB);
  check_refused(f->store, "b", 3 * MIB);
  reserve(f->store, "b", 2 * MIB);
  release(a);
}

static void test_format(Fixture *f, gconstpointer data) {
  (void)data;
  BlKeyBuffer key;
  gsize golden_size, size;
  g_autofree char *golden = golden_load("docs/formats/golden", "reserved.json", &golden_size);
  g_autofree char *text = NULL;
  set_limit(f->store, 6 * (guint64)1024 * MIB);
  put_bytes(f->store, chunk_key(key, GOLDEN_ID), MIB);
  put_bytes(f->store, "weight/models/" GOLDEN_ID "/manifest", 100);
  reserve(f->store, GOLDEN_ID, 5 * (guint64)1024 * MIB);
  g_assert_true(bl_store_load(f->store, bl_key_reserved(key, GOLDEN_ID), 4096, &text, &size, NULL));
  g_assert_cmpmem(text, size, golden, golden_size);
}

static void test_garbage(Fixture *f, gconstpointer data) {
  (void)data;
  BlKeyBuffer key;
  set_limit(f->store, 10 * MIB);
  static const char *const texts[] = {"", "x", "{}", "{\"bytes\":-1}", "[]"};
  for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
    g_autofree char *id = g_strdup_printf("m%u", i);
    put_text(f->store, bl_key_reserved(key, id), texts[i]);
  }
  put_bytes(f->store, bl_key_reserved(key, "large"), 5000);
  BlClaim *a = claim(f->store, "m1");
  reserve(f->store, "b", 9 * MIB);
  release(a);
}

/* An import that was killed, and one that ended without a word, reserve nothing. */
static void test_dead(Fixture *f, gconstpointer data) {
  (void)data;
  int ready[2];
  char byte;
  set_limit(f->store, 10 * MIB + SLACK);
  g_assert_cmpint(pipe(ready), ==, 0);
  pid_t pid = fork();
  if (pid == 0) {
    g_autoptr(BlStore) store = bl_store_open(f->folder, FALSE, NULL);
    claim(store, "a");
    reserve(store, "a", 8 * MIB);
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(1);
  }
  g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
  check_refused(f->store, "b", 4 * MIB);
  g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
  g_assert_cmpint(waitpid(pid, NULL, 0), ==, pid);
  reserve(f->store, "b", 4 * MIB);

  BlClaim *c = claim(f->store, "c");
  reserve(f->store, "c", 8 * MIB);
  check_refused(f->store, "d", 4 * MIB);
  release(c);
  reserve(f->store, "d", 4 * MIB);
  close(ready[0]);
  close(ready[1]);
}

/* Each call that asking for room makes fails in turn: it is refused or given, and afterwards it is
 * given, whatever the failure left. */
static void test_faults(Fixture *f, gconstpointer data) {
  (void)data;
  set_limit(f->store, 10 * MIB);
  BlClaim *a = claim(f->store, "a");
  reserve(f->store, "a", MIB);
  BlStore *store = bl_fault_store_new(bl_store_open(f->folder, FALSE, NULL));
  guint64 n = 0, n_failures = 0;
  do {
    BlFaultRule rule = {.op = BL_FAULT_ANY, .n = ++n, .times = 1, .fails = TRUE};
    rule.code = BL_ERROR_IO;
    bl_fault_store_set_rule(store, &rule);
    g_autoptr(GError) error = NULL;
    if (!bl_room_reserve(store, "b", MIB, NULL, &error)) {
      g_assert_error(error, BL_ERROR, BL_ERROR_IO);
      n_failures++;
    }
    reserve(f->store, "b", 2 * MIB);
    g_assert_true(bl_room_release(f->store, "b", NULL));
  } while (bl_fault_store_n_hits(store) > 0);
  g_assert_cmpuint(n_failures, >=, 8);
  bl_store_free(store);
  release(a);
}

static gboolean count_stray(const BlStray *stray, gpointer user, GError **error) {
  (void)stray;
  (void)error;
  *(guint *)user += 1;
  return TRUE;
}

/* What one left that was killed while it asked, the next one removes. */
static void test_leftovers(Fixture *f, gconstpointer data) {
  (void)data;
  guint n_strays = 0;
  set_limit(f->store, 10 * MIB);
  g_autofree char *room = g_build_filename(f->folder, BL_KEY_ROOM, NULL);
  g_autofree char *temporary = g_build_filename(room, ".tmp-0-0", NULL);
  g_assert_cmpint(g_mkdir_with_parents(room, 0777), ==, 0);
  g_assert_true(g_file_set_contents(temporary, "half", 4, NULL));
  reserve(f->store, "a", MIB);
  g_assert_true(bl_store_list_strays(f->store, count_stray, &n_strays, NULL));
  g_assert_cmpuint(n_strays, ==, 0);
}

typedef struct {
  const Fixture *f;
  guint i;
  gint *n_ready, *n_done;
  gboolean won;
} Racer;

static gpointer race(gpointer data) {
  Racer *racer = data;
  g_autoptr(BlStore) store = bl_store_open(racer->f->folder, FALSE, NULL);
  g_autofree char *id = g_strdup_printf("m%u", racer->i);
  BlKeyBuffer key;
  BlClaim *own = claim(store, id);
  g_autoptr(GError) error = NULL;
  g_atomic_int_inc(racer->n_ready);
  while (g_atomic_int_get(racer->n_ready) < 8) g_thread_yield();
  racer->won = bl_room_reserve(store, id, MIB, NULL, &error);
  if (!racer->won) g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
  /* In the reservation's own clock tick it would count twice. */
  if (racer->won) g_usleep(20 * 1000);
  if (racer->won) put_bytes(store, chunk_key(key, id), MIB);
  g_atomic_int_inc(racer->n_done);
  while (g_atomic_int_get(racer->n_done) < 8) g_usleep(1000);
  if (racer->won) g_assert_true(bl_room_release(store, id, NULL));
  release(own);
  return NULL;
}

/* Room for three, and eight come at once. */
static void test_race(Fixture *f, gconstpointer data) {
  (void)data;
  gint n_ready = 0, n_done = 0;
  guint n_wins = 0;
  Racer racers[8];
  GThread *threads[8];
  set_limit(f->store, 3 * MIB + 2 * SLACK);
  for (guint i = 0; i < 8; i++) {
    racers[i] = (Racer){.f = f, .i = i, .n_ready = &n_ready, .n_done = &n_done};
    threads[i] = g_thread_new("racer", race, &racers[i]);
  }
  for (guint i = 0; i < 8; i++) {
    g_thread_join(threads[i]);
    n_wins += racers[i].won;
  }
  g_assert_cmpuint(n_wins, ==, 3);
  g_assert_cmpuint(used(f->store), ==, 3 * MIB);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_setenv("LC_ALL", "C", TRUE);
  static const struct {
    const char *path;
    void (*func)(Fixture *f, gconstpointer data);
  } tests[] = {{"/room/used", test_used},       {"/room/reserve", test_reserve},
               {"/room/resumed", test_resumed}, {"/room/donor_gone", test_donor_gone},
               {"/room/garbage", test_garbage}, {"/room/format", test_format},
               {"/room/dead", test_dead},       {"/room/race", test_race},
               {"/room/faults", test_faults},   {"/room/leftovers", test_leftovers}};
  g_test_add_func("/room/no-limit", test_no_limit);
  for (guint i = 0; i < G_N_ELEMENTS(tests); i++)
    g_test_add(tests[i].path, Fixture, NULL, set_up, tests[i].func, tear_down);
  return g_test_run();
}
