/* The store contract's suite: every test here runs against every store. Where a store lacks a
 * capability, the test shows that it says UNSUPPORTED. */
#pragma once
#include <string.h>
#include <sys/types.h>

#include "base/error.h"
#include "store/store.h"

/* One kind of store to test. */
typedef struct {
  char *name;
  char *root;           /* a folder to make stores in; NULL: in memory */
  gboolean with_fault;  /* wrapped in the fault store, which lets everything through */
  gboolean folds_names; /* case and dots at the end do not count in a name (vfat, exfat) */
  gboolean clones;      /* the file system shares bytes between files (xfs, btrfs) */
} Target;

/* A fresh store of the kind, seen through two instances. */
typedef struct {
  const Target *target;
  char *folder; /* of this test; NULL: in memory */
  char *url;
  BlStore *store, *other;
} Fixture;

typedef struct {
  const char *name;
  void (*func)(Fixture *f, gconstpointer target);
  gboolean needs_processes; /* left out for a store that lives in one process */
} ContractTest;

/* Each ends with a NULL name. */
extern const ContractTest contract_objects[];
extern const ContractTest contract_names[];
extern const ContractTest contract_holds[];
extern const ContractTest contract_sharing[];
extern const ContractTest contract_strays[];
extern const ContractTest contract_races[];
extern const ContractTest contract_random[];

/* The call must succeed, or fail with the code. */
#define must(call)                    \
  G_STMT_START {                      \
    g_autoptr(GError) error = NULL;   \
    gboolean must_done = (call) != 0; \
    g_assert_no_error(error);         \
    g_assert_true(must_done);         \
  }                                   \
  G_STMT_END
#define must_fail(failure, call)                    \
  G_STMT_START {                                    \
    g_autoptr(GError) error = NULL;                 \
    gboolean must_failed = !(call);                 \
    g_assert_error(error, BL_ERROR, failure);       \
    g_assert_true(must_failed);                     \
    g_assert_cmpuint(strlen(error->message), >, 0); \
  }                                                 \
  G_STMT_END

/* Puts text, fails the test where the object's bytes are not the text, or where it is there. */
void contract_put(BlStore *store, const char *key, const char *text);
void contract_check(BlStore *store, const char *key, const char *text);
void contract_check_absent(BlStore *store, const char *key);
/* Keys below the prefix, sorted and joined by " ". Caller frees. */
char *contract_list(BlStore *store, const char *prefix);
/* Bytes with a pattern that tells every offset from its neighbours. Caller frees. */
guint8 *contract_bytes(gsize size, guint seed);

/* Runs func in a child process, on an instance of its own; its result is the exit code. */
typedef int (*ContractChild)(BlStore *store, gpointer user);
pid_t contract_fork(const Fixture *f, ContractChild func, gpointer user);
/* The child's exit code, or minus the signal that ended it. */
int contract_wait(pid_t pid);
