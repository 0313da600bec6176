/* A source of a checkpoint: the files of a folder, found once, refused whole where something in it
 * is unfit.
 *
 * Links that stay inside the folder are followed, to files and to folders; others are refused, and
 * so is what is neither file nor folder, and a name that is not UTF-8. Some things are left out by
 * rule (docs/formats/model-cache.md, "What an import takes"). */
#pragma once
#include <glib.h>

typedef struct {
  const char *path; /* relative, UTF-8, owned by the source */
  guint64 size;     /* bytes, when it was found */
  gint64 mtime_ns;  /* when it was found; import sets it to that of the bytes it took */
  gboolean executable;
} BlSourceFile;

/* What tells one state of a file from the next. */
typedef struct {
  guint64 size, inode, device;
  gint64 mtime_ns, ctime_ns;
} BlSourceState;

typedef struct {
  char *root;     /* the real path */
  char *uri;      /* "file://" and the real path */
  char *model_id; /* as the path tells */
  char *commit;   /* 40 hex digits where the path tells (a snapshots/<commit> part), else NULL */
  BlSourceFile *files; /* sorted by path, bytewise */
  guint64 n_files, n_bytes;
  GPtrArray *left_out; /* of char*: what is not imported and why, names escaped */
  /* private */
  int root_fd;
  GArray *array;
  GStringChunk *strings;
} BlSource;

/* Finds the files. NOT_FOUND: no such folder; INVALID: it is no folder, or has more than 100,000
 * files; CORRUPT: something in it is unfit. include, exclude: globs, NULL for all. */
BlSource *bl_source_open_folder(const char *path, char **include, char **exclude, GError **error);
void bl_source_free(BlSource *source);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlSource, bl_source_free)

/* A descriptor of the file that is there now, and its state. -1 on error. Caller closes. */
int bl_source_open_file(const BlSource *source, guint64 file, BlSourceState *state, GError **error);
/* Whether the path still leads to that file, unchanged. */
gboolean bl_source_is_still(const BlSource *source, guint64 file, const BlSourceState *state);
/* Whether something is at the path now, taken or not (a glob may have left it out). */
gboolean bl_source_has_path(const BlSource *source, const char *path);
