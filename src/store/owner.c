#include "store/owner.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"

static char *read_boot_id(void) {
  char *text = NULL;
  if (!g_file_get_contents("/proc/sys/kernel/random/boot_id", &text, NULL, NULL))
    return g_strdup("");
  return g_strstrip(text);
}

static char *read_pid_namespace(void) {
  char *text = g_file_read_link("/proc/self/ns/pid", NULL);
  return text != NULL ? text : g_strdup("");
}

/* Field 3 (state) and 22 (start time) of /proc/<pid>/stat; the name in field 2 may hold anything,
 * so fields are counted from its last ")". FALSE where they cannot be read. */
static gboolean read_process(guint64 pid, char *state, guint64 *start_time) {
  g_autofree char *path = g_strdup_printf("/proc/%" G_GUINT64_FORMAT "/stat", pid);
  g_autofree char *text = NULL;
  if (!g_file_get_contents(path, &text, NULL, NULL)) return FALSE;
  const char *rest = strrchr(text, ')');
  if (rest == NULL || rest[1] != ' ') return FALSE;
  g_auto(GStrv) fields = g_strsplit(rest + 2, " ", 21);
  if (g_strv_length(fields) < 20) return FALSE;
  *state = fields[0][0];
  *start_time = g_ascii_strtoull(fields[19], NULL, 10);
  return TRUE;
}

BlOwner *bl_owner_new_self(const char *operation) {
  BlOwner *owner = g_new0(BlOwner, 1);
  char token[33], state;
  bl_token_make(token);
  owner->host = g_strdup(g_get_host_name());
  owner->boot_id = read_boot_id();
  owner->pid_namespace = read_pid_namespace();
  owner->token = g_strdup(token);
  owner->operation = g_strdup(operation);
  owner->pid = (guint64)getpid();
  owner->started_at = g_get_real_time() / G_USEC_PER_SEC;
  if (!read_process(owner->pid, &state, &owner->start_time)) owner->start_time = 0;
  return owner;
}

void bl_owner_free(BlOwner *owner) {
  if (owner == NULL) return;
  g_free(owner->host);
  g_free(owner->boot_id);
  g_free(owner->pid_namespace);
  g_free(owner->token);
  g_free(owner->operation);
  g_free(owner);
}

char *bl_owner_to_json(const BlOwner *owner) {
  g_autoptr(json_t) json =
      json_pack("{si ss ss ss ss ss sI sI sI}", "schema_version", 1, "host", owner->host, "boot_id",
                owner->boot_id, "pid_namespace", owner->pid_namespace, "token", owner->token,
                "operation", owner->operation, "pid", (json_int_t)owner->pid, "start_time",
                (json_int_t)owner->start_time, "started_at", (json_int_t)owner->started_at);
  return bl_json_dump_compact(json);
}

static gboolean is_token(const char *text) {
  return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

BlOwner *bl_owner_from_json(const char *data, gsize size) {
  BlOwner *owner = g_new0(BlOwner, 1);
  g_autoptr(json_t) json = bl_json_parse(data, size, "claim", NULL);
  owner->host = g_strdup(bl_json_find_string(json, "host", "?"));
  owner->boot_id = g_strdup(bl_json_find_string(json, "boot_id", ""));
  owner->pid_namespace = g_strdup(bl_json_find_string(json, "pid_namespace", ""));
  owner->operation = g_strdup(bl_json_find_string(json, "operation", "?"));
  owner->token = g_strdup(bl_json_find_string(json, "token", ""));
  guint64 started_at = 0;
  bl_json_get_uint64(json, "pid", &owner->pid, NULL);
  bl_json_get_uint64(json, "start_time", &owner->start_time, NULL);
  bl_json_get_uint64(json, "started_at", &started_at, NULL);
  owner->started_at = (gint64)MIN(started_at, (guint64)G_MAXINT64);
  if (!is_token(owner->token)) {
    guint8 digest[BL_SHA256_SIZE];
    char hex[33];
    bl_sha256(data, size, digest);
    bl_hex_encode(digest, 16, hex);
    g_free(owner->token);
    owner->token = g_strdup(hex);
  }
  return owner;
}

/* kill answers for processes whose /proc entry is hidden, too. */
static gboolean is_alive(const BlOwner *owner) {
  char state;
  guint64 start_time;
  if (owner->pid == 0 || owner->pid > G_MAXINT32) return FALSE;
  if (kill((pid_t)owner->pid, 0) != 0 && errno == ESRCH) return FALSE;
  if (!read_process(owner->pid, &state, &start_time)) return TRUE;
  return start_time == owner->start_time && state != 'Z' && state != 'X';
}

BlOwnerState bl_owner_judge(const BlOwner *owner) {
  g_autofree char *boot_id = read_boot_id();
  g_autofree char *pid_namespace = read_pid_namespace();
  if (boot_id[0] == '\0' || strcmp(owner->boot_id, boot_id) != 0) return BL_OWNER_ELSEWHERE;
  if (pid_namespace[0] == '\0' || strcmp(owner->pid_namespace, pid_namespace) != 0)
    return BL_OWNER_SAME_BOOT;
  return is_alive(owner) ? BL_OWNER_ALIVE : BL_OWNER_DEAD;
}

char *bl_owner_describe(const BlOwner *owner) {
  gint64 seconds = MAX(g_get_real_time() / G_USEC_PER_SEC - owner->started_at, 0);
  g_autofree char *host = bl_path_display(owner->host);
  g_autofree char *operation = bl_path_display(owner->operation);
  if (owner->pid == 0) return g_strdup("an owner whose claim cannot be read");
  const char *unit = seconds < 120 ? "s" : seconds < 7200 ? "min" : "h";
  gint64 n = seconds < 120 ? seconds : seconds < 7200 ? seconds / 60 : seconds / 3600;
  return g_strdup_printf("%s by host %s, process %" G_GUINT64_FORMAT ", for %" G_GINT64_FORMAT
                         " %s",
                         operation, host, owner->pid, n, unit);
}
