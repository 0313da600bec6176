#include "model/layout.h"

#include <string.h>

#include "base/error.h"
#include "memory_source.h"
#include "model/shard_index.h"

/* A folder in memory. */
typedef struct {
  GArray *files;    /* of BlLayoutFile */
  GPtrArray *bytes; /* of GByteArray*; NULL: its object is lost */
  MemoryBytes reading;
  const char *left_out;   /* prefix of paths that were left out */
  BlErrorCode open_error; /* of a lost one */
  guint n_open, n_opened;
} Folder;

static Folder *folder_new(void) {
  Folder *folder = g_new0(Folder, 1);
  folder->files = g_array_new(FALSE, FALSE, sizeof(BlLayoutFile));
  folder->bytes = g_ptr_array_new();
  folder->open_error = BL_ERROR_NOT_FOUND;
  return folder;
}

static void folder_free(Folder *folder) {
  g_assert_cmpuint(folder->n_open, ==, 0);
  for (guint i = 0; i < folder->bytes->len; i++) {
    GByteArray *bytes = g_ptr_array_index(folder->bytes, i);
    if (bytes != NULL) g_byte_array_unref(bytes);
  }
  g_ptr_array_unref(folder->bytes);
  g_array_unref(folder->files);
  g_free(folder);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Folder, folder_free)

/* Takes bytes. */
static void add_bytes(Folder *folder, const char *path, GByteArray *bytes) {
  BlLayoutFile file = {path, bytes != NULL ? bytes->len : 100};
  g_array_append_val(folder->files, file);
  g_ptr_array_add(folder->bytes, bytes);
}

static void add_text(Folder *folder, const char *path, const char *text) {
  GByteArray *bytes = g_byte_array_new();
  g_byte_array_append(bytes, (const guint8 *)text, (guint)strlen(text));
  add_bytes(folder, path, bytes);
}

/* A shard with the tensors named by single letters, 4 bytes each. */
static void add_shard(Folder *folder, const char *path, const char *letters) {
  g_autoptr(GString) header = g_string_new("{");
  for (guint i = 0; letters[i] != '\0'; i++)
    g_string_append_printf(header,
                           "%s\"%c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
                           i > 0 ? "," : "", letters[i], i * 4, i * 4 + 4);
  g_string_append_c(header, '}');
  add_bytes(folder, path, safetensors_file(header->str, 4 * strlen(letters)));
}

static gboolean folder_open(gpointer user, guint64 i, BlByteSource *source, GError **error) {
  Folder *folder = user;
  const GByteArray *bytes = g_ptr_array_index(folder->bytes, i);
  if (bytes == NULL) return bl_error_set(error, folder->open_error, "object is lost");
  g_assert_cmpuint(folder->n_open++, ==, 0);
  folder->n_opened++;
  *source = memory_source(&folder->reading, bytes->data, bytes->len);
  return TRUE;
}

static void folder_close(gpointer user, BlByteSource *source) {
  Folder *folder = user;
  (void)source;
  folder->n_open--;
}

static gboolean is_left_out(gpointer user, const char *path) {
  Folder *folder = user;
  return folder->left_out != NULL && g_str_has_prefix(path, folder->left_out);
}

static BlLayoutResult *check_folder(Folder *folder, gboolean deep, GError **error) {
  BlLayoutInput input = {(BlLayoutFile *)(void *)folder->files->data,
                         folder->files->len,
                         folder_open,
                         folder_close,
                         is_left_out,
                         folder};
  return bl_layout_check(&input, deep, error);
}

/* Each finding as "E path: text", a line each. */
static char *findings(Folder *folder, gboolean deep) {
  g_autoptr(GError) error = NULL;
  g_autoptr(BlLayoutResult) result = check_folder(folder, deep, &error);
  g_assert_no_error(error);
  g_autoptr(GString) out = g_string_new(NULL);
  for (guint i = 0; i < result->findings->len; i++) {
    const BlLayoutFinding *finding = g_ptr_array_index(result->findings, i);
    g_string_append_printf(out, "%c %s: %s\n", "EUW"[finding->level], finding -> path,
                           finding -> text);
  }
  g_assert_cmpuint(result->n[0] + result->n[1] + result->n[2], ==, result->findings->len);
  return g_string_free(g_steal_pointer(&out), FALSE);
}

static void assert_findings(Folder *folder, gboolean deep, const char *wanted) {
  g_autofree char *found = findings(folder, deep);
  g_assert_cmpstr(found, ==, wanted);
}

#define INDEX "model.safetensors.index.json"
#define S1 "model-00001-of-00002.safetensors"
#define S2 "model-00002-of-00002.safetensors"

static const char index_ab[] =
    "{\"metadata\":{\"total_size\":8,\"x\":[{}]},\"weight_map\":{\"a\":\"" S1 "\",\"b\":\"" S2
    "\"},\"other\":[1,{\"k\":null}]}";

static void test_right(void) {
  g_autoptr(Folder) folder = folder_new();
  add_text(folder, "config.json", "{}");
  add_text(folder, "sub/" INDEX, index_ab);
  add_shard(folder, "sub/" S1, "a");
  add_shard(folder, "sub/" S2, "b");
  add_shard(folder, "other/model.safetensors", "xyz");
  assert_findings(folder, FALSE, "");
  assert_findings(folder, TRUE, "");
  /* Index once, each of the three headers once, in each of the two depths. */
  g_assert_cmpuint(folder->n_opened, ==, 8);
}

static void test_missing_shard(void) {
  g_autoptr(Folder) folder = folder_new();
  add_text(folder, INDEX, index_ab);
  add_shard(folder, S1, "a");
  const char *wanted = "E " INDEX ": " INDEX " names 1 shard that is not there: " S2 "\n";
  assert_findings(folder, FALSE, wanted);
  assert_findings(folder, TRUE, wanted);
  folder->left_out = "model-00002";
  assert_findings(folder, FALSE,
                  "W " INDEX ": " INDEX " names 1 shard that was left out: " S2 "\n");
}

static void test_many_missing(void) {
  g_autoptr(Folder) folder = folder_new();
  g_autoptr(GString) index = g_string_new("{\"weight_map\":{");
  for (guint i = 1; i <= 100; i++)
    g_string_append_printf(index, "%s\"t%u\":\"s%u.safetensors\"", i > 1 ? "," : "", i, i);
  g_string_append(index, "}}");
  add_text(folder, INDEX, index->str);
  g_autofree char *found = findings(folder, FALSE);
  g_assert_nonnull(
      strstr(found, "names 100 shards that are not there: s1.safetensors, s2.safetensors"));
  g_assert_nonnull(strstr(found, "s19.safetensors, …\n"));
}

static void test_tensor_not_in_shard(void) {
  g_autoptr(Folder) folder = folder_new();
  add_text(folder, INDEX, index_ab);
  add_shard(folder, S1, "a");
  add_shard(folder, S2, "c");
  assert_findings(folder, FALSE, "");
  assert_findings(folder, TRUE,
                  "E " INDEX ": " INDEX " does not name tensor \"c\", which " S2
                  " holds\n"
                  "E " INDEX ": " INDEX " says that " S2
                  " holds tensor \"b\", but its header lacks it\n");
}

/* A later shard that holds a tensor again: the index decides, a warning tells. */
static void test_tensor_in_two_shards(void) {
  g_autoptr(Folder) folder = folder_new();
  add_text(folder, INDEX,
           "{\"metadata\":{\"total_size\":12},\"weight_map\":{\"a\":\"" S2 "\",\"b\":\"" S2 "\"}}");
  add_shard(folder, S1, "a");
  add_shard(folder, S2, "ab");
  add_text(folder, "second.safetensors.index.json",
           "{\"weight_map\":{\"a\":\"" S2 "\",\"b\":\"" S2 "\",\"z\":\"" S1 "\"}}");
  assert_findings(folder, TRUE,
                  "W " INDEX ": " INDEX
                  ": total_size is 12, the shards hold 8 bytes\n"
                  "W second.safetensors.index.json: tensor \"a\" is in " S2 " and in " S1
                  "; second.safetensors.index.json names the first\n"
                  "E second.safetensors.index.json: second.safetensors.index.json says that " S1
                  " holds tensor \"z\", but its header lacks it\n");
}

static void test_total_size(void) {
  static const struct {
    const char *value;
    gboolean warns;
  } cases[] = {
      {"8", FALSE}, {"9", TRUE}, {"8.0", FALSE}, {"\"9\"", FALSE}, {"{\"total_size\":9}", FALSE}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Folder) folder = folder_new();
    g_autofree char *index = g_strdup_printf(
        "{\"metadata\":{\"total_size\":%s},\"weight_map\":{"
        "\"a\":\"" S1 "\",\"b\":\"" S2 "\"}}",
        cases[i].value);
    add_text(folder, INDEX, index);
    add_shard(folder, S1, "a");
    add_shard(folder, S2, "b");
    assert_findings(
        folder, TRUE,
        cases[i].warns ? "W " INDEX ": " INDEX ": total_size is 9, the shards hold 8 bytes\n" : "");
  }
}

/* Two splits in one folder, a copy below it, small helpers: what no index names is told, and kept.
 */
static void test_not_named(void) {
  g_autoptr(Folder) folder = folder_new();
  add_text(folder, INDEX, index_ab);
  add_shard(folder, S1, "a");
  add_shard(folder, S2, "b");
  add_shard(folder, "model-00001-of-00001.safetensors", "ab");
  add_shard(folder, "original/consolidated.safetensors", "ab");
  add_text(folder, "training_args.bin", "small");
  GByteArray *large = g_byte_array_new();
  g_byte_array_set_size(large, 1024 * 1024);
  add_bytes(folder, "original/a/b.pth", large);
  const char *wanted =
      "W model-00001-of-00001.safetensors: model-00001-of-00001.safetensors: no shard index names "
      "this weight file\n"
      "W original/consolidated.safetensors: original/consolidated.safetensors: no shard index "
      "names "
      "this weight file\n"
      "W original/a/b.pth: original/a/b.pth: no shard index names this weight file\n";
  assert_findings(folder, FALSE, wanted);
  assert_findings(folder, TRUE, wanted);
}

static void test_numbered_without_index(void) {
  g_autoptr(Folder) folder = folder_new();
  add_shard(folder, "q/m-00001-of-00004.safetensors", "a");
  add_shard(folder, "q/m-00003-of-00004.safetensors", "b");
  add_shard(folder, "m-0001-of-0004.safetensors", "b");
  add_shard(folder, "m-00001-of-00001.safetensors", "b");
  assert_findings(
      folder, FALSE,
      "E q/m-00001-of-00004.safetensors: q/m-00001-of-00004.safetensors is one of a set "
      "with 2 shards that are not there: q/m-00002-of-00004.safetensors, "
      "q/m-00004-of-00004.safetensors\n");
  folder->left_out = "q/m-00004";
  g_autofree char *found = findings(folder, FALSE);
  g_assert_nonnull(strstr(found, "1 shard that is not there: q/m-00002-of-00004.safetensors\n"));
  g_assert_nonnull(strstr(found, "1 shard that was left out: q/m-00004-of-00004.safetensors\n"));
}

static void test_headers(void) {
  g_autoptr(Folder) folder = folder_new();
  add_text(folder, "empty.safetensors", "");
  add_text(folder, "pointer.gguf", "version https://git-lfs.github.com/spec/v1\noid x\nsize 1\n");
  add_bytes(folder, "bad.safetensors", safetensors_file("{\"a\":1}", 0));
  add_bytes(folder, "new.safetensors",
            safetensors_file("{\"a\":{\"dtype\":\"F1\",\"shape\":[8],\"data_offsets\":[0,1]}}", 1));
  add_text(folder, "__init__.py", "");
  add_bytes(folder, "lost.safetensors", NULL);
  const char *both =
      "E empty.safetensors: empty.safetensors: the file is empty\n"
      "E pointer.gguf: pointer.gguf: this is a Git LFS pointer (oid x, size 1), not the file "
      "itself: "
      "run \"git lfs pull\" or download it again\n";
  g_autofree char *quick = g_strconcat(both, "E lost.safetensors: object is lost\n", NULL);
  assert_findings(folder, FALSE, quick);
  g_autofree char *deep = g_strconcat(
      both,
      "E bad.safetensors: bad.safetensors: tensor \"a\": must be an object with dtype, shape and "
      "data_offsets\n"
      "U new.safetensors: new.safetensors: dtypes that this version of ballast does not know: "
      "\"F1\"\n"
      "E lost.safetensors: object is lost\n",
      NULL);
  assert_findings(folder, TRUE, deep);
}

/* A shard that cannot be read is one finding, however often indexes name it, and its tensors are
 * not called absent. */
static void test_broken_shard_of_two_indexes(void) {
  g_autoptr(Folder) folder = folder_new();
  add_text(folder, INDEX, index_ab);
  add_text(folder, "b.safetensors.index.json", index_ab);
  add_shard(folder, S1, "a");
  add_text(folder, S2, "");
  assert_findings(folder, TRUE, "E " S2 ": " S2 ": the file is empty\n");
}

static void test_bad_indexes(void) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"", "index: not valid JSON at byte 0"},
      {"{\"weight_map\":{\"a\":\"" S1 "\"}", "not valid JSON"},
      {"[]", "\"the index\" must be an object, found an array"},
      {"{}", "it has no weight_map"},
      {"{\"weight_map\":[]}", "\"weight_map\" must be an object"},
      {"{\"weight_map\":{\"a\":1}}", "\"weight_map\" must be a string, found a number"},
      {"{\"weight_map\":{\"a\":\"../" S1 "\"}}", "names a shard that cannot be"},
      {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "names a shard that cannot be"},
      {"{\"weight_map\":{\"a\":\"" S1 "\\u0000x\"}}", "names a shard that cannot be"},
      {"{\"weight_map\":{\"a\":\"\"}}", "names a shard that cannot be"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    for (int deep = 0; deep < 2; deep++) {
      g_autoptr(Folder) folder = folder_new();
      add_text(folder, INDEX, cases[i].text);
      add_text(folder, S1, "");
      g_autofree char *found = findings(folder, deep);
      g_assert_true(g_str_has_prefix(found, "E " INDEX ": " INDEX ": "));
      g_assert_nonnull(strstr(found, cases[i].words));
    }
  }
}

static void test_read_errors(void) {
  g_autoptr(Folder) folder = folder_new();
  g_autoptr(GError) error = NULL;
  add_text(folder, INDEX, index_ab);
  add_shard(folder, S1, "a");
  add_bytes(folder, S2, NULL);
  assert_findings(folder, TRUE, "E " S2 ": object is lost\n");
  folder->open_error = BL_ERROR_UNAVAILABLE;
  for (int deep = 0; deep < 2; deep++) {
    g_assert_null(check_folder(folder, deep, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_UNAVAILABLE);
    g_clear_error(&error);
  }
}

static void test_index_of_names(void) {
  const char text[] =
      "{\"weight_map\":{\"b\":\"x\",\"a\":\"x\",\"b\":\"y\",\"\":\"y\",\"a\\u0000\":\"z\"}}";
  MemoryBytes bytes;
  BlByteSource source = memory_source(&bytes, text, sizeof text - 1);
  g_autoptr(BlShardIndex) index = bl_shard_index_read(&source, "i", NULL);
  g_assert_nonnull(index);
  g_assert_cmpuint(index->n_duplicates, ==, 1);
  g_assert_cmpuint(index->entries->len, ==, 4);
  g_assert_cmpstr(index->shards->pdata[bl_shard_index_find(index, "b", 1)->shard], ==, "y");
  g_assert_cmpstr(index->shards->pdata[bl_shard_index_find(index, "a", 1)->shard], ==, "x");
  g_assert_cmpstr(index->shards->pdata[bl_shard_index_find(index, "", 0)->shard], ==, "y");
  g_assert_cmpstr(index->shards->pdata[bl_shard_index_find(index, "a\0", 2)->shard], ==, "z");
  g_assert_null(bl_shard_index_find(index, "c", 1));
  g_assert_false(index->has_total_size);
}

static void test_findings_are_bounded(void) {
  g_autoptr(Folder) folder = folder_new();
  g_autoptr(GString) index = g_string_new("{\"weight_map\":{");
  for (guint i = 0; i < BL_LAYOUT_FINDINGS_MAX + 5; i++)
    g_string_append_printf(index, "%s\"t%u\":\"s.safetensors\"", i > 0 ? "," : "", i);
  g_string_append(index, "}}");
  add_text(folder, INDEX, index->str);
  add_shard(folder, "s.safetensors", "");
  g_autoptr(BlLayoutResult) result = check_folder(folder, TRUE, NULL);
  g_assert_cmpuint(result->findings->len, ==, BL_LAYOUT_FINDINGS_MAX);
  g_assert_cmpuint(result->n[BL_LAYOUT_ERROR], ==, BL_LAYOUT_FINDINGS_MAX + 5);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/layout/right", test_right);
  g_test_add_func("/layout/missing-shard", test_missing_shard);
  g_test_add_func("/layout/many-missing", test_many_missing);
  g_test_add_func("/layout/tensor-not-in-shard", test_tensor_not_in_shard);
  g_test_add_func("/layout/tensor-in-two-shards", test_tensor_in_two_shards);
  g_test_add_func("/layout/total-size", test_total_size);
  g_test_add_func("/layout/not-named", test_not_named);
  g_test_add_func("/layout/numbered-without-index", test_numbered_without_index);
  g_test_add_func("/layout/headers", test_headers);
  g_test_add_func("/layout/broken-shard-of-two-indexes", test_broken_shard_of_two_indexes);
  g_test_add_func("/layout/bad-indexes", test_bad_indexes);
  g_test_add_func("/layout/read-errors", test_read_errors);
  g_test_add_func("/layout/index-of-names", test_index_of_names);
  g_test_add_func("/layout/findings-are-bounded", test_findings_are_bounded);
  return g_test_run();
}
