/* The model cache's keys and ids: everything that builds or takes apart a key stands here.
 *
 * The layout is Mooncake's file-level weight cache (schema 2), docs/formats/model-cache.md. */
#pragma once
#include "base/digest.h"

#define BL_KEY_MODELS "weight/models/"
#define BL_KEY_REFS "weight/refs/"
#define BL_KEY_USED "weight/used/"
/* Prefix of the claim under which room is given out. */
#define BL_KEY_ROOM "weight/control/room/"
#define BL_KEY_GC "weight/control/gc"
#define BL_KEY_INDEX_MODELS "weight/index/models"
#define BL_KEY_OWNER "weight/control/catalog-mutation-owner"
/* Room for any key that this file makes, its NUL included. */
#define BL_KEY_MAX 512

/* INVALID unless 1 to 255 characters, the first [A-Za-z0-9], the rest [A-Za-z0-9._-]. */
gboolean bl_checkpoint_id_check(const char *id, GError **error);
/* INVALID unless not empty, UTF-8, without control characters, at most 1024 bytes. Revisions alike.
 */
gboolean bl_model_id_check(const char *model_id, GError **error);

/* "org/name" from a "models--org--name" part of the real path, else the last part of it. Caller
 * frees. */
char *bl_model_id_default(const char *real_path);
/* The model id with "/" as "__", cleaned so that it is a legal id; commit (may be NULL) adds "-"
 * and its first 12 digits. Caller frees; NULL and INVALID where nothing legal is left. */
char *bl_checkpoint_id_default(const char *model_id, const char *commit, GError **error);

/* Each writes into a buffer of BL_KEY_MAX and returns it. */
typedef char BlKeyBuffer[BL_KEY_MAX];
char *bl_key_prefix(BlKeyBuffer key, const char *id); /* weight/models/<id>/ */
char *bl_key_manifest(BlKeyBuffer key, const char *id);
char *bl_key_info(BlKeyBuffer key, const char *id);
char *bl_key_digests(BlKeyBuffer key, const char *id);
char *bl_key_state(BlKeyBuffer key, const char *id);
char *bl_key_claim(BlKeyBuffer key, const char *id);
char *bl_key_reserved(BlKeyBuffer key, const char *id); /* room.h */
char *bl_key_used(BlKeyBuffer key, const char *id);     /* weight/used/<id>: usage.h */
char *bl_key_file(BlKeyBuffer key, const char *id, const char *path);
char *bl_key_chunk(BlKeyBuffer key, const char *id, const char *path, guint32 chunk);
/* As bl_key_file, from the path's SHA-256 in hex; as bl_key_chunk, from the file's key. */
char *bl_key_file_of_hex(BlKeyBuffer key, const char *id, const char *hex);
char *bl_key_chunk_of_file(BlKeyBuffer key, const char *file_key, guint32 chunk);
char *bl_key_ref(BlKeyBuffer key, const char *model_id, const char *ref);
char *bl_key_refs_of_model(BlKeyBuffer key, const char *model_id); /* ends in "/" */
char *bl_key_index_model(BlKeyBuffer key, const char *model_id);

/* Splits "weight/models/<id>/<rest>"; FALSE where the key is no such one. id holds 256 bytes; *rest
 * points into key and may be empty. */
gboolean bl_key_split(const char *key, char id[256], const char **rest);
/* Takes apart a chunk's key of the checkpoint: the path's SHA-256 in hex, and the chunk's number.
 * FALSE where the key is none. */
gboolean bl_key_is_chunk(const char *key, const char *id, char hex[BL_SHA256_HEX_SIZE + 1],
                         guint32 *chunk);
