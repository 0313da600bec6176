/* The Hugging Face hub client's cache on disk: docs/formats/hf-cache.md. What is there to be read,
 * found by name and without any lock. */
#pragma once
#include <glib.h>

#define BL_HF_BLOBS "blobs"
#define BL_HF_REFS "refs"
#define BL_HF_SNAPSHOTS "snapshots"
#define BL_HF_TREES "trees"
#define BL_HF_COMMIT_SIZE 40
/* Of a blob that is not whole: "<etag>.incomplete", or "<etag>.<random>.incomplete". */
#define BL_HF_INCOMPLETE ".incomplete"

/* Whether text is `size` digits of lower-case hex. */
gboolean bl_hf_is_hex(const char *text, gsize size);
#define bl_hf_is_commit(text) bl_hf_is_hex(text, BL_HF_COMMIT_SIZE)
/* INVALID unless the client takes it for a repository's name: "name" or "org/name", 1 to 96
 * letters, digits, ".", "_" and "-" each, neither "." nor "-" at an end, no "--", no "..", no
 * ".git" at the end. */
gboolean bl_hf_repo_id_check(const char *repo_id, GError **error);
/* "models--org--name". Caller frees. */
char *bl_hf_folder_name(const char *repo_id);

/* The names in a folder but "." and "..", sorted. Takes the descriptor over; NULL with errno.
 * Caller frees. */
GPtrArray *bl_hf_list_folder(int fd);

/* One commit of one model in a cache. */
typedef struct {
  char *repo;       /* real path of the folder models--org--name */
  char *model_id;   /* as that folder says */
  char *commit;     /* 40 hex digits */
  char *folder;     /* repo/snapshots/commit */
  char *revision;   /* the name for it: that was asked for, else main, another ref, or the commit */
  char **refs;      /* every ref that points to the commit, sorted */
  GPtrArray *notes; /* of char*: what a user should know of the choice */
} BlHfSnapshot;
void bl_hf_snapshot_free(BlHfSnapshot *snapshot);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlHfSnapshot, bl_hf_snapshot_free)

/* Finds what a path means: a folder snapshots/<commit>, a models--org--name folder, or a cache (or
 * the client's home, in which it is the folder "hub"), of whose models model_id names one.
 * *snapshot is NULL where it is none of them. revision: a ref, or a commit; NULL: main, else the
 * only snapshot. For a folder snapshots/<commit> it is only the name to use. INVALID or NOT_FOUND,
 * naming the choices, where nothing or more than one could be meant; CORRUPT where a ref names a
 * commit that is not there. */
gboolean bl_hf_snapshot_find(const char *path, const char *model_id, const char *revision,
                             BlHfSnapshot **snapshot, GError **error);
