/* reference.c - the step with no policy: plain loops over micro-batches, layers
 * and tiles. What every other policy rewrites, and is compared with.
 *
 * The order of the tasks is the order in which micro-batches are worked through
 * on each data rank, the data ranks side by side, so that a unit of parameters
 * is used by all of them before the next. On one rank that is one micro-batch
 * after the other. (With order = "layer_major", one wave has all micro-steps.)
 */
#include "policies/reference_private.h"

#include "base/alloc.h"
#include "policies/onebit.h"
#include "policies/zeroone.h"
#include "plan/key_tiles.h"
#include "plan/programs.h"
#include "plan/sight.h"

#include <dsflow/rewrite.h>

#include <stdlib.h>

/* Stand at `micro_step` of data rank `d`. */
static void stand_at(struct step *s, int32_t d, int32_t micro_step)
{
    s->micro_step = micro_step;
    s->m = dsf_plan_micro(s->plan, d, micro_step);
}

/* Is there a task of a segment for tile or slice `t` and the buffer of keys of
 * tile `k`? */
static bool sees(const struct step *s, int l,
                 const struct dsflow_segment *segment, int t, int k)
{
    return k == dsf_plan_key_tile(s->plan, t) ||
           dsf_plan_sees(s->plan, l, segment, t, k);
}

/* The tasks of a segment, forward and back; where one does all of the second,
 * `weight` is NULL. */
struct ops {
    const struct dsflow_op *forward, *input, *weight;
};
static struct ops ops_of(const struct step *s,
                         const struct dsflow_segment *segment)
{
    const struct dsf_segment_hooks *hooks = segment->hooks;

    if (s->plan->head_columns > 0 && hooks != NULL &&
        hooks->forward_columns != NULL)
        return s->plan->head_apart
                   ? (struct ops){ hooks->forward_columns, hooks->input_columns,
                                   hooks->weight_columns }
                   : (struct ops){ hooks->forward_columns,
                                   hooks->backward_columns, NULL };
    return (struct ops){ segment->forward, segment->backward_input,
                         segment->backward_weight };
}

/* Tile or slice `t` through layer `l`. */
static void forward_layer(struct step *s, int l, int t)
{
    const struct dsflow_segment *const *segments = dsf_step_segments(s, l);

    for (unsigned i = 0; segments[i] != NULL; i++)
        for (int k = dsf_plan_first_seen(s->plan, l, segments[i], t); k <= t;
             k++)
            if (sees(s, l, segments[i], t, k))
                dsf_step_emit_segment(s, l, i, ops_of(s, segments[i]).forward,
                                      t, k);
}

static void load_rows(struct step *s, dsflow_data_id cursor, int t)
{
    const struct dsf_tile_rows *tile = &s->plan->tiles[t];
    struct dsf_load_args load = {
        .rows = tile->rows,
        .nseq = tile->nseq,
        .pos = tile->pos,
        .seq = (int64_t)s->m * s->plan->micro + tile->seq,
    };

    EMIT(s, &dsf_op_load_batch, &load, -1, 0, cursor,
         dsf_step_in_ring(s, DSFLOW_FROM_BATCH, DSF_RING_NONE, -1, t));
}

/* The text of the present tile, and that of its slices once more: it is little.
 */
static void load(struct step *s, dsflow_data_id cursor)
{
    const struct dsf_head_tiles of = dsf_plan_head_tiles_of(s->plan, s->t);

    load_rows(s, cursor, s->t);
    for (int t = of.first; t < of.first + of.n && t != s->t; t++)
        load_rows(s, cursor, t);
}

static unsigned count(const struct dsflow_segment *const *segments)
{
    unsigned n = 0;

    while (segments[n] != NULL)
        n++;
    return n;
}

/* Tile or slice `t` back through layer `l`, the last segment first. */
static void backward_tile(struct step *s, int l, int t)
{
    const struct dsflow_segment *const *segments = dsf_step_segments(s, l);

    for (unsigned i = count(segments); i-- > 0;) {
        const struct dsflow_segment *segment = segments[i];
        const struct ops ops = ops_of(s, segment);
        const int first = dsf_plan_first_seen(s->plan, l, segment, t);

        for (int k = t; k >= first && ops.input != NULL; k--)
            if (sees(s, l, segment, t, k))
                dsf_step_emit_segment(s, l, i, ops.input, t, k);
        if (ops.weight != NULL)
            dsf_step_emit_segment(s, l, i, ops.weight, t, t);
    }
}

/* Tiles backwards: the gradients of a tile's keys are complete when every later
 * piece of its sequence that sees them has been through. */
static void backward_layer(struct step *s, int l)
{
    if (dsf_step_is_together(s, l)) {
        dsf_step_backward_together(s, l);
        return;
    }
    for (s->t = s->plan->ntiles - 1; s->t >= 0; s->t--)
        backward_tile(s, l, s->t);
}

/* Turns that go through a layer together. */
struct wave {
    int32_t first, end;
};

/* The units of layer `l`, those of its last segment first. What a tied head
 * adds to the embedding is complete with the head. */
static void each_unit(struct step *s, int l,
                      void (*what)(struct step *s, unsigned u))
{
    const struct dsflow_segment *const *segments = dsf_step_segments(s, l);
    unsigned n = count(segments);

    dsf_step_stand_aside(s);
    if (l == s->model->layers && s->model->tied &&
        what == dsf_step_complete_round)
        dsf_step_complete_round_tied(s, 0);
    while (n-- > 0)
        for (unsigned i = 0; dsf_segment_unit(segments[n], i) != NULL; i++) {
            unsigned u = dsf_model_unit(s->model, l, segments[n], i);

            if (s->model->units[u].segment == segments[n])
                what(s, u);
        }
}

/* A range of the stream of a tile, and of a slice that begins at its row `row`.
 */
static struct dsf_range slice_range(const struct step *s, int t, int64_t row,
                                    bool back)
{
    const int64_t width = s->model->dims.width;

    return (struct dsf_range){
        .elems = s->plan->tiles[t].rows * width,
        .at = back ? row * width : 0,
        .from = back ? 0 : row * width,
    };
}

/* What enters slice `t` from the present tile. */
static void enter_slice(struct step *s, int t, int64_t row)
{
    const int l = s->model->layers;
    const struct dsf_range range = slice_range(s, t, row, false);

    EMIT(s, &dsf_op_copy, &range, l, 1,
         dsf_step_in_ring(s, DSFLOW_FROM_IN, DSF_RING_X, l, t),
         dsf_step_in_ring(s, DSFLOW_FROM_IN, DSF_RING_X, l, s->t));
}

/* The gradient that leaves it. */
static void leave_slice(struct step *s, int t, int64_t row)
{
    const int l = s->model->layers;
    const struct dsf_range range = slice_range(s, t, row, true);

    EMIT(s, &dsf_op_copy, &range, l, row == 0,
         dsf_step_in_ring(s, DSFLOW_FROM_DIN, DSF_RING_DX, l, s->t),
         dsf_step_in_ring(s, DSFLOW_FROM_DIN, DSF_RING_DX, l, t));
}

/* The present tile through the head and, where that is asked for, back: in
 * slices, one after the other, so that no more logits are there at a time. Each
 * leaves a loss; `losses` are those of all micro-batches. */
static void head_tile(struct step *s, dsflow_data_id *losses, bool back)
{
    const struct dsf_head_tiles all = dsf_plan_head_tiles(s->plan);
    const struct dsf_head_tiles of = dsf_plan_head_tiles_of(s->plan, s->t);
    int64_t row = 0;

    for (int t = of.first; t < of.first + of.n; t++) {
        const int32_t i = t - all.first;

        s->loss =
            back ? dsflow_rewrite_named(s->g, &DSF_DOUBLES(1), "loss.m%d.t%d",
                                        s->m, i)
                 : dsf_add_named(s->g, &DSF_DOUBLES(1), "eval_loss.t%d", i);
        losses[s->m * all.n + i] = s->loss;
        s->pass = DSFLOW_FORWARD;
        if (t != s->t)
            enter_slice(s, t, row);
        forward_layer(s, s->model->layers, t);
        if (back) {
            s->pass = DSFLOW_BACKWARD;
            backward_tile(s, s->model->layers, t);
            if (t != s->t)
                leave_slice(s, t, row);
        }
        row += s->plan->tiles[t].rows;
    }
}

static void head_turn(struct step *s, dsflow_data_id *losses)
{
    for (s->t = 0; s->t < s->plan->ntiles; s->t++)
        head_tile(s, losses, true);
}

/* A round ends when every group has had one micro-batch more. */
static bool ends_round(const struct step *s, int32_t micro_step)
{
    const struct dsflow_plan *plan = s->plan;

    return (micro_step + 1) % (plan->groups / plan->nreplicas) == 0;
}

/* Layer `l` backwards, `layers` being the head, whose tasks stand already. */
static void backward_wave(struct step *s, struct wave wave, int l,
                          dsflow_data_id *losses)
{
    for (int32_t micro_step = wave.first; micro_step < wave.end; micro_step++) {
        for (int32_t d = 0; d < s->plan->nreplicas; d++) {
            stand_at(s, d, micro_step);
            s->pass = DSFLOW_BACKWARD;
            if (l == s->model->layers)
                head_turn(s, losses);
            else
                backward_layer(s, l);
        }
        if (ends_round(s, micro_step))
            each_unit(s, l, dsf_step_complete_round);
    }
    if (wave.end == s->plan->micro_steps)
        each_unit(s, l, dsf_step_complete);
}

/* All tiles of the micro-batch through layer `l`. */
static void forward_tiles(struct step *s, int l, dsflow_data_id cursor)
{
    const bool whole = l >= 0 && dsf_step_is_together(s, l);

    for (s->t = 0; s->t < s->plan->ntiles && !whole; s->t++) {
        if (l < 0)
            load(s, cursor);
        forward_layer(s, l, s->t);
    }
    if (whole)
        dsf_step_forward_together(s, l);
}

static void forward_wave(struct step *s, struct wave wave,
                         dsflow_data_id cursor)
{
    s->pass = DSFLOW_FORWARD;
    for (int l = -1; l < s->model->layers; l++)
        for (int32_t micro_step = wave.first; micro_step < wave.end;
             micro_step++)
            for (int32_t d = 0; d < s->plan->nreplicas; d++) {
                stand_at(s, d, micro_step);
                forward_tiles(s, l, cursor);
            }
}

static void train_step(struct step *s, dsflow_program program)
{
    const struct dsflow_plan *plan = s->plan;
    size_t n = (size_t)plan->nmicro * (size_t)dsf_plan_head_tiles(plan).n;
    dsflow_data_id *losses = dsf_xcalloc(n, sizeof(*losses));
    int32_t together = plan->layer_major ? plan->micro_steps : 1;
    dsflow_data_id loss;

    s->program = program;
    s->trains = true;
    s->coded = program != DSFLOW_STEP && !s->freezing &&
               s->kind == DSF_ZEROONE_VARIANCE;
    dsf_step_stand_aside(s);
    dsf_step_begin_update(s);
    if (dsf_zeroone_is_local(s))
        dsf_zeroone_begin(s);
    for (int32_t micro_step = 0; micro_step < plan->micro_steps;
         micro_step += together) {
        struct wave wave = { micro_step, micro_step + together };

        forward_wave(s, wave, s->cursor);
        for (int l = s->model->layers; l >= -1; l--)
            backward_wave(s, wave, l, losses);
    }
    dsf_step_stand_aside(s);
    s->pass = DSFLOW_UPDATE;
    EMIT(s, &dsf_op_advance, NULL, -1, 0, s->cursor);
    loss = dsf_step_sum(s, losses, n);
    dsf_step_end_update(s, loss);
    dsf_step_report(s, loss);
    free(losses);
}

/* One micro-batch of the validation text. */
static void eval_step(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    size_t n = (size_t)dsf_plan_head_tiles(plan).n;
    dsflow_data_id *losses = dsf_xcalloc(n, sizeof(*losses));

    s->program = dsflow_graph_add_program(s->g, "eval");
    s->trains = s->coded = false;
    s->kind = DSF_ZEROONE_VARIANCE;
    s->pass = DSFLOW_FORWARD;
    stand_at(s, 0, 0);
    for (int l = -1; l < s->model->layers; l++)
        forward_tiles(s, l, s->eval_cursor);
    for (s->t = 0; s->t < plan->ntiles; s->t++)
        head_tile(s, losses, false);
    dsf_step_stand_aside(s);
    s->pass = DSFLOW_UPDATE;
    EMIT(s, &dsf_op_advance, NULL, -1, 0, s->eval_cursor);
    EMIT(s, &dsf_op_report_loss, NULL, -1, 0, dsf_step_sum(s, losses, n));
    free(losses);
}

/* The kinds of step of 0/1 Adam that are not plain ones. */
static void zeroone_steps(struct step *s)
{
    static const enum dsf_zeroone_kind kinds[] = { DSF_ZEROONE_GRADIENT,
                                                   DSF_ZEROONE_LOCAL,
                                                   DSF_ZEROONE_SYNC };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        const char *name = dsf_zeroone_program(kinds[i]);

        s->kind = kinds[i];
        if (dsf_plan_runs_in_steps(s->plan, name))
            train_step(s, dsflow_graph_add_program(s->g, name));
    }
}

static int reference_rewrite(const void *part, const struct dsflow_plan *plan,
                             struct dsflow_graph *in, struct dsflow_graph *out,
                             struct dsflow_err *err)
{
    struct step s = { .plan = plan, .model = plan->model, .g = out };

    s.optimizer = dsf_job_optimizer(plan->job, err);
    if (s.optimizer == NULL || dsf_job_lr_schedule(plan->job, err) == NULL)
        return DSFLOW_EINVAL;
    s.nstates = dsf_optimizer_nstates(s.optimizer, plan->job);
    s.err = err;
    dsf_step_add_data(&s);
    train_step(&s, DSFLOW_STEP);
    eval_step(&s);
    if (dsf_onebit_keys(plan->job) != NULL)
        train_step(&s, dsflow_graph_add_program(out, DSF_ONEBIT_PROGRAM));
    s.freezing = dsf_onebit_lamb_keys(plan->job) != NULL;
    if (s.freezing)
        train_step(&s, dsflow_graph_add_program(out, DSF_ONEBIT_FREEZING));
    if (dsf_zeroone_keys(plan->job) != NULL)
        zeroone_steps(&s);
    dsf_step_free(&s);
    return s.status;
}

static int reference_decide(void *part, struct dsflow_plan *plan,
                            struct dsflow_err *err)
{
    int status = dsf_reference_keep(plan->job, &plan->kept, err);

    if (status == DSFLOW_OK)
        status = dsf_onebit_decide(plan, err);
    return status < 0 ? status : dsf_zeroone_decide(plan, err);
}

const struct dsflow_policy dsf_policy_reference = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "reference",
    .summary = "the plain step: micro-batches, layers, tiles",
    .decide = reference_decide,
    .rewrite = reference_rewrite,
};
