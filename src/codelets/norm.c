/* norm.c - the norm of the whole gradient, and clipping by it. */
#include "codelets/codelets.h"

#include "kernels/kernels.h"
#include "tasks/tasks.h"

#include <math.h>

static void square_cpu(const struct dsflow_call *call)
{
    const struct dsf_square_args *a = call->args;
    double *out = call->bufs[1].ptr;

    *out = dsf_square_sum(call->bufs[0].ptr, (size_t)a->elems);
}

const struct dsflow_codelet dsf_codelet_square = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_square,
    .cpu = square_cpu,
};

static void sum_cpu(const struct dsflow_call *call)
{
    double sum = 0;

    for (unsigned i = 1; i < call->nbufs; i++)
        sum += *(const double *)call->bufs[i].ptr;
    *(double *)call->bufs[0].ptr = sum;
}

const struct dsflow_codelet dsf_codelet_sum = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_sum,
    .cpu = sum_cpu,
};

static void clip_cpu(const struct dsflow_call *call)
{
    const struct dsf_clip_args *a = call->args;
    struct dsf_control *c = call->bufs[1].ptr;
    double ratio;

    c->norm = sqrt(*(const double *)call->bufs[0].ptr);
    ratio = a->limit / (c->norm + 1e-6);
    c->scale = a->limit > 0 && ratio < 1 ? ratio : 1;
}

const struct dsflow_codelet dsf_codelet_clip = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_clip,
    .cpu = clip_cpu,
};
