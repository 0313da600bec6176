#include "model/supply.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "model/key.h"
#include "model/reader.h"
#include "store/dir.h"

struct BlSupply {
  char *name;
  int folder_fd;        /* of a folder; -1 else */
  BlStore *store;       /* of a store; NULL else */
  gboolean is_borrowed; /* store and manifest are */
  gboolean is_own;      /* the store is the one to be mended */
  BlManifest *manifest; /* the checkpoint of that id; NULL where there is none */
  BlReader *reader;     /* of it */
  BlContent *content;   /* the others */
};

struct BlSupplyFile {
  char *name;
  gboolean is_own;
  int fd; /* or -1: the stream */
  guint64 offset;
  BlReader *reader;
  guint64 index;
  BlReaderStream *stream;
};

void bl_supply_free(BlSupply *supply) {
  if (supply == NULL) return;
  bl_content_free(supply->content);
  bl_reader_free(supply->reader);
  if (!supply->is_borrowed) bl_manifest_free(supply->manifest);
  if (!supply->is_borrowed) bl_store_free(supply->store);
  bl_fd_clear(&supply->folder_fd);
  g_free(supply->name);
  g_free(supply);
}

/* The folder that a path or a file URL names; NULL for another URL. Caller frees. */
static char *folder_path(const char *from) {
  g_autofree char *scheme = g_uri_parse_scheme(from);
  if (scheme == NULL) return g_strdup(from);
  return g_str_has_prefix(from, "file:///") ? g_strdup(from + strlen("file://")) : NULL;
}

static BlSupply *supply_new(const char *name) {
  BlSupply *supply = g_new0(BlSupply, 1);
  supply->name = bl_path_display(name);
  supply->folder_fd = -1;
  return supply;
}

static gboolean load_store(BlSupply *supply, const char *checkpoint_id, guint64 *sizes,
                           gsize n_sizes, BlJob *job, GError **error) {
  g_autoptr(GError) fault = NULL;
  supply->manifest = bl_manifest_load_ready(supply->store, checkpoint_id, &fault);
  /* One that is not there, or not whole, is not the only one that may have the bytes. */
  if (supply->manifest != NULL)
    supply->reader = bl_reader_new(supply->store, supply->manifest, NULL);
  else if (bl_error_code(fault) != BL_ERROR_NOT_FOUND && bl_error_code(fault) != BL_ERROR_CORRUPT) {
    g_propagate_error(error, g_steal_pointer(&fault));
    return FALSE;
  }
  supply->content = bl_content_load(supply->store, checkpoint_id, sizes, n_sizes, job, error);
  return supply->content != NULL;
}

BlSupply *bl_supply_open(const char *from, const char *checkpoint_id, guint64 *sizes, gsize n_sizes,
                         BlJob *job, GError **error) {
  g_autoptr(BlSupply) supply = supply_new(from);
  g_autofree char *path = folder_path(from);
  if (path != NULL) {
    supply->folder_fd = bl_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0, "the source", error);
    if (supply->folder_fd < 0) return NULL;
    if (!bl_dir_is_store(supply->folder_fd)) return g_steal_pointer(&supply);
    g_autofree char *absolute = g_canonicalize_filename(path, NULL);
    supply->store = bl_store_open(absolute, FALSE, error);
  } else {
    supply->store = bl_store_open(from, FALSE, error);
  }
  if (supply->store == NULL || !load_store(supply, checkpoint_id, sizes, n_sizes, job, error))
    return NULL;
  return g_steal_pointer(&supply);
}

BlSupply *bl_supply_open_own(BlStore *store, const char *checkpoint_id, guint64 *sizes,
                             gsize n_sizes, BlJob *job, GError **error) {
  g_autoptr(BlSupply) supply = supply_new("the store itself");
  supply->store = store;
  supply->is_borrowed = supply->is_own = TRUE;
  supply->content = bl_content_load(store, checkpoint_id, sizes, n_sizes, job, error);
  return supply->content != NULL ? g_steal_pointer(&supply) : NULL;
}

BlSupply *bl_supply_open_checkpoint(BlStore *store, BlManifest *manifest) {
  BlSupply *supply = supply_new(store->url);
  supply->store = store;
  supply->is_borrowed = TRUE;
  supply->manifest = manifest;
  supply->reader = bl_reader_new(store, manifest, NULL);
  return supply;
}

const char *bl_supply_name(const BlSupply *supply) {
  return supply->name;
}

static BlSupplyFile *file_new(const BlSupply *supply, char *name) {
  BlSupplyFile *file = g_new0(BlSupplyFile, 1);
  file->name = name;
  file->is_own = supply->is_own;
  file->fd = -1;
  return file;
}

/* Takes fd over. NULL where it is no file of that length. */
static BlSupplyFile *take_fd(BlSupplyFile *file, int fd, guint64 size, GError **error) {
  g_autoptr(BlSupplyFile) taken = file;
  struct stat status;
  if (fd < 0) return NULL;
  taken->fd = fd;
  if (fstat(fd, &status) != 0) {
    bl_error_set_errno(error, errno, "looking at it");
    return NULL;
  }
  if (S_ISREG(status.st_mode) && (guint64)status.st_size == size) return g_steal_pointer(&taken);
  if (S_ISREG(status.st_mode))
    bl_error_set(error, BL_ERROR_CORRUPT,
                 "it has %" G_GUINT64_FORMAT " bytes there, must have %" G_GUINT64_FORMAT,
                 (guint64)status.st_size, size);
  else
    bl_error_set(error, BL_ERROR_CORRUPT, "it is no file there");
  return NULL;
}

/* Links are followed wherever they lead: what counts is the SHA-256 of what is found. */
static BlSupplyFile *find_in_folder(const BlSupply *supply, const BlManifestFile *record,
                                    GError **error) {
  int fd = bl_openat(supply->folder_fd, record->path, O_RDONLY | O_NONBLOCK, 0);
  if (fd < 0) {
    bl_error_set_errno(error, errno, "opening it");
    return NULL;
  }
  g_autofree char *shown = bl_path_display(record->path);
  return take_fd(file_new(supply, g_build_filename(supply->name, shown, NULL)), fd, record->size,
                 error);
}

static gboolean is_same(const BlManifestFile *a, const BlManifestFile *b) {
  return a->size == b->size && memcmp(a->sha256, b->sha256, BL_SHA256_SIZE) == 0;
}

/* Steps over those of the checkpoint that are the n-th or earlier. */
static BlSupplyFile *find_in_manifest(const BlSupply *supply, const BlManifestFile *record,
                                      guint *n) {
  if (supply->manifest == NULL) return NULL;
  for (guint64 i = 0; i < supply->manifest->n_files; i++) {
    const BlManifestFile *there = &supply->manifest->files[i];
    if (!is_same(there, record) || (*n)-- > 0) continue;
    g_autofree char *shown = bl_path_display(there->path);
    BlSupplyFile *file =
        file_new(supply, g_strdup_printf("%s, checkpoint \"%s\", \"%s\"", supply->name,
                                         supply->manifest->checkpoint_id, shown));
    file->reader = supply->reader;
    file->index = i;
    return file;
  }
  return NULL;
}

static BlSupplyFile *find_in_content(const BlSupply *supply, const BlManifestFile *record, guint n,
                                     GError **error) {
  gsize n_found;
  BlKeyBuffer key;
  if (supply->content == NULL) return NULL;
  const BlContentFile *found =
      bl_content_find(supply->content, record->size, record->sha256, &n_found);
  if (n >= n_found) return NULL;
  int fd = bl_store_open_fd(supply->store, bl_content_key(&found[n], key), error);
  return take_fd(file_new(supply, g_strdup_printf("%s, checkpoint \"%s\"", supply->name,
                                                  found[n].checkpoint_id)),
                 fd, record->size, error);
}

BlSupplyFile *bl_supply_find(const BlSupply *supply, const BlManifestFile *file, guint n,
                             GError **error) {
  if (supply->store == NULL) return n == 0 ? find_in_folder(supply, file, error) : NULL;
  guint rest = n;
  BlSupplyFile *found = find_in_manifest(supply, file, &rest);
  return found != NULL ? found : find_in_content(supply, file, rest, error);
}

void bl_supply_file_free(BlSupplyFile *file) {
  if (file == NULL) return;
  bl_reader_stream_free(file->stream);
  bl_fd_clear(&file->fd);
  g_free(file->name);
  g_free(file);
}

const char *bl_supply_file_name(const BlSupplyFile *file) {
  return file->name;
}

int bl_supply_file_own_fd(const BlSupplyFile *file) {
  return file->is_own ? file->fd : -1;
}

gboolean bl_supply_file_seek(BlSupplyFile *file, guint64 offset, GError **error) {
  file->offset = offset;
  if (file->fd >= 0) return TRUE;
  bl_reader_stream_free(file->stream);
  file->stream = bl_reader_stream_new_at(file->reader, file->index, offset, error);
  return file->stream != NULL;
}

gssize bl_supply_file_read(BlSupplyFile *file, void *data, gsize size, GError **error) {
  if (file->fd < 0) return bl_reader_stream_read(file->stream, data, size, error);
  gssize n = bl_pread_some(file->fd, data, size, file->offset, error);
  if (n > 0) file->offset += (guint64)n;
  return n;
}
