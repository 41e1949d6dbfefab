/* norm.c - the norm of the whole gradient, and clipping by it. */
#include "codelets/codelets.h"

#include "codelets/trials.h"
#include "kernels/narrow.h"

#include <math.h>
#include <stdbool.h>

/* So many numbers that are not fp32 are widened at a time. */
enum { WIDENED = 2048 };

static double squares(const struct dsflow_buf *b, size_t at, size_t n)
{
    float wide[WIDENED];
    double sum = 0;

    if (!dsf_is_narrow(b->dtype))
        return dsf_square_sum((const float *)b->ptr + at, n);
    for (size_t i = 0; i < n; i += WIDENED) {
        const size_t len = n - i < WIDENED ? n - i : WIDENED;

        dsf_narrow(b->dtype)->widen((const uint16_t *)b->ptr + at + i, wide,
                                    len);
        sum += dsf_square_sum(wide, len);
    }
    return sum;
}

static void square_cpu(const struct dsflow_call *call)
{
    const struct dsf_square_args *a = call->args;
    double *out = call->bufs[1].ptr;
    const size_t n = (size_t)call->bufs[1].elems;
    const size_t block = (size_t)a->elems / n;

    for (size_t i = 0; i < n; i++)
        out[i] = squares(&call->bufs[0], (size_t)a->at + i * block, block);
}

DSF_CODELET(square, .cpu = square_cpu, .trials = &dsf_trials_square);

static void sum_cpu(const struct dsflow_call *call)
{
    double *out = call->bufs[0].ptr;
    double sum = call->fresh & 1 ? 0 : *out;

    for (unsigned i = 1; i < call->nbufs; i++) {
        const double *in = call->bufs[i].ptr;

        for (int64_t k = 0; k < call->bufs[i].elems; k++)
            sum += in[k];
    }
    *out = sum;
}

DSF_CODELET(sum, .cpu = sum_cpu, .trials = &dsf_trials_sum);

/* What to skip after a step that is `bad`. Does the next loss scale help? */
static enum dsflow_skip skip_of(const struct dsf_clip_args *a, int64_t before,
                                bool bad, bool helps)
{
    if (a->nonfinite == DSF_NONFINITE_KEEP)
        return DSFLOW_SKIP_NONE;
    if (a->nonfinite == DSF_NONFINITE_STOP &&
        (before == DSFLOW_SKIP_REST || (bad && !helps)))
        return DSFLOW_SKIP_REST;
    return bad ? DSFLOW_SKIP_STEP : DSFLOW_SKIP_NONE;
}

static void clip_cpu(const struct dsflow_call *call)
{
    const struct dsf_clip_args *a = call->args;
    const double loss = *(const double *)call->bufs[1].ptr;
    struct dsflow_control *c = call->bufs[2].ptr;
    bool bad, helps;
    double ratio;

    c->norm = sqrt(*(const double *)call->bufs[0].ptr) /
              (a->unscaled ? 1 : c->loss_scale);
    ratio = a->limit / (c->norm + 1e-6);
    c->scale = (a->limit > 0 && ratio < 1 ? ratio : 1) / c->loss_scale;
    bad = !isfinite(c->norm) || !isfinite(loss);
    helps = call->nbufs > 3 &&
            dsf_loss_scale_note(&a->scale, call->bufs[3].ptr, bad);
    c->skip = skip_of(a, c->skip, bad, helps);
}

DSF_CODELET(clip, .cpu = clip_cpu, .trials = &dsf_trials_clip);

static void clip_group_cpu(const struct dsflow_call *call)
{
    const struct dsf_clip_group_args *a = call->args;
    const struct dsflow_control *c = call->bufs[0].ptr;
    const double norm = (double)a->groups *
                        sqrt(*(const double *)call->bufs[2].ptr) /
                        c->loss_scale;
    const double ratio = isfinite(norm) ? a->limit / (norm + 1e-6) : NAN;

    if (!(ratio >= 1))
        dsf_scale((float *)call->bufs[1].ptr + a->at, (float)ratio,
                  (size_t)a->elems);
}

DSF_CODELET(clip_group, .cpu = clip_group_cpu,
            .trials = &dsf_trials_clip_group);

bool dsf_takes_few(const struct dsflow_op *op)
{
    return op == &dsf_op_sum || op == &dsf_op_clip || op == &dsf_op_local_step;
}
