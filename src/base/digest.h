/* SHA-256 (libcrypto, the CPU's own instructions) and CRC32C (ISA-L), and both over one stream;
 * beside them, where it is asked for, the id that git gives the stream as a blob. */
#pragma once
#include <glib.h>

#define BL_SHA256_SIZE 32
#define BL_SHA256_HEX_SIZE 64
/* A git blob id: SHA-1 over "blob <size in decimal>", a NUL and the bytes. */
#define BL_GIT_BLOB_SIZE 20
#define BL_GIT_BLOB_HEX_SIZE 40
/* Bytes a block digest covers: the `digests` object's block_size. */
#define BL_BLOCK_SIZE (4u * 1024 * 1024)

/* Lower-case hex and a NUL; hex holds 2 * size + 1 bytes. */
void bl_hex_encode(const guint8 *data, gsize size, char *hex);
/* Accepts lower case only; FALSE where a digit is none. hex_size must be 2 * size. */
gboolean bl_hex_decode(const char *hex, gsize hex_size, guint8 *data, gsize size);

void bl_sha256(const void *data, gsize size, guint8 digest[BL_SHA256_SIZE]);
guint32 bl_crc32c(const void *data, gsize size);

/* A stream's SHA-256 and the CRC32C of each of its blocks of BL_BLOCK_SIZE. Not shared by threads.
 */
typedef struct BlHasher BlHasher;
BlHasher *bl_hasher_new(void);
void bl_hasher_free(BlHasher *hasher);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlHasher, bl_hasher_free)
/* Forgets what was fed; memory is kept. */
void bl_hasher_reset(BlHasher *hasher);
/* Whether the git blob id of streams of that many bytes is computed, too, from the next reset on:
 * until this is called again. It costs about as much as the SHA-256. */
void bl_hasher_set_git_blob(BlHasher *hasher, gboolean is_wanted, guint64 size_bytes);
/* Feeds the next bytes of the stream, any length. */
void bl_hasher_update(BlHasher *hasher, const void *data, gsize size);
/* Ends the stream. Until the next reset, bl_hasher_crcs gives ceil(size / BL_BLOCK_SIZE) values. */
void bl_hasher_finish(BlHasher *hasher, guint8 sha256[BL_SHA256_SIZE]);
/* Of a finished stream: its git blob id. FALSE where it was not asked for. */
gboolean bl_hasher_git_blob(const BlHasher *hasher, guint8 id[BL_GIT_BLOB_SIZE]);
/* The finished blocks' CRCs, in order (owned by the hasher); *n is their number. */
const guint32 *bl_hasher_crcs(const BlHasher *hasher, gsize *n);
