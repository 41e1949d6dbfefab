/* part_head.c - logits and cross entropy over some of the vocabulary. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Columns of block `b`. */
static size_t block_columns(const struct dsflow_tile *t, size_t b)
{
    size_t left = (size_t)t->vocab - b * DSF_HEAD_COLUMNS;

    return left < DSF_HEAD_COLUMNS ? left : DSF_HEAD_COLUMNS;
}

/* The column of the target of a row, if this part has it, or -1. */
static int64_t own_target(const struct dsf_head_part_args *a, int32_t target)
{
    int64_t column = (int64_t)target - a->first;

    assert(target < a->whole);
    return target >= 0 && column >= 0 && column < a->tile.vocab ? column : -1;
}

/* What a row says to the others: its blocks in one. */
static void sum_blocks(const float *tops, const double *sums, size_t blocks,
                       struct dsf_head_stats *out)
{
    float most = tops[0];

    for (size_t b = 1; b < blocks; b++)
        most = tops[b] > most ? tops[b] : most;
    out->top = most;
    out->sum = 0;
    for (size_t b = 0; b < blocks; b++)
        out->sum += sums[b] * exp((double)tops[b] - most);
}

/* Block by block, while its logits are in the cache. */
static void forward_cpu(const struct dsflow_call *call)
{
    enum { XN, WEIGHT, BATCH, LOGITS, STATS, TOPS };
    const struct dsf_head_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t vocab = (size_t)t->vocab, blocks = dsf_head_blocks(t);
    const int32_t *targets = (const int32_t *)call->bufs[BATCH].ptr + rows;
    const float *w = dsf_floats(call, WEIGHT) + a->w;
    float *logits = dsf_floats(call, LOGITS), *tops = dsf_floats(call, TOPS);
    struct dsf_head_stats *stats = call->bufs[STATS].ptr;
    double *sums = call->scratch;

    for (size_t r = 0; r < rows; r++)
        stats[r].target = 0;
    for (size_t b = 0; b < blocks; b++) {
        const size_t j = b * DSF_HEAD_COLUMNS, n = block_columns(t, b);

        dsf_gemm(0, 1, rows, n, width, dsf_floats(call, XN), width,
                 w + j * width, width, 0, logits + j, vocab);
        for (size_t r = 0; r < rows; r++) {
            int64_t column = own_target(a, targets[r]);

            if (column >= 0 && (size_t)column / DSF_HEAD_COLUMNS == b)
                stats[r].target = logits[r * vocab + (size_t)column];
            dsf_exp_columns(logits + r * vocab + j, vocab, 1, n,
                            tops + r * blocks + b, sums + r * blocks + b);
        }
    }
    for (size_t r = 0; r < rows; r++)
        sum_blocks(tops + r * blocks, sums + r * blocks, blocks, &stats[r]);
}

const struct dsflow_codelet dsf_codelet_head_part_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_head_part_forward,
    .cpu = forward_cpu,
};

/* Row `r` of the whole vocabulary, from what all parts say, in their order. */
static struct dsf_head_stats whole_row(const struct dsf_head_part_args *a,
                                       const struct dsf_head_stats *stats,
                                       size_t r)
{
    const size_t rows = (size_t)a->tile.rows, parts = (size_t)a->parts;
    struct dsf_head_stats s = { stats[r].top, 0, 0 };

    for (size_t p = 1; p < parts; p++)
        s.top = fmax(s.top, stats[p * rows + r].top);
    for (size_t p = 0; p < parts; p++) {
        const struct dsf_head_stats *part = &stats[p * rows + r];

        s.sum += part->sum * exp(part->top - s.top);
        s.target += part->target; /* all but one are 0 */
    }
    return s;
}

static void loss_cpu(const struct dsflow_call *call)
{
    enum { LOGITS, BATCH, STATS, TOPS, LOSS };
    const struct dsf_head_part_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, vocab = (size_t)t->vocab;
    const size_t blocks = dsf_head_blocks(t);
    const int32_t *targets = (const int32_t *)call->bufs[BATCH].ptr + rows;
    const float *tops = dsf_floats(call, TOPS);
    float *row = dsf_floats(call, LOGITS);
    double loss = 0;

    for (size_t r = 0; r < rows; r++, row += vocab, tops += blocks) {
        struct dsf_head_stats s;
        int64_t column = own_target(a, targets[r]);

        if (targets[r] < 0) {
            memset(row, 0, vocab * sizeof(float));
            continue;
        }
        s = whole_row(a, call->bufs[STATS].ptr, r);
        for (size_t b = 0; b < blocks; b++)
            dsf_scale(row + b * DSF_HEAD_COLUMNS,
                      (float)(exp((double)tops[b] - s.top) / s.sum * a->scale),
                      block_columns(t, b));
        if (column >= 0)
            row[column] -= a->scale;
        loss += s.top + log(s.sum) - s.target;
    }
    *(double *)call->bufs[LOSS].ptr = loss;
}

const struct dsflow_codelet dsf_codelet_head_part_loss = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_head_part_loss,
    .cpu = loss_cpu,
};

static void backward_input_cpu(const struct dsflow_call *call)
{
    enum { LOGITS, WEIGHT, DXN };
    const struct dsf_head_part_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab;

    dsf_gemm(0, 0, rows, width, vocab, dsf_floats(call, LOGITS), vocab,
             dsf_floats(call, WEIGHT) + a->w, width, 0, dsf_floats(call, DXN),
             width);
}

const struct dsflow_codelet dsf_codelet_head_part_backward_input = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_head_part_backward_input,
    .cpu = backward_input_cpu,
};

static void backward_weight_cpu(const struct dsflow_call *call)
{
    enum { LOGITS, XN, GRAD };
    const struct dsf_head_part_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab;
    const struct dsf_extent matrix = { a->w, vocab * width };
    float beta, *grad = dsf_gradient_but(call, GRAD, &matrix, 1, &beta);

    dsf_gemm(1, 0, vocab, width, rows, dsf_floats(call, LOGITS), vocab,
             dsf_floats(call, XN), width, beta, grad + a->w, width);
}

const struct dsflow_codelet dsf_codelet_head_part_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_head_part_backward_weight,
    .cpu = backward_weight_cpu,
};
