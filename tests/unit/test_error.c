#include "base/error.h"

#include <errno.h>

typedef struct {
  BlErrorCode code;
  const char *name;
  int exit_code, http_status, errnum;
} Row;

/* docs/errors.md, once more: a change of the table is a change of the interface. */
static const Row rows[] = {
    {BL_ERROR_NOT_FOUND, "not-found", 3, 404, ENOENT},
    {BL_ERROR_EXISTS, "exists", 5, 409, EEXIST},
    {BL_ERROR_CORRUPT, "corrupt", 4, 500, EIO},
    {BL_ERROR_INVALID, "invalid", 2, 400, EINVAL},
    {BL_ERROR_BUSY, "busy", 5, 409, EBUSY},
    {BL_ERROR_NO_SPACE, "no-space", 1, 507, ENOSPC},
    {BL_ERROR_DENIED, "denied", 1, 403, EACCES},
    {BL_ERROR_UNAVAILABLE, "unavailable", 6, 503, EIO},
    {BL_ERROR_TIMED_OUT, "timed-out", 6, 504, ETIMEDOUT},
    {BL_ERROR_CANCELLED, "cancelled", 130, 503, EINTR},
    {BL_ERROR_UNSUPPORTED, "unsupported", 1, 501, ENOTSUP},
    {BL_ERROR_PROTOCOL, "protocol", 1, 502, EPROTO},
    {BL_ERROR_IO, "io", 1, 500, EIO},
    {BL_ERROR_INTERNAL, "internal", 1, 500, EIO},
};

static void test_table(void) {
  g_assert_cmpuint(G_N_ELEMENTS(rows), ==, BL_ERROR_N_CODES);
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
    const Row *row = &rows[i];
    g_assert_cmpint(row->code, ==, i);
    g_assert_cmpstr(bl_error_name(row->code), ==, row->name);
    g_assert_cmpint(bl_error_exit_code(row->code), ==, row->exit_code);
    g_assert_cmpint(bl_error_http_status(row->code), ==, row->http_status);
    g_assert_cmpint(bl_error_errno(row->code), ==, row->errnum);
  }
}

static void test_from_errno(void) {
  static const struct {
    int errnum;
    BlErrorCode code;
  } codes[] = {
      {ENOENT, BL_ERROR_NOT_FOUND},
      {ENOTDIR, BL_ERROR_NOT_FOUND},
      {EEXIST, BL_ERROR_EXISTS},
      {ENOSPC, BL_ERROR_NO_SPACE},
      {EDQUOT, BL_ERROR_NO_SPACE},
      {EACCES, BL_ERROR_DENIED},
      {EPERM, BL_ERROR_DENIED},
      {EROFS, BL_ERROR_DENIED},
      {EINTR, BL_ERROR_CANCELLED},
      {ETIMEDOUT, BL_ERROR_TIMED_OUT},
      {ENOSYS, BL_ERROR_UNSUPPORTED},
      {EOPNOTSUPP, BL_ERROR_UNSUPPORTED},
      {EIO, BL_ERROR_IO},
      {EBADF, BL_ERROR_IO},
  };
  for (guint i = 0; i < G_N_ELEMENTS(codes); i++)
    g_assert_cmpint(bl_error_code_from_errno(codes[i].errnum), ==, codes[i].code);
}

static void test_set(void) {
  g_autoptr(GError) error = NULL;
  g_assert_false(bl_error_set(&error, BL_ERROR_BUSY, "checkpoint \"%s\": 100%% busy", "q"));
  g_assert_error(error, BL_ERROR, BL_ERROR_BUSY);
  g_assert_cmpstr(error->message, ==, "checkpoint \"q\": 100% busy");
  g_assert_cmpint(bl_error_code(error), ==, BL_ERROR_BUSY);
  g_clear_error(&error);

  g_assert_false(bl_error_set_errno(&error, ENOSPC, "cannot write \"%s\"", "x"));
  g_assert_error(error, BL_ERROR, BL_ERROR_NO_SPACE);
  g_autofree char *expected = g_strconcat("cannot write \"x\": ", g_strerror(ENOSPC), NULL);
  g_assert_cmpstr(error->message, ==, expected);

  g_assert_false(bl_error_set(NULL, BL_ERROR_IO, "nobody asks"));
  g_assert_false(bl_error_set_errno(NULL, EIO, "nobody asks"));
}

static void test_foreign(void) {
  g_autoptr(GError) foreign = g_error_new_literal(G_FILE_ERROR, G_FILE_ERROR_NOENT, "x");
  g_assert_cmpint(bl_error_code(foreign), ==, BL_ERROR_INTERNAL);
  g_autoptr(GError) outside = g_error_new_literal(BL_ERROR, BL_ERROR_N_CODES, "x");
  g_assert_cmpint(bl_error_code(outside), ==, BL_ERROR_INTERNAL);
}

int main(int argc, char **argv) {
  g_test_init(&argc, &argv, NULL);
  g_test_add_func("/error/table", test_table);
  g_test_add_func("/error/from-errno", test_from_errno);
  g_test_add_func("/error/set", test_set);
  g_test_add_func("/error/foreign", test_foreign);
  return g_test_run();
}
