/* mlp_side.c - mlp on a GPU: norm, two projections with an activation between,
 * residual; of a part, some columns of the feed-forward between its
 * projections. */
#include "gpu/side.h"

/* What the products of a call work on. */
struct sizes {
    size_t rows, width, ffn, nh;
};

static struct sizes sizes_of(const struct dsflow_tile *t)
{
    return (struct sizes){ (size_t)t->rows, (size_t)t->width, (size_t)t->ffn,
                           dsf_tile_hwidth(t) };
}

/* Are bias and GELU of its products done in their pass? */
static int fuses(const struct dsflow_mlp_args *a, enum dsflow_dtype type)
{
    const struct sizes n = sizes_of(&a->tile);

    return dsf_gpu_product_fuses(
        type, n.width | n.ffn | dsf_gpu_place(a->w1) | dsf_gpu_place(a->w2) |
                  dsf_gpu_place(a->b1) | dsf_gpu_place(a->b2));
}

/* Normed rows in T, if they are made. */
static size_t normed_bytes(const struct dsflow_mlp_args *a,
                           enum dsflow_dtype type)
{
    return a->norm_w < 0 ? 0 : dsf_gpu_bytes(type, dsf_tile_x(&a->tile));
}

static struct dsf_gpu_room forward_room(const struct dsflow_mlp_args *a,
                                        enum dsflow_dtype type)
{
    const struct sizes n = sizes_of(&a->tile);
    const size_t most = dsf_gpu_most(n.nh, n.width);
    size_t wide = dsf_gpu_left(type, fuses(a, type), n.rows, most);

    if (a->tile.swiglu)
        wide = dsf_gpu_most(wide, dsf_gpu_wide(type, n.rows * n.nh));
    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .inner = dsf_gpu_bytes(type, n.rows * n.ffn),
        .wide = wide,
    };
}

/* h and act(h). */
static void activate(const struct dsf_gpu_work *w, const struct sizes *n,
                     const void *xn)
{
    const struct dsflow_mlp_args *a = w->call->args;
    void *h = dsf_gpu_port(w, DSFLOW_MLP_H);
    const void *b1 = dsf_gpu_number(w->call, DSFLOW_MLP_UNIT, a->b1);
    struct dsf_gpu_product p = dsf_gpu_project(
        &(struct dsf_gpu_projection){ w, n->rows, n->width, n->nh }, xn,
        dsf_gpu_number(w->call, DSFLOW_MLP_UNIT, a->w1), w->inner, n->nh);

    if (a->tile.swiglu) {
        p.out = DSFLOW_FP32;
        p.c = dsf_gpu_is_narrow(w->type) ? w->wide : h;
        dsf_gpu_multiply(&p, w->stream);
        dsf_gpu_swiglu_forward(w->type, p.c, b1, h, w->inner, n->rows, n->ffn,
                               w->stream);
        return;
    }
    p.bias = b1;
    p.epilogue = DSF_GPU_GELU;
    p.aux = h;
    dsf_gpu_multiply(&p, w->stream);
}

static void forward(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct sizes n = sizes_of(&a->tile);
    const struct dsf_gpu_work w =
        dsf_gpu_work(call, DSFLOW_MLP_H,
                     forward_room(a, call->bufs[DSFLOW_MLP_H].dtype), stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_MLP_UNIT, a);
    const void *x = dsf_gpu_port(&w, DSFLOW_MLP_X);

    activate(&w, &n, dsf_gpu_normed_inputs(&w, &a->tile, &norm, x, n.rows));
    dsf_gpu_inputs_in_place(&w, &a->tile, w.inner, n.rows, n.ffn);
    dsf_gpu_project_to(
        &(struct dsf_gpu_projection){ &w, n.rows, n.ffn, n.width }, w.inner,
        dsf_gpu_number(call, DSFLOW_MLP_UNIT, a->w2), DSFLOW_MLP_Y,
        a->norm_w < 0 ? NULL : x, dsf_gpu_number(call, DSFLOW_MLP_UNIT, a->b2));
}

DSF_GPU_SEGMENT_SIDE(mlp, forward, MLP, H);

static struct dsf_gpu_room hidden_room(const struct dsflow_mlp_args *a,
                                       enum dsflow_dtype type)
{
    const struct sizes n = sizes_of(&a->tile);

    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .wide = dsf_gpu_left(type, fuses(a, type), n.rows, n.nh),
    };
}

static void hidden(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct sizes n = sizes_of(&a->tile);
    const struct dsf_gpu_work w =
        dsf_gpu_work(call, DSFLOW_MLP_H,
                     hidden_room(a, call->bufs[DSFLOW_MLP_H].dtype), stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_MLP_UNIT, a);

    dsf_gpu_project_to(
        &(struct dsf_gpu_projection){ &w, n.rows, n.width, n.nh },
        dsf_gpu_normed_inputs(&w, &a->tile, &norm,
                              dsf_gpu_port(&w, DSFLOW_MLP_X), n.rows),
        dsf_gpu_number(call, DSFLOW_MLP_UNIT, a->w1), DSFLOW_MLP_H, NULL,
        dsf_gpu_number(call, DSFLOW_MLP_UNIT, a->b1));
}

DSF_GPU_SEGMENT_SIDE(mlp, hidden, MLP, H);

/* The gradients of act(h), then those of the normed rows. */
static struct dsf_gpu_room backward_input_room(const struct dsflow_mlp_args *a,
                                               enum dsflow_dtype type)
{
    const struct sizes n = sizes_of(&a->tile);

    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .inner = a->tile.swiglu ? dsf_gpu_bytes(type, n.rows * n.ffn) : 0,
        .wide = n.rows * dsf_gpu_most(n.ffn, n.width) * sizeof(float),
        .sums = dsf_gpu_norm_scratch(n.rows, n.width),
    };
}

/* dh; h becomes act(h), as it is multiplied. */
static void activate_back(const struct dsf_gpu_work *w, const struct sizes *n)
{
    const struct dsflow_mlp_args *a = w->call->args;
    void *h = dsf_gpu_port(w, DSFLOW_MLP_H);
    void *dh = dsf_gpu_port(w, DSFLOW_MLP_DH);
    struct dsf_gpu_product p = dsf_gpu_project_input(
        &(struct dsf_gpu_projection){ w, n->rows, n->ffn, n->width },
        dsf_gpu_port(w, DSFLOW_MLP_DY), n->width,
        dsf_gpu_number(w->call, DSFLOW_MLP_UNIT, a->w2), w->wide, 0);

    if (!a->tile.swiglu) {
        p.out = w->type;
        p.c = dh;
        p.epilogue = DSF_GPU_DGELU;
        p.aux = h;
    }
    dsf_gpu_multiply(&p, w->stream);
    if (a->tile.swiglu)
        dsf_gpu_swiglu_backward(w->type, h, w->wide, dh, w->inner, n->rows,
                                n->ffn, w->stream);
    dsf_gpu_inputs_in_place(w, &a->tile, h, n->rows, n->ffn);
}

static void backward_input(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct sizes n = sizes_of(&a->tile);
    const struct dsf_gpu_work w = dsf_gpu_work(
        call, DSFLOW_MLP_H,
        backward_input_room(a, call->bufs[DSFLOW_MLP_H].dtype), stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_MLP_UNIT, a);
    float *dnormed = dsf_gpu_input_at(&w, DSFLOW_MLP_DX, a->norm_w);
    struct dsf_gpu_product p;

    activate_back(&w, &n);
    p = dsf_gpu_project_input(
        &(struct dsf_gpu_projection){ &w, n.rows, n.width, n.nh },
        dsf_gpu_port(&w, DSFLOW_MLP_DH), n.nh,
        dsf_gpu_number(call, DSFLOW_MLP_UNIT, a->w1), dnormed, 0);
    dsf_gpu_multiply(&p, stream);
    dsf_gpu_input_gradient(&w, DSFLOW_MLP_DX, &norm,
                           dsf_gpu_port(&w, DSFLOW_MLP_X), dnormed,
                           dsf_gpu_port(&w, DSFLOW_MLP_DY),
                           dsf_gpu_port(&w, DSFLOW_MLP_DNORM), n.rows);
}

DSF_GPU_SEGMENT_SIDE(mlp, backward_input, MLP, H);

static struct dsf_gpu_room backward_weight_room(const struct dsflow_mlp_args *a,
                                                enum dsflow_dtype type,
                                                enum dsflow_dtype grad)
{
    const struct sizes n = sizes_of(&a->tile);

    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .wide = dsf_gpu_most(dsf_gpu_weight_wide(type, grad, n.nh, n.width),
                             dsf_gpu_weight_wide(type, grad, n.width, n.ffn)),
        .sums = dsf_gpu_column_scratch(n.rows, dsf_gpu_most(n.nh, n.width)),
    };
}

static void backward_weight(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_mlp_args *a = call->args;
    const struct sizes n = sizes_of(&a->tile);
    const struct dsf_gpu_work w =
        dsf_gpu_work(call, DSFLOW_MLP_H,
                     backward_weight_room(a, call->bufs[DSFLOW_MLP_H].dtype,
                                          call->bufs[DSFLOW_MLP_GRAD].dtype),
                     stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_MLP_UNIT, a);
    const struct dsf_gpu_projection up = { &w, n.rows, n.width, n.nh };
    const struct dsf_gpu_projection down = { &w, n.rows, n.ffn, n.width };
    const struct dsf_gpu_extent matrices[] = { { a->w1, n.nh * n.width },
                                               { a->w2, n.width * n.ffn } };
    const void *dy = dsf_gpu_port(&w, DSFLOW_MLP_DY);
    const void *dh = dsf_gpu_port(&w, DSFLOW_MLP_DH);
    const struct dsf_gpu_gradient grad =
        dsf_gpu_gradient_but(&w, DSFLOW_MLP_GRAD, matrices, 2);

    dsf_gpu_project_weight(&down, dy, n.width, dsf_gpu_port(&w, DSFLOW_MLP_H),
                           &grad, a->w2);
    dsf_gpu_project_weight(&up, dh, n.nh,
                           dsf_gpu_normed_inputs(&w, &a->tile, &norm,
                                                 dsf_gpu_port(&w, DSFLOW_MLP_X),
                                                 n.rows),
                           &grad, a->w1);
    dsf_gpu_bias_gradient(&up, dh, n.nh, &grad, a->b1);
    dsf_gpu_bias_gradient(&down, dy, n.width, &grad, a->b2);
    dsf_gpu_norm_sums(&w, &grad, a->norm_w, a->norm_b,
                      dsf_gpu_port(&w, DSFLOW_MLP_DNORM), n.width);
}

DSF_GPU_WEIGHT_SIDE(mlp, MLP, H);
