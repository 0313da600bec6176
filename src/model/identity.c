#include "model/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "model/key.h"

/* Objects of a checkpoint that are kept: 16 MiB in memory, half of it on disk. What has more (100
 * TB in 64 MiB chunks would have 1.6 million) is always read. */
#define MAX_OBJECTS 262144u
/* A change may bear the time of the last tick of the kernel's clock, which is 10 ms at most; where
 * times have no fraction, of the last two seconds. */
#define TICK_NS (20 * G_GINT64_CONSTANT(1000000))
#define COARSE_TICK_NS (3 * G_GINT64_CONSTANT(1000000000))
#define SECOND_NS G_GINT64_CONSTANT(1000000000)

static const char magic[16] = "ballast-ident-1\n";

/* On disk as in memory but for the byte order: little endian there. All zero: unknown. */
typedef struct {
  guint64 inode, size;
  gint64 mtime_ns, ctime_ns; /* ctime 0: not sure; negative: the file had more than one link */
} Identity;

typedef struct {
  char magic[16];
  guint8 manifest_sha256[BL_SHA256_SIZE];
  guint64 n_objects; /* little endian */
} Header;

struct BlIdentities {
  char *path; /* NULL: nothing is kept */
  BlStore *store;
  const BlManifest *manifest;
  guint32 *first;     /* of each file: its first object */
  guint32 n_objects;  /* 0: too many, or none */
  Identity *recorded; /* per object */
  Identity *noted;    /* per object */
  gint is_changed;    /* atomic */
};

/* The folder of the store's identities. */
static char *make_folder_path(const char *folder, const BlStore *store) {
  guint8 digest[BL_SHA256_SIZE];
  char hex[BL_SHA256_HEX_SIZE + 1];
  bl_sha256(store->url, strlen(store->url), digest);
  bl_hex_encode(digest, sizeof digest, hex);
  return g_build_filename(folder, "identities", hex, NULL);
}

static char *make_path(const char *folder, const BlStore *store, const char *checkpoint_id) {
  g_autofree char *store_folder = make_folder_path(folder, store);
  return g_build_filename(store_folder, checkpoint_id, NULL);
}

/* Always the same for a path, so that those who are killed leave one and not many. */
static char *make_temporary_path(const char *path) {
  g_autofree char *folder = g_path_get_dirname(path);
  guint8 digest[BL_SHA256_SIZE];
  char hex[BL_SHA256_HEX_SIZE + 1];
  bl_sha256(path, strlen(path), digest);
  bl_hex_encode(digest, sizeof digest, hex);
  return g_strdup_printf("%s/.tmp-%.32s", folder, hex);
}

/* FALSE where there are more objects than are kept. */
static gboolean count_objects(BlIdentities *identities) {
  const BlManifest *manifest = identities->manifest;
  guint64 n = 0;
  for (guint64 i = 0; i < manifest->n_files; i++) {
    identities->first[i] = (guint32)n;
    n += manifest->files[i].n_chunks;
    if (n > MAX_OBJECTS) return FALSE;
  }
  identities->n_objects = (guint32)n;
  return TRUE;
}

static void swap_bytes(Identity *identity) {
  identity->inode = GUINT64_TO_LE(identity->inode);
  identity->size = GUINT64_TO_LE(identity->size);
  identity->mtime_ns = GINT64_TO_LE(identity->mtime_ns);
  identity->ctime_ns = GINT64_TO_LE(identity->ctime_ns);
}

static void swap_all(const BlIdentities *identities) {
  for (guint32 i = 0; i < identities->n_objects; i++) swap_bytes(&identities->recorded[i]);
}

/* Only a file that nobody else could have written vouches for anything. */
static gboolean is_ours(int fd, gsize size) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
         (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 && (guint64)st.st_size == size;
}

static void load(BlIdentities *identities) {
  gsize n_bytes = identities->n_objects * sizeof(Identity);
  bl_autofd fd = bl_openat(AT_FDCWD, identities->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
  Header header;
  guint32 crc = 0;
  if (fd < 0 || !is_ours(fd, sizeof header + n_bytes + sizeof crc) ||
      !bl_pread_all(fd, &header, sizeof header, 0, NULL) ||
      memcmp(header.magic, magic, sizeof magic) != 0 ||
      memcmp(header.manifest_sha256, identities->manifest->sha256, BL_SHA256_SIZE) != 0 ||
      GUINT64_FROM_LE(header.n_objects) != identities->n_objects)
    return;
  if (!bl_pread_all(fd, identities->recorded, n_bytes, sizeof header, NULL) ||
      !bl_pread_all(fd, &crc, sizeof crc, sizeof header + n_bytes, NULL) ||
      GUINT32_FROM_LE(crc) != bl_crc32c(identities->recorded, n_bytes)) {
    memset(identities->recorded, 0, n_bytes);
    return;
  }
  swap_all(identities);
}

BlIdentities *bl_identities_load(const char *folder, BlStore *store, const BlManifest *manifest) {
  BlIdentities *identities = g_new0(BlIdentities, 1);
  identities->store = store;
  identities->manifest = manifest;
  identities->first = g_new0(guint32, MAX(manifest->n_files, 1));
  if (folder == NULL || !count_objects(identities) || identities->n_objects == 0) return identities;
  identities->path = make_path(folder, store, manifest->checkpoint_id);
  identities->recorded = g_new0(Identity, identities->n_objects);
  identities->noted = g_new0(Identity, identities->n_objects);
  load(identities);
  return identities;
}

void bl_identities_free(BlIdentities *identities) {
  if (identities == NULL) return;
  g_free(identities->path);
  g_free(identities->first);
  g_free(identities->recorded);
  g_free(identities->noted);
  g_free(identities);
}

/* An object as it is now; unknown where the store cannot tell. */
static Identity look_at(const BlIdentities *identities, const BlManifestFile *file, guint32 chunk) {
  char key[512];
  BlObjectStat object;
  if (!bl_store_stat(identities->store,
                     bl_manifest_chunk_key(identities->manifest, file, chunk, key), &object,
                     NULL) ||
      object.inode == 0)
    return (Identity){0};
  return (Identity){object.inode, object.size, object.mtime_ns,
                    object.n_links == 1 ? object.ctime_ns : -object.ctime_ns};
}

static gboolean is_known(const Identity *identity) {
  return identity->inode != 0;
}

/* Making and removing other names of a file changes its ctime: it counts only where there was one
 * name then and is one now. */
static gboolean is_same(const Identity *a, const Identity *b) {
  return is_known(a) && a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
         (a->ctime_ns <= 0 || b->ctime_ns <= 0 || a->ctime_ns == b->ctime_ns);
}

gboolean bl_identities_look(BlIdentities *identities, guint64 file) {
  const BlManifestFile *record = &identities->manifest->files[file];
  if (identities->path == NULL) return record->n_chunks == 0;
  gboolean is_match = TRUE;
  for (guint32 i = 0; i < record->n_chunks; i++) {
    guint32 at = identities->first[file] + i;
    identities->noted[at] = look_at(identities, record, i);
    is_match = is_match && is_same(&identities->recorded[at], &identities->noted[at]);
  }
  return is_match;
}

gboolean bl_identities_is_certain(const BlIdentities *identities, guint64 file) {
  const BlManifestFile *record = &identities->manifest->files[file];
  if (identities->path == NULL) return record->n_chunks == 0;
  for (guint32 i = 0; i < record->n_chunks; i++) {
    const Identity *recorded = &identities->recorded[identities->first[file] + i];
    const Identity *noted = &identities->noted[identities->first[file] + i];
    if (!is_same(recorded, noted) || recorded->ctime_ns == 0 ||
        ABS(recorded->ctime_ns) != ABS(noted->ctime_ns))
      return FALSE;
  }
  return TRUE;
}

/* Whether a change from now on is sure to give the file another time. */
static gboolean is_settled(gint64 time_ns, gint64 now_ns) {
  return time_ns + (time_ns % SECOND_NS == 0 ? COARSE_TICK_NS : TICK_NS) <= now_ns;
}

static gint64 now_in_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return bl_time_ns(&now);
}

/* The record of an object that was noted before its bytes were read. */
static Identity confirm(const Identity *noted, const Identity *after, gint64 now_ns) {
  if (!is_same(noted, after) || !is_settled(after->mtime_ns, now_ns)) return (Identity){0};
  Identity identity = *after;
  /* With a name that came or went meanwhile, or a ctime that another change could bear: mtime
   * decides. */
  if (ABS(noted->ctime_ns) != ABS(after->ctime_ns) || !is_settled(ABS(after->ctime_ns), now_ns))
    identity.ctime_ns = 0;
  return identity;
}

void bl_identities_record(BlIdentities *identities, guint64 file) {
  const BlManifestFile *record = &identities->manifest->files[file];
  if (identities->path == NULL) return;
  gint64 now_ns = now_in_ns();
  for (guint32 i = 0; i < record->n_chunks; i++) {
    guint32 at = identities->first[file] + i;
    Identity after = look_at(identities, record, i);
    Identity identity = confirm(&identities->noted[at], &after, now_ns);
    if (memcmp(&identities->recorded[at], &identity, sizeof identity) == 0) continue;
    identities->recorded[at] = identity;
    g_atomic_int_set(&identities->is_changed, TRUE);
  }
}

void bl_identities_forget(BlIdentities *identities, guint64 file) {
  guint32 n = identities->manifest->files[file].n_chunks;
  if (identities->path == NULL || n == 0) return;
  memset(&identities->recorded[identities->first[file]], 0, n * sizeof(Identity));
  g_atomic_int_set(&identities->is_changed, TRUE);
}

/* The records are as they are kept. */
static gboolean write_to(const BlIdentities *identities, int fd) {
  gsize n_bytes = identities->n_objects * sizeof(Identity);
  Header header = {.n_objects = GUINT64_TO_LE(identities->n_objects)};
  guint32 crc = GUINT32_TO_LE(bl_crc32c(identities->recorded, n_bytes));
  memcpy(header.magic, magic, sizeof magic);
  memcpy(header.manifest_sha256, identities->manifest->sha256, BL_SHA256_SIZE);
  return bl_pwrite_all(fd, &header, sizeof header, 0, NULL) &&
         bl_pwrite_all(fd, identities->recorded, n_bytes, sizeof header, NULL) &&
         bl_pwrite_all(fd, &crc, sizeof crc, sizeof header + n_bytes, NULL);
}

/* Not made durable: what a power cut leaves of it fails its checksum, and is unknown. So does what
 * two at once make of one temporary. */
void bl_identities_save(BlIdentities *identities) {
  if (identities->path == NULL || !g_atomic_int_get(&identities->is_changed)) return;
  g_autofree char *folder = g_path_get_dirname(identities->path);
  g_autofree char *temporary = make_temporary_path(identities->path);
  if (!bl_mkdirs(AT_FDCWD, folder, FALSE, NULL)) return;
  (void)unlink(temporary);
  bl_autofd fd = bl_openat(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  swap_all(identities);
  gboolean is_written = write_to(identities, fd);
  swap_all(identities);
  if (!is_written || rename(temporary, identities->path) != 0) (void)unlink(temporary);
}

static gboolean record_one(guint64 i, guint worker, gpointer user, GError **error) {
  (void)worker;
  (void)error;
  bl_identities_record(user, i);
  return TRUE;
}

void bl_identities_save_all(BlIdentities *identities, BlJob *job) {
  if (identities->path != NULL &&
      bl_job_run(job, identities->manifest->n_files, record_one, identities, NULL))
    bl_identities_save(identities);
}

void bl_identities_remove(const char *folder, BlStore *store, const char *checkpoint_id) {
  if (folder == NULL || !bl_checkpoint_id_check(checkpoint_id, NULL)) return;
  g_autofree char *path = make_path(folder, store, checkpoint_id);
  g_autofree char *temporary = make_temporary_path(path);
  (void)unlink(path);
  (void)unlink(temporary);
  g_autofree char *store_folder = g_path_get_dirname(path);
  (void)rmdir(store_folder);
}
