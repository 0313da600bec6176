/* All key building and parsing of the model cache. docs/formats/model-cache.md has the table. */
#include "model/key.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/path.h"

#define MAX_ID 255
/* A name made from a model id is cut here, so that what is added still fits in MAX_ID. */
#define MAX_DEFAULT_ID 200
#define COMMIT_DIGITS_IN_ID 12
#define DIGEST_DIGITS_IN_ID 8
#define MAX_MODEL_ID 1024
#define HUB_FOLDER_PREFIX "models--"

static gboolean is_id_char(char c) {
  return g_ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
}

static gboolean id_is_legal(const char *id, gsize size) {
  if (size < 1 || size > MAX_ID || !g_ascii_isalnum(id[0])) return FALSE;
  for (gsize i = 1; i < size; i++)
    if (!is_id_char(id[i])) return FALSE;
  return TRUE;
}

gboolean bl_checkpoint_id_check(const char *id, GError **error) {
  if (id_is_legal(id, strlen(id))) return TRUE;
  g_autofree char *shown = bl_path_display(id);
  return bl_error_set(
      error, BL_ERROR_INVALID,
      "\"%s\" is no checkpoint id: 1 to 255 characters, the first a letter or digit, the "
      "rest letters, digits, \".\", \"_\" and \"-\"",
      shown);
}

gboolean bl_model_id_check(const char *model_id, GError **error) {
  gsize size = strlen(model_id);
  if (size == 0) return bl_error_set(error, BL_ERROR_INVALID, "a model id or revision is empty");
  g_autofree char *shown = bl_path_display(model_id);
  if (size > MAX_MODEL_ID)
    return bl_error_set(error, BL_ERROR_INVALID,
                        "model id or revision \"%.64s…\" has %" G_GSIZE_FORMAT " bytes; at most %d",
                        shown, size, MAX_MODEL_ID);
  if (!g_utf8_validate(model_id, -1, NULL))
    return bl_error_set(error, BL_ERROR_INVALID, "model id or revision \"%s\" is not UTF-8", shown);
  for (const char *p = model_id; *p; p += g_utf8_skip[(guint8)*p])
    if (g_unichar_iscntrl(g_utf8_get_char(p)))
      return bl_error_set(error, BL_ERROR_INVALID,
                          "model id or revision \"%s\" contains a control character", shown);
  return TRUE;
}

/* "org/name" or "name" of a Hub cache's folder, "models--org--name"; NULL where the part is none.
 * The Hub allows no "--" in names, so the first one after the prefix is the "/". */
static char *model_id_from_hub_folder(const char *part) {
  if (!g_str_has_prefix(part, HUB_FOLDER_PREFIX)) return NULL;
  const char *org = part + strlen(HUB_FOLDER_PREFIX);
  const char *name = strstr(org, "--");
  if (!name) return *org ? g_strdup(org) : NULL;
  if (name == org || !name[2]) return NULL;
  return g_strdup_printf("%.*s/%s", (int)(name - org), org, name + 2);
}

char *bl_model_id_default(const char *real_path) {
  g_auto(GStrv) parts = g_strsplit(real_path, "/", -1);
  const char *last = "";
  g_autofree char *from_hub = NULL;
  for (char **part = parts; *part; part++) {
    if (!**part) continue;
    last = *part;
    char *id = model_id_from_hub_folder(*part);
    if (!id) continue;
    g_free(from_hub);
    from_hub = id;
  }
  return from_hub ? g_steal_pointer(&from_hub) : g_strdup(last);
}

/* Appends text with runs of foreign characters and "-" as one "-", and runs of "." as one ".". What
 * was appended before counts for the runs; nothing but a letter or digit begins the id. */
static void append_cleaned(GString *id, const char *text) {
  for (const char *p = text; *p; p++) {
    char c = is_id_char(*p) ? *p : '-';
    if (id->len == 0 && !g_ascii_isalnum(c)) continue;
    if ((c == '-' || c == '.') && id->str[id->len - 1] == c) continue;
    g_string_append_c(id, c);
  }
}

char *bl_checkpoint_id_default(const char *model_id, const char *commit, GError **error) {
  g_autoptr(GString) flat = g_string_new(model_id);
  g_string_replace(flat, "/", "__", 0);
  g_autoptr(GString) id = g_string_new(NULL);
  append_cleaned(id, flat->str);
  if (commit) {
    g_autofree char *suffix = g_strdup_printf("-%.*s", COMMIT_DIGITS_IN_ID, commit);
    append_cleaned(id, suffix);
  }
  if (id->len == 0) {
    g_autofree char *shown = bl_path_display(model_id);
    bl_error_set(
        error, BL_ERROR_INVALID,
        "no checkpoint id can be made from model id \"%s\": it has no letter or digit of ASCII "
        "(name one with --checkpoint-id)",
        shown);
    return NULL;
  }
  if (id->len > MAX_DEFAULT_ID) {
    guint8 digest[BL_SHA256_SIZE];
    char hex[DIGEST_DIGITS_IN_ID + 1];
    bl_sha256(id->str, id->len, digest);
    bl_hex_encode(digest, DIGEST_DIGITS_IN_ID / 2, hex);
    g_string_truncate(id, MAX_DEFAULT_ID);
    g_string_append(id, hex);
  }
  return g_string_free(g_steal_pointer(&id), FALSE);
}

static char *key_of(BlKeyBuffer key, const char *id, const char *rest) {
  g_snprintf(key, BL_KEY_MAX, BL_KEY_MODELS "%s/%s", id, rest);
  return key;
}

static void hex_of_text(const char *text, char hex[BL_SHA256_HEX_SIZE + 1]) {
  guint8 digest[BL_SHA256_SIZE];
  bl_sha256(text, strlen(text), digest);
  bl_hex_encode(digest, sizeof digest, hex);
}

char *bl_key_prefix(BlKeyBuffer key, const char *id) {
  return key_of(key, id, "");
}

char *bl_key_manifest(BlKeyBuffer key, const char *id) {
  return key_of(key, id, "manifest");
}

char *bl_key_info(BlKeyBuffer key, const char *id) {
  return key_of(key, id, "info");
}

char *bl_key_digests(BlKeyBuffer key, const char *id) {
  return key_of(key, id, "digests");
}

char *bl_key_state(BlKeyBuffer key, const char *id) {
  return key_of(key, id, "state");
}

char *bl_key_claim(BlKeyBuffer key, const char *id) {
  return key_of(key, id, "claim");
}

char *bl_key_reserved(BlKeyBuffer key, const char *id) {
  return key_of(key, id, "reserved");
}

char *bl_key_used(BlKeyBuffer key, const char *id) {
  g_snprintf(key, BL_KEY_MAX, BL_KEY_USED "%s", id);
  return key;
}

char *bl_key_file_of_hex(BlKeyBuffer key, const char *id, const char *hex) {
  g_snprintf(key, BL_KEY_MAX, BL_KEY_MODELS "%s/files/%s", id, hex);
  return key;
}

char *bl_key_file(BlKeyBuffer key, const char *id, const char *path) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  hex_of_text(path, hex);
  return bl_key_file_of_hex(key, id, hex);
}

char *bl_key_chunk_of_file(BlKeyBuffer key, const char *file_key, guint32 chunk) {
  g_snprintf(key, BL_KEY_MAX, "%s/chunks/%08u", file_key, chunk);
  return key;
}

char *bl_key_chunk(BlKeyBuffer key, const char *id, const char *path, guint32 chunk) {
  BlKeyBuffer file;
  return bl_key_chunk_of_file(key, bl_key_file(file, id, path), chunk);
}

gboolean bl_key_is_chunk(const char *key, const char *id, char hex[BL_SHA256_HEX_SIZE + 1],
                         guint32 *chunk) {
  char own_id[MAX_ID + 1];
  const char *rest;
  if (!bl_key_split(key, own_id, &rest) || strcmp(own_id, id) != 0) return FALSE;
  static const char files[] = "files/", chunks[] = "/chunks/";
  if (strlen(rest) != strlen(files) + BL_SHA256_HEX_SIZE + strlen(chunks) + 8) return FALSE;
  const char *digits = rest + strlen(files);
  const char *number = digits + BL_SHA256_HEX_SIZE + strlen(chunks);
  guint8 digest[BL_SHA256_SIZE];
  if (!g_str_has_prefix(rest, files) || !g_str_has_prefix(digits + BL_SHA256_HEX_SIZE, chunks) ||
      !bl_hex_decode(digits, BL_SHA256_HEX_SIZE, digest, sizeof digest) ||
      strspn(number, "0123456789") != 8)
    return FALSE;
  memcpy(hex, digits, BL_SHA256_HEX_SIZE);
  hex[BL_SHA256_HEX_SIZE] = '\0';
  *chunk = (guint32)g_ascii_strtoull(number, NULL, 10);
  return TRUE;
}

char *bl_key_refs_of_model(BlKeyBuffer key, const char *model_id) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  hex_of_text(model_id, hex);
  g_snprintf(key, BL_KEY_MAX, BL_KEY_REFS "%s/", hex);
  return key;
}

char *bl_key_ref(BlKeyBuffer key, const char *model_id, const char *ref) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  hex_of_text(ref, hex);
  bl_key_refs_of_model(key, model_id);
  g_strlcat(key, hex, BL_KEY_MAX);
  return key;
}

char *bl_key_index_model(BlKeyBuffer key, const char *model_id) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  hex_of_text(model_id, hex);
  g_snprintf(key, BL_KEY_MAX, "weight/index/model/%s", hex);
  return key;
}

gboolean bl_key_split(const char *key, char id[256], const char **rest) {
  if (!g_str_has_prefix(key, BL_KEY_MODELS)) return FALSE;
  const char *start = key + strlen(BL_KEY_MODELS);
  const char *end = strchr(start, '/');
  if (!end || !id_is_legal(start, (gsize)(end - start))) return FALSE;
  memcpy(id, start, (gsize)(end - start));
  id[end - start] = '\0';
  *rest = end + 1;
  return TRUE;
}
