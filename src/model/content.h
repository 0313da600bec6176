/* Which bytes the store holds already: the files of its READY checkpoints by size and SHA-256, so
 * that equal files of other checkpoints can share one object.
 *
 * Only files that are stored whole, as one object, are in it. It is a hint: an object may go at any
 * time, so whoever takes one opens it first and shares the descriptor (bl_store_share_fd). */
#pragma once
#include "base/job.h"
#include "model/manifest.h"

typedef struct {
  const char *checkpoint_id; /* owned by the content */
  guint64 size;
  guint8 sha256[BL_SHA256_SIZE];
  guint8 path_sha256[BL_SHA256_SIZE]; /* of its path */
} BlContentFile;

typedef struct BlContent BlContent;

/* Reads the READY manifests of all checkpoints but `except` (may be NULL), in parallel, and keeps
 * the files whose size is one of sizes (sorted here; NULL: all), 400,000 of them at most. Manifests
 * that cannot be read are passed over. A store that cannot list, or cannot share, gives an empty
 * one. */
BlContent *bl_content_load(BlStore *store, const char *except, guint64 *sizes, gsize n_sizes,
                           BlJob *job, GError **error);
void bl_content_free(BlContent *content);
/* The key of the file's object. */
char *bl_content_key(const BlContentFile *file, char key[512]);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlContent, bl_content_free)
/* The files of that size, ordered by SHA-256; borrowed. *n may be 0. */
const BlContentFile *bl_content_find_size(const BlContent *content, guint64 size, gsize *n);
/* The files with those bytes; borrowed. *n may be 0. */
const BlContentFile *bl_content_find(const BlContent *content, guint64 size,
                                     const guint8 sha256[BL_SHA256_SIZE], gsize *n);
