/* The header is one sequence of fields without padding: magic, version, counts, pairs, tensors. It
 * is read through a window that moves over the file; lengths and counts from the file are held
 * against the bytes that are left before anything is done with them. */
#include "model/gguf.h"

#include <string.h>

#include "base/error.h"
#include "model/tensor_builder.h"

#define WINDOW_SIZE (64 * 1024)
#define VERSION_MAX 3
#define KEY_SIZE_MAX 65535 /* the format's text */
#define NAME_SIZE_MAX 63   /* ggml keeps 64 bytes with the NUL */
#define DIMS_MAX 4
#define ARRAY_COUNT_MAX (G_GUINT64_CONSTANT(1) << 30) /* ggml's */
#define ALIGNMENT_DEFAULT 32
/* The fewest bytes a pair (an empty array aside, a key of one byte and a value of one) and a tensor
 * take. */
#define PAIR_SIZE_MIN 14
#define TENSOR_SIZE_MIN 24
/* Bytes of each string in an array's preview. */
#define PREVIEW_ELEMENT 64
#define ALIGNMENT_KEY "general.alignment"

typedef enum {
  T_U8,
  T_I8,
  T_U16,
  T_I16,
  T_U32,
  T_I32,
  T_F32,
  T_BOOL,
  T_STRING,
  T_ARRAY,
  T_U64,
  T_I64,
  T_F64,
  T_COUNT
} ValueType;

static const struct {
  guint size; /* bytes; of a string the fewest */
  const char *name, *array_name;
} value_types[T_COUNT] = {
    [T_U8] = {1, "u8", "array of u8"},
    [T_I8] = {1, "i8", "array of i8"},
    [T_U16] = {2, "u16", "array of u16"},
    [T_I16] = {2, "i16", "array of i16"},
    [T_U32] = {4, "u32", "array of u32"},
    [T_I32] = {4, "i32", "array of i32"},
    [T_F32] = {4, "f32", "array of f32"},
    [T_BOOL] = {1, "bool", "array of bool"},
    [T_STRING] = {8, "string", "array of string"},
    [T_ARRAY] = {0, "array", NULL},
    [T_U64] = {8, "u64", "array of u64"},
    [T_I64] = {8, "i64", "array of i64"},
    [T_F64] = {8, "f64", "array of f64"},
};

/* Elements and bytes of a block, by type number; ids that ggml gave up are left out. */
static const struct {
  const char *name;
  guint block, size;
} tensor_types[] = {
    [0] = {"F32", 1, 4},         [1] = {"F16", 1, 2},         [2] = {"Q4_0", 32, 18},
    [3] = {"Q4_1", 32, 20},      [6] = {"Q5_0", 32, 22},      [7] = {"Q5_1", 32, 24},
    [8] = {"Q8_0", 32, 34},      [9] = {"Q8_1", 32, 36},      [10] = {"Q2_K", 256, 84},
    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 256, 144},   [13] = {"Q5_K", 256, 176},
    [14] = {"Q6_K", 256, 210},   [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66},
    [17] = {"IQ2_XS", 256, 74},  [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},
    [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},  [22] = {"IQ2_S", 256, 82},
    [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},
    [29] = {"IQ1_M", 256, 56},   [30] = {"BF16", 1, 2},       [34] = {"TQ1_0", 256, 54},
    [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},    [40] = {"NVFP4", 64, 36},
    [41] = {"Q1_0", 128, 18},    [42] = {"Q2_0", 64, 18},
};

typedef struct {
  const BlByteSource *source;
  BlTensorTable *table;
  guint8 *window;
  guint64 window_at;
  gsize window_size;
  guint64 pos;
  gboolean big_endian;
  gboolean cut_short; /* the error is that the file ends too early */
  gboolean foreign;   /* the error is that this is no GGUF file */
  gboolean quantized, has_architecture, has_quantization_version;
  guint64 data_end; /* of the last tensor, from the data's start */
  guint64 next_offset;
} Parser;

static gboolean fail_cut(Parser *parser, GError **error, const char *what, guint64 n) {
  parser->cut_short = TRUE;
  return bl_error_set(error, BL_ERROR_CORRUPT,
                      "truncated, or damaged: %s takes %" G_GUINT64_FORMAT
                      " bytes at byte %" G_GUINT64_FORMAT ", the file has %" G_GUINT64_FORMAT,
                      what, n, parser->pos, parser->source->size);
}

static guint64 left(const Parser *parser) {
  return parser->source->size - parser->pos;
}

/* Makes sure that n bytes are left and within the header's limit. */
static gboolean need(Parser *parser, const char *what, guint64 n, GError **error) {
  if (n > left(parser)) return fail_cut(parser, error, what, n);
  if (n <= BL_GGUF_HEADER_MAX && parser->pos + n <= BL_GGUF_HEADER_MAX) return TRUE;
  return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                      "the header is larger than %" G_GUINT64_FORMAT " bytes", BL_GGUF_HEADER_MAX);
}

static gboolean take(Parser *parser, const char *what, void *data, gsize n, GError **error) {
  guint8 *out = data;
  if (!need(parser, what, n, error)) return FALSE;
  while (n > 0) {
    guint64 in = parser->pos - parser->window_at;
    if (parser->pos < parser->window_at || in >= parser->window_size) {
      gsize size = (gsize)MIN(WINDOW_SIZE, left(parser));
      parser->window_size = 0;
      if (!parser->source->read(parser->source->user, parser->pos, parser->window, size, error))
        return FALSE;
      parser->window_at = parser->pos;
      parser->window_size = size;
      in = 0;
    }
    gsize piece = MIN(n, parser->window_size - (gsize)in);
    memcpy(out, parser->window + in, piece);
    out += piece;
    n -= piece;
    parser->pos += piece;
  }
  return TRUE;
}

static gboolean skip(Parser *parser, const char *what, guint64 n, GError **error) {
  if (!need(parser, what, n, error)) return FALSE;
  parser->pos += n;
  return TRUE;
}

/* A number of 1 to 8 bytes in the file's order. */
static gboolean take_uint(Parser *parser, const char *what, gsize size, guint64 *value,
                          GError **error) {
  guint8 bytes[8];
  if (!take(parser, what, bytes, size, error)) return FALSE;
  *value = 0;
  for (gsize i = 0; i < size; i++)
    *value = *value << 8 | bytes[parser->big_endian ? i : size - 1 - i];
  return TRUE;
}

/* A string's length, and that so many bytes follow. */
static gboolean take_length(Parser *parser, const char *what, guint64 *size, GError **error) {
  if (!take_uint(parser, what, 8, size, error)) return FALSE;
  return need(parser, what, *size, error);
}

/* Moves the next `size` bytes into the table; `keep` of them stay. */
static gboolean keep_bytes(Parser *parser, const char *what, guint64 size, gsize keep, guint32 *at,
                           GError **error) {
  GByteArray *arena = parser->table->arena;
  *at = arena->len;
  g_byte_array_set_size(arena, arena->len + (guint)keep);
  return take(parser, what, arena->data + *at, keep, error) &&
         skip(parser, what, size - keep, error);
}

static void append_number(GString *text, ValueType type, guint64 value) {
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  guint32 low = (guint32)value;
  gfloat f32;
  gdouble f64;
  switch (type) {
    case T_BOOL:
      g_string_append(text, value != 0 ? "true" : "false");
      break;
    case T_F32:
      memcpy(&f32, &low, sizeof f32);
      g_string_append(text, g_ascii_formatd(digits, sizeof digits, "%.9g", (gdouble)f32));
      break;
    case T_F64:
      memcpy(&f64, &value, sizeof f64);
      g_string_append(text, g_ascii_formatd(digits, sizeof digits, "%.17g", f64));
      break;
    case T_I8:
      g_string_append_printf(text, "%d", (gint8)value);
      break;
    case T_I16:
      g_string_append_printf(text, "%d", (gint16)value);
      break;
    case T_I32:
      g_string_append_printf(text, "%d", (gint32)value);
      break;
    case T_I64:
      g_string_append_printf(text, "%" G_GINT64_FORMAT, (gint64)value);
      break;
    default:
      g_string_append_printf(text, "%" G_GUINT64_FORMAT, value);
  }
}

/* One element of an array's preview. */
static gboolean append_element(Parser *parser, ValueType type, GString *text, GError **error) {
  char bytes[PREVIEW_ELEMENT];
  guint64 value;
  if (type != T_STRING) {
    if (!take_uint(parser, "an array", value_types[type].size, &value, error)) return FALSE;
    append_number(text, type, value);
    return TRUE;
  }
  if (!take_length(parser, "a string in an array", &value, error)) return FALSE;
  gsize n = (gsize)MIN(value, sizeof bytes);
  if (!take(parser, "a string in an array", bytes, n, error) ||
      !skip(parser, "a string in an array", value - n, error))
    return FALSE;
  g_autofree char *shown = bl_name_display(bytes, n);
  g_string_append_printf(text, "\"%s%s\"", shown, n < value ? "…" : "");
  return TRUE;
}

static gboolean skip_elements(Parser *parser, ValueType type, guint64 n, GError **error) {
  if (type != T_STRING) return skip(parser, "an array", n * value_types[type].size, error);
  for (guint64 i = 0; i < n; i++) {
    guint64 size;
    if (!take_length(parser, "a string in an array", &size, error) ||
        !skip(parser, "a string in an array", size, error))
      return FALSE;
  }
  return TRUE;
}

static void keep_text(Parser *parser, const GString *text, BlTensorPairRow *pair) {
  pair->value_size = (guint32)text->len;
  pair->value_at = bl_tensor_table_keep(parser->table, text->str, text->len);
}

static gboolean parse_array(Parser *parser, BlTensorPairRow *pair, GError **error) {
  guint64 type, count;
  if (!take_uint(parser, "an array's type", 4, &type, error) ||
      !take_uint(parser, "an array's length", 8, &count, error))
    return FALSE;
  if (type == T_ARRAY) return bl_error_set(error, BL_ERROR_CORRUPT, "an array of arrays");
  if (type >= T_COUNT)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "an array of values of type %" G_GUINT64_FORMAT ", which there is not",
                        type);
  if (count > ARRAY_COUNT_MAX)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "an array of %" G_GUINT64_FORMAT " elements (at most %" G_GUINT64_FORMAT
                        ")",
                        count, ARRAY_COUNT_MAX);
  if (!need(parser, "an array", count * value_types[type].size, error)) return FALSE;
  g_autoptr(GString) text = g_string_new("[");
  guint64 n_shown = MIN(count, BL_PREVIEW_ELEMENTS);
  for (guint64 i = 0; i < n_shown; i++) {
    if (i > 0) g_string_append(text, ", ");
    if (!append_element(parser, (ValueType)type, text, error)) return FALSE;
  }
  g_string_append(text, n_shown < count ? ", …]" : "]");
  pair->type = value_types[type].array_name;
  pair->n_elements = count;
  pair->shortened = n_shown < count;
  keep_text(parser, text, pair);
  return skip_elements(parser, (ValueType)type, count - n_shown, error);
}

static gboolean parse_string(Parser *parser, BlTensorPairRow *pair, GError **error) {
  guint64 size;
  if (!take_length(parser, "a string", &size, error)) return FALSE;
  pair->value_size = (guint32)MIN(size, BL_PREVIEW_STRING);
  pair->shortened = pair->value_size < size;
  return keep_bytes(parser, "a string", size, pair->value_size, &pair->value_at, error);
}

static gboolean key_is(const Parser *parser, const BlTensorPairRow *pair, const char *key) {
  return pair->key_size == strlen(key) &&
         memcmp(parser->table->arena->data + pair->key_at, key, pair->key_size) == 0;
}

static gboolean set_alignment(Parser *parser, ValueType type, guint64 value, GError **error) {
  if (type != T_U32) return bl_error_set(error, BL_ERROR_CORRUPT, "must be a u32");
  if (value == 0 || (value & (value - 1)) != 0)
    return bl_error_set(error, BL_ERROR_CORRUPT, "%" G_GUINT64_FORMAT " is not a power of two",
                        value);
  parser->table->alignment = value;
  return TRUE;
}

static gboolean parse_value(Parser *parser, ValueType type, BlTensorPairRow *pair, GError **error) {
  gboolean is_alignment = key_is(parser, pair, ALIGNMENT_KEY);
  if (is_alignment && type != T_U32) return set_alignment(parser, type, 0, error);
  pair->type = value_types[type].name;
  pair->n_elements = 1;
  if (type == T_ARRAY) return parse_array(parser, pair, error);
  if (type == T_STRING) return parse_string(parser, pair, error);
  guint64 value;
  if (!take_uint(parser, "a value", value_types[type].size, &value, error)) return FALSE;
  if (is_alignment && !set_alignment(parser, type, value, error)) return FALSE;
  g_autoptr(GString) text = g_string_new(NULL);
  append_number(text, type, value);
  keep_text(parser, text, pair);
  return TRUE;
}

static gboolean parse_pair(Parser *parser, GError **error) {
  BlTensorPairRow pair = {0};
  guint64 size, type;
  if (!take_length(parser, "a key", &size, error)) return FALSE;
  if (size == 0 || size > KEY_SIZE_MAX)
    return bl_error_set(error, BL_ERROR_CORRUPT, "a key of %" G_GUINT64_FORMAT " bytes (1 to %d)",
                        size, KEY_SIZE_MAX);
  pair.key_size = (guint32)size;
  if (!keep_bytes(parser, "a key", size, (gsize)size, &pair.key_at, error)) return FALSE;
  gboolean ok = take_uint(parser, "a value's type", 4, &type, error);
  if (ok && type >= T_COUNT)
    ok = bl_error_set(error, BL_ERROR_CORRUPT,
                      "a value of type %" G_GUINT64_FORMAT ", which there is not", type);
  if (!ok || !parse_value(parser, (ValueType)type, &pair, error)) {
    g_autofree char *key =
        bl_name_display((char *)parser->table->arena->data + pair.key_at, pair.key_size);
    g_prefix_error(error, "key \"%s\": ", key);
    return FALSE;
  }
  if (key_is(parser, &pair, "general.architecture")) parser->has_architecture = TRUE;
  if (key_is(parser, &pair, "general.quantization_version"))
    parser->has_quantization_version = TRUE;
  g_array_append_val(parser->table->pairs, pair);
  return TRUE;
}

static gboolean parse_pairs(Parser *parser, guint64 n, GError **error) {
  for (guint64 i = 0; i < n; i++)
    if (!parse_pair(parser, error)) return FALSE;
  g_autofree char *twice = bl_tensor_table_unify_pairs(parser->table);
  if (twice == NULL) return TRUE;
  return bl_error_set(error, BL_ERROR_CORRUPT, "duplicate key: \"%s\" stands twice", twice);
}

static gboolean parse_shape(Parser *parser, BlTensorRow *row, guint64 *n_elements, guint64 *first,
                            GError **error) {
  guint64 n_dims, dim;
  *n_elements = *first = 1;
  if (!take_uint(parser, "a tensor", 4, &n_dims, error)) return FALSE;
  if (n_dims > DIMS_MAX)
    return bl_error_set(error, BL_ERROR_CORRUPT, "%" G_GUINT64_FORMAT " dimensions (at most %d)",
                        n_dims, DIMS_MAX);
  row->n_dims = (guint32)n_dims;
  row->shape_at = parser->table->arena->len;
  for (guint64 d = 0; d < n_dims; d++) {
    if (!take_uint(parser, "a tensor", 8, &dim, error)) return FALSE;
    if (dim > G_MAXINT64 || !g_uint64_checked_mul(n_elements, *n_elements, dim) ||
        *n_elements > G_MAXINT64)
      return bl_error_set(error, BL_ERROR_CORRUPT, "the number of elements overflows 63 bits");
    if (d == 0) *first = dim;
    bl_tensor_table_keep_dim(parser->table, dim);
  }
  return TRUE;
}

/* Sets the row's type and size. *known is FALSE for a type that is not in the table. */
static gboolean size_tensor(Parser *parser, guint64 type, guint64 n_elements, guint64 first,
                            BlTensorRow *row, gboolean *known, GError **error) {
  *known = type < G_N_ELEMENTS(tensor_types) && tensor_types[type].name != NULL;
  if (!*known) {
    g_autofree char *name = g_strdup_printf("type %" G_GUINT64_FORMAT, type);
    row->dtype = bl_tensor_table_dtype(parser->table, name, FALSE);
    return TRUE;
  }
  guint block = tensor_types[type].block;
  row->dtype = bl_tensor_table_dtype(parser->table, tensor_types[type].name, TRUE);
  if (block > 1) parser->quantized = TRUE;
  if (first % block != 0)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "rows of %" G_GUINT64_FORMAT " elements, %s has blocks of %u", first,
                        tensor_types[type].name, block);
  if (!g_uint64_checked_mul(&row->size, n_elements / block, tensor_types[type].size) ||
      row->size > G_MAXINT64)
    return bl_error_set(error, BL_ERROR_CORRUPT, "the number of bytes overflows 63 bits");
  return TRUE;
}

/* Tensors follow each other, each start rounded up to the alignment. After one of unknown size any
 * later start will do. */
static gboolean place_tensor(Parser *parser, const BlTensorRow *row, gboolean known,
                             gboolean *guess, GError **error) {
  guint64 alignment = parser->table->alignment, end, rounded;
  gboolean fits = *guess ? row->offset >= parser->next_offset && row->offset % alignment == 0
                         : row->offset == parser->next_offset;
  if (!fits)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "starts at byte %" G_GUINT64_FORMAT
                        " of the data, must at %s%" G_GUINT64_FORMAT,
                        row->offset, *guess ? "or after " : "", parser->next_offset);
  if (!g_uint64_checked_add(&end, row->offset, row->size) ||
      !g_uint64_checked_add(&rounded, end, alignment - 1))
    return bl_error_set(error, BL_ERROR_CORRUPT, "its end overflows 64 bits");
  parser->data_end = end;
  parser->next_offset = rounded - rounded % alignment;
  *guess = !known;
  return TRUE;
}

static gboolean parse_tensor(Parser *parser, gboolean *guess, GError **error) {
  BlTensorRow row = {0};
  guint64 size, type, n_elements, first;
  gboolean known;
  if (!take_length(parser, "a tensor's name", &size, error)) return FALSE;
  if (size > NAME_SIZE_MAX)
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "a tensor's name of %" G_GUINT64_FORMAT " bytes (at most %d)", size,
                        NAME_SIZE_MAX);
  row.name_size = (guint32)size;
  if (!keep_bytes(parser, "a tensor's name", size, (gsize)size, &row.name_at, error)) return FALSE;
  if (!parse_shape(parser, &row, &n_elements, &first, error) ||
      !take_uint(parser, "a tensor", 4, &type, error) ||
      !take_uint(parser, "a tensor", 8, &row.offset, error) ||
      !size_tensor(parser, type, n_elements, first, &row, &known, error) ||
      !place_tensor(parser, &row, known, guess, error)) {
    g_autofree char *name =
        bl_name_display((char *)parser->table->arena->data + row.name_at, row.name_size);
    g_prefix_error(error, "tensor \"%s\": ", name);
    return FALSE;
  }
  g_array_append_val(parser->table->rows, row);
  return TRUE;
}

static gboolean parse_tensors(Parser *parser, guint64 n, GError **error) {
  BlTensorTable *table = parser->table;
  guint64 start, end, alignment = table->alignment;
  gboolean guess = FALSE;
  for (guint64 i = 0; i < n; i++)
    if (!parse_tensor(parser, &guess, error)) return FALSE;
  if (!bl_tensor_table_index_names(table, error)) return FALSE;
  start = n > 0 ? (parser->pos + alignment - 1) / alignment * alignment : parser->pos;
  table->header_size = start;
  if (n == 0) return TRUE;
  if (!g_uint64_checked_add(&end, start, parser->data_end) || end > parser->source->size) {
    parser->cut_short = TRUE;
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "truncated: %" G_GUINT64_FORMAT
                        " bytes, the header promises %" G_GUINT64_FORMAT " (%" G_GUINT64_FORMAT
                        " of them data)",
                        parser->source->size, start + parser->data_end, parser->data_end);
  }
  for (guint i = 0; i < table->rows->len; i++)
    g_array_index(table->rows, BlTensorRow, i).offset += start;
  return TRUE;
}

static gboolean parse_version(Parser *parser, GError **error) {
  guint64 version;
  char magic[4];
  if (parser->source->size == 0) {
    parser->foreign = TRUE;
    return bl_error_set(error, BL_ERROR_CORRUPT, "the file is empty");
  }
  if (!take(parser, "the magic", magic, sizeof magic, error)) return FALSE;
  if (memcmp(magic, "GGUF", sizeof magic) != 0) {
    parser->foreign = TRUE;
    return bl_model_file_check_foreign(parser->source, BL_MODEL_FORMAT_GGUF, error) &&
           bl_error_set(error, BL_ERROR_CORRUPT,
                        "not a GGUF file: it does not begin with \"GGUF\"");
  }
  if (!take_uint(parser, "the version", 4, &version, error)) return FALSE;
  if (version == GUINT32_SWAP_LE_BE_CONSTANT(VERSION_MAX)) {
    parser->big_endian = TRUE;
    version = VERSION_MAX;
  }
  if (version == 0 || (version & 0xffff) == 0)
    return bl_error_set(error, BL_ERROR_CORRUPT, "there is no GGUF version %" G_GUINT64_FORMAT,
                        version);
  if (version == 1 || version > VERSION_MAX)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        "GGUF version %" G_GUINT64_FORMAT
                        " is not supported (2 and 3 are): convert the model again",
                        version);
  g_free(parser->table->version);
  parser->table->version =
      g_strdup_printf("%" G_GUINT64_FORMAT "%s", version, parser->big_endian ? ", big-endian" : "");
  return TRUE;
}

/* A number of things that take at least size_min bytes each. */
static gboolean take_count(Parser *parser, const char *what, guint64 size_min, guint64 max,
                           guint64 *n, GError **error) {
  if (!take_uint(parser, what, 8, n, error)) return FALSE;
  if (*n > parser->source->size / size_min) {
    parser->cut_short = TRUE;
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "%" G_GUINT64_FORMAT " %s cannot be in a file of %" G_GUINT64_FORMAT
                        " bytes",
                        *n, what, parser->source->size);
  }
  if (*n <= max) return TRUE;
  return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                      "%" G_GUINT64_FORMAT " %s (at most %" G_GUINT64_FORMAT " are supported)", *n,
                      what, max);
}

static void add_notes(Parser *parser) {
  BlTensorTable *table = parser->table;
  guint64 data_end = table->header_size + parser->data_end, size = parser->source->size;
  if (!parser->has_architecture)
    bl_tensor_table_add_note(table, "general.architecture is missing: readers may refuse the file");
  if (parser->quantized && !parser->has_quantization_version)
    bl_tensor_table_add_note(table,
                             "general.quantization_version is missing beside quantized tensors");
  if (size > data_end && size - data_end >= MAX(table->alignment, 2))
    bl_tensor_table_add_note(table, "%" G_GUINT64_FORMAT " bytes follow the last tensor",
                             size - data_end);
}

static gboolean parse(Parser *parser, GError **error) {
  guint64 n_tensors, n_pairs;
  parser->table->alignment = ALIGNMENT_DEFAULT;
  if (!parse_version(parser, error) ||
      !take_count(parser, "tensors", TENSOR_SIZE_MIN, BL_GGUF_TENSORS_MAX, &n_tensors, error) ||
      !take_count(parser, "keys", PAIR_SIZE_MIN, BL_GGUF_PAIRS_MAX, &n_pairs, error) ||
      !parse_pairs(parser, n_pairs, error) || !parse_tensors(parser, n_tensors, error))
    return FALSE;
  add_notes(parser);
  bl_tensor_table_sum(parser->table);
  return TRUE;
}

/* The parser afterwards tells what kind of error there was. */
static BlTensorTable *read_table(const BlByteSource *source, Parser *parser, GError **error) {
  g_autoptr(BlTensorTable) table = bl_tensor_table_new(BL_MODEL_FORMAT_GGUF);
  g_autofree guint8 *window = g_malloc(WINDOW_SIZE);
  *parser = (Parser){.source = source, .table = table, .window = window};
  return parse(parser, error) ? g_steal_pointer(&table) : NULL;
}

BlTensorTable *bl_gguf_read(const BlByteSource *source, const char *what, GError **error) {
  Parser parser;
  BlTensorTable *table = read_table(source, &parser, error);
  if (table == NULL) g_prefix_error(error, "%s: ", what);
  return table;
}

gboolean bl_gguf_check_length(const BlByteSource *source, const char *what, GError **error) {
  Parser parser;
  g_autoptr(GError) failure = NULL;
  g_autoptr(BlTensorTable) table = read_table(source, &parser, &failure);
  if (table != NULL) return TRUE;
  gboolean is_verdict = g_error_matches(failure, BL_ERROR, BL_ERROR_CORRUPT) ||
                        g_error_matches(failure, BL_ERROR, BL_ERROR_UNSUPPORTED);
  if (is_verdict && !parser.cut_short && !parser.foreign) return TRUE;
  g_propagate_prefixed_error(error, g_steal_pointer(&failure), "%s: ", what);
  return FALSE;
}
