/* Holds: an object that tells whether its owner lives, across processes and however the owner ends;
 * and what a killed writer leaves. */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "contract/contract.h"

#define CLAIM "w/m/id/claim"
#define N_CHILDREN 4
#define N_KEYS 25

static BlHoldState hold_state(BlStore *store, const char *key) {
  BlHoldState state = BL_HOLD_UNKNOWN;
  must(bl_store_is_held(store, key, &state, &error));
  return state;
}

/* FALSE, with the test skipped, where the store cannot hold, or says itself that its locks prove
 * nothing. */
static gboolean holds_work(Fixture *f) {
  if (!bl_store_can(f->store, BL_STORE_CAN_HOLD)) {
    must_fail(BL_ERROR_UNSUPPORTED, bl_store_put_held(f->store, CLAIM, "x", 1, &error) != NULL);
    g_test_skip("this store holds nothing");
    return FALSE;
  }
  contract_put(f->store, "w/m/id/plain", "x");
  BlHoldState state = hold_state(f->other, "w/m/id/plain");
  if (state == BL_HOLD_UNKNOWN) g_test_skip("locks prove nothing here, and the store says so");
  return state != BL_HOLD_UNKNOWN;
}

static void test_hold(Fixture *f, gconstpointer data) {
  (void)data;
  if (!holds_work(f)) return;
  BlHoldState state;
  must_fail(BL_ERROR_NOT_FOUND, bl_store_is_held(f->store, CLAIM, &state, &error));
  g_assert_cmpint(hold_state(f->store, "w/m/id/plain"), ==, BL_HOLD_FREE);

  BlStoreHold *hold;
  must((hold = bl_store_put_held(f->store, CLAIM, "owner", 5, &error)));
  contract_check(f->other, CLAIM, "owner");
  g_assert_cmpint(hold_state(f->other, CLAIM), ==, BL_HOLD_HELD);
  g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_HELD);
  must(bl_store_hold_check(hold, &error));
  must_fail(BL_ERROR_EXISTS, bl_store_put_held(f->other, CLAIM, "thief", 5, &error) != NULL);
  must_fail(BL_ERROR_EXISTS, bl_store_put(f->other, CLAIM, "thief", 5, 0, &error));
  /* Asking and refusing took nothing away. */
  g_assert_cmpint(hold_state(f->other, CLAIM), ==, BL_HOLD_HELD);
  bl_store_hold_free(hold);
  g_assert_cmpint(hold_state(f->other, CLAIM), ==, BL_HOLD_FREE);
  contract_check(f->other, CLAIM, "owner");
  bl_store_hold_free(NULL);
}

/* The object is removed, moved away or replaced: its owner is told, and what takes its place is not
 * held. */
static void test_hold_lost(Fixture *f, gconstpointer data) {
  (void)data;
  if (!holds_work(f)) return;
  BlStoreHold *removed, *moved, *replaced;
  must((removed = bl_store_put_held(f->store, "w/m/id/a", "owner", 5, &error)));
  must((moved = bl_store_put_held(f->store, "w/m/id/b", "owner", 5, &error)));
  must((replaced = bl_store_put_held(f->store, "w/m/id/c", "owner", 5, &error)));
  must(bl_store_remove(f->other, "w/m/id/a", &error));
  must_fail(BL_ERROR_BUSY, bl_store_hold_check(removed, &error));
  contract_put(f->other, "w/m/id/a", "owner");
  must_fail(BL_ERROR_BUSY, bl_store_hold_check(removed, &error));
  g_assert_cmpint(hold_state(f->other, "w/m/id/a"), ==, BL_HOLD_FREE);

  must(bl_store_move(f->other, "w/m/id/b", "w/m/id/b.dead", &error));
  must_fail(BL_ERROR_BUSY, bl_store_hold_check(moved, &error));
  g_assert_cmpint(hold_state(f->other, "w/m/id/b.dead"), ==, BL_HOLD_HELD);
  BlStoreHold *next;
  must((next = bl_store_put_held(f->other, "w/m/id/b", "next", 4, &error)));
  must_fail(BL_ERROR_BUSY, bl_store_hold_check(moved, &error));
  bl_store_hold_free(moved);
  must(bl_store_hold_check(next, &error));
  g_assert_cmpint(hold_state(f->store, "w/m/id/b"), ==, BL_HOLD_HELD);

  must(bl_store_put(f->other, "w/m/id/c", "owner", 5, BL_PUT_REPLACE, &error));
  must_fail(BL_ERROR_BUSY, bl_store_hold_check(replaced, &error));
  bl_store_hold_free(removed);
  bl_store_hold_free(replaced);
  bl_store_hold_free(next);
}

static void test_hold_shared(Fixture *f, gconstpointer data) {
  (void)data;
  if (!holds_work(f)) {
    if (bl_store_can(f->store, BL_STORE_CAN_HOLD))
      must_fail(BL_ERROR_UNSUPPORTED,
                bl_store_hold_shared(f->store, "w/m/id/plain", &error) != NULL);
    return;
  }
  const char *key = "w/m/id/plain";
  BlStoreHold *one, *two, *owner;
  must_fail(BL_ERROR_NOT_FOUND, bl_store_hold_shared(f->store, CLAIM, &error) != NULL);
  must((one = bl_store_hold_shared(f->store, key, &error)));
  must((two = bl_store_hold_shared(f->store, key, &error)));
  g_assert_cmpint(hold_state(f->store, key), ==, BL_HOLD_HELD);
  g_assert_cmpint(hold_state(f->other, key), ==, BL_HOLD_HELD);
  must(bl_store_hold_check(one, &error));
  bl_store_hold_free(one);
  g_assert_cmpint(hold_state(f->other, key), ==, BL_HOLD_HELD);
  must(bl_store_put(f->other, key, "next", 4, BL_PUT_REPLACE, &error));
  must_fail(BL_ERROR_BUSY, bl_store_hold_check(two, &error));
  g_assert_cmpint(hold_state(f->other, key), ==, BL_HOLD_FREE);
  bl_store_hold_free(two);

  must((owner = bl_store_put_held(f->store, CLAIM, "owner", 5, &error)));
  must_fail(BL_ERROR_BUSY, bl_store_hold_shared(f->other, CLAIM, &error) != NULL);
  g_assert_cmpint(hold_state(f->other, CLAIM), ==, BL_HOLD_HELD);
  bl_store_hold_free(owner);
  must((one = bl_store_hold_shared(f->other, CLAIM, &error)));
  g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_HELD);
  bl_store_hold_free(one);
  g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_FREE);
}

/* How a child tells that it is ready; then it waits to be told the end, or to be killed. */
typedef struct {
  int ready[2], go_on[2];
} Gate;

static void gate_open(Gate *gate) {
  g_assert_cmpint(pipe(gate->ready), ==, 0);
  g_assert_cmpint(pipe(gate->go_on), ==, 0);
}

static void gate_close(Gate *gate) {
  for (int i = 0; i < 2; i++) {
    close(gate->ready[i]);
    close(gate->go_on[i]);
  }
}

static gboolean gate_pass(int to, int from) {
  char byte = 0;
  return write(to, &byte, 1) == 1 && read(from, &byte, 1) == 1;
}

static int hold_and_wait(BlStore *store, gpointer user) {
  Gate *gate = user;
  BlStoreHold *hold = bl_store_put_held(store, CLAIM, "child", 5, NULL);
  if (hold == NULL || !gate_pass(gate->ready[1], gate->go_on[0])) return 1;
  return 0; /* the hold is not freed: the end of the process is */
}

/* The owner is killed, or just ends: either way the object is free at once. */
static void test_hold_of_process(Fixture *f, gconstpointer data) {
  (void)data;
  if (!holds_work(f)) return;
  char byte = 0;
  for (guint round = 0; round < 2; round++) {
    Gate gate;
    gate_open(&gate);
    pid_t pid = contract_fork(f, hold_and_wait, &gate);
    g_assert_cmpint(read(gate.ready[0], &byte, 1), ==, 1);
    g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_HELD);
    if (round == 0)
      g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
    else
      g_assert_cmpint(write(gate.go_on[1], &byte, 1), ==, 1);
    g_assert_cmpint(contract_wait(pid), ==, round == 0 ? -SIGKILL : 0);
    g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_FREE);
    contract_check(f->store, CLAIM, "child");
    must(bl_store_remove(f->store, CLAIM, &error));
    gate_close(&gate);
  }
}

static int hold_shared_and_wait(BlStore *store, gpointer user) {
  Gate *gate = user;
  BlStoreHold *hold = bl_store_hold_shared(store, CLAIM, NULL);
  return hold != NULL && gate_pass(gate->ready[1], gate->go_on[0]) ? 0 : 1;
}

/* Readers in other processes, one killed, one ending. */
static void test_hold_shared_of_processes(Fixture *f, gconstpointer data) {
  (void)data;
  if (!holds_work(f)) return;
  char byte = 0;
  Gate gates[2];
  pid_t pids[2];
  contract_put(f->store, CLAIM, "child");
  for (guint i = 0; i < 2; i++) {
    gate_open(&gates[i]);
    pids[i] = contract_fork(f, hold_shared_and_wait, &gates[i]);
    g_assert_cmpint(read(gates[i].ready[0], &byte, 1), ==, 1);
    g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_HELD);
  }
  g_assert_cmpint(kill(pids[0], SIGKILL), ==, 0);
  g_assert_cmpint(contract_wait(pids[0]), ==, -SIGKILL);
  g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_HELD);
  g_assert_cmpint(write(gates[1].go_on[1], &byte, 1), ==, 1);
  g_assert_cmpint(contract_wait(pids[1]), ==, 0);
  g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_FREE);
  for (guint i = 0; i < 2; i++) gate_close(&gates[i]);
}

static int hold_what_changes(BlStore *store, gpointer user) {
  gint *over = user;
  while (!g_atomic_int_get(over)) {
    g_autoptr(GError) error = NULL;
    BlStoreHold *hold = bl_store_hold_shared(store, CLAIM, &error);
    BlHoldState state = BL_HOLD_HELD;
    if (hold == NULL && !g_error_matches(error, BL_ERROR, BL_ERROR_NOT_FOUND) &&
        !g_error_matches(error, BL_ERROR, BL_ERROR_BUSY))
      return 1;
    /* While it still is the object held, everyone sees that. */
    if (hold != NULL && bl_store_is_held(store, CLAIM, &state, NULL) && state != BL_HOLD_HELD &&
        bl_store_hold_check(hold, NULL))
      return 2;
    bl_store_hold_free(hold);
  }
  return 0;
}

static void test_hold_shared_race(Fixture *f, gconstpointer data) {
  (void)data;
  if (!holds_work(f)) return;
  gint *over = mmap(NULL, sizeof *over, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_assert_true(over != MAP_FAILED);
  pid_t pids[N_CHILDREN];
  for (guint i = 0; i < N_CHILDREN; i++) pids[i] = contract_fork(f, hold_what_changes, over);
  for (guint i = 0; i < 300; i++) {
    must(bl_store_put(f->store, CLAIM, "x", 1, BL_PUT_REPLACE, &error));
    hold_state(f->other, CLAIM);
    if (i % 3 == 0) must(bl_store_remove(f->store, CLAIM, &error));
  }
  g_atomic_int_set(over, 1);
  for (guint i = 0; i < N_CHILDREN; i++) g_assert_cmpint(contract_wait(pids[i]), ==, 0);
  g_assert_cmpint(hold_state(f->store, CLAIM), ==, BL_HOLD_FREE);
  munmap(over, sizeof *over);
}

typedef struct {
  gint n_wins[N_KEYS];
  gint over;
} HoldRace;

static int race_for_holds(BlStore *store, gpointer user) {
  HoldRace *race = user;
  for (guint i = 0; i < N_KEYS; i++) {
    g_autofree char *key = g_strdup_printf("w/m/id/claim-%u", i);
    g_autoptr(GError) error = NULL;
    if (bl_store_put_held(store, key, "child", 5, &error) != NULL)
      g_atomic_int_inc(&race->n_wins[i]);
    else if (!g_error_matches(error, BL_ERROR, BL_ERROR_EXISTS))
      return 1;
  }
  while (!g_atomic_int_get(&race->over)) sched_yield();
  return 0;
}

/* One of many wins, and there is no instant at which the object is seen but not held. */
static void test_hold_race(Fixture *f, gconstpointer data) {
  (void)data;
  if (!holds_work(f)) return;
  HoldRace *race =
      mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_assert_true(race != MAP_FAILED);
  pid_t pids[N_CHILDREN];
  for (guint i = 0; i < N_CHILDREN; i++) pids[i] = contract_fork(f, race_for_holds, race);
  for (guint i = 0; i < N_KEYS; i++) {
    g_autofree char *key = g_strdup_printf("w/m/id/claim-%u", i);
    guint64 size;
    while (!bl_store_size(f->store, key, &size, NULL)) sched_yield();
    g_assert_cmpint(hold_state(f->store, key), ==, BL_HOLD_HELD);
    contract_check(f->store, key, "child");
  }
  g_atomic_int_set(&race->over, 1);
  for (guint i = 0; i < N_CHILDREN; i++) g_assert_cmpint(contract_wait(pids[i]), ==, 0);
  for (guint i = 0; i < N_KEYS; i++) g_assert_cmpint(race->n_wins[i], ==, 1);
  munmap(race, sizeof *race);
}

static int write_and_wait(BlStore *store, gpointer user) {
  Gate *gate = user;
  g_autofree guint8 *bytes = contract_bytes(1 << 20, 0);
  BlStoreWriter *writer = bl_store_writer_open(store, "w/m/id/half", 2 << 20, 0, NULL);
  if (writer == NULL || !bl_store_writer_write(writer, bytes, 1 << 20, NULL)) return 1;
  return gate_pass(gate->ready[1], gate->go_on[0]) ? 0 : 1;
}

static guint count_files(const char *path) {
  g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
  if (dir == NULL) return 1;
  guint n = 0;
  for (const char *name; (name = g_dir_read_name(dir)) != NULL;) {
    g_autofree char *child = g_build_filename(path, name, NULL);
    n += count_files(child);
  }
  return n;
}

static void test_sweep(Fixture *f, gconstpointer data) {
  (void)data;
  guint n_removed = 99;
  contract_put(f->store, "w/m/id/manifest", "stays");
  contract_put(f->store, "w/m/id/chunks/0", "stays");
  must(bl_store_sweep(f->store, "w/m/id/", &n_removed, &error));
  g_assert_cmpuint(n_removed, ==, 0);
  must(bl_store_sweep(f->store, "w/m/absent/", NULL, &error));
  contract_check(f->other, "w/m/id/manifest", "stays");
  contract_check(f->other, "w/m/id/chunks/0", "stays");
}

/* A killed writer's object is never seen, and a sweep removes what it left and nothing else. */
static void test_sweep_leftover(Fixture *f, gconstpointer data) {
  (void)data;
  guint n_removed = 99;
  contract_put(f->store, "w/m/id/manifest", "stays");
  contract_put(f->store, "w/m/id/chunks/0", "stays");
  guint n_before = count_files(f->folder);
  Gate gate;
  char byte;
  gate_open(&gate);
  pid_t pid = contract_fork(f, write_and_wait, &gate);
  g_assert_cmpint(read(gate.ready[0], &byte, 1), ==, 1);
  g_assert_cmpint(kill(pid, SIGKILL), ==, 0);
  g_assert_cmpint(contract_wait(pid), ==, -SIGKILL);
  gate_close(&gate);

  contract_check_absent(f->store, "w/m/id/half");
  g_autofree char *keys = contract_list(f->store, "");
  g_assert_cmpstr(keys, ==, "w/m/id/chunks/0 w/m/id/manifest");
  guint n_left = count_files(f->folder) - n_before;
  must(bl_store_sweep(f->other, "w/m/id/", &n_removed, &error));
  g_assert_cmpuint(n_removed, ==, n_left);
  g_assert_cmpuint(count_files(f->folder), ==, n_before);
  contract_check(f->store, "w/m/id/manifest", "stays");
  contract_check(f->store, "w/m/id/chunks/0", "stays");
  contract_put(f->store, "w/m/id/half", "now whole");
}

const ContractTest contract_holds[] = {
    {"hold", test_hold, FALSE},
    {"hold-lost", test_hold_lost, FALSE},
    {"hold-shared", test_hold_shared, FALSE},
    {"hold-shared-of-processes", test_hold_shared_of_processes, TRUE},
    {"hold-shared-race", test_hold_shared_race, TRUE},
    {"hold-of-process", test_hold_of_process, TRUE},
    {"hold-race", test_hold_race, TRUE},
    {"sweep", test_sweep, FALSE},
    {"sweep-leftover", test_sweep_leftover, TRUE},
    {NULL, NULL, FALSE},
};
