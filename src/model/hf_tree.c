#include "model/hf_tree.h"

#include "base/digest.h"
#include "base/error.h"
#include "model/hf_layout.h"

#define FORMAT_VERSION 1u
#define MAX_DEPTH 16
#define MAX_STRING 65536

enum { BLOB_ID, LFS_SHA256, LFS_SIZE, SIZE, N_RECORD };
static const char *const record_names[N_RECORD] = {"blob_id", "lfs_sha256", "lfs_size", "size"};

static gboolean fail(GError **error, const char *fault) {
  return bl_error_set(error, BL_ERROR_CORRUPT, "%s", fault);
}

/* A large file's blob id is that of its pointer; what names its bytes is lfs_sha256. */
static gboolean give_record(const char *path, const char *blob_id, const char *lfs_sha256,
                            guint64 size, BlHfTreeFunc func, gpointer user, GError **error) {
  BlHfTreeFile file = {.path = path, .size = size};
  if (lfs_sha256 != NULL)
    file.sha256 = lfs_sha256;
  else if (bl_hf_is_hex(blob_id, BL_SHA256_HEX_SIZE))
    file.sha256 = blob_id;
  else
    file.git_blob = blob_id;
  if ((file.sha256 != NULL && !bl_hf_is_hex(file.sha256, BL_SHA256_HEX_SIZE)) ||
      (file.git_blob != NULL && !bl_hf_is_hex(file.git_blob, BL_GIT_BLOB_HEX_SIZE)))
    return fail(error, "a digest there is none");
  return func(&file, user, error);
}

static gboolean read_record(BlJsonReader *reader, const char *path, BlHfTreeFunc func,
                            gpointer user, GError **error) {
  g_autofree char *blob_id = NULL, *lfs_sha256 = NULL;
  guint64 size = 0, lfs_size = 0;
  guint seen = 0;
  int member;
  if (!bl_json_reader_expect(reader, BL_JSON_OBJECT_START, "files", error)) return FALSE;
  while ((member = bl_json_reader_next_member(reader, record_names, N_RECORD, &seen, NULL,
                                              error)) != N_RECORD) {
    gboolean ok = member == BLOB_ID ? bl_json_reader_read_string(reader, "blob_id", &blob_id, error)
                  : member == LFS_SHA256
                      ? bl_json_reader_read_string(reader, "lfs_sha256", &lfs_sha256, error)
                  : member == LFS_SIZE
                      ? bl_json_reader_read_uint64(reader, "lfs_size", &lfs_size, error)
                      : member == SIZE && bl_json_reader_read_uint64(reader, "size", &size, error);
    if (!ok) return FALSE;
  }
  if ((seen & (1u << SIZE)) == 0 || blob_id == NULL)
    return fail(error, "a file there has no \"size\" or no \"blob_id\"");
  if ((seen & (1u << LFS_SIZE)) != 0) size = lfs_size;
  return give_record(path, blob_id, lfs_sha256, size, func, user, error);
}

static gboolean read_files(BlJsonReader *reader, BlHfTreeFunc func, gpointer user, GError **error) {
  if (!bl_json_reader_expect(reader, BL_JSON_OBJECT_START, "files", error)) return FALSE;
  for (;;) {
    BlJsonToken token;
    if (!bl_json_reader_next(reader, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) return TRUE;
    g_autofree char *path = g_strdup(bl_json_reader_text(reader, NULL));
    if (!read_record(reader, path, func, user, error)) return FALSE;
  }
}

gboolean bl_hf_tree_read(BlJsonInput input, gpointer input_user, BlHfTreeFunc func, gpointer user,
                         GError **error) {
  static const char *const names[] = {"files", "format_version"};
  g_autoptr(BlJsonReader) reader =
      bl_json_reader_new(input, input_user, MAX_DEPTH, MAX_STRING, "the listing");
  guint seen = 0;
  guint64 version = 0;
  int member;
  BlJsonToken token;
  if (!bl_json_reader_expect(reader, BL_JSON_OBJECT_START, "listing", error)) return FALSE;
  while ((member = bl_json_reader_next_member(reader, names, 2, &seen, NULL, error)) != 2) {
    if (member < 0) return FALSE;
    if (member == 0 && !read_files(reader, func, user, error)) return FALSE;
    if (member == 1 && !bl_json_reader_read_uint64(reader, names[1], &version, error)) return FALSE;
    if (member == 1 && version != FORMAT_VERSION)
      return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                          "it has format %" G_GUINT64_FORMAT ", and %u is known", version,
                          FORMAT_VERSION);
  }
  if (!bl_json_reader_next(reader, &token, error)) return FALSE; /* nothing follows */
  return seen == 3 || fail(error, "a member is missing");
}
