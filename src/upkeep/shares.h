/* Which bytes checkpoints have to themselves and which they share: by the files that hold their
 * objects. Some 40 bytes for each object of a file with several names, none for others. */
#pragma once
#include "upkeep/objects.h"

typedef struct BlShares BlShares;

/* Checkpoints are numbered 0 to n - 1. */
BlShares *bl_shares_new(guint n);
void bl_shares_free(BlShares *shares);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlShares, bl_shares_free)
/* From any thread; each checkpoint once. */
void bl_shares_add(BlShares *shares, guint checkpoint, const BlObjects *objects);
/* After the last add, and before what follows. */
void bl_shares_finish(BlShares *shares);

/* Bytes of the files that only this checkpoint, of those that are left, has a name for. */
guint64 bl_shares_unique(const BlShares *shares, guint checkpoint);
/* Bytes of its files that others have a name for, too. */
guint64 bl_shares_shared(const BlShares *shares, guint checkpoint);
/* Bytes of all files, each once. */
guint64 bl_shares_total(const BlShares *shares);
/* Counts as if the checkpoint were gone. Returns its unique bytes. */
guint64 bl_shares_take(BlShares *shares, guint checkpoint);
