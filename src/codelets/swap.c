/* swap.c - from one memory of a rank to another; to and from NVMe the executor
 * does it (dsf_task_uses). */
#include "codelets/codelets.h"

#include "codelets/call.h"

static size_t bytes_of(const struct dsflow_call *call)
{
    size_t a = call->bufs[0].bytes, b = call->bufs[1].bytes;

    return a < b ? a : b;
}

static void swap_cpu(const struct dsflow_call *call)
{
    memcpy(call->bufs[1].ptr, call->bufs[0].ptr, bytes_of(call));
}

DSF_CODELET(swap_in, .cpu = swap_cpu);

DSF_CODELET(swap_out, .cpu = swap_cpu);
