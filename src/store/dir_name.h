/* Where a key's object lies below a dir store's root: its first parts, at most three and never the
 * last, are folders, the rest joined by "," is the file's name. */
#pragma once
#include <glib.h>

/* Room for a folder or a name: a key has at most 1024 characters, each escaped to three at worst.
 */
typedef struct {
  char folder[3200]; /* relative to the root; "" is the root */
  char name[256];
} BlDirName;

/* INVALID where the name would be longer than a file's name may be. */
gboolean bl_dir_name_from_key(const char *key, BlDirName *name, GError **error);
/* The key of a file, or NULL where the name is none that a key gives (a temporary, say). Caller
 * frees. */
char *bl_dir_name_to_key(const char *folder, const char *name);
/* The folder part that the key's next part is stored as, and back. Caller frees. */
char *bl_dir_name_unescape(const char *part);
