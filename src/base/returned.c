/* returned.c - what functions that others have written return. */
#include "base/returned.h"

#include <stddef.h>

void dsf_no_message(struct dsflow_err *err)
{
    if (err != NULL)
        err->msg[0] = '\0';
}

int dsf_returned(int status, int most, const char *sort, const char *name,
                 const char *function, struct dsflow_err *err)
{
    if (status > most)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s %.60s: its %s returns %d: expected DSFLOW_OK, "
                           "or what dsflow_fail returns",
                           sort, name, function, status);
    if (status < 0 && err != NULL && err->msg[0] == '\0')
        return dsflow_fail(err, status,
                           "%s %.60s: its %s returns %d and no message: "
                           "expected what dsflow_fail returns",
                           sort, name, function, status);
    return status;
}
