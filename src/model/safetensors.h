/* safetensors headers: the verdict of the format's reference implementation (0.8.0), in bounded
 * memory.
 *
 * The one rule that is stricter: a tensor name that stands twice is refused, as the format's text
 * says and the reference does not check. What the reference accepts although the text forbids it
 * (white space before the object, a tensor written as an array) is accepted with a note. */
#pragma once
#include "model/tensors.h"

/* The reference's limit; decimal. */
#define BL_SAFETENSORS_HEADER_MAX 100000000u

/* `what` names the file in messages. CORRUPT where the header breaks a rule or does not fit the
 * file's size; UNSUPPORTED where its only fault is a dtype that this version does not know. */
BlTensorTable *bl_safetensors_read(const BlByteSource *source, const char *what, GError **error);
/* The same, but a file with unknown dtypes is read: all checks that need no element size are made.
 */
BlTensorTable *bl_safetensors_read_any(const BlByteSource *source, const char *what,
                                       GError **error);
/* FALSE with CORRUPT only where the file is empty, its length says more header than there may be or
 * is, or a tensor's data_offsets reach past its end. Whatever else may be wrong passes. */
gboolean bl_safetensors_check_length(const BlByteSource *source, const char *what, GError **error);
