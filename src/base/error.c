#include "base/error.h"

#include <errno.h>
#include <stdarg.h>

G_DEFINE_QUARK(ballast_error, bl_error)

static const struct {
  const char *name;
  int exit_code;
  int http_status;
  int errnum;
} outward[BL_ERROR_N_CODES] = {
    [BL_ERROR_NOT_FOUND] = {"not-found", 3, 404, ENOENT},
    [BL_ERROR_EXISTS] = {"exists", 5, 409, EEXIST},
    [BL_ERROR_CORRUPT] = {"corrupt", 4, 500, EIO},
    [BL_ERROR_INVALID] = {"invalid", 2, 400, EINVAL},
    [BL_ERROR_BUSY] = {"busy", 5, 409, EBUSY},
    [BL_ERROR_NO_SPACE] = {"no-space", 1, 507, ENOSPC},
    [BL_ERROR_DENIED] = {"denied", 1, 403, EACCES},
    [BL_ERROR_UNAVAILABLE] = {"unavailable", 6, 503, EIO},
    [BL_ERROR_TIMED_OUT] = {"timed-out", 6, 504, ETIMEDOUT},
    [BL_ERROR_CANCELLED] = {"cancelled", 130, 503, EINTR},
    [BL_ERROR_UNSUPPORTED] = {"unsupported", 1, 501, ENOTSUP},
    [BL_ERROR_PROTOCOL] = {"protocol", 1, 502, EPROTO},
    [BL_ERROR_IO] = {"io", 1, 500, EIO},
    [BL_ERROR_INTERNAL] = {"internal", 1, 500, EIO},
};

int bl_error_exit_code(BlErrorCode code) {
  return outward[code].exit_code;
}

int bl_error_http_status(BlErrorCode code) {
  return outward[code].http_status;
}

int bl_error_errno(BlErrorCode code) {
  return outward[code].errnum;
}

const char *bl_error_name(BlErrorCode code) {
  return outward[code].name;
}

BlErrorCode bl_error_code(const GError *error) {
  if (error->domain != BL_ERROR || error->code < 0 || error->code >= BL_ERROR_N_CODES)
    return BL_ERROR_INTERNAL;
  return (BlErrorCode)error->code;
}

BlErrorCode bl_error_code_from_errno(int errnum) {
  switch (errnum) {
    case ENOENT:
    case ENOTDIR:
      return BL_ERROR_NOT_FOUND;
    case EEXIST:
      return BL_ERROR_EXISTS;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return BL_ERROR_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
      return BL_ERROR_DENIED;
    case EINTR:
      return BL_ERROR_CANCELLED;
    case ETIMEDOUT:
      return BL_ERROR_TIMED_OUT;
    case EOPNOTSUPP:
    case ENOSYS:
    case EXDEV:
      return BL_ERROR_UNSUPPORTED;
    default:
      return BL_ERROR_IO;
  }
}

static void set_valist(GError **error, BlErrorCode code, int errnum, const char *format,
                       va_list args) G_GNUC_PRINTF(4, 0);

static void set_valist(GError **error, BlErrorCode code, int errnum, const char *format,
                       va_list args) {
  if (error == NULL) return;
  g_autofree char *text = g_strdup_vprintf(format, args);
  if (errnum != 0)
    g_set_error(error, BL_ERROR, code, "%s: %s", text, g_strerror(errnum));
  else
    g_set_error_literal(error, BL_ERROR, code, text);
}

gboolean bl_error_set_errno(GError **error, int errnum, const char *format, ...) {
  va_list args;
  va_start(args, format);
  set_valist(error, bl_error_code_from_errno(errnum), errnum, format, args);
  va_end(args);
  return FALSE;
}

gboolean bl_error_set(GError **error, BlErrorCode code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  set_valist(error, code, 0, format, args);
  va_end(args);
  return FALSE;
}
