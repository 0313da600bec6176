/* Order of the work: the indexes with the shards that they name, then the weight files that no
 * index names, by themselves and by their numbers. One header is held at a time, beside one index's
 * packed rows. */
#include "model/layout.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "model/shard_index.h"

/* Names listed in one finding. */
#define LISTED_MAX 20
/* Weight files of other formats are only told apart from small helpers (training_args.bin) by their
 * size. */
#define OTHER_WEIGHTS_MIN (1024 * 1024)
/* "-00001-of-00003": the Hub's and llama.cpp's names of shards. */
#define SHARD_DIGITS 5
#define SHARD_MARK_SIZE (SHARD_DIGITS * 2 + 5)

typedef struct {
  const BlLayoutInput *input;
  BlLayoutResult *result;
  gboolean deep;
  GHashTable *numbers;       /* path -> number of the file, plus 1 */
  GHashTable *index_folders; /* folders ("" or "a/b/") that have an index */
  GHashTable *groups;        /* owned strings: sets of numbered shards already looked at */
  guint8 *is_named;          /* per file: an index names it */
  guint8 *is_judged; /* per file: its header's verdict is among the findings, if it has one */
} Check;

static void finding_free(gpointer data) {
  BlLayoutFinding *finding = data;
  g_free(finding->path);
  g_free(finding->text);
  g_free(finding);
}

void bl_layout_result_free(BlLayoutResult *result) {
  if (result == NULL) return;
  g_ptr_array_unref(result->findings);
  g_free(result);
}

/* Takes text. */
static void add(Check *check, BlLayoutLevel level, const char *path, char *text) {
  if (check->result->n[level]++ >= BL_LAYOUT_FINDINGS_MAX) {
    g_free(text);
    return;
  }
  BlLayoutFinding *finding = g_new(BlLayoutFinding, 1);
  *finding = (BlLayoutFinding){level, g_strdup(path), text};
  g_ptr_array_add(check->result->findings, finding);
}

/* A failure that is a verdict on the file becomes a finding, unless it is one already. Any other is
 * *error, and FALSE. Takes failure. */
static gboolean add_error(Check *check, const char *path, gboolean is_new, GError *failure,
                          GError **error) {
  switch (bl_error_code(failure)) {
    case BL_ERROR_CORRUPT:
    case BL_ERROR_NOT_FOUND:
      if (is_new) add(check, BL_LAYOUT_ERROR, path, g_strdup(failure->message));
      break;
    case BL_ERROR_UNSUPPORTED:
      if (is_new) add(check, BL_LAYOUT_UNSUPPORTED, path, g_strdup(failure->message));
      break;
    default:
      g_propagate_error(error, failure);
      return FALSE;
  }
  g_error_free(failure);
  return TRUE;
}

static gboolean find_file(const Check *check, const char *path, guint64 *i) {
  gpointer number = g_hash_table_lookup(check->numbers, path);
  *i = GPOINTER_TO_SIZE(number) - 1;
  return number != NULL;
}

static gboolean is_verdict(const GError *failure) {
  return g_error_matches(failure, BL_ERROR, BL_ERROR_CORRUPT) ||
         g_error_matches(failure, BL_ERROR, BL_ERROR_UNSUPPORTED);
}

/* A quick check has no verdict on a header that merely breaks a rule. */
static BlTensorTable *read_header(Check *check, const BlByteSource *source, const char *path,
                                  GError **error) {
  g_autofree char *shown = bl_path_display(path);
  g_autoptr(GError) failure = NULL;
  g_autoptr(BlTensorTable) table =
      bl_tensor_table_read(source, bl_model_format_from_path(path), shown, &failure);
  if (table != NULL) return g_steal_pointer(&table);
  if (check->deep || !is_verdict(failure))
    g_propagate_error(error, g_steal_pointer(&failure));
  else
    bl_model_file_sniff(source, path, error);
  return NULL;
}

/* The header's table, or NULL: where that has a reason, it is a finding then, added once. FALSE
 * where the source failed. A file that is no format of ours has no table. */
static gboolean judge(Check *check, guint64 i, BlTensorTable **table, GError **error) {
  const BlLayoutInput *input = check->input;
  const char *path = input->files[i].path;
  g_autoptr(GError) failure = NULL;
  BlByteSource source;
  gboolean is_new = !check->is_judged[i];
  check->is_judged[i] = TRUE;
  *table = NULL;
  if (bl_model_format_from_path(path) == BL_MODEL_FORMAT_NONE) return TRUE;
  if (input->open(input->user, i, &source, &failure)) {
    *table = read_header(check, &source, path, &failure);
    input->close(input->user, &source);
  }
  if (*table != NULL && is_new && check->deep) {
    g_autofree char *shown = bl_path_display(path);
    bl_tensor_table_check_known(*table, shown, &failure);
  }
  if (failure == NULL) return TRUE;
  return add_error(check, path, is_new, g_steal_pointer(&failure), error);
}

static void append_listed(GString *list, guint n, const char *name) {
  if (n > LISTED_MAX) return;
  g_autofree char *shown = bl_path_display(name);
  g_string_append_printf(list, "%s%s", n > 1 ? ", " : "", n == LISTED_MAX ? "…" : shown);
}

typedef struct {
  GString *absent, *left_out;
  guint n_absent, n_left_out;
} Missing;

static void note_missing(Check *check, Missing *missing, const char *path) {
  const BlLayoutInput *input = check->input;
  if (input->is_left_out != NULL && input->is_left_out(input->user, path))
    append_listed(missing->left_out, ++missing->n_left_out, path);
  else
    append_listed(missing->absent, ++missing->n_absent, path);
}

/* One finding for what is absent and one for what was left out. Frees the lists. `says`: "names",
 * "is one of a set with". */
static void add_missing(Check *check, const char *path, const char *says, Missing *missing) {
  g_autofree char *shown = bl_path_display(path);
  if (missing->n_absent > 0)
    add(check, BL_LAYOUT_ERROR, path,
        g_strdup_printf("%s %s %u shard%s that %s not there: %s", shown, says, missing->n_absent,
                        missing->n_absent > 1 ? "s" : "", missing->n_absent > 1 ? "are" : "is",
                        missing->absent->str));
  if (missing->n_left_out > 0)
    add(check, BL_LAYOUT_WARNING, path,
        g_strdup_printf("%s %s %u shard%s that %s left out: %s", shown, says, missing->n_left_out,
                        missing->n_left_out > 1 ? "s" : "",
                        missing->n_left_out > 1 ? "were" : "was", missing->left_out->str));
  g_string_free(missing->absent, TRUE);
  g_string_free(missing->left_out, TRUE);
}

static char *folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? g_strdup("") : g_strndup(path, (gsize)(slash - path) + 1);
}

/* Every shard of the index: there, and marked as named. */
static void check_presence(Check *check, const char *path, const char *folder,
                           const BlShardIndex *index) {
  Missing missing = {g_string_new(NULL), g_string_new(NULL), 0, 0};
  for (guint s = 0; s < index->shards->len; s++) {
    const char *name = g_ptr_array_index(index->shards, s);
    g_autofree char *shard = g_strconcat(folder, name, NULL);
    guint64 i;
    if (find_file(check, shard, &i))
      check->is_named[i] = TRUE;
    else
      note_missing(check, &missing, shard);
  }
  add_missing(check, path, "names", &missing);
}

/* The tensors of one shard's header against the index. */
static void compare_shard(Check *check, const char *path, guint32 shard, const BlShardIndex *index,
                          const BlTensorTable *table) {
  for (guint64 t = 0; t < bl_tensor_table_n_tensors(table); t++) {
    BlTensor tensor;
    bl_tensor_table_get(table, t, &tensor);
    BlShardEntry *entry = bl_shard_index_find(index, tensor.name, tensor.name_size);
    if (entry != NULL && entry->shard == shard) {
      entry->found = TRUE;
    } else if (entry != NULL) {
      entry->other = shard + 1;
    } else if (check->deep) {
      g_autofree char *name = bl_name_display(tensor.name, tensor.name_size);
      g_autofree char *shown = bl_path_display(path);
      g_autofree char *file = bl_path_display(g_ptr_array_index(index->shards, shard));
      add(check, BL_LAYOUT_ERROR, path,
          g_strdup_printf("%s does not name tensor \"%s\", which %s holds", shown, name, file));
    }
  }
}

/* is_read: per shard, whether its header could be read. */
static void report_entries(Check *check, const char *path, const BlShardIndex *index,
                           const guint8 *is_read) {
  g_autofree char *shown = bl_path_display(path);
  for (guint e = 0; e < index->entries->len; e++) {
    const BlShardEntry *entry = &g_array_index(index->entries, BlShardEntry, e);
    if (!is_read[entry->shard] || (entry->found && entry->other == 0)) continue;
    g_autofree char *name =
        bl_name_display((char *)index->names->data + entry->name_at, entry->name_size);
    g_autofree char *file = bl_path_display(g_ptr_array_index(index->shards, entry->shard));
    if (!entry->found && !check->deep) continue;
    if (!entry->found) {
      add(check, BL_LAYOUT_ERROR, path,
          g_strdup_printf("%s says that %s holds tensor \"%s\", but its header lacks it", shown,
                          file, name));
      continue;
    }
    g_autofree char *other = bl_path_display(g_ptr_array_index(index->shards, entry->other - 1));
    add(check, BL_LAYOUT_WARNING, path,
        g_strdup_printf("tensor \"%s\" is in %s and in %s; %s names the first", name, file, other,
                        shown));
  }
}

static gboolean compare_index(Check *check, const char *path, const char *folder,
                              const BlShardIndex *index, GError **error) {
  g_autofree guint8 *is_read = g_malloc0(index->shards->len);
  guint64 n_bytes = 0;
  gboolean all_read = TRUE;
  for (guint s = 0; s < index->shards->len; s++) {
    const char *name = g_ptr_array_index(index->shards, s);
    g_autofree char *shard = g_strconcat(folder, name, NULL);
    g_autoptr(BlTensorTable) table = NULL;
    guint64 i;
    if (find_file(check, shard, &i) && !judge(check, i, &table, error)) return FALSE;
    is_read[s] = table != NULL;
    if (table == NULL) {
      all_read = FALSE;
      continue;
    }
    n_bytes += bl_tensor_table_n_bytes(table);
    compare_shard(check, path, s, index, table);
  }
  report_entries(check, path, index, is_read);
  if (!check->deep) return TRUE;
  g_autofree char *shown = bl_path_display(path);
  if (all_read && index->has_total_size && index->total_size != n_bytes)
    add(check, BL_LAYOUT_WARNING, path,
        g_strdup_printf("%s: total_size is %" G_GUINT64_FORMAT
                        ", the shards hold %" G_GUINT64_FORMAT " bytes",
                        shown, index->total_size, n_bytes));
  if (index->n_duplicates > 0)
    add(check, BL_LAYOUT_WARNING, path,
        g_strdup_printf("%s: weight_map names %u tensors twice: the last one counts", shown,
                        index->n_duplicates));
  return TRUE;
}

static gboolean check_index(Check *check, guint64 i, GError **error) {
  const BlLayoutInput *input = check->input;
  const char *path = input->files[i].path;
  g_autofree char *shown = bl_path_display(path);
  g_autofree char *folder = folder_of(path);
  g_autoptr(BlShardIndex) index = NULL;
  g_autoptr(GError) failure = NULL;
  BlByteSource source;
  if (input->open(input->user, i, &source, &failure)) {
    index = bl_shard_index_read(&source, shown, &failure);
    input->close(input->user, &source);
  }
  g_hash_table_add(check->index_folders, g_strdup(folder));
  if (index == NULL) return add_error(check, path, TRUE, g_steal_pointer(&failure), error);
  check_presence(check, path, folder, index);
  return compare_index(check, path, folder, index, error);
}

static gboolean is_weight_file(const BlLayoutFile *file) {
  static const char *const others[] = {".bin", ".pt", ".pth", ".ckpt"};
  if (bl_model_format_from_path(file->path) != BL_MODEL_FORMAT_NONE) return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
    if (g_str_has_suffix(file->path, others[i])) return file->size >= OTHER_WEIGHTS_MIN;
  return FALSE;
}

/* Whether this folder or one above it has an index. */
static gboolean is_below_index(const Check *check, const char *path) {
  g_autofree char *folder = folder_of(path);
  for (;;) {
    if (g_hash_table_contains(check->index_folders, folder)) return TRUE;
    if (folder[0] == '\0') return FALSE;
    folder[strlen(folder) - 1] = '\0';
    char *slash = strrchr(folder, '/');
    folder[slash == NULL ? 0 : slash + 1 - folder] = '\0';
  }
}

static gboolean are_digits(const char *p) {
  for (guint i = 0; i < SHARD_DIGITS; i++)
    if (!g_ascii_isdigit(p[i])) return FALSE;
  return TRUE;
}

/* Finds "-00001-of-00003" before the last dot; *mark points at its first byte. */
static gboolean find_shard_mark(const char *path, const char **mark, guint *of) {
  const char *dot = strrchr(path, '.');
  if (dot == NULL || dot - path < SHARD_MARK_SIZE) return FALSE;
  const char *p = dot - SHARD_MARK_SIZE;
  if (p[0] != '-' || !are_digits(p + 1) || memcmp(p + 1 + SHARD_DIGITS, "-of-", 4) != 0 ||
      !are_digits(dot - SHARD_DIGITS))
    return FALSE;
  *mark = p;
  *of = (guint)g_ascii_strtoull(dot - SHARD_DIGITS, NULL, 10);
  return TRUE;
}

/* The other files of a numbered set must be there; looked at once for each set. */
static void check_numbered(Check *check, const char *path) {
  const char *mark;
  guint of;
  if (!find_shard_mark(path, &mark, &of)) return;
  int prefix = (int)(mark - path);
  const char *suffix = mark + SHARD_MARK_SIZE;
  char *group = g_strdup_printf("%.*s-of-%05u%s", prefix, path, of, suffix);
  if (!g_hash_table_add(check->groups, group)) return;
  Missing missing = {g_string_new(NULL), g_string_new(NULL), 0, 0};
  for (guint k = 1; k <= of; k++) {
    g_autofree char *other = g_strdup_printf("%.*s-%05u-of-%05u%s", prefix, path, k, of, suffix);
    guint64 i;
    if (!find_file(check, other, &i)) note_missing(check, &missing, other);
  }
  add_missing(check, path, "is one of a set with", &missing);
}

static gboolean check_weight_file(Check *check, guint64 i, GError **error) {
  const char *path = check->input->files[i].path;
  if (!check->is_judged[i]) {
    g_autoptr(BlTensorTable) table = NULL;
    if (!judge(check, i, &table, error)) return FALSE;
  }
  if (check->is_named[i]) return TRUE;
  if (is_below_index(check, path)) {
    g_autofree char *shown = bl_path_display(path);
    add(check, BL_LAYOUT_WARNING, path,
        g_strdup_printf("%s: no shard index names this weight file", shown));
  }
  if (bl_model_format_from_path(path) != BL_MODEL_FORMAT_NONE) check_numbered(check, path);
  return TRUE;
}

static gboolean check_all(Check *check, GError **error) {
  const BlLayoutFile *files = check->input->files;
  guint64 n = check->input->n_files;
  for (guint64 i = 0; i < n; i++)
    g_hash_table_insert(check->numbers, (gpointer)(guintptr)files[i].path, GSIZE_TO_POINTER(i + 1));
  for (guint64 i = 0; i < n; i++)
    if (bl_shard_index_is_path(files[i].path) && !check_index(check, i, error)) return FALSE;
  for (guint64 i = 0; i < n; i++)
    if (is_weight_file(&files[i]) && !check_weight_file(check, i, error)) return FALSE;
  return TRUE;
}

BlLayoutResult *bl_layout_check(const BlLayoutInput *input, gboolean deep, GError **error) {
  g_autoptr(BlLayoutResult) result = g_new0(BlLayoutResult, 1);
  g_autoptr(GHashTable) numbers = g_hash_table_new(g_str_hash, g_str_equal);
  g_autoptr(GHashTable) folders = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) groups = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autofree guint8 *is_named = g_malloc0(input->n_files);
  g_autofree guint8 *is_judged = g_malloc0(input->n_files);
  result->findings = g_ptr_array_new_with_free_func(finding_free);
  Check check = {input, result, deep, numbers, folders, groups, is_named, is_judged};
  return check_all(&check, error) ? g_steal_pointer(&result) : NULL;
}
