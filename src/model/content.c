/* Manifests are read in parallel, but large ones one after the other at the end, so that memory
 * stays bounded: the records of one with 100,000 files take some 12 MB while it is read. */
#include "model/content.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/key.h"

/* Bytes of a manifest that is read by itself. */
#define LARGE_MANIFEST (4u * 1024 * 1024)
/* Files that are kept, of some 80 bytes each. Where more could be of use, these are many. */
#define MAX_FILES 400000u

struct BlContent {
  GArray *files; /* of BlContentFile, by size, then SHA-256 */
  GStringChunk *strings;
};

typedef struct {
  BlStore *store;
  BlContent *content;
  GPtrArray *ids; /* of char* */
  const guint64 *sizes;
  gsize n_sizes;
  GMutex lock;      /* protects content and large */
  GPtrArray *large; /* of char*, borrowed: left for the end */
} Load;

static int compare_sizes(const void *a, const void *b) {
  guint64 left = *(const guint64 *)a, right = *(const guint64 *)b;
  return (left > right) - (left < right);
}

static int compare_bytes(const BlContentFile *a, const BlContentFile *b) {
  int order = compare_sizes(&a->size, &b->size);
  return order != 0 ? order : memcmp(a->sha256, b->sha256, BL_SHA256_SIZE);
}

/* The ids make the order the same at every load. */
static int compare_files(gconstpointer a, gconstpointer b) {
  const BlContentFile *left = a, *right = b;
  int order = compare_bytes(left, right);
  if (order == 0) order = strcmp(left->checkpoint_id, right->checkpoint_id);
  return order != 0 ? order : memcmp(left->path_sha256, right->path_sha256, BL_SHA256_SIZE);
}

static gboolean is_wanted(const Load *load, const BlManifestFile *file) {
  if (file->n_chunks != 1 || file->odd_keys != 0 || file->is_whole) return FALSE;
  return load->sizes == NULL ||
         bsearch(&file->size, load->sizes, load->n_sizes, sizeof file->size, compare_sizes) != NULL;
}

static void add_files(Load *load, const BlManifest *manifest) {
  BlContent *content = load->content;
  const char *id = NULL;
  g_mutex_lock(&load->lock);
  for (guint64 i = 0; i < manifest->n_files && content->files->len < MAX_FILES; i++) {
    const BlManifestFile *record = &manifest->files[i];
    if (!is_wanted(load, record)) continue;
    if (id == NULL) id = g_string_chunk_insert(content->strings, manifest->checkpoint_id);
    BlContentFile file = {.checkpoint_id = id, .size = record->size};
    memcpy(file.sha256, record->sha256, BL_SHA256_SIZE);
    bl_sha256(record->path, strlen(record->path), file.path_sha256);
    g_array_append_val(content->files, file);
  }
  g_mutex_unlock(&load->lock);
}

static void load_manifest(Load *load, const char *id) {
  g_autoptr(BlManifest) manifest = bl_manifest_load(load->store, id, 0, NULL);
  if (manifest != NULL && manifest->is_ready) add_files(load, manifest);
}

static gboolean load_one(guint64 i, guint worker, gpointer user, GError **error) {
  Load *load = user;
  BlKeyBuffer key;
  guint64 size;
  char *id = g_ptr_array_index(load->ids, i);
  (void)worker;
  (void)error;
  if (!bl_store_size(load->store, bl_key_manifest(key, id), &size, NULL)) return TRUE;
  if (size <= LARGE_MANIFEST) {
    load_manifest(load, id);
    return TRUE;
  }
  g_mutex_lock(&load->lock);
  g_ptr_array_add(load->large, id);
  g_mutex_unlock(&load->lock);
  return TRUE;
}

static gboolean load_all(Load *load, BlJob *job, GError **error) {
  if (!bl_job_run(job, load->ids->len, load_one, load, error)) return FALSE;
  for (guint i = 0; i < load->large->len; i++) {
    if (!bl_job_check(job, error)) return FALSE;
    load_manifest(load, g_ptr_array_index(load->large, i));
  }
  return TRUE;
}

typedef struct {
  GPtrArray *ids;
  const char *except;
} Folders;

static gboolean take_folder(const char *part, gpointer user, GError **error) {
  Folders *folders = user;
  (void)error;
  if (bl_checkpoint_id_check(part, NULL) && g_strcmp0(part, folders->except) != 0)
    g_ptr_array_add(folders->ids, g_strdup(part));
  return TRUE;
}

BlContent *bl_content_load(BlStore *store, const char *except, guint64 *sizes, gsize n_sizes,
                           BlJob *job, GError **error) {
  g_autoptr(BlContent) content = g_new0(BlContent, 1);
  content->files = g_array_new(FALSE, FALSE, sizeof(BlContentFile));
  content->strings = g_string_chunk_new(4096);
  if (!bl_store_can(store, BL_STORE_CAN_LIST) || !bl_store_can(store, BL_STORE_CAN_SHARE) ||
      (sizes != NULL && n_sizes == 0))
    return g_steal_pointer(&content);
  if (sizes != NULL) qsort(sizes, n_sizes, sizeof *sizes, compare_sizes);

  g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GPtrArray) large = g_ptr_array_new();
  Folders folders = {.ids = ids, .except = except};
  if (!bl_store_list_folders(store, BL_KEY_MODELS, take_folder, &folders, error)) return NULL;
  Load load = {.store = store,
               .content = content,
               .ids = ids,
               .sizes = sizes,
               .n_sizes = n_sizes,
               .large = large};
  g_mutex_init(&load.lock);
  gboolean ok = load_all(&load, job, error);
  g_mutex_clear(&load.lock);
  if (!ok) return NULL;
  g_array_sort(content->files, compare_files);
  return g_steal_pointer(&content);
}

void bl_content_free(BlContent *content) {
  if (content == NULL) return;
  g_array_unref(content->files);
  g_string_chunk_free(content->strings);
  g_free(content);
}

char *bl_content_key(const BlContentFile *file, char key[512]) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  BlKeyBuffer file_key;
  bl_hex_encode(file->path_sha256, BL_SHA256_SIZE, hex);
  return bl_key_chunk_of_file(key, bl_key_file_of_hex(file_key, file->checkpoint_id, hex), 0);
}

/* sha256 NULL: by size alone. */
static int compare_to(const BlContentFile *file, guint64 size, const guint8 *sha256) {
  int order = compare_sizes(&file->size, &size);
  return order != 0 || sha256 == NULL ? order : memcmp(file->sha256, sha256, BL_SHA256_SIZE);
}

/* The first file that is not before the wanted ones; behind: that is behind them. */
static guint find_bound(const BlContent *content, guint64 size, const guint8 *sha256,
                        gboolean behind) {
  guint low = 0, high = content->files->len;
  while (low < high) {
    guint middle = low + (high - low) / 2;
    int order = compare_to(&g_array_index(content->files, BlContentFile, middle), size, sha256);
    if (order < 0 || (behind && order == 0))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* There may be as many files of one size as there are files: they are not gone through. */
static const BlContentFile *find(const BlContent *content, guint64 size, const guint8 *sha256,
                                 gsize *n) {
  guint first = find_bound(content, size, sha256, FALSE);
  *n = find_bound(content, size, sha256, TRUE) - first;
  return *n > 0 ? &g_array_index(content->files, BlContentFile, first) : NULL;
}

const BlContentFile *bl_content_find_size(const BlContent *content, guint64 size, gsize *n) {
  return find(content, size, NULL, n);
}

const BlContentFile *bl_content_find(const BlContent *content, guint64 size,
                                     const guint8 sha256[BL_SHA256_SIZE], gsize *n) {
  return find(content, size, sha256, n);
}
