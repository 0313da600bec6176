/* A checkpoint's manifest: packed records, read and written as a stream, so that 100,000 files cost
 * some 12 MB. Bytes and rules: docs/formats/model-cache.md. */
#pragma once
#include <glib.h>
#include "base/digest.h"
#include "store/store.h"

/* What is written; readers take 1, too. */
#define BL_MANIFEST_SCHEMA 2u
/* Files a checkpoint may have. */
#define BL_MANIFEST_MAX_FILES 100000u
/* All paths together, so that memory stays bounded whatever a manifest says: 100,000 of 335 bytes.
 */
#define BL_MANIFEST_MAX_PATH_BYTES (32u * 1024 * 1024)

typedef struct {
  const char *path;   /* UTF-8, owned by the manifest */
  guint64 size;       /* bytes */
  guint64 chunk_size; /* bytes a chunk; 0 where the manifest did not say */
  guint8 sha256[BL_SHA256_SIZE];
  guint32 n_chunks; /* objects that hold the file; of a FAILED manifest: that may exist */
  guint32 odd_keys; /* 0: the keys follow from the path; else 1 + index of the first in the
                       manifest's odd keys */
  guint8 is_weight; /* type WEIGHT, else METADATA */
  guint8 has_sha256;
  guint8 is_whole; /* schema 1 without chunks: one object at the file's key */
} BlManifestFile;

typedef struct {
  char *checkpoint_id, *model_id, *revision, *source_uri;
  char *error; /* NULL where READY */
  gboolean is_ready;
  gint64 created_at, updated_at; /* Unix seconds */
  guint64 total_size;            /* bytes */
  guint schema_version;
  guint8 sha256[BL_SHA256_SIZE]; /* of the object's bytes, as loaded or last saved */
  BlManifestFile *files;         /* sorted by path, bytewise, once loaded or finished */
  guint64 n_files;
  /* private */
  guint64 n_allocated;
  GStringChunk *strings;
  GPtrArray *odd_keys;
} BlManifest;

BlManifest *bl_manifest_new(const char *checkpoint_id, const char *model_id, const char *revision,
                            const char *source_uri);
void bl_manifest_free(BlManifest *manifest);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlManifest, bl_manifest_free)

/* Whether a file of that name is of type WEIGHT. */
gboolean bl_manifest_is_weight_path(const char *path);
/* Adds a record; the path is copied, type set from its name, all else zero. The pointer is valid
 * until the next add. */
BlManifestFile *bl_manifest_add(BlManifest *manifest, const char *path);
/* Sorts the records; INVALID for a duplicate path or a path that is another's folder. Sets
 * total_size. */
gboolean bl_manifest_finish(BlManifest *manifest, GError **error);
/* NULL where there is none. */
BlManifestFile *bl_manifest_find(const BlManifest *manifest, const char *path);

typedef enum {
  BL_MANIFEST_HEADER_ONLY = 1 << 0, /* no records; n_files counts them all the same */
} BlManifestLoadFlags;
/* NOT_FOUND: no such checkpoint. CORRUPT: bytes that break a rule, naming it, or an id in it that
 * is another's. */
BlManifest *bl_manifest_load(BlStore *store, const char *checkpoint_id, BlManifestLoadFlags flags,
                             GError **error);
/* As load, but a manifest whose keys do not follow from its paths is CORRUPT, and a FAILED one an
 * error that says what it is (CORRUPT, or BUSY while a live claim imports or deletes it). */
BlManifest *bl_manifest_load_ready(BlStore *store, const char *checkpoint_id, GError **error);
/* Whether the checkpoint has a manifest, be it a damaged one. */
gboolean bl_manifest_exists(BlStore *store, const char *checkpoint_id, gboolean *exists,
                            GError **error);
/* Replaces the object durably, as schema 2. The manifest is finished, and a READY one has every
 * file's SHA-256. */
gboolean bl_manifest_save(BlStore *store, BlManifest *manifest, GError **error);
/* The key of chunk i < n_chunks (of a whole object, i = 0): written to key, which is returned. */
const char *bl_manifest_chunk_key(const BlManifest *manifest, const BlManifestFile *file, guint32 i,
                                  char key[512]);
/* Bytes of chunk i, where the layout is known (one chunk, or chunk_size not 0). */
guint64 bl_manifest_chunk_size(const BlManifestFile *file, guint32 i);
