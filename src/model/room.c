/* Room.
 *
 * A reservation (`reserved`) says how many bytes its import may still add. What the import has put
 * since is held, so of the reservation only the rest counts: it shrinks by the checkpoint's chunks,
 * finished or not, that were written after it. Older ones do not count, though they may come to be
 * the checkpoint's own alone: a file that is shared loses its other names when the donor goes. What
 * was written in the clock tick of the reservation is taken for older, which errs on the safe side.
 * Everything is judged in one walk under the
 * store-wide claim; in that walk temporaries come before objects, so that a file which gets its
 * name meanwhile is seen at least once: twice makes the answer larger, never smaller. */
#include "model/room.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "model/catalog.h"
#include "model/key.h"
#include "store/claim.h"

/* Others hold the claim for one walk, which takes less than a second. */
#define MAX_WAIT_MS (60 * 1000)
#define MAX_RESERVED_SIZE 4096

/* A file with several names; one with a single name needs no memory. */
typedef struct {
  guint64 device, inode, size;
} LinkedFile;

typedef struct {
  guint64 n_bytes;   /* that may be added */
  gint64 since_ns;   /* when it was made, by the file system's clock */
  guint64 put_bytes; /* of chunks that were written since */
} Reservation;

typedef struct {
  guint64 used_bytes; /* of files with one name */
  GArray *linked;     /* of LinkedFile */
  GHashTable *own;    /* checkpoint id to Reservation: those whose own files are added up */
} Walk;

static void add_file(Walk *walk, const char *path, const BlObjectStat *object) {
  if (object->n_links > 1) {
    LinkedFile file = {object->device, object->inode, object->size};
    g_array_append_val(walk->linked, file);
    return;
  }
  char id[256];
  const char *rest;
  walk->used_bytes += object->size;
  if (g_hash_table_size(walk->own) == 0 || !bl_key_split(path, id, &rest)) return;
  Reservation *reservation = g_hash_table_lookup(walk->own, id);
  if (reservation != NULL && object->mtime_ns > reservation->since_ns &&
      (rest[0] == '.' || g_str_has_prefix(rest, "files/")))
    reservation->put_bytes += object->size;
}

static gboolean add_object(const char *key, const BlObjectStat *object, gpointer user,
                           GError **error) {
  (void)error;
  add_file(user, key, object);
  return TRUE;
}

static gboolean add_stray(const BlStray *stray, gpointer user, GError **error) {
  (void)error;
  if (stray->is_temporary) add_file(user, stray->path, &stray->stat);
  return TRUE;
}

static gint compare_linked(gconstpointer a, gconstpointer b) {
  const LinkedFile *x = a, *y = b;
  if (x->device != y->device) return x->device < y->device ? -1 : 1;
  return x->inode < y->inode ? -1 : x->inode > y->inode;
}

/* Adds up the store. own: the checkpoints whose own files are added up, too. */
static gboolean walk_store(BlStore *store, GHashTable *own, guint64 *n_bytes, GError **error) {
  g_autoptr(GArray) linked = g_array_new(FALSE, FALSE, sizeof(LinkedFile));
  Walk walk = {.linked = linked, .own = own};
  if (!bl_store_list_strays(store, add_stray, &walk, error) ||
      !bl_store_list(store, "", add_object, &walk, error))
    return FALSE;
  g_array_sort(linked, compare_linked);
  for (guint i = 0; i < linked->len; i++) {
    const LinkedFile *file = &g_array_index(linked, LinkedFile, i);
    if (i == 0 || compare_linked(file - 1, file) != 0) walk.used_bytes += file->size;
  }
  *n_bytes = walk.used_bytes;
  return TRUE;
}

static GHashTable *reservations_new(void) {
  return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

gboolean bl_room_used(BlStore *store, guint64 *n_bytes, GError **error) {
  g_autoptr(GHashTable) none = reservations_new();
  return walk_store(store, none, n_bytes, error);
}

typedef struct {
  BlStore *store;
  const char *except;
  GHashTable *reservations;
} Search;

/* One that cannot be read reserves nothing: its import goes on all the same, and what it puts is
 * counted as it comes. */
static gboolean find_reservation(const char *id, gpointer user, GError **error) {
  Search *search = user;
  BlKeyBuffer key, prefix;
  g_autofree char *data = NULL;
  gsize size;
  g_autoptr(GError) fault = NULL;
  BlClaimState state;
  if (strcmp(id, search->except) == 0 || !bl_checkpoint_id_check(id, NULL)) return TRUE;
  if (!bl_store_load(search->store, bl_key_reserved(key, id), MAX_RESERVED_SIZE, &data, &size,
                     &fault)) {
    if (g_error_matches(fault, BL_ERROR, BL_ERROR_NOT_FOUND) ||
        g_error_matches(fault, BL_ERROR, BL_ERROR_CORRUPT))
      return TRUE;
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  if (!bl_catalog_peek_claim(search->store, bl_key_prefix(prefix, id), &state, error)) return FALSE;
  if (state == BL_CLAIM_NONE || state == BL_CLAIM_DEAD) return TRUE;
  Reservation *reservation = g_new0(Reservation, 1);
  BlObjectStat object;
  g_autoptr(json_t) json = bl_json_parse(data, size, key, NULL);
  if (json == NULL || !bl_json_get_uint64(json, "bytes", &reservation->n_bytes, NULL))
    reservation->n_bytes = 0;
  /* Gone by now: its import is at its end. */
  reservation->since_ns =
      bl_store_stat(search->store, key, &object, NULL) ? object.mtime_ns : G_MAXINT64;
  g_hash_table_insert(search->reservations, g_strdup(id), reservation);
  return TRUE;
}

static guint64 add_saturated(guint64 a, guint64 b) {
  return a > G_MAXUINT64 - b ? G_MAXUINT64 : a + b;
}

/* What the reservations still stand for. */
static guint64 sum_reserved(GHashTable *reservations) {
  guint64 sum = 0;
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init(&iter, reservations);
  while (g_hash_table_iter_next(&iter, NULL, &value)) {
    const Reservation *r = value;
    sum = add_saturated(sum, r->n_bytes - MIN(r->n_bytes, r->put_bytes));
  }
  return sum;
}

static gboolean set_no_space(BlStore *store, const char *id, guint64 max_bytes, guint64 used,
                             guint64 reserved, guint64 needed, GError **error) {
  g_autofree char *max_text = g_format_size_full(max_bytes, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *used_text = g_format_size_full(used, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *reserved_text = g_format_size_full(reserved, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *needed_text = g_format_size_full(needed, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *running =
      reserved > 0 ? g_strdup_printf(", running imports have %s more reserved,", reserved_text)
                   : g_strdup("");
  return bl_error_set(error, BL_ERROR_NO_SPACE,
                      "store %s may hold %s (max_bytes): it holds %s%s and \"%s\" needs %s more "
                      "(make room with \"ballast prune\", or raise the limit with \"ballast store "
                      "set --max-bytes\")",
                      store->url, max_text, used_text, running, id, needed_text);
}

static gboolean put_reservation(BlStore *store, const char *id, guint64 n_bytes, GError **error) {
  BlKeyBuffer key;
  g_autoptr(json_t) json =
      json_pack("{sI si}", "bytes", (json_int_t)MIN(n_bytes, G_MAXINT64), "schema_version", 1);
  g_autofree char *text = bl_json_dump_compact(json);
  return bl_store_put(store, bl_key_reserved(key, id), text, strlen(text),
                      BL_PUT_REPLACE | BL_PUT_VOLATILE, error);
}

static gboolean reserve_claimed(BlStore *store, const char *id, guint64 n_bytes, guint64 max_bytes,
                                GError **error) {
  g_autoptr(GHashTable) reservations = reservations_new();
  Search search = {store, id, reservations};
  guint64 used;
  if (!bl_store_list_folders(store, BL_KEY_MODELS, find_reservation, &search, error)) return FALSE;
  if (!walk_store(store, reservations, &used, error)) return FALSE;
  guint64 others = sum_reserved(reservations);
  if (add_saturated(add_saturated(used, others), n_bytes) > max_bytes)
    return set_no_space(store, id, max_bytes, used, others, n_bytes, error);
  return put_reservation(store, id, n_bytes, error);
}

gboolean bl_room_reserve(BlStore *store, const char *checkpoint_id, guint64 n_bytes, BlJob *job,
                         GError **error) {
  BlStoreSettings settings;
  if (!bl_store_get_settings(store, &settings, error)) return FALSE;
  if (settings.max_bytes == G_MAXUINT64) return TRUE;
  BlClaim *claim = bl_claim_acquire(store, BL_KEY_ROOM, "reserve", MAX_WAIT_MS, job, error);
  if (claim == NULL) return FALSE;
  /* What killed ones left. Those who want the claim now put theirs again. */
  (void)bl_store_sweep(store, BL_KEY_ROOM, NULL, NULL);
  gboolean ok = reserve_claimed(store, checkpoint_id, n_bytes, settings.max_bytes, error);
  return bl_claim_release(claim, ok ? error : NULL) && ok;
}

gboolean bl_room_release(BlStore *store, const char *checkpoint_id, GError **error) {
  BlKeyBuffer key;
  return bl_store_remove(store, bl_key_reserved(key, checkpoint_id), error);
}
