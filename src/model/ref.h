/* Refs of models ("main", branches, tags): an explicit object each, which names a checkpoint. */
#pragma once
#include "base/job.h"
#include "store/store.h"

/* Sets the ref, durably; one that is there is replaced. */
gboolean bl_ref_set(BlStore *store, const char *model_id, const char *ref,
                    const char *checkpoint_id, GError **error);
/* The same, but EXISTS where there is one. */
gboolean bl_ref_create(BlStore *store, const char *model_id, const char *ref,
                       const char *checkpoint_id, GError **error);
/* The checkpoint's id (caller frees), which may be that of one that is gone; NULL without an error
 * where there is no such ref. */
char *bl_ref_get(BlStore *store, const char *model_id, const char *ref, GError **error);
/* Removes the ref, durably, whatever it means. Success where there is none. */
gboolean bl_ref_remove(BlStore *store, const char *model_id, const char *ref, GError **error);
/* Removes it where it points to the checkpoint; one that was set to another meanwhile stays. */
gboolean bl_ref_remove_if(BlStore *store, const char *model_id, const char *ref,
                          const char *checkpoint_id, GError **error);
/* Removes every ref of the model (NULL: of any) that points to the checkpoint. n: how many; may be
 * NULL. */
gboolean bl_ref_remove_all(BlStore *store, const char *model_id, const char *checkpoint_id,
                           guint *n, GError **error);
/* Names of the refs of the model that point to the checkpoint, sorted. NULL-terminated, caller
 * frees with g_strfreev. Refs that cannot be read point nowhere. */
char **bl_ref_names(BlStore *store, const char *model_id, const char *checkpoint_id,
                    GError **error);
typedef struct {
  char *model_id, *ref, *checkpoint_id;
  gint64 updated_at; /* Unix seconds */
} BlRef;
void bl_ref_free(BlRef *ref);
/* Every ref of the model (NULL: of all), sorted by model and name; of BlRef. One that is damaged is
 * noted to the job as a warning and left out. */
GPtrArray *bl_ref_list(BlStore *store, const char *model_id, BlJob *job, GError **error);

/* Whether the key is that of a ref which a delete moved away to look at it, and did not move back
 * or remove yet. */
gboolean bl_ref_is_moved(const char *key);
/* Gives it its name back; *is_back (may be NULL) is FALSE where one that was set meanwhile has the
 * name, which is newer: then it is removed. Success where it is gone. */
gboolean bl_ref_put_back(BlStore *store, const char *moved_key, gboolean *is_back, GError **error);
