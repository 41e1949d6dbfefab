/* out.c - projection of the attention's output, added to the layer's input. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

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
    dsf_gemm(0, 1, rows, width, nq, dsf_floats(call, DSFLOW_OUT_ATT), nq,
             unit + a->w, nq, (float)a->residual, y, width);
}

DSF_SEGMENT_CODELET(out_forward, forward_cpu);

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

DSF_SEGMENT_CODELET(out_backward_input, backward_input_cpu);

static void backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    const float *dy = dsf_floats(call, DSFLOW_OUT_DY);
    const struct dsf_extent matrix = { a->w, width * nq };
    float beta,
        *grad = dsf_gradient_but(call, DSFLOW_OUT_GRAD, &matrix, 1, &beta);

    dsf_gemm(1, 0, width, nq, rows, dy, width, dsf_floats(call, DSFLOW_OUT_ATT),
             nq, beta, grad + a->w, nq);
    if (a->b >= 0)
        dsf_column_sums(grad + a->b, dy, rows, width);
}

DSF_SEGMENT_CODELET(out_backward_weight, backward_weight_cpu);
