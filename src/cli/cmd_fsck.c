#include "upkeep/fsck.h"

#include "base/path.h"
#include "cli/config.h"
#include "cli/options.h"
#include "cli/output.h"

/* What a person is shown of each severity without -v. */
#define MAX_LINES 100u

static json_t *item_json(const BlFsckItem *item, BlSeverity severity) {
  json_t *json = json_object();
  json_object_set_new(json, "severity", json_string(bl_severity_name(severity)));
  json_object_set_new(json, "kind", json_string(bl_finding_name(item->kind)));
  json_object_set_new(json, "checkpoint_id", bl_json_text(item->checkpoint_id));
  json_object_set_new(json, "name", bl_json_text(item->name));
  json_object_set_new(json, "n_objects", bl_json_uint(item->n_objects));
  json_object_set_new(json, "n_bytes", bl_json_uint(item->n_bytes));
  json_object_set_new(json, "text", bl_json_text(item->text));
  json_object_set_new(json, "advice", bl_json_text(item->advice));
  return json;
}

static void print_json(BlCli *cli, const BlStore *store, const BlFsckReport *report, int code) {
  json_t *totals = json_object();
  for (guint i = 0; i < BL_SEVERITY_N; i++)
    json_object_set_new(totals, bl_severity_name(i), bl_json_uint(report->n_findings[i]));
  bl_out_json_open();
  bl_out_json_member("store", bl_json_text(store->url));
  bl_out_json_member("ok", json_boolean(code == 0));
  bl_out_json_member("n_checkpoints", bl_json_uint(report->n_checkpoints));
  bl_out_json_member("n_ready", bl_json_uint(report->n_ready));
  bl_out_json_member("n_busy", bl_json_uint(report->n_busy));
  bl_out_json_member("n_findings", totals);
  bl_out_json_array_begin("findings");
  for (guint i = 0; i < BL_SEVERITY_N; i++)
    for (guint j = 0; j < report->items[i]->len; j++)
      bl_out_json_array_add(item_json(report->items[i]->pdata[j], i));
  bl_out_json_array_end();
  bl_out_json_close(cli);
}

static void print_item(const BlFsckItem *item, BlSeverity severity) {
  g_autofree char *id = item->checkpoint_id != NULL ? bl_path_display(item->checkpoint_id) : NULL;
  g_autofree char *name = item->name != NULL ? bl_path_display(item->name) : NULL;
  g_autofree char *text = bl_path_display(item->text);
  bl_out_line("%s: %s%s%s: %s%s%s%s", bl_severity_name(severity), id != NULL ? id : "",
              id != NULL && name != NULL ? ": " : "", name != NULL ? name : "", text,
              item->advice != NULL ? " (" : "", item->advice != NULL ? item->advice : "",
              item->advice != NULL ? ")" : "");
}

static void print_severity(const BlCli *cli, const BlFsckReport *report, BlSeverity severity) {
  const GPtrArray *items = report->items[severity];
  guint n = cli->verbose ? items->len : MIN(items->len, MAX_LINES);
  for (guint i = 0; i < n; i++) print_item(items->pdata[i], severity);
  if (report->n_findings[severity] > n)
    bl_out_line("%s: and %" G_GUINT64_FORMAT " more%s", bl_severity_name(severity),
                report->n_findings[severity] - n, cli->verbose ? "" : " (-v shows them)");
}

static void print_text(const BlCli *cli, const BlFsckReport *report) {
  GString *totals = g_string_new(NULL);
  for (guint i = 0; i < BL_SEVERITY_N; i++) {
    print_severity(cli, report, i);
    if (report->n_findings[i] > 0)
      g_string_append_printf(totals, ", %" G_GUINT64_FORMAT " %s", report->n_findings[i],
                             bl_severity_name(i));
  }
  bl_out_done(cli, "%u %s, %u READY%s", report->n_checkpoints,
              report->n_checkpoints == 1 ? "checkpoint" : "checkpoints", report->n_ready,
              totals->len > 0 ? totals->str : ", nothing wrong, nothing left over");
  g_string_free(totals, TRUE);
}

static int judge(const BlFsckReport *report) {
  if (report->n_findings[BL_SEVERITY_DAMAGED] > 0 || report->n_findings[BL_SEVERITY_LOST] > 0)
    return bl_error_exit_code(BL_ERROR_CORRUPT);
  if (report->n_findings[BL_SEVERITY_DANGLING] > 0) return bl_error_exit_code(BL_ERROR_NOT_FOUND);
  return 0;
}

static int run(BlCli *cli, char **args, GError **error) {
  if (!bl_args_end(args, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;

  BlFsckReport report;
  bl_progress_start(&cli->progress, "fsck");
  gboolean done = bl_fsck(store, &cli->job, &report, error);
  bl_progress_stop(&cli->progress);
  int code = done ? judge(&report) : -1;
  if (done && cli->json)
    print_json(cli, store, &report, code);
  else if (done)
    print_text(cli, &report);
  bl_fsck_report_clear(&report);
  return code;
}

const BlCommand bl_cmd_fsck = {
    .name = "fsck",
    .args = "[options]",
    .arg_kinds = "-",
    .summary = "find what is damaged, lost or left over in the store",
    .text =
        "Looks at everything in the store without reading data (\"ballast model verify\" reads\n"
        "it), and names what is damaged, lost, points nowhere, was left by commands that were\n"
        "killed, or is none of ballast's, with what to run next. It changes nothing.\n"
        "Exit code 4: something is damaged or lost; 3: only names point nowhere; 0 else.\n",
    .examples =
        "ballast fsck\n"
        "ballast fsck --json\n",
    .run = run,
};
