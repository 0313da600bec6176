/* Many threads and many processes on the same keys. What a reader sees is judged by itself: an
 * object is one byte value, repeated as often as the value says. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "contract/contract.h"

#define N_RACERS 4
#define N_ROUNDS 20
#define N_CHURNS 150
#define N_KILLS 12
#define SIZE_MAX_OF_VALUE (60000u + 255u * 97u)

static gsize size_of_value(guint8 value) {
  return 60000u + value * 97u;
}

static gboolean is_whole(const char *bytes, gsize size) {
  if (size == 0 || size != size_of_value((guint8)bytes[0])) return FALSE;
  for (gsize i = 1; i < size; i++) {
    if (bytes[i] != bytes[0]) return FALSE;
  }
  return TRUE;
}

/* Shared by all racers, threads or processes. */
typedef struct {
  gint n_ready[N_ROUNDS], n_wins[N_ROUNDS], winner[N_ROUNDS];
  gint n_faults; /* what must never happen */
  gint n_done;
  gint next_id;
  gboolean is_churn;
} Race;

typedef struct {
  BlStore *store;
  Race *race;
} Racer;

/* TRUE where it is the failure that the rules allow. */
static gboolean is_allowed(const GError *error, BlErrorCode code) {
  return error == NULL || g_error_matches(error, BL_ERROR, (gint)code);
}

static void read_whole(BlStore *store, const char *key, Race *race) {
  g_autofree char *bytes = NULL;
  gsize size;
  g_autoptr(GError) error = NULL;
  if (bl_store_load(store, key, SIZE_MAX_OF_VALUE, &bytes, &size, &error)) {
    if (!is_whole(bytes, size)) g_atomic_int_inc(&race->n_faults);
  } else if (!is_allowed(error, BL_ERROR_NOT_FOUND)) {
    g_atomic_int_inc(&race->n_faults);
  }
}

static gboolean write_by_writer(BlStore *store, const char *key, const char *bytes, gsize size,
                                BlPutFlags flags, GError **error) {
  g_autoptr(BlStoreWriter) writer = bl_store_writer_open(store, key, size, flags, error);
  return writer != NULL && bl_store_writer_write(writer, bytes, size / 2, error) &&
         bl_store_writer_write(writer, bytes + size / 2, size - size / 2, error) &&
         bl_store_writer_commit(writer, error);
}

/* Some rounds share a folder, some make a new one. */
static char *round_key(guint round) {
  return g_strdup_printf("w/m/%u/chunk-%u", round / 4, round);
}

/* All start a round at once and put the same new key. */
static int race_puts(BlStore *store, Race *race) {
  gint id = g_atomic_int_add(&race->next_id, 1) + 1;
  gsize size = size_of_value((guint8)id);
  g_autofree char *bytes = g_strnfill(size, (char)id);
  for (guint round = 0; round < N_ROUNDS; round++) {
    g_autofree char *key = round_key(round);
    g_autoptr(GError) error = NULL;
    g_atomic_int_inc(&race->n_ready[round]);
    while (g_atomic_int_get(&race->n_ready[round]) < N_RACERS) {
      sched_yield();
      read_whole(store, key, race);
    }
    gboolean won = (round + (guint)id) % 2 == 0
                       ? bl_store_put(store, key, bytes, size, 0, &error)
                       : write_by_writer(store, key, bytes, size, 0, &error);
    if (won) {
      g_atomic_int_inc(&race->n_wins[round]);
      g_atomic_int_set(&race->winner[round], id);
    } else if (!is_allowed(error, BL_ERROR_EXISTS)) {
      g_atomic_int_inc(&race->n_faults);
    }
    read_whole(store, key, race);
  }
  return 0;
}

/* Everything at once on three keys: put, replace, write, remove, move, list, read. */
static void churn_once(BlStore *store, Race *race, guint i) {
  static const char *const keys[] = {"w/m/id/a", "w/m/id/b", "w/m/id/c"};
  const char *key = keys[g_random_int_range(0, 3)];
  guint8 value = (guint8)g_random_int_range(1, 255);
  gsize size = size_of_value(value);
  g_autofree char *bytes = g_strnfill(size, (char)value);
  g_autoptr(GError) error = NULL;
  BlErrorCode allowed = BL_ERROR_EXISTS;
  switch (i % 6) {
    case 0:
      bl_store_put(store, key, bytes, size, 0, &error);
      break;
    case 1:
      bl_store_put(store, key, bytes, size, BL_PUT_REPLACE, &error);
      break;
    case 2:
      write_by_writer(store, key, bytes, size, BL_PUT_REPLACE, &error);
      break;
    case 3:
      bl_store_remove(store, key, &error);
      break;
    case 4:
      allowed = BL_ERROR_NOT_FOUND;
      if (!bl_store_move(store, key, keys[g_random_int_range(0, 3)], &error) &&
          error->code == BL_ERROR_EXISTS)
        g_clear_error(&error);
      break;
    default:
      write_by_writer(store, key, bytes, size, 0, &error);
  }
  if (!is_allowed(error, allowed)) {
    g_printerr("# churn %u: %s\n", i % 6, error->message);
    g_atomic_int_inc(&race->n_faults);
  }
  read_whole(store, keys[g_random_int_range(0, 3)], race);
}

static int churn(BlStore *store, Race *race) {
  for (guint i = 0; i < N_CHURNS; i++) churn_once(store, race, (guint)g_random_int_range(0, 6));
  return 0;
}

static int run_racer(BlStore *store, gpointer user) {
  Race *race = user;
  int code = race->is_churn ? churn(store, race) : race_puts(store, race);
  g_atomic_int_inc(&race->n_done);
  return code;
}

static gpointer run_thread(gpointer data) {
  Racer *racer = data;
  run_racer(racer->store, racer->race);
  return NULL;
}

static void run_threads(Fixture *f, Race *race) {
  Racer racers[N_RACERS];
  GThread *threads[N_RACERS];
  for (guint i = 0; i < N_RACERS; i++) {
    racers[i] = (Racer){i % 2 == 0 ? f->store : f->other, race};
    threads[i] = g_thread_new("racer", run_thread, &racers[i]);
  }
  for (guint i = 0; i < N_RACERS; i++) g_thread_join(threads[i]);
}

static void run_processes(Fixture *f, Race *race) {
  pid_t pids[N_RACERS];
  for (guint i = 0; i < N_RACERS; i++) pids[i] = contract_fork(f, run_racer, race);
  for (guint i = 0; i < N_RACERS; i++) g_assert_cmpint(contract_wait(pids[i]), ==, 0);
}

static Race *race_new(gboolean is_churn) {
  Race *race = mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_assert_true(race != MAP_FAILED);
  race->is_churn = is_churn;
  return race;
}

static void race_free(Race *race) {
  munmap(race, sizeof *race);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Race, race_free)

static void check_winners(Fixture *f, Race *race) {
  g_assert_cmpint(race->n_faults, ==, 0);
  for (guint round = 0; round < N_ROUNDS; round++) {
    g_autofree char *key = round_key(round);
    g_autofree char *bytes = NULL;
    gsize size;
    g_assert_cmpint(race->n_wins[round], ==, 1);
    must(bl_store_load(f->store, key, SIZE_MAX_OF_VALUE, &bytes, &size, &error));
    g_assert_true(is_whole(bytes, size));
    g_assert_cmpint(bytes[0], ==, race->winner[round]);
  }
}

static void test_puts_of_threads(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(Race) race = race_new(FALSE);
  run_threads(f, race);
  check_winners(f, race);
}

static void test_puts_of_processes(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(Race) race = race_new(FALSE);
  run_processes(f, race);
  check_winners(f, race);
}

static void test_churn_of_threads(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(Race) race = race_new(TRUE);
  run_threads(f, race);
  g_assert_cmpint(race->n_faults, ==, 0);
  must(bl_store_sync(f->store, &error));
}

static void test_churn_of_processes(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(Race) race = race_new(TRUE);
  run_processes(f, race);
  g_assert_cmpint(race->n_faults, ==, 0);
}

/* Processes are killed wherever they are: nothing half written is ever seen, and a sweep leaves
 * nothing behind. */
static void test_kills(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(Race) race = race_new(TRUE);
  pid_t pids[2] = {contract_fork(f, run_racer, race), contract_fork(f, run_racer, race)};
  for (guint i = 0; i < N_KILLS; i++) {
    g_usleep((gulong)g_random_int_range(500, 15000));
    kill(pids[i % 2], SIGKILL);
    contract_wait(pids[i % 2]);
    pids[i % 2] = contract_fork(f, run_racer, race);
    read_whole(f->store, "w/m/id/a", race);
  }
  for (guint i = 0; i < 2; i++) contract_wait(pids[i]);
  g_assert_cmpint(race->n_faults, ==, 0);

  guint n_removed = 99;
  must(bl_store_sweep(f->store, "w/m/id/", NULL, &error));
  must(bl_store_sweep(f->store, "w/m/id/", &n_removed, &error));
  g_assert_cmpuint(n_removed, ==, 0);
  static const char *const keys[] = {"w/m/id/a", "w/m/id/b", "w/m/id/c"};
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++) {
    read_whole(f->store, keys[i], race);
    must(bl_store_remove(f->store, keys[i], &error));
    contract_put(f->store, keys[i], "usable");
  }
  g_assert_cmpint(race->n_faults, ==, 0);
}

typedef struct {
  Fixture *f;
  guint i;
  gint *n_ready, *n_wins, *n_faults;
  gboolean one_source; /* all move one object; else all move to one key */
} Mover;

static gpointer run_mover(gpointer data) {
  Mover *m = data;
  g_autofree char *mine = g_strdup_printf("w/m/id/mine-%u", m->i);
  g_autoptr(GError) error = NULL;
  g_atomic_int_inc(m->n_ready);
  while (g_atomic_int_get(m->n_ready) < N_RACERS) sched_yield();
  BlStore *store = m->i % 2 == 0 ? m->f->store : m->f->other;
  gboolean moved = bl_store_move(store, m->one_source ? "w/m/id/one" : mine,
                                 m->one_source ? mine : "w/m/id/one", &error);
  if (moved)
    g_atomic_int_inc(m->n_wins);
  else if (!is_allowed(error, m->one_source ? BL_ERROR_NOT_FOUND : BL_ERROR_EXISTS))
    g_atomic_int_inc(m->n_faults);
  return NULL;
}

static void race_movers(Fixture *f, gboolean one_source) {
  gint n_ready = 0, n_wins = 0, n_faults = 0;
  Mover movers[N_RACERS];
  GThread *threads[N_RACERS];
  for (guint i = 0; i < N_RACERS; i++) {
    movers[i] = (Mover){f, i, &n_ready, &n_wins, &n_faults, one_source};
    threads[i] = g_thread_new("mover", run_mover, &movers[i]);
  }
  for (guint i = 0; i < N_RACERS; i++) g_thread_join(threads[i]);
  g_assert_cmpint(n_faults, ==, 0);
  g_assert_cmpint(n_wins, ==, 1);
}

static guint count_mine(Fixture *f) {
  guint n = 0;
  for (guint i = 0; i < N_RACERS; i++) {
    g_autofree char *mine = g_strdup_printf("w/m/id/mine-%u", i);
    guint64 size;
    n += bl_store_size(f->store, mine, &size, NULL) ? 1 : 0;
  }
  return n;
}

static void remove_mine(Fixture *f) {
  for (guint i = 0; i < N_RACERS; i++) {
    g_autofree char *mine = g_strdup_printf("w/m/id/mine-%u", i);
    must(bl_store_remove(f->store, mine, &error));
  }
}

static void test_moves(Fixture *f, gconstpointer data) {
  (void)data;
  if (!bl_store_can(f->store, BL_STORE_CAN_MOVE)) {
    g_test_skip("this store moves nothing");
    return;
  }
  for (guint round = 0; round < N_ROUNDS; round++) {
    contract_put(f->store, "w/m/id/one", "x");
    race_movers(f, TRUE);
    contract_check_absent(f->store, "w/m/id/one");
    g_assert_cmpuint(count_mine(f), ==, 1);
    remove_mine(f);

    for (guint i = 0; i < N_RACERS; i++) {
      g_autofree char *mine = g_strdup_printf("w/m/id/mine-%u", i);
      contract_put(f->store, mine, mine);
    }
    race_movers(f, FALSE);
    g_assert_cmpuint(count_mine(f), ==, N_RACERS - 1);
    remove_mine(f);
    must(bl_store_remove(f->store, "w/m/id/one", &error));
  }
}

const ContractTest contract_races[] = {
    {"puts-of-threads", test_puts_of_threads, FALSE},
    {"puts-of-processes", test_puts_of_processes, TRUE},
    {"churn-of-threads", test_churn_of_threads, FALSE},
    {"churn-of-processes", test_churn_of_processes, TRUE},
    {"kills", test_kills, TRUE},
    {"moves", test_moves, FALSE},
    {NULL, NULL, FALSE},
};
