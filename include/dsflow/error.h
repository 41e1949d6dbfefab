/* error.h - status codes, and the message that goes with them. */
#ifndef DSFLOW_ERROR_H
#define DSFLOW_ERROR_H

#include <dsflow/export.h>

DSFLOW_BEGIN_DECLS

/* XX(name, value, text, exit status of the command) */
#define DSFLOW_STATUS_MAP(XX)                                                  \
    XX(OK, 0, "success", 0)                                                    \
    XX(EINVAL, -1, "invalid value", 2)                                         \
    XX(ENOMEM, -2, "not enough memory", 1)                                     \
    XX(EIO, -3, "input/output error", 1)                                       \
    XX(EFIT, -4, "does not fit on the machine", 2)                             \
    XX(ENOSYS, -5, "not available in this build", 2)                           \
    XX(EFAIL, -6, "failed while running", 1)

enum dsflow_status {
#define XX(name, value, text, code) DSFLOW_##name = value,
    DSFLOW_STATUS_MAP(XX)
#undef XX
};

/* Filled by the function that decides what went wrong; the caller prints it.
 * Every function that takes one accepts NULL. */
struct dsflow_err {
    enum dsflow_status status;
    char msg[512];
};

DSFLOW_API const char *dsflow_status_str(int status);

/* What `dsflow` exits with for a status: 0, 1 (it failed while running) or
 * 2 (the command line, the job or a file it names is wrong). */
DSFLOW_API int dsflow_status_exit(int status);

/* Fill `err` when it is not NULL, and return `status`, so that a failing
 * function ends with one line: return dsflow_fail(err, DSFLOW_EINVAL, ...).
 * "%m" is the text of errno. Control characters, and bytes that are not
 * UTF-8, become '?'. */
DSFLOW_API int dsflow_fail(struct dsflow_err *err, int status, const char *fmt,
                           ...) DSFLOW_PRINTF(3, 4);

/* Put "<what>: " before the message, and return `status`. */
DSFLOW_API int dsflow_fail_in(struct dsflow_err *err, int status,
                              const char *what);

DSFLOW_END_DECLS

#endif
