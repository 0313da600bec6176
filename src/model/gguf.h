/* GGUF headers, versions 2 and 3, both byte orders: the checks of its reference implementation
 * (ggml).
 *
 * Arrays are passed over, never held; of each pair a preview is kept. A tensor type that this
 * version does not know is listed with an unknown size (bl_tensor_table_check_known tells); shapes
 * are in the file's order, fastest dimension first. */
#pragma once
#include "model/tensors.h"

/* Larger headers, and more tensors or pairs, are UNSUPPORTED: no real file comes near. */
#define BL_GGUF_HEADER_MAX (G_GUINT64_CONSTANT(1) << 30)
#define BL_GGUF_TENSORS_MAX 1000000
#define BL_GGUF_PAIRS_MAX 65536

/* `what` names the file in messages. CORRUPT where the header breaks a rule or the file ends before
 * its data does; UNSUPPORTED for version 1, for versions above 3 and for headers past the limits.
 */
BlTensorTable *bl_gguf_read(const BlByteSource *source, const char *what, GError **error);
/* FALSE with CORRUPT only where the file is not GGUF at all or ends before what its header
 * promises. */
gboolean bl_gguf_check_length(const BlByteSource *source, const char *what, GError **error);
