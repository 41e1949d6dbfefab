/* out.c - projection of the attention's output, added to the layer's input. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "kernels/narrow.h"
#include "tasks/tile.h"

#include <stdbool.h>

/* Sizes of a task, and its data in bf16 or fp16. */
struct narrow {
    size_t rows, width, nq;
    enum dsflow_dtype type;
    const struct dsf_narrow_loops *loops;
    const uint16_t *att, *w, *b, *dy;
    char *scratch; /* of its product, and floats after that */
};

static struct narrow narrow(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const enum dsflow_dtype type = call->bufs[DSFLOW_OUT_ATT].dtype;
    const uint16_t *unit = call->bufs[DSFLOW_OUT_UNIT].ptr;

    return (struct narrow){
        .rows = (size_t)a->tile.rows,
        .width = (size_t)a->tile.width,
        .nq = dsf_tile_qwidth(&a->tile),
        .type = type,
        .loops = dsf_narrow(type),
        .att = call->bufs[DSFLOW_OUT_ATT].ptr,
        .w = unit != NULL ? unit + a->w : NULL,
        .b = unit != NULL && a->b >= 0 ? unit + a->b : NULL,
        .dy = call->bufs[DSFLOW_OUT_DY].ptr,
        .scratch = call->scratch,
    };
}

static bool is_narrow(const struct dsflow_call *call)
{
    return dsf_is_narrow(call->bufs[DSFLOW_OUT_ATT].dtype);
}

/* x + b, in fp32; `bias` has room for b. */
static void widen_residual(const struct narrow *n, const uint16_t *x,
                           float *bias, float *y)
{
    n->loops->widen(x, y, n->rows * n->width);
    if (n->b == NULL)
        return;
    n->loops->widen(n->b, bias, n->width);
    dsf_add_bias(y, bias, n->rows, n->width);
}

/* y is narrow; or fp32, as the sum of a part is, and a stream that fp32
 * segments alone read. */
static void forward_narrow(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const struct narrow n = narrow(call);
    const struct dsflow_buf *y = &call->bufs[DSFLOW_OUT_Y];
    const uint16_t *x = call->bufs[DSFLOW_OUT_X].ptr;
    const bool wide = !dsf_is_narrow(y->dtype);
    char *rest = n.scratch + dsf_product_scratch(n.rows, n.width, n.nq);
    float *floats = (float *)(void *)rest, *c = wide ? y->ptr : floats;

    if (wide && a->residual)
        widen_residual(&n, x, floats, c);
    dsf_product(&(struct dsf_product){
        n.type, 0, 1, n.rows, n.width, n.nq, n.att, n.nq, n.w, n.nq,
        wide && a->residual, c, n.width, n.scratch });
    if (!wide && a->residual)
        n.loops->residual(c, x, n.b, y->ptr, n.rows, n.width);
    else if (!wide)
        n.loops->narrow(c, n.width, NULL, y->ptr, n.width, n.rows, n.width);
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    float *unit = dsf_floats(call, DSFLOW_OUT_UNIT);
    float *y = dsf_floats(call, DSFLOW_OUT_Y);

    if (is_narrow(call)) {
        forward_narrow(call);
        return;
    }
    if (a->residual)
        dsf_residual(y, dsf_floats(call, DSFLOW_OUT_X),
                     dsf_tensor_at(unit, a->b), rows, width);
    dsf_gemm(0, 1, rows, width, nq, dsf_floats(call, DSFLOW_OUT_ATT), nq,
             unit + a->w, nq, (float)a->residual, y, width);
}

DSF_SEGMENT_CODELET(out_forward, forward_cpu);

/* delta is of the gradient that is not rounded yet. */
static void backward_input_narrow(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const struct narrow n = narrow(call);
    char *rest = n.scratch + dsf_product_scratch(n.rows, n.nq, n.width);
    float *datt = (float *)(void *)rest;

    dsf_product(&(struct dsf_product){ n.type, 0, 0, n.rows, n.nq, n.width,
                                       n.dy, n.width, n.w, n.nq, 0, datt, n.nq,
                                       n.scratch });
    n.loops->head_dots(datt, n.att, dsf_floats(call, DSFLOW_OUT_DELTA), n.rows,
                       (size_t)a->tile.heads, (size_t)a->tile.head_dim);
    n.loops->narrow(datt, n.nq, NULL, call->bufs[DSFLOW_OUT_DATT].ptr, n.nq,
                    n.rows, n.nq);
}

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    float *datt = dsf_floats(call, DSFLOW_OUT_DATT);

    if (is_narrow(call)) {
        backward_input_narrow(call);
        return;
    }
    dsf_gemm(0, 0, rows, nq, width, dsf_floats(call, DSFLOW_OUT_DY), width,
             dsf_floats(call, DSFLOW_OUT_UNIT) + a->w, nq, 0, datt, nq);
    dsf_head_dots(datt, dsf_floats(call, DSFLOW_OUT_ATT),
                  dsf_floats(call, DSFLOW_OUT_DELTA), rows,
                  (size_t)a->tile.heads, (size_t)a->tile.head_dim);
}

DSF_SEGMENT_CODELET(out_backward_input, backward_input_cpu);

static void add_narrow(const struct dsflow_call *call, float beta, float *grad)
{
    const struct dsflow_out_args *a = call->args;
    const struct narrow n = narrow(call);

    dsf_product(&(struct dsf_product){ n.type, 1, 0, n.width, n.nq, n.rows,
                                       n.dy, n.width, n.att, n.nq, beta,
                                       grad + a->w, n.nq, n.scratch });
    if (a->b >= 0)
        n.loops->column_sums(grad + a->b, n.dy, n.rows, n.width);
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

    if (is_narrow(call)) {
        add_narrow(call, beta, grad);
        return;
    }
    dsf_gemm(1, 0, width, nq, rows, dy, width, dsf_floats(call, DSFLOW_OUT_ATT),
             nq, beta, grad + a->w, nq);
    if (a->b >= 0)
        dsf_column_sums(grad + a->b, dy, rows, width);
}

DSF_SEGMENT_CODELET(out_backward_weight, backward_weight_cpu);
