/* same_version.c - the first words of each process. All other messages may be
 * others in another version: this one stays as it is. */
#include "net/same_version.h"

#include "net/pass.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum tag { HELLO = DSF_OWN_TAGS + 8, WELCOME };

struct hello {
    char version[64], host[64];
};

/* In process 0. */
static int hear(struct dsf_wire *wire, int32_t p, const char *version,
                struct dsflow_err *err)
{
    struct hello h;
    int status = dsf_pass(wire, false, p, HELLO, &h, sizeof(h), err);

    h.version[sizeof(h.version) - 1] = h.host[sizeof(h.host) - 1] = '\0';
    if (status < 0 || strcmp(h.version, version) == 0)
        return status;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "process %d (host %s): dsflow %s: expected %s, as in "
                       "process 0",
                       (int)p, h.host, h.version, version);
}

int dsf_same_version(struct dsf_wire *wire, const char *version,
                     struct dsflow_err *err)
{
    struct hello own = { .host = "unknown" };
    char welcome = 1;
    int status = DSFLOW_OK;

    snprintf(own.version, sizeof(own.version), "%s", version);
    gethostname(own.host, sizeof(own.host) - 1);
    if (wire->process > 0) {
        status = dsf_pass(wire, true, 0, HELLO, &own, sizeof(own), err);
        return status == DSFLOW_OK ? dsf_pass(wire, false, 0, WELCOME, &welcome,
                                              sizeof(welcome), err)
                                   : status;
    }
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++)
        status = hear(wire, p, own.version, err);
    for (int32_t p = 1; p < wire->nprocesses && status == DSFLOW_OK; p++)
        status =
            dsf_pass(wire, true, p, WELCOME, &welcome, sizeof(welcome), err);
    return status;
}
