/* Objects that share one file's bytes: what one does to its own is nothing to the others. */
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "contract/contract.h"

#define FROM "w/m/a/x"
#define TO "w/m/b/x"
#define N_SHARERS 4
#define N_ROUNDS 30
#define SIZE 50000

static int open_object(BlStore *store, const char *key) {
  int fd;
  must((fd = bl_store_open_fd(store, key, &error)) >= 0);
  return fd;
}

/* FALSE, with the test skipped, where nothing can be shared: then nothing is left either. */
static gboolean sharing_works(Fixture *f) {
  contract_put(f->store, "w/m/probe/x", "probe");
  bl_autofd fd = open_object(f->store, "w/m/probe/x");
  g_autoptr(GError) fault = NULL;
  gboolean works = bl_store_share_fd(f->store, "w/m/probe/y", fd, 0, &fault);
  if (!works) {
    g_assert_error(fault, BL_ERROR, BL_ERROR_UNSUPPORTED);
    g_assert_false(f->target->clones);
    contract_check_absent(f->other, "w/m/probe/y");
    must_fail(BL_ERROR_UNSUPPORTED,
              bl_store_share_fd(f->store, "w/m/probe/x", fd, BL_PUT_REPLACE, &error));
    contract_check(f->other, "w/m/probe/x", "probe");
    g_test_skip("this store shares nothing");
  }
  must(bl_store_remove(f->store, "w/m/probe/x", &error));
  must(bl_store_remove(f->store, "w/m/probe/y", &error));
  return works;
}

static void check_no_temporaries(Fixture *f) {
  guint n = 99;
  must(bl_store_sweep(f->store, "w/m/a/", &n, &error));
  g_assert_cmpuint(n, ==, 0);
  must(bl_store_sweep(f->store, "w/m/b/", &n, &error));
  g_assert_cmpuint(n, ==, 0);
}

static void test_share(Fixture *f, gconstpointer data) {
  (void)data;
  if (!sharing_works(f)) return;
  BlObjectStat a, b;
  contract_put(f->store, FROM, "shared bytes");
  bl_autofd fd = open_object(f->store, FROM);
  must(bl_store_share_fd(f->store, TO, fd, 0, &error));
  contract_check(f->other, TO, "shared bytes");
  must(bl_store_stat(f->other, FROM, &a, &error));
  must(bl_store_stat(f->other, TO, &b, &error));
  if (a.inode == b.inode) {
    g_assert_cmpuint(a.device, ==, b.device);
    g_assert_cmpuint(b.n_links, ==, 2);
  }
  must_fail(BL_ERROR_EXISTS, bl_store_share_fd(f->other, TO, fd, 0, &error));
  must_fail(BL_ERROR_EXISTS, bl_store_share_fd(f->other, FROM, fd, BL_PUT_DURABLE, &error));
  must(bl_store_sync(f->store, &error));
  must(bl_store_remove(f->store, FROM, &error));
  contract_check(f->other, TO, "shared bytes");
  contract_put(f->store, FROM, "another");
  contract_check(f->other, TO, "shared bytes");
  check_no_temporaries(f);
}

static void test_share_replace(Fixture *f, gconstpointer data) {
  (void)data;
  if (!sharing_works(f)) return;
  contract_put(f->store, FROM, "shared bytes");
  contract_put(f->store, TO, "damaged");
  bl_autofd old = open_object(f->store, TO), fd = open_object(f->store, FROM);
  must(bl_store_share_fd(f->store, TO, fd, BL_PUT_REPLACE, &error));
  contract_check(f->other, TO, "shared bytes");
  char bytes[16];
  g_assert_cmpint(read(old, bytes, sizeof bytes), ==, 7);
  g_assert_cmpmem(bytes, 7, "damaged", 7);
  /* Both are the same file by now, or one is to be its own replacement. */
  must(bl_store_share_fd(f->store, TO, fd, BL_PUT_REPLACE | BL_PUT_DURABLE, &error));
  must(bl_store_share_fd(f->store, "w/m/b/new", fd, BL_PUT_REPLACE | BL_PUT_VOLATILE, &error));
  must(bl_store_share_fd(f->store, FROM, fd, BL_PUT_REPLACE, &error));
  contract_check(f->other, FROM, "shared bytes");
  contract_check(f->other, TO, "shared bytes");
  contract_check(f->other, "w/m/b/new", "shared bytes");
  check_no_temporaries(f);
}

/* A file keeps being shareable while any name of it is left, and no longer. */
static void test_share_removed(Fixture *f, gconstpointer data) {
  (void)data;
  if (!sharing_works(f)) return;
  contract_put(f->store, FROM, "shared bytes");
  bl_autofd fd = open_object(f->store, FROM);
  must(bl_store_share_fd(f->store, TO, fd, 0, &error));
  BlObjectStat a, b;
  must(bl_store_stat(f->store, FROM, &a, &error));
  must(bl_store_stat(f->store, TO, &b, &error));
  must(bl_store_remove(f->other, FROM, &error));
  if (a.inode == b.inode) must(bl_store_share_fd(f->store, "w/m/c/x", fd, 0, &error));
  must(bl_store_remove(f->other, TO, &error));
  must(bl_store_remove(f->other, "w/m/c/x", &error));
  must_fail(BL_ERROR_NOT_FOUND, bl_store_share_fd(f->store, TO, fd, 0, &error));
  must_fail(BL_ERROR_NOT_FOUND, bl_store_share_fd(f->store, TO, fd, BL_PUT_REPLACE, &error));
  contract_check_absent(f->store, TO);
  check_no_temporaries(f);
}

typedef struct {
  gint n_ready[N_ROUNDS], n_wins[N_ROUNDS];
  gint next_id;
} ShareRace;

static char *round_key(const char *word, guint round) {
  return g_strdup_printf("w/m/%s-%u/x", word, round);
}

/* Each has a file of its own, or (odd rounds) all have the same one. */
static int race_to_share(BlStore *store, gpointer user) {
  ShareRace *race = user;
  guint id = (guint)g_atomic_int_add(&race->next_id, 1);
  for (guint round = 0; round < N_ROUNDS; round++) {
    g_autofree char *to = round_key("to", round);
    g_autofree char *from = round_key("from", round % 2 == 0 ? id : 0);
    g_autoptr(GError) error = NULL;
    bl_autofd fd = bl_store_open_fd(store, from, NULL);
    g_atomic_int_inc(&race->n_ready[round]);
    while (g_atomic_int_get(&race->n_ready[round]) < N_SHARERS) sched_yield();
    if (fd < 0) return 1;
    if (bl_store_share_fd(store, to, fd, 0, &error))
      g_atomic_int_inc(&race->n_wins[round]);
    else if (!g_error_matches(error, BL_ERROR, BL_ERROR_EXISTS))
      return 2;
  }
  return 0;
}

static void test_share_race(Fixture *f, gconstpointer data) {
  (void)data;
  if (!sharing_works(f)) return;
  for (guint i = 0; i < N_SHARERS; i++) {
    g_autofree char *from = round_key("from", i);
    contract_put(f->store, from, "equal bytes");
  }
  ShareRace *race =
      mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_assert_true(race != MAP_FAILED);
  pid_t pids[N_SHARERS];
  for (guint i = 0; i < N_SHARERS; i++) pids[i] = contract_fork(f, race_to_share, race);
  for (guint i = 0; i < N_SHARERS; i++) g_assert_cmpint(contract_wait(pids[i]), ==, 0);
  for (guint round = 0; round < N_ROUNDS; round++) {
    g_autofree char *to = round_key("to", round);
    g_assert_cmpint(race->n_wins[round], ==, 1);
    contract_check(f->store, to, "equal bytes");
  }
  munmap(race, sizeof *race);
}

typedef struct {
  gint over, n_shared;
} RemoveRace;

/* Shares what is being removed, into a folder that comes and goes. */
static int share_what_goes(BlStore *store, gpointer user) {
  RemoveRace *race = user;
  g_autofree guint8 *bytes = contract_bytes(SIZE, 5);
  while (!g_atomic_int_get(&race->over)) {
    g_autoptr(GError) error = NULL;
    bl_autofd fd = bl_store_open_fd(store, FROM, NULL);
    if (fd < 0) continue;
    BlPutFlags flags = g_random_boolean() ? BL_PUT_REPLACE : 0;
    if (!bl_store_share_fd(store, TO, fd, flags, &error)) {
      if (g_error_matches(error, BL_ERROR, BL_ERROR_NOT_FOUND)) continue;
      g_printerr("# %s\n", error->message);
      return 1;
    }
    g_atomic_int_inc(&race->n_shared);
    g_autofree char *loaded = NULL;
    gsize size = 0;
    if (!bl_store_load(store, TO, SIZE, &loaded, &size, NULL) || size != SIZE ||
        memcmp(loaded, bytes, size) != 0)
      return 2;
    if (!bl_store_remove(store, TO, NULL)) return 3;
  }
  return 0;
}

static void test_share_beside_remove(Fixture *f, gconstpointer data) {
  (void)data;
  if (!sharing_works(f)) return;
  RemoveRace *race =
      mmap(NULL, sizeof *race, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_assert_true(race != MAP_FAILED);
  g_autofree guint8 *bytes = contract_bytes(SIZE, 5);
  pid_t pid = contract_fork(f, share_what_goes, race);
  gint64 until = g_get_monotonic_time() + 20 * G_USEC_PER_SEC;
  while (g_atomic_int_get(&race->n_shared) < 50 && g_get_monotonic_time() < until) {
    must(bl_store_put(f->store, FROM, bytes, SIZE, 0, &error));
    g_usleep((gulong)g_random_int_range(0, 200));
    must(bl_store_remove(f->store, FROM, &error));
  }
  g_atomic_int_set(&race->over, 1);
  g_assert_cmpint(contract_wait(pid), ==, 0);
  g_assert_cmpint(race->n_shared, >=, 1);
  munmap(race, sizeof *race);
  must(bl_store_remove(f->store, TO, &error));
  check_no_temporaries(f);
}

const ContractTest contract_sharing[] = {
    {"share", test_share, FALSE},
    {"share-replace", test_share_replace, FALSE},
    {"share-removed", test_share_removed, FALSE},
    {"share-race", test_share_race, TRUE},
    {"share-beside-remove", test_share_beside_remove, TRUE},
    {NULL, NULL, FALSE},
};
