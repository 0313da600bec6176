/* Which store is used: --store, else BALLAST_STORE, else the user's config file, else the system's,
 * else a folder under the XDG data folder (/var/lib/ballast for root). */
#pragma once
#include "cli/command.h"

typedef enum {
  BL_CONFIG_FROM_OPTION,
  BL_CONFIG_FROM_ENVIRONMENT,
  BL_CONFIG_FROM_USER_FILE,
  BL_CONFIG_FROM_SYSTEM_FILE,
  BL_CONFIG_FROM_DEFAULT,
} BlConfigFrom;

typedef struct {
  char *store_url;
  BlConfigFrom store_from;
  char *fallback_url;            /* of a second store for readers; NULL: none */
  char *user_file, *system_file; /* paths, whether the files are there or not */
  gboolean has_user_file, has_system_file;
} BlConfig;

void bl_config_clear(BlConfig *config);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(BlConfig, bl_config_clear)

/* Reads what there is into a config of zeros; an unknown member is a warning. INVALID for a file
 * that is no config, with file and position. */
gboolean bl_config_load(BlCli *cli, BlConfig *config, GError **error);
/* Without the config files and the default: store_url may stay NULL. */
void bl_config_load_without_files(BlCli *cli, BlConfig *config);
/* Where the store's URL came from, for people: "--store", "BALLAST_STORE", a file's path, "the
 * default". Borrowed. */
const char *bl_config_origin(const BlConfig *config);
/* The same for machines: "option", "environment", "user-file", "system-file", "default". */
const char *bl_config_from_name(BlConfigFrom from);

/* Writes a config file with that store; EXISTS where there is one, unless force. */
gboolean bl_config_save(const char *path, const char *store_url, gboolean force, GError **error);
/* A store as it may stand in a config file: a path becomes an absolute one. INVALID for what no
 * store can be. Caller frees. */
char *bl_config_store_url(const char *url, GError **error);

/* Opens the second store that readers fall back on: option, else BALLAST_FALLBACK, else, where no
 * option or variable names the store, the first config file that names one. NULL without an error
 * where none is named. */
BlStore *bl_config_open_fallback(BlCli *cli, const char *option, GError **error);
/* Opens a store by URL or path, as --store takes it. */
BlStore *bl_config_open_url(const char *url, gboolean create, GError **error);
/* Where this user's local state is kept (docs/formats/local-state.md): BALLAST_STATE_DIR, else
 * "ballast" in XDG_STATE_HOME, else below ~/.local/state. NULL where there is no home. It may not
 * be there yet. Caller frees. */
char *bl_config_state_folder(void);

/* Opens the store that the command is to use. create: make it where it is not there yet. */
BlStore *bl_config_open_store(BlCli *cli, gboolean create, GError **error);
