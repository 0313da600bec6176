/* What a verification writes into the store: block digests that were absent, and the state. */
#pragma once
#include "base/job.h"
#include "model/digests.h"
#include "model/state.h"

/* What is wrong with a file: bits, since several may be. */
enum {
  BL_VERIFY_MISSING = 1 << 0,
  BL_VERIFY_DAMAGED = 1 << 1,
  BL_VERIFY_UNJUDGED = 1 << 2, /* it could not be read, for a reason that says nothing about it */
};

typedef struct {
  const BlManifest *manifest;         /* as it was checked */
  const guint8 *faults;               /* per file: BL_VERIFY_… */
  const BlDigests *digests;           /* to be written; NULL: none */
  gboolean is_complete;               /* what is not in faults is right: the lists are made anew */
  gint64 checked_at;                  /* Unix seconds where every byte was read, else 0 */
  gboolean was_degraded, is_degraded; /* out */
  gboolean digests_written;           /* out */
  gboolean is_lost;                   /* out: a write failed */
} BlVerifyRecord;

/* Writes what is to be written, under the claim, and only while the manifest is still the one that
 * was checked. Never waits. state: what the store had before. What kept it from writing, NULL where
 * nothing did; caller frees. A failure that is neither of rights nor of a claim is a warning. */
char *bl_verify_record(BlVerifyRecord *record, BlStore *store, const BlState *state, BlJob *job);
