/* Identities are loaded ahead, of the few checkpoints that could give most bytes, for their large
 * files: small ones are compared faster than looked up. */
#include "model/donor.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "model/identity.h"
#include "model/key.h"

/* Files below this are compared. */
#define VOUCH_SIZE (1024u * 1024)
/* Checkpoints that vouch, and their files together: some 12 MB. */
#define MAX_VOUCHERS 8u
#define MAX_VOUCHER_FILES 100000u
/* Files of other bytes that are sampled before a file counts as new. */
#define MAX_SAMPLED 64u
#define SAMPLE_SIZE 4096u

/* A checkpoint whose identities are loaded. */
typedef struct {
  BlManifest *manifest;
  BlIdentities *identities;
} Voucher;

/* One of its files, found by the key of its object. */
typedef struct {
  Voucher *voucher; /* borrowed */
  guint64 index;
} Vouched;

struct BlDonors {
  BlStore *store;
  BlContent *content;
  GPtrArray *vouchers; /* of Voucher */
  GHashTable *vouched; /* char* key -> Vouched */
  GMutex lock;         /* protects what the identities noted */
};

static void voucher_free(gpointer data) {
  Voucher *voucher = data;
  bl_identities_free(voucher->identities);
  bl_manifest_free(voucher->manifest);
  g_free(voucher);
}

void bl_donors_free(BlDonors *donors) {
  if (donors == NULL) return;
  g_hash_table_unref(donors->vouched);
  g_ptr_array_unref(donors->vouchers);
  bl_content_free(donors->content);
  g_mutex_clear(&donors->lock);
  g_free(donors);
}

typedef struct {
  const char *checkpoint_id;
  guint64 n_bytes; /* that it could give */
} Promise;

static int compare_promises(gconstpointer a, gconstpointer b) {
  const Promise *left = a, *right = b;
  if (left->n_bytes != right->n_bytes) return left->n_bytes > right->n_bytes ? -1 : 1;
  return strcmp(left->checkpoint_id, right->checkpoint_id);
}

/* Checkpoints by the bytes of their large files that have a size of the plan. */
static GArray *list_promises(const BlDonors *donors, const BlManifest *plan) {
  g_autoptr(GHashTable) bytes = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
  for (guint64 i = 0; i < plan->n_files; i++) {
    gsize n;
    guint64 size = plan->files[i].size;
    if (size < VOUCH_SIZE) continue;
    const BlContentFile *files = bl_content_find_size(donors->content, size, &n);
    for (gsize k = 0; k < n; k++) {
      guint64 *sum = g_hash_table_lookup(bytes, files[k].checkpoint_id);
      if (sum == NULL) {
        sum = g_new0(guint64, 1);
        g_hash_table_insert(bytes, (gpointer)(guintptr)files[k].checkpoint_id, sum);
      }
      *sum += size;
    }
  }
  GArray *promises = g_array_new(FALSE, FALSE, sizeof(Promise));
  GHashTableIter iter;
  gpointer id, sum;
  g_hash_table_iter_init(&iter, bytes);
  while (g_hash_table_iter_next(&iter, &id, &sum)) {
    Promise promise = {.checkpoint_id = id, .n_bytes = *(guint64 *)sum};
    g_array_append_val(promises, promise);
  }
  g_array_sort(promises, compare_promises);
  return promises;
}

static void add_voucher(BlDonors *donors, Voucher *voucher) {
  const BlManifest *manifest = voucher->manifest;
  g_ptr_array_add(donors->vouchers, voucher);
  for (guint64 i = 0; i < manifest->n_files; i++) {
    BlKeyBuffer key;
    gsize n;
    const BlManifestFile *record = &manifest->files[i];
    if (record->size < VOUCH_SIZE || record->n_chunks != 1 ||
        bl_content_find(donors->content, record->size, record->sha256, &n) == NULL)
      continue;
    Vouched *vouched = g_new(Vouched, 1);
    *vouched = (Vouched){.voucher = voucher, .index = i};
    bl_manifest_chunk_key(manifest, record, 0, key);
    g_hash_table_insert(donors->vouched, g_strdup(key), vouched);
  }
}

static void load_vouchers(BlDonors *donors, const BlManifest *plan, const char *state_folder) {
  g_autoptr(GArray) promises = list_promises(donors, plan);
  guint64 n_files = 0;
  for (guint i = 0; i < promises->len && donors->vouchers->len < MAX_VOUCHERS; i++) {
    const char *id = g_array_index(promises, Promise, i).checkpoint_id;
    BlManifest *manifest = bl_manifest_load(donors->store, id, 0, NULL);
    if (manifest == NULL) continue;
    n_files += manifest->n_files;
    if (!manifest->is_ready || n_files > MAX_VOUCHER_FILES) {
      n_files -= manifest->n_files;
      bl_manifest_free(manifest);
      continue;
    }
    Voucher *voucher = g_new0(Voucher, 1);
    voucher->manifest = manifest;
    voucher->identities = bl_identities_load(state_folder, donors->store, manifest);
    add_voucher(donors, voucher);
  }
}

BlDonors *bl_donors_load(BlStore *store, const BlManifest *plan, const char *state_folder,
                         BlJob *job, GError **error) {
  g_autofree guint64 *sizes = g_new(guint64, plan->n_files + 1);
  gsize n_sizes = 0;
  for (guint64 i = 0; i < plan->n_files; i++)
    if (plan->files[i].n_chunks == 1) sizes[n_sizes++] = plan->files[i].size;
  BlContent *content = bl_content_load(store, plan->checkpoint_id, sizes, n_sizes, job, error);
  if (content == NULL) return NULL;
  BlDonors *donors = g_new0(BlDonors, 1);
  donors->store = store;
  donors->content = content;
  donors->vouchers = g_ptr_array_new_with_free_func(voucher_free);
  donors->vouched = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  g_mutex_init(&donors->lock);
  if (state_folder != NULL) load_vouchers(donors, plan, state_folder);
  return donors;
}

/* Whether the object under the key is surely what was once checked. */
static gboolean is_certain(BlDonors *donors, const BlContentFile *file) {
  BlKeyBuffer key;
  const Vouched *vouched = file->size < VOUCH_SIZE
                               ? NULL
                               : g_hash_table_lookup(donors->vouched, bl_content_key(file, key));
  if (vouched == NULL) return FALSE;
  BlIdentities *identities = vouched->voucher->identities;
  g_mutex_lock(&donors->lock);
  gboolean is_certain = bl_identities_look(identities, vouched->index) &&
                        bl_identities_is_certain(identities, vouched->index);
  g_mutex_unlock(&donors->lock);
  return is_certain;
}

static gboolean look_at(int fd, BlObjectStat *object) {
  struct stat st;
  if (fstat(fd, &st) != 0) return FALSE;
  *object = bl_object_stat_from(&st);
  return TRUE;
}

/* Opens the donor's object, unless it is that inode. The second look at the identity makes sure
 * that what is open is what was vouched for. */
static gboolean open_donor(BlDonors *donors, const BlContentFile *file, guint64 but_inode,
                           BlDonor *donor) {
  gboolean was_certain = is_certain(donors, file);
  BlKeyBuffer key;
  bl_autofd fd = bl_store_open_fd(donors->store, bl_content_key(file, key), NULL);
  BlObjectStat now;
  *donor = (BlDonor){.file = file, .fd = -1};
  if (fd < 0 || !look_at(fd, &donor->stat) || donor->stat.size != file->size ||
      donor->stat.inode == but_inode)
    return FALSE;
  donor->is_vouched = was_certain && bl_store_stat(donors->store, key, &now, NULL) &&
                      now.inode == donor->stat.inode && is_certain(donors, file);
  donor->fd = bl_fd_steal(&fd);
  return TRUE;
}

static gboolean is_sample_equal(int a, int b, guint64 offset, gsize size) {
  guint8 left[SAMPLE_SIZE], right[SAMPLE_SIZE];
  return bl_pread_all(a, left, size, offset, NULL) && bl_pread_all(b, right, size, offset, NULL) &&
         memcmp(left, right, size) == 0;
}

/* The middle tells most: models of one kind begin alike. */
static gboolean are_samples_equal(int a, int b, guint64 size) {
  static const guint quarters[] = {2, 0, 1, 3};
  gsize length = (gsize)MIN(size, SAMPLE_SIZE);
  for (guint i = 0; i < G_N_ELEMENTS(quarters); i++)
    if (!is_sample_equal(a, b, (size - length) / 4 * quarters[i], length)) return FALSE;
  return is_sample_equal(a, b, size - length, length);
}

/* Of n files with the same bytes, by their manifests, the one to take. */
static gboolean open_best(BlDonors *donors, const BlContentFile *files, gsize n, guint64 but_inode,
                          BlDonor *donor) {
  for (gsize i = 0; i < n; i++) {
    if (!is_certain(donors, &files[i]) || !open_donor(donors, &files[i], but_inode, donor))
      continue;
    if (donor->is_vouched) return TRUE;
    bl_donor_close(donor);
  }
  for (gsize i = 0; i < n; i++)
    if (open_donor(donors, &files[i], but_inode, donor)) return TRUE;
  return FALSE;
}

gboolean bl_donors_have_size(const BlDonors *donors, guint64 size) {
  gsize n;
  return bl_content_find_size(donors->content, size, &n) != NULL;
}

gboolean bl_donors_find(BlDonors *donors, guint64 size, int source_fd, BlDonor *donor) {
  gsize n, n_equal = 0;
  guint n_sampled = 0;
  const BlContentFile *files = bl_content_find_size(donors->content, size, &n);
  for (gsize i = 0; i < n && n_sampled < MAX_SAMPLED; i += n_equal, n_sampled++) {
    for (n_equal = 1; i + n_equal < n; n_equal++)
      if (memcmp(files[i].sha256, files[i + n_equal].sha256, BL_SHA256_SIZE) != 0) break;
    if (!open_best(donors, &files[i], n_equal, 0, donor)) continue;
    if (are_samples_equal(source_fd, donor->fd, size)) return TRUE;
    bl_donor_close(donor);
  }
  return FALSE;
}

gboolean bl_donors_find_known(BlDonors *donors, guint64 size, const guint8 sha256[BL_SHA256_SIZE],
                              const char *key, BlDonor *donor) {
  gsize n;
  BlObjectStat own = {0};
  const BlContentFile *files = bl_content_find(donors->content, size, sha256, &n);
  (void)bl_store_stat(donors->store, key, &own, NULL);
  return open_best(donors, files, n, own.inode, donor);
}

gboolean bl_donor_is_still(BlDonor *donor) {
  BlObjectStat now;
  if (!look_at(donor->fd, &now)) return FALSE;
  gboolean is_still = now.size == donor->stat.size && now.mtime_ns == donor->stat.mtime_ns &&
                      (now.ctime_ns == donor->stat.ctime_ns || now.n_links != donor->stat.n_links);
  donor->stat = now;
  return is_still;
}

void bl_donor_close(BlDonor *donor) {
  bl_fd_clear(&donor->fd);
}
