/* What inspect says of model files: their headers, the tensors, totals by dtype, what is wrong. */
#pragma once
#include "cli/command.h"
#include "model/layout.h"

typedef struct {
  char *path;           /* as it was named */
  guint64 size;         /* bytes */
  BlTensorTable *table; /* NULL where the header cannot be read */
  GError *error;        /* why not, or which dtypes are not known; NULL: all right */
} BlTensorReportFile;

typedef struct {
  BlTensorReportFile *files;
  guint n_files;
  guint64 n_tensors, n_parameters;
  BlLayoutResult *layout;       /* of a set of files: what is wrong with it; else NULL */
  GArray *files_array, *dtypes; /* private */
} BlTensorReport;

BlTensorReport *bl_tensor_report_new(void);
void bl_tensor_report_free(BlTensorReport *report);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlTensorReport, bl_tensor_report_free)

/* Reads the header of a file whose name is that of a model file; what is wrong with it is kept, not
 * returned. */
void bl_tensor_report_add(BlTensorReport *report, const BlByteSource *source, const char *path);
/* Adds every model file of a set, and judges them together. FALSE where they could not be read. */
gboolean bl_tensor_report_add_set(BlTensorReport *report, const BlLayoutInput *input, BlJob *job,
                                  GError **error);
/* Of a set: 0, or the exit code of its worst finding: damaged before unknown. */
int bl_tensor_report_exit_code(const BlTensorReport *report);

/* For people: notes, totals by dtype, findings of a set; the files where `by_file`; each tensor
 * where `by_tensor`. */
void bl_tensor_report_print(const BlTensorReport *report, gboolean by_file, gboolean by_tensor);
/* One file's metadata: pairs of the header, the first ones unless -v. */
void bl_tensor_report_print_pairs(BlCli *cli, const BlTensorTable *table);
/* The members "model_files", "findings", "n_tensors", "n_parameters", "dtypes" and, where
 * `by_tensor`, "tensors". */
void bl_tensor_report_print_json(const BlTensorReport *report, gboolean by_tensor);
/* The words of docs/json.md for a level: "error", "unsupported", "warning". */
const char *bl_layout_level_name(BlLayoutLevel level);
