/* reference_onebit.c - steps of 1-bit Adam and LAMB whose second moments are
 * frozen: each group's momentum is coded as if it were sent, and what all have
 * of their mean from then on is coded, too, chunk by chunk. reference_lamb.c
 * has what is LAMB's alone.
 */
#include "policies/reference_private.h"

#include "base/alloc.h"
#include "policies/onebit.h"
#include "tasks/lamb.h"

#include <dsflow/rewrite.h>

#include <stdlib.h>

enum { MOMENTUM, SECOND };

/* The momentum of each group, in the place of its gradient: a task of its last
 * micro-batch, so that it stands where the gradient does. */
static void feed(struct step *s, unsigned u)
{
    enum { ERROR = 3 };
    const bool lamb = dsf_onebit_lamb_keys(s->plan->job) != NULL;
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const struct dsf_momentum_args args = {
        .coding = dsf_onebit_coding_of(s, u),
        .elems = unit->elems,
        .groups = dsf_plan_sums(s->plan),
        .beta1 = s->plan->job->optimizer.betas[0]
    };

    for (int32_t i = 0; i < dsf_plan_sums(s->plan); i++) {
        dsflow_data_id ports[] = {
            s->control, d->grad.of[i], d->states[MOMENTUM],
            d->grad.errors != NULL ? d->grad.errors[i] : dsf_no_data(), d->lamb
        };
        const bool coded = d->grad.errors != NULL;

        dsf_step_stand_at_group(s, i);
        dsf_step_emit_without(s, &dsf_op_feed_momentum, &args, unit->layer,
                              coded ? 0 : 1u << ERROR,
                              ERROR + coded + (coded && lamb), ports);
    }
    dsf_step_stand_aside(s);
}

struct dsf_coding dsf_onebit_coding_of(const struct step *s, unsigned u)
{
    return dsf_onebit_coding(s->plan->job, s->model, &s->model->units[u]);
}

/* Each data rank has a shard of it. */
void dsf_onebit_send(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct gradients *g = &s->units[u].grad;
    const struct dsf_add_recoded_args args = {
        .coding = dsf_onebit_coding_of(s, u), .elems = unit->elems, .shards = 1
    };

    if (args.coding.ntensors > 0)
        dsf_step_emit(s, &dsf_op_add_recoded, &args, unit->layer, 0,
                      (unsigned)dsf_plan_sums(s->plan), g->of);
    else
        dsf_step_add(s, u, g->of[0], g->of + 1, dsf_plan_sums(s->plan) - 1,
                     false);
}

/* Of the gradient of a group, block by block. */
static dsflow_data_id squares_of(struct step *s, unsigned u, int32_t group)
{
    const struct dsf_unit *unit = &s->model->units[u];

    return dsflow_rewrite_named(s->g, &DSF_DOUBLES(unit->elems / unit->block),
                                "square.g%d.%s", (int)group, unit->name);
}

void dsf_onebit_square_groups(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    const struct dsf_square_args args = { unit->elems, 0 };

    for (int32_t i = 0; i < dsf_plan_sums(s->plan); i++) {
        dsf_step_stand_at_group(s, i);
        EMIT(s, &dsf_op_square, &args, unit->layer, 0, s->units[u].grad.of[i],
             squares_of(s, u, i));
    }
    dsf_step_stand_aside(s);
}

dsflow_data_id dsf_onebit_norm2(struct step *s, int32_t group)
{
    const unsigned n = s->model->nunits;
    dsflow_data_id *squares = dsf_xcalloc(n, sizeof(*squares)), norm2;

    for (unsigned u = 0; u < n; u++)
        squares[u] = squares_of(s, u, group);
    dsf_step_stand_at_group(s, group);
    norm2 = dsf_step_sum(s, squares, n);
    dsf_step_stand_aside(s);
    free(squares);
    return norm2;
}

/* Each group by the norm of its own gradient, as of that of all nobody has one.
 */
static void clip_groups(struct step *s)
{

    for (int32_t i = 0; i < dsf_plan_sums(s->plan); i++) {
        const dsflow_data_id norm2 = dsf_onebit_norm2(s, i);

        dsf_step_stand_at_group(s, i);
        for (unsigned u = 0; u < s->model->nunits; u++) {
            const struct dsf_unit *unit = &s->model->units[u];
            const struct dsf_clip_group_args args = {
                .elems = unit->elems,
                .groups = dsf_plan_sums(s->plan),
                .limit = s->plan->job->optimizer.clip
            };

            EMIT(s, &dsf_op_clip_group, &args, unit->layer, 0, s->control,
                 s->units[u].grad.of[i], norm2);
        }
    }
    dsf_step_stand_aside(s);
}

void dsf_onebit_complete(struct step *s, unsigned u)
{
    struct unit_data *d = &s->units[u];

    s->pass = DSFLOW_UPDATE;
    for (int32_t i = 0; i < dsf_plan_sums(s->plan) && d->tied.of != NULL; i++)
        dsf_step_add(s, u, d->grad.of[i], &d->tied.of[i], 1, false);
    for (int32_t i = 0; i < dsf_plan_sums(s->plan); i++) {
        d->grad.begun[i] = false;
        if (d->tied.of != NULL)
            d->tied.begun[i] = false;
    }
    if (s->plan->job->optimizer.clip > 0)
        dsf_onebit_square_groups(s, u);
}

void dsf_onebit_sum(struct step *s, unsigned u)
{
    dsf_onebit_complete(s, u);
    feed(s, u);
    dsf_onebit_send(s, u);
}

void dsf_onebit_sum_all(struct step *s)
{
    const bool lamb = dsf_onebit_lamb_keys(s->plan->job) != NULL;

    if (s->plan->job->optimizer.clip > 0)
        clip_groups(s);
    for (unsigned u = 0; u < s->model->nunits; u++)
        feed(s, u);
    if (lamb)
        dsf_lamb_send_all(s);
    for (unsigned u = 0; u < s->model->nunits; u++)
        dsf_onebit_send(s, u);
    if (lamb)
        dsf_lamb_find_scales(s);
}

dsflow_data_id dsf_onebit_scales(struct step *s, unsigned u,
                                 const struct dsf_chunk_args *args)
{
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const struct dsf_chunk_scales_args scale = { args->coding, args->groups };
    const dsflow_data_id sums = dsflow_rewrite_named(
        s->g, &DSF_DOUBLES(unit->elems / args->coding.block), "chunks.%s",
        unit->name);
    const dsflow_data_id scales = dsflow_rewrite_named(
        s->g, &DSF_DOUBLES(args->coding.ntensors * args->groups), "scales.%s",
        unit->name);

    EMIT(s, &dsf_op_chunk_squares, args, unit->layer, 0, d->grad.of[0],
         d->server, sums);
    EMIT(s, &dsf_op_chunk_scales, &scale, unit->layer, 0, scales, sums);
    return scales;
}

/* m, from the mean. */
static void serve(struct step *s, unsigned u)
{
    enum { SCALES = 2, SERVER = 3 };
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const struct dsf_chunk_args args = { .coding = dsf_onebit_coding_of(s, u),
                                         .elems = unit->elems,
                                         .groups = dsf_plan_sums(s->plan) };
    dsflow_data_id scales;

    if (args.coding.ntensors == 0) {
        dsf_step_emit_without(s, &dsf_op_serve, &args, unit->layer,
                              1u << SCALES | 1u << SERVER, 3,
                              (dsflow_data_id[]){ s->control, d->grad.of[0],
                                                  d->states[MOMENTUM] });
        return;
    }
    scales = dsf_onebit_scales(s, u, &args);
    EMIT(s, &dsf_op_serve, &args, unit->layer, 0, s->control, d->grad.of[0],
         scales, d->server, d->states[MOMENTUM]);
}

/* p -= lr (m / (sqrt(v) + eps) + decay p): as LAMB has it, in 1-bit Adam with
 * no ratio. */
void dsf_onebit_update(struct step *s, unsigned u, struct dsf_update_args *args)
{
    enum { RATIO = 1 };
    const struct unit_data *d = &s->units[u];
    const struct dsf_unit *unit = &s->model->units[u];
    dsflow_data_id ratio;

    if (dsf_onebit_lamb_keys(s->plan->job) != NULL) {
        ratio = dsf_lamb_serve(s, u, args);
        EMIT(s, &dsf_op_lamb, args, unit->layer, 0, s->control, ratio, d->param,
             d->states[MOMENTUM], d->states[SECOND]);
        return;
    }
    serve(s, u);
    args->width = (int32_t)dsf_lamb_width(args->at.ntensors);
    dsf_step_emit_without(s, &dsf_op_lamb, args, unit->layer, 1u << RATIO, 4,
                          (dsflow_data_id[]){ s->control, d->param,
                                              d->states[MOMENTUM],
                                              d->states[SECOND] });
}
