#include "model/manifest.h"

#include <string.h>

#include "golden.h"
#include "model/manifest_parse.h"
#include "store/claim.h"
#include "store/fault.h"

#define CAPS_WITHOUT_FD (BL_MEMORY_STORE_CAPS & ~BL_STORE_CAN_OPEN_FD)

static char *manifest_key(const char *id) {
  BlKeyBuffer key;
  return g_strdup(bl_key_manifest(key, id));
}

/* Loads text as the manifest of id. */
static BlManifest *load_text(const char *id, const char *text, gsize size, GError **error) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autofree char *key = manifest_key(id);
  put_object(store, key, text, size);
  return bl_manifest_load(store, id, 0, error);
}

static BlManifest *load_ok(const char *id, const char *text) {
  g_autoptr(GError) error = NULL;
  BlManifest *manifest = load_text(id, text, strlen(text), &error);
  g_assert_no_error(error);
  return manifest;
}

static void assert_key(const BlManifest *manifest, const BlManifestFile *file, guint32 i,
                       const char *expected) {
  BlKeyBuffer key;
  g_assert_cmpstr(bl_manifest_chunk_key(manifest, file, i, key), ==, expected);
}

static void test_save_is_golden(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autofree char *key = manifest_key(GOLDEN_ID);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlManifest) failed = golden_manifest(FALSE);
  bl_manifest_save(store, failed, &error);
  g_assert_no_error(error);
  assert_golden(store, key, "manifest-failed.json");
  g_autoptr(BlManifest) ready = golden_manifest(TRUE);
  bl_manifest_save(store, ready, &error);
  g_assert_no_error(error);
  assert_golden(store, key, "manifest-ready.json");
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "manifest-ready.json", &size);
  guint8 digest[BL_SHA256_SIZE];
  bl_sha256(text, size, digest);
  g_assert_cmpmem(ready->sha256, sizeof digest, digest, sizeof digest);
}

static void assert_same(const BlManifest *manifest, const BlManifest *expected) {
  g_assert_cmpstr(manifest->checkpoint_id, ==, expected->checkpoint_id);
  g_assert_cmpstr(manifest->model_id, ==, expected->model_id);
  g_assert_cmpstr(manifest->revision, ==, expected->revision);
  g_assert_cmpstr(manifest->source_uri, ==, expected->source_uri);
  g_assert_cmpstr(manifest->error, ==, expected->error);
  g_assert_cmpint(manifest->is_ready, ==, expected->is_ready);
  g_assert_cmpint(manifest->created_at, ==, expected->created_at);
  g_assert_cmpint(manifest->updated_at, ==, expected->updated_at);
  g_assert_cmpuint(manifest->total_size, ==, expected->total_size);
  g_assert_cmpuint(manifest->n_files, ==, expected->n_files);
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const BlManifestFile *a = &manifest->files[i], *b = &expected->files[i];
    g_assert_cmpstr(a->path, ==, b->path);
    g_assert_cmpuint(a->size, ==, b->size);
    g_assert_cmpmem(a->sha256, sizeof a->sha256, b->sha256, sizeof b->sha256);
    g_assert_cmpuint(a->is_weight, ==, b->is_weight);
    g_assert_cmpuint(a->has_sha256, ==, b->has_sha256);
  }
}

static void test_load(void) {
  gsize size;
  g_autofree char *ready_text = golden_load("docs/formats/golden", "manifest-ready.json", &size);
  g_autofree char *failed_text = golden_load("docs/formats/golden", "manifest-failed.json", &size);
  g_autoptr(BlManifest) expected = golden_manifest(TRUE), expected_failed = golden_manifest(FALSE);
  g_autoptr(BlManifest) ready = load_ok(GOLDEN_ID, ready_text);
  g_autoptr(BlManifest) failed = load_ok(GOLDEN_ID, failed_text);
  assert_same(ready, expected);
  assert_same(failed, expected_failed);
  g_assert_cmpuint(ready->odd_keys->len, ==, 0);
  for (guint64 i = 0; i < ready->n_files; i++) {
    g_assert_cmpuint(ready->files[i].n_chunks, ==, expected->files[i].n_chunks);
    g_assert_cmpuint(ready->files[i].chunk_size, ==, expected->files[i].chunk_size);
    g_assert_cmpuint(failed->files[i].n_chunks, ==, expected->files[i].n_chunks);
  }
}

static void test_schema_1(void) {
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "manifest-schema-1.json", &size);
  g_autoptr(BlManifest) manifest = load_ok(GOLDEN_ID, text);
  g_autoptr(BlManifest) expected = golden_manifest(TRUE);
  assert_same(manifest, expected);
  g_assert_cmpuint(manifest->schema_version, ==, 1);
  for (guint64 i = 0; i < manifest->n_files; i++) {
    const BlManifestFile *file = &manifest->files[i];
    g_assert_true(file->is_whole);
    g_assert_cmpuint(file->n_chunks, ==, file->size > 0);
    if (file->n_chunks == 0) continue;
    BlKeyBuffer key;
    assert_key(manifest, file, 0, bl_key_file(key, GOLDEN_ID, file->path));
    g_assert_cmpuint(bl_manifest_chunk_size(file, 0), ==, file->size);
  }
}

/* Saved again, a whole object becomes the only chunk of its file, so that every reader finds it. */
static void test_schema_1_saved_again(void) {
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "manifest-schema-1.json", &size);
  g_autoptr(BlManifest) manifest = load_ok(GOLDEN_ID, text);
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  bl_manifest_save(store, manifest, &error);
  g_assert_no_error(error);
  g_autoptr(BlManifest) again = bl_manifest_load(store, GOLDEN_ID, 0, &error);
  g_assert_no_error(error);
  assert_same(again, manifest);
  BlManifestFile *file = bl_manifest_find(again, "model.safetensors");
  g_assert_false(file->is_whole);
  g_assert_cmpuint(file->n_chunks, ==, 1);
  g_assert_cmpuint(file->chunk_size, ==, file->size);
  BlKeyBuffer key;
  assert_key(again, file, 0, bl_key_file(key, GOLDEN_ID, file->path));
}

static const char *one_file(const char *members, const char *status, guint64 total) {
  static char text[4096];
  g_snprintf(text, sizeof text,
             "{\"files\":[{%s}],\"status\":\"%s\",\"error\":%s,\"schema_version\":2,\"checkpoint_"
             "id\":\"x\",\"model_id\":"
             "\"m\",\"revision\":\"r\",\"source_uri\":\"s\",\"created_at\":1,\"updated_at\":2,"
             "\"total_size\":%" G_GUINT64_FORMAT "}",
             members, status, strcmp(status, "READY") == 0 ? "null" : "\"e\"", total);
  return text;
}

#define SHA "\"sha256\":\"84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882\""
#define HEAD "\"path\":\"a\",\"type\":\"WEIGHT\",\"key\":\"k\","

static void test_chunk_size_unknown(void) {
  g_autoptr(BlManifest) manifest =
      load_ok("x", one_file(HEAD SHA ",\"size\":10,\"chunks\":[\"k/0\",\"k/1\"]", "READY", 10));
  g_assert_cmpuint(manifest->files[0].chunk_size, ==, 0);
  g_assert_cmpuint(manifest->files[0].n_chunks, ==, 2);
  g_autoptr(BlManifest) one = load_ok(
      "x", one_file(HEAD SHA ",\"size\":10,\"chunk_size\":0,\"chunks\":[\"k/0\"]", "READY", 10));
  g_assert_cmpuint(bl_manifest_chunk_size(&one->files[0], 0), ==, 10);
}

static void test_chunk_sizes(void) {
  g_autoptr(BlManifest) manifest = load_ok(
      "x", one_file(HEAD SHA ",\"size\":10,\"chunk_size\":4,\"chunks\":[\"k/0\",\"k/1\",\"k/2\"]",
                    "READY", 10));
  g_assert_cmpuint(bl_manifest_chunk_size(&manifest->files[0], 0), ==, 4);
  g_assert_cmpuint(bl_manifest_chunk_size(&manifest->files[0], 1), ==, 4);
  g_assert_cmpuint(bl_manifest_chunk_size(&manifest->files[0], 2), ==, 2);
  g_autoptr(BlManifest) roomy = load_ok(
      "x", one_file(HEAD SHA ",\"size\":10,\"chunk_size\":64,\"chunks\":[\"k/0\"]", "READY", 10));
  g_assert_cmpuint(bl_manifest_chunk_size(&roomy->files[0], 0), ==, 10);
}

/* Of a FAILED manifest all keys count, whatever its sizes say. */
static void test_failed_keeps_keys(void) {
  const char *members =
      HEAD "\"sha256\":\"\",\"size\":0,\"chunk_size\":4,\"chunks\":[\"k/0\",\"k/1\"]";
  g_autoptr(BlManifest) manifest = load_ok("x", one_file(members, "FAILED", 99));
  g_assert_cmpstr(manifest->error, ==, "e");
  g_assert_cmpuint(manifest->total_size, ==, 99);
  g_assert_cmpuint(manifest->files[0].n_chunks, ==, 2);
  assert_key(manifest, &manifest->files[0], 1, "k/1");
  g_autoptr(BlManifest) whole =
      load_ok("x", one_file(HEAD "\"sha256\":\"\",\"size\":0", "FAILED", 0));
  g_assert_cmpuint(whole->files[0].n_chunks, ==, 1);
  assert_key(whole, &whole->files[0], 0, "k");
}

/* Keys that follow from the path are not kept; any that do not turns all of its file's into
 * strings, wherever it stands. */
static void test_odd_keys(void) {
  for (guint odd = 0; odd < 4; odd++) {
    g_autoptr(GString) chunks = g_string_new(NULL);
    BlKeyBuffer key;
    for (guint i = 0; i < 3; i++) {
      bl_key_chunk(key, "x", "a", i);
      g_string_append_printf(chunks, "%s\"%s\"", i > 0 ? "," : "", i == odd ? "odd/key" : key);
    }
    g_autofree char *members =
        g_strdup_printf("\"chunk_size\":4,\"chunks\":[%s]," HEAD SHA ",\"size\":10", chunks->str);
    g_autoptr(BlManifest) manifest = load_ok("x", one_file(members, "READY", 10));
    g_assert_cmpuint(manifest->odd_keys->len, ==, odd < 3 ? 3 : 0);
    for (guint i = 0; i < 3; i++) {
      bl_key_chunk(key, "x", "a", i);
      assert_key(manifest, &manifest->files[0], i, i == odd ? "odd/key" : key);
    }
  }
}

/* Keys of our layout, but of another path, or with another first number. */
static void test_keys_of_another_path(void) {
  const struct {
    const char *path;
    guint32 first;
  } cases[] = {{"b", 0}, {"a", 1}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    BlKeyBuffer first, second;
    bl_key_chunk(first, "x", cases[i].path, cases[i].first);
    bl_key_chunk(second, "x", cases[i].path, cases[i].first + 1);
    g_autofree char *members = g_strdup_printf(
        "\"chunk_size\":5,\"chunks\":[\"%s\",\"%s\"]," HEAD SHA ",\"size\":10", first, second);
    g_autoptr(BlManifest) manifest = load_ok("x", one_file(members, "READY", 10));
    assert_key(manifest, &manifest->files[0], 0, first);
    assert_key(manifest, &manifest->files[0], 1, second);
  }
}

static void test_odd_keys_saved_again(void) {
  const char *members =
      HEAD SHA ",\"size\":10,\"chunk_size\":4,\"chunks\":[\"k/0\",\"k/1\",\"k/2\"]";
  g_autoptr(BlManifest) manifest = load_ok("x", one_file(members, "READY", 10));
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  bl_manifest_save(store, manifest, &error);
  g_assert_no_error(error);
  g_autoptr(BlManifest) again = bl_manifest_load(store, "x", 0, &error);
  g_assert_no_error(error);
  assert_key(again, &again->files[0], 2, "k/2");
}

static void test_header_only(void) {
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "manifest-ready.json", &size);
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autofree char *key = manifest_key(GOLDEN_ID);
  put_object(store, key, text, size);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlManifest) manifest =
      bl_manifest_load(store, GOLDEN_ID, BL_MANIFEST_HEADER_ONLY, &error);
  g_assert_no_error(error);
  g_assert_null(manifest->files);
  g_assert_cmpuint(manifest->n_files, ==, G_N_ELEMENTS(golden_files));
  g_assert_cmpuint(manifest->total_size, ==, GOLDEN_SHARD_SIZE + 18);
  g_assert_true(manifest->is_ready);
}

/* What each input of tests/refuse/manifest must be told, in order of their names. */
static const char *const refused[][2] = {
    {"another-id", "ignores letter case"},
    {"chunk-key-illegal", "file number 1"},
    {"chunk-key-nul", "NUL"},
    {"chunk-key-too-long", "a key has more than 511 characters"},
    {"chunks-missing-one", "file \"a.bin\": 2 chunks; 10 bytes in chunks of 4 are 3"},
    {"chunks-none", "file \"a.bin\": it has no chunks"},
    {"chunks-not-strings", "\"chunks\" holds more than strings"},
    {"chunks-null", "\"chunks\" must be"},
    {"created-at-float", "\"created_at\" must be"},
    {"empty", "ends"},
    {"empty-file-with-chunks", "file \"a.bin\": it is empty, but has 3 chunks"},
    {"error-in-ready", "\"error\" is not null"},
    {"error-not-a-string", "\"error\" is neither a string nor null"},
    {"file-member-twice", "member \"size\" is there twice"},
    {"file-missing-key", "file \"a.bin\": \"key\" is missing"},
    {"file-missing-path", "\"path\" is missing"},
    {"file-missing-sha256", "file \"a.bin\": \"sha256\" is missing"},
    {"file-missing-size", "file \"a.bin\": \"size\" is missing"},
    {"file-missing-type", "file \"a.bin\": \"type\" is missing"},
    {"file-unknown-member", "unknown member \"mode\""},
    {"files-not-an-array", "\"files\" must be"},
    {"files-of-strings", "\"files\" holds more than objects"},
    {"member-twice", "member \"status\" is there twice"},
    {"missing-checkpoint-id", "\"checkpoint_id\" is missing"},
    {"missing-created-at", "\"created_at\" is missing"},
    {"missing-error", "\"error\" is missing"},
    {"missing-files", "\"files\" is missing"},
    {"missing-model-id", "\"model_id\" is missing"},
    {"missing-revision", "\"revision\" is missing"},
    {"missing-schema-version", "\"schema_version\" is missing"},
    {"missing-source-uri", "\"source_uri\" is missing"},
    {"missing-status", "\"status\" is missing"},
    {"missing-total-size", "\"total_size\" is missing"},
    {"missing-updated-at", "\"updated_at\" is missing"},
    {"model-id-empty", "\"model_id\" is empty"},
    {"not-an-object", "\"manifest\" must be"},
    {"not-utf-8", "UTF-8"},
    {"path-absolute", "is absolute"},
    {"path-dot", "has the part \".\""},
    {"path-empty", "path is empty"},
    {"path-empty-part", "has an empty part"},
    {"path-is-folder", "its folder \"b\" is a file"},
    {"path-nul", "NUL"},
    {"path-parent", "has the part \"..\""},
    {"path-twice", "file \"b/c.json\" is there twice"},
    {"schema-0", "\"schema_version\" is 0"},
    {"schema-3", "schema 3"},
    {"sha256-empty", "file \"a.bin\": \"sha256\" is empty"},
    {"sha256-short", "\"sha256\" is not 64 digits"},
    {"sha256-upper-case", "\"sha256\" is not 64 digits"},
    {"size-above-2-63", "\"size\" is more than 2^63-1"},
    {"size-string", "\"size\" must be"},
    {"sizes-overflow", "sum to more than 2^63-1"},
    {"status-unknown", "\"status\" is neither READY nor FAILED"},
    {"total-size-above-2-63", "\"total_size\" is more than 2^63-1"},
    {"total-size-negative", "\"total_size\" must be"},
    {"total-size-wrong", "\"total_size\" is 19, the files have 18 bytes"},
    {"trailing-bytes", "not valid JSON"},
    {"truncated", "not valid JSON"},
    {"type-unknown", "\"type\" is neither WEIGHT nor METADATA"},
    {"unknown-member", "unknown member \"owner\""},
    {"whole-key-illegal", "file \"a.bin\""},
};

static void test_refused(void) {
  g_autofree char *folder = g_test_build_filename(G_TEST_DIST, "refuse", "manifest", NULL);
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  g_assert_nonnull(dir);
  gsize n = 0;
  while (g_dir_read_name(dir) != NULL) n++;
  g_assert_cmpuint(n, ==, G_N_ELEMENTS(refused)); /* each input has its row */
  for (gsize i = 0; i < G_N_ELEMENTS(refused); i++) {
    g_autofree char *name = g_strconcat(refused[i][0], ".json", NULL);
    gsize size;
    g_autofree char *text = golden_load("tests/refuse/manifest", name, &size);
    g_autoptr(GError) error = NULL;
    g_test_message("%s", name);
    g_assert_null(load_text("x", text, size, &error));
    gboolean is_later = strcmp(refused[i][0], "schema-3") == 0;
    int code = is_later ? BL_ERROR_UNSUPPORTED : BL_ERROR_CORRUPT;
    g_assert_error(error, BL_ERROR, code);
    g_assert_true(g_str_has_prefix(error->message, "manifest of checkpoint \"x\": "));
    if (strstr(error->message, refused[i][1]) == NULL)
      g_error("%s: \"%s\" is not in: %s", name, refused[i][1], error->message);
  }
}

/* Every prefix of a manifest is refused, and no byte of it can be lost unseen. */
static void test_every_truncation(void) {
  gsize size;
  g_autofree char *text = golden_load("docs/formats/golden", "manifest-ready.json", &size);
  for (gsize n = 0; n < size; n++) {
    g_autoptr(GError) error = NULL;
    g_assert_null(load_text(GOLDEN_ID, text, n, &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  }
}

static void test_not_found(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  g_assert_null(bl_manifest_load(store, "x", 0, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_NOT_FOUND);
  g_clear_error(&error);
  g_assert_null(bl_manifest_load(store, "../x", 0, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
}

static void save_failed(BlStore *store, const char *id) {
  g_autoptr(BlManifest) manifest = bl_manifest_new(id, "m", "main", "/s");
  g_autoptr(GError) error = NULL;
  manifest->error = g_strdup("disk \x1b[31m full");
  bl_manifest_finish(manifest, &error);
  g_assert_no_error(error);
  bl_manifest_save(store, manifest, &error);
  g_assert_no_error(error);
}

static void test_load_ready(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  save_failed(store, "x");
  g_assert_null(bl_manifest_load_ready(store, "x", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
  g_assert_cmpstr(
      error->message, ==,
      "checkpoint \"x\" is not ready: disk \\x1b[31m full (import it again, or delete it)");
  g_clear_error(&error);
  BlKeyBuffer prefix;
  BlClaim *claim = bl_claim_acquire(store, bl_key_prefix(prefix, "x"), "import", 0, NULL, &error);
  g_assert_no_error(error);
  g_assert_null(bl_manifest_load_ready(store, "x", &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_BUSY);
  g_assert_nonnull(strstr(error->message, "import by host"));
  g_clear_error(&error);
  bl_claim_release(claim, &error);
  g_assert_no_error(error);

  g_autoptr(BlManifest) ready = golden_manifest(TRUE);
  bl_manifest_save(store, ready, &error);
  g_assert_no_error(error);
  g_autoptr(BlManifest) loaded = bl_manifest_load_ready(store, GOLDEN_ID, &error);
  g_assert_no_error(error);
  assert_same(loaded, ready);
}

/* Whatever fails, the manifest that was there stays, and is read again. */
static void test_save_faults(void) {
  g_autoptr(BlStore) store = bl_fault_store_new(bl_memory_store_new(BL_MEMORY_STORE_CAPS));
  g_autoptr(GError) error = NULL;
  g_autoptr(BlManifest) failed = golden_manifest(FALSE), ready = golden_manifest(TRUE);
  bl_manifest_save(store, failed, &error);
  g_assert_no_error(error);
  BlFaultRule rule = {
      .op = BL_FAULT_ANY, .n = 1, .times = 1, .fails = TRUE, .code = BL_ERROR_NO_SPACE};
  for (;; rule.n++) {
    bl_fault_store_set_rule(store, &rule);
    gboolean saved = bl_manifest_save(store, ready, &error);
    guint64 n_hits = bl_fault_store_n_hits(store);
    bl_fault_store_set_rule(store, &(BlFaultRule){0});
    if (n_hits == 0) break;
    g_assert_false(saved);
    g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
    g_assert_true(
        g_str_has_prefix(error->message, "checkpoint \"" GOLDEN_ID "\": writing its manifest: "));
    g_clear_error(&error);
    g_autoptr(BlManifest) loaded = bl_manifest_load(store, GOLDEN_ID, 0, &error);
    g_assert_no_error(error);
    assert_same(loaded, failed);
  }
  g_assert_no_error(error);
  g_assert_cmpuint(rule.n, >, 3); /* open, write, commit */
}

static void test_types(void) {
  g_autoptr(BlManifest) manifest = bl_manifest_new("x", "m", "r", "s");
  const char *weights[] = {"a.bin", "a.CKPT", "d/a.gguf", "a.pt", "a.pth", "a.SafeTensors", ".bin"};
  const char *others[] = {"a.json", "bin", "a.bin.index.json", "a.ptx", "a.safetensors.md", "pt"};
  for (gsize i = 0; i < G_N_ELEMENTS(weights); i++)
    g_assert_true(bl_manifest_add(manifest, weights[i])->is_weight);
  for (gsize i = 0; i < G_N_ELEMENTS(others); i++)
    g_assert_false(bl_manifest_add(manifest, others[i])->is_weight);
}

static void test_finish(void) {
  const struct {
    const char *paths[4], *fault;
  } cases[] = {
      {{"a", "a-b", "a/b"}, "its folder \"a\" is a file"},
      {{"x/y/z", "x/y"}, "its folder \"x/y\" is a file"},
      {{"a", "b", "a"}, "file \"a\" is there twice"},
      {{"a-b", "a.b", "ab", "a/b"}, NULL},
      {{"d/a", "d/b", "d/c/a", "e"}, NULL},
      {{"cafe\xcc\x81", "caf\xc3\xa9", "A", "a"}, NULL},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(BlManifest) manifest = bl_manifest_new("x", "m", "r", "s");
    g_autoptr(GError) error = NULL;
    for (gsize j = 0; j < 4 && cases[i].paths[j] != NULL; j++)
      bl_manifest_add(manifest, cases[i].paths[j])->size = 5;
    gboolean done = bl_manifest_finish(manifest, &error);
    g_assert_cmpint(done, ==, cases[i].fault == NULL);
    if (!done) {
      g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
      g_assert_nonnull(strstr(error->message, cases[i].fault));
      continue;
    }
    g_assert_cmpuint(manifest->total_size, ==, 20);
    for (gsize j = 0; j < 4; j++)
      g_assert_cmpstr(bl_manifest_find(manifest, cases[i].paths[j])->path, ==, cases[i].paths[j]);
    g_assert_null(bl_manifest_find(manifest, "missing"));
  }
}

static BlManifest *many_files(guint n) {
  BlManifest *manifest = bl_manifest_new("x", "m", "r", "s");
  manifest->is_ready = TRUE;
  for (guint i = 0; i < n; i++) {
    char path[64];
    g_snprintf(path, sizeof path, "folder-%03u/part-%06u.bin", i / 1000, i);
    BlManifestFile *file = bl_manifest_add(manifest, path);
    file->size = file->chunk_size = 16384;
    file->n_chunks = 1;
    file->has_sha256 = TRUE;
  }
  return manifest;
}

/* The most files there may be; the object of some 45 MB is read in pieces, with and without
 * descriptors. */
static void test_most_files(void) {
  const BlStoreCaps caps[] = {BL_MEMORY_STORE_CAPS, CAPS_WITHOUT_FD};
  for (gsize i = 0; i < G_N_ELEMENTS(caps); i++) {
    g_autoptr(BlStore) store = bl_memory_store_new(caps[i]);
    g_autoptr(GError) error = NULL;
    g_autoptr(BlManifest) manifest = many_files(BL_MANIFEST_MAX_FILES);
    bl_manifest_finish(manifest, &error);
    g_assert_no_error(error);
    bl_manifest_save(store, manifest, &error);
    g_assert_no_error(error);
    g_autoptr(BlManifest) loaded = bl_manifest_load(store, "x", 0, &error);
    g_assert_no_error(error);
    assert_same(loaded, manifest);
    g_assert_cmpmem(loaded->sha256, BL_SHA256_SIZE, manifest->sha256, BL_SHA256_SIZE);
    g_assert_cmpuint(loaded->odd_keys->len, ==, 0);
  }
}

static void test_too_many_files(void) {
  g_autoptr(BlStore) store = bl_memory_store_new(BL_MEMORY_STORE_CAPS);
  g_autoptr(GError) error = NULL;
  g_autoptr(BlManifest) manifest = many_files(BL_MANIFEST_MAX_FILES + 1);
  g_assert_false(bl_manifest_finish(manifest, &error));
  g_assert_error(error, BL_ERROR, BL_ERROR_INVALID);
  g_clear_error(&error);
  bl_manifest_save(store, manifest, &error); /* as a peer without this limit would */
  g_assert_no_error(error);
  const BlManifestLoadFlags flags[] = {0, BL_MANIFEST_HEADER_ONLY};
  for (gsize i = 0; i < G_N_ELEMENTS(flags); i++) {
    g_assert_null(bl_manifest_load(store, "x", flags[i], &error));
    g_assert_error(error, BL_ERROR, BL_ERROR_CORRUPT);
    g_assert_nonnull(strstr(error->message, "more than 100000 files"));
    g_clear_error(&error);
  }
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/manifest/save-is-golden", test_save_is_golden);
  g_test_add_func("/manifest/load", test_load);
  g_test_add_func("/manifest/schema-1", test_schema_1);
  g_test_add_func("/manifest/schema-1-saved-again", test_schema_1_saved_again);
  g_test_add_func("/manifest/chunk-size-unknown", test_chunk_size_unknown);
  g_test_add_func("/manifest/chunk-sizes", test_chunk_sizes);
  g_test_add_func("/manifest/failed-keeps-keys", test_failed_keeps_keys);
  g_test_add_func("/manifest/odd-keys", test_odd_keys);
  g_test_add_func("/manifest/keys-of-another-path", test_keys_of_another_path);
  g_test_add_func("/manifest/odd-keys-saved-again", test_odd_keys_saved_again);
  g_test_add_func("/manifest/header-only", test_header_only);
  g_test_add_func("/manifest/refused", test_refused);
  g_test_add_func("/manifest/every-truncation", test_every_truncation);
  g_test_add_func("/manifest/not-found", test_not_found);
  g_test_add_func("/manifest/load-ready", test_load_ready);
  g_test_add_func("/manifest/save-faults", test_save_faults);
  g_test_add_func("/manifest/types", test_types);
  g_test_add_func("/manifest/finish", test_finish);
  g_test_add_func("/manifest/most-files", test_most_files);
  g_test_add_func("/manifest/too-many-files", test_too_many_files);
  return g_test_run();
}
