/* Verify: every byte of a checkpoint against its SHA-256 and block digests, on all cores. Quick:
 * only of the files whose objects changed, by stat, since every byte of them was last checked. */
#pragma once
#include "base/job.h"
#include "model/digests.h"

typedef enum {
  BL_FINDING_MISSING,    /* a chunk's object is not there */
  BL_FINDING_SIZE,       /* a chunk's object has another length */
  BL_FINDING_BLOCK,      /* a block's CRC32C differs */
  BL_FINDING_SHA256,     /* the file's SHA-256 differs (without digests no block can be named) */
  BL_FINDING_DIGESTS,    /* the bytes match the manifest, the digests object does not */
  BL_FINDING_INFO,       /* the info object breaks its rules */
  BL_FINDING_UNREADABLE, /* the store failed to read */
  BL_FINDING_FORMAT,     /* --deep: a header or the index breaks its rules */
  BL_FINDING_WARNING,    /* --deep: worth knowing, not wrong */
} BlFindingKind;

typedef struct {
  BlFindingKind kind;
  char *path;           /* NULL where it is about the whole checkpoint */
  guint64 offset, size; /* the bytes meant, of the file */
  guint64 block;        /* for BLOCK */
  char *text;           /* one line: what, which, what was found, what next */
} BlFinding;
void bl_finding_free(BlFinding *finding);

typedef struct {
  guint64 n_files, n_bytes;           /* that it was about */
  guint64 n_files_read, n_bytes_read; /* the others are unchanged: only where quick */
  guint64 n_files_bad;
  GPtrArray *findings; /* of BlFinding, by path and offset; at most 10,000, n_findings counts all */
  guint64 n_findings;
  gboolean is_bad;          /* a finding is more than a warning */
  gboolean digests_written; /* they were absent and everything was right */
  /* As the store's state has it, before and behind: something is gone or damaged. */
  gboolean was_degraded, is_degraded;
  char *not_recorded;      /* why that could not be written; NULL: it was, or had not to be */
  gboolean is_record_lost; /* a write failed, though the store can be written and is nobody's */
} BlVerifyResult;
void bl_verify_result_free(BlVerifyResult *result);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlVerifyResult, bl_verify_result_free)

typedef struct {
  gboolean deep;             /* also headers and the shard index */
  gboolean quick;            /* what is by stat as it was when it was last checked is not read */
  char **include, **exclude; /* globs, NULL: all */
  /* Only part `subset`, from 1, of n_subsets that together are all files; both 0: all. The same
   * parts every time, of much the same number of bytes. */
  guint subset, n_subsets;
  const char *state_folder; /* where identities are kept (identity.h); NULL: nowhere */
} BlVerifyOptions;

/* The most parts there can be. */
#define BL_VERIFY_MAX_SUBSETS 1000u

/* NULL only where the check itself could not be done (no such checkpoint, not READY, cancelled).
 * Bad data is a result with findings of other kinds than WARNING.
 *
 * Where the store can be written and nobody has claimed the checkpoint: digests that were absent
 * are written when all is right; missing and damaged files are recorded in the state. A check of
 * all files also takes off what is right again, and one that read all of them records its time. */
BlVerifyResult *bl_verify(BlStore *store, const char *checkpoint_id, const BlVerifyOptions *options,
                          BlJob *job, GError **error);
/* TRUE where a finding is more than a warning. */
gboolean bl_verify_result_is_bad(const BlVerifyResult *result);
