/* The header is read as a stream of JSON tokens into the table's packed rows; the checks that need
 * all of them (names, then offsets in the order of the data) follow.
 *
 * The reference checks in another order, which shows only in the message: the verdict is the same.
 * Messages are built from the inside: the file's name is put in front where the reading began, the
 * tensor's where its value began. */
#include "model/safetensors.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json_reader.h"
#include "model/tensor_builder.h"

#define LENGTH_SIZE 8
/* serde_json refuses the 128th open array or object. */
#define DEPTH_MAX 127
#define METADATA "__metadata__"

/* All names of the reference, with the first release of it that reads them where that is not any.
 */
typedef struct {
  const char *name;
  guint bits;
  const char *since;
} Dtype;

static const Dtype dtypes[] = {
    {"BOOL", 8, NULL},         {"F4", 4, "0.6"},          {"F6_E2M3", 6, "0.6"},
    {"F6_E3M2", 6, "0.6"},     {"U8", 8, NULL},           {"I8", 8, NULL},
    {"F8_E5M2", 8, NULL},      {"F8_E4M3", 8, NULL},      {"F8_E8M0", 8, "0.6"},
    {"F8_E4M3FNUZ", 8, "0.7"}, {"F8_E5M2FNUZ", 8, "0.7"}, {"I16", 16, NULL},
    {"U16", 16, NULL},         {"F16", 16, NULL},         {"BF16", 16, NULL},
    {"I32", 32, NULL},         {"U32", 32, NULL},         {"F32", 32, NULL},
    {"C64", 64, "0.7"},        {"F64", 64, NULL},         {"I64", 64, NULL},
    {"U64", 64, NULL},
};

typedef struct {
  const BlByteSource *source;
  guint64 pos, end; /* of the header's bytes not yet given */
} HeaderInput;

typedef struct {
  BlJsonReader *json;
  BlTensorTable *table;
  const Dtype **known; /* by the table's dtype numbers; NULL for unknown ones */
  gboolean has_metadata;
  gboolean array_form, object_dtype; /* odd spellings met, for a note */
} Parser;

typedef enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 } Fields;

/* What one tensor's value said. */
typedef struct {
  Fields fields;
  BlTensorRow row;
  guint64 begin, end;
} Entry;

static gssize read_header(gpointer user, void *data, gsize size, GError **error) {
  HeaderInput *input = user;
  gsize n = (gsize)MIN(size, input->end - input->pos);
  if (n > 0 && !input->source->read(input->source->user, input->pos, data, n, error)) return -1;
  input->pos += n;
  return (gssize)n;
}

static gboolean next(Parser *parser, BlJsonToken *token, GError **error) {
  return bl_json_reader_next(parser->json, token, error);
}

static gboolean bad(GError **error, const char *words) {
  return bl_error_set(error, BL_ERROR_CORRUPT, "%s", words);
}

/* Numbers of fields that nobody reads must still be numbers that the reference can hold. */
static gboolean check_ignored(Parser *parser, BlJsonToken token, GError **error) {
  if (token != BL_JSON_NUMBER) return TRUE;
  if (isfinite(g_ascii_strtod(bl_json_reader_text(parser->json, NULL), NULL))) return TRUE;
  return bad(error, "a number is out of range");
}

static gboolean skip_value(Parser *parser, GError **error) {
  guint depth = bl_json_reader_depth(parser->json);
  BlJsonToken token;
  do {
    if (!next(parser, &token, error) || !check_ignored(parser, token, error)) return FALSE;
  } while (bl_json_reader_depth(parser->json) > depth);
  return TRUE;
}

/* token is the value's first. */
static gboolean parse_number(Parser *parser, BlJsonToken token, const char *field, guint64 *value,
                             GError **error) {
  guint64 sum = 0;
  const char *p = bl_json_reader_text(parser->json, NULL);
  gboolean ok = token == BL_JSON_NUMBER;
  for (; ok && *p != '\0'; p++)
    ok = g_ascii_isdigit(*p) && g_uint64_checked_mul(&sum, sum, 10) &&
         g_uint64_checked_add(&sum, sum, (guint64)(*p - '0'));
  *value = sum;
  if (ok) return TRUE;
  if (token == BL_JSON_NUMBER)
    return bl_error_set(error, BL_ERROR_CORRUPT, "%s: %.40s is not a whole number from 0 to 2^64-1",
                        field, bl_json_reader_text(parser->json, NULL));
  return bl_error_set(error, BL_ERROR_CORRUPT, "%s must hold whole numbers", field);
}

static void keep_dtype(Parser *parser, Entry *entry) {
  gsize size;
  const char *text = bl_json_reader_text(parser->json, &size);
  for (gsize i = 0; i < G_N_ELEMENTS(dtypes); i++) {
    if (strlen(dtypes[i].name) != size || memcmp(dtypes[i].name, text, size) != 0) continue;
    entry->row.dtype = bl_tensor_table_dtype(parser->table, dtypes[i].name, TRUE);
    parser->known[entry->row.dtype] = &dtypes[i];
    return;
  }
  g_autofree char *shown = bl_name_display(text, size);
  entry->row.dtype = bl_tensor_table_dtype(parser->table, shown, FALSE);
}

/* A name, or the spelling {"F32":null} that the reference's JSON library takes for the same. */
static gboolean parse_dtype(Parser *parser, BlJsonToken token, Entry *entry, GError **error) {
  if (token == BL_JSON_STRING) {
    keep_dtype(parser, entry);
    return TRUE;
  }
  if (token != BL_JSON_OBJECT_START) return bad(error, "dtype must be a string");
  if (!next(parser, &token, error)) return FALSE;
  if (token != BL_JSON_KEY) return bad(error, "dtype must be a string");
  keep_dtype(parser, entry);
  for (BlJsonToken wanted = BL_JSON_NULL;; wanted = BL_JSON_OBJECT_END) {
    if (!next(parser, &token, error)) return FALSE;
    if (token != wanted) return bad(error, "dtype must be a string");
    if (wanted == BL_JSON_OBJECT_END) break;
  }
  parser->object_dtype = TRUE;
  return TRUE;
}

static gboolean parse_shape(Parser *parser, BlJsonToken token, Entry *entry, GError **error) {
  if (token != BL_JSON_ARRAY_START) return bad(error, "shape must be an array of whole numbers");
  entry->row.shape_at = parser->table->arena->len;
  for (;;) {
    guint64 dim;
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_ARRAY_END) return TRUE;
    if (!parse_number(parser, token, "shape", &dim, error)) return FALSE;
    bl_tensor_table_keep_dim(parser->table, dim);
    entry->row.n_dims++;
  }
}

static gboolean parse_offsets(Parser *parser, BlJsonToken token, Entry *entry, GError **error) {
  static const char wanted[] = "data_offsets must be an array of two whole numbers";
  guint64 *ends[] = {&entry->begin, &entry->end};
  if (token != BL_JSON_ARRAY_START) return bad(error, wanted);
  for (gsize i = 0; i < 2; i++) {
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_ARRAY_END) return bad(error, wanted);
    if (!parse_number(parser, token, "data_offsets", ends[i], error)) return FALSE;
  }
  if (!next(parser, &token, error)) return FALSE;
  return token == BL_JSON_ARRAY_END || bad(error, wanted);
}

static gboolean parse_field(Parser *parser, Fields field, BlJsonToken token, Entry *entry,
                            GError **error) {
  if ((entry->fields & field) != 0) return bad(error, "a field stands twice");
  entry->fields |= field;
  if (field == HAS_DTYPE) return parse_dtype(parser, token, entry, error);
  if (field == HAS_SHAPE) return parse_shape(parser, token, entry, error);
  return parse_offsets(parser, token, entry, error);
}

static Fields field_from_name(Parser *parser) {
  gsize size;
  const char *name = bl_json_reader_text(parser->json, &size);
  if (size == 5 && memcmp(name, "dtype", 5) == 0) return HAS_DTYPE;
  if (size == 5 && memcmp(name, "shape", 5) == 0) return HAS_SHAPE;
  return size == 12 && memcmp(name, "data_offsets", 12) == 0 ? HAS_OFFSETS : 0;
}

static gboolean parse_fields(Parser *parser, Entry *entry, GError **error) {
  for (;;) {
    BlJsonToken token;
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) break;
    Fields field = field_from_name(parser);
    if (field == 0) {
      if (!skip_value(parser, error)) return FALSE;
      continue;
    }
    if (!next(parser, &token, error) || !parse_field(parser, field, token, entry, error))
      return FALSE;
  }
  if ((entry->fields & HAS_DTYPE) == 0) return bad(error, "dtype is missing");
  if ((entry->fields & HAS_SHAPE) == 0) return bad(error, "shape is missing");
  return entry->fields == HAS_ALL || bad(error, "data_offsets is missing");
}

/* ["F32",[2],[0,8]]: the reference's JSON library takes it for the object. */
static gboolean parse_elements(Parser *parser, Entry *entry, GError **error) {
  static const Fields order[] = {HAS_DTYPE, HAS_SHAPE, HAS_OFFSETS};
  static const char wanted[] = "must be an object with dtype, shape and data_offsets";
  BlJsonToken token;
  parser->array_form = TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(order); i++) {
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_ARRAY_END) return bad(error, wanted);
    if (!parse_field(parser, order[i], token, entry, error)) return FALSE;
  }
  if (!next(parser, &token, error)) return FALSE;
  return token == BL_JSON_ARRAY_END || bad(error, wanted);
}

/* Elements; FALSE where the product, taken from the left, passes 2^64-1. */
static gboolean count_elements(const BlTensorTable *table, const BlTensorRow *row, guint64 *n) {
  const guint8 *shape = table->arena->data + row->shape_at;
  *n = 1;
  for (guint32 d = 0; d < row->n_dims; d++)
    if (!g_uint64_checked_mul(n, *n, bl_tensor_shape_next(&shape))) return FALSE;
  return TRUE;
}

/* The rules of one tensor by itself, but for its place. */
static gboolean check_size(Parser *parser, const Entry *entry, GError **error) {
  const Dtype *dtype = parser->known[entry->row.dtype];
  guint64 n, bits;
  if (!count_elements(parser->table, &entry->row, &n))
    return bad(error, "the number of elements overflows 64 bits");
  if (entry->end < entry->begin)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "data_offsets are reversed: from %" G_GUINT64_FORMAT
                        " to %" G_GUINT64_FORMAT,
                        entry->begin, entry->end);
  if (dtype == NULL) return TRUE;
  if (!g_uint64_checked_mul(&bits, n, dtype->bits))
    return bad(error, "the number of bits overflows 64 bits");
  if (bits % 8 != 0)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "%" G_GUINT64_FORMAT " elements of %u bits do not end at a byte", n,
                        dtype->bits);
  if (bits / 8 == entry->end - entry->begin) return TRUE;
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "shape and dtype make %" G_GUINT64_FORMAT
                      " bytes, data_offsets %" G_GUINT64_FORMAT,
                      bits / 8, entry->end - entry->begin);
}

static gboolean parse_entry(Parser *parser, Entry *entry, GError **error) {
  BlJsonToken token;
  if (!next(parser, &token, error)) return FALSE;
  if (token == BL_JSON_OBJECT_START) {
    if (!parse_fields(parser, entry, error)) return FALSE;
  } else if (token == BL_JSON_ARRAY_START) {
    if (!parse_elements(parser, entry, error)) return FALSE;
  } else {
    return bad(error, "must be an object with dtype, shape and data_offsets");
  }
  return check_size(parser, entry, error);
}

/* The name is the reader's text. */
static gboolean parse_tensor(Parser *parser, GError **error) {
  BlTensorTable *table = parser->table;
  Entry entry = {0};
  gsize size;
  const char *name = bl_json_reader_text(parser->json, &size);
  entry.row.name_size = (guint32)size;
  entry.row.name_at = bl_tensor_table_keep(table, name, size);
  if (!parse_entry(parser, &entry, error)) {
    g_autofree char *shown =
        bl_name_display((const char *)table->arena->data + entry.row.name_at, size);
    g_prefix_error(error, "tensor \"%s\": ", shown);
    return FALSE;
  }
  /* Relative to the data until the file's size is known to hold them. */
  entry.row.offset = entry.begin;
  entry.row.size = entry.end - entry.begin;
  g_array_append_val(table->rows, entry.row);
  return TRUE;
}

static gboolean parse_metadata(Parser *parser, GError **error) {
  BlTensorTable *table = parser->table;
  BlJsonToken token;
  if (parser->has_metadata) return bad(error, "duplicate key \"" METADATA "\"");
  parser->has_metadata = TRUE;
  if (!next(parser, &token, error)) return FALSE;
  if (token == BL_JSON_NULL) return TRUE;
  if (token != BL_JSON_OBJECT_START) return bad(error, METADATA " must be an object of strings");
  for (;;) {
    BlTensorPairRow pair = {.type = "string", .n_elements = 1};
    gsize size;
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) return TRUE;
    const char *text = bl_json_reader_text(parser->json, &size);
    pair.key_size = (guint32)size;
    pair.key_at = bl_tensor_table_keep(table, text, size);
    if (!next(parser, &token, error)) return FALSE;
    if (token != BL_JSON_STRING) {
      g_autofree char *key =
          bl_name_display((const char *)table->arena->data + pair.key_at, pair.key_size);
      return bl_error_set(error, BL_ERROR_CORRUPT, METADATA ": \"%s\" must be a string", key);
    }
    text = bl_json_reader_text(parser->json, &size);
    pair.value_size = (guint32)size;
    pair.value_at = bl_tensor_table_keep(table, text, size);
    g_array_append_val(table->pairs, pair);
  }
}

static gboolean parse_header(Parser *parser, GError **error) {
  BlJsonToken token;
  if (!next(parser, &token, error)) return FALSE;
  if (token != BL_JSON_OBJECT_START) return bad(error, "the header must be a JSON object");
  for (;;) {
    if (!next(parser, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) break;
    gsize size;
    const char *name = bl_json_reader_text(parser->json, &size);
    gboolean metadata = size == strlen(METADATA) && memcmp(name, METADATA, size) == 0;
    if (!(metadata ? parse_metadata(parser, error) : parse_tensor(parser, error))) return FALSE;
  }
  return next(parser, &token, error); /* the end, or what stands there instead */
}

static int compare_places(gconstpointer a, gconstpointer b, gpointer user) {
  const BlTensorTable *table = user;
  const BlTensorRow *x = &g_array_index(table->rows, BlTensorRow, *(const guint32 *)a);
  const BlTensorRow *y = &g_array_index(table->rows, BlTensorRow, *(const guint32 *)b);
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->size > y->size) - (x->size < y->size);
}

static gboolean fail_place(const BlTensorTable *table, guint32 i, guint32 before, guint64 at,
                           GError **error) {
  const BlTensorRow *row = &g_array_index(table->rows, BlTensorRow, i);
  g_autofree char *name = bl_tensor_table_row_display(table, i);
  if (row->offset > at)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "bytes %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT
                        " of the data belong to no tensor (before tensor \"%s\")",
                        at, row->offset, name);
  g_autofree char *other = bl_tensor_table_row_display(table, before);
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "tensors \"%s\" and \"%s\" overlap at byte %" G_GUINT64_FORMAT " of the data",
                      other, name, row->offset);
}

/* The data must be covered from its first byte to its last, each byte by one tensor. */
static gboolean check_places(BlTensorTable *table, guint64 data_size, GError **error) {
  guint64 n = table->rows->len, at = 0;
  g_autofree guint32 *order = bl_tensor_table_sort(table, compare_places);
  for (guint64 i = 0; i < n; i++) {
    BlTensorRow *row = &g_array_index(table->rows, BlTensorRow, order[i]);
    if (row->offset != at) return fail_place(table, order[i], i > 0 ? order[i - 1] : 0, at, error);
    at += row->size;
  }
  guint64 begin = table->header_size;
  if (at > data_size)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "truncated: %" G_GUINT64_FORMAT
                        " bytes, the header promises %" G_GUINT64_FORMAT,
                        begin + data_size, begin + at);
  if (at < data_size)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "%" G_GUINT64_FORMAT " bytes, of which the last %" G_GUINT64_FORMAT
                        " belong to no tensor",
                        begin + data_size, data_size - at);
  for (guint64 i = 0; i < n; i++) g_array_index(table->rows, BlTensorRow, i).offset += begin;
  return TRUE;
}

static void add_notes(Parser *parser, guint8 first) {
  BlTensorTable *table = parser->table;
  const char *since = NULL;
  for (guint i = 0; i < table->dtypes->len; i++) {
    const Dtype *dtype = parser->known[i];
    if (dtype == NULL || dtype->since == NULL) continue;
    if (since == NULL || strcmp(since, dtype->since) < 0) since = dtype->since;
  }
  if (since != NULL)
    bl_tensor_table_add_note(table, "its dtypes need a reader of safetensors %s or later", since);
  if (first != '{')
    bl_tensor_table_add_note(
        table,
        "the header begins with white space: the format's text forbids it, readers accept it");
  if (parser->array_form)
    bl_tensor_table_add_note(
        table, "a tensor is written as an array, not as an object: some readers refuse that");
  if (parser->object_dtype)
    bl_tensor_table_add_note(
        table, "a dtype is written as an object, not as a string: some readers refuse that");
  g_autofree char *twice = bl_tensor_table_unify_pairs(table);
  if (twice != NULL)
    bl_tensor_table_add_note(table, METADATA " names \"%s\" twice: the last one counts", twice);
}

/* Reads the length and refuses what cannot be one, before any memory is asked for. */
static gboolean read_length(const BlByteSource *source, HeaderInput *input, GError **error) {
  guint8 bytes[LENGTH_SIZE];
  guint64 n = 0;
  if (source->size == 0) return bad(error, "the file is empty");
  if (source->size < LENGTH_SIZE)
    return bl_error_set(error, BL_ERROR_CORRUPT, "%" G_GUINT64_FORMAT " bytes cannot hold a header",
                        source->size);
  if (!source->read(source->user, 0, bytes, sizeof bytes, error)) return FALSE;
  for (guint i = LENGTH_SIZE; i > 0; i--) n = n << 8 | bytes[i - 1];
  gboolean too_large = n > BL_SAFETENSORS_HEADER_MAX;
  if (too_large || n > source->size - LENGTH_SIZE) {
    if (!bl_model_file_check_foreign(source, BL_MODEL_FORMAT_SAFETENSORS, error)) return FALSE;
    if (too_large)
      return bl_error_set(error, BL_ERROR_CORRUPT,
                          "not safetensors, or damaged: a header of %" G_GUINT64_FORMAT
                          " bytes (at most %u)",
                          n, BL_SAFETENSORS_HEADER_MAX);
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "truncated: %" G_GUINT64_FORMAT
                        " bytes, the header alone takes %" G_GUINT64_FORMAT,
                        source->size, LENGTH_SIZE + n);
  }
  *input = (HeaderInput){source, LENGTH_SIZE, LENGTH_SIZE + n};
  return TRUE;
}

static gboolean read_table(const BlByteSource *source, BlTensorTable *table, GError **error) {
  const Dtype *known[G_N_ELEMENTS(dtypes) + BL_UNKNOWN_DTYPES_MAX + 1] = {NULL};
  HeaderInput input;
  guint8 first = 0;
  if (!read_length(source, &input, error)) return FALSE;
  table->header_size = input.end;
  if (input.end > LENGTH_SIZE && !source->read(source->user, LENGTH_SIZE, &first, 1, error))
    return FALSE;
  g_autoptr(BlJsonReader) json =
      bl_json_reader_new(read_header, &input, DEPTH_MAX, BL_SAFETENSORS_HEADER_MAX, "header");
  Parser parser = {.json = json, .table = table, .known = known};
  if (!parse_header(&parser, error) || !bl_tensor_table_index_names(table, error) ||
      !check_places(table, source->size - table->header_size, error))
    return FALSE;
  add_notes(&parser, first);
  bl_tensor_table_sum(table);
  return TRUE;
}

BlTensorTable *bl_safetensors_read_any(const BlByteSource *source, const char *what,
                                       GError **error) {
  g_autoptr(BlTensorTable) table = bl_tensor_table_new(BL_MODEL_FORMAT_SAFETENSORS);
  if (read_table(source, table, error)) return g_steal_pointer(&table);
  g_prefix_error(error, "%s: ", what);
  return NULL;
}

BlTensorTable *bl_safetensors_read(const BlByteSource *source, const char *what, GError **error) {
  g_autoptr(BlTensorTable) table = bl_safetensors_read_any(source, what, error);
  if (table == NULL || !bl_tensor_table_check_known(table, what, error)) return NULL;
  return g_steal_pointer(&table);
}

/* The largest second number of a "data_offsets", as far as the header can be read. Only a failing
 * source is an error. */
static gboolean find_data_end(HeaderInput *input, guint64 *data_end, GError **error) {
  g_autoptr(GError) failure = NULL;
  g_autoptr(BlJsonReader) json =
      bl_json_reader_new(read_header, input, DEPTH_MAX, BL_SAFETENSORS_HEADER_MAX, "header");
  Parser parser = {.json = json};
  BlJsonToken token = BL_JSON_NULL;
  *data_end = 0;
  while (bl_json_reader_next(json, &token, &failure) && token != BL_JSON_END) {
    if (token != BL_JSON_KEY || bl_json_reader_depth(json) != 2) continue;
    if (field_from_name(&parser) != HAS_OFFSETS) continue;
    Entry entry = {0};
    if (!next(&parser, &token, &failure)) break;
    if (token != BL_JSON_ARRAY_START) continue;
    if (!parse_offsets(&parser, token, &entry, &failure)) break;
    *data_end = MAX(*data_end, entry.end);
  }
  if (failure == NULL || g_error_matches(failure, BL_ERROR, BL_ERROR_CORRUPT)) return TRUE;
  g_propagate_error(error, g_steal_pointer(&failure));
  return FALSE;
}

gboolean bl_safetensors_check_length(const BlByteSource *source, const char *what, GError **error) {
  HeaderInput input;
  guint64 data_end;
  if (!read_length(source, &input, error) || !find_data_end(&input, &data_end, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  guint64 data_size = source->size - input.end, promised;
  if (data_end <= data_size) return TRUE;
  if (!g_uint64_checked_add(&promised, input.end, data_end)) promised = G_MAXUINT64;
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "%s: truncated: %" G_GUINT64_FORMAT
                      " bytes, the header promises at least %" G_GUINT64_FORMAT
                      " (%" G_GUINT64_FORMAT " more)",
                      what, source->size, promised, promised - source->size);
}
