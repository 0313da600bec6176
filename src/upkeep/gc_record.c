#include "upkeep/gc_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/json_reader.h"
#include "model/key.h"
#include "model/object.h"

#define SCHEMA 1u
/* Room for unknown members of later versions. */
#define MAX_DEPTH 32
#define MAX_STRING 1024
#define WHAT "the record of gc"

enum { R_CANDIDATES, R_SCHEMA_VERSION, N_MEMBERS };
static const char *const member_names[N_MEMBERS] = {"candidates", "schema_version"};

typedef struct {
  guint8 identity[BL_IDENTITY_SIZE];
  gint64 since; /* Unix seconds */
} Entry;

struct BlGcRecord {
  GArray *entries; /* of Entry; sorted once loaded or saved */
};

BlGcRecord *bl_gc_record_new(void) {
  BlGcRecord *record = g_new0(BlGcRecord, 1);
  record->entries = g_array_new(FALSE, FALSE, sizeof(Entry));
  return record;
}

void bl_gc_record_free(BlGcRecord *record) {
  if (record == NULL) return;
  g_array_free(record->entries, TRUE);
  g_free(record);
}

static int compare_entries(const void *a, const void *b) {
  return memcmp(((const Entry *)a)->identity, ((const Entry *)b)->identity, BL_IDENTITY_SIZE);
}

static void sort(BlGcRecord *record) {
  if (record->entries->len > 0)
    qsort(record->entries->data, record->entries->len, sizeof(Entry), compare_entries);
}

gint64 bl_gc_record_find(const BlGcRecord *record, const guint8 identity[BL_IDENTITY_SIZE]) {
  Entry wanted;
  if (record->entries->len == 0) return 0;
  memcpy(wanted.identity, identity, BL_IDENTITY_SIZE);
  const Entry *found =
      bsearch(&wanted, record->entries->data, record->entries->len, sizeof(Entry), compare_entries);
  return found != NULL ? found->since : 0;
}

gboolean bl_gc_record_add(BlGcRecord *record, const guint8 identity[BL_IDENTITY_SIZE],
                          gint64 since) {
  Entry entry = {.since = since};
  if (record->entries->len >= BL_GC_RECORD_MAX) return FALSE;
  memcpy(entry.identity, identity, BL_IDENTITY_SIZE);
  g_array_append_val(record->entries, entry);
  return TRUE;
}

static gboolean read_candidates(BlGcRecord *record, BlJsonReader *reader, GError **error) {
  BlJsonToken token;
  if (!bl_json_reader_expect(reader, BL_JSON_OBJECT_START, "candidates", error)) return FALSE;
  for (;;) {
    guint8 identity[BL_IDENTITY_SIZE];
    guint64 since;
    gsize size;
    if (!bl_json_reader_next(reader, &token, error)) return FALSE;
    if (token == BL_JSON_OBJECT_END) return TRUE;
    const char *hex = bl_json_reader_text(reader, &size);
    if (!bl_hex_decode(hex, size, identity, sizeof identity))
      return bl_error_set(error, BL_ERROR_CORRUPT,
                          WHAT ": a candidate's name is not %d digits of lower-case hex",
                          2 * BL_IDENTITY_SIZE);
    if (!bl_json_reader_read_uint64(reader, "candidates", &since, error)) return FALSE;
    if (since > G_MAXINT64 || !bl_gc_record_add(record, identity, (gint64)since))
      return bl_error_set(error, BL_ERROR_CORRUPT, WHAT ": too large");
  }
}

static gboolean read_document(BlGcRecord *record, BlJsonReader *reader, GError **error) {
  guint seen = 0;
  guint64 schema = 0;
  int member;
  BlJsonToken token;
  if (!bl_json_reader_expect(reader, BL_JSON_OBJECT_START, "candidates", error)) return FALSE;
  while ((member = bl_json_reader_next_member(reader, member_names, N_MEMBERS, &seen, NULL,
                                              error)) != N_MEMBERS) {
    gboolean ok = member == R_CANDIDATES ? read_candidates(record, reader, error)
                  : member == R_SCHEMA_VERSION
                      ? bl_json_reader_read_uint64(reader, "schema_version", &schema, error)
                      : FALSE;
    if (!ok) return FALSE;
  }
  if (!bl_json_reader_next(reader, &token, error)) return FALSE;
  if (schema > SCHEMA)
    return bl_error_set(error, BL_ERROR_UNSUPPORTED,
                        WHAT ": schema %" G_GUINT64_FORMAT "; this version of ballast reads %u",
                        schema, SCHEMA);
  if (seen != (1u << N_MEMBERS) - 1 || schema != SCHEMA)
    return bl_error_set(error, BL_ERROR_CORRUPT, WHAT ": a member is missing");
  return TRUE;
}

static gboolean load(BlGcRecord *record, BlStore *store, GError **error) {
  g_autoptr(BlObjectInput) input = bl_object_input_open(store, BL_KEY_GC, error);
  if (input == NULL) return FALSE;
  g_autoptr(BlJsonReader) reader =
      bl_json_reader_new(bl_object_input_read, input, MAX_DEPTH, MAX_STRING, WHAT);
  return read_document(record, reader, error);
}

BlGcRecord *bl_gc_record_load(BlStore *store, BlJob *job, GError **error) {
  g_autoptr(BlGcRecord) record = bl_gc_record_new();
  g_autoptr(GError) fault = NULL;
  if (!load(record, store, &fault)) {
    gboolean is_absent = g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND);
    g_array_set_size(record->entries, 0);
    if (!is_absent && !bl_object_do_without(g_steal_pointer(&fault), job, error)) return NULL;
  }
  sort(record);
  return g_steal_pointer(&record);
}

static gboolean is_same(const BlGcRecord *a, const BlGcRecord *b) {
  return a->entries->len == b->entries->len &&
         (a->entries->len == 0 ||
          memcmp(a->entries->data, b->entries->data, a->entries->len * sizeof(Entry)) == 0);
}

gboolean bl_gc_record_save(BlGcRecord *record, const BlGcRecord *old, BlStore *store,
                           GError **error) {
  G_STATIC_ASSERT(sizeof(Entry) == BL_IDENTITY_SIZE + sizeof(gint64));
  sort(record);
  if (is_same(record, old)) return TRUE;
  if (record->entries->len == 0) return bl_store_remove(store, BL_KEY_GC, error);
  g_autoptr(BlObjectOutput) output = bl_object_output_open(store, BL_KEY_GC, error);
  if (output == NULL) return FALSE;
  GString *out = bl_object_output_text(output);
  g_string_append(out, "{\"candidates\":{");
  for (guint i = 0; i < record->entries->len; i++) {
    const Entry *entry = &g_array_index(record->entries, Entry, i);
    char hex[2 * BL_IDENTITY_SIZE + 1];
    bl_hex_encode(entry->identity, BL_IDENTITY_SIZE, hex);
    g_string_append_printf(out, "%s\"%s\":%" G_GINT64_FORMAT, i > 0 ? "," : "", hex, entry->since);
    if (!bl_object_output_flush(output, error)) return FALSE;
  }
  g_string_append_printf(out, "},\"schema_version\":%u}", SCHEMA);
  return bl_object_output_commit(output, NULL, error);
}
