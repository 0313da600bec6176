/* An object as a stream: in for the JSON reader, out for text that is written piece by piece.
 * Memory does not grow with the object. Each belongs to one thread. */
#pragma once
#include "base/digest.h"
#include "base/job.h"
#include "base/json.h"
#include "store/store.h"

typedef struct BlObjectInput BlObjectInput;
/* NOT_FOUND where there is no such object. */
BlObjectInput *bl_object_input_open(BlStore *store, const char *key, GError **error);
/* A BlJsonInput; user is the BlObjectInput. Where the store gives descriptors, all bytes are of one
 * version of the object, even if it is replaced meanwhile. */
gssize bl_object_input_read(gpointer user, void *data, gsize size, GError **error);
void bl_object_input_free(BlObjectInput *input);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlObjectInput, bl_object_input_free)

typedef struct BlObjectOutput BlObjectOutput;
/* Replaces the object, durably, once it is committed. */
BlObjectOutput *bl_object_output_open(BlStore *store, const char *key, GError **error);
/* Where to append what comes next. */
GString *bl_object_output_text(BlObjectOutput *output);
/* Called now and then (after each record): writes what has gathered when that is much. */
gboolean bl_object_output_flush(BlObjectOutput *output, GError **error);
/* sha256: of all bytes written; may be NULL. */
gboolean bl_object_output_commit(BlObjectOutput *output, guint8 sha256[BL_SHA256_SIZE],
                                 GError **error);
void bl_object_output_free(BlObjectOutput *output);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlObjectOutput, bl_object_output_free)

/* What a reader makes of an object that only helps and could not be loaded. TRUE: it is damaged, or
 * a later version's; that is noted to the job, and the object counts as absent. FALSE: *error is
 * set to the fault. Takes fault over. */
gboolean bl_object_do_without(GError *fault, BlJob *job, GError **error);

/* A small JSON object that is ballast's own; new reference. NULL without an error where there is
 * none. CORRUPT where it has more than max_bytes, is no JSON object or has no schema_version;
 * UNSUPPORTED where that is above `schema`. `what` begins the message. */
json_t *bl_object_load_json(BlStore *store, const char *key, gsize max_bytes, guint schema,
                            const char *what, GError **error);
