/* out.c - projection of the attention's output, added to the layer's input. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/inputs.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

static void forward_narrow(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    const uint16_t *unit = dsf_halves(call, DSFLOW_OUT_UNIT);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_OUT_ATT, dsf_out_scratch(DSFLOW_DIR_FORWARD, a));

    dsf_projection(&(struct dsf_projection){ &c, rows, nq, width },
                   dsf_narrow_inputs(&c, &a->tile,
                                     dsf_halves(call, DSFLOW_OUT_ATT), rows,
                                     nq),
                   unit + a->w, dsf_product_at(&c, call, DSFLOW_OUT_Y), width);
    dsf_product_leaves(&c, call, DSFLOW_OUT_Y,
                       dsf_halves(call, DSFLOW_OUT_X), /* of a part, NULL */
                       dsf_half_at(unit, a->b), rows, width);
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    float *unit = dsf_floats(call, DSFLOW_OUT_UNIT);
    float *y = dsf_floats(call, DSFLOW_OUT_Y);

    if (a->residual)
        dsf_residual(y, dsf_floats(call, DSFLOW_OUT_X),
                     dsf_tensor_at(unit, a->b), rows, width);
    dsf_gemm(0, 1, rows, width, nq,
             dsf_inputs(&a->tile, dsf_floats(call, DSFLOW_OUT_ATT),
                        call->scratch, rows, nq),
             nq, unit + a->w, nq, (float)a->residual, y, width);
}

DSF_BY_TYPE(out_forward, DSFLOW_OUT_ATT, forward)
DSF_SEGMENT_CODELET(out_forward, out_forward_cpu);

/* delta is of the gradient that is not rounded yet. */
static void backward_input_narrow(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_OUT_ATT, dsf_out_scratch(DSFLOW_DIR_BACKWARD_INPUT, a));

    dsf_projection_input(&(struct dsf_projection){ &c, rows, nq, width },
                         dsf_halves(call, DSFLOW_OUT_DY), width,
                         dsf_halves(call, DSFLOW_OUT_UNIT) + a->w, 0, c.wide);
    c.loops->head_dots(c.wide, dsf_halves(call, DSFLOW_OUT_ATT),
                       dsf_floats(call, DSFLOW_OUT_DELTA), rows,
                       (size_t)a->tile.heads, (size_t)a->tile.head_dim);
    c.loops->narrow(c.wide, nq, NULL, dsf_halves(call, DSFLOW_OUT_DATT), nq,
                    rows, nq);
}

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    float *datt = dsf_floats(call, DSFLOW_OUT_DATT);

    dsf_gemm(0, 0, rows, nq, width, dsf_floats(call, DSFLOW_OUT_DY), width,
             dsf_floats(call, DSFLOW_OUT_UNIT) + a->w, nq, 0, datt, nq);
    dsf_head_dots(datt, dsf_floats(call, DSFLOW_OUT_ATT),
                  dsf_floats(call, DSFLOW_OUT_DELTA), rows,
                  (size_t)a->tile.heads, (size_t)a->tile.head_dim);
}

DSF_BY_TYPE(out_backward_input, DSFLOW_OUT_ATT, backward_input)
DSF_SEGMENT_CODELET(out_backward_input, out_backward_input_cpu);

static void backward_weight_narrow(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    const uint16_t *dy = dsf_halves(call, DSFLOW_OUT_DY);
    const struct dsf_extent matrix = { a->w, width * nq };
    const struct dsf_gradient grad =
        dsf_gradient_on(call, DSFLOW_OUT_GRAD, &matrix, 1);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_OUT_ATT, dsf_out_scratch(DSFLOW_DIR_BACKWARD_WEIGHT, a));

    dsf_projection_weight(
        &(struct dsf_projection){ &c, rows, nq, width }, dy, width,
        dsf_narrow_inputs(&c, &a->tile, dsf_halves(call, DSFLOW_OUT_ATT), rows,
                          nq),
        &grad, a->w);
    dsf_gradient_columns(&grad, a->b, c.loops, dy, width, rows, width);
}

static void backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    const float *dy = dsf_floats(call, DSFLOW_OUT_DY);
    const struct dsf_extent matrix = { a->w, width * nq };
    float beta,
        *grad = dsf_gradient_but(call, DSFLOW_OUT_GRAD, &matrix, 1, &beta);

    dsf_gemm(1, 0, width, nq, rows, dy, width,
             dsf_inputs(&a->tile, dsf_floats(call, DSFLOW_OUT_ATT),
                        call->scratch, rows, nq),
             nq, beta, grad + a->w, nq);
    if (a->b >= 0)
        dsf_column_sums(grad + a->b, dy, rows, width);
}

DSF_BY_TYPE(out_backward_weight, DSFLOW_OUT_ATT, backward_weight)
DSF_SEGMENT_CODELET(out_backward_weight, out_backward_weight_cpu);
