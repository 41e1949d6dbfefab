/* rows_side.c - norm and residual of the rows that one tensor rank has, on a GPU.
 */
#include "gpu/gpu.h"
#include "gpu/numbers.h"
#include "tasks/tile.h"

static void norm_forward(const struct dsflow_call *call, void *stream)
{
    const struct dsf_norm_args *a = call->args;
    const struct dsf_gpu_norm norm = dsf_gpu_norm_of(
        call, DSFLOW_NORM_UNIT, &a->tile, a->norm_w, a->norm_b);
    const struct dsflow_buf *x = &call->bufs[DSFLOW_NORM_X];
    void *y = call->bufs[DSFLOW_NORM_Y].ptr;

    dsf_gpu_norm_forward(&norm, x->dtype, x->ptr, y, (size_t)a->tile.rows,
                         stream);
    if (dsf_tile_rounds(&a->tile))
        dsf_gpu_round_inputs(&a->tile, x->dtype, y, y, (size_t)a->tile.rows,
                             (size_t)a->tile.width, stream);
}

const struct dsf_gpu_side dsf_gpu_side_norm_forward = {
    .op = "norm.forward",
    .run = norm_forward,
};

static void norm_backward_input(const struct dsflow_call *call, void *stream)
{
    const struct dsf_norm_args *a = call->args;
    const struct dsf_gpu_norm norm = dsf_gpu_norm_of(
        call, DSFLOW_NORM_UNIT, &a->tile, a->norm_w, a->norm_b);
    const struct dsflow_buf *b = call->bufs;

    dsf_gpu_norm_backward(&norm, b[DSFLOW_NORM_X].dtype, b[DSFLOW_NORM_X].ptr,
                          b[DSFLOW_NORM_DY].ptr, b[DSFLOW_NORM_DRES].ptr,
                          b[DSFLOW_NORM_DX].ptr, b[DSFLOW_NORM_DNORM].ptr,
                          (size_t)a->tile.rows, call->scratch, stream);
}

static size_t norm_scratch(const struct dsflow_case *c)
{
    const struct dsf_norm_args *a = c->args;

    return dsf_gpu_norm_scratch((size_t)a->tile.rows, (size_t)a->tile.width);
}

const struct dsf_gpu_side dsf_gpu_side_norm_backward_input = {
    .op = "norm.backward_input",
    .run = norm_backward_input,
    .scratch = norm_scratch,
};

static void norm_backward_weight(const struct dsflow_call *call, void *stream)
{
    const struct dsf_norm_args *a = call->args;
    const struct dsf_gpu_gradient grad =
        dsf_gpu_gradient(call, DSFLOW_NORM_GRAD, stream);

    dsf_gpu_norm_gradient(grad.type, dsf_gpu_gradient_at(&grad, a->norm_w),
                          dsf_gpu_gradient_at(&grad, a->norm_b),
                          call->bufs[DSFLOW_NORM_DNORM].ptr,
                          (size_t)a->tile.width, stream);
}

const struct dsf_gpu_side dsf_gpu_side_norm_backward_weight = {
    .op = "norm.backward_weight",
    .run = norm_backward_weight,
};

static void residual_forward(const struct dsflow_call *call, void *stream)
{
    const struct dsf_residual_args *a = call->args;
    const struct dsflow_buf *b = call->bufs;

    dsf_gpu_residual(b[DSFLOW_RESIDUAL_X].dtype, b[DSFLOW_RESIDUAL_IN].ptr,
                     b[DSFLOW_RESIDUAL_X].ptr,
                     dsf_gpu_number(call, DSFLOW_RESIDUAL_UNIT, a->b),
                     b[DSFLOW_RESIDUAL_Y].ptr, (size_t)a->tile.rows,
                     (size_t)a->tile.width, stream);
}

const struct dsf_gpu_side dsf_gpu_side_residual_forward = {
    .op = "residual.forward",
    .run = residual_forward,
};

static void residual_backward_weight(const struct dsflow_call *call,
                                     void *stream)
{
    const struct dsf_residual_args *a = call->args;
    const struct dsflow_buf *dy = &call->bufs[DSFLOW_RESIDUAL_DY];
    const size_t width = (size_t)a->tile.width;
    const struct dsf_gpu_gradient grad =
        dsf_gpu_gradient(call, DSFLOW_RESIDUAL_GRAD, stream);

    dsf_gpu_column_sums(dy->dtype, grad.type, dsf_gpu_gradient_at(&grad, a->b),
                        dy->ptr, width, (size_t)a->tile.rows, width,
                        call->scratch, stream);
}

static size_t residual_scratch(const struct dsflow_case *c)
{
    const struct dsf_residual_args *a = c->args;

    return dsf_gpu_column_scratch((size_t)a->tile.rows,
                                  (size_t)a->tile.width);
}

const struct dsf_gpu_side dsf_gpu_side_residual_backward_weight = {
    .op = "residual.backward_weight",
    .run = residual_backward_weight,
    .scratch = residual_scratch,
};
