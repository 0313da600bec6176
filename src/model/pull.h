/* Pull: a checkpoint's files, or some of them, into a folder, checked, each atomic and durable. */
#pragma once
#include "base/job.h"
#include "model/fallback.h"

typedef enum {
  BL_LINK_AUTO,
  BL_LINK_REFLINK,
  BL_LINK_HARDLINK,
  BL_LINK_SYMLINK,
  BL_LINK_COPY
} BlLinkMode;

typedef struct {
  BlLinkMode link;
  gboolean force;             /* replace files that differ */
  gboolean verify;            /* hash also what was linked */
  char **include, **exclude;  /* globs, NULL: all */
  const BlFallback *fallback; /* gives what the store has lost or damaged; NULL: nothing does */
} BlPullOptions;

typedef struct {
  guint64 n_files, n_bytes; /* of the files asked for */
  guint64 n_files_kept;     /* were there and right */
  guint64 n_files_written, n_bytes_written;
  guint64 n_files_fallback; /* of those written: bytes of them came from the fallback */
  BlLinkMode link;          /* how the files were made; COPY or REFLINK where AUTO was asked */
} BlPullResult;

/* output: the target folder, made if need be. Refuses with EXISTS before the first write when files
 * there differ (named). */
gboolean bl_pull(BlStore *store, const char *checkpoint_id, const char *output,
                 const BlPullOptions *options, BlJob *job, BlPullResult *result, GError **error);
/* One file to one path. */
gboolean bl_pull_file(BlStore *store, const char *checkpoint_id, const char *path,
                      const char *output, const BlPullOptions *options, BlJob *job,
                      BlPullResult *result, GError **error);
/* Checked bytes [first, last] (last G_MAXUINT64: to the end) of one file to fd. Each block is
 * checked by its digest before it is written, a whole file by SHA-256 as well: where only that
 * fails, it is CORRUPT though all was written. A file without digests is hashed whole before its
 * first byte is written, and again with it. What the store cannot give, or has damaged, comes from
 * the fallback (may be NULL). A pipe that nobody reads any more (EPIPE) is a quiet
 * end; the caller has SIGPIPE ignored. */
gboolean bl_cat(BlStore *store, const char *checkpoint_id, const char *path, guint64 first,
                guint64 last, int fd, const BlFallback *fallback, BlJob *job, GError **error);
