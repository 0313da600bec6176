/* A store that wraps any other and makes it fail or wait at a chosen call, and counts calls and
 * bytes. For tests.
 *
 * A failure comes before the wrapped store is asked: it does nothing. Every item of get_many and
 * put_many is one call of get or put. Counting of calls begins at 1, over all threads.
 *
 * End-to-end tests reach it by URL, and only where the environment has BALLAST_TESTING=1:
 *
 *   fault:op=put,n=3,error=no-space,times=1:file:///path
 *
 *   op=WORD       the calls meant: stat get put writer-open write commit sync remove list open-fd
 *                 move clone put-held hold-check is-held free-space sweep adopt share hold-shared
 *                 list-strays remove-stray settings, or any (the default)
 *
 *   n=N           the first of them that is hit (default 1)
 *
 *   times=N       how many are hit from there on; 0, the default, is every one
 *
 *   error=WORD    how they fail: a name of docs/errors.md; without it they do not
 *
 *   delay-ms=N    how long they wait first
 *
 *   counts=PATH   when the store is closed, a line "WORD CALLS BYTES" for each op that was called
 *                 is appended there
 *
 * Options are separated by ",", and ":" ends them; a PATH has neither. */
#pragma once
#include "base/error.h"
#include "store/store.h"

typedef enum {
  BL_FAULT_STAT,
  BL_FAULT_GET,
  BL_FAULT_PUT,
  BL_FAULT_WRITER_OPEN,
  BL_FAULT_WRITE, /* of a writer */
  BL_FAULT_COMMIT,
  BL_FAULT_SYNC,
  BL_FAULT_REMOVE,
  BL_FAULT_LIST, /* list_folders too */
  BL_FAULT_OPEN_FD,
  BL_FAULT_MOVE,
  BL_FAULT_CLONE,
  BL_FAULT_PUT_HELD,
  BL_FAULT_HOLD_CHECK,
  BL_FAULT_IS_HELD,
  BL_FAULT_FREE_SPACE,
  BL_FAULT_SWEEP,
  BL_FAULT_ADOPT,
  BL_FAULT_SHARE,
  BL_FAULT_HOLD_SHARED,
  BL_FAULT_LIST_STRAYS,
  BL_FAULT_REMOVE_STRAY,
  BL_FAULT_SETTINGS, /* get_settings and set_settings */
  BL_FAULT_N_OPS,
  BL_FAULT_ANY = BL_FAULT_N_OPS,
} BlFaultOp;

typedef struct {
  BlFaultOp op;   /* the calls meant */
  guint64 n;      /* the first of them that is hit, from 1 on; 0: none */
  guint64 times;  /* how many are hit from there on; 0: every one */
  gboolean fails; /* with code */
  BlErrorCode code;
  guint delay_ms; /* before it fails or goes on */
} BlFaultRule;

/* Takes inner over. Until a rule is set, every call goes through. */
BlStore *bl_fault_store_new(BlStore *inner);
/* By URL, as above. INVALID without BALLAST_TESTING=1 and for a bad option. */
BlStore *bl_fault_store_open(const char *url, gboolean create, GError **error);

/* Replaces the rule; the calls that it counts are counted anew. Not while other threads use the
 * store. */
void bl_fault_store_set_rule(BlStore *store, const BlFaultRule *rule);
/* Calls the rule has hit. A sweep over n is through when it stays 0. */
guint64 bl_fault_store_n_hits(BlStore *store);

/* Calls made since the start or the last reset, those that were made to fail included; ANY: of all
 * ops. */
guint64 bl_fault_store_n_calls(BlStore *store, BlFaultOp op);
/* Bytes that the wrapped store took or gave with success in calls of this kind: PUT, PUT_HELD,
 * WRITE, CLONE, GET. */
guint64 bl_fault_store_n_bytes(BlStore *store, BlFaultOp op);
void bl_fault_store_reset_counts(BlStore *store);
