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
/* What this reader's store has lost, has damaged as far as reads check it, or cannot give comes
 * from the other reader (borrowed, outlives this one), where that has a file of the same path, size
 * and SHA-256. Before the first read. */
void bl_reader_set_fallback(BlReader *reader, BlReader *fallback);
/* Files of which bytes came from the fallback. */
guint64 bl_reader_n_fallback_files(const BlReader *reader);
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
/* One that begins at offset, at most the file's size. NULL on error. */
BlReaderStream *bl_reader_stream_new_at(BlReader *reader, guint64 file, guint64 offset,
                                        GError **error);
/* The next bytes, up to size: fewer only at the end, 0 there. CORRUPT where the chunks hold fewer
 * or more bytes than the manifest says. -1 on error. */
gssize bl_reader_stream_read(BlReaderStream *stream, void *data, gsize size, GError **error);
/* For whoever found that the bytes given are not the file's: the stream goes on with the
 * fallback's, from offset on. FALSE where no fallback has the file, or where its bytes were what
 * was given. */
gboolean bl_reader_stream_fall_back(BlReaderStream *stream, guint64 offset);
void bl_reader_stream_free(BlReaderStream *stream);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlReaderStream, bl_reader_stream_free)
