#include "model/ref.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/key.h"
#include "model/object.h"

#define SCHEMA 1u
/* Two ids and a name, escaped. */
#define MAX_OBJECT (64u * 1024)
/* Of the key of a ref that is on its way out. */
#define MOVED_SUFFIX ".moved"

/* Removes what a setter of this model's refs that was killed left. One that lives puts again where
 * its temporary is gone. */
static gboolean sweep(BlStore *store, const char *model_id, GError **error) {
  BlKeyBuffer prefix;
  return bl_store_sweep(store, bl_key_refs_of_model(prefix, model_id), NULL, error);
}

static gboolean put_ref(BlStore *store, const char *model_id, const char *ref,
                        const char *checkpoint_id, BlPutFlags flags, GError **error) {
  if (!bl_model_id_check(model_id, error) || !bl_model_id_check(ref, error) ||
      !bl_checkpoint_id_check(checkpoint_id, error))
    return FALSE;
  g_autoptr(json_t) json =
      json_pack("{s:s, s:s, s:s, s:i, s:I}", "checkpoint_id", checkpoint_id, "model_id", model_id,
                "ref", ref, "schema_version", (int)SCHEMA, "updated_at",
                (json_int_t)(g_get_real_time() / G_USEC_PER_SEC));
  g_autofree char *text = bl_json_dump_compact(json);
  BlKeyBuffer key;
  if (sweep(store, model_id, error) && bl_store_put(store, bl_key_ref(key, model_id, ref), text,
                                                    strlen(text), flags | BL_PUT_DURABLE, error))
    return TRUE;
  g_prefix_error(error, "model \"%s\": setting ref \"%s\": ", model_id, ref);
  return FALSE;
}

gboolean bl_ref_set(BlStore *store, const char *model_id, const char *ref,
                    const char *checkpoint_id, GError **error) {
  return put_ref(store, model_id, ref, checkpoint_id, BL_PUT_REPLACE, error);
}

gboolean bl_ref_create(BlStore *store, const char *model_id, const char *ref,
                       const char *checkpoint_id, GError **error) {
  return put_ref(store, model_id, ref, checkpoint_id, 0, error);
}

/* The ref object under the key, all its strings there; NULL without an error where there is none.
 */
static json_t *load_ref(BlStore *store, const char *key, const char *what, GError **error) {
  g_autoptr(json_t) json = bl_object_load_json(store, key, MAX_OBJECT, SCHEMA, what, error);
  const char *members[] = {"checkpoint_id", "model_id", "ref"};
  for (gsize i = 0; json != NULL && i < G_N_ELEMENTS(members); i++) {
    if (bl_json_get_string(json, members[i], error) != NULL) continue;
    g_prefix_error(error, "%s: ", what);
    return NULL;
  }
  return g_steal_pointer(&json);
}

char *bl_ref_get(BlStore *store, const char *model_id, const char *ref, GError **error) {
  BlKeyBuffer key;
  g_autofree char *shown_model = bl_path_display(model_id), *shown_ref = bl_path_display(ref);
  g_autofree char *what = g_strdup_printf("ref \"%s\" of model \"%s\"", shown_ref, shown_model);
  g_autoptr(json_t) json = load_ref(store, bl_key_ref(key, model_id, ref), what, error);
  if (json == NULL) return NULL;
  const char *id = bl_json_find_string(json, "checkpoint_id", "");
  if (strcmp(bl_json_find_string(json, "model_id", ""), model_id) == 0 &&
      strcmp(bl_json_find_string(json, "ref", ""), ref) == 0 && bl_checkpoint_id_check(id, NULL))
    return g_strdup(id);
  bl_error_set(error, BL_ERROR_CORRUPT,
               "%s: its object is of another ref, or names no checkpoint (set it again)", what);
  return NULL;
}

static gboolean add_key(const char *key, const BlObjectStat *object, gpointer user,
                        GError **error) {
  (void)object;
  (void)error;
  g_ptr_array_add(user, g_strdup(key));
  return TRUE;
}

/* Calls func with each ref of the model (NULL: of all), its key, and its object, or NULL and why
 * it is damaged. */
typedef gboolean (*RefFunc)(BlStore *store, const char *key, const json_t *json,
                            const GError *damage, gpointer user, GError **error);

static gboolean for_each_ref(BlStore *store, const char *model_id, RefFunc func, gpointer user,
                             GError **error) {
  BlKeyBuffer prefix;
  g_autoptr(GPtrArray) keys = g_ptr_array_new_with_free_func(g_free);
  const char *where = model_id == NULL ? BL_KEY_REFS : bl_key_refs_of_model(prefix, model_id);
  if (!bl_store_list(store, where, add_key, keys, error)) return FALSE;
  for (guint i = 0; i < keys->len; i++) {
    const char *key = g_ptr_array_index(keys, i);
    g_autoptr(GError) fault = NULL;
    g_autoptr(json_t) json = load_ref(store, key, "ref", &fault);
    if (fault != NULL && bl_error_code(fault) != BL_ERROR_CORRUPT) {
      g_propagate_error(error, g_steal_pointer(&fault));
      return FALSE;
    }
    if ((json != NULL || fault != NULL) && !func(store, key, json, fault, user, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean points_to(const json_t *json, const char *checkpoint_id) {
  return json != NULL && strcmp(bl_json_find_string(json, "checkpoint_id", ""), checkpoint_id) == 0;
}

typedef struct {
  const char *checkpoint_id;
  guint n;
} Removal;

gboolean bl_ref_is_moved(const char *key) {
  return g_str_has_suffix(key, MOVED_SUFFIX);
}

gboolean bl_ref_put_back(BlStore *store, const char *moved_key, gboolean *is_back, GError **error) {
  g_autoptr(GError) fault = NULL;
  g_autofree char *key = g_strndup(moved_key, strlen(moved_key) - strlen(MOVED_SUFFIX));
  gboolean is_moved = bl_store_move(store, moved_key, key, &fault);
  if (is_back != NULL) *is_back = is_moved;
  if (is_moved || g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_EXISTS))
    return bl_store_remove(store, moved_key, error);
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

/* The ref may have been set to another checkpoint since it was looked at: it is moved away, looked
 * at where nobody sets it, and goes only if it still means ours. */
static gboolean remove_if_ours(BlStore *store, const char *key, const char *checkpoint_id,
                               GError **error) {
  if (!bl_store_can(store, BL_STORE_CAN_MOVE)) return bl_store_remove(store, key, error);
  g_autofree char *moved_key = g_strconcat(key, MOVED_SUFFIX, NULL);
  g_autoptr(GError) fault = NULL;
  gboolean is_moved = bl_store_move(store, key, moved_key, &fault);
  /* One that a killed delete left is older than the ref that is there. */
  if (!is_moved && g_error_matches(fault, BL_ERROR, BL_ERROR_EXISTS)) {
    g_clear_error(&fault);
    is_moved =
        bl_store_remove(store, moved_key, &fault) && bl_store_move(store, key, moved_key, &fault);
  }
  if (!is_moved && g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return TRUE;
  if (!is_moved) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  g_autoptr(json_t) json = load_ref(store, moved_key, "ref", &fault);
  const char *id = json == NULL ? "" : bl_json_find_string(json, "checkpoint_id", "");
  if (strcmp(id, checkpoint_id) == 0) return bl_store_remove(store, moved_key, error);
  if (!bl_ref_put_back(store, moved_key, NULL, error)) return FALSE;
  if (fault == NULL || g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

gboolean bl_ref_remove(BlStore *store, const char *model_id, const char *ref, GError **error) {
  BlKeyBuffer key;
  g_autofree char *moved_key = g_strconcat(bl_key_ref(key, model_id, ref), MOVED_SUFFIX, NULL);
  if (bl_store_remove(store, moved_key, error) && bl_store_remove(store, key, error) &&
      bl_store_sync(store, error))
    return TRUE;
  g_prefix_error(error, "model \"%s\": removing ref \"%s\": ", model_id, ref);
  return FALSE;
}

gboolean bl_ref_remove_if(BlStore *store, const char *model_id, const char *ref,
                          const char *checkpoint_id, GError **error) {
  BlKeyBuffer key;
  return remove_if_ours(store, bl_key_ref(key, model_id, ref), checkpoint_id, error) &&
         bl_store_sync(store, error);
}

static gboolean remove_ref(BlStore *store, const char *key, const json_t *json,
                           const GError *damage, gpointer user, GError **error) {
  Removal *removal = user;
  (void)damage;
  if (!points_to(json, removal->checkpoint_id)) return TRUE;
  gboolean ok = bl_ref_is_moved(key) ? bl_store_remove(store, key, error)
                                     : remove_if_ours(store, key, removal->checkpoint_id, error);
  if (!ok) {
    g_prefix_error(error, "removing ref \"%s\": ", bl_json_find_string(json, "ref", ""));
    return FALSE;
  }
  removal->n++;
  return TRUE;
}

gboolean bl_ref_remove_all(BlStore *store, const char *model_id, const char *checkpoint_id,
                           guint *n, GError **error) {
  Removal removal = {.checkpoint_id = checkpoint_id};
  if (model_id != NULL && !sweep(store, model_id, error)) return FALSE;
  gboolean done = for_each_ref(store, model_id, remove_ref, &removal, error);
  if (n != NULL) *n = removal.n;
  return done;
}

typedef struct {
  const char *checkpoint_id;
  GPtrArray *names; /* of char* */
} Naming;

static gboolean add_name(BlStore *store, const char *key, const json_t *json, const GError *damage,
                         gpointer user, GError **error) {
  Naming *naming = user;
  (void)store;
  (void)damage;
  (void)error;
  if (!bl_ref_is_moved(key) && points_to(json, naming->checkpoint_id))
    g_ptr_array_add(naming->names, g_strdup(bl_json_find_string(json, "ref", "")));
  return TRUE;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

char **bl_ref_names(BlStore *store, const char *model_id, const char *checkpoint_id,
                    GError **error) {
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  Naming naming = {.checkpoint_id = checkpoint_id, .names = names};
  if (!for_each_ref(store, model_id, add_name, &naming, error)) return NULL;
  g_ptr_array_sort(names, compare_names);
  g_ptr_array_add(names, NULL);
  return (char **)g_ptr_array_steal(names, NULL);
}

void bl_ref_free(BlRef *ref) {
  if (ref == NULL) return;
  g_free(ref->model_id);
  g_free(ref->ref);
  g_free(ref->checkpoint_id);
  g_free(ref);
}

static void free_ref(gpointer ref) {
  bl_ref_free(ref);
}

typedef struct {
  GPtrArray *refs;
  BlJob *job;
} Listing;

static gboolean add_ref(BlStore *store, const char *key, const json_t *json, const GError *damage,
                        gpointer user, GError **error) {
  Listing *listing = user;
  BlKeyBuffer own_key;
  (void)error;
  if (bl_ref_is_moved(key)) return TRUE;
  if (json == NULL) {
    bl_job_note(listing->job, BL_NOTE_WARNING, "store %s: object \"%s\": %s", store->url, key,
                damage->message);
    return TRUE;
  }
  const char *model_id = bl_json_find_string(json, "model_id", ""),
             *name = bl_json_find_string(json, "ref", "");
  if (strcmp(bl_key_ref(own_key, model_id, name), key) != 0) {
    bl_job_note(listing->job, BL_NOTE_WARNING, "store %s: object \"%s\" is of another ref",
                store->url, key);
    return TRUE;
  }
  guint64 updated_at = 0;
  (void)bl_json_get_uint64(json, "updated_at", &updated_at, NULL);
  BlRef *ref = g_new0(BlRef, 1);
  *ref = (BlRef){.model_id = g_strdup(model_id),
                 .ref = g_strdup(name),
                 .checkpoint_id = g_strdup(bl_json_find_string(json, "checkpoint_id", "")),
                 .updated_at = (gint64)updated_at};
  g_ptr_array_add(listing->refs, ref);
  return TRUE;
}

static int compare_refs(gconstpointer a, gconstpointer b) {
  const BlRef *x = *(BlRef *const *)a, *y = *(BlRef *const *)b;
  int order = strcmp(x->model_id, y->model_id);
  return order != 0 ? order : strcmp(x->ref, y->ref);
}

GPtrArray *bl_ref_list(BlStore *store, const char *model_id, BlJob *job, GError **error) {
  g_autoptr(GPtrArray) refs = g_ptr_array_new_with_free_func(free_ref);
  Listing listing = {.refs = refs, .job = job};
  if (!for_each_ref(store, model_id, add_ref, &listing, error)) return NULL;
  g_ptr_array_sort(refs, compare_refs);
  return g_steal_pointer(&refs);
}
