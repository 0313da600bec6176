#include "upkeep/shares.h"

#include <stdlib.h>

/* A name of a file that has several. */
typedef struct {
  guint64 device, inode, size;
  guint32 checkpoint;
  guint32 group; /* after finish: of the same file */
} Name;

typedef struct {
  guint64 size;
  guint32 n_checkpoints; /* that have a name for it */
} Group;

struct BlShares {
  GMutex lock;   /* protects names */
  GArray *names; /* of Name; after finish by checkpoint, and one for each checkpoint and file */
  GArray *groups;
  guint64 *own;         /* by checkpoint: bytes of files with one name */
  guint32 *first, *end; /* by checkpoint, after finish: its names */
  guint n;
};

BlShares *bl_shares_new(guint n) {
  BlShares *shares = g_new0(BlShares, 1);
  g_mutex_init(&shares->lock);
  shares->names = g_array_new(FALSE, FALSE, sizeof(Name));
  shares->groups = g_array_new(FALSE, FALSE, sizeof(Group));
  shares->own = g_new0(guint64, n);
  shares->first = g_new0(guint32, n);
  shares->end = g_new0(guint32, n);
  shares->n = n;
  return shares;
}

void bl_shares_free(BlShares *shares) {
  if (shares == NULL) return;
  g_mutex_clear(&shares->lock);
  g_array_free(shares->names, TRUE);
  g_array_free(shares->groups, TRUE);
  g_free(shares->own);
  g_free(shares->first);
  g_free(shares->end);
  g_free(shares);
}

static void add(BlShares *shares, guint checkpoint, const BlObjectStat *stat) {
  if (stat->n_links <= 1) {
    shares->own[checkpoint] += stat->size;
    return;
  }
  Name name = {
      .device = stat->device, .inode = stat->inode, .size = stat->size, .checkpoint = checkpoint};
  g_mutex_lock(&shares->lock);
  g_array_append_val(shares->names, name);
  g_mutex_unlock(&shares->lock);
}

void bl_shares_add(BlShares *shares, guint checkpoint, const BlObjects *objects) {
  for (guint i = 0; i < objects->chunks->len; i++)
    add(shares, checkpoint, &g_array_index(objects->chunks, BlChunkObject, i).stat);
  for (guint i = 0; i < objects->controls->len; i++) {
    const BlControlObject *control = g_ptr_array_index(objects->controls, i);
    add(shares, checkpoint, &control->stat);
  }
}

static int compare(guint64 a, guint64 b) {
  return (a > b) - (a < b);
}

static int compare_files(const void *a, const void *b) {
  const Name *x = a, *y = b;
  int order = compare(x->device, y->device);
  if (order == 0) order = compare(x->inode, y->inode);
  return order != 0 ? order : compare(x->checkpoint, y->checkpoint);
}

static int compare_checkpoints(const void *a, const void *b) {
  return compare(((const Name *)a)->checkpoint, ((const Name *)b)->checkpoint);
}

/* Numbers the files, and keeps one name for each file and checkpoint. */
static void group(BlShares *shares) {
  Name *names = (Name *)(gpointer)shares->names->data;
  guint n_kept = 0;
  for (guint i = 0; i < shares->names->len; i++) {
    const Name *last = n_kept > 0 ? &names[n_kept - 1] : NULL;
    gboolean is_same =
        last != NULL && last->device == names[i].device && last->inode == names[i].inode;
    if (is_same && last->checkpoint == names[i].checkpoint) continue;
    if (!is_same) {
      Group next = {.size = names[i].size};
      g_array_append_val(shares->groups, next);
    }
    names[n_kept] = names[i];
    names[n_kept++].group = shares->groups->len - 1;
    g_array_index(shares->groups, Group, shares->groups->len - 1).n_checkpoints++;
  }
  g_array_set_size(shares->names, n_kept);
}

void bl_shares_finish(BlShares *shares) {
  GArray *names = shares->names;
  if (names->len > 0) qsort(names->data, names->len, sizeof(Name), compare_files);
  group(shares);
  if (names->len > 0) qsort(names->data, names->len, sizeof(Name), compare_checkpoints);
  guint next = 0;
  for (guint checkpoint = 0; checkpoint < shares->n; checkpoint++) {
    shares->first[checkpoint] = next;
    while (next < names->len && g_array_index(names, Name, next).checkpoint == checkpoint) next++;
    shares->end[checkpoint] = next;
  }
}

static Group *group_of(const BlShares *shares, guint name) {
  return &g_array_index(shares->groups, Group, g_array_index(shares->names, Name, name).group);
}

guint64 bl_shares_unique(const BlShares *shares, guint checkpoint) {
  guint64 n_bytes = shares->own[checkpoint];
  for (guint i = shares->first[checkpoint]; i < shares->end[checkpoint]; i++) {
    const Group *file = group_of(shares, i);
    if (file->n_checkpoints == 1) n_bytes += file->size;
  }
  return n_bytes;
}

guint64 bl_shares_shared(const BlShares *shares, guint checkpoint) {
  guint64 n_bytes = 0;
  for (guint i = shares->first[checkpoint]; i < shares->end[checkpoint]; i++) {
    const Group *file = group_of(shares, i);
    if (file->n_checkpoints > 1) n_bytes += file->size;
  }
  return n_bytes;
}

guint64 bl_shares_total(const BlShares *shares) {
  guint64 n_bytes = 0;
  for (guint i = 0; i < shares->n; i++) n_bytes += shares->own[i];
  for (guint i = 0; i < shares->groups->len; i++) {
    const Group *file = &g_array_index(shares->groups, Group, i);
    if (file->n_checkpoints > 0) n_bytes += file->size;
  }
  return n_bytes;
}

guint64 bl_shares_take(BlShares *shares, guint checkpoint) {
  guint64 n_bytes = bl_shares_unique(shares, checkpoint);
  for (guint i = shares->first[checkpoint]; i < shares->end[checkpoint]; i++)
    group_of(shares, i)->n_checkpoints--;
  shares->own[checkpoint] = 0;
  shares->first[checkpoint] = shares->end[checkpoint];
  return n_bytes;
}
