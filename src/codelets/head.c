/* head.c - last norm, logits and cross entropy of a tile. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static struct dsf_norm norm_of(const struct dsflow_head_args *a, float *unit)
{
    return (struct dsf_norm){ unit + a->norm_w, dsf_tensor_at(unit, a->norm_b),
                              (size_t)a->tile.width, a->tile.eps, a->tile.rms };
}

/* Working memory of forward. The blocks of a row stand together. */
struct parts {
    double *sum;            /* [rows][blocks]: of e^(logit - top) */
    float *top;             /* [rows][blocks] */
    float *normed, *target; /* target[rows]: the logit of it */
    size_t blocks;
};

static struct parts parts_of(const struct dsflow_tile *t, void *scratch)
{
    size_t rows = (size_t)t->rows;
    size_t blocks =
        ((size_t)t->vocab + DSF_HEAD_COLUMNS - 1) / DSF_HEAD_COLUMNS;
    struct parts p = { .sum = scratch, .blocks = blocks };

    p.top = (float *)(p.sum + dsf_round16(rows * blocks));
    p.target = p.top + dsf_round16(rows * blocks);
    p.normed = p.target + dsf_round16(rows);
    return p;
}

/* One block of columns, while it is in the cache: its logits become
 * e^(logit - top of the block), and the targets' are noted before. */
static void block(const struct dsflow_head_args *a, const struct parts *p,
                  const float *w, const int32_t *targets, float *logits,
                  size_t b)
{
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab, j = b * DSF_HEAD_COLUMNS;
    const size_t n =
        vocab - j < DSF_HEAD_COLUMNS ? vocab - j : DSF_HEAD_COLUMNS;

    dsf_gemm(0, 1, rows, n, width, p->normed, width, w + j * width, width, 0,
             logits + j, vocab);
    for (size_t r = 0; r < rows; r++) {
        assert(targets[r] < a->tile.vocab);
        if (targets[r] >= 0 && (size_t)targets[r] / DSF_HEAD_COLUMNS == b)
            p->target[r] = logits[r * vocab + (size_t)targets[r]];
        dsf_exp_columns(logits + r * vocab + j, vocab, 1, n,
                        p->top + r * p->blocks + b, p->sum + r * p->blocks + b);
    }
}

/* From the blocks of a row to its gradient; returns its loss. */
static double finish_row(const struct parts *p, size_t r, int32_t target,
                         size_t vocab, float scale, float *row)
{
    const float *top = p->top + r * p->blocks;
    const double *sums = p->sum + r * p->blocks;
    double sum = 0;
    float most = top[0];

    for (size_t b = 1; b < p->blocks; b++)
        most = top[b] > most ? top[b] : most;
    for (size_t b = 0; b < p->blocks; b++)
        sum += sums[b] * exp((double)top[b] - most);
    for (size_t b = 0; b < p->blocks; b++) {
        size_t j = b * DSF_HEAD_COLUMNS;
        size_t n = vocab - j < DSF_HEAD_COLUMNS ? vocab - j : DSF_HEAD_COLUMNS;

        dsf_scale(row + j, (float)(exp((double)top[b] - most) / sum * scale),
                  n);
    }
    row[target] -= scale;
    return (double)most + log(sum) - p->target[r];
}

static void forward_cpu(const struct dsflow_call *call)
{
    enum { X, NORM, WEIGHT, BATCH, LOGITS, LOSS };
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, vocab = (size_t)a->tile.vocab;
    const int32_t *targets = (const int32_t *)call->bufs[BATCH].ptr + rows;
    const float *w = dsf_floats(call, WEIGHT) + a->w;
    float *logits = dsf_floats(call, LOGITS);
    const struct dsf_norm norm = norm_of(a, dsf_floats(call, NORM));
    const struct parts p = parts_of(&a->tile, call->scratch);
    double loss = 0;

    dsf_norm_forward(&norm, dsf_floats(call, X), p.normed, rows);
    for (size_t b = 0; b < p.blocks; b++)
        block(a, &p, w, targets, logits, b);
    for (size_t r = 0; r < rows; r++) {
        if (targets[r] >= 0)
            loss += finish_row(&p, r, targets[r], vocab, a->scale,
                               logits + r * vocab);
        else
            memset(logits + r * vocab, 0, vocab * sizeof(float));
    }
    *(double *)call->bufs[LOSS].ptr = loss;
}

const struct dsflow_codelet dsf_codelet_head_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_head_forward,
    .cpu = forward_cpu,
    .trials = &dsf_trials_head_forward,
};

static void backward_input_cpu(const struct dsflow_call *call)
{
    enum { LOGITS, X, NORM, WEIGHT, DX, DNORM };
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab;
    const struct dsf_norm norm = norm_of(a, dsf_floats(call, NORM));
    float *dnormed = call->scratch;

    dsf_gemm(0, 0, rows, width, vocab, dsf_floats(call, LOGITS), vocab,
             dsf_floats(call, WEIGHT) + a->w, width, 0, dnormed, width);
    dsf_norm_backward(&norm, dsf_floats(call, X), dnormed, NULL,
                      dsf_floats(call, DX), dsf_floats(call, DNORM), rows);
}

const struct dsflow_codelet dsf_codelet_head_backward_input = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_head_backward_input,
    .cpu = backward_input_cpu,
    .trials = &dsf_trials_head_backward_input,
};

static void backward_weight_cpu(const struct dsflow_call *call)
{
    enum { LOGITS, X, NORM, DNORM, GRAD, NORM_GRAD };
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab;
    const struct dsf_norm norm = norm_of(a, dsf_floats(call, NORM));
    const float *dnorm = dsf_floats(call, DNORM);
    float *norm_grad = dsf_gradient(call, NORM_GRAD), *normed = call->scratch;
    const struct dsf_extent matrix = { a->w, vocab * width };
    float beta, *grad = dsf_gradient_but(call, GRAD, &matrix, 1, &beta);

    dsf_norm_forward(&norm, dsf_floats(call, X), normed, rows);
    dsf_gemm(1, 0, vocab, width, rows, dsf_floats(call, LOGITS), vocab, normed,
             width, beta, grad + a->w, width);
    dsf_add(norm_grad + a->norm_w, dnorm, width);
    if (a->norm_b >= 0)
        dsf_add(norm_grad + a->norm_b, dnorm + width, width);
}

const struct dsflow_codelet dsf_codelet_head_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_head_backward_weight,
    .cpu = backward_weight_cpu,
    .trials = &dsf_trials_head_backward_weight,
};

static void logits_cpu(const struct dsflow_call *call)
{
    enum { X, NORM, WEIGHT, LOGITS };
    const struct dsflow_head_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t vocab = (size_t)a->tile.vocab;
    const struct dsf_norm norm = norm_of(a, dsf_floats(call, NORM));
    float *normed = call->scratch;

    dsf_norm_forward(&norm, dsf_floats(call, X), normed, rows);
    dsf_gemm(0, 1, rows, vocab, width, normed, width,
             dsf_floats(call, WEIGHT) + a->w, width, 0,
             dsf_floats(call, LOGITS), vocab);
}

const struct dsflow_codelet dsf_codelet_head_logits = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_head_logits,
    .cpu = logits_cpu,
    .trials = &dsf_trials_head_logits,
};
