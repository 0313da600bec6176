/* What an operator sets for a local store, and its features: members of store.json.
 *
 * Whoever changes a setting reads the file, changes its own members, keeps all others, and replaces
 * the file; a lock on the store's folder keeps two such changes apart. Readers need no lock. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "store/dir_impl.h"

/* There exactly where max_bytes is: a ballast that does not know the limit must not write. */
#define MAX_BYTES_FEATURE "max-bytes"
#define WRITERS_LIST "read_only_compatible"

/* The first name in the list that is not `known` (may be NULL); NULL where there is none. */
static const char *find_unknown(const json_t *features, const char *list, const char *known) {
  json_t *names = json_object_get(features, list), *name;
  size_t i;
  json_array_foreach(names, i, name) {
    if (!json_is_string(name)) return "?";
    if (g_strcmp0(json_string_value(name), known) != 0) return json_string_value(name);
  }
  return NULL;
}

gboolean bl_dir_check_features(const json_t *format, const char *what, gboolean *is_read_only,
                               GError **error) {
  const json_t *features = json_object_get(format, "features");
  const char *unknown = find_unknown(features, "incompatible", NULL);
  if (unknown != NULL)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        "%s: the store needs the feature \"%s\", which ballast " BALLAST_VERSION
                        " does not know (use a newer ballast)",
                        what, unknown);
  *is_read_only = find_unknown(features, WRITERS_LIST, MAX_BYTES_FEATURE) != NULL;
  return TRUE;
}

static json_t *load_format(BlDirStore *store, GError **error) {
  g_autofree char *data = NULL;
  gsize size;
  if (!bl_file_load(store->root_fd, BL_DIR_FILE, BL_DIR_FILE_MAX, &data, &size, error)) {
    g_prefix_error(error, "store %s: ", store->base.url);
    return NULL;
  }
  g_autofree char *what = g_strdup_printf("store %s: " BL_DIR_FILE, store->base.url);
  g_autoptr(json_t) format = bl_json_parse(data, size, what, error);
  if (json_is_object(format)) return g_steal_pointer(&format);
  if (format != NULL) bl_error_set(error, BL_ERROR_CORRUPT, "%s is no JSON object", what);
  return NULL;
}

static gboolean set_corrupt(const BlDirStore *store, const char *fault, GError **error) {
  return bl_error_set(error, BL_ERROR_CORRUPT, "store %s: " BL_DIR_FILE ": %s", store->base.url,
                      fault);
}

static gboolean read_settings(const BlDirStore *store, const json_t *format,
                              BlStoreSettings *settings, GError **error) {
  const json_t *max_bytes = json_object_get(format, "max_bytes");
  const json_t *shared = json_object_get(format, "shared");
  if (max_bytes != NULL && (!json_is_integer(max_bytes) || json_integer_value(max_bytes) <= 0))
    return set_corrupt(store, "\"max_bytes\" is no whole number above 0", error);
  const char *word = shared == NULL ? "umask" : json_string_value(shared);
  if (g_strcmp0(word, "umask") != 0 && g_strcmp0(word, "group") != 0)
    return set_corrupt(store, "\"shared\" is neither \"umask\" nor \"group\"", error);
  settings->max_bytes = max_bytes == NULL ? G_MAXUINT64 : (guint64)json_integer_value(max_bytes);
  settings->is_group_shared = strcmp(word, "group") == 0;
  return TRUE;
}

gboolean bl_dir_get_settings(BlStore *base, BlStoreSettings *settings, GError **error) {
  BlDirStore *store = bl_dir(base);
  if (store->root_fd < 0) return TRUE;
  g_autoptr(json_t) format = load_format(store, error);
  return format != NULL && read_settings(store, format, settings, error);
}

/* FALSE where the features are not as they must be, so that nothing can be added to them. */
static gboolean set_feature(json_t *format, gboolean is_set) {
  json_t *features = json_object_get(format, "features");
  if (features == NULL && json_object_set_new(format, "features", json_object()) == 0)
    features = json_object_get(format, "features");
  json_t *list = json_object_get(features, WRITERS_LIST);
  if (list == NULL && json_object_set_new(features, WRITERS_LIST, json_array()) == 0)
    list = json_object_get(features, WRITERS_LIST);
  if (!json_is_array(list)) return FALSE;
  for (size_t i = json_array_size(list); i > 0; i--) {
    if (g_strcmp0(json_string_value(json_array_get(list, i - 1)), MAX_BYTES_FEATURE) == 0)
      json_array_remove(list, i - 1);
  }
  return !is_set || json_array_append_new(list, json_string(MAX_BYTES_FEATURE)) == 0;
}

static gboolean write_settings(BlDirStore *store, json_t *format, const BlStoreSettings *settings,
                               GError **error) {
  gboolean has_limit = settings->max_bytes != G_MAXUINT64;
  const char *word = settings->is_group_shared ? "group" : "umask";
  if (!set_feature(format, has_limit))
    return set_corrupt(store, "\"features\" is not as it must be", error);
  if (has_limit)
    json_object_set_new(format, "max_bytes", json_integer((json_int_t)settings->max_bytes));
  else
    json_object_del(format, "max_bytes");
  json_object_set_new(format, "shared", json_string(word));
  g_autofree char *compact = bl_json_dump_compact(format);
  g_autofree char *text = g_strconcat(compact, "\n", NULL);
  if (!bl_file_replace(store->root_fd, BL_DIR_FILE, text, strlen(text), 0444, error)) {
    g_prefix_error(error, "store %s: ", store->base.url);
    return FALSE;
  }
  if (settings->is_group_shared) (void)fchmodat(store->root_fd, BL_DIR_FILE, 0444, 0);
  g_atomic_int_set(&store->shared_group, settings->is_group_shared);
  return TRUE;
}

gboolean bl_dir_set_settings(BlStore *base, const BlStoreSettings *settings, GError **error) {
  BlDirStore *store = bl_dir(base);
  if (settings->max_bytes != G_MAXUINT64 &&
      (settings->max_bytes == 0 || settings->max_bytes > G_MAXINT64))
    return bl_error_set(error, BL_ERROR_INVALID,
                        "store %s: max_bytes may be 1 to %" G_GINT64_FORMAT, base->url, G_MAXINT64);
  if (!bl_dir_check_writable(store, error)) return FALSE;
  bl_autofd lock_fd = bl_openat(store->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (lock_fd < 0)
    return bl_error_set_errno(error, errno, "store %s: cannot open its folder", base->url);
  /* Without such locks (some file servers) two changes at once end as one of them. */
  while (flock(lock_fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  g_autoptr(json_t) format = load_format(store, error);
  gboolean is_read_only = FALSE;
  if (format == NULL || !bl_dir_check_features(format, base->url, &is_read_only, error))
    return FALSE;
  if (is_read_only) return bl_dir_set_feature_unknown(store, error);
  if (!settings->is_group_shared) return write_settings(store, format, settings, error);
  /* The second time for what others made in between. */
  return bl_dir_open_to_group(store, error) && write_settings(store, format, settings, error) &&
         bl_dir_open_to_group(store, error);
}
