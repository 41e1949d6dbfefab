/* heads.c - heads of attention, from the ranks that have tokens to those that
 * have heads, and back. */
#include "codelets/codelets.h"

#include "codelets/trials.h"

#include <string.h>

static void move_run(const struct dsflow_call *call, unsigned port,
                     struct dsf_heads_move m)
{
    const size_t width = dsflow_dtype_bytes(call->bufs[0].dtype, 1);
    char *to = (char *)call->bufs[0].ptr + (size_t)m.to * width;
    const char *from =
        (const char *)call->bufs[port].ptr + (size_t)m.from * width;

    for (int64_t row = 0; row < m.rows; row++) {
        memcpy(to, from, (size_t)m.n * width);
        to += (size_t)m.to_apart * width;
        from += (size_t)m.from_apart * width;
    }
}

static void all_to_all_heads_cpu(const struct dsflow_call *call)
{
    const struct dsf_heads_args *a = call->args;

    for (unsigned i = 1; i < call->nbufs; i++)
        for (int32_t run = 0; run < a->runs; run++)
            move_run(call, i, dsf_heads_run(a, i, run));
}

DSF_CODELET(all_to_all_heads, .cpu = all_to_all_heads_cpu,
            .trials = &dsf_trials_heads);
