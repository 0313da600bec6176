#include "cli/tensor_report.h"

#include <string.h>

#include "base/path.h"
#include "cli/output.h"

/* Pairs of a header that are shown without -v. */
#define MAX_PAIRS 12
/* Bytes of a pair's value that are shown without -v. */
#define MAX_VALUE 60

static void file_clear(gpointer data) {
  BlTensorReportFile *file = data;
  g_free(file->path);
  bl_tensor_table_free(file->table);
  g_clear_error(&file->error);
}

BlTensorReport *bl_tensor_report_new(void) {
  BlTensorReport *report = g_new0(BlTensorReport, 1);
  report->files_array = g_array_new(FALSE, TRUE, sizeof(BlTensorReportFile));
  g_array_set_clear_func(report->files_array, file_clear);
  report->dtypes = g_array_new(FALSE, TRUE, sizeof(BlTensorDtypeTotal));
  return report;
}

void bl_tensor_report_free(BlTensorReport *report) {
  if (report == NULL) return;
  g_array_unref(report->files_array);
  g_array_unref(report->dtypes);
  bl_layout_result_free(report->layout);
  g_free(report);
}

/* Sums of files come from outside and stop at the largest number. */
static void add_saturated(guint64 *sum, guint64 value) {
  if (!g_uint64_checked_add(sum, *sum, value)) *sum = G_MAXUINT64;
}

static BlTensorDtypeTotal *dtype_total(BlTensorReport *report, const BlTensorDtypeTotal *wanted) {
  GArray *dtypes = report->dtypes;
  for (guint i = 0; i < dtypes->len; i++) {
    BlTensorDtypeTotal *total = &g_array_index(dtypes, BlTensorDtypeTotal, i);
    if (total->known == wanted->known && g_str_equal(total->name, wanted->name)) return total;
  }
  BlTensorDtypeTotal fresh = {.name = wanted->name, .known = wanted->known};
  g_array_append_val(dtypes, fresh);
  return &g_array_index(dtypes, BlTensorDtypeTotal, dtypes->len - 1);
}

static void add_totals(BlTensorReport *report, const BlTensorTable *table) {
  add_saturated(&report->n_tensors, bl_tensor_table_n_tensors(table));
  add_saturated(&report->n_parameters, bl_tensor_table_n_parameters(table));
  for (guint i = 0; i < bl_tensor_table_n_dtypes(table); i++) {
    BlTensorDtypeTotal of_file;
    bl_tensor_table_get_dtype(table, i, &of_file);
    BlTensorDtypeTotal *total = dtype_total(report, &of_file);
    add_saturated(&total->n_tensors, of_file.n_tensors);
    add_saturated(&total->n_elements, of_file.n_elements);
    add_saturated(&total->n_bytes, of_file.n_bytes);
  }
}

void bl_tensor_report_add(BlTensorReport *report, const BlByteSource *source, const char *path) {
  BlTensorReportFile file = {.path = g_strdup(path), .size = source->size};
  g_autofree char *shown = bl_path_display(path);
  if (bl_model_file_sniff(source, path, &file.error))
    file.table = bl_tensor_table_read(source, bl_model_format_from_path(path), shown, &file.error);
  if (file.table != NULL) {
    bl_tensor_table_check_known(file.table, shown, &file.error);
    add_totals(report, file.table);
  }
  g_array_append_val(report->files_array, file);
  report->files = (BlTensorReportFile *)(gpointer)report->files_array->data;
  report->n_files = report->files_array->len;
}

/* A file that is gone or lost is the layout's to report. */
static gboolean add_of_set(BlTensorReport *report, const BlLayoutInput *input, guint64 i,
                           GError **error) {
  BlByteSource source;
  g_autoptr(GError) fault = NULL;
  if (input->open(input->user, i, &source, &fault)) {
    bl_tensor_report_add(report, &source, input->files[i].path);
    input->close(input->user, &source);
    return TRUE;
  }
  BlErrorCode code = bl_error_code(fault);
  if (code == BL_ERROR_NOT_FOUND || code == BL_ERROR_CORRUPT) return TRUE;
  g_propagate_error(error, g_steal_pointer(&fault));
  return FALSE;
}

gboolean bl_tensor_report_add_set(BlTensorReport *report, const BlLayoutInput *input, BlJob *job,
                                  GError **error) {
  for (guint64 i = 0; i < input->n_files; i++) {
    if (bl_model_format_from_path(input->files[i].path) == BL_MODEL_FORMAT_NONE) continue;
    if (!bl_job_check(job, error) || !add_of_set(report, input, i, error)) return FALSE;
  }
  report->layout = bl_layout_check(input, TRUE, error);
  return report->layout != NULL;
}

int bl_tensor_report_exit_code(const BlTensorReport *report) {
  const BlLayoutResult *layout = report->layout;
  if (layout->n[BL_LAYOUT_ERROR] > 0) return bl_error_exit_code(BL_ERROR_CORRUPT);
  if (layout->n[BL_LAYOUT_UNSUPPORTED] > 0) return bl_error_exit_code(BL_ERROR_UNSUPPORTED);
  return 0;
}

const char *bl_layout_level_name(BlLayoutLevel level) {
  static const char *const names[] = {[BL_LAYOUT_ERROR] = "error",
                                      [BL_LAYOUT_UNSUPPORTED] = "unsupported",
                                      [BL_LAYOUT_WARNING] = "warning"};
  return names[level];
}

static char *shape_text(const BlTensor *tensor) {
  GString *text = g_string_new("[");
  const guint8 *shape = tensor->shape;
  for (guint d = 0; d < tensor->n_dims; d++)
    g_string_append_printf(text, "%s%" G_GUINT64_FORMAT, d > 0 ? ", " : "",
                           bl_tensor_shape_next(&shape));
  g_string_append_c(text, ']');
  return g_string_free(text, FALSE);
}

/* The i-th tensor over all files. */
static const BlTensorReportFile *find_tensor(const BlTensorReport *report, guint64 i,
                                             BlTensor *tensor) {
  for (guint f = 0; f < report->n_files; f++) {
    const BlTensorReportFile *file = &report->files[f];
    guint64 n = file->table != NULL ? bl_tensor_table_n_tensors(file->table) : 0;
    if (i < n) {
      bl_tensor_table_get(file->table, i, tensor);
      return file;
    }
    i -= n;
  }
  return NULL;
}

/* The first five columns; gives the tensor's file. */
static const BlTensorReportFile *fill_tensor_cells(const BlTensorReport *report, guint64 i,
                                                   char **cells) {
  BlTensor tensor;
  BlSizeText size;
  const BlTensorReportFile *file = find_tensor(report, i, &tensor);
  g_assert(file != NULL);
  cells[0] = bl_name_display(tensor.name, tensor.name_size);
  cells[1] = bl_path_display(tensor.dtype);
  cells[2] = shape_text(&tensor);
  cells[3] = g_strdup_printf("%" G_GUINT64_FORMAT, tensor.offset);
  cells[4] = g_strdup(tensor.size_known ? bl_size_format(size, tensor.size) : "?");
  return file;
}

static void fill_tensor_row(guint64 i, char **cells, gconstpointer user) {
  fill_tensor_cells(user, i, cells);
}

static void fill_tensor_and_file_row(guint64 i, char **cells, gconstpointer user) {
  cells[5] = bl_path_display(fill_tensor_cells(user, i, cells)->path);
}

static void fill_dtype_row(guint64 i, char **cells, gconstpointer user) {
  const BlTensorReport *report = user;
  const BlTensorDtypeTotal *total = &g_array_index(report->dtypes, BlTensorDtypeTotal, i);
  BlSizeText count, size;
  cells[0] = bl_path_display(total->name);
  cells[1] = g_strdup_printf("%" G_GUINT64_FORMAT, total->n_tensors);
  cells[2] = g_strdup(bl_count_format(count, total->n_elements));
  cells[3] = g_strdup(total->known ? bl_size_format(size, total->n_bytes) : "unknown");
}

static void fill_file_row(guint64 i, char **cells, gconstpointer user) {
  const BlTensorReport *report = user;
  const BlTensorReportFile *file = &report->files[i];
  BlSizeText size, count;
  cells[0] = bl_path_display(file->path);
  cells[1] = g_strdup(bl_model_format_name(bl_model_format_from_path(file->path)));
  cells[4] = g_strdup(bl_size_format(size, file->size));
  if (file->table == NULL) {
    cells[2] = g_strdup("-");
    cells[3] = g_strdup("-");
    return;
  }
  cells[2] = g_strdup_printf("%" G_GUINT64_FORMAT, bl_tensor_table_n_tensors(file->table));
  cells[3] = g_strdup(bl_count_format(count, bl_tensor_table_n_parameters(file->table)));
}

static void print_remarks(const BlTensorReport *report) {
  for (guint i = 0; i < report->n_files; i++) {
    const BlTensorReportFile *file = &report->files[i];
    for (guint n = 0; file->table != NULL && n < bl_tensor_table_n_notes(file->table); n++) {
      g_autofree char *shown = bl_path_display(file->path);
      bl_out_line("note: %s: %s", shown, bl_tensor_table_note(file->table, n));
    }
  }
  guint n_findings = report->layout != NULL ? report->layout->findings->len : 0;
  if (n_findings > 0) bl_out_line("%s", "");
  for (guint i = 0; i < n_findings; i++) {
    const BlLayoutFinding *finding = report->layout->findings->pdata[i];
    bl_out_line("%s: %s", bl_layout_level_name(finding->level), finding->text);
  }
}

void bl_tensor_report_print(const BlTensorReport *report, gboolean by_file, gboolean by_tensor) {
  static const char *const dtype_headings[] = {"DTYPE", ">TENSORS", ">PARAMETERS", ">SIZE"};
  static const char *const file_headings[] = {"MODEL FILE", "FORMAT", ">TENSORS", ">PARAMETERS",
                                              ">SIZE"};
  static const char *const tensor_headings[] = {"TENSOR",  "DTYPE", "SHAPE",
                                                ">OFFSET", ">SIZE", "FILE"};
  if (by_file && report->n_files > 0) {
    bl_out_line("%s", "");
    bl_out_table(file_headings, G_N_ELEMENTS(file_headings), report->n_files, fill_file_row,
                 report);
  }
  if (report->dtypes->len > 0) {
    bl_out_line("%s", "");
    bl_out_table(dtype_headings, G_N_ELEMENTS(dtype_headings), report->dtypes->len, fill_dtype_row,
                 report);
  }
  if (by_tensor && report->n_tensors > 0) {
    bl_out_line("%s", "");
    /* One file needs no column that names it. */
    gboolean is_one = report->n_files == 1;
    bl_out_table(tensor_headings, G_N_ELEMENTS(tensor_headings) - is_one, report->n_tensors,
                 is_one ? fill_tensor_row : fill_tensor_and_file_row, report);
  }
  print_remarks(report);
}

void bl_tensor_report_print_pairs(BlCli *cli, const BlTensorTable *table) {
  guint64 n = bl_tensor_table_n_pairs(table);
  guint64 n_shown = cli->verbose ? n : MIN(n, MAX_PAIRS);
  for (guint64 i = 0; i < n_shown; i++) {
    BlTensorPair pair;
    bl_tensor_table_get_pair(table, i, &pair);
    gboolean is_cut = !cli->verbose && pair.value_size > MAX_VALUE;
    g_autofree char *key = bl_name_display(pair.key, pair.key_size);
    g_autofree char *value = bl_name_display(pair.value, is_cut ? MAX_VALUE : pair.value_size);
    bl_out_fieldf("metadata", "%s = %s%s", key, value, is_cut || pair.shortened ? " …" : "");
  }
  if (n_shown < n)
    bl_out_fieldf("metadata", "%" G_GUINT64_FORMAT " more (-v shows them)", n - n_shown);
}
