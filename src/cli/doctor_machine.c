/* What this user and this machine give to ballast. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "cli/doctor.h"
#include "cli/output.h"

/* What commands on a local store may use (docs/architecture.md, "Memory"), and the files that they
 * have open: 8 workers, a batch of 64 objects to sync, and what each process has. */
#define MEMORY_WANTED (64 * 1024 * 1024)
#define FILES_WANTED 256
/* The kernel's lists of flags are some KiB a CPU. */
#define MAX_CPUINFO (16 * 1024 * 1024)
#define MAX_CGROUP_FILE 65536

char *bl_doctor_existing_part(const char *path) {
  struct stat st;
  char *part = g_strdup(path);
  while (stat(part, &st) != 0 && strcmp(part, "/") != 0 && strcmp(part, ".") != 0) {
    char *above = g_path_get_dirname(part);
    g_free(part);
    part = above;
  }
  return part;
}

int bl_doctor_check_rights(const char *folder) {
  return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

static void look_at_state(BlDoctor *doctor) {
  static const char advice[] =
      "set BALLAST_STATE_DIR to a folder that this user may write to; without it \"verify "
      "--quick\" reads all bytes";
  g_autofree char *folder = bl_config_state_folder();
  if (folder == NULL) {
    bl_doctor_add(doctor, BL_DOCTOR_NOTE, "local state", advice,
                  "there is no home folder to keep it in");
    return;
  }
  g_autofree char *there = bl_doctor_existing_part(folder);
  g_autofree char *shown = bl_path_display(folder);
  int errnum = bl_doctor_check_rights(there);
  if (errnum != 0)
    bl_doctor_add(doctor, BL_DOCTOR_NOTE, "local state", advice, "%s cannot be written to: %s",
                  shown, g_strerror(errnum));
  else
    bl_doctor_add(doctor, BL_DOCTOR_OK, "local state", NULL, "%s%s", shown,
                  strcmp(there, folder) == 0 ? "" : " (made when something is kept)");
}

static void look_at_limit(BlDoctor *doctor, const char *name, int which, guint64 wanted,
                          const char *advice) {
  struct rlimit limit;
  if (getrlimit(which, &limit) != 0) return;
  if (limit.rlim_cur == RLIM_INFINITY)
    bl_doctor_add(doctor, BL_DOCTOR_OK, name, NULL, "no limit");
  else
    bl_doctor_add(doctor, limit.rlim_cur < wanted ? BL_DOCTOR_NOTE : BL_DOCTOR_OK, name,
                  limit.rlim_cur < wanted ? advice : NULL, "at most %" G_GUINT64_FORMAT,
                  (guint64)limit.rlim_cur);
}

/* The memory limit of the process's cgroup (version 2), of the nearest above it that has one.
 * G_MAXUINT64: none. */
static guint64 cgroup_limit(void) {
  g_autofree char *own = NULL;
  gsize size;
  if (!bl_file_load(AT_FDCWD, "/proc/self/cgroup", MAX_CGROUP_FILE, &own, &size, NULL))
    return G_MAXUINT64;
  const char *line = strstr(own, "0::/");
  if (line == NULL) return G_MAXUINT64;
  guint64 least = G_MAXUINT64;
  g_autofree char *at = g_strndup(line + 3, strcspn(line + 3, "\n"));
  for (;;) {
    g_autofree char *file = g_build_filename("/sys/fs/cgroup", at, "memory.max", NULL);
    g_autofree char *text = NULL;
    guint64 limit;
    if (bl_file_load(AT_FDCWD, file, MAX_CGROUP_FILE, &text, &size, NULL) &&
        g_ascii_string_to_unsigned(g_strchomp(text), 10, 0, G_MAXUINT64, &limit, NULL))
      least = MIN(least, limit);
    if (strcmp(at, "/") == 0) return least;
    char *above = g_path_get_dirname(at);
    g_free(at);
    at = above;
  }
}

static void look_at_memory(BlDoctor *doctor) {
  static const char advice[] = "give it 64 MiB or more";
  struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
  getrlimit(RLIMIT_AS, &limit);
  guint64 cgroup = cgroup_limit();
  guint64 least = MIN(limit.rlim_cur == RLIM_INFINITY ? G_MAXUINT64 : limit.rlim_cur, cgroup);
  BlSizeText size;
  if (least == G_MAXUINT64)
    bl_doctor_add(doctor, BL_DOCTOR_OK, "memory", NULL, "no limit");
  else
    bl_doctor_add(doctor, least < MEMORY_WANTED ? BL_DOCTOR_PROBLEM : BL_DOCTOR_OK, "memory",
                  least < MEMORY_WANTED ? advice : NULL, "at most %s (%s)",
                  bl_size_format(size, least),
                  least == cgroup ? "its cgroup's limit" : "ulimit -v");
}

static void look_at_file_size(BlDoctor *doctor) {
  struct rlimit limit;
  BlSizeText size;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  bl_doctor_add(doctor, BL_DOCTOR_NOTE, "file size",
                "raise it (\"ulimit -f unlimited\"): a larger shard cannot be imported or pulled",
                "a file may have at most %s", bl_size_format(size, (guint64)limit.rlim_cur));
}

/* Whether the kernel's list of the CPU's features has the word. */
static gboolean has_word(const char *list, const char *word) {
  gsize size = strlen(word);
  for (const char *at = list; (at = strstr(at, word)) != NULL; at += size)
    if (at > list && g_ascii_isspace(at[-1]) && !g_ascii_isgraph(at[size])) return TRUE;
  return FALSE;
}

static void look_at_cpu(BlDoctor *doctor) {
  g_autofree char *list = NULL;
  gsize size;
  if (!bl_file_load(AT_FDCWD, "/proc/cpuinfo", MAX_CPUINFO, &list, &size, NULL)) {
    bl_doctor_add(doctor, BL_DOCTOR_NOTE, "SHA-256", NULL, "/proc/cpuinfo cannot be read");
    return;
  }
  /* x86-64's name for it, and arm64's. */
  const char *word = has_word(list, "sha_ni") ? "sha_ni" : has_word(list, "sha2") ? "sha2" : NULL;
  if (word != NULL)
    bl_doctor_add(doctor, BL_DOCTOR_OK, "SHA-256", NULL, "the CPU has instructions for it (%s)",
                  word);
  else
    bl_doctor_add(doctor, BL_DOCTOR_NOTE, "SHA-256", NULL,
                  "the CPU has no instructions for it: imports and checks take several times as "
                  "long");
}

void bl_doctor_look_at_machine(BlDoctor *doctor) {
  doctor->part = "this user and machine";
  look_at_state(doctor);
  look_at_memory(doctor);
  look_at_limit(doctor, "open files", RLIMIT_NOFILE, FILES_WANTED,
                "raise it to 256 or more (\"ulimit -n 1024\")");
  look_at_file_size(doctor);
  look_at_cpu(doctor);
}
