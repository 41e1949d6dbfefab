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
    for (int32_t i = 0; i < groups; i++)
        d->weights[i] = dsf_add_named(
            s->g, &DSF_BUFFER(.dtype = DSFLOW_FP32, .elems = unit->elems),
            "weights%d.%s", (int)i, unit->name);
}

void dsf_zeroone_free_data(struct unit_data *d)
{
    free(d->own);
    free(d->local);
    free(d->weights);
}

dsflow_data_id dsf_zeroone_weights(const struct step *s, unsigned u)
{
    const struct unit_data *d = &s->units[u];
    const int32_t each = s->plan->nmicro / s->plan->groups;

    return dsf_zeroone_is_local(s) ? d->weights[s->m / each] : d->param;
}

/* --- tasks ---------------------------------------------------------------- */

static const struct dsf_zeroone_schedule *schedule_of(const struct step *s)
{
    return &dsf_zeroone_keys(s->plan->job)->schedule;
}

/* What tasks of a local step read of its number. */
static void find_step(struct step *s)
{
    const struct dsf_local_step_args args = { *schedule_of(s),
                                              dsf_step_begin_args(s) };

    s->local_step = dsflow_rewrite_named(
        s->g, &DSF_DOUBLES(DSF_ZEROONE_STEP_FIELDS), "local_step");
    EMIT(s, &dsf_op_local_step, &args, -1, 0, s->control, s->local_step);
}

void dsf_zeroone_begin(struct step *s)
{
    s->pass = DSFLOW_UPDATE;
    find_step(s);
    for (unsigned u = 0; u < s->model->nunits; u++) {
        const struct dsf_unit *unit = &s->model->units[u];
        const struct unit_data *d = &s->units[u];
        const struct dsf_local_args args = { .elems = unit->elems,
                                             .groups = s->plan->groups };

        for (int32_t i = 0; i < s->plan->groups; i++) {
            dsf_step_stand_at_group(s, i);
            EMIT(s, &dsf_op_local_weights, &args, unit->layer, 0, s->local_step,
                 d->param, d->local[i], d->weights[i]);
        }
    }
    dsf_step_stand_aside(s);
}

/* The gradient of each group as it is sent. */
static void feed_gradients(struct step *s, unsigned u)
{
    enum { M = 2, ERROR };
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const struct dsf_momentum_args args = {
        .coding = dsf_onebit_coding_of(s, u),
        .elems = unit->elems,
        .groups = s->plan->groups,
        .last = dsf_zeroone_last_gradient(schedule_of(s)),
    };

    for (int32_t i = 0; i < s->plan->groups && d->grad.errors != NULL; i++) {
        dsf_step_stand_at_group(s, i);
        dsf_step_emit_without(
            s, &dsf_op_feed_momentum, &args, unit->layer, 1u << M, ERROR,
            (dsflow_data_id[]){ s->control, d->grad.of[i], d->grad.errors[i] });
    }
    dsf_step_stand_aside(s);
}

void dsf_zeroone_sum(struct step *s, unsigned u)
{
    dsf_onebit_complete(s, u);
    if (dsf_zeroone_is_local(s)) {
        dsf_onebit_square_groups(s, u);
        return;
    }
    feed_gradients(s, u);
    dsf_onebit_send(s, u);
}

/* Of each group over all units, and of these. */
dsflow_data_id dsf_zeroone_squares(struct step *s)
{
    const size_t groups = (size_t)s->plan->groups;
    dsflow_data_id *sums = dsf_xcalloc(groups, sizeof(*sums)), all;

    for (size_t i = 0; i < groups; i++)
        sums[i] = dsf_onebit_norm2(s, (int32_t)i);
    all = dsf_step_sum(s, sums, groups);
    free(sums);
    return all;
}

/* --- updates -------------------------------------------------------------- */

/* What all have of the mean, in its place. */
static void serve(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    const struct unit_data *d = &s->units[u];
    const struct dsf_chunk_args args = {
        .coding = dsf_onebit_coding_of(s, u),
        .elems = unit->elems,
        .groups = s->plan->groups,
        .last = s->kind == DSF_ZEROONE_GRADIENT
                    ? dsf_zeroone_last_gradient(schedule_of(s))
                    : 0,
    };

    dsflow_data_id scales;

    if (args.coding.ntensors == 0)
        return;
    scales = dsf_onebit_scales(s, u, &args);
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
    const struct dsf_local_args args = { .elems = of->at.elems,
                                         .decay = of->at.decay,
                                         .groups = s->plan->groups,
                                         .beta1 = of->beta1,
                                         .eps = of->eps,
                                         .weight_decay = of->weight_decay };

    for (int32_t i = 0; i < s->plan->groups; i++) {
        dsf_step_stand_at_group(s, i);
        EMIT(s, &dsf_op_local_update, &args, s->model->units[u].layer, 0,
             s->local_step, d->grad.of[i], d->param, d->states[SECOND],
             d->states[MOMENTUM], d->own[i], d->local[i]);
    }
    dsf_step_stand_aside(s);
}

/* What each group has done, in the place of its gradient. */
static void feed_groups(struct step *s, unsigned u, float eps)
{
    enum { ERROR = 4 };
    const struct unit_data *d = &s->units[u];
    const struct dsf_unit *unit = &s->model->units[u];
    const struct dsf_feed_local_args args = { .coding =
                                                  dsf_onebit_coding_of(s, u),
                                              .elems = unit->elems,
                                              .groups = s->plan->groups,
                                              .eps = (double)eps };
    const bool coded = d->grad.errors != NULL;

    for (int32_t i = 0; i < s->plan->groups; i++) {
        dsf_step_stand_at_group(s, i);
        dsf_step_emit_without(
            s, &dsf_op_feed_local, &args, unit->layer, coded ? 0 : 1u << ERROR,
            ERROR + coded,
            (dsflow_data_id[]){ s->control, d->local[i], d->states[SECOND],
                                d->grad.of[i],
                                coded ? d->grad.errors[i] : dsf_no_data() });
    }
    dsf_step_stand_aside(s);
}

static void settle(struct step *s, unsigned u, float eps)
{
    const struct unit_data *d = &s->units[u];
    const struct dsf_unit *unit = &s->model->units[u];
    const struct dsf_settle_args args = { .elems = unit->elems,
                                          .eps = (double)eps };

    EMIT(s, &dsf_op_local_settle, &args, unit->layer, 0, s->local_step,
         d->grad.of[0], d->param, d->states[MOMENTUM], d->states[SECOND]);
}

void dsf_zeroone_update(struct step *s, unsigned u,
                        const struct dsf_update_args *args)
{
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
    dsf_onebit_send(s, u);
    serve(s, u);
    settle(s, u, args->eps);
}
