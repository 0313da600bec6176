/* The reader gives the same tokens whether it has the document whole or in pieces. */
#include "base/json_reader.h"
#include "fuzz.h"

typedef struct {
  const guint8 *data;
  gsize size, pos, piece;
} Pieces;

static gssize pieces_read(gpointer user, void *data, gsize size, GError **error) {
  Pieces *pieces = user;
  (void)error;
  gsize n = MIN(MIN(size, pieces->piece), pieces->size - pieces->pos);
  if (n > 0) memcpy(data, pieces->data + pieces->pos, n);
  pieces->pos += n;
  return (gssize)n;
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size) {
  Pieces pieces = {data, size, 0, size % 7 + 1};
  g_autoptr(BlJsonReader) whole = bl_json_reader_new_from_memory(data, size, 16, 256, "doc");
  g_autoptr(BlJsonReader) parts = bl_json_reader_new(pieces_read, &pieces, 16, 256, "doc");
  for (BlJsonToken a = BL_JSON_NULL, b = BL_JSON_NULL; a != BL_JSON_END;) {
    g_autoptr(GError) whole_error = NULL, parts_error = NULL;
    gboolean more = bl_json_reader_next(whole, &a, &whole_error);
    FUZZ_CHECK(bl_json_reader_next(parts, &b, &parts_error) == more);
    if (!more) {
      FUZZ_CHECK(g_error_matches(whole_error, BL_ERROR, BL_ERROR_CORRUPT));
      FUZZ_CHECK(strcmp(whole_error->message, parts_error->message) == 0);
      return 0;
    }
    gsize a_size, b_size;
    const char *a_text = bl_json_reader_text(whole, &a_size);
    const char *b_text = bl_json_reader_text(parts, &b_size);
    FUZZ_CHECK(a == b && a_size == b_size && memcmp(a_text, b_text, a_size) == 0);
    FUZZ_CHECK(bl_json_reader_offset(whole) == bl_json_reader_offset(parts));
    FUZZ_CHECK(bl_json_reader_depth(whole) == bl_json_reader_depth(parts));
    FUZZ_CHECK(a != BL_JSON_STRING || memchr(a_text, '\0', a_size) != NULL ||
               g_utf8_validate(a_text, (gssize)a_size, NULL));
  }
  FUZZ_CHECK(bl_json_reader_depth(whole) == 0);
  return 0;
}
