/* A folder that the Hugging Face client filled (local_dir) has a file of three lines beside each
 * that it downloaded: commit, ETag (a git blob id or a SHA-256), time. It says what was downloaded,
 * not what is there: files may be edited, removed and added since. So nothing that is missing is an
 * error, a file with other content is only noted, and the commit is named only where every file is
 * of it. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/source_impl.h"

#define METADATA_FOLDER ".cache/huggingface/download"
#define MAX_METADATA 1024

/* Reads path.metadata below the folder. FALSE where there is none, or no such one. */
static gboolean read_metadata(int folder_fd, const char *path, char **commit, char **etag) {
  char data[MAX_METADATA + 1];
  struct stat status;
  g_autofree char *name = g_strconcat(path, ".metadata", NULL);
  bl_autofd fd = bl_openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return FALSE;
  gssize n = bl_pread_some(fd, data, sizeof data - 1, 0, NULL);
  data[MAX(n, 0)] = '\0';
  g_auto(GStrv) lines = g_strsplit(data, "\n", 4);
  if (g_strv_length(lines) < 3 || !bl_hf_is_commit(g_strstrip(lines[0]))) return FALSE;
  g_strstrip(lines[1]);
  if (!bl_hf_is_hex(lines[1], BL_GIT_BLOB_HEX_SIZE) && !bl_hf_is_hex(lines[1], BL_SHA256_HEX_SIZE))
    return FALSE;
  *commit = g_strdup(lines[0]);
  *etag = g_strdup(lines[1]);
  return TRUE;
}

/* The folder of metadata, by way of folders alone. -1 where there is none. */
static int open_metadata(const BlSource *source) {
  g_auto(GStrv) parts = g_strsplit(METADATA_FOLDER, "/", -1);
  bl_autofd fd = fcntl(source->root_fd, F_DUPFD_CLOEXEC, 0);
  for (char **part = parts; fd >= 0 && *part != NULL; part++) {
    int below = bl_openat(fd, *part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    bl_fd_clear(&fd);
    fd = below;
  }
  return bl_fd_steal(&fd);
}

void bl_source_local_complete(BlSource *source) {
  bl_autofd folder_fd = open_metadata(source);
  g_autofree char *common = NULL;
  guint64 n_known = 0;
  gboolean is_one_commit = TRUE;
  for (guint64 i = 0; folder_fd >= 0 && i < source->n_files; i++) {
    BlSourceFile *file = &source->files[i];
    g_autofree char *commit = NULL, *etag = NULL;
    if (!read_metadata(folder_fd, file->path, &commit, &etag)) continue;
    const char *kept = g_string_chunk_insert(source->strings, etag);
    if (strlen(etag) == BL_SHA256_HEX_SIZE)
      file->sha256 = kept;
    else
      file->git_blob = kept;
    n_known++;
    if (common == NULL) common = g_strdup(commit);
    is_one_commit = is_one_commit && strcmp(common, commit) == 0;
  }
  source->may_be_edited = TRUE;
  if (n_known > 0 && n_known == source->n_files && is_one_commit)
    source->commit = g_steal_pointer(&common);
  else if (n_known > 0)
    g_ptr_array_add(
        source->notes,
        g_strdup(is_one_commit ? "not every file there was downloaded: the commit is not recorded"
                               : "the files there are of several commits: none is recorded"));
}

static gboolean is_digest(const char *expected, const guint8 *digest, gsize size) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  bl_hex_encode(digest, size, hex);
  return expected == NULL || strcmp(expected, hex) == 0;
}

gboolean bl_source_check_digests(BlSource *source, guint64 index, const BlHasher *hasher,
                                 const guint8 sha256[BL_SHA256_SIZE], BlJob *job, GError **error) {
  BlSourceFile *file = &source->files[index];
  guint8 git_blob[BL_GIT_BLOB_SIZE];
  gboolean is_same = is_digest(file->sha256, sha256, BL_SHA256_SIZE);
  if (file->git_blob != NULL)
    is_same = is_same && bl_hasher_git_blob(hasher, git_blob) &&
              is_digest(file->git_blob, git_blob, sizeof git_blob);
  if (is_same) return TRUE;
  g_autofree char *shown = bl_path_display(file->path);
  if (source->may_be_edited) {
    bl_job_note(job, BL_NOTE_WARNING, "source file \"%s\" is not as it was downloaded", shown);
    file->sha256 = file->git_blob = NULL;
    __atomic_fetch_add(&source->n_edited, 1, __ATOMIC_RELAXED);
    return TRUE;
  }
  const char *digest = file->sha256 != NULL ? file->sha256 : file->git_blob;
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "source file \"%s\": %s%s does not hold the bytes of %s (remove it and "
                      "download the model again)",
                      shown, file->blob != NULL ? BL_HF_BLOBS "/" : "it",
                      file->blob != NULL ? file->blob : "", digest);
}

const char *bl_source_commit(const BlSource *source) {
  return __atomic_load_n(&source->n_edited, __ATOMIC_RELAXED) == 0 ? source->commit : NULL;
}

const char *bl_source_blob_id(const BlSource *source, guint64 index) {
  const BlSourceFile *file = &source->files[index];
  if (file->blob != NULL && (file->blob == file->sha256 || file->blob == file->git_blob))
    return file->blob;
  return file->sha256 != NULL ? file->sha256 : file->git_blob;
}
