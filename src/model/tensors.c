#include "model/tensors.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/tensor_builder.h"

#define DISPLAY_MAX 200

static gboolean read_fd(gpointer user, guint64 offset, void *data, gsize size, GError **error) {
  return bl_pread_all(GPOINTER_TO_INT(user), data, size, offset, error);
}

gboolean bl_byte_source_from_fd(BlByteSource *source, int fd, GError **error) {
  struct stat st;
  if (fstat(fd, &st) != 0) return bl_error_set_errno(error, errno, "look at a file");
  if (!S_ISREG(st.st_mode)) return bl_error_set(error, BL_ERROR_INVALID, "not a regular file");
  source->size = (guint64)st.st_size;
  source->read = read_fd;
  source->user = GINT_TO_POINTER(fd);
  return TRUE;
}

void bl_byte_source_close_fd(BlByteSource *source) {
  int fd = GPOINTER_TO_INT(source->user);
  bl_fd_clear(&fd);
}

static void dtype_clear(gpointer data) {
  g_free(((BlTensorDtype *)data)->name);
}

BlTensorTable *bl_tensor_table_new(BlModelFormat format) {
  BlTensorTable *table = g_new0(BlTensorTable, 1);
  table->format = format;
  table->version = g_strdup("");
  table->alignment = 1;
  table->arena = g_byte_array_sized_new(4096);
  table->rows = g_array_new(FALSE, FALSE, sizeof(BlTensorRow));
  table->pairs = g_array_new(FALSE, FALSE, sizeof(BlTensorPairRow));
  table->dtypes = g_array_new(FALSE, FALSE, sizeof(BlTensorDtype));
  g_array_set_clear_func(table->dtypes, dtype_clear);
  table->notes = g_ptr_array_new_with_free_func(g_free);
  return table;
}

void bl_tensor_table_free(BlTensorTable *table) {
  if (table == NULL) return;
  g_free(table->version);
  g_byte_array_unref(table->arena);
  g_array_unref(table->rows);
  g_array_unref(table->pairs);
  g_array_unref(table->dtypes);
  g_ptr_array_unref(table->notes);
  g_free(table->by_name);
  g_free(table);
}

guint32 bl_tensor_table_keep(BlTensorTable *table, const void *bytes, gsize size) {
  guint32 at = table->arena->len;
  g_assert(size < G_MAXUINT32 - at);
  if (size > 0) g_byte_array_append(table->arena, bytes, (guint)size);
  return at;
}

void bl_tensor_table_keep_dim(BlTensorTable *table, guint64 dim) {
  guint8 bytes[10];
  gsize n = 0;
  for (; dim >= 0x80; dim >>= 7) bytes[n++] = (guint8)(dim | 0x80);
  bytes[n++] = (guint8)dim;
  bl_tensor_table_keep(table, bytes, n);
}

guint64 bl_tensor_shape_next(const guint8 **shape) {
  guint64 dim = 0;
  for (guint shift = 0;; shift += 7) {
    guint8 byte = *(*shape)++;
    dim |= (guint64)(byte & 0x7f) << shift;
    if (byte < 0x80) return dim;
  }
}

static gboolean find_dtype(const BlTensorTable *table, const char *name, gboolean known,
                           guint16 *number) {
  for (guint i = 0; i < table->dtypes->len; i++) {
    const BlTensorDtype *dtype = &g_array_index(table->dtypes, BlTensorDtype, i);
    if (dtype->known != known || strcmp(dtype->name, name) != 0) continue;
    *number = (guint16)i;
    return TRUE;
  }
  return FALSE;
}

guint16 bl_tensor_table_dtype(BlTensorTable *table, const char *name, gboolean known) {
  static const char others[] = "(others)";
  guint16 number;
  guint n_unknown = 0;
  if (find_dtype(table, name, known, &number)) return number;
  for (guint i = 0; i < table->dtypes->len; i++)
    if (!g_array_index(table->dtypes, BlTensorDtype, i).known) n_unknown++;
  if (!known && n_unknown >= BL_UNKNOWN_DTYPES_MAX) {
    name = others;
    if (find_dtype(table, name, FALSE, &number)) return number;
  }
  BlTensorDtype dtype = {.name = g_strdup(name), .known = known};
  g_array_append_val(table->dtypes, dtype);
  return (guint16)(table->dtypes->len - 1);
}

void bl_tensor_table_add_note(BlTensorTable *table, const char *format, ...) {
  va_list args;
  va_start(args, format);
  g_ptr_array_add(table->notes, g_strdup_vprintf(format, args));
  va_end(args);
}

static int compare_bytes(const guint8 *a, gsize a_size, const guint8 *b, gsize b_size) {
  gsize n = MIN(a_size, b_size);
  int order = n > 0 ? memcmp(a, b, n) : 0;
  return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_names(gconstpointer a, gconstpointer b, gpointer user) {
  const BlTensorTable *table = user;
  const BlTensorRow *x = &g_array_index(table->rows, BlTensorRow, *(const guint32 *)a);
  const BlTensorRow *y = &g_array_index(table->rows, BlTensorRow, *(const guint32 *)b);
  const guint8 *arena = table->arena->data;
  return compare_bytes(arena + x->name_at, x->name_size, arena + y->name_at, y->name_size);
}

/* Numbers 0 to n-1 in the given order. Equal ones stay in theirs. */
static guint32 *sorted_numbers(gsize n, GCompareDataFunc compare, gpointer user) {
  guint32 *numbers = g_new(guint32, n);
  if (n == 0) return numbers;
  for (gsize i = 0; i < n; i++) numbers[i] = (guint32)i;
  g_qsort_with_data(numbers, (gint)n, sizeof *numbers, compare, user);
  return numbers;
}

guint32 *bl_tensor_table_sort(BlTensorTable *table, GCompareDataFunc compare) {
  return sorted_numbers(table->rows->len, compare, table);
}

gboolean bl_tensor_table_index_names(BlTensorTable *table, GError **error) {
  gsize n = table->rows->len;
  table->by_name = bl_tensor_table_sort(table, compare_names);
  for (gsize i = 1; i < n; i++) {
    if (compare_names(&table->by_name[i - 1], &table->by_name[i], table) != 0) continue;
    g_autofree char *name = bl_tensor_table_row_display(table, table->by_name[i]);
    return bl_error_set(error, BL_ERROR_CORRUPT,
                        "duplicate key: the header names tensor \"%s\" twice", name);
  }
  return TRUE;
}

static int compare_keys(gconstpointer a, gconstpointer b, gpointer user) {
  const BlTensorTable *table = user;
  const BlTensorPairRow *x = &g_array_index(table->pairs, BlTensorPairRow, *(const guint32 *)a);
  const BlTensorPairRow *y = &g_array_index(table->pairs, BlTensorPairRow, *(const guint32 *)b);
  const guint8 *arena = table->arena->data;
  return compare_bytes(arena + x->key_at, x->key_size, arena + y->key_at, y->key_size);
}

char *bl_tensor_table_unify_pairs(BlTensorTable *table) {
  gsize n = table->pairs->len, n_kept = 0;
  BlTensorPairRow *pairs = (BlTensorPairRow *)(void *)table->pairs->data;
  g_autofree guint32 *order = sorted_numbers(n, compare_keys, table);
  g_autofree guint8 *dropped = g_malloc0(n);
  char *duplicate = NULL;
  for (gsize i = 1; i < n; i++) {
    if (compare_keys(&order[i - 1], &order[i], table) != 0) continue;
    const BlTensorPairRow *pair = &pairs[order[i]];
    dropped[order[i - 1]] = TRUE;
    if (duplicate == NULL)
      duplicate = bl_name_display((char *)table->arena->data + pair->key_at, pair->key_size);
  }
  for (gsize i = 0; i < n; i++)
    if (!dropped[i]) pairs[n_kept++] = pairs[i];
  g_array_set_size(table->pairs, (guint)n_kept);
  return duplicate;
}

static guint64 add_capped(guint64 a, guint64 b) {
  guint64 sum;
  return g_uint64_checked_add(&sum, a, b) ? sum : G_MAXUINT64;
}

void bl_tensor_table_sum(BlTensorTable *table) {
  for (guint64 i = 0; i < table->rows->len; i++) {
    BlTensor tensor;
    bl_tensor_table_get(table, i, &tensor);
    guint16 number = g_array_index(table->rows, BlTensorRow, i).dtype;
    BlTensorDtype *dtype = &g_array_index(table->dtypes, BlTensorDtype, number);
    dtype->n_tensors++;
    dtype->n_elements = add_capped(dtype->n_elements, tensor.n_elements);
    dtype->n_bytes = add_capped(dtype->n_bytes, tensor.size);
  }
}

BlModelFormat bl_tensor_table_format(const BlTensorTable *table) {
  return table->format;
}

const char *bl_tensor_table_version(const BlTensorTable *table) {
  return table->version;
}

guint64 bl_tensor_table_header_size(const BlTensorTable *table) {
  return table->header_size;
}

guint64 bl_tensor_table_alignment(const BlTensorTable *table) {
  return table->alignment;
}

guint64 bl_tensor_table_n_parameters(const BlTensorTable *table) {
  guint64 sum = 0;
  for (guint i = 0; i < table->dtypes->len; i++)
    sum = add_capped(sum, g_array_index(table->dtypes, BlTensorDtype, i).n_elements);
  return sum;
}

guint64 bl_tensor_table_n_bytes(const BlTensorTable *table) {
  guint64 sum = 0;
  for (guint i = 0; i < table->dtypes->len; i++)
    sum = add_capped(sum, g_array_index(table->dtypes, BlTensorDtype, i).n_bytes);
  return sum;
}

guint bl_tensor_table_n_notes(const BlTensorTable *table) {
  return table->notes->len;
}

const char *bl_tensor_table_note(const BlTensorTable *table, guint i) {
  return g_ptr_array_index(table->notes, i);
}

guint64 bl_tensor_table_n_tensors(const BlTensorTable *table) {
  return table->rows->len;
}

void bl_tensor_table_get(const BlTensorTable *table, guint64 i, BlTensor *tensor) {
  const BlTensorRow *row = &g_array_index(table->rows, BlTensorRow, i);
  const BlTensorDtype *dtype = &g_array_index(table->dtypes, BlTensorDtype, row->dtype);
  const char *arena = (const char *)table->arena->data;
  *tensor = (BlTensor){.name = arena + row->name_at,
                       .name_size = row->name_size,
                       .dtype = dtype->name,
                       .n_dims = row->n_dims,
                       .shape = table->arena->data + row->shape_at,
                       .n_elements = 1,
                       .offset = row->offset,
                       .size = row->size,
                       .size_known = dtype->known || table->format != BL_MODEL_FORMAT_GGUF};
  const guint8 *shape = tensor->shape;
  /* The product was checked when the header was read. */
  for (guint d = 0; d < row->n_dims; d++) tensor->n_elements *= bl_tensor_shape_next(&shape);
}

gboolean bl_tensor_table_find(const BlTensorTable *table, const char *name, gsize name_size,
                              guint64 *i) {
  gsize low = 0, high = table->rows->len;
  while (low < high) {
    gsize middle = low + (high - low) / 2;
    const BlTensorRow *row = &g_array_index(table->rows, BlTensorRow, table->by_name[middle]);
    int order = compare_bytes((const guint8 *)name, name_size, table->arena->data + row->name_at,
                              row->name_size);
    if (order == 0) {
      if (i != NULL) *i = table->by_name[middle];
      return TRUE;
    }
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return FALSE;
}

guint64 bl_tensor_table_n_pairs(const BlTensorTable *table) {
  return table->pairs->len;
}

void bl_tensor_table_get_pair(const BlTensorTable *table, guint64 i, BlTensorPair *pair) {
  const BlTensorPairRow *row = &g_array_index(table->pairs, BlTensorPairRow, i);
  const char *arena = (const char *)table->arena->data;
  *pair = (BlTensorPair){.key = arena + row->key_at,
                         .key_size = row->key_size,
                         .value = arena + row->value_at,
                         .value_size = row->value_size,
                         .type = row->type,
                         .n_elements = row->n_elements,
                         .shortened = row->shortened};
}

guint bl_tensor_table_n_dtypes(const BlTensorTable *table) {
  return table->dtypes->len;
}

void bl_tensor_table_get_dtype(const BlTensorTable *table, guint i, BlTensorDtypeTotal *total) {
  const BlTensorDtype *dtype = &g_array_index(table->dtypes, BlTensorDtype, i);
  *total = (BlTensorDtypeTotal){dtype->name, dtype->known, dtype->n_tensors, dtype->n_elements,
                                dtype->n_bytes};
}

gboolean bl_tensor_table_check_known(const BlTensorTable *table, const char *what, GError **error) {
  g_autoptr(GString) names = g_string_new(NULL);
  for (guint i = 0; i < table->dtypes->len; i++) {
    const BlTensorDtype *dtype = &g_array_index(table->dtypes, BlTensorDtype, i);
    if (dtype->known) continue;
    g_string_append_printf(names, "%s\"%s\"", names->len > 0 ? ", " : "", dtype->name);
  }
  if (names->len == 0) return TRUE;
  return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                      "%s: dtypes that this version of ballast does not know: %s", what,
                      names->str);
}

char *bl_name_display(const char *name, gsize size) {
  g_autoptr(GString) out = g_string_new(NULL);
  gsize end = MIN(size, DISPLAY_MAX), pos = 0;
  while (end < size && end > 0 && ((guint8)name[end] & 0xc0) == 0x80) end--;
  while (pos < end) {
    g_autofree char *piece = g_strndup(name + pos, end - pos);
    g_autofree char *shown = bl_path_display(piece);
    g_string_append(out, shown);
    pos += strlen(piece);
    if (pos == end) break;
    g_string_append(out, "\\x00");
    pos++;
  }
  if (end < size) g_string_append(out, "…");
  return g_string_free(g_steal_pointer(&out), FALSE);
}

char *bl_tensor_table_row_display(const BlTensorTable *table, guint64 i) {
  const BlTensorRow *row = &g_array_index(table->rows, BlTensorRow, i);
  return bl_name_display((const char *)table->arena->data + row->name_at, row->name_size);
}
