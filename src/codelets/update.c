/* update.c - the optimizers. */
#include "codelets/codelets.h"

#include "codelets/trials.h"
#include "codelets/update.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* From element `from` of this shard on, in the copy; NULL: there is none. */
static uint16_t *copy_of(const struct dsflow_call *call, int64_t from)
{
    const struct dsf_update_args *a = call->args;

    return a->copies ? (uint16_t *)call->bufs[call->nbufs - 1].ptr +
                           a->copy_at + from
                     : NULL;
}

static const struct dsf_narrow_loops *loops_of(const struct dsflow_call *call)
{
    return dsf_narrow(call->bufs[call->nbufs - 1].dtype);
}

/* Update elements from .. to; `grad`: the gradient from `from` on. */
typedef void update_fn(const struct dsflow_call *call, float weight_decay,
                       const float *grad, int64_t from, int64_t to);

/* So many numbers of a gradient that is not fp32 are widened at a time: they
 * stay in the cache. */
enum { WIDENED = 2048 };

static void some(const struct dsflow_call *call, update_fn *update,
                 float weight_decay, int64_t from, int64_t to)
{
    const int64_t most =
        dsf_is_narrow(call->bufs[GRAD].dtype) ? WIDENED : to - from;
    float wide[WIDENED];

    for (int64_t next; from < to; from = next) {
        next = to - from < most ? to : from + most;
        update(call, weight_decay,
               gradient(call, from, wide, (size_t)(next - from)), from, next);
    }
}

/* What decays, then the rest. */
static void both(const struct dsflow_call *call, update_fn *update)
{
    const struct dsf_update_args *a = call->args;

    some(call, update, a->weight_decay, 0, a->at.decay);
    some(call, update, 0, a->at.decay, a->at.elems);
}

/* One pass with the numbers `s` of the step, into the copy too where there is
 * one; then the states. */
#define PASS(rule, s, ...)                                                     \
    do {                                                                       \
        float *param = part(call, PARAM, from);                                \
        uint16_t *copy = copy_of(call, from);                                  \
        size_t n = (size_t)(to - from);                                        \
                                                                               \
        if (copy != NULL)                                                      \
            loops_of(call)->rule(&(s), param, grad, __VA_ARGS__, copy, n);     \
        else                                                                   \
            dsf_##rule##_update(&(s), param, grad, __VA_ARGS__, n);            \
    } while (0)

#define OPTIMIZER(name)                                                        \
    static void name##_cpu(const struct dsflow_call *call)                     \
    {                                                                          \
        both(call, name##_part);                                               \
    }                                                                          \
    DSF_CODELET(name, .cpu = name##_cpu, .trials = &dsf_trials_update)

static void adam_part(const struct dsflow_call *call, float weight_decay,
                      const float *grad, int64_t from, int64_t to)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const struct dsf_adam_step s = {
        .scale = (float)c->scale,
        .lr1 = (float)(a->uncorrected ? c->lr : c->lr / c->correction1),
        .root2 = a->uncorrected ? 1 : (float)sqrt(c->correction2),
        .beta1 = a->beta1,
        .beta2 = a->beta2,
        .eps = a->eps,
        .decay = a->decoupled ? (float)(c->lr * weight_decay) : 0,
        .l2 = a->decoupled ? 0 : weight_decay,
    };

    PASS(adam, s, part(call, M, from), part(call, V, from));
}

static void sgd_part(const struct dsflow_call *call, float weight_decay,
                     const float *grad, int64_t from, int64_t to)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const struct dsf_sgd_step s = {
        .scale = (float)c->scale,
        .lr = (float)c->lr,
        .momentum = a->momentum,
        .l2 = weight_decay,
        .nesterov = a->nesterov,
        .first = c->step == 1,
    };
    bool has_m = call->nbufs > M && call->bufs[M].ptr != NULL;

    PASS(sgd, s, has_m ? part(call, M, from) : NULL);
}

static void lion_part(const struct dsflow_call *call, float weight_decay,
                      const float *grad, int64_t from, int64_t to)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const struct dsf_lion_step s = {
        .scale = (float)c->scale,
        .lr = (float)c->lr,
        .beta1 = a->beta1,
        .beta2 = a->beta2,
        .decay = (float)(c->lr * weight_decay),
    };

    PASS(lion, s, part(call, M, from));
}

static void adagrad_part(const struct dsflow_call *call, float weight_decay,
                         const float *grad, int64_t from, int64_t to)
{
    const struct dsf_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const struct dsf_adagrad_step s = {
        .scale = (float)c->scale,
        .lr = (float)c->lr,
        .eps = a->eps,
        .l2 = weight_decay,
    };

    PASS(adagrad, s, part(call, M, from));
}

OPTIMIZER(adam);
OPTIMIZER(sgd);
OPTIMIZER(lion);
OPTIMIZER(adagrad);
