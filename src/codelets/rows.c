/* rows.c - norm and residual of the rows that one tensor rank has. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/inputs.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsf_norm_args *a = call->args;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_NORM_UNIT, a);

    dsf_norm_forward(&norm, dsf_floats(call, DSFLOW_NORM_X),
                     dsf_floats(call, DSFLOW_NORM_Y), (size_t)a->tile.rows);
    dsf_inputs_in_place(&a->tile, dsf_floats(call, DSFLOW_NORM_Y),
                        (size_t)a->tile.rows, (size_t)a->tile.width);
}

static void forward_narrow(const struct dsflow_call *call)
{
    const struct dsf_norm_args *a = call->args;
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_NORM_UNIT, a);
    const struct dsf_narrow_loops *loops =
        dsf_narrow(call->bufs[DSFLOW_NORM_X].dtype);
    uint16_t *y = dsf_halves(call, DSFLOW_NORM_Y);

    loops->norm_forward(&norm, dsf_halves(call, DSFLOW_NORM_X), y,
                        (size_t)a->tile.rows);
    dsf_narrow_inputs_in_place(loops, &a->tile, y, (size_t)a->tile.rows,
                               (size_t)a->tile.width);
}

DSF_BY_TYPE(norm_forward, DSFLOW_NORM_X, forward)
DSF_PART_CODELET(norm_forward, norm_forward_cpu);

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsf_norm_args *a = call->args;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_NORM_UNIT, a);

    dsf_norm_backward(
        &norm, dsf_floats(call, DSFLOW_NORM_X),
        dsf_floats(call, DSFLOW_NORM_DY), dsf_floats(call, DSFLOW_NORM_DRES),
        dsf_floats(call, DSFLOW_NORM_DX), dsf_floats(call, DSFLOW_NORM_DNORM),
        (size_t)a->tile.rows);
}

static void backward_input_narrow(const struct dsflow_call *call)
{
    const struct dsf_norm_args *a = call->args;
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_NORM_UNIT, a);

    dsf_narrow(call->bufs[DSFLOW_NORM_X].dtype)
        ->norm_backward(&norm, dsf_halves(call, DSFLOW_NORM_X),
                        dsf_floats(call, DSFLOW_NORM_DY),
                        dsf_halves(call, DSFLOW_NORM_DRES),
                        dsf_halves(call, DSFLOW_NORM_DX),
                        dsf_floats(call, DSFLOW_NORM_DNORM),
                        (size_t)a->tile.rows);
}

DSF_BY_TYPE(norm_backward_input, DSFLOW_NORM_X, backward_input)
DSF_PART_CODELET(norm_backward_input, norm_backward_input_cpu);

static void norm_backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsf_norm_args *a = call->args;
    const size_t width = (size_t)a->tile.width;
    const float *dnorm = dsf_floats(call, DSFLOW_NORM_DNORM);
    const struct dsf_gradient grad =
        dsf_gradient_on(call, DSFLOW_NORM_GRAD, NULL, 0);

    dsf_gradient_norm(&grad, a->norm_w, a->norm_b, dnorm, width);
}

DSF_PART_CODELET(norm_backward_weight, norm_backward_weight_cpu);

/* The bias first, as where a product is added to x + b. */
static void add_cpu(const struct dsflow_call *call)
{
    const struct dsf_residual_args *a = call->args;
    const size_t width = (size_t)a->tile.width;
    const float *x = dsf_floats(call, DSFLOW_RESIDUAL_X),
                *in = dsf_floats(call, DSFLOW_RESIDUAL_IN);
    const float *b =
        a->b < 0 ? NULL : dsf_floats(call, DSFLOW_RESIDUAL_UNIT) + a->b;
    float *y = dsf_floats(call, DSFLOW_RESIDUAL_Y);

    for (size_t i = 0; i < dsf_tile_x(&a->tile); i += width) {
        if (b) {
            dsf_sum(y + i, x + i, b, width);
            dsf_add(y + i, in + i, width);
        } else {
            dsf_sum(y + i, x + i, in + i, width);
        }
    }
}

static void add_narrow(const struct dsflow_call *call)
{
    const struct dsf_residual_args *a = call->args;
    const uint16_t *unit = dsf_halves(call, DSFLOW_RESIDUAL_UNIT);

    dsf_narrow(call->bufs[DSFLOW_RESIDUAL_X].dtype)
        ->residual(dsf_floats(call, DSFLOW_RESIDUAL_IN),
                   dsf_halves(call, DSFLOW_RESIDUAL_X),
                   dsf_half_at(unit, a->b),
                   dsf_halves(call, DSFLOW_RESIDUAL_Y), (size_t)a->tile.rows,
                   (size_t)a->tile.width);
}

DSF_BY_TYPE(residual_forward, DSFLOW_RESIDUAL_X, add)
DSF_PART_CODELET(residual_forward, residual_forward_cpu);

static void bias_cpu(const struct dsflow_call *call)
{
    const struct dsf_residual_args *a = call->args;

    dsf_column_sums(dsf_gradient(call, DSFLOW_RESIDUAL_GRAD) + a->b,
                    dsf_floats(call, DSFLOW_RESIDUAL_DY), (size_t)a->tile.rows,
                    (size_t)a->tile.width);
}

static void bias_narrow(const struct dsflow_call *call)
{
    const struct dsf_residual_args *a = call->args;
    const size_t width = (size_t)a->tile.width;
    const struct dsf_gradient grad =
        dsf_gradient_on(call, DSFLOW_RESIDUAL_GRAD, NULL, 0);

    dsf_gradient_columns(&grad, a->b,
                         dsf_narrow(call->bufs[DSFLOW_RESIDUAL_DY].dtype),
                         dsf_halves(call, DSFLOW_RESIDUAL_DY), width,
                         (size_t)a->tile.rows, width);
}

DSF_BY_TYPE(residual_backward_weight, DSFLOW_RESIDUAL_DY, bias)
DSF_PART_CODELET(residual_backward_weight, residual_backward_weight_cpu);
