/* The command: finds what is to be run, runs it, and is the only place that prints errors. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/metrics.h"
#include "cli/options.h"
#include "cli/output.h"

/* The job that a signal stops. */
static BlJob *signalled_job;

static void on_signal(int number) {
  (void)number;
  if (signalled_job->cancelled) _exit(bl_error_exit_code(BL_ERROR_CANCELLED));
  signalled_job->cancelled = 1;
}

/* A signal that was ignored when we were started (nohup, a shell's background job) stays ignored.
 */
static void catch_signal(int number) {
  struct sigaction old, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
    sigaction(number, &action, NULL);
}

static void catch_signals(BlJob *job) {
  signalled_job = job;
  catch_signal(SIGINT);
  catch_signal(SIGTERM);
  catch_signal(SIGHUP);
  signal(SIGPIPE, SIG_IGN);
  /* A file that may not grow so large is an error of the write. */
  signal(SIGXFSZ, SIG_IGN);
}

/* Where we are started without one of the standard descriptors, the next file opened would get its
 * number, and a message would be written into an object. What stands in fails when it is used. */
static void fill_standard_fds(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
      _exit(bl_error_exit_code(BL_ERROR_IO));
}

static void on_note(BlNoteLevel level, const char *text, gpointer data) {
  BlCli *cli = data;
  gboolean is_warning = level == BL_NOTE_WARNING;
  if (is_warning) {
    g_mutex_lock(&cli->lock);
    g_ptr_array_add(cli->warnings, g_strdup(text));
    g_mutex_unlock(&cli->lock);
  }
  if (cli->quiet && !is_warning) return;
  g_autofree char *line = g_strconcat("ballast: ", is_warning ? "warning: " : "", text, NULL);
  bl_progress_print(&cli->progress, line);
}

static void cli_init(BlCli *cli) {
  memset(cli, 0, sizeof *cli);
  g_mutex_init(&cli->lock);
  cli->warnings = g_ptr_array_new_with_free_func(g_free);
  cli->metrics = g_string_new(NULL);
  bl_job_init(&cli->job);
  cli->job.note = on_note;
  cli->job.note_data = cli;
  bl_progress_init(&cli->progress, &cli->job);
}

static void cli_clear(BlCli *cli) {
  bl_job_clear(&cli->job);
  g_ptr_array_unref(cli->warnings);
  g_free(cli->store_option);
  g_free(cli->metrics_file);
  g_string_free(cli->metrics, TRUE);
  g_mutex_clear(&cli->lock);
}

/* Takes the word out of the line. */
static char *take_word(char **words, guint i) {
  char *word = words[i];
  memmove(words + i, words + i + 1, (g_strv_length(words + i)) * sizeof *words);
  return word;
}

/* Takes the command's words out of the line. Both *group and *command stay NULL where the line has
 * none. FALSE with error set where they are no command. */
static gboolean find_command(char **words, const char **group, const BlCommand **command,
                             GError **error) {
  gssize i = bl_options_next_word(words, 0);
  if (i < 0) return TRUE;
  g_autofree char *word = take_word(words, (guint)i);
  *command = bl_command_find(NULL, word);
  if (*command != NULL) return TRUE;
  if (bl_command_group_summary(word) == NULL) {
    bl_command_set_unknown(error, NULL, word);
    return FALSE;
  }

  *group = g_intern_string(word);
  i = bl_options_next_word(words, (guint)i);
  if (i < 0) return TRUE;
  g_autofree char *name = take_word(words, (guint)i);
  *command = bl_command_find(*group, name);
  if (*command == NULL) bl_command_set_unknown(error, *group, name);
  return *command != NULL;
}

static int print_version(BlCli *cli) {
  if (cli->json) {
    bl_out_json_open();
    bl_out_json_member("version", json_string(BALLAST_VERSION));
    bl_out_json_close(cli);
  } else {
    bl_out_line("ballast %s", BALLAST_VERSION);
  }
  return 0;
}

/* "--help" is "help" with the command's words as its arguments. */
static int print_help(BlCli *cli, const char *group, const BlCommand *command, GError **error) {
  g_autofree char *first = g_strdup(group != NULL ? group : command != NULL ? command->name : NULL);
  g_autofree char *second = g_strdup(group != NULL && command != NULL ? command->name : NULL);
  char *args[] = {first, second, NULL};
  return bl_cmd_help.run(cli, args, error);
}

/* No command was named: the usage is the answer, but not success. */
static int print_usage(BlCli *cli, const char *group, GError **error) {
  if (cli->json) {
    bl_error_set(error, BL_ERROR_INVALID, "no command was named (see \"ballast help%s%s\")",
                 group != NULL ? " " : "", group != NULL ? group : "");
    return -1;
  }
  if (group != NULL)
    bl_help_group(stderr, group);
  else
    bl_help_overview(stderr);
  return bl_error_exit_code(BL_ERROR_INVALID);
}

static int run(BlCli *cli, char **words, const BlCommand **command, GError **error) {
  const char *group = NULL;
  if (!find_command(words, &group, command, error)) return -1;
  /* What is completed is no line of ours yet: nothing in it is parsed. */
  if (*command == &bl_cmd_complete) return (*command)->run(cli, words, error);

  g_auto(GStrv) args = NULL;
  if (!bl_options_parse(cli, *command, words, &args, error)) return -1;
  cli->progress.is_quiet = cli->quiet;
  if (cli->version) return print_version(cli);
  if (cli->help) return print_help(cli, group, *command, error);
  if (*command == NULL && !bl_args_end(args, error)) return -1;
  if (*command == NULL) return print_usage(cli, group, error);

  int code = (*command)->run(cli, args, error);
  bl_progress_stop(&cli->progress);
  return code;
}

static void print_error_json(BlCli *cli, BlErrorCode code, const char *message) {
  json_t *json = json_object();
  json_object_set_new(json, "code", json_string(bl_error_name(code)));
  json_object_set_new(json, "exit_code", json_integer(bl_error_exit_code(code)));
  json_object_set_new(json, "message", bl_json_text(message));
  bl_out_json_open();
  bl_out_json_member("error", json);
  bl_out_json_close(cli);
}

/* Prints the error and gives its exit code. */
static int report(BlCli *cli, const BlCommand *command, const GError *error) {
  BlErrorCode code = bl_error_code(error);
  g_autofree char *message = g_strdup(error->message);
  if (code == BL_ERROR_CANCELLED && command != NULL && command->interrupted != NULL) {
    g_free(message);
    message = g_strconcat("interrupted: ", command->interrupted, NULL);
  }
  if (cli->json) print_error_json(cli, code, message);
  g_autofree char *line = g_strconcat("ballast: ", message, NULL);
  bl_progress_print(&cli->progress, line);
  return bl_error_exit_code(code);
}

/* Errors of parsing are printed as --json asks, too. */
static gboolean asks_for_json(char **words) {
  for (; *words != NULL && !g_str_equal(*words, "--"); words++)
    if (g_str_equal(*words, "--json")) return TRUE;
  return FALSE;
}

/* Wrong options end the parsing before the value is taken. */
static void find_metrics_file(BlCli *cli, char **words) {
  static const char option[] = "--metrics-file";
  for (guint i = 0; words[i] != NULL && !g_str_equal(words[i], "--"); i++) {
    if (!g_str_has_prefix(words[i], option)) continue;
    const char *rest = words[i] + strlen(option);
    if (rest[0] == '=') cli->metrics_file = g_strdup(rest + 1);
    if (rest[0] == '\0' && words[i + 1] != NULL) cli->metrics_file = g_strdup(words[i + 1]);
    if (cli->metrics_file != NULL) return;
  }
}

/* A run that succeeded has failed where its metrics cannot be written. */
static int write_metrics(BlCli *cli, const BlCommand *command, int code, gint64 started_us) {
  g_autoptr(GError) error = NULL;
  if (cli->metrics_file == NULL ||
      bl_metrics_write(cli, command, code, g_get_monotonic_time() - started_us, &error))
    return code;
  on_note(BL_NOTE_WARNING, error->message, cli);
  return code != 0 ? code : bl_error_exit_code(BL_ERROR_IO);
}

int main(int argc, char **argv) {
  (void)argc;
  gint64 started_us = g_get_monotonic_time();
  fill_standard_fds();
  BlCli cli;
  cli_init(&cli);
  catch_signals(&cli.job);
  g_auto(GStrv) words = g_strdupv(argv + 1);
  cli.json = asks_for_json(words);
  find_metrics_file(&cli, words);

  g_autoptr(GError) error = NULL;
  const BlCommand *command = NULL;
  int code = run(&cli, words, &command, &error);
  /* Whoever read our output has gone (a pager, head): that is an end, not a failure. */
  gboolean is_closed = error != NULL && bl_error_code(error) == BL_ERROR_IO && bl_out_is_closed();
  if (is_closed)
    code = 0;
  else if (error != NULL)
    code = report(&cli, command, error);

  g_autoptr(GError) output_error = NULL;
  if (!bl_out_finish(&is_closed, &output_error) && !is_closed) {
    cli.json = FALSE;
    code = report(&cli, command, output_error);
  }
  code = write_metrics(&cli, command, code, started_us);
  cli_clear(&cli);
  return code;
}
