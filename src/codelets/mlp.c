/* mlp.c - norm, two projections with an activation between, residual; of a
 * part, some columns of the feed-forward between its projections. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/inputs.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

/* The whole adds its input, and a bias; a part leaves sums. */
static void forward_narrow(const struct dsflow_call *call)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    const uint16_t *x = dsf_halves(call, DSFLOW_MLP_X);
    const uint16_t *unit = dsf_halves(call, DSFLOW_MLP_UNIT);
    const uint16_t *b1 = dsf_half_at(unit, a->b1);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_MLP_UNIT, a);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_MLP_H, dsf_mlp_scratch(DSFLOW_DIR_FORWARD, a));
    const int part = a->norm_w < 0;
    uint16_t *h = dsf_halves(call, DSFLOW_MLP_H);

    dsf_projection(&(struct dsf_projection){ &c, rows, width, nh },
                   dsf_narrow_normed_inputs(&c, &a->tile, &norm, x, rows),
                   unit + a->w1, c.wide, nh);
    if (t->swiglu)
        c.loops->swiglu_forward(c.wide, b1, h, c.narrow, rows, ffn);
    else
        c.loops->gelu_forward(c.wide, b1, h, c.narrow, rows, ffn);
    dsf_narrow_inputs_in_place(c.loops, t, c.narrow, rows, ffn);
    dsf_projection(&(struct dsf_projection){ &c, rows, ffn, width }, c.narrow,
                   unit + a->w2, dsf_product_at(&c, call, DSFLOW_MLP_Y), width);
    dsf_product_leaves(&c, call, DSFLOW_MLP_Y, part ? NULL : x,
                       dsf_half_at(unit, a->b2), rows, width);
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    const float *x = dsf_floats(call, DSFLOW_MLP_X);
    float *unit = dsf_floats(call, DSFLOW_MLP_UNIT), *scratch = call->scratch;
    float *h = dsf_floats(call, DSFLOW_MLP_H);
    float *y = dsf_floats(call, DSFLOW_MLP_Y);
    const float *b1 = dsf_tensor_at(unit, a->b1);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_MLP_UNIT, a);
    const int whole = a->norm_w >= 0;

    dsf_gemm(0, 1, rows, nh, width,
             dsf_normed_inputs(&a->tile, &norm, x, scratch, rows), width,
             unit + a->w1, width, 0, h, nh);
    if (t->swiglu)
        dsf_swiglu_forward(h, b1, scratch, rows, ffn);
    else
        dsf_gelu_forward(h, b1, scratch, rows, ffn);
    dsf_inputs_in_place(t, scratch, rows, ffn);
    if (whole)
        dsf_residual(y, x, dsf_tensor_at(unit, a->b2), rows, width);
    dsf_gemm(0, 1, rows, width, ffn, scratch, ffn, unit + a->w2, ffn,
             (float)whole, y, width);
}

DSF_BY_TYPE(mlp_forward, DSFLOW_MLP_H, forward)
DSF_SEGMENT_CODELET(mlp_forward, mlp_forward_cpu);

static void hidden_narrow(const struct dsflow_call *call)
{
    const struct dsflow_mlp_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nh = dsf_tile_hwidth(&a->tile);
    const uint16_t *unit = dsf_halves(call, DSFLOW_MLP_UNIT);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_MLP_UNIT, a);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_MLP_H, dsf_mlp_scratch(DSFLOW_DIR_HIDDEN, a));

    dsf_projection(&(struct dsf_projection){ &c, rows, width, nh },
                   dsf_narrow_normed_inputs(&c, &a->tile, &norm,
                                            dsf_halves(call, DSFLOW_MLP_X),
                                            rows),
                   unit + a->w1, c.wide, nh);
    c.loops->narrow(c.wide, nh, dsf_half_at(unit, a->b1),
                    dsf_halves(call, DSFLOW_MLP_H), nh, rows, nh);
}

static void hidden_cpu(const struct dsflow_call *call)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nh = dsf_tile_hwidth(t);
    float *unit = dsf_floats(call, DSFLOW_MLP_UNIT);
    float *h = dsf_floats(call, DSFLOW_MLP_H);
    const float *b1 = dsf_tensor_at(unit, a->b1);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_MLP_UNIT, a);
    const float *xn = dsf_normed_inputs(
        &a->tile, &norm, dsf_floats(call, DSFLOW_MLP_X), call->scratch, rows);

    dsf_gemm(0, 1, rows, nh, width, xn, width, unit + a->w1, width, 0, h, nh);
    if (b1)
        dsf_add_bias(h, b1, rows, nh);
}

DSF_BY_TYPE(mlp_hidden, DSFLOW_MLP_H, hidden)
DSF_SEGMENT_CODELET(mlp_hidden, mlp_hidden_cpu);

static void backward_input_narrow(const struct dsflow_call *call)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    const uint16_t *unit = dsf_halves(call, DSFLOW_MLP_UNIT);
    const uint16_t *dy = dsf_halves(call, DSFLOW_MLP_DY);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_MLP_UNIT, a);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_MLP_H, dsf_mlp_scratch(DSFLOW_DIR_BACKWARD_INPUT, a));
    const int part = a->norm_w < 0;
    uint16_t *h = dsf_halves(call, DSFLOW_MLP_H);
    uint16_t *dh = dsf_halves(call, DSFLOW_MLP_DH);

    dsf_projection_input(&(struct dsf_projection){ &c, rows, ffn, width }, dy,
                         width, unit + a->w2, 0, c.wide);
    if (t->swiglu)
        c.loops->swiglu_backward(h, c.wide, ffn, dh, rows, ffn);
    else
        c.loops->gelu_backward(h, c.wide, dh, rows * ffn);
    dsf_narrow_inputs_in_place(c.loops, t, h, rows, ffn);
    dsf_projection_input(
        &(struct dsf_projection){ &c, rows, width, nh }, dh, nh, unit + a->w1,
        0, part ? dsf_product_at(&c, call, DSFLOW_MLP_DX) : c.wide);
    if (part)
        dsf_product_leaves(&c, call, DSFLOW_MLP_DX, NULL, NULL, rows, width);
    else
        dsf_normed_leaves(&c, call, DSFLOW_MLP_DX, &norm,
                          dsf_halves(call, DSFLOW_MLP_X), dy,
                          dsf_floats(call, DSFLOW_MLP_DNORM), rows);
}

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    float *unit = dsf_floats(call, DSFLOW_MLP_UNIT);
    float *h = dsf_floats(call, DSFLOW_MLP_H);
    float *dh = dsf_floats(call, DSFLOW_MLP_DH);
    float *dx = dsf_floats(call, DSFLOW_MLP_DX);
    const float *dy = dsf_floats(call, DSFLOW_MLP_DY);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_MLP_UNIT, a);
    float *dnormed = a->norm_w < 0 ? dx : call->scratch;

    /* The gradient of act(h) stands where that of h will: with SwiGLU, in the
     * first half of each row. */
    dsf_gemm(0, 0, rows, ffn, width, dy, width, unit + a->w2, ffn, 0, dh, nh);
    if (t->swiglu)
        dsf_swiglu_backward(h, dh, rows, ffn);
    else
        dsf_gelu_backward(h, dh, rows * ffn);
    dsf_inputs_in_place(t, h, rows, ffn);
    dsf_gemm(0, 0, rows, width, nh, dh, nh, unit + a->w1, width, 0, dnormed,
             width);
    if (a->norm_w >= 0)
        dsf_norm_backward(&norm, dsf_floats(call, DSFLOW_MLP_X), dnormed, dy,
                          dx, dsf_floats(call, DSFLOW_MLP_DNORM), rows);
}

DSF_BY_TYPE(mlp_backward_input, DSFLOW_MLP_H, backward_input)
DSF_SEGMENT_CODELET(mlp_backward_input, mlp_backward_input_cpu);

static void backward_weight_narrow(const struct dsflow_call *call)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    const uint16_t *dy = dsf_halves(call, DSFLOW_MLP_DY);
    const uint16_t *dh = dsf_halves(call, DSFLOW_MLP_DH);
    const struct dsf_extent matrices[] = { { a->w1, nh * width },
                                           { a->w2, width * ffn } };
    const struct dsf_gradient grad =
        dsf_gradient_on(call, DSFLOW_MLP_GRAD, matrices, 2);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_MLP_UNIT, a);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_MLP_H, dsf_mlp_scratch(DSFLOW_DIR_BACKWARD_WEIGHT, a));

    dsf_projection_weight(&(struct dsf_projection){ &c, rows, ffn, width }, dy,
                          width, dsf_halves(call, DSFLOW_MLP_H), &grad, a->w2);
    dsf_projection_weight(
        &(struct dsf_projection){ &c, rows, width, nh }, dh, nh,
        dsf_narrow_normed_inputs(&c, &a->tile, &norm,
                                 dsf_halves(call, DSFLOW_MLP_X), rows),
        &grad, a->w1);
    dsf_gradient_columns(&grad, a->b1, c.loops, dh, nh, rows, nh);
    dsf_gradient_columns(&grad, a->b2, c.loops, dy, width, rows, width);
    dsf_gradient_norm(&grad, a->norm_w, a->norm_b,
                      dsf_floats(call, DSFLOW_MLP_DNORM), width);
}

static void backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    const float *dy = dsf_floats(call, DSFLOW_MLP_DY);
    const float *dh = dsf_floats(call, DSFLOW_MLP_DH);
    const struct dsf_extent matrices[] = { { a->w1, nh * width },
                                           { a->w2, width * ffn } };
    float beta,
        *grad = dsf_gradient_but(call, DSFLOW_MLP_GRAD, matrices, 2, &beta);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_MLP_UNIT, a);
    const float *xn = dsf_normed_inputs(
        &a->tile, &norm, dsf_floats(call, DSFLOW_MLP_X), call->scratch, rows);

    dsf_gemm(1, 0, width, ffn, rows, dy, width, dsf_floats(call, DSFLOW_MLP_H),
             ffn, beta, grad + a->w2, ffn);
    dsf_gemm(1, 0, nh, width, rows, dh, nh, xn, width, beta, grad + a->w1,
             width);
    if (a->b1 >= 0)
        dsf_column_sums(grad + a->b1, dh, rows, nh);
    if (a->b2 >= 0)
        dsf_column_sums(grad + a->b2, dy, rows, width);
    dsf_norm_gradient(grad, a->norm_w, a->norm_b,
                      dsf_floats(call, DSFLOW_MLP_DNORM), width);
}

DSF_BY_TYPE(mlp_backward_weight, DSFLOW_MLP_H, backward_weight)
DSF_SEGMENT_CODELET(mlp_backward_weight, mlp_backward_weight_cpu);
