/* Tag: a name of a model's for one of its checkpoints, set by hand. */
#pragma once
#include "base/job.h"
#include "store/store.h"

typedef enum { BL_TAG_SET, BL_TAG_MOVED, BL_TAG_ALREADY_THERE } BlTagOutcome;

typedef struct {
  BlTagOutcome outcome;
  char *model_id;
  char *previous; /* id of the checkpoint that it meant before; NULL: none */
} BlTagResult;
void bl_tag_result_clear(BlTagResult *result);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(BlTagResult, bl_tag_result_clear)

/* INVALID for what is no ref's name (bl_model_id_check), for one that looks like a commit, and for
 * one with an "@", which MODEL_ID@REF could not name. */
gboolean bl_tag_check(const char *ref, GError **error);
/* Sets the ref of the checkpoint's model to it, durably. EXISTS where the ref means another
 * checkpoint, unless `move`. The checkpoint must be READY (or DEGRADED); one that is deleted
 * meanwhile keeps no ref, and that is an error. */
gboolean bl_tag_set(BlStore *store, const char *checkpoint_id, const char *ref, gboolean move,
                    BlTagResult *result, GError **error);
