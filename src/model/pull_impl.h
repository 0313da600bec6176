/* One pull at work: what pull.c (order and record), pull_plan.c (looks, before anything is
 * written), pull_make.c (writes) and hf_export.c (a pull of another order) share. Nothing else
 * includes it. */
#pragma once
#include "model/info.h"
#include "model/pull.h"
#include "model/pull_target.h"
#include "model/reader.h"
#include "model/transfer.h"

typedef enum {
  BL_PULL_ABSENT,  /* to be written */
  BL_PULL_RIGHT,   /* there, with the right bytes */
  BL_PULL_DIFFERS, /* something else is there that may be replaced */
  BL_PULL_MADE,    /* a whole, checked temporary, not yet durable */
  BL_PULL_DONE,    /* in place */
} BlPullState;

/* Up to so many files each is made durable by itself: a pull of few files does not wait for
 * whatever else the file system has to write. */
#define BL_PULL_N_SYNC_EACH 32
/* Names that a message lists before it only counts. */
#define BL_PULL_N_NAMES 5

typedef struct {
  BlStore *store;
  const BlPullOptions *options;
  BlJob *job;
  BlStoreHold *hold; /* on the checkpoint; NULL where there is none */
  BlManifest *manifest;
  BlDigests *digests; /* perhaps without entries */
  BlInfo *info;
  BlReader *reader; /* without digests: whole files are hashed here */
  BlTransferPool *pool;
  BlTarget *target;        /* NULL while the folder is not there */
  const char *single_name; /* of bl_pull_file: the name in the target; else NULL */
  GPtrArray *paths; /* of char*: each file's path in the target, where that is another than in the
                       manifest; such a target has no record. Else NULL */
  guint32 *files;   /* the n files asked for, largest first */
  guint64 n, n_bytes;
  guint8 *state; /* BlPullState of each of the manifest's files; each belongs to who works on it */
  BlLinkMode link;     /* as asked; AUTO becomes REFLINK or COPY before the first file */
  guint64 hashed_anew; /* atomic: bytes that were hashed and will be written all the same */
  guint64 n_written, n_bytes_written; /* atomic */
  GMutex lock;                        /* protects the names that differ */
  char *differing[BL_PULL_N_NAMES];
  guint64 n_differing;
} BlPull;

/* Opens the checkpoint. Caller frees. */
BlPull *bl_pull_new(BlStore *store, const char *checkpoint_id, const BlPullOptions *options,
                    BlJob *job, GError **error);
void bl_pull_free(BlPull *pull);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlPull, bl_pull_free)
guint64 bl_pull_count_to_write(const BlPull *pull);
/* Makes what is not right yet, after the last looks that need the target. */
gboolean bl_pull_write_files(BlPull *pull, guint64 n_to_write, GError **error);
void bl_pull_fill_result(const BlPull *pull, BlPullResult *result);

/* The file's path in the target. */
const char *bl_pull_path(const BlPull *pull, guint64 file);

/* pull_plan.c */

/* Picks the files by the options' globs. NOT_FOUND where globs match nothing. */
gboolean bl_pull_select(BlPull *pull, GError **error);
/* Looks at every file in the target and sets its state. EXISTS where something is in the way. */
gboolean bl_pull_examine(BlPull *pull, GError **error);
/* Looks at one. */
gboolean bl_pull_examine_file(BlPull *pull, guint64 file, guint worker, BlPullState *state,
                              GError **error);
/* RIGHT where the descriptor is of a regular file with the file's bytes, else DIFFERS. */
gboolean bl_pull_compare_fd(BlPull *pull, guint64 file, int fd, guint worker, BlPullState *state,
                            GError **error);
/* UNSUPPORTED where the target's file system takes two of the paths for one. */
gboolean bl_pull_check_names(BlPull *pull, GError **error);
/* NO_SPACE, with numbers, where what is to be written will not fit. */
gboolean bl_pull_check_space(BlPull *pull, GError **error);

/* pull_make.c */

/* How the file is made: COPY, REFLINK, HARDLINK or SYMLINK. */
BlLinkMode bl_pull_how(const BlPull *pull, guint64 file);
/* A descriptor of the file's only object, which has the right type and length. -1 on error. */
int bl_pull_open_object(const BlPull *pull, guint64 file, GError **error);
/* The absolute path behind such a descriptor. NULL on error. */
char *bl_pull_object_path(int fd, GError **error);
/* Decides what AUTO is, and that REFLINK is possible. */
gboolean bl_pull_choose_link(BlPull *pull, GError **error);
/* Hashes the bytes of a descriptor. */
gboolean bl_pull_hash_fd(BlPull *pull, int fd, guint64 size, guint worker, BlHasher **hasher,
                         GError **error);
/* For bytes that were shared, not read: hashes the descriptor where that is asked (CORRUPT where it
 * is not the file), else only counts them. */
gboolean bl_pull_check_linked(BlPull *pull, guint64 file, int fd, guint worker, GError **error);
/* Makes every file that is ABSENT or DIFFERS, durably. Where that fails, what was made whole is in
 * place all the same. */
gboolean bl_pull_make_files(BlPull *pull, GError **error);
