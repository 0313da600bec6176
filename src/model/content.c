/* Manifests are read in parallel, but large ones one after the other at the end, so that memory
 * stays bounded: the records of one with 100,000 files take some 12 MB while it is read. */
#include "model/content.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/key.h"

/* Bytes of a manifest that is read by itself. */
#define LARGE_MANIFEST (4u * 1024 * 1024)

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
  return order != 0 ? order : strcmp(left->key, right->key);
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
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const BlManifestFile *record = &manifest->files[i];
    BlKeyBuffer key;
    if (!is_wanted(load, record)) continue;
    if (id == NULL) id = g_string_chunk_insert(content->strings, manifest->checkpoint_id);
    bl_manifest_chunk_key(manifest, record, 0, key);
    BlContentFile file = {.key = g_string_chunk_insert(content->strings, key),
                          .checkpoint_id = id,
                          .size = record->size};
    memcpy(file.sha256, record->sha256, BL_SHA256_SIZE);
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

/* The first file that is not before the wanted one; sha256 NULL: of that size. */
static guint lower_bound(const BlContent *content, guint64 size, const guint8 *sha256) {
  BlContentFile wanted = {.size = size};
  guint low = 0, high = content->files->len;
  if (sha256 != NULL) memcpy(wanted.sha256, sha256, BL_SHA256_SIZE);
  while (low < high) {
    guint middle = low + (high - low) / 2;
    if (compare_bytes(&g_array_index(content->files, BlContentFile, middle), &wanted) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const BlContentFile *give(const BlContent *content, guint first, guint64 size,
                                 const guint8 *sha256, gsize *n) {
  const BlContentFile *files = (const BlContentFile *)(const void *)content->files->data;
  for (*n = 0; first + *n < content->files->len; (*n)++) {
    const BlContentFile *file = &files[first + *n];
    if (file->size != size || (sha256 != NULL && memcmp(file->sha256, sha256, BL_SHA256_SIZE) != 0))
      break;
  }
  return *n > 0 ? &files[first] : NULL;
}

const BlContentFile *bl_content_find_size(const BlContent *content, guint64 size, gsize *n) {
  return give(content, lower_bound(content, size, NULL), size, NULL, n);
}

const BlContentFile *bl_content_find(const BlContent *content, guint64 size,
                                     const guint8 sha256[BL_SHA256_SIZE], gsize *n) {
  return give(content, lower_bound(content, size, sha256), size, sha256, n);
}
