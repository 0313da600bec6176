#include "cli/name.h"

#include "cli/options.h"
#include "model/catalog.h"
#include "model/key.h"

gboolean bl_name_take(BlName *name, const char *id_option, char ***args, GError **error) {
  name->is_id = id_option != NULL;
  name->text = bl_option_or_arg(id_option, args, "CHECKPOINT", error);
  return name->text != NULL;
}

char *bl_name_resolve(const BlName *name, BlStore *store, GError **error) {
  if (!name->is_id) return bl_catalog_resolve(store, name->text, error);
  return bl_checkpoint_id_check(name->text, error) ? g_strdup(name->text) : NULL;
}
