/* move.c - what carries numbers from rank to rank. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"

static void send_cpu(const struct dsflow_call *call)
{
    memcpy(call->bufs[1].ptr, call->bufs[0].ptr, call->bufs[0].bytes);
}

const struct dsflow_codelet dsf_codelet_send = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_send,
    .cpu = send_cpu,
};

static void wait_cpu(const struct dsflow_call *call)
{
}

const struct dsflow_codelet dsf_codelet_wait = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_wait,
    .cpu = wait_cpu,
};

/* Copy `elems` elements of the type of port 0 between two ports. */
static void copy(const struct dsflow_call *call, unsigned to, int64_t to_at,
                 unsigned from, int64_t from_at, int64_t elems)
{
    size_t width = dsflow_dtype_bytes(call->bufs[0].dtype, 1);

    memcpy((char *)call->bufs[to].ptr + (size_t)to_at * width,
           (const char *)call->bufs[from].ptr + (size_t)from_at * width,
           (size_t)elems * width);
}

static void split_cpu(const struct dsflow_call *call)
{
    const struct dsf_move_args *a = call->args;

    for (unsigned i = 0; i + 1 < call->nbufs; i++)
        copy(call, i + 1, 0, 0, a->at[i], a->elems[i]);
}

const struct dsflow_codelet dsf_codelet_split = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_split,
    .cpu = split_cpu,
};

static void gather_cpu(const struct dsflow_call *call)
{
    const struct dsf_move_args *a = call->args;

    for (unsigned i = 0; i + 1 < call->nbufs; i++)
        copy(call, 0, a->at[i], i + 1, a->from[i], a->elems[i]);
}

const struct dsflow_codelet dsf_codelet_gather = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_gather,
    .cpu = gather_cpu,
};

/* Numbers that are summed at a time: partial sums stay in the cache. */
enum { CHUNK = 1024 };

/* The sum of `n` leaves: of the first 2^k of them, and of the rest. That is the
 * order of adding at strides of 1, 2, 4 … */
static void tree(const float *const *leaves, unsigned n, float *out, size_t len)
{
    float right[CHUNK];
    unsigned half = 1;

    if (n == 1) {
        memcpy(out, leaves[0], len * sizeof(float));
        return;
    }
    while (2 * half < n)
        half *= 2;
    tree(leaves, half, out, len);
    if (n - half == 1) {
        dsf_add(out, leaves[half], len);
        return;
    }
    tree(leaves + half, n - half, right, len);
    dsf_add(out, right, len);
}

static void reduce_scatter_cpu(const struct dsflow_call *call)
{
    const struct dsf_move_args *a = call->args;
    const size_t elems = (size_t)a->elems[0];
    float *into = dsf_floats(call, 0) + a->at[0];
    const unsigned n = call->nbufs - 1 + (a->self >= 0);

    for (size_t i = 0; i < elems; i += CHUNK) {
        const size_t len = elems - i < CHUNK ? elems - i : CHUNK;
        const float *leaves[DSF_MAX_PIECES + 1];
        float sum[CHUNK];

        for (unsigned k = 0, port = 0; k < n; k++) {
            leaves[k] = (int)k == a->self
                            ? into + i
                            : dsf_floats(call, port + 1) + a->from[port] + i;
            port += (int)k != a->self;
        }
        tree(leaves, n, sum, len);
        memcpy(into + i, sum, len * sizeof(float));
    }
}

const struct dsflow_codelet dsf_codelet_reduce_scatter = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_reduce_scatter,
    .cpu = reduce_scatter_cpu,
};
