#include "upkeep/objects.h"

#include <stdlib.h>
#include <string.h>

#include "model/key.h"

typedef struct {
  BlObjects *objects;
  const char *id;
  const BlClaim *own;
} Listing;

static void control_free(gpointer data) {
  BlControlObject *control = data;
  g_free(control->key);
  g_free(control);
}

void bl_objects_free(BlObjects *objects) {
  if (objects == NULL) return;
  g_free(objects->prefix);
  g_array_free(objects->chunks, TRUE);
  g_ptr_array_free(objects->controls, TRUE);
  g_free(objects);
}

static gboolean take_chunk(const Listing *listing, const char *key, const char *rest,
                           BlChunkObject *chunk) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  static const char files[] = "files/";
  if (bl_key_is_chunk(key, listing->id, hex, &chunk->chunk))
    return bl_hex_decode(hex, BL_SHA256_HEX_SIZE, chunk->path_sha256, BL_SHA256_SIZE);
  chunk->chunk = BL_OBJECT_WHOLE_FILE;
  return g_str_has_prefix(rest, files) &&
         bl_hex_decode(rest + strlen(files), strlen(rest + strlen(files)), chunk->path_sha256,
                       BL_SHA256_SIZE);
}

static BlControlKind classify(const char *rest) {
  if (strcmp(rest, "manifest") == 0) return BL_CONTROL_MANIFEST;
  if (strcmp(rest, "info") == 0 || strcmp(rest, "digests") == 0) return BL_CONTROL_COMPANION;
  if (strcmp(rest, "state") == 0) return BL_CONTROL_STATE;
  if (strcmp(rest, "reserved") == 0) return BL_CONTROL_RESERVED;
  if (strcmp(rest, "claim") == 0 || g_str_has_prefix(rest, "claim-beat/") ||
      g_str_has_prefix(rest, "claim.dead-"))
    return BL_CONTROL_CLAIM;
  return BL_CONTROL_UNKNOWN;
}

static gboolean add_object(const char *key, const BlObjectStat *stat, gpointer user,
                           GError **error) {
  const Listing *listing = user;
  BlObjects *objects = listing->objects;
  const char *rest = key + strlen(objects->prefix);
  BlChunkObject chunk = {.stat = *stat};
  (void)error;
  if (listing->own != NULL && bl_claim_owns(listing->own, key)) return TRUE;
  objects->n_objects++;
  objects->n_bytes += stat->size;
  if (take_chunk(listing, key, rest, &chunk)) {
    g_array_append_val(objects->chunks, chunk);
    return TRUE;
  }
  BlControlObject *control = g_new(BlControlObject, 1);
  *control = (BlControlObject){.kind = classify(rest), .key = g_strdup(key), .stat = *stat};
  g_ptr_array_add(objects->controls, control);
  return TRUE;
}

static int compare_chunks(const void *a, const void *b) {
  const BlChunkObject *x = a, *y = b;
  int by_path = memcmp(x->path_sha256, y->path_sha256, BL_SHA256_SIZE);
  return by_path != 0 ? by_path : (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

BlObjects *bl_objects_list(BlStore *store, const char *checkpoint_id, const BlClaim *own,
                           GError **error) {
  BlKeyBuffer prefix;
  BlObjects *objects = g_new0(BlObjects, 1);
  objects->prefix = g_strdup(bl_key_prefix(prefix, checkpoint_id));
  objects->chunks = g_array_new(FALSE, FALSE, sizeof(BlChunkObject));
  objects->controls = g_ptr_array_new_with_free_func(control_free);
  Listing listing = {.objects = objects, .id = checkpoint_id, .own = own};
  if (!bl_store_list(store, objects->prefix, add_object, &listing, error)) {
    bl_objects_free(objects);
    return NULL;
  }
  if (objects->chunks->len > 0)
    qsort(objects->chunks->data, objects->chunks->len, sizeof(BlChunkObject), compare_chunks);
  return objects;
}

BlChunkObject *bl_objects_find(const BlObjects *objects, const guint8 path_sha256[BL_SHA256_SIZE],
                               guint32 chunk) {
  BlChunkObject wanted = {.chunk = chunk};
  if (objects->chunks->len == 0) return NULL;
  memcpy(wanted.path_sha256, path_sha256, BL_SHA256_SIZE);
  return bsearch(&wanted, objects->chunks->data, objects->chunks->len, sizeof wanted,
                 compare_chunks);
}

char *bl_objects_chunk_key(const BlObjects *objects, const BlChunkObject *chunk, char key[512]) {
  char hex[BL_SHA256_HEX_SIZE + 1];
  BlKeyBuffer file_key;
  bl_hex_encode(chunk->path_sha256, BL_SHA256_SIZE, hex);
  g_snprintf(file_key, sizeof file_key, "%sfiles/%s", objects->prefix, hex);
  if (chunk->chunk != BL_OBJECT_WHOLE_FILE)
    return bl_key_chunk_of_file(key, file_key, chunk->chunk);
  g_strlcpy(key, file_key, BL_KEY_MAX);
  return key;
}

const BlControlObject *bl_objects_find_control(const BlObjects *objects, BlControlKind kind) {
  for (guint i = 0; i < objects->controls->len; i++) {
    const BlControlObject *control = g_ptr_array_index(objects->controls, i);
    if (control->kind == kind) return control;
  }
  return NULL;
}
