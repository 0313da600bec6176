/* The folder that a pull writes into: files get there by a temporary that is renamed into place,
 * and never by way of a symbolic link, so that nothing outside the folder is touched.
 *
 * Temporaries of a pull live in `.ballast/tmp/<token>/` of the target, beside `<token>.lock`, which
 * is locked for as long as the pull runs: the next pull removes those of dead ones. Where a folder
 * below the target is another file system, and for single files, the temporary is
 * `.ballast-tmp-<token>-<n>` beside its file, and is itself locked. Where locks do not work,
 * nothing is removed. */
#pragma once
#include "base/job.h"

#define BL_TARGET_OWN_FOLDER ".ballast"

typedef struct BlTarget BlTarget;

/* Opens the folder. NULL without an error where it is not there; INVALID where it lies in a store.
 */
BlTarget *bl_target_open(const char *path, GError **error);
/* Opens it, made durably if need be. */
BlTarget *bl_target_make(const char *path, GError **error);
void bl_target_free(BlTarget *target);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(BlTarget, bl_target_free)
/* As it is shown in messages. */
const char *bl_target_name(const BlTarget *target);
/* Bytes that may still be written, and the size that files are rounded up to. */
gboolean bl_target_space(const BlTarget *target, guint64 *free_bytes, guint64 *block_size,
                         GError **error);

/* Prepares for writing: makes the folder for temporaries and removes those of dead pulls. With
 * sync_each every file is durable when it is published; without it only after bl_target_sync. */
gboolean bl_target_begin(BlTarget *target, gboolean sync_each, BlJob *job, GError **error);
/* Prepares for a single file: its temporary stands beside it, and what dead ones left there goes.
 */
void bl_target_begin_single(BlTarget *target);
/* Makes durable what was written and published so far. A failure is final. */
gboolean bl_target_sync(BlTarget *target, GError **error);
/* Makes durable what was there before: a killed pull, or whoever copied it there, may have left it
 * in the page cache alone. */
gboolean bl_target_sync_all(BlTarget *target, GError **error);
/* Removes every temporary of this pull, and folders of ours that are empty then. */
void bl_target_end(BlTarget *target);

/* The place of one file. */
typedef struct {
  BlTarget *target;
  int folder_fd;       /* the folder it belongs in */
  const char *name;    /* its last part; borrowed from the path */
  gboolean is_foreign; /* the folder is another file system's */
  int temp_folder_fd;  /* borrowed */
  char temp[80];       /* the temporary's name there */
} BlTargetPlace;

typedef enum { BL_PLACE_FOUND, BL_PLACE_NO_FOLDER, BL_PLACE_ERROR } BlPlaceResult;

/* Finds the place of a file by its path in the target; number tells the temporaries of a pull
 * apart. The path may lead through no symbolic link (EXISTS, naming it). make: missing folders are
 * made; else their lack is NO_FOLDER. A place that was found is closed with bl_place_close. */
BlPlaceResult bl_target_find_place(BlTarget *target, const char *path, guint64 number,
                                   gboolean make, BlTargetPlace *place, GError **error);
void bl_place_close(BlTargetPlace *place);
/* Whether the file is made durable when it is published. */
gboolean bl_place_syncs(const BlTargetPlace *place);

/* A new, empty temporary, open for reading and writing, mode less the umask. -1 on error. */
int bl_place_create(BlTargetPlace *place, mode_t mode, GError **error);
/* Removes the temporary, if it is there. */
void bl_place_discard(const BlTargetPlace *place);
/* Renames the temporary into place. FALSE with EXISTS where replace is not set and something is
 * there. */
gboolean bl_place_publish(const BlTargetPlace *place, gboolean replace, GError **error);

/* Whether this file system takes two paths for one (by letter case, or by what it drops from
 * names): they are tried among the temporaries. Needs bl_target_begin. */
gboolean bl_target_is_same_name(BlTarget *target, const char *path, const char *other,
                                gboolean *is_same, GError **error);

/* The target's record, `.ballast/pull.json`. NULL without an error where there is none that can be
 * read. */
char *bl_target_load_record(BlTarget *target, gsize *size);
/* Durably. Needs bl_target_begin. */
gboolean bl_target_save_record(BlTarget *target, const char *data, gsize size, GError **error);
gboolean bl_target_remove_record(BlTarget *target, GError **error);
