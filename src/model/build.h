/* A checkpoint being built under its claim, by import and by copy, in the one order that makes a
 * kill at any moment harmless (docs/architecture.md, "Importing"):
 *
 *   bl_build_open   claim -> what a dead owner left half put is swept -> what stands there is
 * loaded bl_build_run    objects the plan does not want go -> room -> manifest FAILED, naming every
 * chunk
 *                   -> files -> check of what is stored, sync -> digests, info -> claim still ours?
 *                   -> manifest READY
 *   bl_build_mend   or, where a READY one of the same content stands: files -> check, sync
 *   bl_build_set_ref
 *   bl_build_close  room -> claim
 *
 * The caller says how a file gets into the store; everything else is the same for all. */
#pragma once
#include "base/job.h"
#include "model/digests.h"
#include "model/info.h"
#include "model/transfer.h"
#include "store/claim.h"

typedef struct {
  /* To be read by the work's functions. */
  BlStore *store;
  BlJob *job;
  BlManifest *manifest;  /* opened: what stands there, NULL where nothing readable does; then the
                            plan */
  BlTransferPool *pool;  /* for the workers, while files are taken */
  gboolean is_read_only; /* nothing can be put: READY files are only compared */
  gboolean may_be_there; /* while files are taken: chunks may exist, whatever they hold */
  BlDigests *digests;    /* of the manifest's files, as they are reported */
  /* private */
  char *id;
  const char *operation;
  BlClaim *claim;
  gboolean is_unreadable;
  gboolean may_be_ready; /* its READY manifest was being written */
  guint8 *is_put;        /* per file of a READY checkpoint: objects of it were put */
  GMutex lock;           /* protects digests, is_put, and SHA-256s of the manifest */
  GMutex room_lock;      /* protects what follows; room is asked for under it, one at a time */
  guint64 *room;         /* per file: bytes reserved for it; NULL without a limit */
  guint64 open_room;     /* reserved, and not yet used by files that were reported */
} BlBuild;

typedef struct {
  /* Puts every chunk of file i of build->manifest, not yet durably, and reports the file. Called by
   * several threads; the claim was checked. */
  BlWorkFunc take_file;
  /* What is saved beside the manifest, of which every SHA-256 is known by then. Caller frees. Not
   * called by bl_build_mend. */
  BlInfo *(*make_info)(gpointer user, const BlManifest *manifest);
  /* Whether file i will share bytes that the store holds already, as far as can be told: it then
   * needs no room. May be NULL: none will. Any thread. */
  gboolean (*is_shared)(gpointer user, guint64 file);
  gpointer user;
  const char *phase; /* shown while files are taken: "importing" */
} BlBuildWork;

/* Claims the checkpoint and looks at what is there. operation: a verb, "import" or "copy", in the
 * claim and in messages; static. A manifest that cannot be read is noted. BUSY after wait_ms of
 * another's claim. DENIED where nothing can be put here, unless a READY checkpoint stands there:
 * then the build is read-only, without a claim, and for bl_build_mend alone. */
BlBuild *bl_build_open(BlStore *store, const char *checkpoint_id, const char *operation,
                       gint wait_ms, BlJob *job, GError **error);
/* Releases the claim, noting to the job where that fails. */
void bl_build_close(BlBuild *build);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlBuild, bl_build_close)

/* The plan of what will be there. A file's record; chunk_size 0: as the store prefers, which on a
 * local one is the file as a whole. INVALID where it has more chunks than can be named. */
BlManifestFile *bl_build_plan_add(BlStore *store, BlManifest *plan, const char *path, guint64 size,
                                  guint64 chunk_size, GError **error);
/* The plan is complete: sorts it and makes it FAILED as of now. */
gboolean bl_build_plan_finish(BlManifest *plan, const char *operation, GError **error);

/* NO_SPACE, before anything is written, where disk or limit have no room for it.
 *
 * Makes the checkpoint the plan's (taken over; it is build->manifest from then on), READY. Only
 * where no READY one stands. After a failure everything is taken back, the manifest last, or
 * *error says what is left; when CANCELLED what is there stays for the next try. A claim that was
 * lost: nothing more is touched. */
gboolean bl_build_run(BlBuild *build, BlManifest *plan, const BlBuildWork *work, GError **error);
/* Takes the files of the READY checkpoint that stands there; take_file puts what is bad. Its
 * manifest stays. *digests_put: the stored block digests were others, or none, and were replaced.
 */
gboolean bl_build_mend(BlBuild *build, const BlBuildWork *work, gboolean *digests_put,
                       GError **error);
/* Makes the READY manifest that stands there durable: whoever put it may have been killed right
 * after it was visible. */
gboolean bl_build_keep(BlBuild *build, GError **error);
/* Right before take_file writes n_bytes of the file: makes sure that there is room for them where a
 * store has a limit. NO_SPACE where there is none. Any thread. */
gboolean bl_build_reserve_file(BlBuild *build, guint64 file, guint64 n_bytes, GError **error);

/* What take_file found: the file's SHA-256, and the CRCs of its blocks (copied; none of an empty
 * file). is_put: objects of it were put. */
void bl_build_report_file(BlBuild *build, guint64 file, const guint8 sha256[BL_SHA256_SIZE],
                          const guint32 *crcs, gsize n_crcs, gboolean is_put);

/* The model's ref now means this checkpoint. always: also where it means another one, which is
 * noted. */
gboolean bl_build_set_ref(BlBuild *build, const char *model_id, const char *ref, gboolean always,
                          GError **error);
