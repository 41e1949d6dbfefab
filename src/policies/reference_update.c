/* reference_update.c - from complete gradients to new parameters.
 *
 * Gradients are summed over the groups in a tree of pairs, so that a rank that
 * owns 2^k consecutive groups owns a subtree. With a limit on the norm, or where
 * a step may be skipped, as it may where losses are scaled, every update waits
 * for all squares; else each unit is updated as soon as its gradient is there.
 */
#include "policies/reference_private.h"

#include "base/alloc.h"
#include "base/returned.h"
#include "plan/stretch.h"
#include "policies/compress.h"
#include "policies/keys.h"
#include "policies/onebit.h"
#include "tasks/lamb.h"

#include <dsflow/rewrite.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Do updates wait for the norm of the whole gradient? */
static bool waits(const struct step *s)
{
    const struct dsf_job *job = s->plan->job;

    return job->optimizer.clip > 0 ||
           job->train.on_nonfinite == DSF_SKIP_STEP || dsf_is_scaled(&s->scale);
}

/* A task whose last port, `n` of them before it, is the scaler: it has one where
 * losses are scaled. */
static void emit_scaled(struct step *s, const struct dsflow_op *op,
                        const void *args, unsigned n,
                        const dsflow_data_id *before)
{
    enum { MOST = 4 };
    dsflow_data_id data[MOST];

    memcpy(data, before, n * sizeof(*data));
    data[n] = s->scaler;
    dsf_step_emit(s, op, args, -1, 0, n + dsf_is_scaled(&s->scale), data);
}

#define EMIT_SCALED(s, op, args, ...)                                          \
    emit_scaled(                                                               \
        s, op, args,                                                           \
        sizeof((dsflow_data_id[]){ __VA_ARGS__ }) / sizeof(dsflow_data_id),    \
        (dsflow_data_id[]){ __VA_ARGS__ })

struct dsf_begin_args dsf_step_begin_args(const struct step *s)
{
    const struct dsf_job *job = s->plan->job;
    const struct dsflow_lr_schedule *lr = dsf_job_lr_schedule(job, NULL);
    const void *part = dsf_job_part(job, lr->options);
    struct dsf_begin_args args = {
        .keys = dsf_lr_keys(job),
        .beta1 = job->optimizer.betas[0],
        .beta2 = job->optimizer.betas[1],
        .scale = s->scale,
    };

    snprintf(args.schedule, sizeof(args.schedule), "%s", lr->name);
    if (part != NULL)
        memcpy(args.part, part, lr->part_size);
    return args;
}

void dsf_step_begin_update(struct step *s)
{
    struct dsf_begin_args begin = dsf_step_begin_args(s);

    s->pass = DSFLOW_UPDATE;
    EMIT_SCALED(s, &dsf_op_begin, &begin, s->control);
}

/* What the ratio of each tensor follows from, and the ratios; the task that
 * uses them, with its arguments, comes next. */
static dsflow_data_id weigh_unit(struct step *s, unsigned u,
                                 const struct dsf_optimizer_front *front,
                                 const struct dsf_update_args *args,
                                 const dsflow_data_id *ports)
{
    const struct dsf_unit *unit = &s->model->units[u];
    const struct dsf_lamb_keys limits = dsf_lamb_limits(
        s->optimizer, dsf_job_part(s->plan->job, s->optimizer->options));
    dsflow_data_id *more = dsf_xcalloc(4 + s->nstates, sizeof(*more));
    struct dsf_ratio_args weigh;
    dsflow_data_id sums, ratio;

    sums = dsflow_rewrite_named(
        s->g, &DSF_DOUBLES(unit->elems / unit->block * args->width), "norms.%s",
        unit->name);
    ratio = dsflow_rewrite_named(s->g, &DSF_DOUBLES(unit->ntensors), "ratio.%s",
                                 unit->name);
    memcpy(more, ports, (3 + s->nstates) * sizeof(*ports));
    more[3 + s->nstates] = sums;
    dsf_step_emit(s, front->measure, args, unit->layer, 0, 4 + s->nstates,
                  more);
    dsf_lamb_fill_ratio(&limits, args, &weigh);
    EMIT(s, front->weigh, &weigh, unit->layer, 0, ratio, sums);
    dsf_lamb_keep_mean(s, u, ratio);
    free(more);
    return ratio;
}

static void update_unit(struct step *s, unsigned u)
{
    const struct dsf_optimizer_front *front =
        dsf_optimizer_front(s->optimizer->op);
    const struct dsflow_optimizer *o = s->optimizer;
    const struct dsf_job *job = s->plan->job;
    const struct dsf_unit *unit = &s->model->units[u];
    struct unit_data *d = &s->units[u];
    struct dsflow_optimizer_keys keys = dsf_optimizer_keys(job);
    struct dsflow_err why = { .msg = "" };
    unsigned nstates = s->nstates;
    dsflow_data_id *ports;
    void *args;

    if (s->status < 0)
        return;
    args = dsf_xcalloc(1, o->op->args_size);
    dsf_reference_describe(unit, args);
    if (o->fill != NULL)
        s->status = dsf_returned(
            o->fill(dsf_job_part(job, o->options), &keys, args, &why),
            DSFLOW_OK, "optimizer", o->name, "fill", &why);
    if (s->status < 0)
        dsf_job_fail(job, s->err, s->status, "optimizer", "kind", "%s: %s",
                     o->name, why.msg);
    if (s->coded || s->kind != DSF_ZEROONE_VARIANCE) {
        if (s->coded)
            dsf_onebit_update(s, u, args);
        else
            dsf_zeroone_update(s, u, args);
        free(args);
        return;
    }
    ports = dsf_xcalloc(3 + s->nstates, sizeof(*ports));
    ports[0] = s->control;
    ports[1] = s->plan->reduce_micro ? d->grad.sum : d->grad.of[0];
    ports[2] = d->param;
    memcpy(ports + 3, d->states, s->nstates * sizeof(*ports));
    if (front != NULL && s->status == DSFLOW_OK)
        ports[1] = weigh_unit(s, u, front, args, ports);
    while (nstates > 0 && !dsf_is_data(d->states[nstates - 1]))
        nstates--;
    dsf_step_emit(s, o->op, args, unit->layer, 0, 3 + nstates, ports);
    free(ports);
    free(args);
}

void dsf_step_add(struct step *s, unsigned u, dsflow_data_id into,
                  const dsflow_data_id *from, int32_t n, bool fresh)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct dsf_sum_args args = { .elems = unit->elems };
    dsflow_data_id *ports = dsf_xcalloc((size_t)n + 1, sizeof(*ports));

    ports[0] = into;
    memcpy(ports + 1, from, (size_t)n * sizeof(*ports));
    s->pass = DSFLOW_UPDATE;
    if (n > 0)
        dsf_step_emit(s, &dsf_op_add, &args, unit->layer, fresh,
                      (unsigned)n + 1, ports);
    free(ports);
}

/* The same of what each is when it has been sent; where there is one group
 * only, of that. */
static void add_recoded(struct step *s, unsigned u, const dsflow_data_id *of,
                        int32_t n, const struct dsf_add_recoded_args *how)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct dsf_add_recoded_args args = *how;

    args.elems = unit->elems;
    s->pass = DSFLOW_UPDATE;
    dsf_step_emit(s, &dsf_op_add_recoded, &args, unit->layer, 0, (unsigned)n,
                  of);
}

/* `grad` with the error of the last one. */
static void feed_back(struct step *s, unsigned u, dsflow_data_id grad,
                      dsflow_data_id error, const struct dsf_coding *coding)
{
    const struct dsf_compress_keys *keys = dsf_compress_keys(s->plan->job);
    const struct dsf_unit *unit = &s->model->units[u];
    const struct dsf_feed_back_args args = { .coding = *coding,
                                             .elems = unit->elems,
                                             .reset = keys->error_reset,
                                             .beta = keys->error_beta };

    s->pass = DSFLOW_UPDATE;
    EMIT(s, &dsf_op_feed_back, &args, unit->layer, 0, s->control, grad, error);
}

static void feed_groups(struct step *s, unsigned u, const struct gradients *g,
                        const struct dsf_coding *coding)
{
    const int32_t m = s->m, t = s->t;

    for (int32_t i = 0; i < dsf_plan_sums(s->plan) && g->errors != NULL; i++) {
        dsf_step_stand_at_group(s, i);
        feed_back(s, u, g->of[i], g->errors[i], coding);
    }
    s->m = m;
    s->t = t;
}

/* The sum of each node with the error of the last one, and the sum of what
 * these are when they have been sent. */
static void add_nodes(struct step *s, unsigned u, const struct gradients *g,
                      const struct dsf_coding *coding)
{
    const int32_t node = dsf_compress_node(s->plan), m = s->m, t = s->t;
    const int32_t nodes = dsf_plan_sums(s->plan) / node;
    const struct dsf_add_recoded_args inner = { .coding = *coding, .inner = 1 };
    const struct dsf_add_recoded_args outer = { .coding = *coding };
    dsflow_data_id *sums = dsf_xcalloc((size_t)nodes, sizeof(*sums));

    for (int32_t i = 0; i < nodes; i++) {
        sums[i] = g->of[i * node];
        dsf_step_stand_at_group(s, i * node);
        add_recoded(s, u, &g->of[i * node], node, &inner);
        feed_back(s, u, sums[i], g->node_errors[i], coding);
    }
    s->m = m;
    s->t = t;
    add_recoded(s, u, sums, nodes, &outer);
    free(sums);
}

/* Those of all groups, onto that of group 0. */
static void sum_groups(struct step *s, unsigned u, struct gradients *g)
{
    int32_t n = dsf_plan_sums(s->plan);
    struct dsf_coding coding;

    if (!dsf_compress_rows(s->plan->job, s->model, &s->model->units[u]) &&
        dsf_compress_gradient(s->plan->job, &s->model->units[u], &coding)) {
        feed_groups(s, u, g, &coding);
        if (g->node_errors != NULL)
            add_nodes(s, u, g, &coding);
        else
            add_recoded(
                s, u, g->of, n,
                &(struct dsf_add_recoded_args){
                    .coding = coding, .node = dsf_compress_node(s->plan) });
    } else {
        dsf_step_add(s, u, g->of[0], g->of + 1, n - 1, false);
    }
    memset(g->begun, 0, (size_t)n * sizeof(*g->begun));
}

static void add_round(struct step *s, unsigned u, struct gradients *g)
{
    if (!s->plan->reduce_micro)
        return;
    sum_groups(s, u, g);
    dsf_step_add(s, u, g->sum, g->of, 1, !g->has_sum);
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

    if (s->coded || s->kind != DSF_ZEROONE_VARIANCE) {
        if (s->coded)
            dsf_onebit_sum(s, u);
        else
            dsf_zeroone_sum(s, u);
        return d->grad.of[0];
    }
    if (s->plan->reduce_micro) {
        if (d->tied.of != NULL)
            dsf_step_add(s, u, d->grad.sum, &d->tied.sum, 1, false);
        return d->grad.sum;
    }
    for (int32_t i = 0; i < dsf_plan_sums(s->plan) && d->tied.of != NULL; i++)
        dsf_step_add(s, u, d->grad.of[i], &d->tied.of[i], 1, false);
    if (d->tied.of != NULL)
        memset(d->tied.begun, 0,
               (size_t)dsf_plan_sums(s->plan) * sizeof(*d->tied.begun));
    sum_groups(s, u, &d->grad);
    return d->grad.of[0];
}

static void square_unit(struct step *s, unsigned u, dsflow_data_id grad)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct unit_data *d = &s->units[u];
    struct dsf_square_args square = { unit->elems, 0 };

    s->pass = DSFLOW_UPDATE;
    d->square = dsflow_rewrite_named(
        s->g, &DSF_DOUBLES(unit->elems / unit->block), "square.%s", unit->name);
    EMIT(s, &dsf_op_square, &square, unit->layer, 0, grad, d->square);
}

void dsf_step_complete(struct step *s, unsigned u)
{
    dsflow_data_id grad;

    if (s->coded && dsf_onebit_waits(s->plan->job)) {
        dsf_onebit_complete(s, u);
        return;
    }
    grad = whole_gradient(s, u);
    if (!dsf_zeroone_is_local(s))
        square_unit(s, u, grad);
    if (!waits(s))
        update_unit(s, u);
}

/* Of one number, or of `each` at its place. */
static dsflow_data_id sum_in_tree(struct step *s, const dsflow_data_id *in,
                                  size_t n, int64_t each)
{
    enum { FAN = 7 };
    const struct dsflow_op *op = each > 0 ? &dsf_op_sum_each : &dsf_op_sum;
    dsflow_data_id *level = dsf_xcalloc(n + 1, sizeof(*level));
    dsflow_data_id result;

    memcpy(level, in, n * sizeof(*in));
    do {
        size_t nnext = 0;

        for (size_t i = 0; i < n; i += FAN) {
            dsflow_data_id ports[FAN + 1];
            unsigned k = (unsigned)(n - i < FAN ? n - i : FAN);

            ports[0] = dsf_add_named(s->g, &DSF_DOUBLES(each > 0 ? each : 1),
                                     "sum.%u", s->nsums++);
            memcpy(ports + 1, level + i, k * sizeof(*ports));
            dsf_step_emit(s, op, NULL, -1, each == 0, k + 1, ports);
            level[nnext++] = ports[0];
        }
        n = nnext;
    } while (n > 1);
    result = level[0];
    free(level);
    return result;
}

dsflow_data_id dsf_step_sum(struct step *s, const dsflow_data_id *in, size_t n)
{
    return sum_in_tree(s, in, n, 0);
}

dsflow_data_id dsf_step_sum_each(struct step *s, const dsflow_data_id *in,
                                 size_t n, int64_t each)
{
    return sum_in_tree(s, in, n, each);
}

static struct dsf_clip_args clip_args(const struct step *s)
{
    static const enum dsf_nonfinite of_key[] = {
        [DSF_STOP_RUN] = DSF_NONFINITE_STOP,
        [DSF_SKIP_STEP] = DSF_NONFINITE_SKIP,
    };
    const struct dsf_job *job = s->plan->job;

    return (struct dsf_clip_args){
        /* Momenta are of gradients that are within it. */
        .limit = s->coded ? 0 : job->optimizer.clip,
        .nonfinite =
            waits(s) ? of_key[job->train.on_nonfinite] : DSF_NONFINITE_KEEP,
        .unscaled = s->coded,
        .scale = s->scale,
    };
}

void dsf_step_end_update(struct step *s, dsflow_data_id loss)
{
    struct dsf_clip_args clip = clip_args(s);
    unsigned n = s->model->nunits;
    dsflow_data_id *squares = dsf_xcalloc(n, sizeof(*squares));
    const bool all = s->coded && dsf_onebit_waits(s->plan->job);

    s->pass = DSFLOW_UPDATE;
    if (all)
        dsf_onebit_sum_all(s);
    for (unsigned u = 0; u < n && all; u++)
        square_unit(s, u, s->units[u].grad.of[0]);
    for (unsigned u = 0; u < n; u++)
        squares[u] = s->units[u].square;
    EMIT_SCALED(s, &dsf_op_clip, &clip,
                dsf_zeroone_is_local(s) ? dsf_zeroone_squares(s)
                                        : dsf_step_sum(s, squares, n),
                loss, s->control);
    /* Last come those that the next step needs last. */
    for (unsigned u = 0; u < n && (all || waits(s)); u++)
        update_unit(s, u);
    if (s->freezing)
        dsf_lamb_freeze(s);
    free(squares);
}

void dsf_step_report(struct step *s, dsflow_data_id loss)
{
    EMIT_SCALED(s, &dsf_op_report, NULL, s->control, loss, s->cursor);
    EMIT(s, &dsf_op_finish, NULL, -1, 0, s->control);
}
