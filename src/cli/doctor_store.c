#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "cli/doctor.h"
#include "cli/output.h"
#include "model/room.h"
#include "store/dir.h"

/* The kernel's list of what is mounted: some 200 bytes each. */
#define MAX_MOUNTS (16 * 1024 * 1024)

static void look_at_file(BlDoctor *doctor, const char *name, const char *path, gboolean is_there) {
  g_autofree char *shown = bl_path_display(path);
  bl_doctor_add(doctor, BL_DOCTOR_OK, name, NULL, "%s%s", shown, is_there ? "" : " (not there)");
}

/* Fills config as far as it can be read. */
static void look_at_config(BlDoctor *doctor, BlConfig *config) {
  g_autoptr(GError) failed = NULL;
  guint n_warnings = doctor->cli->warnings->len;
  doctor->part = "config";
  if (!bl_config_load(doctor->cli, config, &failed)) {
    /* A store that is named otherwise does without the files. */
    gboolean matters = config->store_url == NULL;
    bl_doctor_add(doctor, matters ? BL_DOCTOR_PROBLEM : BL_DOCTOR_NOTE, "files",
                  "mend the file, or name the store with --store or BALLAST_STORE", "%s",
                  failed->message);
    return;
  }
  look_at_file(doctor, "user file", config->user_file, config->has_user_file);
  look_at_file(doctor, "system file", config->system_file, config->has_system_file);
  for (guint i = n_warnings; i < doctor->cli->warnings->len; i++)
    bl_doctor_add(doctor, BL_DOCTOR_NOTE, "members", NULL, "%s",
                  (const char *)doctor->cli->warnings->pdata[i]);
}

/* The last mount whose folder is the path or above it: "/srv ext4", kept as the kernel writes it.
 * NULL: not known. Caller frees. */
static char *find_mount(const char *path) {
  g_autofree char *text = NULL, *found = NULL;
  gsize size, longest = 0;
  if (!bl_file_load(AT_FDCWD, "/proc/self/mounts", MAX_MOUNTS, &text, &size, NULL)) return NULL;
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    g_auto(GStrv) words = g_strsplit(*line, " ", 4);
    if (g_strv_length(words) < 4) continue;
    g_autofree char *at = g_strcompress(words[1]);
    gsize n = strcmp(at, "/") == 0 ? 0 : strlen(at);
    if (strncmp(path, at, n) != 0 || (path[n] != '/' && path[n] != '\0') || n < longest) continue;
    longest = n;
    g_free(found);
    g_autofree char *shown = bl_path_display(at);
    found = g_strdup_printf("%s, mounted at %s", words[2], shown);
  }
  return g_steal_pointer(&found);
}

static void look_at_room(BlDoctor *doctor, BlStore *store) {
  static const char advice[] = "make room (\"ballast gc\", \"ballast prune\")";
  g_autoptr(GError) failed = NULL;
  BlStoreSettings settings = {.max_bytes = G_MAXUINT64};
  guint64 n_free, n_used;
  if (!bl_store_free_space(store, &n_free, &failed) ||
      !bl_store_get_settings(store, &settings, &failed) || !bl_room_used(store, &n_used, &failed)) {
    bl_doctor_add(doctor, BL_DOCTOR_PROBLEM, "room", NULL, "%s", failed->message);
    return;
  }
  BlSizeText used, limit, left;
  bl_size_format(used, n_used);
  bl_size_format(left, n_free);
  bl_size_format(limit, settings.max_bytes);
  gboolean has_limit = settings.max_bytes != G_MAXUINT64;
  if (n_free == 0)
    bl_doctor_add(doctor, BL_DOCTOR_PROBLEM, "room", advice, "the file system is full (%s held)",
                  used);
  else if (has_limit && n_used >= settings.max_bytes)
    bl_doctor_add(doctor, BL_DOCTOR_PROBLEM, "room",
                  "make room (\"ballast gc\", \"ballast prune\") or raise the limit "
                  "(\"ballast store set --max-bytes\")",
                  "%s held, and the limit is %s", used, limit);
  else if (has_limit && settings.max_bytes - n_used > n_free)
    bl_doctor_add(doctor, BL_DOCTOR_NOTE, "room", NULL,
                  "%s held, %s free: less than the limit of %s leaves", used, left, limit);
  else if (has_limit)
    bl_doctor_add(doctor, BL_DOCTOR_OK, "room", NULL, "%s held of at most %s, %s free", used, limit,
                  left);
  else
    bl_doctor_add(doctor, BL_DOCTOR_OK, "room", NULL, "%s held, %s free, no limit set", used, left);
  bl_doctor_add(
      doctor, BL_DOCTOR_OK, "writers", NULL, "%s",
      settings.is_group_shared ? "all of the folder's group" : "as each user's umask says");
}

/* Whether this user can write there, by the store's own judgement and the folder's rights. */
static void look_at_rights(BlDoctor *doctor, const BlStore *store, const char *path) {
  static const char reads[] =
      "list, inspect, verify, pull and cat work; import, delete and what "
      "changes the store do not";
  struct statvfs fs;
  int errnum = bl_doctor_check_rights(path);
  gboolean is_ro_mount = statvfs(path, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0;
  if (is_ro_mount)
    bl_doctor_add(doctor, BL_DOCTOR_PROBLEM, "writing",
                  "where imports are wanted, mount it for writing", "a read-only mount: %s", reads);
  else if (bl_store_can(store, BL_STORE_IS_READ_ONLY) && errnum == 0)
    bl_doctor_add(doctor, BL_DOCTOR_PROBLEM, "writing",
                  "use the ballast that the store's other users have",
                  "the store has a feature that this version does not write: %s", reads);
  else if (errnum != 0)
    bl_doctor_add(doctor, BL_DOCTOR_PROBLEM, "writing",
                  "where imports are wanted, join the group that may write (\"ballast store set "
                  "--shared group\")",
                  "this user may not: %s", reads);
}

/* The first import makes a store that is not there, where it may. */
static void look_at_absent(BlDoctor *doctor, const char *path) {
  g_autofree char *there = bl_doctor_existing_part(path);
  g_autofree char *shown = bl_path_display(there);
  int errnum = bl_doctor_check_rights(there);
  if (errnum == 0)
    bl_doctor_add(doctor, BL_DOCTOR_NOTE, "there", NULL,
                  "not yet: the first import makes it; what its file system can do is then tried");
  else
    bl_doctor_add(doctor, BL_DOCTOR_PROBLEM, "there",
                  "have the folder made for this user, or name another store", "no, and %s: %s",
                  shown, g_strerror(errnum));
}

static void look_at_folder(BlDoctor *doctor, BlStore *store, const char *path) {
  g_autofree char *real = realpath(path, NULL);
  g_autofree char *mount = real != NULL ? find_mount(real) : NULL;
  look_at_rights(doctor, store, path);
  look_at_room(doctor, store);
  doctor->part = "file system";
  if (mount != NULL) bl_doctor_add(doctor, BL_DOCTOR_OK, "kind", NULL, "%s", mount);
  if (!bl_store_can(store, BL_STORE_IS_READ_ONLY)) bl_doctor_try_file_system(doctor, path);
}

void bl_doctor_look_at_store(BlDoctor *doctor) {
  g_auto(BlConfig) config = {NULL};
  look_at_config(doctor, &config);
  doctor->part = "store";
  if (config.store_url == NULL) return;
  g_autofree char *shown = bl_path_display(config.store_url);
  g_autofree char *origin = bl_path_display(bl_config_origin(&config));
  bl_doctor_add(doctor, BL_DOCTOR_OK, "URL", NULL, "%s (from %s)", shown, origin);

  g_autoptr(GError) failed = NULL;
  g_autoptr(BlStore) store = bl_config_open_url(config.store_url, FALSE, &failed);
  if (store == NULL) {
    bl_doctor_add(doctor, BL_DOCTOR_PROBLEM, "there",
                  "name another store, or mend what it says (\"ballast config show\" tells which)",
                  "%s", failed->message);
    return;
  }
  const char *path = bl_dir_store_path(store);
  if (path == NULL) return;
  g_autofree char *file = g_build_filename(path, "store.json", NULL);
  struct stat st;
  if (stat(file, &st) != 0)
    look_at_absent(doctor, path);
  else
    look_at_folder(doctor, store, path);
}
