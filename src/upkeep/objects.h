/* The objects of one checkpoint as one listing gave them, packed: a chunk costs some 90 bytes, so
 * 100,000 of them 9 MB. */
#pragma once
#include "base/digest.h"
#include "store/claim.h"
#include "store/store.h"

/* In place of a chunk's number: the object under the file's own key (schema 1). */
#define BL_OBJECT_WHOLE_FILE G_MAXUINT32

typedef struct {
  guint8 path_sha256[BL_SHA256_SIZE];
  guint32 chunk;
  gboolean is_named; /* the user's: by a manifest */
  BlObjectStat stat;
} BlChunkObject;

typedef enum {
  BL_CONTROL_MANIFEST,
  BL_CONTROL_COMPANION, /* info, digests */
  BL_CONTROL_STATE,
  BL_CONTROL_RESERVED,
  BL_CONTROL_CLAIM, /* claims, heartbeats, graves */
  BL_CONTROL_UNKNOWN,
} BlControlKind;

typedef struct {
  BlControlKind kind;
  char *key;
  BlObjectStat stat;
} BlControlObject;

typedef struct {
  char *prefix;
  GArray *chunks;      /* of BlChunkObject, ordered by path's hash and chunk */
  GPtrArray *controls; /* of BlControlObject */
  guint64 n_objects, n_bytes;
} BlObjects;

/* own: a claim of the caller's, whose objects are left out; NULL. */
BlObjects *bl_objects_list(BlStore *store, const char *checkpoint_id, const BlClaim *own,
                           GError **error);
void bl_objects_free(BlObjects *objects);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlObjects, bl_objects_free)
/* NULL where there is none. */
BlChunkObject *bl_objects_find(const BlObjects *objects, const guint8 path_sha256[BL_SHA256_SIZE],
                               guint32 chunk);
/* Writes the object's key into a buffer of BL_KEY_MAX and returns it. */
char *bl_objects_chunk_key(const BlObjects *objects, const BlChunkObject *chunk, char key[512]);
/* NULL where there is none of the kind. */
const BlControlObject *bl_objects_find_control(const BlObjects *objects, BlControlKind kind);
