/* reference_zeroone.c - steps of 0/1 Adam that are not plain ones: gradients
 * are sent in 1 bit, or workers, the groups of micro-batches, take steps of
 * their own, whose sum they send in 1 bit now and then.
 *
 * Kept are the weights that all had at the last of these, and how far each
 * worker has moved away from them: in local steps it computes with the sum,
 * which is made when a step begins.
 */
#include "policies/reference_private.h"

#include "base/alloc.h"
#include "policies/compress.h"
#include "policies/onebit.h"
#include "policies/zeroone.h"

#include <dsflow/rewrite.h>

#include <stdlib.h>

enum { MOMENTUM, SECOND };

/* --- data ----------------------------------------------------------------- */

static dsflow_data_id *of_groups(struct step *s, unsigned u,
                                 struct dsflow_data_spec spec,
                                 enum dsf_of_group what)
{
    const struct dsflow_plan *plan = s->plan;
    dsflow_data_id *ids = dsf_xcalloc((size_t)plan->groups, sizeof(*ids));

    for (int32_t i = 0; i < plan->groups; i++) {
        spec.kept = dsf_group_kept(plan, what, i);
        ids[i] = dsf_add_named(s->g, &spec, "%s.%s",
                               plan->kept.v[spec.kept - 1].name,
                               s->model->units[u].name);
    }
    return ids;
}

void dsf_zeroone_add_data(struct step *s, unsigned u,
                          const struct dsflow_data_spec *grad)
{
    const struct dsf_unit *unit = &s->model->units[u];
    const int32_t groups = s->plan->groups;
    struct unit_data *d = &s->units[u];
    struct dsflow_data_spec spec = *grad;

    if (dsf_zeroone_keys(s->plan->job) == NULL)
        return;
    spec.persistent = 1;
    spec.ring_class = DSF_RING_OWN;
    d->own = of_groups(s, u, spec, DSF_OF_MOMENTUM);
    spec.ring_class = DSF_RING_LOCAL;
    d->local = of_groups(s, u, spec, DSF_OF_LOCAL);
    d->weights = dsf_xcalloc((size_t)groups, sizeof(*d->weights));
    d->squares = dsf_xcalloc((size_t)groups, sizeof(*d->squares));
    for (int32_t i = 0; i < groups; i++) {
        d->weights[i] = dsf_add_named(
            s->g, &DSF_BUFFER(.dtype = DSFLOW_FP32, .elems = unit->elems),
            "weights%d.%s", (int)i, unit->name);
        d->squares[i] =
            dsf_add_named(s->g, &DSF_DOUBLES(unit->elems / unit->block),
                          "square%d.%s", (int)i, unit->name);
    }
}

void dsf_zeroone_free_data(struct unit_data *d)
{
    free(d->own);
    free(d->local);
    free(d->weights);
    free(d->squares);
}

dsflow_data_id dsf_zeroone_weights(const struct step *s, unsigned u)
{
    const struct unit_data *d = &s->units[u];
    const int32_t each = s->plan->nmicro / s->plan->groups;

    return dsf_zeroone_is_local(s) ? d->weights[s->m / each] : d->param;
}

/* --- tasks ---------------------------------------------------------------- */

/* What follows is a task of the last micro-batch of group `i`, and so stands on
 * its rank. */
static void stand_at_group(struct step *s, int32_t i)
{
    s->m = (i + 1) * (s->plan->nmicro / s->plan->groups) - 1;
}

static void stand_aside(struct step *s)
{
    s->m = s->t = -1;
}

static const struct dsf_zeroone_schedule *schedule_of(const struct step *s)
{
    return &dsf_zeroone_keys(s->plan->job)->schedule;
}

static struct dsf_coding coding_of(const struct step *s, unsigned u)
{
    return dsf_onebit_coding(s->plan->job, s->model, &s->model->units[u]);
}

void dsf_zeroone_begin(struct step *s)
{
    s->pass = DSFLOW_UPDATE;
    for (unsigned u = 0; u < s->model->nunits; u++) {
        const struct dsf_unit *unit = &s->model->units[u];
        const struct unit_data *d = &s->units[u];
        const struct dsf_local_args args = { .schedule = *schedule_of(s),
                                             .elems = unit->elems,
                                             .groups = s->plan->groups };

        for (int32_t i = 0; i < s->plan->groups; i++) {
            stand_at_group(s, i);
            EMIT(s, &dsf_op_local_weights, &args, unit->layer, 0, s->control,
                 d->param, d->local[i], d->weights[i]);
        }
    }
    stand_aside(s);
}

/* The gradient of each group as it is sent. */
static void feed_gradients(struct step *s, unsigned u,
                           const struct dsf_coding *coding)
{
    enum { M = 2, ERROR };
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const struct dsf_momentum_args args = {
        .coding = *coding,
        .elems = unit->elems,
        .groups = s->plan->groups,
        .last = dsf_zeroone_last_gradient(schedule_of(s)),
    };

    for (int32_t i = 0; i < s->plan->groups && d->grad.errors != NULL; i++) {
        stand_at_group(s, i);
        dsf_step_emit_without(
            s, &dsf_op_feed_momentum, &args, unit->layer, 1u << M, ERROR,
            (dsflow_data_id[]){ s->control, d->grad.of[i], d->grad.errors[i] });
    }
    stand_aside(s);
}

/* The sum of what all send, in the place of the gradient of group 0: where it
 * is coded, data ranks have shards of it. */
static void sum(struct step *s, unsigned u, const struct dsf_coding *coding)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct gradients *g = &s->units[u].grad;
    const struct dsf_add_recoded_args args = { .coding = *coding,
                                               .elems = unit->elems,
                                               .shards = 1 };

    if (coding->ntensors > 0)
        dsf_step_emit(s, &dsf_op_add_recoded, &args, unit->layer, 0,
                      (unsigned)s->plan->groups, g->of);
    else
        dsf_step_add(s, u, g->of[0], g->of + 1, s->plan->groups - 1, false);
}

static void square_groups(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const struct dsf_square_args square = { unit->elems, 0 };

    for (int32_t i = 0; i < s->plan->groups; i++) {
        stand_at_group(s, i);
        EMIT(s, &dsf_op_square, &square, unit->layer, 0, d->grad.of[i],
             d->squares[i]);
    }
    stand_aside(s);
}

void dsf_zeroone_sum(struct step *s, unsigned u)
{
    const struct dsf_coding coding = coding_of(s, u);
    struct unit_data *d = &s->units[u];

    s->pass = DSFLOW_UPDATE;
    for (int32_t i = 0; i < s->plan->groups; i++) {
        if (d->tied.of != NULL) {
            dsf_step_add(s, u, d->grad.of[i], &d->tied.of[i], 1, false);
            d->tied.begun[i] = false;
        }
        d->grad.begun[i] = false;
    }
    if (dsf_zeroone_is_local(s)) {
        square_groups(s, u);
        return;
    }
    feed_gradients(s, u, &coding);
    sum(s, u, &coding);
}

/* Of each group over all units, and of these. */
dsflow_data_id dsf_zeroone_squares(struct step *s)
{
    const unsigned n = s->model->nunits;
    const int32_t groups = s->plan->groups;
    dsflow_data_id *units = dsf_xcalloc(n, sizeof(*units));
    dsflow_data_id *sums = dsf_xcalloc((size_t)groups, sizeof(*sums)), all;

    for (int32_t i = 0; i < groups; i++) {
        for (unsigned u = 0; u < n; u++)
            units[u] = s->units[u].squares[i];
        stand_at_group(s, i);
        sums[i] = dsf_step_sum(s, units, n);
    }
    stand_aside(s);
    all = dsf_step_sum(s, sums, (size_t)groups);
    free(units);
    free(sums);
    return all;
}

/* --- updates -------------------------------------------------------------- */

/* What all have of the mean, in its place. */
static void serve(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const int64_t groups = s->plan->groups;
    const struct dsf_chunk_args args = {
        .coding = coding_of(s, u),
        .elems = unit->elems,
        .groups = groups,
        .last = s->kind == DSF_ZEROONE_GRADIENT
                    ? dsf_zeroone_last_gradient(schedule_of(s))
                    : 0,
    };
    const struct dsf_chunk_scales_args scale = { args.coding, groups };
    dsflow_data_id sums, scales;

    if (args.coding.ntensors == 0)
        return;
    sums = dsflow_rewrite_named(s->g,
                                &DSF_DOUBLES(unit->elems / args.coding.block),
                                "chunks.%s", unit->name);
    scales =
        dsflow_rewrite_named(s->g, &DSF_DOUBLES(args.coding.ntensors * groups),
                             "scales.%s", unit->name);
    EMIT(s, &dsf_op_chunk_squares, &args, unit->layer, 0, d->grad.of[0],
         d->server, sums);
    EMIT(s, &dsf_op_chunk_scales, &scale, unit->layer, 0, scales, sums);
    EMIT(s, &dsf_op_serve_mean, &args, unit->layer, 0, s->control,
         d->grad.of[0], scales, d->server);
}

static void hold(struct step *s, unsigned u, const struct dsf_update_args *of)
{
    const struct unit_data *d = &s->units[u];
    const struct dsf_held_args args = { .elems = of->at.elems,
                                        .decay = of->at.decay,
                                        .beta1 = of->beta1,
                                        .eps = of->eps,
                                        .weight_decay = of->weight_decay };

    EMIT(s, &dsf_op_held_update, &args, s->model->units[u].layer, 0, s->control,
         d->grad.of[0], d->param, d->states[MOMENTUM], d->states[SECOND]);
}

static void update_groups(struct step *s, unsigned u,
                          const struct dsf_update_args *of)
{
    const struct unit_data *d = &s->units[u];
    const struct dsf_local_args args = { .schedule = *schedule_of(s),
                                         .elems = of->at.elems,
                                         .decay = of->at.decay,
                                         .groups = s->plan->groups,
                                         .beta1 = of->beta1,
                                         .eps = of->eps,
                                         .weight_decay = of->weight_decay };

    for (int32_t i = 0; i < s->plan->groups; i++) {
        stand_at_group(s, i);
        EMIT(s, &dsf_op_local_update, &args, s->model->units[u].layer, 0,
             s->control, d->grad.of[i], d->param, d->states[SECOND],
             d->states[MOMENTUM], d->own[i], d->local[i]);
    }
    stand_aside(s);
}

/* What each group has done, in the place of its gradient. */
static void feed_groups(struct step *s, unsigned u, float eps)
{
    enum { ERROR = 4 };
    const struct unit_data *d = &s->units[u];
    const struct dsf_unit *unit = &s->model->units[u];
    const struct dsf_feed_local_args args = { .coding = coding_of(s, u),
                                              .elems = unit->elems,
                                              .groups = s->plan->groups,
                                              .eps = (double)eps };
    const bool coded = d->grad.errors != NULL;

    for (int32_t i = 0; i < s->plan->groups; i++) {
        stand_at_group(s, i);
        dsf_step_emit_without(
            s, &dsf_op_feed_local, &args, unit->layer, coded ? 0 : 1u << ERROR,
            ERROR + coded,
            (dsflow_data_id[]){ s->control, d->local[i], d->states[SECOND],
                                d->grad.of[i],
                                coded ? d->grad.errors[i] : dsf_no_data() });
    }
    stand_aside(s);
}

static void settle(struct step *s, unsigned u, float eps)
{
    const struct unit_data *d = &s->units[u];
    const struct dsf_unit *unit = &s->model->units[u];
    const struct dsf_settle_args args = { .schedule = *schedule_of(s),
                                          .rates = dsf_step_begin_args(s),
                                          .elems = unit->elems,
                                          .eps = (double)eps };

    EMIT(s, &dsf_op_local_settle, &args, unit->layer, 0, s->control,
         d->grad.of[0], d->param, d->states[MOMENTUM], d->states[SECOND]);
}

void dsf_zeroone_update(struct step *s, unsigned u,
                        const struct dsf_update_args *args)
{
    const struct dsf_coding coding = coding_of(s, u);

    s->pass = DSFLOW_UPDATE;
    if (s->kind == DSF_ZEROONE_GRADIENT) {
        serve(s, u);
        hold(s, u, args);
        return;
    }
    update_groups(s, u, args);
    if (s->kind == DSF_ZEROONE_LOCAL)
        return;
    feed_groups(s, u, args->eps);
    sum(s, u, &coding);
    serve(s, u);
    settle(s, u, args->eps);
}
