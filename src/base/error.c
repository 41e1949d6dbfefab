/* error.c - messages: decided once, carried up, printed by the command. */
#include <dsflow/error.h>

#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int status, exit;
    const char *text;
} statuses[] = {
#define XX(name, value, text, code) { value, code, text },
    DSFLOW_STATUS_MAP(XX)
#undef XX
};

static unsigned find(int status)
{
    unsigned n = sizeof(statuses) / sizeof(*statuses), i = 0;

    while (i < n && statuses[i].status != status)
        i++;
    return i;
}

const char *dsflow_status_str(int status)
{
    unsigned i = find(status);

    return i < sizeof(statuses) / sizeof(*statuses) ? statuses[i].text
                                                    : "unknown status";
}

int dsflow_status_exit(int status)
{
    unsigned i = find(status);

    return i < sizeof(statuses) / sizeof(*statuses) ? statuses[i].exit : 1;
}

/* One line that a terminal can be trusted with; "..." where it was cut. */
static void clean(char *msg, size_t size, int len)
{
    size_t end = size - 4;

    if (len >= (int)size) {
        while (end > 0 && (msg[end] & 0xc0) == 0x80)
            end--;
        memcpy(msg + end, "...", 4);
    }
    dsf_utf8_clean(msg);
}

int dsflow_fail(struct dsflow_err *err, int status, const char *fmt, ...)
{
    int saved = errno; /* for %m, and for the caller */
    va_list ap;

    if (err != NULL) {
        va_start(ap, fmt);
        err->status = (enum dsflow_status)status;
        errno = saved;
        clean(err->msg, sizeof(err->msg),
              vsnprintf(err->msg, sizeof(err->msg), fmt, ap));
        va_end(ap);
    }
    errno = saved;
    return status;
}

int dsflow_fail_in(struct dsflow_err *err, int status, const char *what)
{
    char msg[sizeof(err->msg)];

    if (err == NULL)
        return status;
    memcpy(msg, err->msg, sizeof(msg));
    return dsflow_fail(err, status, "%s: %s", what, msg);
}
