/* What belongs to no checkpoint. Each thing is judged by the store as it is now, not by the walk
 * before: a checkpoint may have come meanwhile. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "model/key.h"
#include "model/object.h"
#include "model/ref.h"
#include "model/usage.h"
#include "upkeep/survey_impl.h"

/* As ref.c and catalog.c bound them. */
#define MAX_REF (64u * 1024)
#define MAX_INDEX (32u * 1024 * 1024)
#define REF_SCHEMA 1u
/* Far more than the steps between a new folder and what goes into it take. */
#define FRESH_US (10 * G_USEC_PER_SEC)

typedef struct {
  char *key;
  BlObjectStat stat;
} Entry;

static void entry_free(gpointer data) {
  Entry *entry = data;
  g_free(entry->key);
  g_free(entry);
}

static gboolean add_entry(const char *key, const BlObjectStat *stat, gpointer user,
                          GError **error) {
  Entry *entry = g_new(Entry, 1);
  (void)error;
  *entry = (Entry){.key = g_strdup(key), .stat = *stat};
  g_ptr_array_add(user, entry);
  return TRUE;
}

static GPtrArray *list(BlStore *store, const char *prefix, GError **error) {
  g_autoptr(GPtrArray) entries = g_ptr_array_new_with_free_func(entry_free);
  if (!bl_store_list(store, prefix, add_entry, entries, error)) return NULL;
  return g_steal_pointer(&entries);
}

/* Whether the checkpoint has a manifest, be it a damaged one, or somebody who is making it. */
static gboolean is_there(BlStore *store, const char *id, gboolean *there, GError **error) {
  BlKeyBuffer key;
  guint64 size;
  g_autoptr(GError) fault = NULL;
  BlClaimState state = BL_CLAIM_NONE;
  *there = bl_store_size(store, bl_key_manifest(key, id), &size, &fault) ||
           !g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND);
  if (*there) return TRUE;
  if (!bl_catalog_peek_claim(store, bl_key_prefix(key, id), &state, error)) return FALSE;
  *there = state == BL_CLAIM_LIVE || state == BL_CLAIM_UNKNOWN;
  return TRUE;
}

static gboolean emit_entry(BlSurveyRun *run, BlFindingKind kind, const char *id, const Entry *entry,
                           const char *text, GError **error) {
  BlFinding finding = {.kind = kind,
                       .checkpoint_id = id,
                       .name = entry->key,
                       .text = text,
                       .n_objects = 1,
                       .n_bytes = entry->stat.size,
                       .stat = entry->stat};
  BlSeverity severity = bl_finding_severity(kind);
  if (severity == BL_SEVERITY_LEFTOVER || kind == BL_FINDING_REF) bl_finding_identify(&finding);
  return bl_survey_emit(&finding, run, error);
}

static gboolean emit_moved(BlSurveyRun *run, const Entry *entry, const char *id, GError **error) {
  BlKeyBuffer prefix;
  BlClaimState state = BL_CLAIM_NONE;
  /* A delete that is under way has just moved it. */
  if (id != NULL && !bl_catalog_peek_claim(run->store, bl_key_prefix(prefix, id), &state, error))
    return FALSE;
  if (state == BL_CLAIM_LIVE || state == BL_CLAIM_UNKNOWN) return TRUE;
  return emit_entry(run, BL_FINDING_MOVED_REF, id, entry,
                    "a ref that an interrupted delete moved away", error);
}

static gboolean judge_ref(BlSurveyRun *run, const Entry *entry, GError **error) {
  g_autoptr(GError) fault = NULL;
  g_autoptr(json_t) json =
      bl_object_load_json(run->store, entry->key, MAX_REF, REF_SCHEMA, "ref", &fault);
  if (json == NULL && fault == NULL) return TRUE;
  const char *id = json != NULL ? bl_json_find_string(json, "checkpoint_id", "") : "";
  const char *model = json != NULL ? bl_json_find_string(json, "model_id", "") : "";
  const char *ref = json != NULL ? bl_json_find_string(json, "ref", "") : "";
  gboolean is_legal = bl_checkpoint_id_check(id, NULL), there;
  if (bl_ref_is_moved(entry->key)) return emit_moved(run, entry, is_legal ? id : NULL, error);
  BlKeyBuffer key;
  if (!is_legal || strcmp(bl_key_ref(key, model, ref), entry->key) != 0)
    return emit_entry(run, BL_FINDING_BAD_REF, NULL, entry,
                      fault != NULL ? fault->message : "its object is of another ref", error);
  if (!is_there(run->store, id, &there, error)) return FALSE;
  if (there) return TRUE;
  g_autofree char *shown_ref = bl_path_display(ref), *shown_model = bl_path_display(model);
  g_autofree char *text = g_strdup_printf(
      "ref \"%s\" of model \"%s\" names a checkpoint that is gone", shown_ref, shown_model);
  return emit_entry(run, BL_FINDING_REF, id, entry, text, error);
}

static gboolean judge_refs(BlSurveyRun *run, GError **error) {
  g_autoptr(GPtrArray) entries = list(run->store, BL_KEY_REFS, error);
  if (entries == NULL) return FALSE;
  for (guint i = 0; i < entries->len; i++)
    if (!judge_ref(run, g_ptr_array_index(entries, i), error)) return FALSE;
  return TRUE;
}

static gboolean judge_used(BlSurveyRun *run, GError **error) {
  g_autoptr(GPtrArray) entries = list(run->store, BL_KEY_USED, error);
  if (entries == NULL) return FALSE;
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = g_ptr_array_index(entries, i);
    const char *id = entry->key + strlen(BL_KEY_USED);
    BlSurveyed *surveyed = bl_survey_find(run->survey, id);
    gboolean is_legal = bl_checkpoint_id_check(id, NULL), there = FALSE;
    if (surveyed != NULL) surveyed->used_us = bl_usage_get(run->store, id);
    if (run->func == NULL) continue;
    if (is_legal && !is_there(run->store, id, &there, error)) return FALSE;
    if (!there &&
        !emit_entry(
            run, is_legal ? BL_FINDING_USED : BL_FINDING_FOREIGN, is_legal ? id : NULL, entry,
            is_legal ? "the last use of a checkpoint that is gone" : "ballast knows no such object",
            error))
      return FALSE;
  }
  return TRUE;
}

/* Whoever shares the store keeps it; ids that are no ids are passed over. */
static gboolean judge_index(BlSurveyRun *run, GError **error) {
  g_autofree char *data = NULL;
  g_autoptr(GError) fault = NULL;
  gsize size;
  if (!bl_store_can(run->store, BL_STORE_IS_SHARED)) return TRUE;
  if (!bl_store_load(run->store, BL_KEY_INDEX_MODELS, MAX_INDEX, &data, &size, &fault)) {
    if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  g_autoptr(json_t) json = bl_json_parse(data, size, "index of checkpoints", error);
  if (json == NULL) return FALSE;
  for (size_t i = 0; i < json_array_size(json); i++) {
    const char *id = json_string_value(json_array_get(json, i));
    gboolean there = TRUE;
    if (id == NULL || !bl_checkpoint_id_check(id, NULL)) continue;
    if (!is_there(run->store, id, &there, error)) return FALSE;
    BlFinding finding = {.kind = BL_FINDING_INDEX,
                         .checkpoint_id = id,
                         .name = BL_KEY_INDEX_MODELS,
                         .text = "the index names a checkpoint that is gone"};
    if (!there && !bl_survey_emit(&finding, run, error)) return FALSE;
  }
  return TRUE;
}

/* The claim under which room is given out, and what of it a dead owner left. */
static gboolean judge_room(BlSurveyRun *run, GError **error) {
  BlClaimState state;
  g_autoptr(GPtrArray) entries = list(run->store, BL_KEY_ROOM, error);
  if (entries == NULL) return FALSE;
  if (entries->len == 0) return TRUE;
  if (!bl_catalog_peek_claim(run->store, BL_KEY_ROOM, &state, error)) return FALSE;
  if (state == BL_CLAIM_LIVE || state == BL_CLAIM_UNKNOWN) return TRUE;
  BlFinding finding = {.kind = BL_FINDING_CLAIM,
                       .name = BL_KEY_ROOM,
                       .text = "claims or heartbeats of owners that are gone"};
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = g_ptr_array_index(entries, i);
    bl_finding_add_object(&finding, entry->key, &entry->stat);
  }
  return bl_survey_emit(&finding, run, error);
}

static gboolean judge_control(BlSurveyRun *run, GError **error) {
  g_autoptr(GPtrArray) entries = list(run->store, "weight/control/", error);
  if (entries == NULL) return FALSE;
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = g_ptr_array_index(entries, i);
    if (g_str_has_prefix(entry->key, BL_KEY_ROOM) || strcmp(entry->key, BL_KEY_GC) == 0 ||
        strcmp(entry->key, BL_KEY_OWNER) == 0)
      continue;
    if (!emit_entry(run, BL_FINDING_FOREIGN, NULL, entry, "ballast knows no such object", error))
      return FALSE;
  }
  return judge_room(run, error);
}

/* The id of the checkpoint in whose folder the path is. FALSE where it is in none. */
static gboolean split_path(const char *path, char id[256]) {
  if (!g_str_has_prefix(path, BL_KEY_MODELS)) return FALSE;
  const char *start = path + strlen(BL_KEY_MODELS);
  gsize size = strcspn(start, "/");
  if (size == 0 || size > 255) return FALSE;
  memcpy(id, start, size);
  id[size] = '\0';
  return bl_checkpoint_id_check(id, NULL);
}

/* A put under way has just made it, or had: what works on it may have ended since it was listed. */
static gboolean is_fresh(const BlStray *stray) {
  gint64 age_us = g_get_real_time() - stray->stat.mtime_ns / 1000;
  return age_us >= 0 && age_us < FRESH_US;
}

static gboolean judge_stray(const BlStray *stray, gpointer user, GError **error) {
  BlSurveyRun *run = user;
  char id[256];
  BlKeyBuffer prefix;
  gboolean has_id = split_path(stray->path, id);
  BlClaimState state = BL_CLAIM_NONE;
  BlFinding finding = {.kind = stray->is_temporary ? BL_FINDING_TEMPORARY
                               : stray->is_folder  ? BL_FINDING_FOLDER
                                                   : BL_FINDING_FOREIGN,
                       .checkpoint_id = has_id ? id : NULL,
                       .name = stray->path,
                       .n_objects = 1,
                       .n_bytes = stray->is_folder ? 0 : stray->stat.size,
                       .stat = stray->stat};
  finding.text = stray->is_temporary ? "a write that never ended"
                 : stray->is_folder  ? "an empty folder"
                                     : "ballast did not put it there";
  if (finding.kind == BL_FINDING_FOREIGN) return bl_survey_emit(&finding, run, error);
  if (has_id && !bl_catalog_peek_claim(run->store, bl_key_prefix(prefix, id), &state, error))
    return FALSE;
  if (state == BL_CLAIM_LIVE || state == BL_CLAIM_UNKNOWN) return TRUE;
  if (state == BL_CLAIM_NONE && is_fresh(stray)) return TRUE;
  bl_finding_identify(&finding);
  return bl_survey_emit(&finding, run, error);
}

typedef struct {
  BlSurveyRun *run;
  const char *prefix;
  const char *const *known;
} Folders;

static gboolean judge_folder(const char *part, gpointer user, GError **error) {
  const Folders *folders = user;
  if (g_strv_contains(folders->known, part)) return TRUE;
  g_autofree char *name = g_strconcat(folders->prefix, part, "/", NULL);
  BlFinding finding = {.kind = BL_FINDING_FOREIGN,
                       .name = name,
                       .text = "ballast keeps nothing there",
                       .n_objects = 1};
  return bl_survey_emit(&finding, folders->run, error);
}

static gboolean judge_folders(BlSurveyRun *run, GError **error) {
  static const char *const top[] = {"weight", NULL};
  static const char *const second[] = {"models", "refs", "used", "control", "index", NULL};
  Folders roots = {.run = run, .prefix = "", .known = top};
  Folders below = {.run = run, .prefix = "weight/", .known = second};
  return bl_store_list_folders(run->store, "", judge_folder, &roots, error) &&
         bl_store_list_folders(run->store, "weight/", judge_folder, &below, error);
}

gboolean bl_survey_rest(BlSurveyRun *run, GError **error) {
  if (!judge_used(run, error)) return FALSE;
  if (run->func == NULL) return TRUE;
  return judge_refs(run, error) && judge_index(run, error) && judge_control(run, error) &&
         judge_folders(run, error) && bl_store_list_strays(run->store, judge_stray, run, error);
}
