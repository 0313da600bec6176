#include <errno.h>
#include <glib/gstdio.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/folder.h"
#include "contract/contract.h"

/* "rename" or "rename,link": the process runs without renameat2's RENAME_NOREPLACE, as on NFS, and
 * without linkat too, as on vfat. */
#define WITHOUT_VARIABLE "BALLAST_TEST_WITHOUT"

/* More folders to test on, such as loop-mounted file systems: "vfat=/mnt/v:xfs=/mnt/x". */
#define DIRS_VARIABLE "BALLAST_TEST_DIRS"

static gint n_stores;

void contract_put(BlStore *store, const char *key, const char *text) {
  must(bl_store_put(store, key, text, strlen(text), 0, &error));
}

void contract_check(BlStore *store, const char *key, const char *text) {
  g_autofree char *bytes = NULL;
  gsize size = 0;
  must(bl_store_load(store, key, 1 << 20, &bytes, &size, &error));
  g_assert_cmpmem(bytes, size, text, strlen(text));
}

void contract_check_absent(BlStore *store, const char *key) {
  guint64 size;
  must_fail(BL_ERROR_NOT_FOUND, bl_store_size(store, key, &size, &error));
}

static gboolean collect_key(const char *key, const BlObjectStat *object, gpointer user,
                            GError **error) {
  (void)object;
  (void)error;
  g_ptr_array_add(user, g_strdup(key));
  return TRUE;
}

static gint compare_keys(gconstpointer a, gconstpointer b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char *contract_list(BlStore *store, const char *prefix) {
  g_autoptr(GPtrArray) keys = g_ptr_array_new_with_free_func(g_free);
  must(bl_store_list(store, prefix, collect_key, keys, &error));
  g_ptr_array_sort(keys, compare_keys);
  g_ptr_array_add(keys, NULL);
  return g_strjoinv(" ", (char **)keys->pdata);
}

guint8 *contract_bytes(gsize size, guint seed) {
  guint8 *bytes = g_malloc(MAX(size, 1));
  for (gsize i = 0; i < size; i++) bytes[i] = (guint8)((i + seed) * 2654435761u >> 11);
  return bytes;
}

pid_t contract_fork(const Fixture *f, ContractChild func, gpointer user) {
  pid_t pid = fork();
  g_assert_cmpint(pid, >=, 0);
  if (pid > 0) return pid;
  BlStore *store = bl_store_open(f->url, FALSE, NULL);
  int code = store != NULL ? func(store, user) : 99;
  bl_store_free(store);
  _exit(code);
}

int contract_wait(pid_t pid) {
  int status;
  g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void set_up(Fixture *f, gconstpointer data) {
  f->target = data;
  int n = g_atomic_int_add(&n_stores, 1);
  g_autofree char *base = NULL;
  if (f->target->root != NULL) {
    f->folder = g_strdup_printf("%s/ballast-contract-%d-%d", f->target->root, getpid(), n);
    g_assert_cmpint(g_mkdir(f->folder, 0777), ==, 0);
    base = g_strconcat(f->folder, "/store", NULL);
  } else {
    base = g_strdup_printf("memory:contract-%d", n);
  }
  f->url = g_strconcat(f->target->with_fault ? "fault::" : "", base, NULL);
  must((f->store = bl_store_open(f->url, TRUE, &error)));
  must((f->other = bl_store_open(f->url, FALSE, &error)));
}

static void tear_down(Fixture *f, gconstpointer data) {
  (void)data;
  bl_store_free(f->store);
  bl_store_free(f->other);
  if (f->folder != NULL) remove_tree(f->folder);
  g_free(f->folder);
  g_free(f->url);
}

static void add_tests(Target *target, const ContractTest *tests) {
  for (; tests->name != NULL; tests++) {
    if (tests->needs_processes && target->root == NULL) continue;
    g_autofree char *path = g_strconcat("/store/", target->name, "/", tests->name, NULL);
    g_test_add_vtable(path, sizeof(Fixture), target, (GTestFixtureFunc)(void (*)(void))set_up,
                      (GTestFixtureFunc)(void (*)(void))tests->func,
                      (GTestFixtureFunc)(void (*)(void))tear_down);
  }
}

static void target_free(gpointer data) {
  Target *target = data;
  g_free(target->name);
  g_free(target->root);
  g_free(target);
}

static void add_target(GPtrArray *targets, const char *name, const char *root,
                       gboolean with_fault) {
  Target *target = g_new(Target, 1);
  *target = (Target){
      .name = g_strdup(name),
      .root = g_strdup(root),
      .with_fault = with_fault,
      .folds_names = g_str_has_prefix(name, "vfat") || g_str_has_prefix(name, "exfat"),
      .clones = g_str_has_prefix(name, "xfs") || g_str_has_prefix(name, "btrfs"),
  };
  g_ptr_array_add(targets, target);
  add_tests(target, contract_objects);
  add_tests(target, contract_names);
  add_tests(target, contract_holds);
  add_tests(target, contract_sharing);
  add_tests(target, contract_strays);
  add_tests(target, contract_races);
  add_tests(target, contract_random);
}

static void add_given_folders(GPtrArray *targets) {
  g_auto(GStrv) dirs = g_strsplit(g_getenv(DIRS_VARIABLE), ":", -1);
  for (char **dir = dirs; *dir != NULL; dir++) {
    char *equals = strchr(*dir, '=');
    if (equals == NULL) g_error("%s: \"%s\" is not NAME=FOLDER", DIRS_VARIABLE, *dir);
    *equals = '\0';
    add_target(targets, *dir, equals + 1, FALSE);
  }
}

/* The kernel itself refuses the calls, in this process and its children, for good. */
static void refuse_calls(const char *without) {
  guint32 link_verdict =
      strstr(without, "link") != NULL ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW;
  const guint32 rename_flags = offsetof(struct seccomp_data, args[4]);
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, link_verdict),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, rename_flags),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {G_N_ELEMENTS(code), code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    g_error("%s: %s", WITHOUT_VARIABLE, g_strerror(errno));
  g_assert_cmpint(renameat2(-1, "a", -1, "b", RENAME_NOREPLACE), ==, -1);
  g_assert_cmpint(errno, ==, EINVAL);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_setenv("BALLAST_TESTING", "1", TRUE);
  if (g_getenv(WITHOUT_VARIABLE) != NULL) refuse_calls(g_getenv(WITHOUT_VARIABLE));
  g_autoptr(GPtrArray) targets = g_ptr_array_new_with_free_func(target_free);
  add_target(targets, "memory", NULL, FALSE);
  add_target(targets, "fault-memory", NULL, TRUE);
  add_target(targets, "dir", g_get_tmp_dir(), FALSE);
  add_target(targets, "fault-dir", g_get_tmp_dir(), TRUE);
  if (g_getenv(DIRS_VARIABLE) != NULL) add_given_folders(targets);
  return g_test_run();
}
