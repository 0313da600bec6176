#include "model/shard_index.h"

#include <string.h>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/path.h"

/* Real ones are 3 levels deep and have names of a few hundred bytes. */
#define DEPTH_MAX 32
#define STRING_MAX (64 * 1024)
#define SHARDS_MAX 100000

typedef struct {
  const BlByteSource *source;
  guint64 pos;
} Input;

typedef struct {
  BlJsonReader *json;
  BlShardIndex *index;
  GHashTable *shard_numbers; /* of the strings in index->shards */
  gboolean has_map;
} Parser;

gboolean bl_shard_index_is_path(const char *path) {
  return g_str_has_suffix(path, ".safetensors.index.json") ||
         g_str_has_suffix(path, ".bin.index.json");
}

void bl_shard_index_free(BlShardIndex *index) {
  if (index == NULL) return;
  g_ptr_array_unref(index->shards);
  g_array_unref(index->entries);
  g_byte_array_unref(index->names);
  g_free(index);
}

static gssize read_source(gpointer user, void *data, gsize size, GError **error) {
  Input *input = user;
  gsize n = (gsize)MIN(size, input->source->size - input->pos);
  if (n > 0 && !input->source->read(input->source->user, input->pos, data, n, error)) return -1;
  input->pos += n;
  return (gssize)n;
}

static gboolean next(Parser *parser, BlJsonToken *token, GError **error) {
  return bl_json_reader_next(parser->json, token, error);
}

static gboolean text_is(const Parser *parser, const char *word) {
  gsize size;
  const char *text = bl_json_reader_text(parser->json, &size);
  return size == strlen(word) && memcmp(text, word, size) == 0;
}

/* The reader's text as a shard's number. */
static gboolean number_shard(Parser *parser, guint32 *number, GError **error) {
  gsize size;
  const char *path = bl_json_reader_text(parser->json, &size);
  gpointer known;
  if (strlen(path) == size &&
      g_hash_table_lookup_extended(parser->shard_numbers, path, NULL, &known)) {
    *number = GPOINTER_TO_UINT(known);
    return TRUE;
  }
  g_autoptr(GError) refusal = NULL;
  if (!bl_path_check(path, size, &refusal))
    return bl_error_set(error, BL_ERROR_CORRUPT, "weight_map names a shard that cannot be: %s",
                        refusal->message);
  if (parser->index->shards->len == SHARDS_MAX)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED, "more than %d shards", SHARDS_MAX);
  *number = parser->index->shards->len;
  char *copy = g_strdup(path);
  g_ptr_array_add(parser->index->shards, copy);
  g_hash_table_insert(parser->shard_numbers, copy, GUINT_TO_POINTER(*number));
  return TRUE;
}

static gboolean parse_map(Parser *parser, GError **error) {
  BlShardIndex *index = parser->index;
  BlJsonToken token;
  parser->has_map = TRUE;
  if (!bl_json_reader_expect(parser->json, BL_JSON_OBJECT_START, "weight_map", error)) return FALSE;
  for (;;) {
    BlShardEntry entry = {.name_at = index->names->len};
    gsize size;
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) return TRUE;
    const char *name = bl_json_reader_text(parser->json, &size);
    if (index->entries->len == BL_SHARD_INDEX_TENSORS_MAX || size > G_MAXINT32 - entry.name_at)
      return bl_error_set(error, BL_ERROR_UNSUPPORTED, "more than %d tensors",
                          BL_SHARD_INDEX_TENSORS_MAX);
    entry.name_size = (guint32)size;
    g_byte_array_append(index->names, (const guint8 *)name, (guint)size);
    if (!bl_json_reader_expect(parser->json, BL_JSON_STRING, "weight_map", error) ||
        !number_shard(parser, &entry.shard, error))
      return FALSE;
    g_array_append_val(index->entries, entry);
  }
}

/* total_size is a convention that some writers bend (a float, a string): what is no whole number
 * counts as absent. */
static gboolean parse_metadata(Parser *parser, GError **error) {
  BlJsonToken token;
  if (!next(parser, &token, error)) return FALSE;
  if (token != BL_JSON_OBJECT_START) return bl_json_reader_skip(parser->json, token, error);
  for (;;) {
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) return TRUE;
    gboolean is_total = text_is(parser, "total_size");
    if (!next(parser, &token, error)) return FALSE;
    if (is_total && token == BL_JSON_NUMBER)
      parser->index->has_total_size =
          g_ascii_string_to_unsigned(bl_json_reader_text(parser->json, NULL), 10, 0, G_MAXUINT64,
                                     &parser->index->total_size, NULL);
    if (!bl_json_reader_skip(parser->json, token, error)) return FALSE;
  }
}

static gboolean parse_member(Parser *parser, GError **error) {
  BlJsonToken token;
  if (text_is(parser, "weight_map")) return parse_map(parser, error);
  if (text_is(parser, "metadata")) return parse_metadata(parser, error);
  return next(parser, &token, error) && bl_json_reader_skip(parser->json, token, error);
}

static gboolean parse(Parser *parser, GError **error) {
  BlJsonToken token;
  if (!bl_json_reader_expect(parser->json, BL_JSON_OBJECT_START, "the index", error)) return FALSE;
  for (;;) {
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) break;
    if (!parse_member(parser, error)) return FALSE;
  }
  if (!next(parser, &token, error)) return FALSE;
  return parser->has_map || bl_error_set(error, BL_ERROR_CORRUPT, "it has no weight_map");
}

static int compare(const BlShardIndex *index, const BlShardEntry *entry, const char *name,
                   gsize size) {
  gsize n = MIN(entry->name_size, size);
  int order = n > 0 ? memcmp(index->names->data + entry->name_at, name, n) : 0;
  return order != 0 ? order : (entry->name_size > size) - (entry->name_size < size);
}

static int compare_entries(gconstpointer a, gconstpointer b, gpointer user) {
  const BlShardIndex *index = user;
  const BlShardEntry *y = b;
  return compare(index, a, (const char *)index->names->data + y->name_at, y->name_size);
}

/* Sorts by name, equal names in the file's order, and keeps the last of them, as readers do. */
static void sort_entries(BlShardIndex *index) {
  BlShardEntry *entries = (BlShardEntry *)(void *)index->entries->data;
  guint n = index->entries->len, kept = 0;
  g_array_sort_with_data(index->entries, compare_entries, index);
  for (guint i = 0; i < n; i++) {
    if (i + 1 < n && compare_entries(&entries[i], &entries[i + 1], index) == 0)
      index->n_duplicates++;
    else
      entries[kept++] = entries[i];
  }
  g_array_set_size(index->entries, kept);
}

BlShardIndex *bl_shard_index_read(const BlByteSource *source, const char *what, GError **error) {
  Input input = {source, 0};
  g_autoptr(BlShardIndex) index = g_new0(BlShardIndex, 1);
  index->shards = g_ptr_array_new_with_free_func(g_free);
  index->entries = g_array_new(FALSE, FALSE, sizeof(BlShardEntry));
  index->names = g_byte_array_sized_new(4096);
  g_autoptr(BlJsonReader) json =
      bl_json_reader_new(read_source, &input, DEPTH_MAX, STRING_MAX, "index");
  g_autoptr(GHashTable) numbers = g_hash_table_new(g_str_hash, g_str_equal);
  Parser parser = {json, index, numbers, FALSE};
  if (!parse(&parser, error)) {
    g_prefix_error(error, "%s: ", what);
    return NULL;
  }
  sort_entries(index);
  return g_steal_pointer(&index);
}

BlShardEntry *bl_shard_index_find(const BlShardIndex *index, const char *name, gsize name_size) {
  guint low = 0, high = index->entries->len;
  while (low < high) {
    guint middle = low + (high - low) / 2;
    BlShardEntry *entry = &g_array_index(index->entries, BlShardEntry, middle);
    int order = compare(index, entry, name, name_size);
    if (order == 0) return entry;
    if (order > 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}
