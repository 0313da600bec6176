/* Reads of a checkpoint's files, by file and offset, over any store and any chunk size.
 *
 * On a remote store each block that a read touches is fetched whole and checked against its digest
 * where there is one; on a local one bytes are given as the file system gives them (import, verify
 * and pull hash). A missing or short object is CORRUPT, naming checkpoint, file and chunk. Used by
 * many threads at once. */
#pragma once
#include "model/digests.h"

typedef struct BlReader BlReader;
/* manifest and digests (may be NULL) are borrowed and outlive the reader. */
BlReader *bl_reader_new(BlStore *store, const BlManifest *manifest, const BlDigests *digests);
void bl_reader_free(BlReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlReader, bl_reader_free)

/* Exactly size bytes of manifest->files[file] from offset; a range past its end is INVALID. Where
 * the layout of the chunks is not known (chunk_size 0, several chunks), only offsets in order from
 * 0 are possible: UNSUPPORTED else. */
gboolean bl_reader_read(BlReader *reader, guint64 file, guint64 offset, void *data, gsize size,
                        GError **error);
/* As bl_reader_read, but the blocks are checked on a local store, too. UNSUPPORTED where the file
 * has no digests. */
gboolean bl_reader_read_checked(BlReader *reader, guint64 file, guint64 offset, void *data,
                                gsize size, GError **error);

/* One file in order from offset 0, chunk after chunk, each opened once. Belongs to one thread.
 * Bytes are not checked against digests: whoever reads a whole file hashes it. */
typedef struct BlReaderStream BlReaderStream;
BlReaderStream *bl_reader_stream_new(BlReader *reader, guint64 file);
/* The next bytes, up to size: fewer only at the end, 0 there. CORRUPT where the chunks hold fewer
 * or more bytes than the manifest says. -1 on error. */
gssize bl_reader_stream_read(BlReaderStream *stream, void *data, gsize size, GError **error);
void bl_reader_stream_free(BlReaderStream *stream);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlReaderStream, bl_reader_stream_free)
