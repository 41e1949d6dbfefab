/* part_norm.c - norm and residual of the rows that one tensor rank has. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

static struct dsf_norm norm_of(const struct dsf_norm_args *a, float *unit)
{
    return (struct dsf_norm){ unit + a->norm_w, dsf_tensor_at(unit, a->norm_b),
                              (size_t)a->tile.width, a->tile.eps, a->tile.rms };
}

static void norm_forward_cpu(const struct dsflow_call *call)
{
    enum { X, UNIT, Y };
    const struct dsf_norm_args *a = call->args;
    const struct dsf_norm norm = norm_of(a, dsf_floats(call, UNIT));

    dsf_norm_forward(&norm, dsf_floats(call, X), dsf_floats(call, Y),
                     (size_t)a->tile.rows);
}

const struct dsflow_codelet dsf_codelet_norm_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_norm_forward,
    .cpu = norm_forward_cpu,
};

static void norm_backward_input_cpu(const struct dsflow_call *call)
{
    enum { DY, X, UNIT, DX, DNORM, DRES };
    const struct dsf_norm_args *a = call->args;
    const struct dsf_norm norm = norm_of(a, dsf_floats(call, UNIT));

    dsf_norm_backward(&norm, dsf_floats(call, X), dsf_floats(call, DY),
                      call->nbufs > DRES ? dsf_floats(call, DRES) : NULL,
                      dsf_floats(call, DX), dsf_floats(call, DNORM),
                      (size_t)a->tile.rows);
}

const struct dsflow_codelet dsf_codelet_norm_backward_input = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_norm_backward_input,
    .cpu = norm_backward_input_cpu,
};

static void norm_backward_weight_cpu(const struct dsflow_call *call)
{
    enum { DNORM, GRAD };
    const struct dsf_norm_args *a = call->args;
    const size_t width = (size_t)a->tile.width;
    const float *dnorm = dsf_floats(call, DNORM);
    float *grad = dsf_gradient(call, GRAD);

    dsf_add(grad + a->norm_w, dnorm, width);
    if (a->norm_b >= 0)
        dsf_add(grad + a->norm_b, dnorm + width, width);
}

const struct dsflow_codelet dsf_codelet_norm_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_norm_backward_weight,
    .cpu = norm_backward_weight_cpu,
};

/* The bias first, as where a product is added to x + b. */
static void residual_forward_cpu(const struct dsflow_call *call)
{
    enum { X, IN, Y, UNIT };
    const struct dsf_residual_args *a = call->args;
    const size_t width = (size_t)a->tile.width;
    const float *x = dsf_floats(call, X), *in = dsf_floats(call, IN);
    const float *b = a->b < 0 ? NULL : dsf_floats(call, UNIT) + a->b;
    float *y = dsf_floats(call, Y);

    for (size_t i = 0; i < dsf_tile_x(&a->tile); i += width) {
        if (b) {
            dsf_sum(y + i, x + i, b, width);
            dsf_add(y + i, in + i, width);
        } else {
            dsf_sum(y + i, x + i, in + i, width);
        }
    }
}

const struct dsflow_codelet dsf_codelet_residual_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_residual_forward,
    .cpu = residual_forward_cpu,
};

static void residual_backward_weight_cpu(const struct dsflow_call *call)
{
    enum { DY, GRAD };
    const struct dsf_residual_args *a = call->args;

    dsf_column_sums(dsf_gradient(call, GRAD) + a->b, dsf_floats(call, DY),
                    (size_t)a->tile.rows, (size_t)a->tile.width);
}

const struct dsflow_codelet dsf_codelet_residual_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_residual_backward_weight,
    .cpu = residual_backward_weight_cpu,
};
