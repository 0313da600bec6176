#include "cli/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "cli/output.h"

#define SYSTEM_FILE "/etc/ballast/config.json"
/* A config of a few lines; what is larger is another file. */
#define MAX_FILE_BYTES (64 * 1024)

void bl_config_clear(BlConfig *config) {
  g_clear_pointer(&config->store_url, g_free);
  g_clear_pointer(&config->fallback_url, g_free);
  g_clear_pointer(&config->user_file, g_free);
  g_clear_pointer(&config->system_file, g_free);
}

static gboolean is_url(const char *text) {
  g_autofree char *scheme = g_uri_parse_scheme(text);
  return scheme != NULL;
}

static gboolean is_path(const char *text) {
  return text[0] == '/' || g_str_has_prefix(text, "./") || g_str_has_prefix(text, "../") ||
         g_str_has_prefix(text, "~/") || g_str_equal(text, ".") || g_str_equal(text, "..");
}

/* The text names no store: it is neither a URL nor a path as we take them. */
static void set_no_store(GError **error, const char *text) {
  g_autofree char *shown = bl_path_display(text);
  if (text[0] == '\0')
    bl_error_set(error, BL_ERROR_INVALID, "store: its name is empty");
  else
    bl_error_set(error, BL_ERROR_INVALID,
                 "store \"%s\": a path begins with \"/\", \"./\", \"../\" or \"~/\" (did you mean "
                 "\"./%s\"?)",
                 shown, shown);
}

static gboolean set_file_error(GError **error, const char *path, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static gboolean set_file_error(GError **error, const char *path, const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  g_autofree char *shown = bl_path_display(path);
  return bl_error_set(error, BL_ERROR_INVALID,
                      "config file %s: %s (mend it, or write a new one with "
                      "\"ballast config init --force --store URL\")",
                      shown, text);
}

static void warn_unknown_members(BlCli *cli, const char *path, json_t *root) {
  const char *member;
  json_t *value;
  json_object_foreach(root, member, value) {
    if (g_str_equal(member, "store") || g_str_equal(member, "fallback")) continue;
    g_autofree char *shown_path = bl_path_display(path);
    g_autofree char *shown = bl_path_display(member);
    bl_job_note(&cli->job, BL_NOTE_WARNING,
                "config file %s: unknown member \"%s\" (this version knows "
                "\"store\" and \"fallback\")",
                shown_path, shown);
  }
}

/* The member's URL or absolute path; *url stays NULL where there is none. */
static gboolean load_url(const char *path, const json_t *root, const char *member, char **url,
                         GError **error) {
  const json_t *value = json_object_get(root, member);
  if (value == NULL) return TRUE;
  const char *text = json_string_value(value);
  if (text == NULL || text[0] == '\0')
    return set_file_error(error, path, "\"%s\" must be a text that is not empty", member);
  /* A path from where the command happens to run would be another store each time. */
  if (!is_url(text) && text[0] != '/' && !g_str_has_prefix(text, "~/")) {
    g_autofree char *shown = bl_path_display(text);
    return set_file_error(error, path, "\"%s\" must be a URL or an absolute path, not \"%s\"",
                          member, shown);
  }
  *url = g_strdup(text);
  return TRUE;
}

/* cli: told of what is odd; may be NULL. The URLs stay NULL where the file is not there or names
 * none. */
static gboolean load_file(BlCli *cli, const char *path, gboolean *is_there, char **url,
                          char **fallback_url, GError **error) {
  g_autofree char *data = NULL;
  gsize size = 0;
  g_autoptr(GError) failed = NULL;
  if (!bl_file_load(AT_FDCWD, path, MAX_FILE_BYTES, &data, &size, &failed)) {
    if (bl_error_code(failed) == BL_ERROR_NOT_FOUND) return TRUE;
    g_propagate_prefixed_error(error, g_steal_pointer(&failed), "config file: ");
    return FALSE;
  }
  *is_there = TRUE;

  json_error_t fault;
  g_autoptr(json_t) root = json_loadb(data, size, JSON_REJECT_DUPLICATES, &fault);
  if (root == NULL)
    return set_file_error(error, path, "line %d, column %d: %s", fault.line, fault.column,
                          fault.text);
  if (!json_is_object(root)) return set_file_error(error, path, "it must be a JSON object");
  if (cli != NULL) warn_unknown_members(cli, path, root);

  return load_url(path, root, "store", url, error) &&
         load_url(path, root, "fallback", fallback_url, error);
}

static char *default_url(void) {
  if (geteuid() == 0) return g_strdup("file:///var/lib/ballast");
  return g_strconcat("file://", g_get_user_data_dir(), "/ballast", NULL);
}

/* The first that names one counts. Takes url. */
static void take_fallback(BlConfig *config, char *url) {
  if (config->fallback_url == NULL)
    config->fallback_url = url;
  else
    g_free(url);
}

static void take_store(BlConfig *config, char *url, BlConfigFrom from) {
  if (config->store_url == NULL && url != NULL) {
    config->store_url = url;
    config->store_from = from;
  } else {
    g_free(url);
  }
}

void bl_config_load_without_files(BlCli *cli, BlConfig *config) {
  config->user_file = g_build_filename(g_get_user_config_dir(), "ballast", "config.json", NULL);
  config->system_file = g_strdup(SYSTEM_FILE);
  take_store(config, g_strdup(cli->store_option), BL_CONFIG_FROM_OPTION);
  const char *variable = g_getenv("BALLAST_STORE");
  if (variable != NULL && variable[0] != '\0')
    take_store(config, g_strdup(variable), BL_CONFIG_FROM_ENVIRONMENT);
  const char *fallback = g_getenv("BALLAST_FALLBACK");
  if (fallback != NULL && fallback[0] != '\0') take_fallback(config, g_strdup(fallback));
}

static gboolean take_file(BlCli *cli, BlConfig *config, const char *path, gboolean *is_there,
                          BlConfigFrom from, GError **error) {
  char *url = NULL, *fallback_url = NULL;
  gboolean ok = load_file(cli, path, is_there, &url, &fallback_url, error);
  take_store(config, url, from);
  take_fallback(config, fallback_url);
  return ok;
}

static gboolean load_files(BlCli *cli, BlConfig *config, GError **error) {
  if (!take_file(cli, config, config->user_file, &config->has_user_file, BL_CONFIG_FROM_USER_FILE,
                 error) ||
      !take_file(cli, config, config->system_file, &config->has_system_file,
                 BL_CONFIG_FROM_SYSTEM_FILE, error))
    return FALSE;
  take_store(config, default_url(), BL_CONFIG_FROM_DEFAULT);
  return TRUE;
}

gboolean bl_config_load(BlCli *cli, BlConfig *config, GError **error) {
  bl_config_load_without_files(cli, config);
  return load_files(cli, config, error);
}

const char *bl_config_origin(const BlConfig *config) {
  switch (config->store_from) {
    case BL_CONFIG_FROM_OPTION:
      return "--store";
    case BL_CONFIG_FROM_ENVIRONMENT:
      return "BALLAST_STORE";
    case BL_CONFIG_FROM_USER_FILE:
      return config->user_file;
    case BL_CONFIG_FROM_SYSTEM_FILE:
      return config->system_file;
    default:
      return "the default";
  }
}

const char *bl_config_from_name(BlConfigFrom from) {
  static const char *const names[] = {
      [BL_CONFIG_FROM_OPTION] = "option",       [BL_CONFIG_FROM_ENVIRONMENT] = "environment",
      [BL_CONFIG_FROM_USER_FILE] = "user-file", [BL_CONFIG_FROM_SYSTEM_FILE] = "system-file",
      [BL_CONFIG_FROM_DEFAULT] = "default",
  };
  return names[from];
}

char *bl_config_store_url(const char *url, GError **error) {
  g_autofree char *shown = bl_path_display(url);
  if (!g_utf8_validate(url, -1, NULL)) {
    bl_error_set(error, BL_ERROR_INVALID, "store \"%s\": a config file holds UTF-8 only", shown);
    return NULL;
  }
  if (is_url(url) || g_str_has_prefix(url, "~/")) return g_strdup(url);
  if (is_path(url)) return g_canonicalize_filename(url, NULL);
  set_no_store(error, url);
  return NULL;
}

/* Takes the name with an empty file, so that of two writers one is told. */
static gboolean reserve(const char *path, GError **error) {
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  g_autofree char *shown = bl_path_display(path);
  if (fd < 0 && errno == EEXIST)
    return bl_error_set(error, BL_ERROR_EXISTS,
                        "config file %s is there already (--force writes a new one)", shown);
  if (fd < 0) return bl_error_set_errno(error, errno, "write config file %s", shown);
  close(fd);
  return TRUE;
}

gboolean bl_config_save(const char *path, const char *store_url, gboolean force, GError **error) {
  g_autofree char *folder = g_path_get_dirname(path);
  if (!bl_mkdirs(AT_FDCWD, folder, TRUE, error)) return FALSE;
  if (!force && !reserve(path, error)) return FALSE;

  g_autoptr(json_t) root = json_object();
  json_object_set_new(root, "store", json_string(store_url));
  char *text = json_dumps(root, JSON_INDENT(2));
  g_autofree char *data = g_strconcat(text, "\n", NULL);
  free(text);
  if (bl_file_replace(AT_FDCWD, path, data, strlen(data), 0644, error)) return TRUE;
  if (!force) unlink(path);
  return FALSE;
}

/* A path from here becomes an absolute one, which messages can name. */
BlStore *bl_config_open_url(const char *url, gboolean create, GError **error) {
  if (!is_url(url) && !is_path(url)) {
    set_no_store(error, url);
    return NULL;
  }
  if (url[0] != '.') return bl_store_open(url, create, error);
  g_autofree char *path = g_canonicalize_filename(url, NULL);
  return bl_store_open(path, create, error);
}

BlStore *bl_config_open_fallback(BlCli *cli, const char *option, GError **error) {
  if (option != NULL) return bl_config_open_url(option, FALSE, error);
  g_auto(BlConfig) config = {NULL};
  bl_config_load_without_files(cli, &config);
  /* Whoever opened the store has told what is odd in them. */
  if (config.fallback_url == NULL && config.store_url == NULL && !load_files(NULL, &config, error))
    return NULL;
  return config.fallback_url != NULL ? bl_config_open_url(config.fallback_url, FALSE, error) : NULL;
}

char *bl_config_state_folder(void) {
  const char *own = g_getenv("BALLAST_STATE_DIR"), *xdg = g_getenv("XDG_STATE_HOME");
  if (own != NULL && own[0] != '\0') return g_canonicalize_filename(own, NULL);
  /* The XDG rules pass over one that is not absolute. */
  if (xdg != NULL && xdg[0] == '/') return g_build_filename(xdg, "ballast", NULL);
  const char *home = g_get_home_dir();
  if (home == NULL || home[0] != '/' || !g_file_test(home, G_FILE_TEST_IS_DIR)) return NULL;
  return g_build_filename(home, ".local", "state", "ballast", NULL);
}

BlStore *bl_config_open_store(BlCli *cli, gboolean create, GError **error) {
  g_auto(BlConfig) config = {NULL};
  bl_config_load_without_files(cli, &config);
  /* A file that is broken does no harm to those who say which store they mean. */
  if (config.store_url == NULL && !load_files(cli, &config, error)) return NULL;
  g_assert(config.store_url != NULL);
  BlStore *store = bl_config_open_url(config.store_url, create, error);
  if (store == NULL && config.store_from != BL_CONFIG_FROM_OPTION) {
    g_autofree char *origin = bl_path_display(bl_config_origin(&config));
    g_prefix_error(error, "store from %s: ", origin);
  }
  return store;
}
