/* pass.c - one message, and wait for its end. */
#include "net/pass.h"

#include "base/awaited.h"

static void wake(struct dsf_message *m)
{
    dsf_awaited_end(m->user);
}

int dsf_pass(struct dsf_wire *wire, bool out, int32_t process, uint32_t tag,
             void *memory, size_t bytes, struct dsflow_err *err)
{
    struct dsf_awaited end = DSF_AWAITED;
    struct dsf_message m = { .memory = memory,
                             .bytes = bytes,
                             .process = process,
                             .tag = tag,
                             .out = out,
                             .done = wake,
                             .user = &end };

    wire->post(wire, &m);
    dsf_awaited_wait(&end);
    return m.status == DSFLOW_OK ? DSFLOW_OK
                                 : dsflow_fail(err, m.status, "%s", m.err.msg);
}
