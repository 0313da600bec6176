/* A file that is written once, in order, and then made durable: how bulk data reaches the disk.
 *
 * A big one goes past the page cache (O_DIRECT) where the file system can: that takes a fifth of
 * the system's time per byte, which hashing can use, and leaves in memory what is there. Any other
 * goes through the cache, with write-back started early so that the disk works while the next bytes
 * are made. */
#pragma once
#include <glib.h>

typedef struct {
  int fd; /* borrowed */
  gboolean is_direct;
  guint64 offset;   /* bytes written so far */
  guint64 reserved; /* the file's length from the start; 0: it grows */
  guint64 flushed;  /* of them, those whose write-back was started */
} BlBulkFile;

/* fd is empty and open for writing. size_bytes: what will be written, as far as is known, else 0;
 * room for it is reserved where that is cheap. */
void bl_bulk_file_init(BlBulkFile *file, int fd, guint64 size_bytes);
/* The next bytes. Aligned memory (bl_store_buffer_new) and sizes keep the direct way open; others
 * end it. After an error the file can only be dropped. */
gboolean bl_bulk_file_write(BlBulkFile *file, const void *data, gsize size, GError **error);
/* Ends the file where its last byte was written; the descriptor reads and writes as any other
 * again. Not durable yet. */
gboolean bl_bulk_file_finish(BlBulkFile *file, GError **error);
