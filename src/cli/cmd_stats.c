#include "upkeep/stats.h"

#include <string.h>

#include "base/path.h"
#include "cli/config.h"
#include "cli/metrics.h"
#include "cli/options.h"
#include "cli/output.h"

static struct { char *model_id, *sort; } opt;

static const GOptionEntry options[] = {{"model-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.model_id,
                                        "only this model's, as the argument", "MODEL_ID"},
                                       {"sort", 0, 0, G_OPTION_ARG_FILENAME, &opt.sort,
                                        "what comes first (default: id)", "id|size|unique|used"},
                                       {NULL}};

typedef struct {
  const BlStats *stats;
  GPtrArray *rows; /* of BlSurveyed; owned by the survey */
} Table;

/* Unix seconds; 0: never, or not known. */
static gint64 used_at(const BlSurveyed *surveyed) {
  return surveyed->used_us / G_USEC_PER_SEC;
}

static guint64 unique(const BlStats *stats, const BlSurveyed *surveyed) {
  return bl_shares_unique(stats->survey->shares, surveyed->number);
}

static guint64 shared(const BlStats *stats, const BlSurveyed *surveyed) {
  return bl_shares_shared(stats->survey->shares, surveyed->number);
}

static const char *status(const BlSurveyed *surveyed) {
  gboolean is_degraded = surveyed->status == BL_CHECKPOINT_READY && surveyed->is_degraded;
  return is_degraded ? "DEGRADED" : bl_checkpoint_status_name(surveyed->status);
}

static int descending(guint64 a, guint64 b) {
  return (a < b) - (a > b);
}

static int compare_rows(const void *a, const void *b, gpointer user) {
  const BlSurveyed *x = *(BlSurveyed *const *)a, *y = *(BlSurveyed *const *)b;
  const BlStats *stats = user;
  int order = 0;
  if (g_strcmp0(opt.sort, "size") == 0)
    order = descending(x->total_size, y->total_size);
  else if (g_strcmp0(opt.sort, "unique") == 0)
    order = descending(unique(stats, x), unique(stats, y));
  else if (g_strcmp0(opt.sort, "used") == 0)
    order = descending((guint64)x->used_us, (guint64)y->used_us);
  return order != 0 ? order : strcmp(x->checkpoint_id, y->checkpoint_id);
}

/* The checkpoints asked for, as they are asked for. */
static GPtrArray *choose(BlStats *stats, const char *model_id) {
  GPtrArray *rows = g_ptr_array_new();
  for (guint i = 0; i < stats->survey->checkpoints->len; i++) {
    BlSurveyed *surveyed = g_ptr_array_index(stats->survey->checkpoints, i);
    if (model_id == NULL || g_strcmp0(model_id, surveyed->model_id) == 0)
      g_ptr_array_add(rows, surveyed);
  }
  g_ptr_array_sort_with_data(rows, compare_rows, stats);
  return rows;
}

static json_t *uint_or_null(guint64 value) {
  return value == G_MAXUINT64 ? json_null() : bl_json_uint(value);
}

static guint64 bytes_left(const BlStats *stats) {
  if (stats->max_bytes == G_MAXUINT64) return G_MAXUINT64;
  return stats->max_bytes - MIN(stats->max_bytes, stats->n_stored);
}

static json_t *checkpoint_json(const BlStats *stats, const BlSurveyed *surveyed) {
  json_t *json = json_object();
  json_object_set_new(json, "checkpoint_id", bl_json_text(surveyed->checkpoint_id));
  json_object_set_new(json, "model_id", bl_json_text(surveyed->model_id));
  json_object_set_new(json, "revision", bl_json_text(surveyed->revision));
  json_object_set_new(json, "status", json_string(status(surveyed)));
  json_object_set_new(json, "n_files", bl_json_uint(surveyed->n_files));
  json_object_set_new(json, "total_size", bl_json_uint(surveyed->total_size));
  json_object_set_new(json, "unique_bytes", bl_json_uint(unique(stats, surveyed)));
  json_object_set_new(json, "shared_bytes", bl_json_uint(shared(stats, surveyed)));
  json_object_set_new(json, "used_at",
                      used_at(surveyed) > 0 ? json_integer(used_at(surveyed)) : json_null());
  json_object_set_new(json, "created_at", json_integer(surveyed->created_at));
  json_object_set_new(json, "pinned", json_boolean(surveyed->is_pinned));
  return json;
}

static void print_json(BlCli *cli, const BlStore *store, const BlStats *stats,
                       const GPtrArray *rows) {
  bl_out_json_open();
  bl_out_json_member("store", bl_json_text(store->url));
  bl_out_json_array_begin("checkpoints");
  for (guint i = 0; i < rows->len; i++)
    bl_out_json_array_add(checkpoint_json(stats, rows->pdata[i]));
  bl_out_json_array_end();
  bl_out_json_member("logical_bytes", bl_json_uint(stats->n_logical));
  bl_out_json_member("stored_bytes", bl_json_uint(stats->n_stored));
  bl_out_json_member("sharing_ratio", json_real(bl_stats_ratio(stats)));
  bl_out_json_member("max_bytes", uint_or_null(stats->max_bytes));
  bl_out_json_member("left_bytes", uint_or_null(bytes_left(stats)));
  bl_out_json_member("free_bytes", uint_or_null(stats->n_free));
  bl_out_json_close(cli);
}

static void fill_row(guint64 i, char **cells, gconstpointer user) {
  const Table *table = user;
  const BlSurveyed *surveyed = table->rows->pdata[i];
  BlSizeText text;
  cells[0] = bl_path_display(surveyed->checkpoint_id);
  cells[1] = g_strdup(status(surveyed));
  cells[2] =
      g_strdup(surveyed->model_id != NULL ? bl_size_format(text, surveyed->total_size) : "-");
  cells[3] = g_strdup(bl_size_format(text, unique(table->stats, surveyed)));
  cells[4] = g_strdup(bl_size_format(text, shared(table->stats, surveyed)));
  cells[5] = g_strdup(used_at(surveyed) > 0 ? bl_age_format(text, used_at(surveyed)) : "never");
  cells[6] = g_strdup(surveyed->is_pinned ? "yes" : "");
}

static void print_totals(const BlStats *stats) {
  BlSizeText logical, stored, limit, left, available;
  bl_out_line("%s of checkpoints in %s (sharing %.2f : 1)",
              bl_size_format(logical, stats->n_logical), bl_size_format(stored, stats->n_stored),
              bl_stats_ratio(stats));
  if (stats->max_bytes != G_MAXUINT64)
    bl_out_line("limit %s, %s left", bl_size_format(limit, stats->max_bytes),
                bl_size_format(left, bytes_left(stats)));
  if (stats->n_free != G_MAXUINT64)
    bl_out_line("file system: %s free", bl_size_format(available, stats->n_free));
}

static void print_table(const BlCli *cli, const BlStore *store, const BlStats *stats,
                        GPtrArray *rows, const char *model_id) {
  static const char *const headings[] = {"CHECKPOINT", "STATUS",    ">SIZE", ">UNIQUE",
                                         ">SHARED",    ">LAST USE", "PINNED"};
  Table table = {.stats = stats, .rows = rows};
  if (rows->len > 0) {
    bl_out_table(headings, G_N_ELEMENTS(headings), rows->len, fill_row, &table);
  } else if (model_id != NULL) {
    g_autofree char *model = bl_path_display(model_id), *url = bl_path_display(store->url);
    bl_out_done(cli, "no checkpoints of model \"%s\" in %s (\"ballast stats\" shows all)", model,
                url);
  }
  print_totals(stats);
}

/* One gauge by checkpoint. */
typedef guint64 (*ValueFunc)(const BlStats *stats, const BlSurveyed *surveyed);

static guint64 total_size(const BlStats *stats, const BlSurveyed *surveyed) {
  (void)stats;
  return surveyed->total_size;
}

static guint64 last_use(const BlStats *stats, const BlSurveyed *surveyed) {
  (void)stats;
  return (guint64)used_at(surveyed);
}

static guint64 pinned(const BlStats *stats, const BlSurveyed *surveyed) {
  (void)stats;
  return surveyed->is_pinned ? 1 : 0;
}

static void add_gauge(BlCli *cli, const BlStats *stats, const char *name, const char *help,
                      ValueFunc value) {
  bl_metrics_gauge(cli, name, help);
  for (guint i = 0; i < stats->survey->checkpoints->len; i++) {
    const BlSurveyed *surveyed = g_ptr_array_index(stats->survey->checkpoints, i);
    bl_metrics_sample(cli, name, "checkpoint", surveyed->checkpoint_id, value(stats, surveyed));
  }
}

static void add_total(BlCli *cli, const char *name, const char *help, guint64 value) {
  if (value == G_MAXUINT64) return;
  bl_metrics_gauge(cli, name, help);
  bl_metrics_sample(cli, name, NULL, NULL, value);
}

static void add_metrics(BlCli *cli, const BlStats *stats) {
  if (cli->metrics_file == NULL) return;
  add_total(cli, "ballast_store_bytes", "Bytes of all files in the store, each once.",
            stats->n_stored);
  add_total(cli, "ballast_store_logical_bytes", "Bytes of its READY checkpoints, each by itself.",
            stats->n_logical);
  add_total(cli, "ballast_store_limit_bytes", "What the store may hold.", stats->max_bytes);
  add_total(cli, "ballast_store_free_bytes", "Bytes that its file system has left.", stats->n_free);
  add_gauge(cli, stats, "ballast_checkpoint_bytes", "Bytes of the checkpoint's files.", total_size);
  add_gauge(cli, stats, "ballast_checkpoint_unique_bytes",
            "Bytes that no other checkpoint shares with it.", unique);
  add_gauge(cli, stats, "ballast_checkpoint_last_used_timestamp_seconds",
            "When it was last read; 0: never, or not known.", last_use);
  add_gauge(cli, stats, "ballast_checkpoint_pinned", "Whether prune leaves it alone.", pinned);
}

static gboolean check_sort(GError **error) {
  static const char *const orders[] = {"id", "size", "unique", "used", NULL};
  if (opt.sort == NULL || g_strv_contains(orders, opt.sort)) return TRUE;
  g_autofree char *shown = bl_path_display(opt.sort);
  return bl_error_set(error, BL_ERROR_INVALID, "--sort: \"%s\" is not id, size, unique or used",
                      shown);
}

static int run(BlCli *cli, char **args, GError **error) {
  const char *model_id = opt.model_id;
  if (model_id == NULL && *args != NULL) model_id = *args++;
  if (!check_sort(error) || !bl_args_end(args, error)) return -1;
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;

  BlStats stats;
  bl_progress_start(&cli->progress, "stats");
  gboolean done = bl_stats_load(store, &cli->job, &stats, error);
  bl_progress_stop(&cli->progress);
  if (done) {
    g_autoptr(GPtrArray) rows = choose(&stats, model_id);
    add_metrics(cli, &stats);
    if (cli->json)
      print_json(cli, store, &stats, rows);
    else
      print_table(cli, store, &stats, rows, model_id);
  }
  bl_stats_clear(&stats);
  return done ? 0 : -1;
}

const BlCommand bl_cmd_stats = {
    .name = "stats",
    .args = "[MODEL_ID] [options]",
    .arg_kinds = "m-",
    .summary = "show what the store holds, and what is shared",
    .text =
        "Shows for each checkpoint how large its files are (SIZE), how much of the store only\n"
        "it needs (UNIQUE) and how much it shares with others (SHARED), when it was last read\n"
        "and whether it is pinned; below, the totals of the whole store.\n",
    .examples =
        "ballast stats\n"
        "ballast stats --sort unique\n"
        "ballast stats --metrics-file ballast.prom\n",
    .options = options,
    .run = run,
};
