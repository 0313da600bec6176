/* What main dispatches to: the table of commands, and what each of them is given.
 *
 * A command is one file, cmd_<group>_<name>.c, with one BlCommand. Options parse into static
 * variables of that file, as GOptionContext wants it: a process runs one command once. */
#pragma once
#include "base/error.h"
#include "base/job.h"
#include "cli/progress.h"
#include "store/store.h"

/* One run of the program. */
typedef struct {
  gboolean json;    /* one JSON document on standard output, nothing else there */
  gboolean quiet;   /* no progress, no notes, no word of success */
  gboolean verbose; /* details */
  gboolean help, version;
  char *store_option;  /* --store as given, or NULL */
  char *metrics_file;  /* --metrics-file as given, or NULL */
  GString *metrics;    /* what the command itself adds to that file (metrics.h) */
  BlJob job;           /* told to stop by SIGINT and SIGTERM */
  BlProgress progress; /* draws the job */
  GMutex lock;         /* protects warnings, nothing else */
  GPtrArray *warnings; /* of char*: what --json repeats in "warnings" */
} BlCli;

typedef struct {
  const char *group; /* "model", or NULL: stands alone */
  const char *name;
  const char *args; /* as in the usage line: "SOURCE [options]" */
  /* For completion, a letter an argument, the last one repeated: c a checkpoint, m a model id, r a
   * ref of the model that the first argument names, p a file in the checkpoint, f a file or folder,
   * h a command's words, - nothing. */
  const char *arg_kinds;
  const char *summary;         /* a line of at most 60 characters */
  const char *text;            /* what help says below the usage line */
  const char *examples;        /* lines that can be run */
  const char *interrupted;     /* what to do after Ctrl-C; NULL: nothing was begun */
  const GOptionEntry *options; /* ended by a NULL entry; NULL: none but the global ones */
  /* The exit code, or -1 with error set. args: what is no option, NULL-terminated. A command that
   * reports what is wrong with data has done its work: it returns 4 without an error. */
  int (*run)(BlCli *cli, char **args, GError **error);
} BlCommand;

extern const BlCommand bl_cmd_model_import, bl_cmd_model_list, bl_cmd_model_inspect,
    bl_cmd_model_verify, bl_cmd_model_pull, bl_cmd_model_materialize_file, bl_cmd_model_cat,
    bl_cmd_model_delete, bl_cmd_model_repair, bl_cmd_model_copy, bl_cmd_model_tag, bl_cmd_model_pin,
    bl_cmd_model_unpin, bl_cmd_store_set, bl_cmd_config_init, bl_cmd_config_show, bl_cmd_help,
    bl_cmd_complete, bl_cmd_stats, bl_cmd_prune, bl_cmd_fsck, bl_cmd_gc, bl_cmd_doctor;

/* Every command in the order that help shows, NULL behind the last. */
extern const BlCommand *const bl_commands[];

/* A group's line in the overview; NULL where there is no such group. */
const char *bl_command_group_summary(const char *group);

/* NULL where there is none. */
const BlCommand *bl_command_find(const char *group, const char *name);

/* Sets INVALID: the word is no command of the group (NULL: of ballast), with the nearest one. */
void bl_command_set_unknown(GError **error, const char *group, const char *word);

/* How its help is asked for; NULL: ballast's own. Caller frees. */
char *bl_command_help(const BlCommand *command);
/* Sets INVALID: no such option, with the nearest one. command may be NULL. */
void bl_command_set_unknown_option(GError **error, const BlCommand *command, const char *option);
