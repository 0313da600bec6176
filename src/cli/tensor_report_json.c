/* The JSON half of tensor_report.h. */
#include "cli/output.h"
#include "cli/tensor_report.h"

/* Names of tensors are any bytes in GGUF: what is not UTF-8 is shown as it is shown to people. */
static json_t *name_json(const char *name, gsize size) {
  json_t *json = json_stringn(name, size); /* NULL for what is not UTF-8; a NUL is fine */
  if (json != NULL) return json;
  g_autofree char *shown = bl_name_display(name, size);
  return json_string(shown);
}

static json_t *shape_json(const BlTensor *tensor) {
  json_t *shape_array = json_array();
  const guint8 *shape = tensor->shape;
  for (guint d = 0; d < tensor->n_dims; d++)
    json_array_append_new(shape_array, bl_json_uint(bl_tensor_shape_next(&shape)));
  return shape_array;
}

static json_t *pairs_json(const BlTensorTable *table) {
  json_t *pairs = json_array();
  for (guint64 i = 0; i < bl_tensor_table_n_pairs(table); i++) {
    BlTensorPair pair;
    bl_tensor_table_get_pair(table, i, &pair);
    json_t *json = json_object();
    json_object_set_new(json, "key", name_json(pair.key, pair.key_size));
    json_object_set_new(json, "type", bl_json_text(pair.type));
    json_object_set_new(json, "value", name_json(pair.value, pair.value_size));
    json_object_set_new(json, "n_elements", bl_json_uint(pair.n_elements));
    json_object_set_new(json, "shortened", json_boolean(pair.shortened));
    json_array_append_new(pairs, json);
  }
  return pairs;
}

static json_t *notes_json(const BlTensorTable *table) {
  json_t *notes = json_array();
  for (guint i = 0; i < bl_tensor_table_n_notes(table); i++)
    json_array_append_new(notes, bl_json_text(bl_tensor_table_note(table, i)));
  return notes;
}

static json_t *file_json(const BlTensorReportFile *file) {
  json_t *json = json_object();
  json_object_set_new(json, "path", bl_json_text(file->path));
  json_object_set_new(json, "format",
                      json_string(bl_model_format_name(bl_model_format_from_path(file->path))));
  json_object_set_new(json, "size", bl_json_uint(file->size));
  if (file->table == NULL) return json;
  json_object_set_new(json, "version", bl_json_text(bl_tensor_table_version(file->table)));
  json_object_set_new(json, "header_size", bl_json_uint(bl_tensor_table_header_size(file->table)));
  json_object_set_new(json, "alignment", bl_json_uint(bl_tensor_table_alignment(file->table)));
  json_object_set_new(json, "n_tensors", bl_json_uint(bl_tensor_table_n_tensors(file->table)));
  json_object_set_new(json, "n_parameters",
                      bl_json_uint(bl_tensor_table_n_parameters(file->table)));
  json_object_set_new(json, "metadata", pairs_json(file->table));
  json_object_set_new(json, "notes", notes_json(file->table));
  return json;
}

static void add_finding(const BlLayoutFinding *finding) {
  json_t *json = json_object();
  json_object_set_new(json, "level", json_string(bl_layout_level_name(finding->level)));
  json_object_set_new(json, "path", bl_json_text(finding->path));
  json_object_set_new(json, "text", bl_json_text(finding->text));
  bl_out_json_array_add(json);
}

static void add_dtype(const BlTensorDtypeTotal *total) {
  json_t *json = json_object();
  json_object_set_new(json, "dtype", bl_json_text(total->name));
  json_object_set_new(json, "known", json_boolean(total->known));
  json_object_set_new(json, "n_tensors", bl_json_uint(total->n_tensors));
  json_object_set_new(json, "n_parameters", bl_json_uint(total->n_elements));
  json_object_set_new(json, "n_bytes", bl_json_uint(total->n_bytes));
  bl_out_json_array_add(json);
}

static void add_tensors(const BlTensorReportFile *file) {
  for (guint64 i = 0; file->table != NULL && i < bl_tensor_table_n_tensors(file->table); i++) {
    BlTensor tensor;
    bl_tensor_table_get(file->table, i, &tensor);
    json_t *json = json_object();
    json_object_set_new(json, "name", name_json(tensor.name, tensor.name_size));
    json_object_set_new(json, "dtype", bl_json_text(tensor.dtype));
    json_object_set_new(json, "shape", shape_json(&tensor));
    json_object_set_new(json, "file", bl_json_text(file->path));
    json_object_set_new(json, "offset", bl_json_uint(tensor.offset));
    json_object_set_new(json, "size", tensor.size_known ? bl_json_uint(tensor.size) : json_null());
    bl_out_json_array_add(json);
  }
}

void bl_tensor_report_print_json(const BlTensorReport *report, gboolean by_tensor) {
  bl_out_json_array_begin("model_files");
  for (guint i = 0; i < report->n_files; i++) bl_out_json_array_add(file_json(&report->files[i]));
  bl_out_json_array_end();
  bl_out_json_array_begin("findings");
  for (guint i = 0; report->layout != NULL && i < report->layout->findings->len; i++)
    add_finding(report->layout->findings->pdata[i]);
  bl_out_json_array_end();
  bl_out_json_member("n_tensors", bl_json_uint(report->n_tensors));
  bl_out_json_member("n_parameters", bl_json_uint(report->n_parameters));
  bl_out_json_array_begin("dtypes");
  for (guint i = 0; i < report->dtypes->len; i++)
    add_dtype(&g_array_index(report->dtypes, BlTensorDtypeTotal, i));
  bl_out_json_array_end();
  if (!by_tensor) return;
  bl_out_json_array_begin("tensors");
  for (guint i = 0; i < report->n_files; i++) add_tensors(&report->files[i]);
  bl_out_json_array_end();
}
