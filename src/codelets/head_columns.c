/* head_columns.c - the head some columns of the vocabulary at a time: running
 * maxima and sums forward (Milakov & Gimelshein 2018), and back the same logits
 * once more, which become gradients before the next columns take their place.
 */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/head_loss.h"
#include "codelets/normed.h"
#include "codelets/projection.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* A task and its scratch; `narrow` where it is not in fp32. */
struct work {
    const struct dsflow_call *call;
    const struct dsflow_head_args *head;
    size_t rows, width, words, columns, block;
    bool narrow;
    struct dsf_narrow_call c;
    const void *xn; /* normed rows, of the type of the task */
    float *one;     /* a block of logits in fp32; back and fp32: in `logits` */
    void *logits;   /* [rows][columns] */
    double *sums;   /* of a block */
    float *tops;
};

/* Of forward, or back; then with the gradient of the matrix, or without. */
static struct work begin(const struct dsflow_call *call, bool back, bool weight)
{
    const struct dsf_head_columns_args *a = call->args;
    const struct dsflow_buf *x = &call->bufs[DSFLOW_HEAD_X];
    const struct dsf_head_columns_room at = dsf_head_columns_room(
        a, x->dtype, weight ? call->bufs[DSFLOW_HEAD_GRAD].dtype : DSFLOW_FP32,
        back);
    char *room = call->scratch;
    struct work w = {
        .call = call,
        .head = &a->head,
        .rows = (size_t)a->head.tile.rows,
        .width = (size_t)a->head.tile.width,
        .words = dsf_head_words(&a->head),
        .columns = dsf_head_columns(a),
        .block = dsf_head_block(a),
        .narrow = dsf_is_narrow(x->dtype),
        .xn = x->ptr,
        .one = (float *)(void *)(room + at.block),
        .logits = room + at.logits,
        .sums = (double *)(void *)(room + at.sums),
        .tops = (float *)(void *)(room + at.tops),
    };

    w.c = (struct dsf_narrow_call){
        .type = x->dtype,
        .wide = (float *)(void *)(room + at.dx),
        .narrow = (uint16_t *)(void *)(room + at.normed),
        .product = room + at.product,
        .rows = (float *)(void *)(room + at.rows),
    };
    if (w.narrow) {
        const struct dsf_narrow_norm norm =
            DSF_NARROW_NORM_OF(call, DSFLOW_HEAD_NORM, &a->head);

        w.c.loops = dsf_narrow(x->dtype);
        w.xn = dsf_narrow_normed(&w.c, &norm, x->ptr, w.rows);
    } else {
        const struct dsf_norm norm =
            DSF_NORM_OF(call, DSFLOW_HEAD_NORM, &a->head);

        w.xn = dsf_normed(&norm, x->ptr, (float *)(void *)(room + at.normed),
                          w.rows);
    }
    return w;
}

/* The numbers of W from column `j` of the vocabulary on. */
static const void *matrix_at(const struct work *w, size_t j)
{
    const char *unit = w->call->bufs[DSFLOW_HEAD_WEIGHT].ptr;

    return unit +
           dsflow_dtype_bytes(w->c.type, w->head->w + (int64_t)(j * w->width));
}

/* Logits of the n columns from `j` on, in fp32. */
static void project(const struct work *w, size_t j, size_t n, float *logits,
                    size_t ld)
{
    if (w->narrow)
        dsf_projection(&(struct dsf_projection){ &w->c, w->rows, w->width, n },
                       w->xn, matrix_at(w, j), logits, ld);
    else
        dsf_gemm(0, 1, w->rows, n, w->width, w->xn, w->width, matrix_at(w, j),
                 w->width, 0, logits, ld);
}

/* A block of columns from `j` on is added to what is known of a row: the
 * largest logit so far, and the sum of e^(logit - that). */
static void add_block(struct dsflow_head_stats *s, double top, double sum,
                      bool first)
{
    if (first || top > s->top) {
        s->sum = sum + (first ? 0 : s->sum * exp(s->top - top));
        s->top = top;
    } else {
        s->sum += sum * exp(top - s->top);
    }
}

/* stats[rows]: what these columns say of each row. */
static void find_stats(const struct work *w, struct dsflow_head_stats *stats)
{
    const int32_t *targets = dsf_targets_of(w->call);

    for (size_t j = 0; j < w->words; j += w->block) {
        const size_t n = dsf_least(w->words - j, w->block);

        project(w, j, n, w->one, n);
        for (size_t r = 0; r < w->rows; r++) {
            const int64_t column = dsf_own_target(w->head, targets[r]);

            if (j == 0)
                stats[r].target = 0;
            if (column >= (int64_t)j && column < (int64_t)(j + n))
                stats[r].target = w->one[r * n + (size_t)column - j];
        }
        dsf_exp_columns(w->one, n, w->rows, n, w->tops, w->sums);
        for (size_t r = 0; r < w->rows; r++)
            add_block(&stats[r], w->tops[r], w->sums[r], j == 0);
    }
}

/* The loss of all rows that have a target; `sums` are of the whole vocabulary.
 */
static void find_loss(const struct dsflow_call *call,
                      const struct dsflow_head_stats *sums)
{
    const struct dsflow_head_args *a = call->args;
    const int32_t *targets = dsf_targets_of(call);
    double loss = 0;

    for (size_t r = 0; r < (size_t)a->tile.rows; r++)
        if (targets[r] >= 0)
            loss += sums[r].top + log(sums[r].sum) - sums[r].target;
    *(double *)call->bufs[DSFLOW_HEAD_LOSS].ptr = loss;
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct work w = begin(call, false, false);
    const bool whole = w.head->norm_w >= 0;
    struct dsflow_head_stats *stats =
        call->bufs[whole ? DSFLOW_HEAD_SUMS : DSFLOW_HEAD_STATS].ptr;

    find_stats(&w, stats);
    if (whole)
        find_loss(call, stats);
}

DSF_SEGMENT_CODELET(head_forward_columns, forward_cpu);

static void loss_cpu(const struct dsflow_call *call)
{
    const struct dsf_head_columns_args *a = call->args;
    struct dsflow_head_stats *sums = call->bufs[DSFLOW_HEAD_SUMS].ptr;

    for (size_t r = 0; r < (size_t)a->head.tile.rows; r++)
        sums[r] =
            dsf_whole_row(&a->head, call->bufs[DSFLOW_HEAD_ALL_STATS].ptr, r);
    find_loss(call, sums);
}

DSF_PART_CODELET(head_loss_columns, loss_cpu);

/* Logits of a block, rows `ld` apart, become their gradients. */
static void block_gradients(const struct work *w, size_t j, size_t n,
                            float *logits, size_t ld)
{
    const struct dsflow_head_stats *sums = w->call->bufs[DSFLOW_HEAD_SUMS].ptr;
    const int32_t *targets = dsf_targets_of(w->call);
    const double scale = dsf_loss_scale_of(w->call);

    dsf_exp_columns(logits, ld, w->rows, n, w->tops, w->sums);
    for (size_t r = 0; r < w->rows; r++) {
        const int64_t column = dsf_own_target(w->head, targets[r]) - (int64_t)j;
        const struct dsflow_head_stats *s = &sums[r];
        float *row = logits + r * ld;

        if (targets[r] < 0) {
            memset(row, 0, n * sizeof(*row));
            continue;
        }
        dsf_scale(row, dsf_loss_factor(w->tops[r], s, scale), n);
        if (column >= 0 && column < (int64_t)n)
            row[column] -= (float)scale;
    }
}

/* Gradients of the logits of n columns from `first` on: rows of w->logits. */
static void find_gradients(const struct work *w, size_t first, size_t n)
{
    for (size_t j = 0; j < n; j += w->block) {
        const size_t some = dsf_least(n - j, w->block);
        const size_t ld = w->narrow ? some : n;
        float *to = w->narrow ? w->one : (float *)w->logits + j;

        project(w, first + j, some, to, ld);
        block_gradients(w, first + j, some, to, ld);
        if (w->narrow)
            w->c.loops->narrow(to, some, NULL, (uint16_t *)w->logits + j, n,
                               w->rows, some);
    }
}

/* Gradients of what enters, of parameters, or both: from the same logits. */
struct wanted {
    bool input, weight;
};

static void back_cpu(const struct dsflow_call *call, struct wanted wanted)
{
    const struct work w = begin(call, true, wanted.weight);
    const struct dsflow_head_args *a = w.head;
    const bool part = a->norm_w < 0;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const struct dsf_extent matrix = { a->w, w.words * w.width };
    float *dx = wanted.input ? dsf_floats(call, DSFLOW_HEAD_DX) : NULL;
    float *dnormed = part ? dx : w.c.wide, *grad = NULL, beta = 0;

    if (wanted.weight)
        grad = dsf_gradient_but(call, DSFLOW_HEAD_GRAD, &matrix, 1, &beta);
    for (size_t j = 0; j < w.words; j += w.columns) {
        const size_t n = dsf_least(w.words - j, w.columns);

        find_gradients(&w, j, n);
        if (wanted.input)
            dsf_gemm(0, 0, w.rows, w.width, n, w.logits, n, matrix_at(&w, j),
                     w.width, j > 0, dnormed, w.width);
        if (wanted.weight)
            dsf_gemm(1, 0, n, w.width, w.rows, w.logits, n, w.xn, w.width, beta,
                     grad + a->w + j * w.width, w.width);
    }
    if (wanted.input && !part)
        dsf_norm_backward(&norm, dsf_floats(call, DSFLOW_HEAD_X), dnormed, NULL,
                          dx, dsf_floats(call, DSFLOW_HEAD_DNORM), w.rows);
    if (wanted.weight && !part)
        dsf_norm_gradient(dsf_gradient(call, DSFLOW_HEAD_NORM_GRAD), a->norm_w,
                          a->norm_b, dsf_floats(call, DSFLOW_HEAD_DNORM),
                          w.width);
}

/* What has been summed of gradients of what enters, in fp32, leaves. */
static void input_leaves(const struct work *w, bool part)
{
    const struct dsflow_call *call = w->call;
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_HEAD_NORM, w->head);

    if (part)
        dsf_product_leaves(&w->c, call, DSFLOW_HEAD_DX, NULL, NULL, w->rows,
                           w->width);
    else
        dsf_normed_leaves(&w->c, call, DSFLOW_HEAD_DX, &norm,
                          dsf_halves(call, DSFLOW_HEAD_X), NULL,
                          dsf_floats(call, DSFLOW_HEAD_DNORM), w->rows);
}

static void back_narrow(const struct dsflow_call *call, struct wanted wanted)
{
    const struct work w = begin(call, true, wanted.weight);
    const struct dsflow_head_args *a = w.head;
    const bool part = a->norm_w < 0;
    const struct dsf_extent matrix = { a->w, w.words * w.width };
    struct dsf_gradient grad = { 0 }, norm_grad;
    float *dx = w.c.wide;

    if (wanted.weight)
        grad = dsf_gradient_on(call, DSFLOW_HEAD_GRAD, &matrix, 1);
    if (wanted.input && part)
        dx = dsf_product_at(&w.c, call, DSFLOW_HEAD_DX);
    for (size_t j = 0; j < w.words; j += w.columns) {
        const size_t n = dsf_least(w.words - j, w.columns);
        const struct dsf_projection p = { &w.c, w.rows, w.width, n };

        find_gradients(&w, j, n);
        if (wanted.input)
            dsf_projection_input(&p, w.logits, n, matrix_at(&w, j), j > 0, dx);
        if (wanted.weight)
            dsf_projection_weight(&p, w.logits, n, w.xn, &grad,
                                  a->w + (int64_t)(j * w.width));
    }
    if (wanted.input)
        input_leaves(&w, part);
    if (!wanted.weight || part)
        return;
    norm_grad = dsf_gradient_on(call, DSFLOW_HEAD_NORM_GRAD, NULL, 0);
    dsf_gradient_norm(&norm_grad, a->norm_w, a->norm_b,
                      dsf_floats(call, DSFLOW_HEAD_DNORM), w.width);
}

/* A codelet of the backward pass. */
#define BACKWARD(name, ...)                                                    \
    static void name##_cpu(const struct dsflow_call *call)                     \
    {                                                                          \
        if (dsf_has_narrow(call, DSFLOW_HEAD_X))                               \
            back_narrow(call, (struct wanted){ __VA_ARGS__ });                 \
        else                                                                   \
            back_cpu(call, (struct wanted){ __VA_ARGS__ });                    \
    }                                                                          \
    DSF_SEGMENT_CODELET(name, name##_cpu)

BACKWARD(head_backward_columns, .input = true, .weight = true);
BACKWARD(head_backward_input_columns, .input = true);
BACKWARD(head_backward_weight_columns, .weight = true);
