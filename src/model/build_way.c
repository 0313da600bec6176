#include "model/build_way.h"

#include <string.h>

#include "base/error.h"
#include "model/key.h"

/* Keys held at a time, of some 150 bytes each. */
#define BATCH 10000

/* The planned files by the hash in their chunks' keys, sorted by it. */
typedef struct {
  guint8 hash[BL_SHA256_SIZE];
  guint32 n_chunks;
} PlannedFile;

typedef struct {
  const BlManifest *plan;
  GArray *planned;
  GPtrArray *stale;             /* of char*: keys */
  gboolean is_full;             /* there are more than these */
  guint64 n_there, there_bytes; /* objects that the plan has, too */
  BlStore *store;
} Survey;

static int compare_planned(gconstpointer a, gconstpointer b) {
  return memcmp(a, b, BL_SHA256_SIZE);
}

static GArray *index_plan(const BlManifest *plan) {
  GArray *planned = g_array_sized_new(FALSE, FALSE, sizeof(PlannedFile), (guint)plan->n_files);
  for (guint64 i = 0; i < plan->n_files; i++) {
    PlannedFile file = {.n_chunks = plan->files[i].n_chunks};
    bl_sha256(plan->files[i].path, strlen(plan->files[i].path), file.hash);
    g_array_append_val(planned, file);
  }
  g_array_sort(planned, compare_planned);
  return planned;
}

/* rest: the key behind the checkpoint's prefix, "files/<hash>/chunks/<number>". */
static gboolean is_planned(const Survey *survey, const char *rest) {
  PlannedFile wanted;
  if (strlen(rest) != strlen("files/") + BL_SHA256_HEX_SIZE + strlen("/chunks/00000000") ||
      !bl_hex_decode(rest + strlen("files/"), BL_SHA256_HEX_SIZE, wanted.hash, BL_SHA256_SIZE))
    return FALSE;
  const char *number = rest + strlen("files/") + BL_SHA256_HEX_SIZE;
  if (!g_str_has_prefix(number, "/chunks/") || strspn(number + 8, "0123456789") != 8) return FALSE;
  guint index;
  if (!g_array_binary_search(survey->planned, &wanted, compare_planned, &index)) return FALSE;
  return g_ascii_strtoull(number + 8, NULL, 10) <
         g_array_index(survey->planned, PlannedFile, index).n_chunks;
}

static gboolean consider(const char *key, const BlObjectStat *object, gpointer user,
                         GError **error) {
  Survey *survey = user;
  char id[256];
  const char *rest;
  (void)error;
  if (!bl_key_split(key, id, &rest) || strcmp(id, survey->plan->checkpoint_id) != 0) return TRUE;
  if (!g_str_has_prefix(rest, "files/")) return TRUE;
  if (is_planned(survey, rest)) {
    survey->n_there++;
    survey->there_bytes += object->size;
  } else if (survey->stale->len < BATCH) {
    g_ptr_array_add(survey->stale, g_strdup(key));
  } else {
    survey->is_full = TRUE;
  }
  return TRUE;
}

/* Where a store cannot list, the old manifest tells what there may be. */
static gboolean consider_old(Survey *survey, const BlManifest *old, GError **error) {
  char key[BL_KEY_MAX];
  for (guint64 i = 0; i < old->n_files; i++) {
    for (guint32 c = 0; c < old->files[i].n_chunks; c++) {
      BlObjectStat object;
      bl_manifest_chunk_key(old, &old->files[i], c, key);
      if (bl_store_stat(survey->store, key, &object, NULL) &&
          !consider(key, &object, survey, error))
        return FALSE;
    }
  }
  return TRUE;
}

static gboolean check_space(BlStore *store, const Survey *survey, GError **error) {
  guint64 free_bytes;
  g_autoptr(GError) fault = NULL;
  if (!bl_store_free_space(store, &free_bytes, &fault)) {
    if (g_error_matches(fault, BL_ERROR, BL_ERROR_UNSUPPORTED)) return TRUE;
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  guint64 needed = survey->plan->total_size - MIN(survey->there_bytes, survey->plan->total_size);
  if (needed <= free_bytes) return TRUE;
  g_autofree char *needed_text = g_format_size_full(needed, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *free_text = g_format_size_full(free_bytes, G_FORMAT_SIZE_IEC_UNITS);
  return bl_error_set(
      error, BL_ERROR_NO_SPACE,
      "store %s: \"%s\" needs %s and only %s are free (delete a checkpoint, or name another store)",
      store->url, survey->plan->checkpoint_id, needed_text, free_text);
}

static gboolean remove_stale(BlStore *store, const Survey *survey, BlJob *job, GError **error) {
  for (guint i = 0; i < survey->stale->len; i++)
    if (!bl_job_check(job, error) ||
        !bl_store_remove(store, g_ptr_array_index(survey->stale, i), error))
      return FALSE;
  return survey->stale->len == 0 || bl_store_sync(store, error);
}

/* Looks at what is there. */
static gboolean survey_store(Survey *survey, const BlManifest *old, GError **error) {
  char prefix[BL_KEY_MAX];
  g_ptr_array_set_size(survey->stale, 0);
  survey->n_there = survey->there_bytes = 0;
  survey->is_full = FALSE;
  if (bl_store_can(survey->store, BL_STORE_CAN_LIST))
    return bl_store_list(survey->store, bl_key_prefix(prefix, survey->plan->checkpoint_id),
                         consider, survey, error);
  return old == NULL || consider_old(survey, old, error);
}

gboolean bl_build_clear_way(BlStore *store, const BlManifest *plan, const BlManifest *old,
                            gboolean is_unreadable, gboolean *may_be_there, BlJob *job,
                            GError **error) {
  g_autoptr(GPtrArray) stale = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) planned = index_plan(plan);
  Survey survey = {.plan = plan, .planned = planned, .stale = stale, .store = store};
  do {
    if (!survey_store(&survey, old, error) || !check_space(store, &survey, error) ||
        !remove_stale(store, &survey, job, error))
      return FALSE;
  } while (survey.is_full);
  /* What an unreadable manifest named cannot be known without a listing: everything is compared. */
  *may_be_there = survey.n_there > 0 || (is_unreadable && !bl_store_can(store, BL_STORE_CAN_LIST));
  return TRUE;
}

static guint64 take_back_key(BlStore *store, const char *key) {
  return bl_store_remove(store, key, NULL) ? 0 : 1;
}

guint64 bl_build_take_back(BlStore *store, const BlManifest *manifest) {
  char key[BL_KEY_MAX];
  guint64 n_left = 0;
  for (guint64 i = 0; i < manifest->n_files; i++)
    for (guint32 c = 0; c < manifest->files[i].n_chunks; c++)
      n_left += take_back_key(store, bl_manifest_chunk_key(manifest, &manifest->files[i], c, key));
  n_left += take_back_key(store, bl_key_digests(key, manifest->checkpoint_id));
  n_left += take_back_key(store, bl_key_info(key, manifest->checkpoint_id));
  if (n_left > 0) return n_left;
  /* Where it may not be durable that they are gone, the manifest stays, too. */
  return bl_store_sync(store, NULL)
             ? take_back_key(store, bl_key_manifest(key, manifest->checkpoint_id))
             : 1;
}
