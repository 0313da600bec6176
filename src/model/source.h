/* A source of a checkpoint: the files of a folder, found once, refused whole where something in it
 * is unfit.
 *
 * A folder is taken as it is, or is a snapshot of the Hugging Face client's cache, or was filled by
 * that client (docs/formats/hf-cache.md); the latter two name commits and digests. Digests are only
 * ever compared with those of the bytes that were read.
 *
 * Links that stay inside the folder are followed, to files and to folders; a snapshot's may also
 * lead to the blobs of its repository, or to those that the cache shares. Others are refused, and
 * so is what is neither file nor folder, and a name that is not UTF-8. Some things are left out by
 * rule (ballast-model-import(1) names them). */
#pragma once
#include "base/digest.h"
#include "base/job.h"

typedef struct {
  const char *path;     /* the folder */
  const char *model_id; /* which of a cache's models; NULL: as the folder tells */
  const char *revision; /* its ref or commit in a cache; elsewhere what to call it. NULL: main */
  char **include, **exclude; /* globs, NULL for all */
} BlSourceRequest;

typedef struct {
  const char *path; /* relative, UTF-8, owned by the source */
  guint64 size;     /* bytes, when it was found */
  gint64 mtime_ns;  /* when it was found; import sets it to that of the bytes it took */
  gboolean executable;
  const char *blob; /* the name of the blob that a snapshot's link leads to, else NULL */
  /* What the source says of the bytes, lower-case hex, NULL where it does not. */
  const char *sha256, *git_blob;
} BlSourceFile;

/* What tells one state of a file from the next. */
typedef struct {
  guint64 size, inode, device;
  gint64 mtime_ns, ctime_ns;
} BlSourceState;

typedef struct {
  char *root;     /* the real path */
  char *uri;      /* "file://" and the real path */
  char *model_id; /* as the path tells */
  char *revision; /* what to call it */
  char *commit;   /* 40 hex digits where the source tells, else NULL */
  char **refs;    /* names that the source has for the commit, sorted */
  gboolean is_hf_cache;
  BlSourceFile *files; /* sorted by path, bytewise */
  guint64 n_files, n_bytes;
  GPtrArray *left_out; /* of char*: what is not imported and why, names escaped */
  GPtrArray *notes;    /* of char*: what a user should know, for a warning each */
  char *missing;       /* what shows that the source is not complete, a message; NULL: nothing */
  /* private */
  int root_fd;
  gboolean may_be_edited; /* digests are of what was downloaded, and the files are the user's */
  gint n_edited;          /* atomic: files that turned out to have other digests */
  GPtrArray *roots; /* of char*: real paths that links may lead below: the root, and for links to
                        files, others */
  GPtrArray *incomplete; /* of char*: names of blobs that are not whole */
  GArray *array;
  GStringChunk *strings;
} BlSource;

/* Finds the files. NOT_FOUND: no such folder, model or revision; INVALID: it is no folder, has more
 * than 100,000 files, or it is not clear what in it is meant; CORRUPT: something in it is unfit. */
BlSource *bl_source_open(const BlSourceRequest *request, GError **error);
void bl_source_free(BlSource *source);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlSource, bl_source_free)

/* A descriptor of the file that is there now, and its state. -1 on error. Caller closes. */
int bl_source_open_file(const BlSource *source, guint64 file, BlSourceState *state, GError **error);
/* Whether the path still leads to that file, unchanged. */
gboolean bl_source_is_still(const BlSource *source, guint64 file, const BlSourceState *state);
/* Compares what the source said of a file with the digests of the bytes that were read. CORRUPT,
 * naming the file and the blob, where they differ; for files that users may have edited a note, and
 * nothing is claimed for them any more. The hasher is finished, and was asked for the git blob id
 * where git_blob is set. */
gboolean bl_source_check_digests(BlSource *source, guint64 file, const BlHasher *hasher,
                                 const guint8 sha256[BL_SHA256_SIZE], BlJob *job, GError **error);
/* The commit, where every byte of it was as the source said; else NULL. */
const char *bl_source_commit(const BlSource *source);
/* The id to record for the file's bytes, 40 or 64 digits of hex, after they were checked; NULL
 * where the source had none. */
const char *bl_source_blob_id(const BlSource *source, guint64 file);
