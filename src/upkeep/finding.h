/* What a survey finds in a store beside whole checkpoints: what is wrong, lost, or left over. */
#pragma once
#include "store/store.h"

/* The worst first. */
typedef enum {
  BL_SEVERITY_DAMAGED,  /* bytes or records that are not what they must be */
  BL_SEVERITY_LOST,     /* bytes that are gone */
  BL_SEVERITY_DANGLING, /* names that point nowhere */
  BL_SEVERITY_LEFTOVER, /* what an ended command left; harmless but for its room */
  BL_SEVERITY_FOREIGN,  /* what ballast did not put there, and never touches */
  BL_SEVERITY_N
} BlSeverity;

typedef enum {
  BL_FINDING_MANIFEST,   /* damaged */
  BL_FINDING_UNREADABLE, /* by this user, or by this version */
  BL_FINDING_SIZE,       /* a file with objects of other sizes */
  BL_FINDING_STATE,      /* damaged */
  BL_FINDING_BAD_REF,    /* damaged */
  BL_FINDING_RECORDED,   /* damage that the last verify recorded */
  BL_FINDING_MISSING,    /* a file with objects that are gone */
  BL_FINDING_REF,        /* names a checkpoint that is gone */
  BL_FINDING_INDEX,      /* the same, in an index */
  BL_FINDING_FAILED,     /* a FAILED checkpoint that nobody works on */
  BL_FINDING_NO_MANIFEST,
  BL_FINDING_ORPHAN,      /* an object that the READY manifest does not name */
  BL_FINDING_CLAIM,       /* claims and heartbeats of dead owners */
  BL_FINDING_RESERVATION, /* room reserved by nobody */
  BL_FINDING_TEMPORARY,
  BL_FINDING_FOLDER,    /* an empty one */
  BL_FINDING_MOVED_REF, /* a ref that a killed delete had moved away */
  BL_FINDING_USED,      /* the last use of a checkpoint that is gone */
  BL_FINDING_FOREIGN,
  BL_FINDING_N
} BlFindingKind;

#define BL_IDENTITY_SIZE 16

typedef struct {
  BlFindingKind kind;
  const char *checkpoint_id; /* NULL: of no one checkpoint */
  const char *name;    /* an object's key, a file's path in the checkpoint, or what lies below the
                          store's root; NULL: the whole checkpoint */
  const char *text;    /* what is wrong, for people */
  guint64 n_objects;   /* that it is about */
  guint64 n_bytes;     /* that it holds; of what is lost, that it held */
  BlObjectStat stat;   /* of the one object or thing; zero else */
  gboolean is_garbage; /* gc may remove it */
  /* Where is_garbage: stays the same as long as nothing of it changes, and tells it from all
     others. */
  guint8 identity[BL_IDENTITY_SIZE];
} BlFinding;

/* One call at a time, from any thread. What the finding points to is valid during the call. */
typedef gboolean (*BlFindingFunc)(const BlFinding *finding, gpointer user, GError **error);

const char *bl_severity_name(BlSeverity severity); /* "damaged", … */
const char *bl_finding_name(BlFindingKind kind);   /* "manifest", "size", … */
BlSeverity bl_finding_severity(BlFindingKind kind);
/* What to run next; NULL where there is nothing to do. Caller frees. */
char *bl_finding_advice(const BlFinding *finding);

/* Sets the identity of a thing that is one object, or one below the store's root. */
void bl_finding_identify(BlFinding *finding);
/* The same for a set of objects: add each, in any order, then identify. */
void bl_finding_add_object(BlFinding *finding, const char *key, const BlObjectStat *stat);
