/* Reads a manifest record by record. Members may come in any order, so what depends on another
 * member is judged late: a file's keys when its record ends, READY's rules when the document ends.
 *
 * A file's chunk keys come before its path. While each is what our own layout makes (one SHA-256,
 * numbers 0, 1, 2 …) only that SHA-256 and their number are kept, and both are compared with the
 * path in the end; the first key that is different turns the file's keys into a list of strings. */
#include "model/manifest_parse.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/key.h"

/* object, files, record, chunks; and room for unknown members, which are passed over before they
 * are refused. */
#define MAX_DEPTH 32
/* Longest string: an error or a URI. Paths and keys have limits of their own. */
#define MAX_STRING 65536
/* Keys that are not our layout's, all together: memory stays bounded whatever a manifest says. */
#define MAX_ODD_KEY_BYTES (32u * 1024 * 1024)

enum {
  CHECKPOINT_ID,
  CREATED_AT,
  ERROR_TEXT,
  FILES,
  MODEL_ID,
  REVISION,
  SCHEMA_VERSION,
  SOURCE_URI,
  STATUS,
  TOTAL_SIZE,
  UPDATED_AT,
  N_HEADER,
};
static const char *const header_names[N_HEADER] = {
    "checkpoint_id",  "created_at", "error",  "files",      "model_id",   "revision",
    "schema_version", "source_uri", "status", "total_size", "updated_at",
};

enum { CHUNK_SIZE, CHUNKS, KEY, PATH, SHA256, SIZE, TYPE, N_RECORD };
static const char *const record_names[N_RECORD] = {"chunk_size", "chunks", "key", "path",
                                                   "sha256",     "size",   "type"};

/* The record being read. */
typedef struct {
  char *path, *key;
  guint64 size, chunk_size;
  guint8 sha256[BL_SHA256_SIZE];
  gboolean has_sha256, is_weight, has_chunks;
  guint32 n_chunks;
  char hex[BL_SHA256_HEX_SIZE + 1]; /* of the regular keys met so far */
  GPtrArray *odd;                   /* of char*: all keys, once one was not regular; else NULL */
} Record;

typedef struct {
  BlManifest *manifest;
  BlJsonReader *reader;
  BlManifestLoadFlags flags;
  const char *id;
  char *what;
  char *unknown; /* the first member that is none of ours */
  gsize odd_bytes, path_bytes;
  char *stated_id, *status;
} Parse;

/* Input that hashes what passes. */
typedef struct {
  BlJsonInput input;
  gpointer user;
  BlHasher *hasher;
} Hashed;

static gssize read_hashed(gpointer user, void *data, gsize size, GError **error) {
  Hashed *hashed = user;
  gssize n = hashed->input(hashed->user, data, size, error);
  if (n > 0) bl_hasher_update(hashed->hasher, data, (gsize)n);
  return n;
}

static gboolean fail(const Parse *parse, GError **error, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

static gboolean fail(const Parse *parse, GError **error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  return bl_error_set(error, BL_ERROR_CORRUPT, "%s: %s", parse->what, text);
}

/* As fail, about one file. path may be NULL: not known yet. */
static gboolean fail_file(const Parse *parse, const char *path, GError **error, const char *format,
                          ...) G_GNUC_PRINTF(4, 5);

static gboolean fail_file(const Parse *parse, const char *path, GError **error, const char *format,
                          ...) {
  va_list args;
  va_start(args, format);
  g_autofree char *text = g_strdup_vprintf(format, args);
  va_end(args);
  g_autofree char *shown = path != NULL ? bl_path_display(path) : NULL;
  if (shown == NULL)
    return fail(parse, error, "file number %" G_GUINT64_FORMAT ": %s", parse->manifest->n_files + 1,
                text);
  return fail(parse, error, "file \"%s\": %s", shown, text);
}

/* An unknown member is passed over and its name kept: whether it is a fault is known when the
 * schema is. */
static int next_member(Parse *parse, const char *const *names, int n_names, guint *seen,
                       GError **error) {
  return bl_json_reader_next_member(parse->reader, names, n_names, seen, &parse->unknown, error);
}

static gboolean read_size(Parse *parse, const char *member, guint64 *value, GError **error) {
  if (!bl_json_reader_read_uint64(parse->reader, member, value, error)) return FALSE;
  if (*value <= G_MAXINT64) return TRUE;
  return fail(parse, error, "\"%s\" is more than 2^63-1", member);
}

static gboolean read_time(Parse *parse, const char *member, gint64 *value, GError **error) {
  guint64 seconds;
  if (!read_size(parse, member, &seconds, error)) return FALSE;
  *value = (gint64)seconds;
  return TRUE;
}

static gboolean keep_odd_key(Parse *parse, Record *record, const char *key, GError **error) {
  parse->odd_bytes += strlen(key);
  if (parse->odd_bytes > MAX_ODD_KEY_BYTES)
    return fail_file(parse, record->path, error,
                     "keys that do not follow from their paths have more than %u bytes together",
                     MAX_ODD_KEY_BYTES);
  g_ptr_array_add(record->odd, g_string_chunk_insert(parse->manifest->strings, key));
  return TRUE;
}

/* Turns the regular keys met so far into strings. */
static gboolean make_odd(Parse *parse, Record *record, GError **error) {
  record->odd = g_ptr_array_new();
  for (guint32 i = 0; i < record->n_chunks; i++) {
    BlKeyBuffer key, file_key;
    bl_key_file_of_hex(file_key, parse->id, record->hex);
    if (!keep_odd_key(parse, record, bl_key_chunk_of_file(key, file_key, i), error)) return FALSE;
  }
  return TRUE;
}

static gboolean check_key(Parse *parse, const Record *record, const char *key, gsize size,
                          GError **error) {
  g_autoptr(GError) fault = NULL;
  if (strlen(key) != size) return fail_file(parse, record->path, error, "a key has a NUL byte");
  if (size >= BL_KEY_MAX)
    return fail_file(parse, record->path, error, "a key has more than %d characters",
                     BL_KEY_MAX - 1);
  if (bl_key_check(key, &fault)) return TRUE;
  return fail_file(parse, record->path, error, "%s", fault->message);
}

static gboolean add_chunk_key(Parse *parse, Record *record, GError **error) {
  gsize size;
  const char *key = bl_json_reader_text(parse->reader, &size);
  char hex[BL_SHA256_HEX_SIZE + 1];
  guint32 number;
  gboolean regular = record->odd == NULL && strlen(key) == size &&
                     bl_key_is_chunk(key, parse->id, hex, &number) && number == record->n_chunks &&
                     (number == 0 || strcmp(hex, record->hex) == 0);
  if (regular) {
    memcpy(record->hex, hex, sizeof hex);
  } else {
    if (!check_key(parse, record, key, size, error)) return FALSE;
    if (record->odd == NULL && !make_odd(parse, record, error)) return FALSE;
    if (!keep_odd_key(parse, record, key, error)) return FALSE;
  }
  record->n_chunks++;
  return TRUE;
}

static gboolean read_chunks(Parse *parse, Record *record, GError **error) {
  if (!bl_json_reader_expect(parse->reader, BL_JSON_ARRAY_START, "chunks", error)) return FALSE;
  BlJsonToken token;
  record->has_chunks = TRUE;
  for (;;) {
    if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE;
    if (token == BL_JSON_ARRAY_END) return TRUE;
    if (token != BL_JSON_STRING)
      return fail_file(parse, record->path, error, "\"chunks\" holds more than strings");
    if (!add_chunk_key(parse, record, error)) return FALSE;
  }
}

static gboolean read_path(Parse *parse, Record *record, GError **error) {
  if (!bl_json_reader_expect(parse->reader, BL_JSON_STRING, "path", error)) return FALSE;
  gsize size;
  const char *path = bl_json_reader_text(parse->reader, &size);
  g_autoptr(GError) fault = NULL;
  if (!bl_path_check(path, size, &fault))
    return fail_file(parse, NULL, error, "%s", fault->message);
  parse->path_bytes += size;
  if (parse->path_bytes > BL_MANIFEST_MAX_PATH_BYTES)
    return fail(parse, error, "the paths together have more than %u bytes",
                BL_MANIFEST_MAX_PATH_BYTES);
  record->path = g_strndup(path, size);
  return TRUE;
}

static gboolean read_sha256(Parse *parse, Record *record, GError **error) {
  if (!bl_json_reader_expect(parse->reader, BL_JSON_STRING, "sha256", error)) return FALSE;
  gsize size;
  const char *text = bl_json_reader_text(parse->reader, &size);
  record->has_sha256 = size > 0;
  if (size == 0 || bl_hex_decode(text, size, record->sha256, sizeof record->sha256)) return TRUE;
  return fail_file(parse, record->path, error, "\"sha256\" is not 64 digits of lower-case hex");
}

static gboolean read_type(Parse *parse, Record *record, GError **error) {
  g_autofree char *type = NULL;
  if (!bl_json_reader_read_string(parse->reader, "type", &type, error)) return FALSE;
  record->is_weight = strcmp(type, "WEIGHT") == 0;
  if (record->is_weight || strcmp(type, "METADATA") == 0) return TRUE;
  return fail_file(parse, record->path, error, "\"type\" is neither WEIGHT nor METADATA");
}

static gboolean read_record_member(Parse *parse, Record *record, int member, GError **error) {
  switch (member) {
    case CHUNK_SIZE:
      return read_size(parse, "chunk_size", &record->chunk_size, error);
    case CHUNKS:
      return read_chunks(parse, record, error);
    case KEY:
      return bl_json_reader_read_string(parse->reader, "key", &record->key, error);
    case PATH:
      return read_path(parse, record, error);
    case SHA256:
      return read_sha256(parse, record, error);
    case SIZE:
      return read_size(parse, "size", &record->size, error);
    default:
      return read_type(parse, record, error);
  }
}

/* Schema 1 without chunks: the file's key names its object. */
static gboolean take_whole(Parse *parse, Record *record, GError **error) {
  BlKeyBuffer own;
  record->n_chunks = 1;
  if (strcmp(record->key, bl_key_file(own, parse->id, record->path)) == 0) return TRUE;
  record->odd = g_ptr_array_new();
  return check_key(parse, record, record->key, strlen(record->key), error) &&
         keep_odd_key(parse, record, record->key, error);
}

/* Regular keys must be those of the path that the record turned out to have. An empty file has the
 * file's key only. */
static gboolean settle_chunks(Parse *parse, Record *record, GError **error) {
  BlKeyBuffer own, met;
  bl_key_file(own, parse->id, record->path);
  if (record->odd != NULL) return TRUE;
  if (record->n_chunks == 0) {
    if (strcmp(record->key, own) != 0) record->odd = g_ptr_array_new();
    return TRUE;
  }
  bl_key_file_of_hex(met, parse->id, record->hex);
  return strcmp(own, met) == 0 || make_odd(parse, record, error);
}

static gboolean keep_record(Parse *parse, Record *record, GError **error) {
  if (!(record->has_chunks ? settle_chunks : take_whole)(parse, record, error)) return FALSE;
  BlManifest *manifest = parse->manifest;
  BlManifestFile *file = bl_manifest_add(manifest, record->path);
  file->size = record->size;
  file->chunk_size = record->chunk_size;
  memcpy(file->sha256, record->sha256, sizeof file->sha256);
  file->n_chunks = record->n_chunks;
  file->is_weight = record->is_weight != FALSE;
  file->has_sha256 = record->has_sha256 != FALSE;
  file->is_whole = !record->has_chunks;
  if (record->odd == NULL) return TRUE;
  file->odd_keys = manifest->odd_keys->len + 1;
  g_ptr_array_extend(manifest->odd_keys, record->odd, NULL, NULL);
  return TRUE;
}

/* The first needed member that was not seen; NULL where all were. */
static const char *find_missing(const char *const *names, int n_names, guint needed, guint seen) {
  for (int i = 0; i < n_names; i++)
    if ((needed & ~seen & 1u << i) != 0) return names[i];
  return NULL;
}

static gboolean read_record(Parse *parse, Record *record, GError **error) {
  guint seen = 0;
  int member;
  while ((member = next_member(parse, record_names, N_RECORD, &seen, error)) != N_RECORD)
    if (member < 0 || !read_record_member(parse, record, member, error)) return FALSE;
  const guint optional = 1u << CHUNKS | 1u << CHUNK_SIZE;
  const char *missing = find_missing(record_names, N_RECORD, ~optional, seen);
  if (missing != NULL) return fail_file(parse, record->path, error, "\"%s\" is missing", missing);
  return keep_record(parse, record, error);
}

static gboolean read_files(Parse *parse, GError **error) {
  BlManifest *manifest = parse->manifest;
  if (!bl_json_reader_expect(parse->reader, BL_JSON_ARRAY_START, "files", error)) return FALSE;
  for (guint64 n = 0;; n++) {
    BlJsonToken token;
    if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE;
    if (token == BL_JSON_ARRAY_END) return TRUE;
    if (token != BL_JSON_OBJECT_START)
      return fail(parse, error, "\"files\" holds more than objects");
    if (n == BL_MANIFEST_MAX_FILES)
      return fail(parse, error, "more than %u files", BL_MANIFEST_MAX_FILES);
    if ((parse->flags & BL_MANIFEST_HEADER_ONLY) != 0) {
      if (!bl_json_reader_skip(parse->reader, token, error)) return FALSE;
      manifest->n_files++;
      continue;
    }
    Record record = {0};
    gboolean done = read_record(parse, &record, error);
    g_free(record.path);
    g_free(record.key);
    if (record.odd != NULL) g_ptr_array_free(record.odd, TRUE);
    if (!done) return FALSE;
  }
}

static gboolean read_error(Parse *parse, GError **error) {
  BlJsonToken token;
  if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE;
  if (token == BL_JSON_NULL) return TRUE;
  if (token != BL_JSON_STRING) return fail(parse, error, "\"error\" is neither a string nor null");
  parse->manifest->error = g_strdup(bl_json_reader_text(parse->reader, NULL));
  return TRUE;
}

static gboolean read_header_member(Parse *parse, int member, GError **error) {
  BlManifest *manifest = parse->manifest;
  const char *name = header_names[member];
  guint64 number;
  switch (member) {
    case CHECKPOINT_ID:
      return bl_json_reader_read_string(parse->reader, name, &parse->stated_id, error);
    case CREATED_AT:
      return read_time(parse, name, &manifest->created_at, error);
    case ERROR_TEXT:
      return read_error(parse, error);
    case FILES:
      return read_files(parse, error);
    case MODEL_ID:
      return bl_json_reader_read_string(parse->reader, name, &manifest->model_id, error);
    case REVISION:
      return bl_json_reader_read_string(parse->reader, name, &manifest->revision, error);
    case SCHEMA_VERSION:
      if (!bl_json_reader_read_uint64(parse->reader, name, &number, error)) return FALSE;
      manifest->schema_version = (guint)MIN(number, G_MAXUINT);
      return TRUE;
    case SOURCE_URI:
      return bl_json_reader_read_string(parse->reader, name, &manifest->source_uri, error);
    case STATUS:
      return bl_json_reader_read_string(parse->reader, name, &parse->status, error);
    case TOTAL_SIZE:
      return read_size(parse, name, &manifest->total_size, error);
    default:
      return read_time(parse, name, &manifest->updated_at, error);
  }
}

static gboolean read_document(Parse *parse, GError **error) {
  if (!bl_json_reader_expect(parse->reader, BL_JSON_OBJECT_START, "manifest", error)) return FALSE;
  guint seen = 0;
  int member;
  while ((member = next_member(parse, header_names, N_HEADER, &seen, error)) != N_HEADER)
    if (member < 0 || !read_header_member(parse, member, error)) return FALSE;
  BlJsonToken token;
  if (!bl_json_reader_next(parse->reader, &token, error)) return FALSE; /* nothing follows */
  if (parse->manifest->schema_version > BL_MANIFEST_SCHEMA && (seen & 1u << SCHEMA_VERSION) != 0)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        "%s: schema %u; this version of ballast reads 1 and %u", parse->what,
                        parse->manifest->schema_version, BL_MANIFEST_SCHEMA);
  const char *missing = find_missing(header_names, N_HEADER, ~0u, seen);
  return missing == NULL || fail(parse, error, "\"%s\" is missing", missing);
}

static gboolean check_header(Parse *parse, GError **error) {
  BlManifest *manifest = parse->manifest;
  if (manifest->schema_version == 0) return fail(parse, error, "\"schema_version\" is 0");
  if (parse->unknown != NULL) return fail(parse, error, "unknown member \"%s\"", parse->unknown);
  if (strcmp(parse->stated_id, parse->id) != 0) {
    g_autofree char *shown = bl_path_display(parse->stated_id);
    return fail(
        parse, error,
        "it says that it is of \"%s\" (the store may be on a file system that ignores letter case)",
        shown);
  }
  if (*manifest->model_id == '\0') return fail(parse, error, "\"model_id\" is empty");
  manifest->is_ready = strcmp(parse->status, "READY") == 0;
  if (!manifest->is_ready && strcmp(parse->status, "FAILED") != 0)
    return fail(parse, error, "\"status\" is neither READY nor FAILED");
  if (manifest->is_ready && manifest->error != NULL)
    return fail(parse, error, "READY, but \"error\" is not null");
  return TRUE;
}

/* What must hold for a file that can be read. */
static gboolean check_ready_file(const Parse *parse, BlManifestFile *file, GError **error) {
  if (!file->has_sha256) return fail_file(parse, file->path, error, "\"sha256\" is empty");
  if (file->is_whole && file->size == 0) file->n_chunks = 0;
  if (file->size > 0 && file->n_chunks == 0)
    return fail_file(parse, file->path, error, "it has no chunks");
  if (file->size == 0 && file->n_chunks > 0)
    return fail_file(parse, file->path, error, "it is empty, but has %u chunks", file->n_chunks);
  if (file->chunk_size == 0 || file->is_whole || file->size == 0) return TRUE;
  guint64 n = file->size / file->chunk_size + (file->size % file->chunk_size != 0);
  if (n == file->n_chunks) return TRUE;
  return fail_file(parse, file->path, error,
                   "%u chunks; %" G_GUINT64_FORMAT " bytes in chunks of %" G_GUINT64_FORMAT
                   " are %" G_GUINT64_FORMAT,
                   file->n_chunks, file->size, file->chunk_size, n);
}

static gboolean check_files(Parse *parse, GError **error) {
  BlManifest *manifest = parse->manifest;
  guint64 stated = manifest->total_size;
  g_autoptr(GError) fault = NULL;
  if (!bl_manifest_finish(manifest, &fault)) return fail(parse, error, "%s", fault->message);
  if (manifest->is_ready && manifest->total_size != stated)
    return fail(parse, error,
                "\"total_size\" is %" G_GUINT64_FORMAT ", the files have %" G_GUINT64_FORMAT
                " bytes",
                stated, manifest->total_size);
  manifest->total_size = stated;
  for (guint64 i = 0; manifest->is_ready && i < manifest->n_files; i++)
    if (!check_ready_file(parse, &manifest->files[i], error)) return FALSE;
  return TRUE;
}

BlManifest *bl_manifest_parse(BlJsonInput input, gpointer user, const char *checkpoint_id,
                              BlManifestLoadFlags flags, GError **error) {
  g_autoptr(BlManifest) manifest = bl_manifest_new(checkpoint_id, NULL, NULL, NULL);
  g_autoptr(BlHasher) hasher = bl_hasher_new();
  g_autofree char *what = g_strdup_printf("manifest of checkpoint \"%s\"", checkpoint_id);
  Hashed hashed = {.input = input, .user = user, .hasher = hasher};
  g_autoptr(BlJsonReader) reader =
      bl_json_reader_new(read_hashed, &hashed, MAX_DEPTH, MAX_STRING, what);
  Parse parse = {
      .manifest = manifest, .reader = reader, .flags = flags, .id = checkpoint_id, .what = what};
  gboolean done = read_document(&parse, error) && check_header(&parse, error) &&
                  ((flags & BL_MANIFEST_HEADER_ONLY) != 0 || check_files(&parse, error));
  g_free(parse.unknown);
  g_free(parse.stated_id);
  g_free(parse.status);
  if (!done) return NULL;
  bl_hasher_finish(hasher, manifest->sha256);
  return g_steal_pointer(&manifest);
}
