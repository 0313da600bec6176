#include "model/info.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "model/info_parse.h"
#include "model/key.h"
#include "model/object.h"

#define SCHEMA 1u
#define COMMIT_DIGITS 40
/* Room for unknown members of later versions. */
#define MAX_DEPTH 32
#define MAX_STRING 65536
/* Refs and tags a checkpoint may have: a bound for memory, far above what the Hub has. */
#define MAX_NAMES 10000u

enum {
  COMMIT,
  COMMIT_FROM,
  CONTENT_COMMIT, /* absent in what ballast 0.1.0 wrote */
  FILES,
  IMPORTED_BY,
  REFS,
  SCHEMA_VERSION,
  SOURCE,
  TAGS,
  N_DOCUMENT
};
static const char *const document_names[N_DOCUMENT] = {
    "commit", "commit_from",    "content_commit", "files", "imported_by",
    "refs",   "schema_version", "source",         "tags"};
enum { BLOB_ID, EXECUTABLE, MTIME_NS, N_RECORD };
static const char *const record_names[N_RECORD] = {"blob_id", "executable", "mtime_ns"};

typedef struct {
  const BlManifest *manifest;
  BlInfo *info;
  BlJsonReader *reader;
  const char *what;
  char *commit_from;
  char *content_commit; /* NULL where the object does not tell it */
  guint64 schema;
  guint8 *is_read;        /* by file: its record was met */
  guint64 n_read;         /* records of the manifest's files */
  gboolean has_strangers; /* records of files that the manifest does not have */
} Parse;

BlInfo *bl_info_new(const BlManifest *manifest) {
  BlInfo *info = g_new0(BlInfo, 1);
  info->n_files = manifest->n_files;
  info->refs = g_new0(char *, 1);
  info->tags = g_new0(char *, 1);
  info->executable = g_new0(guint8, manifest->n_files);
  info->mtime_ns = g_new0(gint64, manifest->n_files);
  info->blob_ids = g_new0(char *, manifest->n_files);
  return info;
}

void bl_info_free(BlInfo *info) {
  if (info == NULL) return;
  for (guint64 i = 0; i < info->n_files; i++) g_free(info->blob_ids[i]);
  g_free(info->blob_ids);
  g_free(info->mtime_ns);
  g_free(info->executable);
  g_strfreev(info->refs);
  g_strfreev(info->tags);
  g_free(info->commit);
  g_free(info->source_kind);
  g_free(info->source_uri);
  g_free(info->imported_by_host);
  g_free(info->imported_by_version);
  g_free(info);
}

char *bl_info_content_commit(const BlManifest *manifest) {
  g_autoptr(BlHasher) hasher = bl_hasher_new();
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const BlManifestFile *file = &manifest->files[i];
    if (!file->has_sha256) return NULL;
    char hex[BL_SHA256_HEX_SIZE + 2];
    bl_hex_encode(file->sha256, sizeof file->sha256, hex);
    hex[BL_SHA256_HEX_SIZE] = '\n';
    bl_hasher_update(hasher, file->path, strlen(file->path) + 1);
    bl_hasher_update(hasher, hex, BL_SHA256_HEX_SIZE + 1);
  }
  guint8 digest[BL_SHA256_SIZE];
  bl_hasher_finish(hasher, digest);
  char *commit = g_malloc(COMMIT_DIGITS + 1);
  bl_hex_encode(digest, COMMIT_DIGITS / 2, commit);
  return commit;
}

static BlInfo *info_without_object(const BlManifest *manifest) {
  BlInfo *info = bl_info_new(manifest);
  info->commit = bl_info_content_commit(manifest);
  return info;
}

static gboolean is_hex(const char *text, gsize size) {
  return strlen(text) == size && strspn(text, "0123456789abcdef") == size;
}

static gboolean fail(const Parse *parse, GError **error, const char *fault) {
  return bl_error_set(error, BL_ERROR_CORRUPT, "%s: %s", parse->what, fault);
}

static gboolean read_commit(Parse *parse, const char *member, char **commit, GError **error) {
  if (!bl_json_reader_read_string(parse->reader, member, commit, error)) return FALSE;
  return is_hex(*commit, COMMIT_DIGITS) ||
         bl_error_set(error, BL_ERROR_CORRUPT, "%s: \"%s\" is not 40 digits of lower-case hex",
                      parse->what, member);
}

static gboolean read_names(Parse *parse, const char *member, char ***names, GError **error) {
  if (!bl_json_reader_expect(parse->reader, BL_JSON_ARRAY_START, member, error)) return FALSE;
  g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(g_free);
  for (;;) {
    BlJsonToken token;
    if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE;
    if (token == BL_JSON_ARRAY_END) break;
    if (token != BL_JSON_STRING || list->len == MAX_NAMES)
      return fail(parse, error, "\"refs\" or \"tags\" holds more than strings, or too many");
    g_ptr_array_add(list, g_strdup(bl_json_reader_text(parse->reader, NULL)));
  }
  g_ptr_array_add(list, NULL);
  g_strfreev(*names);
  *names = (char **)g_ptr_array_steal(list, NULL);
  return TRUE;
}

/* An object of two strings, either of which may be missing. */
static gboolean read_pair(Parse *parse, const char *member, const char *const names[2],
                          char **first, char **second, GError **error) {
  guint seen = 0;
  int i;
  if (!bl_json_reader_expect(parse->reader, BL_JSON_OBJECT_START, member, error)) return FALSE;
  while ((i = bl_json_reader_next_member(parse->reader, names, 2, &seen, NULL, error)) != 2)
    if (i < 0 ||
        !bl_json_reader_read_string(parse->reader, names[i], i == 0 ? first : second, error))
      return FALSE;
  return TRUE;
}

static gboolean read_executable(Parse *parse, gsize file, GError **error) {
  BlJsonToken token;
  if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE;
  parse->info->executable[file] = token == BL_JSON_TRUE;
  return token == BL_JSON_TRUE || token == BL_JSON_FALSE ||
         fail(parse, error, "\"executable\" is no boolean");
}

static gboolean read_blob_id(Parse *parse, gsize file, GError **error) {
  char **id = &parse->info->blob_ids[file];
  if (!bl_json_reader_read_string(parse->reader, "blob_id", id, error)) return FALSE;
  return is_hex(*id, COMMIT_DIGITS) || is_hex(*id, BL_SHA256_HEX_SIZE) ||
         fail(parse, error, "\"blob_id\" is not 40 or 64 digits of lower-case hex");
}

/* Times before 1970 are negative. */
static gboolean read_mtime(Parse *parse, gsize file, GError **error) {
  if (!bl_json_reader_expect(parse->reader, BL_JSON_NUMBER, "mtime_ns", error)) return FALSE;
  return g_ascii_string_to_signed(bl_json_reader_text(parse->reader, NULL), 10, G_MININT64,
                                  G_MAXINT64, &parse->info->mtime_ns[file], NULL) ||
         fail(parse, error, "\"mtime_ns\" is no integer of 64 bits");
}

static gboolean read_record(Parse *parse, gsize file, GError **error) {
  guint seen = 0;
  int member;
  if (!bl_json_reader_expect(parse->reader, BL_JSON_OBJECT_START, "files", error)) return FALSE;
  while ((member = bl_json_reader_next_member(parse->reader, record_names, N_RECORD, &seen, NULL,
                                              error)) != N_RECORD) {
    gboolean done = member == BLOB_ID      ? read_blob_id(parse, file, error)
                    : member == EXECUTABLE ? read_executable(parse, file, error)
                                           : member == MTIME_NS && read_mtime(parse, file, error);
    if (!done) return FALSE;
  }
  return TRUE;
}

static gboolean read_files(Parse *parse, GError **error) {
  BlJsonToken token;
  const BlManifest *manifest = parse->manifest;
  if (!bl_json_reader_expect(parse->reader, BL_JSON_OBJECT_START, "files", error)) return FALSE;
  for (;;) {
    if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) return TRUE;
    gsize size;
    const char *path = bl_json_reader_text(parse->reader, &size);
    const BlManifestFile *file = strlen(path) == size ? bl_manifest_find(manifest, path) : NULL;
    if (file == NULL) {
      parse->has_strangers = TRUE;
      if (!bl_json_reader_next(parse->reader, &token, error) ||
          !bl_json_reader_skip(parse->reader, token, error))
        return FALSE;
      continue;
    }
    gsize i = (gsize)(file - manifest->files);
    if (parse->is_read[i]) return fail(parse, error, "a file is there twice");
    parse->is_read[i] = TRUE;
    parse->n_read++;
    if (!read_record(parse, i, error)) return FALSE;
  }
}

static gboolean read_member(Parse *parse, int member, GError **error) {
  static const char *const source_names[2] = {"kind", "uri"}, *const importer_names[2] = {
                                                                  "host", "ballast"};
  BlInfo *info = parse->info;
  switch (member) {
    case COMMIT:
      return read_commit(parse, "commit", &info->commit, error);
    case COMMIT_FROM:
      return bl_json_reader_read_string(parse->reader, "commit_from", &parse->commit_from, error);
    case CONTENT_COMMIT:
      return read_commit(parse, "content_commit", &parse->content_commit, error);
    case FILES:
      return read_files(parse, error);
    case IMPORTED_BY:
      return read_pair(parse, "imported_by", importer_names, &info->imported_by_host,
                       &info->imported_by_version, error);
    case REFS:
      return read_names(parse, "refs", &info->refs, error);
    case SCHEMA_VERSION:
      return bl_json_reader_read_uint64(parse->reader, "schema_version", &parse->schema, error);
    case SOURCE:
      return read_pair(parse, "source", source_names, &info->source_kind, &info->source_uri, error);
    case TAGS:
      return read_names(parse, "tags", &info->tags, error);
    default:
      return FALSE; /* the reader's own error */
  }
}

static gboolean read_document(Parse *parse, GError **error) {
  guint seen = 0;
  int member;
  BlJsonToken token;
  if (!bl_json_reader_expect(parse->reader, BL_JSON_OBJECT_START, "info", error)) return FALSE;
  while ((member = bl_json_reader_next_member(parse->reader, document_names, N_DOCUMENT, &seen,
                                              NULL, error)) != N_DOCUMENT)
    if (!read_member(parse, member, error)) return FALSE;
  if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE; /* nothing follows */
  if (parse->schema > SCHEMA)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        "%s: schema %" G_GUINT64_FORMAT "; this version of ballast reads %u",
                        parse->what, parse->schema, SCHEMA);
  if ((seen | 1u << CONTENT_COMMIT) != (1u << N_DOCUMENT) - 1 || parse->schema != SCHEMA)
    return fail(parse, error, "a member is missing, or \"schema_version\" is 0");
  parse->info->commit_from_source = strcmp(parse->commit_from, "source") == 0;
  return parse->info->commit_from_source || strcmp(parse->commit_from, "content") == 0 ||
         fail(parse, error, "\"commit_from\" is neither source nor content");
}

/* Whether the info is of other bytes than the manifest: someone who does not know of it imported
 * the id again. */
static gboolean is_of_other_content(const Parse *parse) {
  const BlManifest *manifest = parse->manifest;
  if (parse->has_strangers || parse->n_read != manifest->n_files) return TRUE;
  g_autofree char *commit = bl_info_content_commit(manifest);
  if (parse->content_commit != NULL && g_strcmp0(commit, parse->content_commit) != 0) return TRUE;
  if (!parse->info->commit_from_source) return g_strcmp0(commit, parse->info->commit) != 0;
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const char *id = parse->info->blob_ids[i];
    if (id == NULL || strlen(id) != BL_SHA256_HEX_SIZE) continue;
    char sha256[BL_SHA256_HEX_SIZE + 1];
    bl_hex_encode(manifest->files[i].sha256, BL_SHA256_SIZE, sha256);
    if (strcmp(id, sha256) != 0) return TRUE;
  }
  return FALSE;
}

BlInfo *bl_info_parse(BlJsonInput input, gpointer user, const BlManifest *manifest,
                      GError **error) {
  g_autoptr(BlInfo) info = bl_info_new(manifest);
  g_autofree char *what = g_strdup_printf("info of checkpoint \"%s\"", manifest->checkpoint_id);
  g_autofree guint8 *is_read = g_new0(guint8, manifest->n_files);
  g_autoptr(BlJsonReader) reader = bl_json_reader_new(input, user, MAX_DEPTH, MAX_STRING, what);
  Parse parse = {
      .manifest = manifest, .info = info, .reader = reader, .what = what, .is_read = is_read};
  gboolean done = read_document(&parse, error);
  gboolean is_other = done && is_of_other_content(&parse);
  g_free(parse.commit_from);
  g_free(parse.content_commit);
  if (!done) return NULL;
  return is_other ? info_without_object(manifest) : g_steal_pointer(&info);
}

BlInfo *bl_info_load(BlStore *store, const BlManifest *manifest, GError **error) {
  BlKeyBuffer key;
  g_autoptr(GError) fault = NULL;
  g_autoptr(BlObjectInput) input =
      bl_object_input_open(store, bl_key_info(key, manifest->checkpoint_id), &fault);
  if (input != NULL) return bl_info_parse(bl_object_input_read, input, manifest, error);
  if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND)) return info_without_object(manifest);
  g_propagate_prefixed_error(error, g_steal_pointer(&fault),
                             "info of checkpoint \"%s\": ", manifest->checkpoint_id);
  return NULL;
}

BlInfo *bl_info_load_usable(BlStore *store, const BlManifest *manifest, BlJob *job,
                            GError **error) {
  g_autoptr(GError) fault = NULL;
  BlInfo *info = bl_info_load(store, manifest, &fault);
  if (info != NULL || fault == NULL) return info;
  if (!bl_object_do_without(g_steal_pointer(&fault), job, error)) return NULL;
  return info_without_object(manifest);
}

static void append_record(GString *out, const BlInfo *info, guint64 i, const char *path) {
  bl_json_append_string(out, path);
  g_string_append(out, ":{");
  if (info->blob_ids[i] != NULL)
    g_string_append_printf(out, "\"blob_id\":\"%s\",", info->blob_ids[i]);
  g_string_append_printf(out, "\"executable\":%s", info->executable[i] ? "true" : "false");
  if (info->mtime_ns[i] != 0)
    g_string_append_printf(out, ",\"mtime_ns\":%" G_GINT64_FORMAT, info->mtime_ns[i]);
  g_string_append_c(out, '}');
}

/* {"first":…,"second":…}, names in order, a NULL value left out. */
static void append_pair(GString *out, const char *first, const char *value, const char *second,
                        const char *second_value) {
  g_string_append_c(out, '{');
  if (value != NULL) {
    g_string_append_printf(out, "\"%s\":", first);
    bl_json_append_string(out, value);
  }
  if (second_value != NULL) {
    g_string_append_printf(out, "%s\"%s\":", value != NULL ? "," : "", second);
    bl_json_append_string(out, second_value);
  }
  g_string_append_c(out, '}');
}

static void append_names(GString *out, char **names) {
  g_string_append_c(out, '[');
  for (char **name = names; *name != NULL; name++) {
    if (name != names) g_string_append_c(out, ',');
    bl_json_append_string(out, *name);
  }
  g_string_append_c(out, ']');
}

/* The members in the order of their names. */
static gboolean write_json(BlObjectOutput *output, const BlManifest *manifest, const BlInfo *info,
                           GError **error) {
  GString *out = bl_object_output_text(output);
  g_string_append_printf(out, "{\"commit\":\"%s\",\"commit_from\":\"%s\",", info->commit,
                         info->commit_from_source ? "source" : "content");
  g_autofree char *content_commit = bl_info_content_commit(manifest);
  if (content_commit != NULL)
    g_string_append_printf(out, "\"content_commit\":\"%s\",", content_commit);
  g_string_append(out, "\"files\":{");
  for (guint64 i = 0; i < manifest->n_files; i++) {
    if (i > 0) g_string_append_c(out, ',');
    append_record(out, info, i, manifest->files[i].path);
    if (!bl_object_output_flush(output, error)) return FALSE;
  }
  g_string_append(out, "},\"imported_by\":");
  append_pair(out, "ballast", info->imported_by_version, "host", info->imported_by_host);
  g_string_append(out, ",\"refs\":");
  append_names(out, info->refs);
  g_string_append_printf(out, ",\"schema_version\":%u,\"source\":", SCHEMA);
  append_pair(out, "kind", info->source_kind, "uri", info->source_uri);
  g_string_append(out, ",\"tags\":");
  append_names(out, info->tags);
  g_string_append_c(out, '}');
  return TRUE;
}

gboolean bl_info_save(BlStore *store, const BlManifest *manifest, const BlInfo *info,
                      GError **error) {
  BlKeyBuffer key;
  g_assert(info->commit != NULL && info->n_files == manifest->n_files);
  g_autoptr(BlObjectOutput) output =
      bl_object_output_open(store, bl_key_info(key, manifest->checkpoint_id), error);
  if (output != NULL && write_json(output, manifest, info, error) &&
      bl_object_output_commit(output, NULL, error))
    return TRUE;
  g_prefix_error(error, "checkpoint \"%s\": writing its info: ", manifest->checkpoint_id);
  return FALSE;
}
