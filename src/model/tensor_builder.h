/* How a format's reader fills a BlTensorTable. Only safetensors.c, gguf.c and tensors.c include
 * this. */
#pragma once
#include "model/tensors.h"

/* 40 bytes a tensor: two million fit the largest safetensors header. */
typedef struct {
  guint64 offset, size;
  guint32 name_at, name_size; /* in the arena */
  guint32 shape_at,
      n_dims;    /* in the arena, as base-128 numbers: never longer than their decimal text */
  guint16 dtype; /* index in dtypes */
} BlTensorRow;

typedef struct {
  guint32 key_at, key_size, value_at, value_size; /* in the arena */
  guint64 n_elements;
  const char *type; /* static */
  gboolean shortened;
} BlTensorPairRow;

typedef struct {
  char *name;
  gboolean known;
  guint64 n_tensors, n_elements, n_bytes;
} BlTensorDtype;

struct BlTensorTable {
  BlModelFormat format;
  char *version;
  guint64 header_size, alignment;
  GByteArray *arena; /* names, shapes, metadata, each once */
  GArray *rows;      /* of BlTensorRow */
  GArray *pairs;     /* of BlTensorPairRow */
  GArray *dtypes;    /* of BlTensorDtype */
  GPtrArray *notes;  /* of char* */
  guint32 *by_name;  /* row numbers sorted by name */
};

BlTensorTable *bl_tensor_table_new(BlModelFormat format);
/* Keeps bytes in the arena; gives where. Headers are bounded so that the arena stays below 4 GiB.
 */
guint32 bl_tensor_table_keep(BlTensorTable *table, const void *bytes, gsize size);
void bl_tensor_table_keep_dim(BlTensorTable *table, guint64 dim);
/* The number of the dtype of this name; added where it is new. At most BL_UNKNOWN_DTYPES_MAX
 * unknown ones are told apart. */
#define BL_UNKNOWN_DTYPES_MAX 32
guint16 bl_tensor_table_dtype(BlTensorTable *table, const char *name, gboolean known);
void bl_tensor_table_add_note(BlTensorTable *table, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The numbers of all rows in order; compare is given pointers to two numbers and the table. Equal
 * rows stay in the header's order. Caller frees. */
guint32 *bl_tensor_table_sort(BlTensorTable *table, GCompareDataFunc compare);
/* Sorts the names. FALSE with CORRUPT ("duplicate key …") where two tensors have one. */
gboolean bl_tensor_table_index_names(BlTensorTable *table, GError **error);
/* Of pairs with one key only the last stays. Gives such a key for a message, NULL where there is
 * none. Caller frees. */
char *bl_tensor_table_unify_pairs(BlTensorTable *table);
/* Adds each row to its dtype's totals. */
void bl_tensor_table_sum(BlTensorTable *table);
/* Row i's name for a message. Caller frees. */
char *bl_tensor_table_row_display(const BlTensorTable *table, guint64 i);
