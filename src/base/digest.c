#include "base/digest.h"

#include <isa-l/crc.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

/* The hasher gives each piece to SHA-256 first, which is slow enough for the CPU to fetch ahead,
 * and then to CRC32C, which finds it in the second-level cache (512 KiB and more on the CPUs of
 * servers). */
#define PIECE_SIZE (128u * 1024)

/* ISA-L takes an int. */
#define CRC_CALL_MAX (1u << 30)

#define CRC_INIT (~0u)

struct BlHasher {
  EVP_MD_CTX *sha256;
  EVP_MD_CTX *git_blob; /* NULL until it was asked for */
  gboolean has_git_blob;
  guint64 git_blob_size;
  guint8 git_blob_id[BL_GIT_BLOB_SIZE]; /* of the finished stream */
  GArray *crcs;                         /* of guint32: the blocks that are over */
  guint32 crc;                          /* of the open block, before the last complement */
  gsize block_size;                     /* bytes in the open block, less than BL_BLOCK_SIZE */
};

/* Only memory or a broken libcrypto can make these calls fail; like GLib's own allocations, that is
 * not survived. */
static void must(gboolean done, const char *what) {
  if (G_UNLIKELY(!done)) g_error("libcrypto cannot do %s", what);
}

/* Fetched once: an implicit fetch at each init costs more than hashing a small file. The
 * configuration file of OpenSSL is not read: it costs time at start and could make SHA-256
 * disappear. */
static const EVP_MD *sha256_md(void) {
  static gsize ready = 0;
  static EVP_MD *md = NULL;
  if (g_once_init_enter(&ready)) {
    must(OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) == 1,
         "start");
    md = EVP_MD_fetch(NULL, "SHA2-256", NULL);
    must(md != NULL, "SHA-256");
    g_once_init_leave(&ready, 1);
  }
  return md;
}

/* Few streams need it: an implicit fetch each does. */
static void start_git_blob(BlHasher *hasher) {
  char header[32];
  int n = snprintf(header, sizeof header, "blob %" G_GUINT64_FORMAT, hasher->git_blob_size);
  must(EVP_DigestInit_ex2(hasher->git_blob, EVP_sha1(), NULL) == 1 &&
           EVP_DigestUpdate(hasher->git_blob, header, (gsize)n + 1) == 1,
       "SHA-1");
}

void bl_hex_encode(const guint8 *data, gsize size, char *hex) {
  static const char digits[] = "0123456789abcdef";
  for (gsize i = 0; i < size; i++) {
    hex[2 * i] = digits[data[i] >> 4];
    hex[2 * i + 1] = digits[data[i] & 15];
  }
  hex[2 * size] = '\0';
}

static int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

gboolean bl_hex_decode(const char *hex, gsize hex_size, guint8 *data, gsize size) {
  if (hex_size / 2 != size || hex_size % 2 != 0) return FALSE;
  for (gsize i = 0; i < size; i++) {
    int high = digit_value(hex[2 * i]);
    int low = digit_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return FALSE;
    data[i] = (guint8)(high << 4 | low);
  }
  return TRUE;
}

void bl_sha256(const void *data, gsize size, guint8 digest[BL_SHA256_SIZE]) {
  must(EVP_Digest(data, size, digest, NULL, sha256_md(), NULL) == 1, "SHA-256");
}

/* Goes on from a CRC before its last complement. */
static guint32 crc_continue(guint32 crc, const void *data, gsize size) {
  union {
    const void *in;
    unsigned char *out; /* ISA-L only reads, but says it otherwise */
  } p = {.in = data};
  while (size > 0) {
    gsize n = MIN(size, CRC_CALL_MAX);
    crc = crc32_iscsi(p.out, (int)n, crc);
    p.out += n;
    size -= n;
  }
  return crc;
}

guint32 bl_crc32c(const void *data, gsize size) {
  return ~crc_continue(CRC_INIT, data, size);
}

BlHasher *bl_hasher_new(void) {
  BlHasher *hasher = g_new0(BlHasher, 1);
  hasher->sha256 = EVP_MD_CTX_new();
  must(hasher->sha256 != NULL, "a digest context");
  hasher->crcs = g_array_new(FALSE, FALSE, sizeof(guint32));
  must(EVP_DigestInit_ex2(hasher->sha256, sha256_md(), NULL) == 1, "SHA-256");
  hasher->crc = CRC_INIT;
  return hasher;
}

void bl_hasher_free(BlHasher *hasher) {
  if (hasher == NULL) return;
  EVP_MD_CTX_free(hasher->sha256);
  EVP_MD_CTX_free(hasher->git_blob);
  g_array_free(hasher->crcs, TRUE);
  g_free(hasher);
}

void bl_hasher_reset(BlHasher *hasher) {
  must(EVP_DigestInit_ex2(hasher->sha256, NULL, NULL) == 1, "SHA-256");
  if (hasher->has_git_blob) start_git_blob(hasher);
  g_array_set_size(hasher->crcs, 0);
  hasher->crc = CRC_INIT;
  hasher->block_size = 0;
}

void bl_hasher_set_git_blob(BlHasher *hasher, gboolean is_wanted, guint64 size_bytes) {
  hasher->has_git_blob = is_wanted;
  hasher->git_blob_size = size_bytes;
  if (!is_wanted || hasher->git_blob != NULL) return;
  hasher->git_blob = EVP_MD_CTX_new();
  must(hasher->git_blob != NULL, "a digest context");
}

static void end_block(BlHasher *hasher) {
  guint32 crc = ~hasher->crc;
  g_array_append_val(hasher->crcs, crc);
  hasher->crc = CRC_INIT;
  hasher->block_size = 0;
}

void bl_hasher_update(BlHasher *hasher, const void *data, gsize size) {
  const guint8 *p = data;
  while (size > 0) {
    gsize n = MIN(MIN(size, PIECE_SIZE), BL_BLOCK_SIZE - hasher->block_size);
    must(EVP_DigestUpdate(hasher->sha256, p, n) == 1, "SHA-256");
    if (hasher->has_git_blob) must(EVP_DigestUpdate(hasher->git_blob, p, n) == 1, "SHA-1");
    hasher->crc = crc_continue(hasher->crc, p, n);
    hasher->block_size += n;
    if (hasher->block_size == BL_BLOCK_SIZE) end_block(hasher);
    p += n;
    size -= n;
  }
}

void bl_hasher_finish(BlHasher *hasher, guint8 sha256[BL_SHA256_SIZE]) {
  must(EVP_DigestFinal_ex(hasher->sha256, sha256, NULL) == 1, "SHA-256");
  if (hasher->has_git_blob)
    must(EVP_DigestFinal_ex(hasher->git_blob, hasher->git_blob_id, NULL) == 1, "SHA-1");
  if (hasher->block_size > 0) end_block(hasher);
}

gboolean bl_hasher_git_blob(const BlHasher *hasher, guint8 id[BL_GIT_BLOB_SIZE]) {
  if (hasher->has_git_blob) memcpy(id, hasher->git_blob_id, BL_GIT_BLOB_SIZE);
  return hasher->has_git_blob;
}

const guint32 *bl_hasher_crcs(const BlHasher *hasher, gsize *n) {
  *n = hasher->crcs->len;
  return (const guint32 *)(const void *)hasher->crcs->data;
}
