/* Stores with everything that upkeep has to tell apart. */
#pragma once

#include "checkpoint.h"
#include "golden.h"
#include "store/claim.h"
#include "store/memory.h"
#include "upkeep/finding.h"

static const TestFile upkeep_files[] = {{.path = "config.json", .size = 30},
                                        {.path = "model.safetensors", .size = 5000}};

static inline void upkeep_put_ready(BlStore *store, const char *id) {
  test_put_checkpoint(store, id, upkeep_files, G_N_ELEMENTS(upkeep_files),
                      TEST_DIGESTS | TEST_INFO);
}

/* As an import that was killed leaves it: one object is there. */
static inline void upkeep_put_failed(BlStore *store, const char *id) {
  g_autoptr(GError) error = NULL;
  BlKeyBuffer key;
  upkeep_put_ready(store, id);
  g_autoptr(BlManifest) manifest = bl_manifest_load(store, id, 0, &error);
  g_assert_no_error(error);
  manifest->is_ready = FALSE;
  manifest->error = g_strdup("import in progress, or interrupted");
  g_assert_true(bl_manifest_save(store, manifest, &error));
  g_assert_true(bl_store_remove(store, bl_key_chunk(key, id, "config.json", 0), &error));
  g_assert_no_error(error);
}

/* A claim whose owner is dead: of another boot, held by nobody. */
static inline void upkeep_put_dead_claim(BlStore *store, const char *id) {
  BlKeyBuffer prefix;
  g_autofree char *claim = g_strconcat(bl_key_prefix(prefix, id), "claim", NULL);
  g_autofree char *beat = g_strconcat(prefix, "claim-beat/00112233445566778899aabbccddeeff", NULL);
  g_autofree char *boot = NULL, *name_space = g_file_read_link("/proc/self/ns/pid", NULL);
  g_assert_true(g_file_get_contents("/proc/sys/kernel/random/boot_id", &boot, NULL, NULL));
  g_autofree char *text = g_strdup_printf(
      "{\"boot_id\":\"%s\",\"host\":\"h\",\"operation\":\"import\",\"pid\":1,\"pid_namespace\":"
      "\"%s\",\"schema_version\":1,\"start_time\":1,\"started_at\":5,\"token\":"
      "\"00112233445566778899aabbccddeeff\"}",
      g_strchomp(boot), name_space);
  put_text(store, claim, text);
  put_text(store, beat, "3");
}

static inline gboolean upkeep_has(BlStore *store, const char *key) {
  guint64 size;
  return bl_store_size(store, key, &size, NULL);
}

/* A local store in a folder of its own, which upkeep_remove takes away. */
static inline BlStore *upkeep_dir_store(char **folder) {
  g_autoptr(GError) error = NULL;
  *folder = g_dir_make_tmp("ballast-upkeep-XXXXXX", &error);
  g_assert_no_error(error);
  BlStore *store = bl_store_open(*folder, TRUE, &error);
  g_assert_no_error(error);
  return store;
}

/* READY "a" with an orphan, a reservation and a foreign object; FAILED "f" with a dead owner's
 * claim; "n" without a manifest; the last use of one that is gone. Six things that gc removes. */
static inline void upkeep_put_garbage(BlStore *store) {
  BlKeyBuffer key;
  upkeep_put_ready(store, "a");
  put_text(store, bl_key_chunk(key, "a", "other", 0), "orphan");
  put_text(store, "weight/models/a/reserved", "{}");
  put_text(store, "weight/models/a/notes", "mine");
  upkeep_put_failed(store, "f");
  upkeep_put_dead_claim(store, "f");
  put_text(store, bl_key_chunk(key, "n", "x", 0), "no manifest");
  put_text(store, "weight/used/gone", "{}");
}
