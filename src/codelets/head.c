/* head.c - last norm, logits and cross entropy of a tile; of a part, over some
 * of the vocabulary. The whole does what one part would, with its loss at once:
 * the same numbers. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/head_loss.h"
#include "codelets/normed.h"
#include "codelets/projection.h"
#include "codelets/rows_product.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

#include <math.h>
#include <string.h>

/* What is noted of the logits of a tile. The blocks of a row stand together. */
struct notes {
    double *sums;                    /* [rows][blocks]: of e^(logit - top) */
    float *tops;                     /* [rows][blocks] */
    struct dsflow_head_stats *stats; /* [rows] */
    size_t blocks;
};

/* Columns of block `b` that are words. */
static size_t block_columns(const struct dsflow_head_args *a, size_t b)
{
    size_t left = dsf_head_words(a) - b * DSF_HEAD_COLUMNS;

    return left < DSF_HEAD_COLUMNS ? left : DSF_HEAD_COLUMNS;
}

/* The blocks of a row in one. */
static void sum_blocks(const float *tops, const double *sums, size_t blocks,
                       struct dsflow_head_stats *out)
{
    float most = tops[0];

    for (size_t b = 1; b < blocks; b++)
        most = tops[b] > most ? tops[b] : most;
    out->top = most;
    out->sum = 0;
    for (size_t b = 0; b < blocks; b++)
        out->sum += sums[b] * exp((double)tops[b] - most);
}

/* The logits of one block, as they come from the product: rows are `ld` apart,
 * and become e^(logit - top of the block). */
static void block_exponentials(const struct dsflow_call *call, size_t b,
                               float *logits, size_t ld,
                               const struct notes *notes)
{
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, blocks = notes->blocks;
    const size_t n = block_columns(a, b);
    const int32_t *targets = dsf_targets_of(call);

    for (size_t r = 0; r < rows; r++, logits += ld) {
        int64_t column = dsf_own_target(a, targets[r]);

        if (b == 0)
            notes->stats[r].target = 0;
        if (column >= 0 && (size_t)column / DSF_HEAD_COLUMNS == b)
            notes->stats[r].target = logits[(size_t)column % DSF_HEAD_COLUMNS];
        dsf_exp_columns(logits, ld, 1, n, notes->tops + r * blocks + b,
                        notes->sums + r * blocks + b);
    }
}

/* Block by block, while they are in the cache. */
static void exponentials_cpu(const struct dsflow_call *call, const float *xn,
                             const struct notes *notes)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t vocab = (size_t)t->vocab;
    const float *w = dsf_floats(call, DSFLOW_HEAD_WEIGHT) + a->w;
    float *logits = dsf_floats(call, DSFLOW_HEAD_LOGITS);

    for (size_t b = 0; b < notes->blocks; b++) {
        const size_t j = b * DSF_HEAD_COLUMNS;

        dsf_gemm(0, 1, rows, block_columns(a, b), width, xn, width,
                 w + j * width, width, 0, logits + j, vocab);
        block_exponentials(call, b, logits + j, vocab, notes);
    }
}

/* Each in fp32 until it is an exponential. */
static void exponentials_narrow(const struct dsflow_call *call,
                                const struct dsf_narrow_call *c,
                                const uint16_t *xn, const struct notes *notes)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t vocab = (size_t)t->vocab;
    const uint16_t *w = dsf_halves(call, DSFLOW_HEAD_WEIGHT) + a->w;
    uint16_t *logits = dsf_halves(call, DSFLOW_HEAD_LOGITS);

    for (size_t b = 0; b < notes->blocks; b++) {
        const size_t j = b * DSF_HEAD_COLUMNS, n = block_columns(a, b);

        dsf_projection(&(struct dsf_projection){ c, rows, width, n }, xn,
                       w + j * width, c->wide, n);
        block_exponentials(call, b, c->wide, n, notes);
        c->loops->narrow(c->wide, n, NULL, logits + j, vocab, rows, n);
    }
}

/* The exponentials of a row become gradients; column -1: its target is of
 * another part. */
static void gradients_cpu(const struct dsflow_head_args *a, float *row,
                          const float *tops, const struct dsflow_head_stats *s,
                          int64_t column, double scale)
{
    for (size_t b = 0; b < dsf_head_blocks(&a->tile); b++)
        dsf_scale(row + b * DSF_HEAD_COLUMNS,
                  dsf_loss_factor(tops[b], s, scale), block_columns(a, b));
    if (column >= 0)
        row[column] -= (float)scale;
}

/* That of the target is the difference of two numbers that may be close: it is
 * computed from its logit, which was not rounded. */
static void gradients_narrow(const struct dsf_narrow_loops *loops,
                             const struct dsflow_head_args *a, uint16_t *row,
                             const float *tops,
                             const struct dsflow_head_stats *s, int64_t column,
                             double scale)
{
    float block[DSF_HEAD_COLUMNS];

    for (size_t b = 0; b < dsf_head_blocks(&a->tile); b++) {
        const size_t j = b * DSF_HEAD_COLUMNS, n = block_columns(a, b);

        loops->widen(row + j, block, n);
        dsf_scale(block, dsf_loss_factor(tops[b], s, scale), n);
        if (column >= 0 && (size_t)column / DSF_HEAD_COLUMNS == b)
            block[(size_t)column - j] =
                (float)((exp(s->target - s->top) / s->sum - 1) * scale);
        loops->narrow(block, n, NULL, row + j, n, 1, n);
    }
}

/* The loss of all rows; the exponentials become the gradients of logits. */
static void finish(const struct dsflow_call *call, const float *tops,
                   const struct dsflow_head_stats *stats)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const enum dsflow_dtype type = call->bufs[DSFLOW_HEAD_LOGITS].dtype;
    const size_t bytes = dsflow_dtype_bytes(type, t->vocab);
    const int32_t *targets = dsf_targets_of(call);
    const double scale = dsf_loss_scale_of(call);
    char *row = call->bufs[DSFLOW_HEAD_LOGITS].ptr;
    double loss = 0;

    for (size_t r = 0; r < (size_t)t->rows; r++, row += bytes) {
        const float *row_tops = tops + r * dsf_head_blocks(t);
        struct dsflow_head_stats s;
        int64_t column = dsf_own_target(a, targets[r]);

        if (targets[r] < 0) {
            memset(row, 0, bytes);
            continue;
        }
        s = dsf_whole_row(a, stats, r);
        if (dsf_is_narrow(type))
            gradients_narrow(dsf_narrow(type), a, (uint16_t *)(void *)row,
                             row_tops, &s, column, scale);
        else
            gradients_cpu(a, (float *)(void *)row, row_tops, &s, column, scale);
        loss += s.top + log(s.sum) - s.target;
    }
    *(double *)call->bufs[DSFLOW_HEAD_LOSS].ptr = loss;
}

/* Those of the whole are in scratch; of a part, sums alone. */
static struct notes notes_of(const struct dsflow_call *call, char *scratch)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsf_head_scratch at = dsf_head_scratch(a);
    const int whole = a->norm_w >= 0;

    return (struct notes){
        .sums = (double *)(void *)(scratch + at.sums),
        .tops = whole ? (float *)(void *)(scratch + at.tops)
                      : dsf_floats(call, DSFLOW_HEAD_TOPS),
        .stats = whole
                     ? (struct dsflow_head_stats *)(void *)(scratch + at.stats)
                     : call->bufs[DSFLOW_HEAD_STATS].ptr,
        .blocks = dsf_head_blocks(&a->tile),
    };
}

/* Columns that are no words have no gradient. */
static void clear_padding(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_buf *logits = &call->bufs[DSFLOW_HEAD_LOGITS];
    const size_t words = dsf_head_words(a), vocab = (size_t)a->tile.vocab;
    const size_t each = dsflow_dtype_bytes(logits->dtype, 1);

    for (size_t r = 0; r < (size_t)a->tile.rows && words < vocab; r++)
        memset((char *)logits->ptr + (r * vocab + words) * each, 0,
               (vocab - words) * each);
}

static void sum_and_finish(const struct dsflow_call *call,
                           const struct notes *notes)
{
    const struct dsflow_head_args *a = call->args;

    clear_padding(call);
    for (size_t r = 0; r < (size_t)a->tile.rows; r++)
        sum_blocks(notes->tops + r * notes->blocks,
                   notes->sums + r * notes->blocks, notes->blocks,
                   &notes->stats[r]);
    if (a->norm_w >= 0)
        finish(call, notes->tops, notes->stats);
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const struct notes notes = notes_of(call, call->scratch);
    char *normed = (char *)call->scratch + dsf_head_scratch(a).normed;

    exponentials_cpu(call,
                     dsf_normed(&norm, dsf_floats(call, DSFLOW_HEAD_X),
                                (float *)(void *)normed, (size_t)a->tile.rows),
                     &notes);
    sum_and_finish(call, &notes);
}

static void forward_narrow(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsf_scratch block = dsf_head_block_scratch(a);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const struct dsf_narrow_call c =
        dsf_narrow_call(call, DSFLOW_HEAD_X, block);
    const struct notes notes =
        notes_of(call, (char *)call->scratch + dsf_scratch_bytes(block));

    exponentials_narrow(call, &c,
                        dsf_narrow_normed(&c, &norm,
                                          dsf_halves(call, DSFLOW_HEAD_X),
                                          (size_t)a->tile.rows),
                        &notes);
    sum_and_finish(call, &notes);
}

DSF_BY_TYPE(head_forward, DSFLOW_HEAD_X, forward)
DSF_SEGMENT_CODELET(head_forward, head_forward_cpu);

static void loss_cpu(const struct dsflow_call *call)
{
    finish(call, dsf_floats(call, DSFLOW_HEAD_TOPS),
           call->bufs[DSFLOW_HEAD_ALL_STATS].ptr);
}

DSF_PART_CODELET(head_loss, loss_cpu);

static void backward_input_cpu(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab, words = dsf_head_words(a);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    float *dx = dsf_floats(call, DSFLOW_HEAD_DX);
    float *dnormed = a->norm_w < 0 ? dx : call->scratch;

    dsf_gemm(0, 0, rows, width, words, dsf_floats(call, DSFLOW_HEAD_LOGITS),
             vocab, dsf_floats(call, DSFLOW_HEAD_WEIGHT) + a->w, width, 0,
             dnormed, width);
    if (a->norm_w >= 0)
        dsf_norm_backward(&norm, dsf_floats(call, DSFLOW_HEAD_X), dnormed, NULL,
                          dx, dsf_floats(call, DSFLOW_HEAD_DNORM), rows);
}

static void backward_input_narrow(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab, words = dsf_head_words(a);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const struct dsf_narrow_call c =
        dsf_narrow_call(call, DSFLOW_HEAD_LOGITS,
                        dsf_head_products(DSFLOW_DIR_BACKWARD_INPUT, a));
    const int part = a->norm_w < 0;

    dsf_projection_input(&(struct dsf_projection){ &c, rows, width, words },
                         dsf_halves(call, DSFLOW_HEAD_LOGITS), vocab,
                         dsf_halves(call, DSFLOW_HEAD_WEIGHT) + a->w, 0,
                         part ? dsf_product_at(&c, call, DSFLOW_HEAD_DX)
                              : c.wide);
    if (part)
        dsf_product_leaves(&c, call, DSFLOW_HEAD_DX, NULL, NULL, rows, width);
    else
        dsf_normed_leaves(&c, call, DSFLOW_HEAD_DX, &norm,
                          dsf_halves(call, DSFLOW_HEAD_X), NULL,
                          dsf_floats(call, DSFLOW_HEAD_DNORM), rows);
}

DSF_BY_TYPE(head_backward_input, DSFLOW_HEAD_LOGITS, backward_input)
DSF_SEGMENT_CODELET(head_backward_input, head_backward_input_cpu);

static void backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab, words = dsf_head_words(a);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const float *xn =
        dsf_normed(&norm, dsf_floats(call, DSFLOW_HEAD_X), call->scratch, rows);
    const struct dsf_extent matrix = { a->w, words * width };
    float beta,
        *grad = dsf_gradient_but(call, DSFLOW_HEAD_GRAD, &matrix, 1, &beta);

    dsf_gemm(1, 0, words, width, rows, dsf_floats(call, DSFLOW_HEAD_LOGITS),
             vocab, xn, width, beta, grad + a->w, width);
    if (a->norm_w >= 0)
        dsf_norm_gradient(dsf_gradient(call, DSFLOW_HEAD_NORM_GRAD), a->norm_w,
                          a->norm_b, dsf_floats(call, DSFLOW_HEAD_DNORM),
                          width);
}

static void backward_weight_narrow(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab, words = dsf_head_words(a);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const struct dsf_narrow_call c =
        dsf_narrow_call(call, DSFLOW_HEAD_LOGITS,
                        dsf_head_products(DSFLOW_DIR_BACKWARD_WEIGHT, a));
    const struct dsf_extent matrix = { a->w, words * width };
    const struct dsf_gradient grad =
        dsf_gradient_on(call, DSFLOW_HEAD_GRAD, &matrix, 1);
    struct dsf_gradient norm_grad;

    dsf_projection_weight(
        &(struct dsf_projection){ &c, rows, width, words },
        dsf_halves(call, DSFLOW_HEAD_LOGITS), vocab,
        dsf_narrow_normed(&c, &norm, dsf_halves(call, DSFLOW_HEAD_X), rows),
        &grad, a->w);
    if (a->norm_w < 0)
        return;
    norm_grad = dsf_gradient_on(call, DSFLOW_HEAD_NORM_GRAD, NULL, 0);
    dsf_gradient_norm(&norm_grad, a->norm_w, a->norm_b,
                      dsf_floats(call, DSFLOW_HEAD_DNORM), width);
}

DSF_BY_TYPE(head_backward_weight, DSFLOW_HEAD_LOGITS, backward_weight)
DSF_SEGMENT_CODELET(head_backward_weight, head_backward_weight_cpu);

static void logits_cpu(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const float *xn =
        dsf_normed(&norm, dsf_floats(call, DSFLOW_HEAD_X), call->scratch, rows);

    dsf_rows_product(rows, vocab, width, xn,
                     dsf_floats(call, DSFLOW_HEAD_WEIGHT) + a->w, 0,
                     dsf_floats(call, DSFLOW_HEAD_LOGITS), vocab);
}

static void logits_narrow(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab;
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const struct dsf_narrow_call c = dsf_narrow_call(
        call, DSFLOW_HEAD_X, dsf_head_products(DSFLOW_DIR_FORWARD, a));

    dsf_rows_projection(
        &(struct dsf_projection){ &c, rows, width, vocab },
        dsf_narrow_normed(&c, &norm, dsf_halves(call, DSFLOW_HEAD_X), rows),
        dsf_halves(call, DSFLOW_HEAD_WEIGHT) + a->w,
        dsf_floats(call, DSFLOW_HEAD_LOGITS), vocab);
}

DSF_BY_TYPE(head_logits, DSFLOW_HEAD_X, logits)
DSF_SEGMENT_CODELET(head_logits, head_logits_cpu);
