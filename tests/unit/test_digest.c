#include "base/digest.h"

#include <string.h>

static void check_sha256(const void *data, gsize size, const char *expected) {
  guint8 digest[BL_SHA256_SIZE];
  char hex[BL_SHA256_HEX_SIZE + 1];
  bl_sha256(data, size, digest);
  bl_hex_encode(digest, sizeof digest, hex);
  g_assert_cmpstr(hex, ==, expected);
}

/* FIPS 180-2's examples, and the empty string. */
static void test_sha256(void) {
  check_sha256("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  check_sha256("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  g_autofree char *million = g_strnfill(1000000, 'a');
  check_sha256(million, 1000000,
               "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* RFC 3720, B.4, and the check value of the CRC catalogues. */
static void test_crc32c(void) {
  guint8 bytes[32] = {0};
  g_assert_cmphex(bl_crc32c("", 0), ==, 0);
  g_assert_cmphex(bl_crc32c("123456789", 9), ==, 0xe3069283);
  g_assert_cmphex(bl_crc32c(bytes, 32), ==, 0x8a9136aa);
  memset(bytes, 0xff, sizeof bytes);
  g_assert_cmphex(bl_crc32c(bytes, 32), ==, 0x62a8ab43);
  for (guint i = 0; i < 32; i++) bytes[i] = (guint8)i;
  g_assert_cmphex(bl_crc32c(bytes, 32), ==, 0x46dd794e);
}

static void test_hex(void) {
  const guint8 bytes[] = {0x00, 0x7f, 0x80, 0xff, 0xa5};
  char hex[11];
  guint8 back[5];
  bl_hex_encode(bytes, 5, hex);
  g_assert_cmpstr(hex, ==, "007f80ffa5");
  g_assert_true(bl_hex_decode(hex, 10, back, 5));
  g_assert_cmpmem(back, 5, bytes, 5);

  static const char *const bad[] = {"007F80ffa5", "007g80ffa5", "007f80ffa ",
                                    "007f80ff/5", "007f80ff:5", "007f80ff`5"};
  for (guint i = 0; i < G_N_ELEMENTS(bad); i++) g_assert_false(bl_hex_decode(bad[i], 10, back, 5));
  g_assert_false(bl_hex_decode(hex, 9, back, 5));
  g_assert_false(bl_hex_decode(hex, 11, back, 5));
  g_assert_false(bl_hex_decode(hex, 8, back, 5));
  g_assert_true(bl_hex_decode("", 0, back, 0));
}

static void feed(BlHasher *hasher, const guint8 *data, gsize size, gsize step) {
  for (gsize done = 0; done < size;) {
    gsize n = MIN(step, size - done);
    bl_hasher_update(hasher, data + done, n);
    done += n;
  }
}

/* The stream's digests are those of the same bytes taken whole, whatever the pieces. */
static void check_stream(BlHasher *hasher, const guint8 *data, gsize size, gsize step) {
  guint8 whole[BL_SHA256_SIZE], streamed[BL_SHA256_SIZE];
  gsize n;
  bl_hasher_reset(hasher);
  feed(hasher, data, size, step);
  bl_hasher_finish(hasher, streamed);
  bl_sha256(data, size, whole);
  g_assert_cmpmem(streamed, sizeof streamed, whole, sizeof whole);
  const guint32 *crcs = bl_hasher_crcs(hasher, &n);
  g_assert_cmpuint(n, ==, (size + BL_BLOCK_SIZE - 1) / BL_BLOCK_SIZE);
  for (gsize i = 0; i < n; i++) {
    gsize start = i * BL_BLOCK_SIZE;
    g_assert_cmphex(crcs[i], ==, bl_crc32c(data + start, MIN(BL_BLOCK_SIZE, size - start)));
  }
}

static void test_hasher(void) {
  static const gsize sizes[] = {0,
                                1,
                                63,
                                64,
                                65,
                                131071,
                                131072,
                                131073,
                                BL_BLOCK_SIZE - 1,
                                BL_BLOCK_SIZE,
                                BL_BLOCK_SIZE + 1,
                                2 * BL_BLOCK_SIZE,
                                2 * BL_BLOCK_SIZE + 12345};
  static const gsize steps[] = {4099,     131072, 1u << 20, BL_BLOCK_SIZE - 1, BL_BLOCK_SIZE + 1,
                                G_MAXSIZE};
  gsize max = sizes[G_N_ELEMENTS(sizes) - 1];
  g_autofree guint8 *data = g_malloc(max);
  for (gsize i = 0; i < max; i++) data[i] = (guint8)(i * 2654435761u >> 13);

  g_autoptr(BlHasher) hasher = bl_hasher_new();
  for (guint s = 0; s < G_N_ELEMENTS(sizes); s++) {
    for (guint t = 0; t < G_N_ELEMENTS(steps); t++) check_stream(hasher, data, sizes[s], steps[t]);
  }
}

/* A new hasher is ready without a reset; a reset forgets a stream that was not finished. */
static void test_hasher_reset(void) {
  g_autoptr(BlHasher) hasher = bl_hasher_new();
  guint8 digest[BL_SHA256_SIZE], abc[BL_SHA256_SIZE];
  gsize n;
  bl_sha256("abc", 3, abc);
  bl_hasher_update(hasher, "abc", 3);
  bl_hasher_finish(hasher, digest);
  g_assert_cmpmem(digest, sizeof digest, abc, sizeof abc);
  bl_hasher_reset(hasher);
  bl_hasher_update(hasher, "garbage", 7);
  bl_hasher_reset(hasher);
  bl_hasher_update(hasher, "abc", 3);
  bl_hasher_finish(hasher, digest);
  g_assert_cmpmem(digest, sizeof digest, abc, sizeof abc);
  g_assert_cmphex(bl_hasher_crcs(hasher, &n)[0], ==, bl_crc32c("abc", 3));
  g_assert_cmpuint(n, ==, 1);
}

static void expect_git_blob(BlHasher *hasher, const char *content, const char *expected) {
  guint8 sha256[BL_SHA256_SIZE], id[BL_GIT_BLOB_SIZE];
  char hex[BL_GIT_BLOB_HEX_SIZE + 1];
  bl_hasher_set_git_blob(hasher, TRUE, strlen(content));
  bl_hasher_reset(hasher);
  for (const char *p = content; *p != '\0'; p++) bl_hasher_update(hasher, p, 1);
  bl_hasher_finish(hasher, sha256);
  g_assert_true(bl_hasher_git_blob(hasher, id));
  bl_hex_encode(id, sizeof id, hex);
  g_assert_cmpstr(hex, ==, expected);
}

/* As "git hash-object" prints them. */
static void test_git_blob(void) {
  g_autoptr(BlHasher) hasher = bl_hasher_new();
  guint8 sha256[BL_SHA256_SIZE], id[BL_GIT_BLOB_SIZE];
  expect_git_blob(hasher, "", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  expect_git_blob(hasher, "abc", "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  bl_hasher_set_git_blob(hasher, FALSE, 0);
  bl_hasher_reset(hasher);
  bl_hasher_finish(hasher, sha256);
  g_assert_false(bl_hasher_git_blob(hasher, id));
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/digest/sha256", test_sha256);
  g_test_add_func("/digest/crc32c", test_crc32c);
  g_test_add_func("/digest/hex", test_hex);
  g_test_add_func("/digest/hasher", test_hasher);
  g_test_add_func("/digest/hasher-reset", test_hasher_reset);
  g_test_add_func("/digest/git-blob", test_git_blob);
  return g_test_run();
}
