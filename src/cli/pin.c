#include "cli/pin.h"

#include "cli/config.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"
#include "model/manifest.h"
#include "model/state.h"

static struct { char *checkpoint_id, *wait; } opt;

const GOptionEntry bl_pin_options[] = {
    {"wait", 0, 0, G_OPTION_ARG_FILENAME, &opt.wait, "wait while another process works on it",
     "[=SECONDS]"},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

typedef struct {
  gboolean is_pinned; /* as it shall be */
  gboolean is_changed;
} Pin;

static gboolean set_pin(BlState *state, gpointer user) {
  Pin *pin = user;
  pin->is_changed = state->is_pinned != pin->is_pinned;
  state->is_pinned = pin->is_pinned;
  return pin->is_changed;
}

/* One that is as it shall be needs no right to write. */
static gboolean is_so_already(BlStore *store, const char *id, gboolean is_pinned) {
  g_autoptr(BlState) state = bl_state_load(store, id, NULL);
  return state != NULL && state->is_pinned == is_pinned;
}

static gboolean update(BlStore *store, const char *id, Pin *pin, BlJob *job, GError **error) {
  gint wait_ms = 0;
  if (opt.wait != NULL && !bl_option_parse_wait(opt.wait, &wait_ms, error)) return FALSE;
  g_autoptr(BlManifest) manifest = bl_manifest_load_ready(store, id, error);
  if (manifest == NULL) return FALSE;
  return is_so_already(store, id, pin->is_pinned) ||
         bl_state_update(store, id, set_pin, pin, wait_ms, job, error);
}

int bl_pin_run(BlCli *cli, char **args, gboolean is_pinned, GError **error) {
  BlName name;
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error) || !bl_args_end(args, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;
  g_autofree char *id = bl_name_resolve(&name, store, error);
  if (id == NULL) return -1;
  Pin pin = {.is_pinned = is_pinned};
  if (!update(store, id, &pin, &cli->job, error)) return -1;
  if (cli->json) {
    bl_out_json_open();
    bl_out_json_member("checkpoint_id", bl_json_text(id));
    bl_out_json_member("pinned", json_boolean(is_pinned));
    bl_out_json_member("changed", json_boolean(pin.is_changed));
    bl_out_json_close(cli);
  } else {
    bl_out_done(cli, "%s%s %s", pin.is_changed ? "" : "already ", is_pinned ? "pinned" : "unpinned",
                id);
  }
  return 0;
}
