/* reference_update.c - from complete gradients to new parameters.
 *
 * Gradients are summed over the groups in a tree of pairs, so that a rank that
 * owns 2^k consecutive groups owns a subtree. With a limit on the norm every
 * update waits for all squares; without one, each unit is updated as soon as
 * its gradient is there.
 */
#include "policies/reference_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static bool clips(const struct step *s)
{
    return s->plan->job->optimizer.clip > 0;
}

static struct dsf_schedule_args schedule_args(const struct dsf_job *job)
{
    const struct dsf_job_schedule *in = &job->schedule;

    return (struct dsf_schedule_args){
        .kind = in->kind,
        .shape = in->warmup_shape,
        .lr = job->optimizer.lr,
        .beta1 = job->optimizer.betas[0],
        .beta2 = job->optimizer.betas[1],
        .warmup = in->warmup,
        .total = in->total < 0 ? job->main.steps : in->total,
        .warmup_ratio = in->warmup_ratio,
        .min_ratio = in->min_ratio,
        .half_cycle = in->half_cycle,
        .second_half_cycle =
            in->second_half_cycle < 0 ? in->half_cycle : in->second_half_cycle,
        .decay_steps = in->decay_steps,
        .cycle_min_ratio = in->cycle_min_ratio,
        .decay_rate = in->decay_rate,
        .range_steps = in->range_steps,
        .range_rate = in->range_rate,
        .staircase = in->staircase,
    };
}

void dsf_step_begin_update(struct step *s)
{
    struct dsf_schedule_args schedule = schedule_args(s->plan->job);

    s->pass = DSFLOW_UPDATE;
    EMIT(s, &dsf_op_schedule, &schedule, -1, 0, s->control);
}

static void update_unit(struct step *s, unsigned u)
{
    const struct dsf_job_optimizer *opt = &s->plan->job->optimizer;
    const struct dsf_unit *unit = &s->model->units[u];
    struct unit_data *d = &s->units[u];
    dsflow_data_id grad = s->plan->reduce_micro ? d->grad.sum : d->grad.of[0];
    struct dsf_update_args args = {
        .elems = unit->elems,
        .decay = unit->decay,
        .beta1 = opt->betas[0],
        .beta2 = opt->betas[1],
        .eps = (float)opt->eps,
        .weight_decay = (float)opt->weight_decay,
        .momentum = (float)opt->momentum,
        .decoupled = opt->kind == DSF_ADAMW,
        .nesterov = opt->nesterov,
    };

    if (s->plan->no_update)
        return;
    if (opt->kind == DSF_SGD && opt->momentum > 0)
        EMIT(s, &dsf_op_sgd, &args, unit->layer, 0, s->control, grad, d->param,
             d->m);
    else if (opt->kind == DSF_SGD)
        EMIT(s, &dsf_op_sgd, &args, unit->layer, 0, s->control, grad, d->param);
    else if (opt->kind == DSF_LION)
        EMIT(s, &dsf_op_lion, &args, unit->layer, 0, s->control, grad, d->param,
             d->m);
    else
        EMIT(s, &dsf_op_adam, &args, unit->layer, 0, s->control, grad, d->param,
             d->m, d->v);
}

static void add(struct step *s, unsigned u, dsflow_data_id into,
                dsflow_data_id from, bool fresh)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct dsf_add_args args = { unit->elems, 0 };

    s->pass = DSFLOW_UPDATE;
    EMIT(s, &dsf_op_add, &args, unit->layer, fresh, into, from);
}

/* Those of all groups, onto that of group 0. */
static void sum_groups(struct step *s, unsigned u, struct gradients *g)
{
    int32_t n = s->plan->groups;

    for (int32_t stride = 1; stride < n; stride *= 2)
        for (int32_t i = 0; i + stride < n; i += 2 * stride)
            add(s, u, g->of[i], g->of[i + stride], false);
    memset(g->begun, 0, (size_t)n * sizeof(*g->begun));
}

static void add_round(struct step *s, unsigned u, struct gradients *g)
{
    if (!s->plan->reduce_micro)
        return;
    sum_groups(s, u, g);
    add(s, u, g->sum, g->of[0], !g->has_sum);
    g->has_sum = true;
}

void dsf_step_complete_round(struct step *s, unsigned u)
{
    add_round(s, u, &s->units[u].grad);
}

void dsf_step_complete_round_tied(struct step *s, unsigned u)
{
    add_round(s, u, &s->units[u].tied);
}

/* The whole gradient: of all rounds and groups, and of a tied head. */
static dsflow_data_id whole_gradient(struct step *s, unsigned u)
{
    struct unit_data *d = &s->units[u];

    if (s->plan->reduce_micro) {
        if (d->tied.of != NULL)
            add(s, u, d->grad.sum, d->tied.sum, false);
        return d->grad.sum;
    }
    for (int32_t i = 0; i < s->plan->groups && d->tied.of != NULL; i++)
        add(s, u, d->grad.of[i], d->tied.of[i], false);
    sum_groups(s, u, &d->grad);
    return d->grad.of[0];
}

void dsf_step_complete(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct unit_data *d = &s->units[u];
    struct dsf_square_args square = { unit->elems, 0, unit->block };
    dsflow_data_id grad = whole_gradient(s, u);

    s->pass = DSFLOW_UPDATE;
    d->square = dsf_step_add_double(s, unit->elems / unit->block, "square.%s",
                                    unit->name);
    EMIT(s, &dsf_op_square, &square, unit->layer, 0, grad, d->square);
    if (!clips(s))
        update_unit(s, u);
}

dsflow_data_id dsf_step_sum(struct step *s, const dsflow_data_id *in, size_t n)
{
    enum { FAN = DSFLOW_MAX_PORTS - 1 };
    dsflow_data_id *level = dsf_xcalloc(n + 1, sizeof(*level));
    dsflow_data_id result;

    memcpy(level, in, n * sizeof(*in));
    do {
        size_t nnext = 0;

        for (size_t i = 0; i < n; i += FAN) {
            dsflow_data_id ports[DSFLOW_MAX_PORTS];
            unsigned k = (unsigned)(n - i < FAN ? n - i : FAN);

            ports[0] = dsf_step_add_double(s, 1, "sum.%u", s->nsums++);
            memcpy(ports + 1, level + i, k * sizeof(*ports));
            dsf_step_emit(s, &dsf_op_sum, NULL, -1, 1, k + 1, ports);
            level[nnext++] = ports[0];
        }
        n = nnext;
    } while (n > 1);
    result = level[0];
    free(level);
    return result;
}

void dsf_step_end_update(struct step *s)
{
    struct dsf_clip_args clip = { s->plan->job->optimizer.clip };
    unsigned n = s->model->nunits;
    dsflow_data_id *squares = dsf_xcalloc(n, sizeof(*squares));

    s->pass = DSFLOW_UPDATE;
    for (unsigned u = 0; u < n; u++)
        squares[u] = s->units[u].square;
    EMIT(s, &dsf_op_clip, &clip, -1, 0, dsf_step_sum(s, squares, n),
         s->control);
    /* Last come those that the next step needs last. */
    for (unsigned u = 0; u < n && clips(s); u++)
        update_unit(s, u);
    free(squares);
}
