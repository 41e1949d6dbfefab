/* out_side.c - out on a GPU: projection of the attention's output, added to the
 * layer's input. */
#include "gpu/side.h"

static struct dsf_gpu_projection projection(const struct dsf_gpu_work *w)
{
    const struct dsflow_out_args *a = w->call->args;

    return (struct dsf_gpu_projection){ w, (size_t)a->tile.rows,
                                        dsf_tile_qwidth(&a->tile),
                                        (size_t)a->tile.width };
}

/* Inputs that are rounded. */
static size_t rounded_bytes(const struct dsflow_tile *t, enum dsflow_dtype type)
{
    return dsf_tile_rounds(t)
               ? dsf_gpu_bytes(type, (size_t)t->rows * dsf_tile_qwidth(t))
               : 0;
}

/* The output of the attention, as it is multiplied. */
static const void *inputs(const struct dsf_gpu_work *w)
{
    const struct dsflow_out_args *a = w->call->args;

    return dsf_gpu_inputs(w, &a->tile, dsf_gpu_port(w, DSFLOW_OUT_ATT),
                          (size_t)a->tile.rows, dsf_tile_qwidth(&a->tile));
}

static struct dsf_gpu_room forward_room(const struct dsflow_out_args *a,
                                        enum dsflow_dtype type)
{
    const size_t places = (size_t)a->tile.width | dsf_tile_qwidth(&a->tile) |
                          dsf_gpu_place(a->w) | dsf_gpu_place(a->b);

    return (struct dsf_gpu_room){
        .normed = rounded_bytes(&a->tile, type),
        .wide = dsf_gpu_left(type, dsf_gpu_product_fuses(type, places),
                             (size_t)a->tile.rows, (size_t)a->tile.width),
    };
}

static void forward(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_out_args *a = call->args;
    const struct dsf_gpu_work w =
        dsf_gpu_work(call, DSFLOW_OUT_ATT,
                     forward_room(a, call->bufs[DSFLOW_OUT_ATT].dtype), stream);
    const struct dsf_gpu_projection p = projection(&w);

    dsf_gpu_project_to(
        &p, inputs(&w), dsf_gpu_number(call, DSFLOW_OUT_UNIT, a->w),
        DSFLOW_OUT_Y, a->residual ? dsf_gpu_port(&w, DSFLOW_OUT_X) : NULL,
        dsf_gpu_number(call, DSFLOW_OUT_UNIT, a->b));
}

DSF_GPU_SEGMENT_SIDE(out, forward, OUT, ATT);

static struct dsf_gpu_room backward_input_room(const struct dsflow_out_args *a,
                                               enum dsflow_dtype type)
{
    return (struct dsf_gpu_room){
        .wide =
            dsf_gpu_wide(type, (size_t)a->tile.rows * dsf_tile_qwidth(&a->tile))
    };
}

/* delta is of the gradient that is not rounded yet. */
static void backward_input(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_out_args *a = call->args;
    const struct dsf_gpu_work w = dsf_gpu_work(
        call, DSFLOW_OUT_ATT,
        backward_input_room(a, call->bufs[DSFLOW_OUT_ATT].dtype), stream);
    const struct dsf_gpu_projection p = projection(&w);
    const int narrow = dsf_gpu_is_narrow(w.type);
    void *datt = dsf_gpu_port(&w, DSFLOW_OUT_DATT);
    float *wide = narrow ? w.wide : datt;
    struct dsf_gpu_product product = dsf_gpu_project_input(
        &p, dsf_gpu_port(&w, DSFLOW_OUT_DY), p.out,
        dsf_gpu_number(call, DSFLOW_OUT_UNIT, a->w), wide, 0);

    dsf_gpu_multiply(&product, stream);
    dsf_gpu_head_dots(w.type, wide, dsf_gpu_port(&w, DSFLOW_OUT_ATT),
                      dsf_gpu_port(&w, DSFLOW_OUT_DELTA), narrow ? datt : NULL,
                      p.rows, (size_t)a->tile.heads, (size_t)a->tile.head_dim,
                      stream);
}

DSF_GPU_SEGMENT_SIDE(out, backward_input, OUT, ATT);

static struct dsf_gpu_room backward_weight_room(const struct dsflow_out_args *a,
                                                enum dsflow_dtype type,
                                                enum dsflow_dtype grad)
{
    const size_t width = (size_t)a->tile.width;

    return (struct dsf_gpu_room){
        .normed = rounded_bytes(&a->tile, type),
        .wide =
            dsf_gpu_weight_wide(type, grad, width, dsf_tile_qwidth(&a->tile)),
        .sums = dsf_gpu_column_scratch((size_t)a->tile.rows, width),
    };
}

static void backward_weight(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_out_args *a = call->args;
    const struct dsf_gpu_work w =
        dsf_gpu_work(call, DSFLOW_OUT_ATT,
                     backward_weight_room(a, call->bufs[DSFLOW_OUT_ATT].dtype,
                                          call->bufs[DSFLOW_OUT_GRAD].dtype),
                     stream);
    const struct dsf_gpu_projection p = projection(&w);
    const struct dsf_gpu_extent matrix = { a->w, p.out * p.in };
    const void *dy = dsf_gpu_port(&w, DSFLOW_OUT_DY);
    const struct dsf_gpu_gradient grad =
        dsf_gpu_gradient_but(&w, DSFLOW_OUT_GRAD, &matrix, 1);

    dsf_gpu_project_weight(&p, dy, p.out, inputs(&w), &grad, a->w);
    dsf_gpu_bias_gradient(&p, dy, p.out, &grad, a->b);
}

DSF_GPU_WEIGHT_SIDE(out, OUT, ATT);
