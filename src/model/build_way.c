#include "model/build_way.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/digests.h"
#include "model/key.h"

/* Keys held at a time, of some 150 bytes each. */
#define BATCH 10000

/* The planned files by the hash in their chunks' keys, sorted by it. */
typedef struct {
  guint8 hash[BL_SHA256_SIZE];
  guint64 index; /* in the plan */
} PlannedFile;

typedef struct {
  BlStore *store;
  const BlManifest *plan;
  GArray *planned;
  guint64 *there_bytes; /* per file of the plan */
  GPtrArray *stale;     /* of char*: keys */
  gboolean is_full;     /* there are more than these */
  gboolean is_any_there;
} Survey;

static int compare_planned(gconstpointer a, gconstpointer b) {
  return memcmp(a, b, BL_SHA256_SIZE);
}

static GArray *index_plan(const BlManifest *plan) {
  GArray *planned = g_array_sized_new(FALSE, FALSE, sizeof(PlannedFile), (guint)plan->n_files);
  for (guint64 i = 0; i < plan->n_files; i++) {
    PlannedFile file = {.index = i};
    bl_sha256(plan->files[i].path, strlen(plan->files[i].path), file.hash);
    g_array_append_val(planned, file);
  }
  g_array_sort(planned, compare_planned);
  return planned;
}

/* Whether the key is one of the plan's; *file: of which file. */
static gboolean is_planned(const Survey *survey, const char *key, guint64 *file) {
  PlannedFile wanted;
  char hex[BL_SHA256_HEX_SIZE + 1];
  guint32 chunk;
  guint at;
  if (!bl_key_is_chunk(key, survey->plan->checkpoint_id, hex, &chunk) ||
      !bl_hex_decode(hex, BL_SHA256_HEX_SIZE, wanted.hash, BL_SHA256_SIZE) ||
      !g_array_binary_search(survey->planned, &wanted, compare_planned, &at))
    return FALSE;
  *file = g_array_index(survey->planned, PlannedFile, at).index;
  return chunk < survey->plan->files[*file].n_chunks;
}

static gboolean consider(const char *key, const BlObjectStat *object, gpointer user,
                         GError **error) {
  Survey *survey = user;
  char id[256];
  const char *rest;
  guint64 file;
  (void)error;
  if (!bl_key_split(key, id, &rest) || strcmp(id, survey->plan->checkpoint_id) != 0) return TRUE;
  if (!g_str_has_prefix(rest, "files/")) return TRUE;
  if (is_planned(survey, key, &file)) {
    survey->is_any_there = TRUE;
    survey->there_bytes[file] += object->size;
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

static gboolean remove_stale(BlStore *store, const Survey *survey, BlJob *job, GError **error) {
  for (guint i = 0; i < survey->stale->len; i++)
    if (!bl_job_check(job, error) ||
        !bl_store_remove(store, g_ptr_array_index(survey->stale, i), error))
      return FALSE;
  return survey->stale->len == 0 || bl_store_sync(store, error);
}

/* Looks at what is there. */
static gboolean survey_store(Survey *survey, const BlManifest *old, GError **error) {
  BlKeyBuffer prefix;
  g_ptr_array_set_size(survey->stale, 0);
  memset(survey->there_bytes, 0, survey->plan->n_files * sizeof *survey->there_bytes);
  survey->is_any_there = survey->is_full = FALSE;
  if (bl_store_can(survey->store, BL_STORE_CAN_LIST))
    return bl_store_list(survey->store, bl_key_prefix(prefix, survey->plan->checkpoint_id),
                         consider, survey, error);
  return old == NULL || consider_old(survey, old, error);
}

gboolean bl_build_clear_way(BlStore *store, const BlManifest *plan, const BlManifest *old,
                            gboolean is_unreadable, guint64 *there_bytes, gboolean *may_be_there,
                            BlJob *job, GError **error) {
  g_autoptr(GPtrArray) stale = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) planned = index_plan(plan);
  Survey survey = {
      .store = store, .plan = plan, .planned = planned, .there_bytes = there_bytes, .stale = stale};
  do {
    if (!survey_store(&survey, old, error) || !remove_stale(store, &survey, job, error))
      return FALSE;
  } while (survey.is_full);
  /* What an unreadable manifest named cannot be known without a listing: everything is compared. */
  *may_be_there = survey.is_any_there || (is_unreadable && !bl_store_can(store, BL_STORE_CAN_LIST));
  return TRUE;
}

gboolean bl_build_free_space(BlStore *store, guint64 *n_bytes, GError **error) {
  g_autoptr(GError) fault = NULL;
  if (bl_store_free_space(store, n_bytes, &fault)) return TRUE;
  *n_bytes = G_MAXUINT64;
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_UNSUPPORTED)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* What is not of any file: the heads of the objects, claim, beat, reservation, state, last use. */
#define CONTROL_BYTES (64u * 1024)
/* Of each file's record in one object, without its path and what is counted by itself: names of
 * members, two digests of 64 digits, numbers. */
#define RECORD_BYTES 320u
/* Of a chunk's key, without the id, with quotes and comma. */
#define KEY_BYTES 112u

guint64 bl_build_control_bytes(const BlManifest *plan) {
  guint64 manifest = 0, digests = 0, info = 0;
  guint64 key = KEY_BYTES + strlen(plan->checkpoint_id);
  g_autoptr(GString) path = g_string_new(NULL);
  for (guint64 i = 0; i < plan->n_files; i++) {
    const BlManifestFile *file = &plan->files[i];
    g_string_truncate(path, 0);
    bl_json_append_string(path, file->path);
    guint64 record = RECORD_BYTES + path->len;
    manifest += record + (file->n_chunks + 1) * key;
    digests += record + 8 * bl_digests_n_blocks(file->size);
    info += record;
  }
  return CONTROL_BYTES + 2 * manifest + digests + info;
}

gboolean bl_build_has_file(BlStore *store, const BlManifest *manifest, const BlManifestFile *file) {
  char key[BL_KEY_MAX];
  guint64 size;
  for (guint32 c = 0; c < file->n_chunks; c++)
    if (bl_store_size(store, bl_manifest_chunk_key(manifest, file, c, key), &size, NULL))
      return TRUE;
  return FALSE;
}

static guint64 take_back_key(BlStore *store, const char *key) {
  return bl_store_remove(store, key, NULL) ? 0 : 1;
}

guint64 bl_build_remove_file(BlStore *store, const BlManifest *manifest,
                             const BlManifestFile *file) {
  char key[BL_KEY_MAX];
  guint64 n_left = 0;
  for (guint32 c = 0; c < file->n_chunks; c++)
    n_left += take_back_key(store, bl_manifest_chunk_key(manifest, file, c, key));
  return n_left;
}

guint64 bl_build_take_back(BlStore *store, const BlManifest *manifest) {
  char key[BL_KEY_MAX];
  guint64 n_left = 0;
  for (guint64 i = 0; i < manifest->n_files; i++)
    n_left += bl_build_remove_file(store, manifest, &manifest->files[i]);
  n_left += take_back_key(store, bl_key_digests(key, manifest->checkpoint_id));
  n_left += take_back_key(store, bl_key_info(key, manifest->checkpoint_id));
  if (n_left > 0) return n_left;
  /* Where it may not be durable that they are gone, the manifest stays, too. */
  return bl_store_sync(store, NULL)
             ? take_back_key(store, bl_key_manifest(key, manifest->checkpoint_id))
             : 1;
}
