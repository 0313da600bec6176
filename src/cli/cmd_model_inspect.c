#include <sys/stat.h>

#include "base/path.h"
#include "cli/config.h"
#include "cli/inspect.h"
#include "cli/name.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/tensor_report.h"
#include "model/catalog.h"
#include "model/info.h"
#include "model/key.h"
#include "model/reader.h"
#include "model/state.h"
#include "model/usage.h"
#include "store/claim.h"

static struct {
  char *checkpoint_id;
  gboolean files, tensors;
} opt;

static const GOptionEntry options[] = {
    {"files", 0, 0, G_OPTION_ARG_NONE, &opt.files, "each file: size, type, SHA-256", NULL},
    {"tensors", 0, 0, G_OPTION_ARG_NONE, &opt.tensors,
     "each tensor: dtype, shape, offset, size, file", NULL},
    {"checkpoint-id", 0, 0, G_OPTION_ARG_FILENAME, &opt.checkpoint_id,
     "the checkpoint, instead of CHECKPOINT", "ID"},
    {NULL}};

/* A checkpoint as far as it was asked for. */
typedef struct {
  BlStore *store;
  BlManifest *manifest;
  BlInfo *info;   /* NULL where it is not READY */
  BlState *state; /* likewise */
  gint64 used_at; /* Unix seconds; 0: nobody recorded it */
  char **refs;    /* what points to it */
  char *owner;    /* who works on it; NULL: nobody */
  BlCheckpointStatus status;
  BlTensorReport *report; /* NULL without --tensors */
} Checkpoint;

static void checkpoint_clear(Checkpoint *checkpoint) {
  bl_tensor_report_free(checkpoint->report);
  g_strfreev(checkpoint->refs);
  g_free(checkpoint->owner);
  bl_info_free(checkpoint->info);
  bl_state_free(checkpoint->state);
  bl_manifest_free(checkpoint->manifest);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Checkpoint, checkpoint_clear)

/* One of a checkpoint's files as bytes. */
typedef struct {
  BlReader *reader;
  guint64 file;
} Stored;

/* A checkpoint's files as a set. */
typedef struct {
  BlReader *reader;
  const BlManifest *manifest;
} StoredSet;

static gboolean read_stored(gpointer user, guint64 offset, void *data, gsize size, GError **error) {
  const Stored *stored = user;
  return bl_reader_read(stored->reader, stored->file, offset, data, size, error);
}

static gboolean open_stored(gpointer user, guint64 i, BlByteSource *source, GError **error) {
  const StoredSet *set = user;
  Stored *stored = g_new(Stored, 1);
  (void)error;
  *stored = (Stored){.reader = set->reader, .file = i};
  source->size = set->manifest->files[i].size;
  source->read = read_stored;
  source->user = stored;
  return TRUE;
}

static void close_stored(gpointer user, BlByteSource *source) {
  (void)user;
  g_free(source->user);
}

static gboolean read_headers(Checkpoint *checkpoint, BlJob *job, GError **error) {
  const BlManifest *manifest = checkpoint->manifest;
  g_autoptr(BlReader) reader = bl_reader_new(checkpoint->store, manifest, NULL);
  g_autofree BlLayoutFile *files = g_new(BlLayoutFile, manifest->n_files);
  for (guint64 i = 0; i < manifest->n_files; i++)
    files[i] = (BlLayoutFile){.path = manifest->files[i].path, .size = manifest->files[i].size};
  StoredSet set = {.reader = reader, .manifest = manifest};
  BlLayoutInput input = {.files = files,
                         .n_files = manifest->n_files,
                         .open = open_stored,
                         .close = close_stored,
                         .user = &set};
  checkpoint->report = bl_tensor_report_new();
  return bl_tensor_report_add_set(checkpoint->report, &input, job, error);
}

/* Of a checkpoint that is not READY: whether someone works on it. */
static gboolean find_owner(Checkpoint *checkpoint, GError **error) {
  BlKeyBuffer prefix;
  BlClaimState state;
  g_autofree char *operation = NULL;
  checkpoint->status = BL_CHECKPOINT_FAILED;
  bl_key_prefix(prefix, checkpoint->manifest->checkpoint_id);
  if (!bl_claim_peek(checkpoint->store, prefix, &state, &checkpoint->owner, &operation, error))
    return FALSE;
  if (state == BL_CLAIM_LIVE)
    checkpoint->status =
        g_strcmp0(operation, "delete") == 0 ? BL_CHECKPOINT_DELETING : BL_CHECKPOINT_IMPORTING;
  return TRUE;
}

static gboolean load(Checkpoint *checkpoint, const char *id, BlJob *job, GError **error) {
  BlStore *store = checkpoint->store;
  if (opt.tensors)
    checkpoint->manifest = bl_manifest_load_ready(store, id, error);
  else
    checkpoint->manifest = bl_manifest_load(store, id, 0, error);
  const BlManifest *manifest = checkpoint->manifest;
  if (manifest == NULL) return FALSE;
  if (!manifest->is_ready) return find_owner(checkpoint, error);

  checkpoint->state = bl_state_load_usable(store, id, job, error);
  if (checkpoint->state == NULL) return FALSE;
  checkpoint->used_at = bl_usage_get(store, id) / G_USEC_PER_SEC;
  checkpoint->status =
      bl_state_is_degraded(checkpoint->state) ? BL_CHECKPOINT_DEGRADED : BL_CHECKPOINT_READY;
  checkpoint->info = bl_info_load_usable(store, manifest, job, error);
  if (checkpoint->info == NULL) return FALSE;
  checkpoint->refs = bl_ref_names(store, manifest->model_id, id, error);
  if (checkpoint->refs == NULL) return FALSE;
  return !opt.tensors || read_headers(checkpoint, job, error);
}

static char *sha256_text(const guint8 *sha256) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  bl_hex_encode(sha256, BL_SHA256_SIZE, hex);
  return g_strdup(hex);
}

static const char *type_name(const BlManifestFile *file) {
  return file->is_weight ? "WEIGHT" : "METADATA";
}

static void fill_file_row(guint64 i, char **cells, gconstpointer user) {
  const BlManifestFile *file = &((const BlManifest *)user)->files[i];
  BlSizeText size;
  cells[0] = bl_path_display(file->path);
  cells[1] = g_strdup(type_name(file));
  cells[2] = g_strdup(bl_size_format(size, file->size));
  cells[3] = g_strdup_printf("%u", file->n_chunks);
  cells[4] = file->has_sha256 ? sha256_text(file->sha256) : g_strdup("-");
}

static void print_name(const char *label, const char *text) {
  g_autofree char *shown = text != NULL ? bl_path_display(text) : NULL;
  bl_out_field(label, shown);
}

static void print_time(const char *label, gint64 unix_time) {
  g_autofree char *text = bl_time_format(unix_time);
  bl_out_field(label, text);
}

static void print_info(const BlInfo *info) {
  bl_out_fieldf("commit", "%s%s", info->commit,
                info->commit_from_source ? "" : " (from the content)");
  g_autofree char *tags = info->tags != NULL ? g_strjoinv(", ", info->tags) : NULL;
  if (tags != NULL && tags[0] != '\0') print_name("tags", tags);
  if (info->imported_by_host == NULL) return;
  g_autofree char *by =
      g_strdup_printf("%s, ballast %s", info->imported_by_host,
                      info->imported_by_version != NULL ? info->imported_by_version : "?");
  print_name("imported by", by);
}

static void print_paths(const char *label, const GPtrArray *paths) {
  for (guint i = 0; i < paths->len; i++) print_name(label, paths->pdata[i]);
}

static void print_state(const Checkpoint *checkpoint) {
  const BlState *state = checkpoint->state;
  if (state == NULL) return;
  if (state->is_pinned) bl_out_field("pinned", "yes");
  if (state->checked_at > 0) print_time("verified", state->checked_at);
  if (checkpoint->used_at > 0) print_time("last used", checkpoint->used_at);
  print_paths("missing", state->missing);
  print_paths("damaged", state->damaged);
}

static void print_checkpoint(const Checkpoint *checkpoint) {
  const BlManifest *manifest = checkpoint->manifest;
  BlSizeText text;
  print_name("checkpoint", manifest->checkpoint_id);
  print_name("model", manifest->model_id);
  print_name("revision", manifest->revision);
  bl_out_field("status", bl_checkpoint_status_name(checkpoint->status));
  /* Where someone works on it, the manifest's word for what was interrupted is not the news. */
  if (checkpoint->status == BL_CHECKPOINT_FAILED) print_name("error", manifest->error);
  print_name("claimed", checkpoint->owner);
  if (checkpoint->refs != NULL && checkpoint->refs[0] != NULL) {
    g_autofree char *refs = g_strjoinv(", ", checkpoint->refs);
    print_name("refs", refs);
  }
  if (checkpoint->info != NULL) print_info(checkpoint->info);
  print_name("source", manifest->source_uri);
  print_time("created", manifest->created_at);
  if (manifest->updated_at != manifest->created_at) print_time("updated", manifest->updated_at);
  print_state(checkpoint);
  bl_out_fieldf("files", "%" G_GUINT64_FORMAT, manifest->n_files);
  bl_out_fieldf("size", "%s (%" G_GUINT64_FORMAT " bytes)",
                bl_size_format(text, manifest->total_size), manifest->total_size);
  g_autofree char *sha256 = sha256_text(manifest->sha256);
  bl_out_fieldf("manifest", "schema %u, SHA-256 %s", manifest->schema_version, sha256);
  if (checkpoint->report == NULL) return;
  bl_out_fieldf("tensors", "%" G_GUINT64_FORMAT ", %s parameters", checkpoint->report->n_tensors,
                bl_count_format(text, checkpoint->report->n_parameters));
}

static void print_human(const Checkpoint *checkpoint) {
  static const char *const headings[] = {"FILE", "TYPE", ">SIZE", ">CHUNKS", "SHA-256"};
  print_checkpoint(checkpoint);
  if (opt.files && checkpoint->manifest->n_files > 0) {
    bl_out_line("%s", "");
    bl_out_table(headings, G_N_ELEMENTS(headings), checkpoint->manifest->n_files, fill_file_row,
                 checkpoint->manifest);
  }
  if (checkpoint->report != NULL) bl_tensor_report_print(checkpoint->report, TRUE, TRUE);
}

static json_t *file_json(const Checkpoint *checkpoint, guint64 i) {
  const BlManifestFile *file = &checkpoint->manifest->files[i];
  const BlInfo *info = checkpoint->info;
  g_autofree char *sha256 = file->has_sha256 ? sha256_text(file->sha256) : NULL;
  json_t *json = json_object();
  json_object_set_new(json, "path", bl_json_text(file->path));
  json_object_set_new(json, "type", json_string(type_name(file)));
  json_object_set_new(json, "size", bl_json_uint(file->size));
  json_object_set_new(json, "sha256", bl_json_text(sha256));
  json_object_set_new(json, "n_chunks", json_integer(file->n_chunks));
  json_object_set_new(json, "chunk_size", bl_json_uint(file->chunk_size));
  json_object_set_new(json, "executable", json_boolean(info != NULL && info->executable[i]));
  return json;
}

static void print_info_json(const BlInfo *info) {
  bl_out_json_member("commit", bl_json_text(info->commit));
  bl_out_json_member("commit_from", json_string(info->commit_from_source ? "source" : "content"));
  bl_out_json_member("tags", bl_json_strv(info->tags));
  json_t *by = json_object();
  json_object_set_new(by, "host", bl_json_text(info->imported_by_host));
  json_object_set_new(by, "ballast", bl_json_text(info->imported_by_version));
  bl_out_json_member("imported_by", by);
}

static void print_state_json(const Checkpoint *checkpoint) {
  const BlState *state = checkpoint->state;
  bl_out_json_member("pinned", json_boolean(state->is_pinned));
  bl_out_json_member("checked_at",
                     state->checked_at > 0 ? json_integer(state->checked_at) : json_null());
  bl_out_json_member("used_at",
                     checkpoint->used_at > 0 ? json_integer(checkpoint->used_at) : json_null());
  bl_out_json_member("missing", bl_json_texts(state->missing));
  bl_out_json_member("damaged", bl_json_texts(state->damaged));
}

static void print_json(BlCli *cli, const Checkpoint *checkpoint) {
  const BlManifest *manifest = checkpoint->manifest;
  g_autofree char *sha256 = sha256_text(manifest->sha256);
  bl_out_json_open();
  bl_out_json_member("checkpoint_id", bl_json_text(manifest->checkpoint_id));
  bl_out_json_member("model_id", bl_json_text(manifest->model_id));
  bl_out_json_member("revision", bl_json_text(manifest->revision));
  bl_out_json_member("status", json_string(bl_checkpoint_status_name(checkpoint->status)));
  bl_out_json_member("failure", bl_json_text(manifest->error));
  bl_out_json_member("claimed_by", bl_json_text(checkpoint->owner));
  bl_out_json_member("refs", bl_json_strv(checkpoint->refs));
  bl_out_json_member("source_uri", bl_json_text(manifest->source_uri));
  bl_out_json_member("created_at", json_integer(manifest->created_at));
  bl_out_json_member("updated_at", json_integer(manifest->updated_at));
  bl_out_json_member("n_files", bl_json_uint(manifest->n_files));
  bl_out_json_member("total_size", bl_json_uint(manifest->total_size));
  bl_out_json_member("schema_version", json_integer(manifest->schema_version));
  bl_out_json_member("manifest_sha256", json_string(sha256));
  if (checkpoint->info != NULL) print_info_json(checkpoint->info);
  if (checkpoint->state != NULL) print_state_json(checkpoint);
  if (opt.files) {
    bl_out_json_array_begin("files");
    for (guint64 i = 0; i < manifest->n_files; i++) bl_out_json_array_add(file_json(checkpoint, i));
    bl_out_json_array_end();
  }
  if (checkpoint->report != NULL) bl_tensor_report_print_json(checkpoint->report, TRUE);
  bl_out_json_close(cli);
}

/* "inspect model.gguf" may have meant the file here. */
static void add_path_hint(const BlName *name, GError **error) {
  struct stat about;
  if (name->is_id || stat(name->text, &about) != 0) return;
  BlErrorCode code = bl_error_code(*error);
  if (code != BL_ERROR_NOT_FOUND && code != BL_ERROR_INVALID) return;
  g_autofree char *shown = bl_path_display(name->text);
  g_autoptr(GError) miss = g_steal_pointer(error);
  g_propagate_error(
      error, g_error_new(BL_ERROR, (gint)code,
                         "%s; a file or folder of that name is here: \"ballast model inspect "
                         "./%s\" shows it",
                         miss->message, shown));
}

static int inspect_checkpoint(BlCli *cli, const BlName *name, GError **error) {
  g_autoptr(BlStore) store = bl_config_open_store(cli, FALSE, error);
  if (store == NULL) return -1;
  g_autofree char *id = bl_name_resolve(name, store, error);
  if (id == NULL) {
    add_path_hint(name, error);
    return -1;
  }
  g_auto(Checkpoint) checkpoint = {.store = store};
  bl_progress_start(&cli->progress, "inspect");
  gboolean done = load(&checkpoint, id, &cli->job, error);
  bl_progress_stop(&cli->progress);
  if (!done) return -1;
  if (cli->json)
    print_json(cli, &checkpoint);
  else
    print_human(&checkpoint);
  return checkpoint.report != NULL ? bl_tensor_report_exit_code(checkpoint.report) : 0;
}

static int run(BlCli *cli, char **args, GError **error) {
  BlName name;
  if (!bl_name_take(&name, opt.checkpoint_id, &args, error) || !bl_args_end(args, error)) return -1;
  if (!name.is_id && bl_inspect_is_path(name.text))
    return bl_inspect_path(cli, name.text, opt.files, opt.tensors, error);
  return inspect_checkpoint(cli, &name, error);
}

const BlCommand bl_cmd_model_inspect = {
    .group = "model",
    .name = "inspect",
    .args = "CHECKPOINT|PATH [options]",
    .arg_kinds = "c-",
    .summary = "show what a checkpoint, a file or a folder holds",
    .text =
        "Shows what the store knows of a checkpoint; --tensors reads the headers of its model\n"
        "files. An argument that begins with ./, ../ or / is a path: a safetensors or GGUF\n"
        "file, or a folder with some, in no store. Exit code 4 where a header is damaged.\n",
    .examples =
        "ballast model inspect my-model --files\n"
        "ballast model inspect my-model --tensors\n"
        "ballast model inspect ./my-model/model.safetensors --tensors\n",
    .options = options,
    .run = run,
};
