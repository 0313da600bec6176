#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/path.h"
#include "cli/inspect.h"
#include "cli/output.h"
#include "cli/tensor_report.h"
#include "model/source.h"

gboolean bl_inspect_is_path(const char *text) {
  return text[0] == '/' || g_str_has_prefix(text, "./") || g_str_has_prefix(text, "../") ||
         g_str_equal(text, ".") || g_str_equal(text, "..");
}

static void print_file(BlCli *cli, const BlTensorReport *report, gboolean with_tensors) {
  const BlTensorReportFile *file = &report->files[0];
  const BlTensorTable *table = file->table;
  const char *version = bl_tensor_table_version(table);
  g_autofree char *path = bl_path_display(file->path);
  BlSizeText size, header, count;
  bl_out_field("file", path);
  bl_out_fieldf("format", "%s%s%s", bl_model_format_name(bl_tensor_table_format(table)),
                version[0] != '\0' ? " " : "", version);
  bl_out_fieldf("size", "%s (%" G_GUINT64_FORMAT " bytes)", bl_size_format(size, file->size),
                file->size);
  bl_out_field("header", bl_size_format(header, bl_tensor_table_header_size(table)));
  bl_out_fieldf("tensors", "%" G_GUINT64_FORMAT ", %s parameters", report->n_tensors,
                bl_count_format(count, report->n_parameters));
  bl_tensor_report_print_pairs(cli, table);
  bl_tensor_report_print(report, FALSE, with_tensors);
}

/* The verdict on one file is the command's: what is wrong is its error. */
static int inspect_file(BlCli *cli, int fd, const char *path, gboolean with_tensors,
                        GError **error) {
  if (bl_model_format_from_path(path) == BL_MODEL_FORMAT_NONE) {
    g_autofree char *shown = bl_path_display(path);
    bl_error_set(error, BL_ERROR_UNSUPPORTED,
                 "%s: not a file that inspect reads (*.safetensors, *.gguf)", shown);
    return -1;
  }
  BlByteSource source;
  if (!bl_byte_source_from_fd(&source, fd, error)) return -1;
  g_autoptr(BlTensorReport) report = bl_tensor_report_new();
  bl_tensor_report_add(report, &source, path);
  BlTensorReportFile *file = &report->files[0];
  gboolean is_shown = file->table != NULL && !(cli->json && file->error != NULL);
  if (is_shown && cli->json) {
    bl_out_json_open();
    bl_out_json_member("path", bl_json_text(path));
    bl_out_json_member("kind", json_string("file"));
    bl_tensor_report_print_json(report, with_tensors);
    bl_out_json_close(cli);
  } else if (is_shown) {
    print_file(cli, report, with_tensors);
  }
  if (file->error == NULL) return 0;
  g_propagate_error(error, g_steal_pointer(&file->error));
  return -1;
}

static gboolean open_file(gpointer user, guint64 i, BlByteSource *source, GError **error) {
  BlSourceState state;
  bl_autofd fd = bl_source_open_file(user, i, &state, error);
  if (fd < 0 || !bl_byte_source_from_fd(source, fd, error)) return FALSE;
  bl_fd_steal(&fd);
  return TRUE;
}

static void close_file(gpointer user, BlByteSource *source) {
  (void)user;
  bl_byte_source_close_fd(source);
}

static gboolean add_model_files(BlTensorReport *report, BlSource *folder, BlJob *job,
                                GError **error) {
  g_autofree BlLayoutFile *files = g_new(BlLayoutFile, folder->n_files);
  for (guint64 i = 0; i < folder->n_files; i++)
    files[i] = (BlLayoutFile){.path = folder->files[i].path, .size = folder->files[i].size};
  BlLayoutInput input = {.files = files,
                         .n_files = folder->n_files,
                         .open = open_file,
                         .close = close_file,
                         .user = folder};
  return bl_tensor_report_add_set(report, &input, job, error);
}

static void fill_file_row(guint64 i, char **cells, gconstpointer user) {
  const BlSource *folder = user;
  BlSizeText size;
  cells[0] = bl_path_display(folder->files[i].path);
  cells[1] = g_strdup(bl_size_format(size, folder->files[i].size));
}

static void print_folder(const BlSource *folder, const BlTensorReport *report, gboolean with_files,
                         gboolean with_tensors) {
  static const char *const headings[] = {"FILE", ">SIZE"};
  g_autofree char *root = bl_path_display(folder->root);
  g_autofree char *model = bl_path_display(folder->model_id);
  BlSizeText size, count;
  bl_out_field("folder", root);
  bl_out_field("model", model);
  bl_out_field("commit", folder->commit);
  bl_out_fieldf("files", "%" G_GUINT64_FORMAT ", %s", folder->n_files,
                bl_size_format(size, folder->n_bytes));
  bl_out_fieldf("tensors", "%" G_GUINT64_FORMAT ", %s parameters", report->n_tensors,
                bl_count_format(count, report->n_parameters));
  for (guint i = 0; i < folder->left_out->len; i++)
    bl_out_field("left out", folder->left_out->pdata[i]);
  if (with_files) {
    bl_out_line("%s", "");
    bl_out_table(headings, G_N_ELEMENTS(headings), folder->n_files, fill_file_row, folder);
  }
  bl_tensor_report_print(report, TRUE, with_tensors);
}

static void print_folder_json(BlCli *cli, const char *path, const BlSource *folder,
                              const BlTensorReport *report, gboolean with_files,
                              gboolean with_tensors) {
  bl_out_json_open();
  bl_out_json_member("path", bl_json_text(path));
  bl_out_json_member("kind", json_string("folder"));
  bl_out_json_member("model_id", bl_json_text(folder->model_id));
  bl_out_json_member("commit", bl_json_text(folder->commit));
  bl_out_json_member("n_files", bl_json_uint(folder->n_files));
  bl_out_json_member("n_bytes", bl_json_uint(folder->n_bytes));
  bl_out_json_member("left_out", bl_json_texts(folder->left_out));
  if (with_files) {
    bl_out_json_array_begin("files");
    for (guint64 i = 0; i < folder->n_files; i++) {
      json_t *json = json_object();
      json_object_set_new(json, "path", bl_json_text(folder->files[i].path));
      json_object_set_new(json, "size", bl_json_uint(folder->files[i].size));
      bl_out_json_array_add(json);
    }
    bl_out_json_array_end();
  }
  bl_tensor_report_print_json(report, with_tensors);
  bl_out_json_close(cli);
}

static int inspect_folder(BlCli *cli, const char *path, gboolean with_files, gboolean with_tensors,
                          GError **error) {
  BlSourceRequest request = {.path = path};
  g_autoptr(BlSource) folder = bl_source_open(&request, error);
  if (folder == NULL) return -1;
  g_autoptr(BlTensorReport) report = bl_tensor_report_new();
  bl_progress_start(&cli->progress, "inspect");
  gboolean done = add_model_files(report, folder, &cli->job, error);
  bl_progress_stop(&cli->progress);
  if (!done) return -1;
  if (cli->json)
    print_folder_json(cli, path, folder, report, with_files, with_tensors);
  else
    print_folder(folder, report, with_files, with_tensors);
  return bl_tensor_report_exit_code(report);
}

int bl_inspect_path(BlCli *cli, const char *path, gboolean with_files, gboolean with_tensors,
                    GError **error) {
  /* A pipe of that name is not waited for. */
  bl_autofd fd = bl_open_at(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0, "model", error);
  struct stat about;
  if (fd < 0) return -1;
  g_autofree char *shown = bl_path_display(path);
  if (fstat(fd, &about) != 0) {
    bl_error_set_errno(error, errno, "%s", shown);
    return -1;
  }
  if (S_ISDIR(about.st_mode)) return inspect_folder(cli, path, with_files, with_tensors, error);
  if (S_ISREG(about.st_mode)) return inspect_file(cli, fd, path, with_tensors, error);
  bl_error_set(error, BL_ERROR_INVALID, "%s is neither a file nor a folder", shown);
  return -1;
}
