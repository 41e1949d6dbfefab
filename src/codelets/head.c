/* head.c - last norm, logits and cross entropy of a tile; of a part, over some
 * of the vocabulary. The whole does what one part would, with its loss at once:
 * the same numbers. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/normed.h"
#include "codelets/rows_product.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* What is noted of the logits of a tile. The blocks of a row stand together. */
struct notes {
    double *sums;                    /* [rows][blocks]: of e^(logit - top) */
    float *tops;                     /* [rows][blocks] */
    struct dsflow_head_stats *stats; /* [rows] */
    size_t blocks;
};

/* Columns of block `b`. */
static size_t block_columns(const struct dsflow_tile *t, size_t b)
{
    size_t left = (size_t)t->vocab - b * DSF_HEAD_COLUMNS;

    return left < DSF_HEAD_COLUMNS ? left : DSF_HEAD_COLUMNS;
}

/* The column of the target of a row, if this part has it, or -1. */
static int64_t own_target(const struct dsflow_head_args *a, int32_t target)
{
    int64_t column = (int64_t)target - a->first;

    assert(target < a->whole);
    return target >= 0 && column >= 0 && column < a->tile.vocab ? column : -1;
}

static const int32_t *targets_of(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;

    return (const int32_t *)call->bufs[DSFLOW_HEAD_BATCH].ptr + a->tile.rows;
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

/* The logits, each as e^(logit - top of its block). Block by block, while they
 * are in the cache. */
static void exponentials(const struct dsflow_call *call, const float *xn,
                         const struct notes *notes)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t vocab = (size_t)t->vocab, blocks = notes->blocks;
    const int32_t *targets = targets_of(call);
    const float *w = dsf_floats(call, DSFLOW_HEAD_WEIGHT) + a->w;
    float *logits = dsf_floats(call, DSFLOW_HEAD_LOGITS);

    for (size_t r = 0; r < rows; r++)
        notes->stats[r].target = 0;
    for (size_t b = 0; b < blocks; b++) {
        const size_t j = b * DSF_HEAD_COLUMNS, n = block_columns(t, b);

        dsf_gemm(0, 1, rows, n, width, xn, width, w + j * width, width, 0,
                 logits + j, vocab);
        for (size_t r = 0; r < rows; r++) {
            int64_t column = own_target(a, targets[r]);

            if (column >= 0 && (size_t)column / DSF_HEAD_COLUMNS == b)
                notes->stats[r].target = logits[r * vocab + (size_t)column];
            dsf_exp_columns(logits + r * vocab + j, vocab, 1, n,
                            notes->tops + r * blocks + b,
                            notes->sums + r * blocks + b);
        }
    }
    for (size_t r = 0; r < rows; r++)
        sum_blocks(notes->tops + r * blocks, notes->sums + r * blocks, blocks,
                   &notes->stats[r]);
}

/* Row `r` of the whole vocabulary, from what all parts say, in their order. */
static struct dsflow_head_stats whole_row(const struct dsflow_head_args *a,
                                          const struct dsflow_head_stats *stats,
                                          size_t r)
{
    const size_t rows = (size_t)a->tile.rows, parts = (size_t)a->parts;
    struct dsflow_head_stats s = { stats[r].top, 0, 0 };

    for (size_t p = 1; p < parts; p++)
        s.top = fmax(s.top, stats[p * rows + r].top);
    for (size_t p = 0; p < parts; p++) {
        const struct dsflow_head_stats *part = &stats[p * rows + r];

        s.sum += part->sum * exp(part->top - s.top);
        s.target += part->target; /* all but one are 0 */
    }
    return s;
}

/* The loss of all rows; the exponentials become the gradients of logits. */
static void finish(const struct dsflow_call *call, const float *tops,
                   const struct dsflow_head_stats *stats)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t vocab = (size_t)t->vocab, blocks = dsf_head_blocks(t);
    const int32_t *targets = targets_of(call);
    float *row = dsf_floats(call, DSFLOW_HEAD_LOGITS);
    double loss = 0;

    for (size_t r = 0; r < (size_t)t->rows; r++, row += vocab, tops += blocks) {
        struct dsflow_head_stats s;
        int64_t column = own_target(a, targets[r]);

        if (targets[r] < 0) {
            memset(row, 0, vocab * sizeof(float));
            continue;
        }
        s = whole_row(a, stats, r);
        for (size_t b = 0; b < blocks; b++)
            dsf_scale(row + b * DSF_HEAD_COLUMNS,
                      (float)(exp((double)tops[b] - s.top) / s.sum * a->scale),
                      block_columns(t, b));
        if (column >= 0)
            row[column] -= a->scale;
        loss += s.top + log(s.sum) - s.target;
    }
    *(double *)call->bufs[DSFLOW_HEAD_LOSS].ptr = loss;
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsf_head_scratch at = dsf_head_scratch(a);
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const int whole = a->norm_w >= 0;
    char *scratch = call->scratch;
    const struct notes notes = {
        .sums = (double *)(scratch + at.sums),
        .tops = whole ? (float *)(scratch + at.tops)
                      : dsf_floats(call, DSFLOW_HEAD_TOPS),
        .stats = whole ? (struct dsflow_head_stats *)(scratch + at.stats)
                       : call->bufs[DSFLOW_HEAD_STATS].ptr,
        .blocks = dsf_head_blocks(&a->tile),
    };

    exponentials(call,
                 dsf_normed(&norm, dsf_floats(call, DSFLOW_HEAD_X),
                            (float *)(scratch + at.normed),
                            (size_t)a->tile.rows),
                 &notes);
    if (whole)
        finish(call, notes.tops, notes.stats);
}

DSF_SEGMENT_CODELET(head_forward, forward_cpu);

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
    const size_t vocab = (size_t)a->tile.vocab;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    float *dx = dsf_floats(call, DSFLOW_HEAD_DX);
    float *dnormed = a->norm_w < 0 ? dx : call->scratch;

    dsf_gemm(0, 0, rows, width, vocab, dsf_floats(call, DSFLOW_HEAD_LOGITS),
             vocab, dsf_floats(call, DSFLOW_HEAD_WEIGHT) + a->w, width, 0,
             dnormed, width);
    if (a->norm_w >= 0)
        dsf_norm_backward(&norm, dsf_floats(call, DSFLOW_HEAD_X), dnormed, NULL,
                          dx, dsf_floats(call, DSFLOW_HEAD_DNORM), rows);
}

DSF_SEGMENT_CODELET(head_backward_input, backward_input_cpu);

static void backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab;
    const struct dsf_norm norm = DSF_NORM_OF(call, DSFLOW_HEAD_NORM, a);
    const float *xn =
        dsf_normed(&norm, dsf_floats(call, DSFLOW_HEAD_X), call->scratch, rows);
    const struct dsf_extent matrix = { a->w, vocab * width };
    float beta,
        *grad = dsf_gradient_but(call, DSFLOW_HEAD_GRAD, &matrix, 1, &beta);

    dsf_gemm(1, 0, vocab, width, rows, dsf_floats(call, DSFLOW_HEAD_LOGITS),
             vocab, xn, width, beta, grad + a->w, width);
    if (a->norm_w >= 0)
        dsf_norm_gradient(dsf_gradient(call, DSFLOW_HEAD_NORM_GRAD), a->norm_w,
                          a->norm_b, dsf_floats(call, DSFLOW_HEAD_DNORM),
                          width);
}

DSF_SEGMENT_CODELET(head_backward_weight, backward_weight_cpu);

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

DSF_SEGMENT_CODELET(head_logits, logits_cpu);
