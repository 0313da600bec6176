#include "store/dir_name.h"

#include <string.h>

#include "base/error.h"
#include "store/dir_impl.h"

#define MAX_FOLDERS 3

static gboolean is_plain(char c) {
  return g_ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
}

/* Appends a key's part. A leading "." would make a hidden file (the names of temporaries begin so).
 */
static void append_part(GString *out, const char *part, gsize size) {
  for (gsize i = 0, start; i < size; i++) {
    for (start = i; i < size && is_plain(part[i]) && (i > 0 || part[i] != '.');) i++;
    g_string_append_len(out, part + start, (gssize)(i - start));
    if (i < size) g_string_append_printf(out, "%%%02X", (guint8)part[i]);
  }
}

gboolean bl_dir_name_from_key(const char *key, BlDirName *name, GError **error) {
  guint n_slashes = 0;
  for (const char *p = key; *p != '\0'; p++) n_slashes += *p == '/';
  guint n_folders = MIN(n_slashes, MAX_FOLDERS);

  g_autoptr(GString) folder = g_string_sized_new(128);
  g_autoptr(GString) file = g_string_sized_new(128);
  const char *part = key;
  for (guint i = 0; i <= n_slashes; i++) {
    gsize size = strcspn(part, "/");
    GString *out = i < n_folders ? folder : file;
    if (out->len > 0) g_string_append_c(out, i < n_folders ? '/' : ',');
    append_part(out, part, size);
    part += size + 1;
  }
  /* The store's own file is no object: a key of its name, in any case, gets another. */
  if (n_slashes == 0 && g_ascii_strcasecmp(key, BL_DIR_FILE) == 0)
    g_string_printf(file, "%%%02X%s", (guint8)key[0], key + 1);
  if (file->len >= sizeof name->name || folder->len >= sizeof name->folder)
    return bl_error_set(error, BL_ERROR_INVALID, "key \"%s\" is too long for a local store", key);
  memcpy(name->folder, folder->str, folder->len + 1);
  memcpy(name->name, file->str, file->len + 1);
  return TRUE;
}

char *bl_dir_name_unescape(const char *part) {
  g_autoptr(GString) out = g_string_sized_new(strlen(part) + 1);
  for (const char *p = part;;) {
    gsize n = strcspn(p, ",%");
    g_string_append_len(out, p, (gssize)n);
    p += n;
    if (*p == '\0') return g_string_free(g_steal_pointer(&out), FALSE);
    if (*p == ',') {
      g_string_append_c(out, '/');
      p++;
      continue;
    }
    if (!g_ascii_isxdigit(p[1]) || !g_ascii_isxdigit(p[2])) return NULL;
    g_string_append_c(out, (char)(g_ascii_xdigit_value(p[1]) * 16 + g_ascii_xdigit_value(p[2])));
    p += 3;
  }
}

char *bl_dir_name_to_key(const char *folder, const char *name) {
  if (name[0] == '.') return NULL;
  g_autofree char *file = bl_dir_name_unescape(name);
  if (file == NULL) return NULL;
  if (folder[0] == '\0') return g_steal_pointer(&file);
  g_autofree char *parts = bl_dir_name_unescape(folder);
  return parts == NULL ? NULL : g_strconcat(parts, "/", file, NULL);
}
