/* A model file's header, read through any byte source: the table of its tensors.
 *
 * Rows are packed; names may be empty or hold NUL and are never C strings or paths. Formats:
 * safetensors.h, gguf.h. */
#pragma once
#include <glib.h>

/* Random reads of something with a length: a plain file, or a checkpoint's file in a store. */
typedef struct {
  guint64 size; /* bytes */
  /* Exactly `size` bytes at offset, within the source's length. */
  gboolean (*read)(gpointer user, guint64 offset, void *data, gsize size, GError **error);
  gpointer user;
} BlByteSource;
/* A source over a descriptor, which it borrows. */
gboolean bl_byte_source_from_fd(BlByteSource *source, int fd, GError **error);
/* Closes the descriptor of such a source: for owners that keep it nowhere else. */
void bl_byte_source_close_fd(BlByteSource *source);

typedef enum {
  BL_MODEL_FORMAT_NONE,
  BL_MODEL_FORMAT_SAFETENSORS,
  BL_MODEL_FORMAT_GGUF
} BlModelFormat;
/* By the file's name: ".safetensors" and ".gguf", letter case ignored. */
BlModelFormat bl_model_format_from_path(const char *path);
/* "safetensors" or "GGUF". */
const char *bl_model_format_name(BlModelFormat format);

/* The table of a header. Everything that its functions give is borrowed and lives as long as it
 * does. */
typedef struct BlTensorTable BlTensorTable;

/* Reads the header of a file of this format, as bl_safetensors_read_any and bl_gguf_read do: a
 * table that names dtypes which this version does not know is returned (bl_tensor_table_check_known
 * tells). `what` names the file in messages. */
BlTensorTable *bl_tensor_table_read(const BlByteSource *source, BlModelFormat format,
                                    const char *what, GError **error);
void bl_tensor_table_free(BlTensorTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlTensorTable, bl_tensor_table_free)

BlModelFormat bl_tensor_table_format(const BlTensorTable *table);
/* "3" or "3, big-endian" for GGUF; "" for safetensors, which has none. */
const char *bl_tensor_table_version(const BlTensorTable *table);
/* Bytes before the data, padding included. */
guint64 bl_tensor_table_header_size(const BlTensorTable *table);
/* Bytes that each tensor's start is a multiple of; 1 for safetensors, which promises nothing. */
guint64 bl_tensor_table_alignment(const BlTensorTable *table);
/* Elements of all tensors; G_MAXUINT64 where the sum is larger. */
guint64 bl_tensor_table_n_parameters(const BlTensorTable *table);
/* Bytes of all tensors whose size is known. */
guint64 bl_tensor_table_n_bytes(const BlTensorTable *table);
/* What a reader should know though nothing is wrong, each one line. */
guint bl_tensor_table_n_notes(const BlTensorTable *table);
const char *bl_tensor_table_note(const BlTensorTable *table, guint i);

typedef struct {
  const char *name; /* UTF-8 in safetensors, any bytes in GGUF; see bl_name_display */
  gsize name_size;
  const char *dtype; /* as its format calls it; of an unknown one what the file has, shortened, or
                        "type 77" */
  guint n_dims;
  const guint8 *shape; /* for bl_tensor_shape_next */
  guint64 n_elements;
  guint64 offset;      /* of the first byte, in the file */
  guint64 size;        /* bytes; 0 where size_known is FALSE */
  gboolean size_known; /* FALSE in GGUF for a type that this version does not know */
} BlTensor;

/* Tensors are numbered as the header lists them. */
guint64 bl_tensor_table_n_tensors(const BlTensorTable *table);
void bl_tensor_table_get(const BlTensorTable *table, guint64 i, BlTensor *tensor);
/* FALSE where no tensor has this name. *i may be NULL. */
gboolean bl_tensor_table_find(const BlTensorTable *table, const char *name, gsize name_size,
                              guint64 *i);
/* The next dimension; called n_dims times with a pointer that starts as tensor.shape. The order is
 * the file's: slowest first in safetensors, fastest first in GGUF. */
guint64 bl_tensor_shape_next(const guint8 **shape);

typedef struct {
  const char *key, *value; /* value: of a number or an array its text, of a string its bytes; at
                              most BL_PREVIEW_STRING bytes in GGUF, all of it in safetensors */
  gsize key_size, value_size;
  const char *type;   /* "string", "u32", "array of f32", … */
  guint64 n_elements; /* of an array, else 1 */
  gboolean shortened; /* value is not all of it */
} BlTensorPair;

/* Bytes of a GGUF string that a pair keeps, and elements of an array. */
#define BL_PREVIEW_STRING 4096
#define BL_PREVIEW_ELEMENTS 10

guint64 bl_tensor_table_n_pairs(const BlTensorTable *table);
void bl_tensor_table_get_pair(const BlTensorTable *table, guint64 i, BlTensorPair *pair);

typedef struct {
  const char *name;
  gboolean known;
  guint64 n_tensors, n_elements, n_bytes; /* n_elements as in bl_tensor_table_n_parameters */
} BlTensorDtypeTotal;

/* The dtypes that the file uses, in order of first use. */
guint bl_tensor_table_n_dtypes(const BlTensorTable *table);
void bl_tensor_table_get_dtype(const BlTensorTable *table, guint i, BlTensorDtypeTotal *total);
/* FALSE with UNSUPPORTED, listing the dtypes, where the file uses one that this version does not
 * know. */
gboolean bl_tensor_table_check_known(const BlTensorTable *table, const char *what, GError **error);

/* A name of any bytes as it may stand in a message or on a terminal (bl_path_display's escapes, NUL
 * as \x00), cut at 200 bytes with "…". Caller frees. */
char *bl_name_display(const char *name, gsize size);

/* What a file of this name cannot be, quickly and without judging more: FALSE with CORRUPT where it
 * is empty, a Git LFS pointer, a pickle, a zip archive, a web page or another format's file, or
 * ends before what its header promises. A header that breaks other rules passes: moving such a file
 * needs no verdict on it. TRUE for a path of another kind. */
gboolean bl_model_file_sniff(const BlByteSource *source, const char *path, GError **error);
/* The part of it that looks at the first bytes only: FALSE with CORRUPT where they are those of
 * another kind of file. */
gboolean bl_model_file_check_foreign(const BlByteSource *source, BlModelFormat format,
                                     GError **error);
