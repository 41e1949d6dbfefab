/* muon.c - Muon (Jordan et al. 2024): a matrix moves by its momentum, made
 * nearly orthogonal by the iteration of Newton and Schulz; all else as in
 * AdamW. */
#include "codelets/codelets.h"

#include "codelets/trials.h"
#include "codelets/update.h"
#include "tasks/muon.h"

#include <math.h>
#include <string.h>

enum { COPY = V + 1 };

enum { WIDENED = 2048 };

static uint16_t *copy_of(const struct dsflow_call *call, int64_t from)
{
    const struct dsf_update_args *a = call->args;

    return a->copies ? (uint16_t *)call->bufs[COPY].ptr + a->copy_at + from
                     : NULL;
}

/* --- AdamW ---------------------------------------------------------------- */

static void adam(const struct dsflow_call *call, const struct dsflow_tensor *t)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const double lr = c->lr * a->adam_rate;
    const struct dsf_adam_step s = {
        .scale = (float)c->scale,
        .lr1 = (float)(a->uncorrected ? lr : lr / c->correction1),
        .root2 = a->uncorrected ? 1 : (float)sqrt(c->correction2),
        .beta1 = a->beta1,
        .beta2 = a->beta2,
        .eps = a->eps,
        .decay = t->decays ? (float)(lr * a->weight_decay) : 0,
    };
    const int64_t end = t->at + t->rows * t->cols;
    const int64_t to = end < a->at.elems ? end : a->at.elems;
    float wide[WIDENED];

    for (int64_t at = t->at > 0 ? t->at : 0; at < to; at += WIDENED) {
        const size_t n = (size_t)(to - at < WIDENED ? to - at : WIDENED);
        const float *g = gradient(call, at, wide, n);

        if (a->copies)
            dsf_narrow(call->bufs[COPY].dtype)
                ->adam(&s, part(call, PARAM, at), g, part(call, M, at),
                       part(call, V, at), copy_of(call, at), n);
        else
            dsf_adam_update(&s, part(call, PARAM, at), g, part(call, M, at),
                            part(call, V, at), n);
    }
}

/* --- matrices ------------------------------------------------------------- */

/* m = a mean of gradients; x = what is to become orthogonal. */
static void mix(const struct dsf_update_args *a, float scale, const float *g,
                float *m, float *x, size_t n)
{
    const float keep = a->momentum, rest = (1 - a->momentum) * scale;

    for (size_t i = 0; i < n; i++) {
        m[i] = keep * m[i] + rest * g[i];
        x[i] = a->nesterov ? keep * m[i] + rest * g[i] : m[i];
    }
}

/* The iteration of Newton and Schulz (tasks/muon.h). Ends in x, for which there
 * is room once more at `y`, and for two squares. */
static void orthogonalize(const struct dsflow_tensor *t, int32_t steps,
                          float *x, float *y, float *square, float *poly)
{
    const size_t rows = (size_t)t->rows, cols = (size_t)t->cols;
    const size_t n = rows < cols ? rows : cols, numbers = rows * cols;
    const int tall = rows > cols;
    const float norm = (float)(sqrt(dsf_square_sum(x, numbers)) + 1e-7);

    dsf_scale(x, 1 / norm, numbers);
    for (int32_t s = 0; s < steps; s++) {
        dsf_gemm(tall, !tall, n, n, numbers / n, x, cols, x, cols, 0, square,
                 n);
        dsf_gemm(0, 0, n, n, n, square, n, square, n, 0, poly, n);
        for (size_t i = 0; i < n * n; i++)
            poly[i] = DSF_MUON_B * square[i] + DSF_MUON_C * poly[i];
        for (size_t i = 0; i < n; i++)
            poly[i * n + i] += DSF_MUON_A;
        if (tall)
            dsf_gemm(0, 0, rows, cols, n, x, cols, poly, n, 0, y, cols);
        else
            dsf_gemm(0, 0, rows, cols, n, poly, n, x, cols, 0, y, cols);
        memcpy(x, y, numbers * sizeof(*x));
    }
}

static void turn(const struct dsflow_call *call, const struct dsflow_tensor *t)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const int64_t numbers = t->rows * t->cols;
    const size_t side = (size_t)(t->rows < t->cols ? t->rows : t->cols);
    const float rate = (float)(c->lr * dsf_muon_length(a, t));
    const float decay = t->decays ? (float)(c->lr * a->weight_decay) : 0;
    float *x = call->scratch, *y = x + numbers, *square = y + numbers;
    float *p = part(call, PARAM, t->at), wide[WIDENED];

    for (int64_t at = 0; at < numbers; at += WIDENED) {
        const size_t n =
            (size_t)(numbers - at < WIDENED ? numbers - at : WIDENED);

        mix(a, (float)c->scale, gradient(call, t->at + at, wide, n),
            part(call, M, t->at + at), x + at, n);
    }
    orthogonalize(t, a->steps, x, y, square, square + side * side);
    for (int64_t i = 0; i < numbers; i++)
        p[i] -= decay * p[i] + rate * x[i];
    if (a->copies)
        dsf_narrow(call->bufs[COPY].dtype)
            ->narrow(p, (size_t)numbers, NULL, copy_of(call, t->at),
                     (size_t)numbers, 1, (size_t)numbers);
}

static void muon_cpu(const struct dsflow_call *call)
{
    const struct dsf_update_args *a = call->args;

    for (int32_t i = 0; i < a->at.ntensors; i++)
        (dsf_muon_turns(&a->at.tensors[i]) ? turn : adam)(call,
                                                          &a->at.tensors[i]);
}

DSF_CODELET(muon, .cpu = muon_cpu, .trials = &dsf_trials_muon);
