/* zeroone.c - 0/1 Adam: updates with second moments that are held, steps that
 * workers take by themselves, and what comes of them. */
#include "codelets/codelets.h"
#include "codelets/errors.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "kernels/wire_blocks.h"
#include "tasks/zeroone.h"

#include <math.h>
#include <string.h>

static float *floats(const struct dsflow_call *call, unsigned port, int64_t at)
{
    return (float *)call->bufs[port].ptr + at;
}

static const struct dsflow_control *control_of(const struct dsflow_call *call)
{
    return call->bufs[0].ptr;
}

/* How many of `elems` numbers decay. */
static int64_t decaying(int64_t decay, int64_t elems)
{
    if (decay < 0)
        return 0;
    return decay < elems ? decay : elems;
}

/* --- held_update ---------------------------------------------------------- */

static void held_update_cpu(const struct dsflow_call *call)
{
    enum { GRAD = 1, PARAM, M, V };
    const struct dsf_held_args *a = call->args;
    const int64_t decay = decaying(a->decay, a->elems);
    const float lr = (float)control_of(call)->lr;
    struct dsf_held_step s = { .beta1 = (float)a->beta1,
                               .rest1 = (float)(1 - a->beta1),
                               .lr = lr,
                               .eps = a->eps,
                               .decay = lr * a->weight_decay };

    dsf_held_update(&s, floats(call, GRAD, a->grad_at),
                    floats(call, V, a->v_at), floats(call, PARAM, a->param_at),
                    floats(call, M, a->m_at), (size_t)decay);
    s.decay = 0;
    dsf_held_update(&s, floats(call, GRAD, a->grad_at + decay),
                    floats(call, V, a->v_at + decay),
                    floats(call, PARAM, a->param_at + decay),
                    floats(call, M, a->m_at + decay),
                    (size_t)(a->elems - decay));
}

DSF_CODELET(held_update, .cpu = held_update_cpu, .trials = &dsf_trials_zeroone);

/* --- local_step ----------------------------------------------------------- */

/* Of the local steps that end with this one. */
static double sum_of_rates(const struct dsf_local_step_args *a, int64_t step)
{
    const struct dsflow_lr_schedule *s =
        dsflow_lr_schedule_find(a->rates.schedule);
    double sum = 0;

    for (int64_t i = dsf_zeroone_since(&a->schedule, step); i <= step; i++)
        sum += s->lr(a->rates.part, &a->rates.keys, i - 1);
    return sum > 0 ? sum : 0;
}

static void local_step_cpu(const struct dsflow_call *call)
{
    const struct dsf_local_step_args *a = call->args;
    const int64_t step = control_of(call)->step;
    const bool sync = dsf_zeroone_kind(&a->schedule, step) == DSF_ZEROONE_SYNC;
    struct dsf_zeroone_step *of = call->bufs[1].ptr;

    of->fresh = dsf_zeroone_is_fresh(&a->schedule, step);
    of->lr = control_of(call)->lr;
    of->rates = sync ? sum_of_rates(a, step) : 0;
}

DSF_CODELET(local_step, .cpu = local_step_cpu, .trials = &dsf_trials_zeroone);

static const struct dsf_zeroone_step *step_of(const struct dsflow_call *call)
{
    return call->bufs[0].ptr;
}

/* --- local_weights -------------------------------------------------------- */

static void local_weights_cpu(const struct dsflow_call *call)
{
    enum { PARAM = 1, LOCAL, WEIGHTS };
    const struct dsf_local_args *a = call->args;
    const float *param = floats(call, PARAM, a->at);
    float *weights = floats(call, WEIGHTS, a->weights_at);

    if (step_of(call)->fresh != 0)
        memcpy(weights, param, (size_t)a->elems * sizeof(*weights));
    else
        dsf_sum(weights, param, floats(call, LOCAL, a->local_at),
                (size_t)a->elems);
}

DSF_CODELET(local_weights, .cpu = local_weights_cpu,
            .trials = &dsf_trials_zeroone);

/* --- local_update --------------------------------------------------------- */

/* Numbers from .. to. */
static void update(const struct dsflow_call *call, bool fresh,
                   float weight_decay, int64_t from, int64_t to)
{
    enum { GRAD = 1, PARAM, V, M, OWN, LOCAL };
    const struct dsf_local_args *a = call->args;
    const float lr = (float)step_of(call)->lr;
    const struct dsf_held_step s = { .beta1 = (float)a->beta1,
                                     .rest1 = (float)((1 - a->beta1) *
                                                      (double)a->groups),
                                     .lr = lr,
                                     .eps = a->eps,
                                     .decay = lr * weight_decay };
    float *own = floats(call, OWN, a->own_at + from);
    float *local = floats(call, LOCAL, a->local_at + from);
    const size_t n = (size_t)(to - from);

    if (fresh)
        memset(local, 0, n * sizeof(*local));
    dsf_local_update(
        &s, floats(call, GRAD, a->grad_at + from),
        floats(call, V, a->at + from), floats(call, PARAM, a->at + from),
        fresh ? floats(call, M, a->at + from) : own, own, local, n);
}

static void local_update_cpu(const struct dsflow_call *call)
{
    const struct dsf_local_args *a = call->args;
    const int64_t decay = decaying(a->decay, a->elems);
    const bool fresh = step_of(call)->fresh != 0;

    update(call, fresh, a->weight_decay, 0, decay);
    update(call, fresh, 0, decay, a->elems);
}

DSF_CODELET(local_update, .cpu = local_update_cpu,
            .trials = &dsf_trials_zeroone);

/* --- feed_local ----------------------------------------------------------- */

static void feed_local_cpu(const struct dsflow_call *call)
{
    enum { LOCAL = 1, V, GRAD, ERROR };
    const struct dsf_feed_local_args *a = call->args;
    const bool coded = call->nbufs > ERROR && call->bufs[ERROR].ptr != NULL;
    const int64_t step = coded ? a->coding.block : a->elems;
    const struct dsf_errors errors = {
        .coding = &a->coding,
        .elems = a->elems,
        .at = a->error_at,
        .x = floats(call, GRAD, a->grad_at),
        .buf = coded ? &call->bufs[ERROR] : NULL,
        .scratch = call->scratch,
    };

    for (int64_t i = 0; i < a->elems; i += step) {
        dsf_local_share((float)a->eps, (float)(1 / (double)a->groups),
                        floats(call, LOCAL, a->local_at + i),
                        floats(call, V, a->at + i), errors.x + i, (size_t)step);
        if (coded)
            dsf_errors_add(&errors, i);
    }
    if (coded)
        dsf_errors_keep(&errors);
}

DSF_CODELET(feed_local, .cpu = feed_local_cpu, .trials = &dsf_trials_zeroone);

/* --- serve_mean ----------------------------------------------------------- */

static void serve_mean_cpu(const struct dsflow_call *call)
{
    enum { MEAN = 1, SCALES, SERVER };
    const struct dsf_chunk_args *a = call->args;
    const double *scales = call->bufs[SCALES].ptr;
    const int64_t n = a->coding.block;

    for (int64_t i = 0; i < a->elems; i += n) {
        float *mean = floats(call, MEAN, a->grad_at + i);
        float *server = floats(call, SERVER, a->server_at + i);
        const int64_t chunk = dsf_chunk_of(&a->coding, a->groups, a->at + i);

        if (chunk >= 0)
            dsf_wire1_serve((float)scales[chunk], mean, server, mean,
                            (size_t)n);
        if (a->last > 0 && control_of(call)->step == a->last)
            memset(server, 0, (size_t)n * sizeof(*server));
    }
}

DSF_CODELET(serve_mean, .cpu = serve_mean_cpu, .trials = &dsf_trials_zeroone);

/* --- local_settle --------------------------------------------------------- */

static void local_settle_cpu(const struct dsflow_call *call)
{
    enum { MEAN = 1, PARAM, M, V };
    const struct dsf_settle_args *a = call->args;
    const double rates = step_of(call)->rates;

    dsf_local_settle((float)a->eps, rates > 0 ? (float)rates : INFINITY,
                     floats(call, MEAN, a->mean_at), floats(call, V, a->v_at),
                     floats(call, PARAM, a->param_at), floats(call, M, a->m_at),
                     (size_t)a->elems);
}

DSF_CODELET(local_settle, .cpu = local_settle_cpu,
            .trials = &dsf_trials_zeroone);
