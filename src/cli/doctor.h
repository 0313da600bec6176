/* What "ballast doctor" looks at. Each part adds its lines; nothing here fails: what cannot be
 * found out is a line, too. */
#pragma once
#include "cli/config.h"

typedef enum {
  BL_DOCTOR_OK,
  BL_DOCTOR_NOTE,    /* it works, slower or with less than it could */
  BL_DOCTOR_PROBLEM, /* an import or a pull would stop at it */
  BL_DOCTOR_N
} BlDoctorVerdict;

typedef struct {
  const char *part, *name; /* "store", "room"; static */
  BlDoctorVerdict verdict;
  char *text;         /* what was found */
  const char *advice; /* what to do; NULL; static */
} BlDoctorLine;

typedef struct {
  BlCli *cli;
  GPtrArray *lines; /* of BlDoctorLine */
  const char *part; /* of the lines that are added */
} BlDoctor;

void bl_doctor_add(BlDoctor *doctor, BlDoctorVerdict verdict, const char *name, const char *advice,
                   const char *format, ...) G_GNUC_PRINTF(5, 6);

/* Config files, the store that they or the options name, its settings and room. */
void bl_doctor_look_at_store(BlDoctor *doctor);
/* What the file system of the store's folder can do, tried with files there that are gone again
 * afterwards. This user can write there, or so it seems. */
void bl_doctor_try_file_system(BlDoctor *doctor, const char *folder);
/* Local state, limits, CPU. */
void bl_doctor_look_at_machine(BlDoctor *doctor);

/* The path, or what is there of the folders above it. Caller frees. */
char *bl_doctor_existing_part(const char *path);
/* 0, or the errno that says why this user can put nothing into the folder. */
int bl_doctor_check_rights(const char *folder);
