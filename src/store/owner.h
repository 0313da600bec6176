/* Who owns a claim: this process's identity as an object's bytes, and whether another's process
 * still lives. */
#pragma once
#include <glib.h>

typedef struct {
  char *host, *boot_id, *pid_namespace, *token, *operation;
  guint64 pid, start_time; /* start_time: clock ticks after boot, as /proc/<pid>/stat says */
  gint64 started_at;       /* Unix seconds */
} BlOwner;

/* This process, now, with a fresh token. */
BlOwner *bl_owner_new_self(const char *operation);
void bl_owner_free(BlOwner *owner);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlOwner, bl_owner_free)

/* The claim object's bytes; caller frees. */
char *bl_owner_to_json(const BlOwner *owner);
/* Never NULL: bytes that are no claim give an unknown owner whose token is made from them, so that
 * it can be watched and moved away like any other. */
BlOwner *bl_owner_from_json(const char *data, gsize size);

typedef enum {
  BL_OWNER_ALIVE,
  BL_OWNER_DEAD,
  BL_OWNER_SAME_BOOT, /* another pid namespace of this very machine and boot: a free lock proves
                         death */
  BL_OWNER_ELSEWHERE, /* another machine or boot: only a heartbeat tells */
} BlOwnerState;
BlOwnerState bl_owner_judge(const BlOwner *owner);

/* "import by host h, process 12, for 3 min"; caller frees. */
char *bl_owner_describe(const BlOwner *owner);
