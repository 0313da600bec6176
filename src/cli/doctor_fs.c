/* What the store's file system can do, found out by doing it: what a file system says of itself is
 * not always so.
 *
 * The files for it have names of temporaries, so that "ballast gc" removes what a killed run
 * leaves. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "cli/doctor.h"
#include "store/dir_publish.h"

#define BLOCK 4096

typedef struct {
  BlDoctor *doctor;
  int folder_fd, file_fd;
  char *file;            /* one block long */
  char *other, *another; /* names that are free when a trial begins */
} Trial;

/* Files of a trial go before the next one. */
static void clear(const Trial *trial) {
  unlinkat(trial->folder_fd, trial->other, 0);
  unlinkat(trial->folder_fd, trial->another, 0);
}

static void try_rename(Trial *trial) {
  static const char *const ways[] = {
      [BL_PUBLISH_RENAME] = "renames can refuse to replace",
      [BL_PUBLISH_LINK] = "renames cannot refuse to replace, links do it",
      [BL_PUBLISH_LOCKED] = "neither renames nor links can refuse to replace: a lock does it",
  };
  gint way = BL_PUBLISH_RENAME;
  bl_autofd fd = bl_openat(trial->folder_fd, trial->another, O_WRONLY | O_CREAT | O_EXCL, 0600);
  int errnum = fd < 0 ? errno
                      : bl_publish_no_replace(trial->folder_fd, trial->another, trial->folder_fd,
                                              trial->other, &way);
  if (errnum != 0)
    bl_doctor_add(trial->doctor, BL_DOCTOR_PROBLEM, "rename",
                  "put the store on another file system", "a file cannot get its name: %s",
                  g_strerror(errnum));
  else
    bl_doctor_add(trial->doctor, way == BL_PUBLISH_LOCKED ? BL_DOCTOR_NOTE : BL_DOCTOR_OK, "rename",
                  NULL, "%s", ways[way]);
}

static void try_link(Trial *trial) {
  if (linkat(trial->folder_fd, trial->file, trial->folder_fd, trial->other, 0) == 0)
    bl_doctor_add(trial->doctor, BL_DOCTOR_OK, "hard links", NULL,
                  "yes: checkpoints share equal files");
  else
    bl_doctor_add(trial->doctor, BL_DOCTOR_NOTE, "hard links", NULL,
                  "no (%s): equal files are shared only by reflinks, pulls copy",
                  g_strerror(errno));
}

static void try_reflink(Trial *trial) {
  bl_autofd fd = bl_openat(trial->folder_fd, trial->other, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (fd >= 0 && ioctl(fd, FICLONE, trial->file_fd) == 0)
    bl_doctor_add(trial->doctor, BL_DOCTOR_OK, "reflinks", NULL,
                  "yes: imports and pulls on this file system copy no bytes");
  else
    bl_doctor_add(trial->doctor, BL_DOCTOR_NOTE, "reflinks", NULL,
                  "no (%s): imports and copying pulls write every byte", g_strerror(errno));
}

static void try_direct(Trial *trial) {
  void *data = NULL;
  if (posix_memalign(&data, BLOCK, BLOCK) != 0) return;
  memset(data, 0, BLOCK);
  bl_autofd fd =
      bl_openat(trial->folder_fd, trial->other, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT, 0600);
  if (fd >= 0 && pwrite(fd, data, BLOCK, 0) == BLOCK)
    bl_doctor_add(trial->doctor, BL_DOCTOR_OK, "O_DIRECT", NULL, "yes");
  else
    bl_doctor_add(trial->doctor, BL_DOCTOR_NOTE, "O_DIRECT", NULL,
                  "no (%s): what is imported goes through the page cache", g_strerror(errno));
  free(data);
}

static void try_locks(Trial *trial) {
  if (bl_lock_self_test(trial->folder_fd, trial->file))
    bl_doctor_add(trial->doctor, BL_DOCTOR_OK, "locks", NULL, "they conflict, as they must");
  else
    bl_doctor_add(trial->doctor, BL_DOCTOR_NOTE, "locks", NULL,
                  "they prove nothing here: a command that died in its work is noticed after 30 s");
}

static void try_letters(Trial *trial) {
  bl_autofd fd = bl_openat(trial->folder_fd, trial->other, O_WRONLY | O_CREAT | O_EXCL, 0600);
  g_autofree char *upper = g_ascii_strup(trial->other, -1);
  if (fd < 0) return;
  if (faccessat(trial->folder_fd, upper, F_OK, 0) == 0)
    bl_doctor_add(trial->doctor, BL_DOCTOR_NOTE, "letter case", NULL,
                  "ignored: of two ids that differ in it alone, only one can be imported");
  else
    bl_doctor_add(trial->doctor, BL_DOCTOR_OK, "letter case", NULL, "told apart");
}

static void try_times(Trial *trial) {
  /* No file system's own step is a multiple of this. */
  const struct timespec wanted = {1700000001, 123456789};
  const struct timespec times[2] = {wanted, wanted};
  struct stat st;
  if (futimens(trial->file_fd, times) != 0 || fstat(trial->file_fd, &st) != 0) {
    bl_doctor_add(trial->doctor, BL_DOCTOR_NOTE, "times", NULL, "they cannot be set: %s",
                  g_strerror(errno));
    return;
  }
  gint64 off =
      (st.st_mtim.tv_sec - wanted.tv_sec) * 1000000000 + st.st_mtim.tv_nsec - wanted.tv_nsec;
  const char *step = off == 0             ? "nanoseconds"
                     : ABS(off) < 1000    ? "microseconds"
                     : ABS(off) < 1000000 ? "milliseconds"
                                          : "10 milliseconds or more";
  bl_doctor_add(
      trial->doctor, ABS(off) < 1000000 ? BL_DOCTOR_OK : BL_DOCTOR_NOTE, "times", NULL,
      "kept in %s%s", step,
      ABS(off) < 1000000 ? "" : ": \"verify --quick\" reads again what was imported just now");
}

/* The file with a block in it, durable. */
static gboolean try_write(Trial *trial) {
  static const char data[BLOCK];
  g_autoptr(GError) failed = NULL;
  trial->file_fd = bl_openat(trial->folder_fd, trial->file, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (trial->file_fd < 0)
    bl_error_set_errno(&failed, errno, "a file cannot be made");
  else if (bl_pwrite_all(trial->file_fd, data, sizeof data, 0, &failed) &&
           bl_fsync(trial->file_fd, "a file", &failed))
    bl_fsync(trial->folder_fd, "its folder", &failed);
  if (failed == NULL)
    bl_doctor_add(trial->doctor, BL_DOCTOR_OK, "writing", NULL, "a file and its folder are synced");
  else
    bl_doctor_add(trial->doctor, BL_DOCTOR_PROBLEM, "writing",
                  bl_error_code(failed) == BL_ERROR_NO_SPACE
                      ? "make room (\"ballast gc\", \"ballast prune\")"
                      : "look at the disk and its file system",
                  "%s", failed->message);
  return failed == NULL;
}

void bl_doctor_try_file_system(BlDoctor *doctor, const char *folder) {
  static void (*const trials[])(Trial *) = {try_rename, try_link,    try_reflink, try_direct,
                                            try_locks,  try_letters, try_times};
  char token[33], *names[3];
  bl_token_make(token);
  for (guint i = 0; i < G_N_ELEMENTS(names); i++)
    names[i] = g_strdup_printf(".tmp-%s-%u", token, i);
  Trial trial = {
      .doctor = doctor, .file_fd = -1, .file = names[0], .other = names[1], .another = names[2]};
  trial.folder_fd = bl_openat(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0);
  if (trial.folder_fd >= 0 && try_write(&trial)) {
    for (gsize i = 0; i < G_N_ELEMENTS(trials); i++) {
      trials[i](&trial);
      clear(&trial);
    }
  }
  if (trial.folder_fd >= 0) unlinkat(trial.folder_fd, trial.file, 0);
  bl_fd_clear(&trial.file_fd);
  bl_fd_clear(&trial.folder_fd);
  for (guint i = 0; i < G_N_ELEMENTS(names); i++) g_free(names[i]);
}
