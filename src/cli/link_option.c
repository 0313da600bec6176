#include "cli/link_option.h"

#include "base/path.h"
#include "cli/output.h"

static const char *const names[] = {
    [BL_LINK_AUTO] = "auto",       [BL_LINK_REFLINK] = "reflink", [BL_LINK_HARDLINK] = "hardlink",
    [BL_LINK_SYMLINK] = "symlink", [BL_LINK_COPY] = "copy",
};

gboolean bl_link_parse(const char *text, BlLinkMode *mode, GError **error) {
  *mode = BL_LINK_AUTO;
  if (text == NULL) return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
    if (!g_str_equal(text, names[i])) continue;
    *mode = (BlLinkMode)i;
    return TRUE;
  }
  g_autofree char *shown = bl_path_display(text);
  return bl_error_set(error, BL_ERROR_INVALID,
                      "--link: \"%s\" is not one of auto, reflink, hardlink, symlink, copy", shown);
}

const char *bl_link_name(BlLinkMode mode) {
  return names[mode];
}

void bl_link_print_json(BlCli *cli, const BlPullResult *result, guint64 n_files_fallback,
                        gint64 elapsed_us) {
  bl_out_json_member("n_files", bl_json_uint(result->n_files));
  bl_out_json_member("n_bytes", bl_json_uint(result->n_bytes));
  bl_out_json_member("n_files_kept", bl_json_uint(result->n_files_kept));
  bl_out_json_member("n_files_written", bl_json_uint(result->n_files_written));
  bl_out_json_member("n_bytes_written", bl_json_uint(result->n_bytes_written));
  bl_out_json_member("n_files_fallback", bl_json_uint(n_files_fallback));
  bl_out_json_member("link", json_string(bl_link_name(result->link)));
  bl_out_json_member("elapsed_ms", json_integer(elapsed_us / 1000));
  bl_out_json_close(cli);
}
