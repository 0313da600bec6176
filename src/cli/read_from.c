#include "cli/read_from.h"

#include "cli/config.h"
#include "model/state.h"

void bl_read_from_clear(BlReadFrom *from) {
  g_clear_pointer(&from->fallback, bl_fallback_free);
  g_clear_pointer(&from->second, bl_store_free);
  g_clear_pointer(&from->store, bl_store_free);
  g_clear_pointer(&from->checkpoint_id, g_free);
}

/* Opens the store in use and finds a checkpoint in it that can be served. */
static gboolean open_first(BlReadFrom *from, BlCli *cli, const BlName *name, GError **error) {
  from->store = bl_config_open_store(cli, FALSE, error);
  if (from->store == NULL) return FALSE;
  from->checkpoint_id = bl_name_resolve(name, from->store, error);
  return from->checkpoint_id != NULL &&
         bl_state_check_whole(from->store, from->checkpoint_id, &cli->job, error);
}

/* Whether there is a manifest that names what to read. Without a fallback whoever reads says so. */
static gboolean check_ready(const BlReadFrom *from, GError **error) {
  g_autoptr(BlManifest) manifest = bl_manifest_load_ready(from->store, from->checkpoint_id, error);
  return manifest != NULL;
}

/* Finds the checkpoint in the fallback: by the id it has in the store, else as it was named. */
static gboolean find_in_second(const BlReadFrom *from, const BlName *name, char **id,
                               GError **error) {
  BlName same = {.text = from->checkpoint_id, .is_id = TRUE};
  g_autoptr(BlManifest) manifest =
      from->checkpoint_id != NULL
          ? bl_manifest_load(from->second, from->checkpoint_id, BL_MANIFEST_HEADER_ONLY, NULL)
          : NULL;
  *id = bl_name_resolve(manifest != NULL ? &same : name, from->second, error);
  return *id != NULL;
}

/* Nothing can be read from the store, because of cause. */
static gboolean use_second_alone(BlReadFrom *from, BlCli *cli, const BlName *name, GError *cause,
                                 GError **error) {
  g_autoptr(GError) fault = NULL;
  char *id = NULL;
  if (!find_in_second(from, name, &id, &fault) ||
      !bl_state_check_whole(from->second, id, &cli->job, &fault)) {
    bl_error_set(error, bl_error_code(cause), "%s; from the fallback: %s", cause->message,
                 fault->message);
    g_free(id);
    return FALSE;
  }
  bl_job_note(&cli->job, BL_NOTE_WARNING, "%s; everything is read from the fallback %s",
              cause->message, from->second->url);
  g_clear_pointer(&from->store, bl_store_free);
  from->store = g_steal_pointer(&from->second);
  g_free(from->checkpoint_id);
  from->checkpoint_id = id;
  from->is_fallback = TRUE;
  return TRUE;
}

/* A fallback that has not got it is no reason to refuse what the store has. */
static void use_second_beside(BlReadFrom *from, BlCli *cli, const BlName *name) {
  g_autoptr(GError) fault = NULL;
  g_autofree char *id = NULL;
  if (find_in_second(from, name, &id, &fault))
    from->fallback = bl_fallback_open(from->second, id, &cli->job, &fault);
  if (fault != NULL)
    bl_job_note(&cli->job, BL_NOTE_WARNING, "the fallback %s is not used: %s", from->second->url,
                fault->message);
}

gboolean bl_read_from_open(BlReadFrom *from, BlCli *cli, const BlName *name, const char *option,
                           GError **error) {
  g_autoptr(GError) cause = NULL;
  g_autoptr(GError) fault = NULL;
  gboolean is_open = open_first(from, cli, name, &cause);
  if (is_open || bl_error_code(cause) != BL_ERROR_INVALID)
    from->second = bl_config_open_fallback(cli, option, &fault);
  if (fault != NULL)
    bl_job_note(&cli->job, BL_NOTE_WARNING, "the fallback is not used: %s", fault->message);
  if (is_open && from->second != NULL) is_open = check_ready(from, &cause);
  if (is_open) {
    if (from->second != NULL) use_second_beside(from, cli, name);
    return TRUE;
  }
  if (from->second != NULL) return use_second_alone(from, cli, name, cause, error);
  g_propagate_error(error, g_steal_pointer(&cause));
  return FALSE;
}

guint64 bl_read_from_count(const BlReadFrom *from, const BlPullResult *result) {
  return from->is_fallback ? result->n_files_written : result->n_files_fallback;
}
