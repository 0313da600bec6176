/* A manifest in memory, and its way out. manifest_parse.c has the way in.
 *
 * A record is 72 bytes and its path. Chunk keys are not kept where they follow from id, path and
 * number, as they do in all that ballast and its peer write; others stand in odd_keys, one after
 * the other for each file. */
#include "model/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "model/key.h"
#include "model/manifest_parse.h"
#include "model/object.h"
#include "store/claim.h"

BlManifest *bl_manifest_new(const char *checkpoint_id, const char *model_id, const char *revision,
                            const char *source_uri) {
  BlManifest *manifest = g_new0(BlManifest, 1);
  manifest->checkpoint_id = g_strdup(checkpoint_id);
  manifest->model_id = g_strdup(model_id);
  manifest->revision = g_strdup(revision);
  manifest->source_uri = g_strdup(source_uri);
  manifest->schema_version = BL_MANIFEST_SCHEMA;
  manifest->strings = g_string_chunk_new(4096);
  manifest->odd_keys = g_ptr_array_new();
  return manifest;
}

void bl_manifest_free(BlManifest *manifest) {
  if (manifest == NULL) return;
  g_free(manifest->checkpoint_id);
  g_free(manifest->model_id);
  g_free(manifest->revision);
  g_free(manifest->source_uri);
  g_free(manifest->error);
  g_free(manifest->files);
  g_string_chunk_free(manifest->strings);
  g_ptr_array_free(manifest->odd_keys, TRUE);
  g_free(manifest);
}

gboolean bl_manifest_is_weight_path(const char *path) {
  static const char *const suffixes[] = {".bin", ".ckpt", ".gguf", ".pt", ".pth", ".safetensors"};
  gsize size = strlen(path);
  for (gsize i = 0; i < G_N_ELEMENTS(suffixes); i++) {
    gsize n = strlen(suffixes[i]);
    if (size >= n && g_ascii_strcasecmp(path + size - n, suffixes[i]) == 0) return TRUE;
  }
  return FALSE;
}

BlManifestFile *bl_manifest_add(BlManifest *manifest, const char *path) {
  if (manifest->n_files == manifest->n_allocated) {
    manifest->n_allocated = MAX(16, manifest->n_allocated * 2);
    manifest->files = g_renew(BlManifestFile, manifest->files, manifest->n_allocated);
  }
  BlManifestFile *file = &manifest->files[manifest->n_files++];
  memset(file, 0, sizeof *file);
  file->path = g_string_chunk_insert(manifest->strings, path);
  file->is_weight = bl_manifest_is_weight_path(path);
  return file;
}

static int compare_paths(const void *a, const void *b) {
  return strcmp(((const BlManifestFile *)a)->path, ((const BlManifestFile *)b)->path);
}

static gboolean is_sorted(const BlManifest *manifest) {
  for (guint64 i = 1; i < manifest->n_files; i++)
    if (compare_paths(&manifest->files[i - 1], &manifest->files[i]) > 0) return FALSE;
  return TRUE;
}

BlManifestFile *bl_manifest_find(const BlManifest *manifest, const char *path) {
  if (manifest->files == NULL) return NULL;
  BlManifestFile wanted = {.path = path};
  return bsearch(&wanted, manifest->files, manifest->n_files, sizeof wanted, compare_paths);
}

/* The path's folders must not be files. Those it shares with the path before it were looked at
 * there. */
static gboolean check_folders(const BlManifest *manifest, const char *before, const char *path,
                              GError **error) {
  gsize shared = 0;
  while (path[shared] != '\0' && path[shared] == before[shared]) shared++;
  g_autofree char *folder = g_strdup(path);
  for (char *slash = strchr(folder + shared, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (bl_manifest_find(manifest, folder) != NULL) {
      g_autofree char *shown = bl_path_display(path);
      g_autofree char *shown_folder = bl_path_display(folder);
      return bl_error_set(error, BL_ERROR_INVALID, "file \"%s\": its folder \"%s\" is a file, too",
                          shown, shown_folder);
    }
    *slash = '/';
  }
  return TRUE;
}

gboolean bl_manifest_finish(BlManifest *manifest, GError **error) {
  if (manifest->n_files > BL_MANIFEST_MAX_FILES)
    return bl_error_set(error, BL_ERROR_INVALID,
                        "%" G_GUINT64_FORMAT " files; a checkpoint has at most %u",
                        manifest->n_files, BL_MANIFEST_MAX_FILES);
  if (!is_sorted(manifest))
    qsort(manifest->files, manifest->n_files, sizeof *manifest->files, compare_paths);
  guint64 total = 0;
  gsize path_bytes = 0;
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const char *path = manifest->files[i].path, *before = i > 0 ? manifest->files[i - 1].path : "";
    if (i > 0 && strcmp(path, before) == 0) {
      g_autofree char *shown = bl_path_display(path);
      return bl_error_set(error, BL_ERROR_INVALID, "file \"%s\" is there twice", shown);
    }
    if (!check_folders(manifest, before, path, error)) return FALSE;
    path_bytes += strlen(path);
    if (path_bytes > BL_MANIFEST_MAX_PATH_BYTES)
      return bl_error_set(error, BL_ERROR_INVALID, "the paths together have more than %u bytes",
                          BL_MANIFEST_MAX_PATH_BYTES);
    if (!g_uint64_checked_add(&total, total, manifest->files[i].size) || total > G_MAXINT64)
      return bl_error_set(error, BL_ERROR_INVALID,
                          "the files' sizes sum to more than 2^63-1 bytes");
  }
  manifest->total_size = total;
  return TRUE;
}

const char *bl_manifest_chunk_key(const BlManifest *manifest, const BlManifestFile *file, guint32 i,
                                  char key[512]) {
  G_STATIC_ASSERT(BL_KEY_MAX == 512);
  if (file->odd_keys != 0) {
    g_strlcpy(key, g_ptr_array_index(manifest->odd_keys, file->odd_keys - 1 + i), BL_KEY_MAX);
    return key;
  }
  if (file->is_whole) return bl_key_file(key, manifest->checkpoint_id, file->path);
  return bl_key_chunk(key, manifest->checkpoint_id, file->path, i);
}

guint64 bl_manifest_chunk_size(const BlManifestFile *file, guint32 i) {
  if (file->n_chunks == 1) return file->size;
  guint64 start;
  if (!g_uint64_checked_mul(&start, i, file->chunk_size) || start >= file->size) return 0;
  return MIN(file->chunk_size, file->size - start);
}

static void append_member(GString *out, const char *name, const char *value) {
  g_string_append_printf(out, ",\"%s\":", name);
  if (value != NULL)
    bl_json_append_string(out, value);
  else
    g_string_append(out, "null");
}

/* A file may have millions of chunks: they are written as they are made. */
static gboolean append_chunks(BlObjectOutput *output, const BlManifest *manifest,
                              const BlManifestFile *file, const char *file_key, GError **error) {
  GString *out = bl_object_output_text(output);
  g_string_append(out, ",\"chunks\":[");
  for (guint32 i = 0; i < file->n_chunks; i++) {
    BlKeyBuffer key;
    const char *text = file->odd_keys == 0 && !file->is_whole
                           ? bl_key_chunk_of_file(key, file_key, i)
                           : bl_manifest_chunk_key(manifest, file, i, key);
    g_string_append_printf(out, "%s\"%s\"", i > 0 ? "," : "", text);
    if (!bl_object_output_flush(output, error)) return FALSE;
  }
  g_string_append_c(out, ']');
  return TRUE;
}

static gboolean append_file(BlObjectOutput *output, const BlManifest *manifest,
                            const BlManifestFile *file, GError **error) {
  GString *out = bl_object_output_text(output);
  BlKeyBuffer file_key;
  char sha256[BL_SHA256_HEX_SIZE + 1] = "";
  if (file->has_sha256) bl_hex_encode(file->sha256, sizeof file->sha256, sha256);
  bl_key_file(file_key, manifest->checkpoint_id, file->path);
  guint64 chunk_size = file->is_whole ? file->size : file->chunk_size;
  g_string_append_printf(out, "{\"chunk_size\":%" G_GUINT64_FORMAT, chunk_size);
  if (!append_chunks(output, manifest, file, file_key, error)) return FALSE;
  append_member(out, "key", file_key);
  append_member(out, "path", file->path);
  append_member(out, "sha256", sha256);
  g_string_append_printf(out, ",\"size\":%" G_GUINT64_FORMAT ",\"type\":\"%s\"}", file->size,
                         file->is_weight ? "WEIGHT" : "METADATA");
  return bl_object_output_flush(output, error);
}

/* The members in the order of their names. */
static gboolean write_json(BlObjectOutput *output, const BlManifest *manifest, GError **error) {
  GString *out = bl_object_output_text(output);
  g_string_append(out, "{\"checkpoint_id\":");
  bl_json_append_string(out, manifest->checkpoint_id);
  g_string_append_printf(out, ",\"created_at\":%" G_GINT64_FORMAT, manifest->created_at);
  append_member(out, "error", manifest->error);
  g_string_append(out, ",\"files\":[");
  for (guint64 i = 0; i < manifest->n_files; i++) {
    if (i > 0) g_string_append_c(out, ',');
    if (!append_file(output, manifest, &manifest->files[i], error)) return FALSE;
  }
  g_string_append_c(out, ']');
  append_member(out, "model_id", manifest->model_id);
  append_member(out, "revision", manifest->revision);
  g_string_append_printf(out, ",\"schema_version\":%u", BL_MANIFEST_SCHEMA);
  append_member(out, "source_uri", manifest->source_uri);
  append_member(out, "status", manifest->is_ready ? "READY" : "FAILED");
  g_string_append_printf(
      out, ",\"total_size\":%" G_GUINT64_FORMAT ",\"updated_at\":%" G_GINT64_FORMAT "}",
      manifest->total_size, manifest->updated_at);
  return TRUE;
}

gboolean bl_manifest_save(BlStore *store, BlManifest *manifest, GError **error) {
  for (guint64 i = 0; manifest->is_ready && i < manifest->n_files; i++)
    g_assert(manifest->files[i].has_sha256);
  g_assert(!manifest->is_ready || manifest->error == NULL);
  BlKeyBuffer key;
  g_autoptr(BlObjectOutput) output =
      bl_object_output_open(store, bl_key_manifest(key, manifest->checkpoint_id), error);
  if (output == NULL || !write_json(output, manifest, error) ||
      !bl_object_output_commit(output, manifest->sha256, error)) {
    g_prefix_error(error, "checkpoint \"%s\": writing its manifest: ", manifest->checkpoint_id);
    return FALSE;
  }
  manifest->schema_version = BL_MANIFEST_SCHEMA;
  return TRUE;
}

BlManifest *bl_manifest_load(BlStore *store, const char *checkpoint_id, BlManifestLoadFlags flags,
                             GError **error) {
  if (!bl_checkpoint_id_check(checkpoint_id, error)) return NULL;
  BlKeyBuffer key;
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlObjectInput) input =
      bl_object_input_open(store, bl_key_manifest(key, checkpoint_id), &fault);
  if (input != NULL)
    return bl_manifest_parse(bl_object_input_read, input, checkpoint_id, flags, error);
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) {
    bl_error_set(error, BL_ERROR_NOT_FOUND, "no checkpoint \"%s\" in %s", checkpoint_id,
                 store->url);
    return NULL;
  }
  g_propagate_prefixed_error(error, g_steal_pointer(&fault),
                             "manifest of checkpoint \"%s\": ", checkpoint_id);
  return NULL;
}

/* BUSY where somebody works, or may work, on the checkpoint. */
static gboolean check_unclaimed(BlStore *store, const char *id, GError **error) {
  BlKeyBuffer prefix;
  BlClaimState state;
  g_autofree char *owner = NULL;
  if (!bl_claim_peek(store, bl_key_prefix(prefix, id), &state, &owner, NULL, error)) return FALSE;
  if (state == BL_CLAIM_LIVE)
    return bl_error_set(error, BL_ERROR_BUSY,
                        "checkpoint \"%s\" is not ready yet: %s (try again when it is done)", id,
                        owner);
  if (state == BL_CLAIM_UNKNOWN)
    return bl_error_set(error, BL_ERROR_BUSY,
                        "checkpoint \"%s\" may not be ready yet: %s; whether it lives cannot "
                        "be told from here "
                        "(import it again: that takes a dead owner's place)",
                        id, owner);
  return TRUE;
}

/* A path that its keys do not follow from is not the one that was imported: all writers of the
 * format name chunks by the hash of the path, so this finds a name that was damaged. */
static gboolean check_paths(const BlManifest *manifest, GError **error) {
  for (guint64 i = 0; i < manifest->n_files; i++) {
    if (manifest->files[i].odd_keys == 0) continue;
    g_autofree char *shown = bl_path_display(manifest->files[i].path);
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "manifest of checkpoint \"%s\": the keys of \"%s\" are not those of this "
                        "path (delete the checkpoint and import it again)",
                        manifest->checkpoint_id, shown);
  }
  return TRUE;
}

static BlManifest *give_ready(BlManifest *manifest, GError **error) {
  if (check_paths(manifest, error)) return manifest;
  bl_manifest_free(manifest);
  return NULL;
}

/* Says what to do about a manifest that is damaged. */
static void add_advice(GError **error) {
  if (error == NULL || *error == NULL || bl_error_code(*error) != BL_ERROR_CORRUPT) return;
  g_autoptr(GError) fault = g_steal_pointer(error);
  bl_error_set(error, BL_ERROR_CORRUPT, "%s (import it again, or delete it)", fault->message);
}

BlManifest *bl_manifest_load_ready(BlStore *store, const char *checkpoint_id, GError **error) {
  g_autoptr(BlManifest) first = bl_manifest_load(store, checkpoint_id, 0, error);
  if (first == NULL) {
    add_advice(error);
    return NULL;
  }
  if (first->is_ready) return give_ready(g_steal_pointer(&first), error);
  if (!check_unclaimed(store, checkpoint_id, error)) return NULL;
  /* An import may have ended between the two looks. */
  g_autoptr(BlManifest) manifest = bl_manifest_load(store, checkpoint_id, 0, error);
  if (manifest == NULL) return NULL;
  if (manifest->is_ready) return give_ready(g_steal_pointer(&manifest), error);
  g_autofree char *reason =
      bl_path_display(manifest->error != NULL ? manifest->error : "no reason given");
  bl_error_set(error, BL_ERROR_CORRUPT,
               "checkpoint \"%s\" is not ready: %s (import it again, or delete it)", checkpoint_id,
               reason);
  return NULL;
}

gboolean bl_manifest_exists(BlStore *store, const char *checkpoint_id, gboolean *exists,
                            GError **error) {
  BlKeyBuffer key;
  guint64 size;
  g_autoptr(GError) fault = NULL;
  *exists = bl_store_size(store, bl_key_manifest(key, checkpoint_id), &size, &fault) ||
            g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT);
  if (*exists || g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}
