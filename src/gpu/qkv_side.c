/* qkv_side.c - qkv on a GPU: norm, and projection to queries, keys and values;
 * of a part, to those of some heads. */
#include "gpu/side.h"

/* One of the projections of a call: the queries', and those of keys and values,
 * which are one where the unit has them and two where they are shared. */
struct columns {
    unsigned unit, out; /* ports */
    unsigned dout;      /* of the gradient of `out` */
    int64_t w, b;       /* in the unit; b: -1, none */
    size_t at, n, ld;   /* columns of a row of `out` */
    size_t row;         /* where the tile's rows begin, in numbers */
    int32_t heads;      /* of those, that are rotated */
};

static unsigned ncolumns(const struct dsflow_qkv_args *a)
{
    return a->k < 0 ? 2 : 3;
}

static struct columns columns(const struct dsflow_qkv_args *a, unsigned i)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    const int shared = a->k >= 0;
    struct columns c = {
        .unit = shared ? DSFLOW_QKV_SHARED : DSFLOW_QKV_UNIT,
        .out = DSFLOW_QKV_KV,
        .dout = DSFLOW_QKV_DKV,
        .n = shared ? nkv / 2 : nkv,
        .ld = nkv,
        .row = (size_t)a->kv_at * nkv,
        .heads = i < 2 ? t->kv_heads : 0,
    };

    if (i == 0)
        return (struct columns){ DSFLOW_QKV_UNIT,
                                 DSFLOW_QKV_Q,
                                 DSFLOW_QKV_DQ,
                                 a->w,
                                 a->b,
                                 0,
                                 nq,
                                 nq,
                                 0,
                                 t->heads };
    c.w = !shared ? a->w + (int64_t)nq * t->width : i == 1 ? a->k : a->v;
    c.b = shared     ? (i == 1 ? a->kb : a->vb)
          : a->b < 0 ? -1
                     : a->b + (int64_t)nq;
    c.at = i == 2 ? nkv / 2 : 0;
    return c;
}

static struct dsf_gpu_projection projection(const struct dsf_gpu_work *w,
                                            const struct columns *c)
{
    const struct dsflow_qkv_args *a = w->call->args;

    return (struct dsf_gpu_projection){ w, (size_t)a->tile.rows,
                                        (size_t)a->tile.width, c->n };
}

/* Rotates the heads of `x`, whose rows are `ld` apart, or gradients back. */
static void rotate(const struct dsf_gpu_work *w, enum dsflow_dtype type,
                   void *x, size_t ld, int32_t heads, int inverse)
{
    const struct dsflow_qkv_args *a = w->call->args;
    const struct dsflow_tile *t = &a->tile;
    const float *table = dsf_gpu_port(w, DSFLOW_QKV_ROPE);

    if (t->rope && heads > 0)
        dsf_gpu_rotate(type, x, ld, (size_t)t->rows, dsf_tile_length(t),
                       (size_t)heads, (size_t)t->head_dim,
                       table + (size_t)t->pos * (size_t)t->head_dim, inverse,
                       w->stream);
}

/* Are the biases of its products added in their pass? Those of heads that are
 * rotated are added before. */
static int fuses(const struct dsflow_qkv_args *a, enum dsflow_dtype type)
{
    size_t places = (size_t)a->tile.width;

    for (unsigned i = 0; i < ncolumns(a); i++) {
        const struct columns c = columns(a, i);

        places |=
            dsf_gpu_place(c.w) | dsf_gpu_place(c.b) | c.at | c.row | c.n | c.ld;
    }
    return !a->tile.rope && dsf_gpu_product_fuses(type, places);
}

static size_t normed_bytes(const struct dsflow_qkv_args *a,
                           enum dsflow_dtype type)
{
    return a->norm_w < 0 ? 0 : dsf_gpu_bytes(type, dsf_tile_x(&a->tile));
}

static size_t widest(const struct dsflow_tile *t)
{
    return dsf_gpu_most(dsf_tile_qwidth(t), dsf_tile_kvwidth(t));
}

static struct dsf_gpu_room forward_room(const struct dsflow_qkv_args *a,
                                        enum dsflow_dtype type)
{
    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .wide = dsf_gpu_left(type, fuses(a, type), (size_t)a->tile.rows,
                             widest(&a->tile)),
    };
}

/* Columns of a row of `out`. Biases of heads that are rotated are added before,
 * and what they leave is rounded once. */
static void project(const struct dsf_gpu_work *w, const void *xn,
                    const struct columns *c)
{
    const struct dsflow_qkv_args *a = w->call->args;
    const struct dsf_gpu_projection p = projection(w, c);
    const int rotates = a->tile.rope && c->heads > 0;
    const int narrow = dsf_gpu_is_narrow(w->type);
    void *out = dsf_gpu_number(w->call, c->out, (int64_t)(c->row + c->at));
    struct dsf_gpu_product product = dsf_gpu_project(
        &p, xn, dsf_gpu_number(w->call, c->unit, c->w), out, c->ld);
    const void *bias = dsf_gpu_number(w->call, c->unit, c->b);

    if (!rotates || !narrow) {
        product.bias = bias;
        dsf_gpu_multiply(&product, w->stream);
        rotate(w, w->type, out, c->ld, c->heads, 0);
        return;
    }
    product.out = DSFLOW_FP32;
    product.c = w->wide;
    product.ldc = c->n;
    dsf_gpu_multiply(&product, w->stream);
    if (bias != NULL)
        dsf_gpu_widen(w->type, NULL, bias, w->wide, 1, p.rows, c->n, w->stream);
    rotate(w, DSFLOW_FP32, w->wide, c->n, c->heads, 0);
    dsf_gpu_narrow(w->type, w->wide, c->n, NULL, out, c->ld, p.rows, c->n,
                   w->stream);
}

static void forward(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsf_gpu_work w =
        dsf_gpu_work(call, DSFLOW_QKV_X,
                     forward_room(a, call->bufs[DSFLOW_QKV_X].dtype), stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_QKV_UNIT, a);
    const void *xn = dsf_gpu_normed_inputs(&w, &a->tile, &norm,
                                           dsf_gpu_port(&w, DSFLOW_QKV_X),
                                           (size_t)a->tile.rows);

    for (unsigned i = 0; i < ncolumns(a); i++) {
        const struct columns c = columns(a, i);

        project(&w, xn, &c);
    }
}

DSF_GPU_SEGMENT_SIDE(qkv, forward, QKV, X);

static struct dsf_gpu_room backward_input_room(const struct dsflow_qkv_args *a,
                                               enum dsflow_dtype type)
{
    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .wide = dsf_tile_x(&a->tile) * sizeof(float),
        .sums =
            dsf_gpu_norm_scratch((size_t)a->tile.rows, (size_t)a->tile.width),
    };
}

static void backward_input(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsf_gpu_work w = dsf_gpu_work(
        call, DSFLOW_QKV_DQ,
        backward_input_room(a, call->bufs[DSFLOW_QKV_DQ].dtype), stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_QKV_UNIT, a);
    float *dnormed = dsf_gpu_input_at(&w, DSFLOW_QKV_DX, a->norm_w);

    for (unsigned i = 0; i < ncolumns(a); i++) {
        const struct columns c = columns(a, i);
        const struct dsf_gpu_projection p = projection(&w, &c);
        void *dout = dsf_gpu_number(call, c.dout, (int64_t)(c.row + c.at));
        struct dsf_gpu_product product;

        rotate(&w, w.type, dout, c.ld, c.heads, 1);
        product = dsf_gpu_project_input(
            &p, dout, c.ld, dsf_gpu_number(call, c.unit, c.w), dnormed, i > 0);
        dsf_gpu_multiply(&product, stream);
    }
    dsf_gpu_input_gradient(
        &w, DSFLOW_QKV_DX, &norm, dsf_gpu_port(&w, DSFLOW_QKV_X), dnormed,
        dsf_gpu_port(&w, DSFLOW_QKV_DRES), dsf_gpu_port(&w, DSFLOW_QKV_DNORM),
        (size_t)a->tile.rows);
}

DSF_GPU_SEGMENT_SIDE(qkv, backward_input, QKV, DQ);

/* Of the types of its data and of its gradients: the unit's, and of what is
 * shared, if anything is. */
static struct dsf_gpu_room backward_weight_room(const struct dsflow_qkv_args *a,
                                                enum dsflow_dtype type,
                                                enum dsflow_dtype grad,
                                                enum dsflow_dtype shared)
{
    const size_t rows = widest(&a->tile), width = (size_t)a->tile.width;

    return (struct dsf_gpu_room){
        .normed = normed_bytes(a, type),
        .wide = dsf_gpu_most(dsf_gpu_weight_wide(type, grad, rows, width),
                             dsf_gpu_weight_wide(type, shared, rows, width)),
        .sums = dsf_gpu_column_scratch((size_t)a->tile.rows, widest(&a->tile)),
    };
}

/* The gradient of the unit; what is shared is added to as a whole, as other
 * parts do. */
static void backward_weight(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_qkv_args *a = call->args;
    const struct dsf_gpu_work w = dsf_gpu_work(
        call, DSFLOW_QKV_DQ,
        backward_weight_room(
            a, call->bufs[DSFLOW_QKV_DQ].dtype,
            call->bufs[DSFLOW_QKV_GRAD].dtype,
            call->bufs[a->k < 0 ? DSFLOW_QKV_GRAD : DSFLOW_QKV_SHARED_GRAD]
                .dtype),
        stream);
    const struct dsf_gpu_norm norm = DSF_GPU_NORM_OF(&w, DSFLOW_QKV_UNIT, a);
    const void *xn = dsf_gpu_normed_inputs(&w, &a->tile, &norm,
                                           dsf_gpu_port(&w, DSFLOW_QKV_X),
                                           (size_t)a->tile.rows);
    const size_t rows =
        dsf_tile_qwidth(&a->tile) + (a->k < 0 ? dsf_tile_kvwidth(&a->tile) : 0);
    const struct dsf_gpu_extent matrix = { a->w, rows * norm.width };
    const struct dsf_gpu_gradient grad =
        dsf_gpu_gradient_but(&w, DSFLOW_QKV_GRAD, &matrix, 1);
    const struct dsf_gpu_gradient shared =
        a->k < 0 ? grad
                 : dsf_gpu_gradient(call, DSFLOW_QKV_SHARED_GRAD, stream);

    for (unsigned i = 0; i < ncolumns(a); i++) {
        const struct columns c = columns(a, i);
        const struct dsf_gpu_projection p = projection(&w, &c);
        const void *dout =
            dsf_gpu_number(call, c.dout, (int64_t)(c.row + c.at));
        const struct dsf_gpu_gradient *into = i == 0 ? &grad : &shared;

        dsf_gpu_project_weight(&p, dout, c.ld, xn, into, c.w);
        dsf_gpu_bias_gradient(&p, dout, c.ld, into, c.b);
    }
    dsf_gpu_norm_sums(&w, &grad, a->norm_w, a->norm_b,
                      dsf_gpu_port(&w, DSFLOW_QKV_DNORM), norm.width);
}

static size_t backward_weight_scratch(const struct dsflow_case *c)
{
    const struct dsflow_qkv_args *a = c->args;
    const unsigned shared = a->k < 0 ? DSFLOW_QKV_GRAD : DSFLOW_QKV_SHARED_GRAD;

    return dsf_gpu_room_bytes(backward_weight_room(
        a, c->shapes[DSFLOW_QKV_DQ].dtype, c->shapes[DSFLOW_QKV_GRAD].dtype,
        c->shapes[shared].dtype));
}

const struct dsf_gpu_side dsf_gpu_side_qkv_backward_weight = {
    .op = "qkv.backward_weight",
    .run = backward_weight,
    .scratch = backward_weight_scratch,
};
