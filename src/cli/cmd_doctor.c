#include <stdarg.h>

#include "base/path.h"
#include "cli/doctor.h"
#include "cli/options.h"
#include "cli/output.h"

static const char *const verdict_names[BL_DOCTOR_N] = {"ok", "note", "problem"};

static void free_line(gpointer data) {
  BlDoctorLine *line = data;
  g_free(line->text);
  g_free(line);
}

void bl_doctor_add(BlDoctor *doctor, BlDoctorVerdict verdict, const char *name, const char *advice,
                   const char *format, ...) {
  BlDoctorLine *line = g_new0(BlDoctorLine, 1);
  va_list args;
  va_start(args, format);
  line->text = g_strdup_vprintf(format, args);
  va_end(args);
  line->part = doctor->part;
  line->verdict = verdict;
  line->name = name;
  line->advice = advice;
  g_ptr_array_add(doctor->lines, line);
}

static void print_lines(const GPtrArray *lines) {
  const char *part = NULL;
  for (guint i = 0; i < lines->len; i++) {
    const BlDoctorLine *line = lines->pdata[i];
    if (part != line->part) bl_out_line("%s", line->part);
    part = line->part;
    bl_out_line("  %-8s %s: %s", verdict_names[line->verdict], line->name, line->text);
    if (line->advice != NULL) bl_out_line("           -> %s", line->advice);
  }
}

static void print_json(BlCli *cli, const GPtrArray *lines, const guint counts[BL_DOCTOR_N]) {
  bl_out_json_open();
  bl_out_json_array_begin("checks");
  for (guint i = 0; i < lines->len; i++) {
    const BlDoctorLine *line = lines->pdata[i];
    json_t *check = json_object();
    json_object_set_new(check, "part", json_string(line->part));
    json_object_set_new(check, "name", json_string(line->name));
    json_object_set_new(check, "verdict", json_string(verdict_names[line->verdict]));
    json_object_set_new(check, "text", bl_json_text(line->text));
    json_object_set_new(check, "advice", bl_json_text(line->advice));
    bl_out_json_array_add(check);
  }
  bl_out_json_array_end();
  bl_out_json_member("n_notes", bl_json_uint(counts[BL_DOCTOR_NOTE]));
  bl_out_json_member("n_problems", bl_json_uint(counts[BL_DOCTOR_PROBLEM]));
  bl_out_json_close(cli);
}

static int run(BlCli *cli, char **args, GError **error) {
  if (!bl_args_end(args, error)) return -1;
  g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(free_line);
  BlDoctor doctor = {.cli = cli, .lines = lines};
  bl_doctor_look_at_store(&doctor);
  bl_doctor_look_at_machine(&doctor);

  guint counts[BL_DOCTOR_N] = {0};
  for (guint i = 0; i < lines->len; i++) counts[((const BlDoctorLine *)lines->pdata[i])->verdict]++;
  if (cli->json)
    print_json(cli, lines, counts);
  else
    print_lines(lines);
  return counts[BL_DOCTOR_PROBLEM] > 0 ? 1 : 0;
}

const BlCommand bl_cmd_doctor = {
    .name = "doctor",
    .args = "",
    .arg_kinds = "",
    .summary = "look for what would stop or slow down ballast here",
    .text =
        "Looks at the config files, the store, the file system under it, local state, limits\n"
        "and the CPU. What the file system can do is tried, with files that are removed again.\n"
        "Ends with 1 where an import or a pull would stop at something.\n",
    .examples =
        "ballast doctor\n"
        "ballast --store /srv/models doctor --json\n",
    .run = run,
};
