/* lamb.c - LAMB: moments and norms, ratios, parameters. */
#include "codelets/codelets.h"

#include "codelets/trials.h"
#include "codelets/update.h"

#include <math.h>
#include <string.h>

enum { RATIO = GRAD, SUMS = V + 1, COPY = SUMS };

/* So many numbers at a time: what is computed of them stays in the cache, and
 * the sum of their squares is one of dsf_square_sum, on GPUs too. */
enum { AT_ONCE = 2048 };

static struct dsf_lamb_step step_of(const struct dsflow_call *call,
                                    const struct dsflow_tensor *t)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;

    return (struct dsf_lamb_step){
        .beta1 = a->beta1,
        .beta2 = a->beta2,
        .scale = (float)c->scale,
        .rate1 = a->uncorrected ? 1 : (float)(1 / c->correction1),
        .root2 = a->uncorrected ? 1 : (float)sqrt(c->correction2),
        .eps = a->eps,
        .decay = t->decays ? a->weight_decay : 0,
    };
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Elements from .. to of tensor `t`, which are of one block: their moments, and
 * what they add to its sums. */
static void moments(const struct dsflow_call *call,
                    const struct dsflow_tensor *t, int64_t from, int64_t to,
                    double *sums)
{
    const struct dsf_lamb_step s = step_of(call, t);
    float wide[AT_ONCE], u[AT_ONCE];
    double p2 = 0, u2 = 0;

    for (int64_t next; from < to; from = next) {
        size_t n;

        next = least(from + AT_ONCE, to);
        n = (size_t)(next - from);
        dsf_lamb_moments(&s, part(call, PARAM, from),
                         gradient(call, from, wide, n), part(call, M, from),
                         part(call, V, from), u, n);
        p2 += dsf_square_sum(part(call, PARAM, from), n);
        u2 += dsf_square_sum(u, n);
    }
    sums[0] += p2;
    sums[1] += u2;
}

static void lamb_moments_cpu(const struct dsflow_call *call)
{
    const struct dsf_update_args *a = call->args;
    double *sums = call->bufs[SUMS].ptr;

    for (int64_t at = 0; at < a->at.elems; at += a->at.block) {
        memset(sums, 0, (size_t)a->width * sizeof(*sums));
        for (int32_t i = 0; i < a->at.ntensors; i++) {
            const struct dsflow_tensor *t = &a->at.tensors[i];

            moments(call, t, most(at, t->at),
                    least(at + a->at.block, t->at + t->rows * t->cols),
                    sums + (ptrdiff_t)(2 * t->number));
        }
        sums += a->width;
    }
}

DSF_CODELET(lamb_moments, .cpu = lamb_moments_cpu, .trials = &dsf_trials_lamb);

/* A ratio that is no number stays so: the run shows it. */
static double ratio_of(const struct dsf_ratio_args *a, double p2, double u2)
{
    double ratio;

    if (p2 == 0 || u2 == 0)
        return 1;
    ratio = sqrt(p2) / sqrt(u2);
    return ratio < a->least ? a->least : ratio > a->most ? a->most : ratio;
}

static void lamb_ratio_cpu(const struct dsflow_call *call)
{
    const struct dsf_ratio_args *a = call->args;
    double sums[2 * DSFLOW_MAX_TENSORS] = { 0 }, *ratio = call->bufs[0].ptr;

    for (unsigned i = 1; i < call->nbufs; i++) {
        const double *in = call->bufs[i].ptr;

        for (int64_t b = 0; b < call->bufs[i].elems; b += a->width)
            for (int32_t k = 0; k < 2 * a->n; k++)
                sums[k] += in[b + k];
    }
    for (ptrdiff_t k = 0; k < a->n; k++)
        ratio[k] = ratio_of(a, sums[2 * k], sums[2 * k + 1]);
}

DSF_CODELET(lamb_ratio, .cpu = lamb_ratio_cpu, .trials = &dsf_trials_ratio);

static void lamb_cpu(const struct dsflow_call *call)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const double *ratio = call->bufs[RATIO].ptr;

    for (int32_t i = 0; i < a->at.ntensors; i++) {
        const struct dsflow_tensor *t = &a->at.tensors[i];
        const int64_t from = most(0, t->at);
        const int64_t to = least(a->at.elems, t->at + t->rows * t->cols);
        struct dsf_lamb_step s = step_of(call, t);

        s.lr = (float)(c->lr * (ratio == NULL ? 1 : ratio[t->number]));
        if (!a->copies)
            dsf_lamb_update(&s, part(call, PARAM, from), part(call, M, from),
                            part(call, V, from), (size_t)(to - from));
        else
            dsf_narrow(call->bufs[COPY].dtype)
                ->lamb(&s, part(call, PARAM, from), part(call, M, from),
                       part(call, V, from),
                       (uint16_t *)call->bufs[COPY].ptr + a->copy_at + from,
                       (size_t)(to - from));
    }
}

DSF_CODELET(lamb, .cpu = lamb_cpu, .trials = &dsf_trials_lamb);
