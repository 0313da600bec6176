/* The one error domain of ballast and the one table that maps its codes outward.
 *
 * Every function that can fail takes a GError** last, returns FALSE, NULL or -1 and sets it. Codes
 * say what kind of thing happened; messages say what was being done, to what, what was found, and
 * what to do next. Only the command prints them. */
#pragma once
#include <glib.h>

#define BL_ERROR (bl_error_quark())
GQuark bl_error_quark(void);

typedef enum {
  BL_ERROR_NOT_FOUND,   /* the thing named is not there */
  BL_ERROR_EXISTS,      /* it is there and must not be replaced */
  BL_ERROR_CORRUPT,     /* bytes are not what they must be, or are lost */
  BL_ERROR_INVALID,     /* an argument or an id is out of bounds */
  BL_ERROR_BUSY,        /* someone else works on it */
  BL_ERROR_NO_SPACE,    /* disk or quota full */
  BL_ERROR_DENIED,      /* permissions, read-only */
  BL_ERROR_UNAVAILABLE, /* a store cannot be reached */
  BL_ERROR_TIMED_OUT,   /* it did not answer in time */
  BL_ERROR_CANCELLED,   /* a signal or the caller asked to stop */
  BL_ERROR_UNSUPPORTED, /* this version, store or file system cannot do it */
  BL_ERROR_PROTOCOL,    /* a peer answered what it must not */
  BL_ERROR_IO,          /* the system failed to read or write */
  BL_ERROR_INTERNAL,    /* a fault of ballast itself */
  BL_ERROR_N_CODES
} BlErrorCode;

/* The command's exit code for a failure with this code (docs/errors.md). */
int bl_error_exit_code(BlErrorCode code);
/* The HTTP status a server answers. */
int bl_error_http_status(BlErrorCode code);
/* The errno a file system of ours answers. */
int bl_error_errno(BlErrorCode code);
/* A stable lower-case word for machines, such as "not-found". */
const char *bl_error_name(BlErrorCode code);
/* The code of an error of any domain; BL_ERROR_INTERNAL for foreign domains. */
BlErrorCode bl_error_code(const GError *error);

/* The code that fits an errno of the system: ENOENT is NOT_FOUND, ENOSPC and EDQUOT NO_SPACE,
 * EACCES, EPERM and EROFS DENIED, EEXIST EXISTS, EINTR CANCELLED, ETIMEDOUT TIMED_OUT,
 * EOPNOTSUPP and ENOSYS UNSUPPORTED, anything else IO. */
BlErrorCode bl_error_code_from_errno(int errnum);

/* Sets *error to the code of errnum and "<formatted>: <words of errnum>". Always returns FALSE, so
 * that a caller can end with it. */
gboolean bl_error_set_errno(GError **error, int errnum, const char *format, ...)
    G_GNUC_PRINTF(3, 4);

/* Sets *error; always returns FALSE. */
gboolean bl_error_set(GError **error, BlErrorCode code, const char *format, ...)
    G_GNUC_PRINTF(3, 4);
