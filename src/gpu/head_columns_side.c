/* head_columns_side.c - the head some columns of the vocabulary at a time, on a
 * GPU: forward what each row's logits say, block after block, and back the same
 * logits once more, which become gradients before the next ones take their
 * place. */
#include "gpu/side.h"

#include "tasks/head_columns_args.h"

/* Where parts of a room begin; columns at a time whose logits are in fp32: a
 * multiple of STEP, and at most so many. */
enum { PART = 256, STEP = 64, MOST = 2048 };

/* Numbers of such logits, unless rows are so many that STEP columns have more.
 */
#ifndef DSF_GPU_LOGITS
#define DSF_GPU_LOGITS ((size_t)64 << 20)
#endif

/* Which gradients a task of the backward pass leaves. */
struct wanted {
    int input, weight;
};

static size_t whole_parts(size_t bytes)
{
    return (bytes + PART - 1) / PART * PART;
}

/* Columns at a time. */
static size_t columns_of(const struct dsf_head_columns_args *a)
{
    const int32_t vocab = a->head.tile.vocab;

    return (size_t)(a->columns < vocab ? a->columns : vocab);
}

/* The targets, which are in main memory and read for all columns. */
static size_t targets_bytes(const struct dsf_head_columns_args *a)
{
    return whole_parts((size_t)a->head.tile.rows * sizeof(int32_t));
}

static size_t losses_bytes(const struct dsf_head_columns_args *a)
{
    return (size_t)a->head.tile.rows * sizeof(double);
}

/* Of the sums of gradients of what enters, which no product of weights may take
 * for its own. */
static size_t input_bytes(const struct dsf_head_columns_args *a)
{
    return whole_parts(dsf_tile_x(&a->head.tile) * sizeof(float));
}

/* Of these, columns whose logits are there in fp32, before their exponentials:
 * so many that they take at most 256 MiB, but for very many rows. */
static size_t block_of(const struct dsf_head_columns_args *a)
{
    const size_t rows = (size_t)a->head.tile.rows, all = columns_of(a);
    size_t n = DSF_GPU_LOGITS / rows / STEP * STEP;

    n = n < STEP ? STEP : n > MOST ? MOST : n;
    return n < all ? n : all;
}

static size_t block_bytes(const struct dsf_head_columns_args *a)
{
    return (size_t)a->head.tile.rows * block_of(a) * sizeof(float);
}

static struct dsf_gpu_room forward_room(const struct dsf_head_columns_args *a,
                                        enum dsflow_dtype type)
{
    return (struct dsf_gpu_room){
        .normed = a->head.norm_w < 0
                      ? 0
                      : dsf_gpu_bytes(type, dsf_tile_x(&a->head.tile)),
        .wide = block_bytes(a),
        .sums = targets_bytes(a) + losses_bytes(a),
    };
}

/* In fp32 logits become gradients where they are. Else they are where products
 * leave what the gradient of the matrix gets, as one ends before the other
 * begins. */
static struct dsf_gpu_room backward_room(const struct dsf_head_columns_args *a,
                                         enum dsflow_dtype type,
                                         enum dsflow_dtype grad,
                                         struct wanted wanted)
{
    const struct dsflow_tile *t = &a->head.tile;
    const size_t width = (size_t)t->width;
    struct dsf_gpu_room room = forward_room(a, type);

    room.inner = dsf_gpu_bytes(type, (size_t)t->rows * columns_of(a));
    room.wide = dsf_gpu_is_narrow(type) ? block_bytes(a) : 0;
    room.sums = targets_bytes(a);
    if (wanted.weight)
        room.wide = dsf_gpu_most(
            room.wide, dsf_gpu_weight_wide(type, grad, columns_of(a), width));
    if (wanted.input) {
        /* Also a gradient before it is widened. */
        room.normed = dsf_gpu_bytes(type, dsf_tile_x(t));
        room.wide += input_bytes(a);
        room.sums += dsf_gpu_norm_scratch((size_t)t->rows, width);
    }
    return room;
}

/* A task, and where in its scratch things are. */
struct task {
    const struct dsf_gpu_work *w;
    const struct dsflow_head_args *head;
    size_t rows, width, words, columns, block;
    int32_t *targets;
    void *sums; /* a kernel's */
    const void *xn;
    struct dsf_gpu_norm norm;
};

static struct task begin(const struct dsf_gpu_work *w)
{
    const struct dsf_head_columns_args *a = w->call->args;
    const int32_t *batch = dsf_gpu_port(w, DSFLOW_HEAD_BATCH);
    struct task k = {
        .w = w,
        .head = &a->head,
        .rows = (size_t)a->head.tile.rows,
        .width = (size_t)a->head.tile.width,
        .words = dsf_head_words(&a->head),
        .columns = columns_of(a),
        .block = block_of(a),
        .targets = w->sums,
        .sums = (char *)w->sums + targets_bytes(a),
        .norm = DSF_GPU_NORM_OF(w, DSFLOW_HEAD_NORM, &a->head),
    };

    dsf_gpu_fetch_tokens(k.targets, batch + k.rows, k.rows, w->stream);
    k.xn = dsf_gpu_normed(w, &k.norm, dsf_gpu_port(w, DSFLOW_HEAD_X), k.rows);
    return k;
}

/* Columns `at` to at + n of the vocabulary: words, and what is beside them. */
struct columns {
    size_t at, n;
};

static struct columns at_most(const struct task *k, size_t at, size_t n)
{
    const size_t left = (size_t)k->head->tile.vocab - at;

    return (struct columns){ at, left < n ? left : n };
}

static struct dsf_gpu_projection
projection(const struct task *k, const struct dsf_gpu_work *w, struct columns c)
{
    return (struct dsf_gpu_projection){ w, k->rows, k->width, c.n };
}

/* The rows of the matrix that columns from `at` on have. */
static int64_t rows_at(const struct task *k, size_t at)
{
    return k->head->w + (int64_t)(at * k->width);
}

static const void *matrix_at(const struct task *k, size_t at)
{
    return dsf_gpu_number(k->w->call, DSFLOW_HEAD_WEIGHT, rows_at(k, at));
}

/* Logits of the columns, in fp32, with rows `ld` apart. */
static struct dsf_gpu_logits project(const struct task *k, struct columns c,
                                     float *logits, size_t ld)
{
    const struct dsflow_control *control =
        dsf_gpu_port(k->w, DSFLOW_HEAD_CONTROL);
    const struct dsf_gpu_projection p = projection(k, k->w, c);
    const size_t left = k->words > c.at ? k->words - c.at : 0;
    struct dsf_gpu_product product =
        dsf_gpu_project(&p, k->xn, matrix_at(k, c.at), logits, ld);

    product.out = DSFLOW_FP32;
    dsf_gpu_multiply(&product, k->w->stream);
    return (struct dsf_gpu_logits){
        .type = DSFLOW_FP32,
        .logits = logits,
        .ld = ld,
        .rows = k->rows,
        .vocab = left < c.n ? left : c.n,
        .first = k->head->first + (int32_t)c.at,
        .targets = k->targets,
        .scale = k->head->scale,
        .loss_scale = control == NULL ? NULL : &control->loss_scale,
    };
}

static void forward(const struct dsflow_call *call, void *stream)
{
    const struct dsf_head_columns_args *a = call->args;
    const struct dsf_gpu_work w =
        dsf_gpu_work(call, DSFLOW_HEAD_X,
                     forward_room(a, call->bufs[DSFLOW_HEAD_X].dtype), stream);
    const struct task k = begin(&w);
    const int whole = a->head.norm_w >= 0;
    struct dsflow_head_stats *stats =
        dsf_gpu_port(&w, whole ? DSFLOW_HEAD_SUMS : DSFLOW_HEAD_STATS);

    for (size_t at = 0; at < k.words; at += k.block) {
        const struct dsf_gpu_logits logits =
            project(&k, at_most(&k, at, k.block), w.wide, k.block);

        dsf_gpu_column_stats(&logits, stats, at == 0, stream);
    }
    if (whole)
        dsf_gpu_row_losses(k.targets, stats, 1, stats, k.rows,
                           dsf_gpu_port(&w, DSFLOW_HEAD_LOSS), k.sums, stream);
}

static size_t forward_scratch(const struct dsflow_case *c)
{
    return dsf_gpu_room_bytes(
        forward_room(c->args, c->shapes[DSFLOW_HEAD_X].dtype));
}

const struct dsf_gpu_side dsf_gpu_side_head_forward_columns = {
    .op = "head.forward_columns",
    .run = forward,
    .scratch = forward_scratch,
};

/* The targets are read once. */
static void loss(const struct dsflow_call *call, void *stream)
{
    const struct dsf_head_columns_args *a = call->args;
    const struct dsflow_buf *bufs = call->bufs;
    const size_t rows = (size_t)a->head.tile.rows;
    const int32_t *batch = bufs[DSFLOW_HEAD_BATCH].ptr;

    dsf_gpu_row_losses(batch + rows, bufs[DSFLOW_HEAD_ALL_STATS].ptr,
                       (unsigned)a->head.parts, bufs[DSFLOW_HEAD_SUMS].ptr,
                       rows, bufs[DSFLOW_HEAD_LOSS].ptr, call->scratch, stream);
}

static size_t loss_scratch(const struct dsflow_case *c)
{
    return losses_bytes(c->args);
}

const struct dsf_gpu_side dsf_gpu_side_head_loss_columns = {
    .op = "head.loss_columns",
    .run = loss,
    .scratch = loss_scratch,
};

/* Gradients of the logits of `all`, in the work's `inner`; `wide`: room for
 * logits that are no gradients yet. */
static void find_gradients(const struct task *k, struct columns all,
                           float *wide)
{
    const struct dsf_gpu_work *w = k->w;
    const int narrow = dsf_gpu_is_narrow(w->type);
    const struct dsflow_head_stats *sums = dsf_gpu_port(w, DSFLOW_HEAD_SUMS);

    for (size_t at = 0; at < all.n; at += k->block) {
        const struct columns c = { all.at + at, all.n - at < k->block
                                                    ? all.n - at
                                                    : k->block };
        char *to = (char *)w->inner + dsf_gpu_bytes(w->type, at);
        const struct dsf_gpu_logits logits =
            project(k, c, narrow ? wide : (float *)(void *)to,
                    narrow ? k->block : k->columns);

        dsf_gpu_column_gradients(&logits, sums, w->type, to, k->columns, c.n,
                                 w->stream);
    }
}

/* The part of the matrix of which products set the gradient. */
static struct dsf_gpu_extent matrix_of(const struct task *k)
{
    const size_t vocab = (size_t)k->head->tile.vocab;
    const size_t times = (k->words + k->columns - 1) / k->columns;
    const size_t end = times * k->columns;

    return (struct dsf_gpu_extent){ k->head->w,
                                    (end < vocab ? end : vocab) * k->width };
}

static void backward(const struct dsflow_call *call, void *stream,
                     struct wanted wanted)
{
    const struct dsf_head_columns_args *a = call->args;
    const enum dsflow_dtype type = call->bufs[DSFLOW_HEAD_X].dtype;
    const struct dsf_gpu_work w = dsf_gpu_work(
        call, DSFLOW_HEAD_X,
        backward_room(a, type,
                      wanted.weight ? call->bufs[DSFLOW_HEAD_GRAD].dtype : type,
                      wanted),
        stream);
    const struct task k = begin(&w);
    const struct dsf_gpu_extent matrix = matrix_of(&k);
    struct dsf_gpu_work weights =
        w; /* its `wide` is behind that of the input */
    float *dnormed = NULL;
    struct dsf_gpu_gradient grad = { 0 };

    if (wanted.input) {
        dnormed = dsf_gpu_input_at(&w, DSFLOW_HEAD_DX, a->head.norm_w);
        weights.wide = (float *)(void *)((char *)w.wide + input_bytes(a));
    }
    if (wanted.weight)
        grad = dsf_gpu_gradient_but(&w, DSFLOW_HEAD_GRAD, &matrix, 1);
    for (size_t at = 0; at < k.words; at += k.columns) {
        const struct columns c = at_most(&k, at, k.columns);
        const struct dsf_gpu_projection p = projection(&k, &weights, c);
        const struct dsf_gpu_product input = dsf_gpu_project_input(
            &p, w.inner, k.columns, matrix_at(&k, at), dnormed, at > 0);

        find_gradients(&k, c, weights.wide);
        if (wanted.input)
            dsf_gpu_multiply(&input, stream);
        if (wanted.weight)
            dsf_gpu_project_weight(&p, w.inner, k.columns, k.xn, &grad,
                                   rows_at(&k, at));
    }
    if (wanted.input)
        dsf_gpu_input_gradient(&w, DSFLOW_HEAD_DX, &k.norm,
                               dsf_gpu_port(&w, DSFLOW_HEAD_X), dnormed, NULL,
                               dsf_gpu_port(&w, DSFLOW_HEAD_DNORM), k.rows);
    if (wanted.weight && a->head.norm_w >= 0) {
        grad = dsf_gpu_gradient(call, DSFLOW_HEAD_NORM_GRAD, stream);
        dsf_gpu_norm_sums(&w, &grad, a->head.norm_w, a->head.norm_b,
                          dsf_gpu_port(&w, DSFLOW_HEAD_DNORM), k.width);
    }
}

/* A side of the backward pass. */
#define BACKWARD(name, ...)                                                    \
    static void name(const struct dsflow_call *call, void *stream)             \
    {                                                                          \
        backward(call, stream, (struct wanted){ __VA_ARGS__ });                \
    }                                                                          \
    static size_t name##_scratch(const struct dsflow_case *c)                  \
    {                                                                          \
        const struct wanted wanted = { __VA_ARGS__ };                          \
        const enum dsflow_dtype type = c->shapes[DSFLOW_HEAD_X].dtype;         \
                                                                               \
        return dsf_gpu_room_bytes(backward_room(                               \
            c->args, type,                                                     \
            wanted.weight ? c->shapes[DSFLOW_HEAD_GRAD].dtype : type,          \
            wanted));                                                          \
    }                                                                          \
    const struct dsf_gpu_side dsf_gpu_side_head_##name = {                     \
        .op = "head." #name, .run = name, .scratch = name##_scratch            \
    }

BACKWARD(backward_columns, .input = 1, .weight = 1);
BACKWARD(backward_input_columns, .input = 1);
BACKWARD(backward_weight_columns, .weight = 1);
