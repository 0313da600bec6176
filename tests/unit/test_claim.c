/* Claims: one owner at a time, dead owners found out, live ones left alone. Times are short: beats
 * every 50 ms, renewal within 400 ms, watched for 600 ms. */
#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "store/claim.h"
#include "store/dir.h"
#include "store/fault.h"
#include "store/memory.h"
#include "store/owner.h"

#define PREFIX "weight/models/m/"
#define WATCH_MS 600

typedef struct {
  char *folder;
  BlStore *store;
} Fixture;

static BlStore *open_dir(const char *folder) {
  g_autoptr(GError) error = NULL;
  BlStore *store = bl_dir_store_open(folder, TRUE, &error);
  g_assert_no_error(error);
  return store;
}

/* data: a name of a kind of store. */
static void set_up(Fixture *f, gconstpointer data) {
  f->folder = g_dir_make_tmp("ballast-claim-XXXXXX", NULL);
  if (strcmp(data, "dir") == 0)
    f->store = open_dir(f->folder);
  else
    f->store =
        bl_memory_store_new(strcmp(data, "memory") == 0 ? BL_MEMORY_STORE_CAPS : BL_STORE_CAN_LIST);
}

static gboolean forget_key(const char *key, const BlObjectStat *object, gpointer user,
                           GError **error) {
  (void)object;
  (void)error;
  g_ptr_array_add(user, g_strdup(key));
  return TRUE;
}

static GPtrArray *list_keys(BlStore *store) {
  GPtrArray *keys = g_ptr_array_new_with_free_func(g_free);
  g_assert_true(bl_store_list(store, "", forget_key, keys, NULL));
  return keys;
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(GPtrArray) keys = list_keys(f->store);
  for (guint i = 0; i < keys->len; i++)
    g_assert_true(bl_store_remove(f->store, g_ptr_array_index(keys, i), NULL));
  bl_store_free(f->store);
  const char *const left[] = {"weight/models/m", "weight/models", "weight", "store.json", "order"};
  for (guint i = 0; i < G_N_ELEMENTS(left); i++) {
    g_autofree char *path = g_build_filename(f->folder, left[i], NULL);
    g_remove(path);
  }
  g_assert_cmpint(g_rmdir(f->folder), ==, 0);
  g_free(f->folder);
}

static BlClaim *acquire(BlStore *store, gint wait_ms, BlErrorCode expected) {
  g_autoptr(GError) error = NULL;
  BlClaim *claim = bl_claim_acquire(store, PREFIX, "import", wait_ms, NULL, &error);
  if (claim == NULL) g_assert_error(error, BL_ERROR, (gint)expected);
  return claim;
}

static void release(BlClaim *claim) {
  g_autoptr(GError) error = NULL;
  g_assert_true(bl_claim_release(claim, &error));
  g_assert_no_error(error);
}

static void test_one_owner(Fixture *f, gconstpointer data) {
  (void)data;
  BlClaim *claim = acquire(f->store, 0, BL_ERROR_INTERNAL);
  g_assert_nonnull(claim);
  g_assert_true(bl_claim_check(claim, NULL));
  g_assert_null(acquire(f->store, 0, BL_ERROR_BUSY));
  g_assert_null(acquire(f->store, 300, BL_ERROR_BUSY));
  BlClaimState state;
  g_autofree char *owner = NULL, *operation = NULL;
  g_assert_true(bl_claim_peek(f->store, PREFIX, &state, &owner, &operation, NULL));
  g_assert_cmpint(state, ==, BL_CLAIM_LIVE);
  g_assert_cmpstr(operation, ==, "import");
  g_assert_nonnull(strstr(owner, g_get_host_name()));
  g_assert_true(bl_claim_check(claim, NULL));
  release(claim);
  g_assert_true(bl_claim_peek(f->store, PREFIX, &state, NULL, NULL, NULL));
  g_assert_cmpint(state, ==, BL_CLAIM_NONE);
  g_autoptr(GPtrArray) keys = list_keys(f->store);
  g_assert_cmpuint(keys->len, ==, 0);
  release(acquire(f->store, 0, BL_ERROR_INTERNAL));
}

static gpointer release_later(gpointer claim) {
  g_usleep(300 * 1000);
  release(claim);
  return NULL;
}

static void test_wait(Fixture *f, gconstpointer data) {
  (void)data;
  BlClaim *claim = acquire(f->store, 0, BL_ERROR_INTERNAL);
  GThread *thread = g_thread_new("release", release_later, claim);
  BlClaim *next = acquire(f->store, -1, BL_ERROR_INTERNAL);
  g_assert_nonnull(next);
  g_thread_join(thread);
  release(next);
}

/* A killed owner's claim is taken at once: its lock is free. */
static void test_killed(Fixture *f, gconstpointer data) {
  (void)data;
  int ready[2];
  char byte;
  g_assert_cmpint(pipe(ready), ==, 0);
  pid_t child = fork();
  if (child == 0) {
    BlStore *store = bl_dir_store_open(f->folder, FALSE, NULL);
    BlClaim *claim = bl_claim_acquire(store, PREFIX, "import", 0, NULL, NULL);
    if (claim == NULL || write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  g_assert_cmpint(read(ready[0], &byte, 1), ==, 1);
  g_assert_null(acquire(f->store, 0, BL_ERROR_BUSY));
  g_assert_cmpint(kill(child, SIGKILL), ==, 0);
  g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
  gint64 begin = g_get_monotonic_time();
  BlClaim *claim = acquire(f->store, 0, BL_ERROR_INTERNAL);
  g_assert_nonnull(claim);
  g_assert_cmpint(g_get_monotonic_time() - begin, <, WATCH_MS * 1000);
  release(claim);
  close(ready[0]);
  close(ready[1]);
}

static void put_claim(BlStore *store, BlOwner *owner) {
  g_autofree char *text = bl_owner_to_json(owner);
  g_assert_true(bl_store_put(store, PREFIX "claim", text, strlen(text), 0, NULL));
}

static BlOwner *owner_elsewhere(void) {
  BlOwner *owner = bl_owner_new_self("import");
  g_free(owner->boot_id);
  owner->boot_id = g_strdup("00000000-0000-4000-8000-000000000000");
  g_free(owner->host);
  owner->host = g_strdup("elsewhere");
  return owner;
}

/* Nothing proves that an owner on another machine is dead but a heartbeat that stays. */
static void test_elsewhere_dead(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(BlOwner) owner = owner_elsewhere();
  put_claim(f->store, owner);
  gint64 begin = g_get_monotonic_time();
  BlClaim *claim = acquire(f->store, 0, BL_ERROR_INTERNAL);
  g_assert_nonnull(claim);
  g_assert_cmpint(g_get_monotonic_time() - begin, >=, WATCH_MS * 1000);
  release(claim);
  g_autoptr(GPtrArray) keys = list_keys(f->store);
  g_assert_cmpuint(keys->len, ==, 0);
}

typedef struct {
  BlStore *store;
  char *key;
  gint stop;
} Beater;

static gpointer beat_on(gpointer data) {
  Beater *beater = data;
  for (int i = 0; !g_atomic_int_get(&beater->stop); i++) {
    g_autofree char *text = g_strdup_printf("%d", i);
    g_assert_true(
        bl_store_put(beater->store, beater->key, text, strlen(text), BL_PUT_REPLACE, NULL));
    g_usleep(50 * 1000);
  }
  return NULL;
}

static void test_elsewhere_alive(Fixture *f, gconstpointer data) {
  (void)data;
  g_autoptr(BlOwner) owner = owner_elsewhere();
  put_claim(f->store, owner);
  Beater beater = {.store = f->store, .key = g_strconcat(PREFIX "claim-beat/", owner->token, NULL)};
  GThread *thread = g_thread_new("beat", beat_on, &beater);
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_claim_acquire(f->store, PREFIX, "import", 0, NULL, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_BUSY);
  g_assert_nonnull(strstr(error->message, "elsewhere"));
  g_atomic_int_set(&beater.stop, 1);
  g_thread_join(thread);
  g_free(beater.key);
}

static void test_unreadable(Fixture *f, gconstpointer data) {
  (void)data;
  g_assert_true(bl_store_put(f->store, PREFIX "claim", "{\"host\":3", 9, 0, NULL));
  BlClaim *claim = acquire(f->store, 0, BL_ERROR_INTERNAL);
  g_assert_nonnull(claim);
  release(claim);
}

/* An owner whose claim was taken from it notices, and leaves the new one alone. */
static void test_taken_over(Fixture *f, gconstpointer data) {
  (void)data;
  BlClaim *claim = acquire(f->store, 0, BL_ERROR_INTERNAL);
  g_assert_true(bl_store_remove(f->store, PREFIX "claim", NULL));
  g_autoptr(BlOwner) other = owner_elsewhere();
  put_claim(f->store, other);
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_claim_check(claim, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_BUSY);
  release(claim);
  guint64 size;
  g_assert_true(bl_store_size(f->store, PREFIX "claim", &size, NULL));
}

static void test_not_renewed(Fixture *f, gconstpointer data) {
  (void)data;
  BlStore *outer = bl_fault_store_new(f->store);
  f->store = outer;
  BlClaim *claim = acquire(outer, 0, BL_ERROR_INTERNAL);
  BlFaultRule rule = {.op = BL_FAULT_PUT, .n = 1, .fails = TRUE, .code = BL_ERROR_IO};
  bl_fault_store_set_rule(outer, &rule);
  g_assert_true(bl_claim_check(claim, NULL));
  g_usleep(600 * 1000);
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_claim_check(claim, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_BUSY);
  bl_fault_store_set_rule(outer, &(BlFaultRule){0});
  g_usleep(200 * 1000);
  g_assert_true(bl_claim_check(claim, NULL));
  release(claim);
}

/* Processes fight for the claim, some are killed holding it; an exclusive file tells whether two
 * ever held it. */
static void fight(const char *folder, guint seed) {
  g_autofree char *order = g_build_filename(folder, "order", NULL);
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  BlStore *store = bl_dir_store_open(folder, FALSE, NULL);
  for (int i = 0; i < 15; i++) {
    BlClaim *claim = bl_claim_acquire(store, PREFIX, "import", -1, NULL, NULL);
    if (claim == NULL) _exit(2);
    int fd = g_open(order, O_CREAT | O_EXCL | O_WRONLY, 0600);
    if (fd < 0) _exit(3);
    g_usleep((gulong)g_rand_int_range(rand, 0, 3000));
    close(fd);
    g_unlink(order);
    if (g_rand_int_range(rand, 0, 8) == 0) raise(SIGKILL);
    if (!bl_claim_release(claim, NULL)) _exit(4);
  }
  _exit(0);
}

static void test_fight(Fixture *f, gconstpointer data) {
  (void)data;
  pid_t children[6];
  guint seed = g_test_rand_int() & 0xffff;
  for (guint i = 0; i < G_N_ELEMENTS(children); i++) {
    children[i] = fork();
    if (children[i] == 0) fight(f->folder, seed + i);
  }
  for (guint i = 0; i < G_N_ELEMENTS(children); i++) {
    int status;
    g_assert_cmpint(waitpid(children[i], &status, 0), ==, children[i]);
    if (WIFEXITED(status)) g_assert_cmpint(WEXITSTATUS(status), ==, 0);
    if (WIFSIGNALED(status)) g_assert_cmpint(WTERMSIG(status), ==, SIGKILL);
  }
  release(acquire(f->store, 0, BL_ERROR_INTERNAL));
}

static void add(const char *name, const char *kinds, void (*test)(Fixture *, gconstpointer)) {
  g_auto(GStrv) list = g_strsplit(kinds, " ", 0);
  for (char **kind = list; *kind != NULL; kind++) {
    g_autofree char *path = g_strdup_printf("/claim/%s/%s", name, *kind);
    g_test_add(path, Fixture, g_intern_string(*kind), set_up, test, tear_down);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  bl_claim_set_times(50, 400, WATCH_MS);
  add("one-owner", "memory dir plain", test_one_owner);
  add("wait", "memory dir plain", test_wait);
  add("killed", "dir", test_killed);
  add("elsewhere-dead", "memory dir plain", test_elsewhere_dead);
  add("elsewhere-alive", "memory dir plain", test_elsewhere_alive);
  add("unreadable", "memory dir plain", test_unreadable);
  add("taken-over", "memory dir plain", test_taken_over);
  add("not-renewed", "memory dir plain", test_not_renewed);
  add("fight", "dir", test_fight);
  return g_test_run();
}
