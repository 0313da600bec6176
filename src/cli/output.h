/* Standard output: tables and lines for people, one JSON document for machines. */
#pragma once
#include <jansson.h>

#include "cli/command.h"

/* Numbers for people; each writes into a buffer of its type and returns it. */
typedef char BlSizeText[32];
char *bl_size_format(BlSizeText text, guint64 bytes);    /* "0 B", "1.5 KiB", "843 MiB" … PiB */
char *bl_count_format(BlSizeText text, guint64 count);   /* "999", "22.7 M", "7.2 B", "1.1 T" */
char *bl_age_format(BlSizeText text, gint64 unix_time);  /* "12 s", "5 min", "3 h", "4 d" */
char *bl_files_format(BlSizeText text, guint64 n_files); /* "1 file", "13 files" */
char *bl_duration_format(BlSizeText text, gint64 elapsed_us); /* "12 ms", "3.4 s", "2 min 5 s" */
/* "843 MiB/s"; of many small files, where bytes say little, "5200 files/s". */
char *bl_rate_format(BlSizeText text, guint64 n_files, guint64 n_bytes, gint64 elapsed_us);
/* Local time, "2024-05-31 17:03:09". Caller frees. */
char *bl_time_format(gint64 unix_time);

/* A line; not for --json. */
void bl_out_line(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* A line that says what was done: none with -q. */
void bl_out_done(const BlCli *cli, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* The same: "13 files, 87.4 MiB in 0.3 s (284 MiB/s)". */
void bl_out_done_amount(const BlCli *cli, guint64 n_files, guint64 n_bytes, gint64 elapsed_us);
/* "label:      text", labels padded to one width; nothing where text is NULL. */
void bl_out_field(const char *label, const char *text);
void bl_out_fieldf(const char *label, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* A table whose rows are made when they are printed (twice: once to measure), so that memory does
 * not grow with it. Columns are separated by two blanks; a heading that begins with ">" aligns
 * right. row fills cells with new strings, one a column. */
typedef void (*BlRowFunc)(guint64 i, char **cells, gconstpointer user);
void bl_out_table(const char *const *headings, guint n_columns, guint64 n_rows, BlRowFunc row,
                  gconstpointer user);

/* The one JSON document of a run: an object whose members are written as they come, so that a list
 * of 100,000 files is never in memory at once. All that can fail is done before open. Values are
 * taken (references move). */
void bl_out_json_open(void);
void bl_out_json_member(const char *name, json_t *value);
void bl_out_json_array_begin(const char *name);
void bl_out_json_array_add(json_t *value);
void bl_out_json_array_end(void);
/* Adds "warnings" and ends the document. */
void bl_out_json_close(BlCli *cli);

/* A string; null for NULL; a name with bytes that are not UTF-8 as bl_path_display shows it. */
json_t *bl_json_text(const char *text);
json_t *bl_json_strv(char *const *texts);
json_t *bl_json_texts(const GPtrArray *texts); /* of char*; NULL: an empty array */
/* Numbers past 2^63-1 cannot occur in sizes of files; larger ones become the largest. */
json_t *bl_json_uint(guint64 value);

/* Writes out what is buffered. FALSE where standard output failed: *is_closed tells whether only
 * its reader is gone, else error is set. */
gboolean bl_out_finish(gboolean *is_closed, GError **error);
/* Whether nobody reads what is written to standard output any more. */
gboolean bl_out_is_closed(void);
