#include "upkeep/finding.h"

#include <string.h>

#include "base/digest.h"
#include "base/path.h"

static const struct {
  const char *name;
  BlSeverity severity;
  /* A command for people; %s is the checkpoint. */
  const char *advice;
} kinds[BL_FINDING_N] = {
    [BL_FINDING_MANIFEST] = {"manifest", BL_SEVERITY_DAMAGED,
                             "\"ballast model delete %s\", then import it again"},
    [BL_FINDING_UNREADABLE] = {"unreadable", BL_SEVERITY_DAMAGED,
                               "look at it as its owner, or with a newer ballast"},
    [BL_FINDING_SIZE] = {"size", BL_SEVERITY_DAMAGED, "\"ballast model repair %s\""},
    [BL_FINDING_STATE] = {"state", BL_SEVERITY_DAMAGED,
                          "\"ballast model verify %s\", and pin it again if it was"},
    [BL_FINDING_BAD_REF] = {"bad-ref", BL_SEVERITY_DAMAGED,
                            "set it again with \"ballast model tag\""},
    [BL_FINDING_RECORDED] = {"recorded", BL_SEVERITY_DAMAGED, "\"ballast model repair %s\""},
    [BL_FINDING_MISSING] = {"missing", BL_SEVERITY_LOST, "\"ballast model repair %s\""},
    [BL_FINDING_REF] = {"ref", BL_SEVERITY_DANGLING,
                        "\"ballast gc\", or set it with \"ballast model tag\""},
    [BL_FINDING_INDEX] = {"index", BL_SEVERITY_DANGLING, "\"ballast model delete %s\""},
    [BL_FINDING_FAILED] = {"failed", BL_SEVERITY_LEFTOVER, "import it again, or \"ballast gc\""},
    [BL_FINDING_NO_MANIFEST] = {"no-manifest", BL_SEVERITY_LEFTOVER, "\"ballast gc\""},
    [BL_FINDING_ORPHAN] = {"orphan", BL_SEVERITY_LEFTOVER, "\"ballast gc\""},
    [BL_FINDING_CLAIM] = {"claim", BL_SEVERITY_LEFTOVER, "\"ballast gc\""},
    [BL_FINDING_RESERVATION] = {"reservation", BL_SEVERITY_LEFTOVER, "\"ballast gc\""},
    [BL_FINDING_TEMPORARY] = {"temporary", BL_SEVERITY_LEFTOVER, "\"ballast gc\""},
    [BL_FINDING_FOLDER] = {"folder", BL_SEVERITY_LEFTOVER, "\"ballast gc\""},
    [BL_FINDING_MOVED_REF] = {"moved-ref", BL_SEVERITY_LEFTOVER, "\"ballast gc\""},
    [BL_FINDING_USED] = {"used", BL_SEVERITY_LEFTOVER, "\"ballast gc\""},
    [BL_FINDING_FOREIGN] = {"foreign", BL_SEVERITY_FOREIGN, NULL},
};

const char *bl_severity_name(BlSeverity severity) {
  static const char *const names[BL_SEVERITY_N] = {"damaged", "lost", "dangling", "leftover",
                                                   "foreign"};
  return names[severity];
}

const char *bl_finding_name(BlFindingKind kind) {
  return kinds[kind].name;
}

BlSeverity bl_finding_severity(BlFindingKind kind) {
  return kinds[kind].severity;
}

char *bl_finding_advice(const BlFinding *finding) {
  const char *advice = kinds[finding->kind].advice;
  if (advice == NULL) return NULL;
  /* Only gc's own rule makes an exception of these two: what else lies there is not ballast's. */
  gboolean is_whole = finding->kind == BL_FINDING_FAILED || finding->kind == BL_FINDING_NO_MANIFEST;
  if (is_whole && !finding->is_garbage) advice = "\"ballast model delete %s\"";
  const char *place = strstr(advice, "%s");
  if (place == NULL) return g_strdup(advice);
  return g_strdup_printf("%.*s%s%s", (int)(place - advice), advice, finding->checkpoint_id,
                         place + 2);
}

/* The first half of a SHA-256 over kind, place and what a stat tells. Not the device: its number
 * may be another at each mount; nor the change time: it is another when a name of the same file, in
 * another checkpoint, comes or goes. */
static void digest_object(const BlFinding *finding, const char *name, const BlObjectStat *stat,
                          guint8 digest[BL_IDENTITY_SIZE]) {
  guint8 sha256[BL_SHA256_SIZE];
  g_autofree char *text = g_strdup_printf(
      "%s\n%s\n%s\n%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GINT64_FORMAT,
      kinds[finding->kind].name, finding->checkpoint_id != NULL ? finding->checkpoint_id : "", name,
      stat->size, stat->inode, stat->mtime_ns);
  bl_sha256(text, strlen(text), sha256);
  memcpy(digest, sha256, BL_IDENTITY_SIZE);
}

void bl_finding_identify(BlFinding *finding) {
  finding->is_garbage = TRUE;
  digest_object(finding, finding->name, &finding->stat, finding->identity);
}

void bl_finding_add_object(BlFinding *finding, const char *key, const BlObjectStat *stat) {
  guint8 digest[BL_IDENTITY_SIZE];
  digest_object(finding, key, stat, digest);
  for (gsize i = 0; i < BL_IDENTITY_SIZE; i++) finding->identity[i] ^= digest[i];
  finding->is_garbage = TRUE;
  finding->n_objects++;
  finding->n_bytes += stat->size;
}
