/* reference_data.c - the data of a step: units, counters, and what segments
 * leave for each other, in rings.
 *
 * Activations stand in a ring of as many micro-steps as the stage of their
 * layer keeps (plan->activation_slots), gradients of activations in one of
 * plan->grad_slots by plan->depth layers, logits in one of plan->logits tiles.
 * Where the head works on slices of tiles, what it reads and leaves of them
 * stands in two buffers by turns.
 * A slot is written again when its last reader is done, and that is all that
 * holds the step back. What stands in a slot is made when a port first asks for
 * it.
 */
#include "policies/compress.h"
#include "policies/onebit.h"
#include "policies/keys.h"
#include "policies/reference_private.h"

#include "base/alloc.h"
#include "plan/key_tiles.h"
#include "plan/sight.h"
#include "plan/stretch.h"
#include "tasks/stream.h"

#include <stdlib.h>

static void set_dims(struct dsflow_data_spec *spec, int64_t rows, int64_t cols)
{
    spec->elems = rows * cols;
    spec->ndims = 2;
    spec->dims[0] = rows;
    spec->dims[1] = cols;
}

static void add_gradients(struct step *s, struct gradients *g,
                          struct dsflow_data_spec spec,
                          enum dsf_ring_class each, enum dsf_ring_class sum,
                          const char *unit)
{
    int32_t sums = dsf_plan_sums(s->plan);

    g->of = dsf_xcalloc((size_t)sums, sizeof(*g->of));
    g->begun = dsf_xcalloc((size_t)sums, sizeof(*g->begun));
    for (int32_t i = 0; i < sums; i++) {
        spec.ring_class = dsf_ring_of_group(each, i);
        g->of[i] = dsf_add_named(s->g, &spec, "%s.%s",
                                 dsf_ring_name(spec.ring_class).s, unit);
    }
    spec.ring_class = sum;
    if (s->plan->reduce_micro)
        g->sum =
            dsf_add_named(s->g, &spec, "%s.%s", dsf_ring_name(sum).s, unit);
}

/* Of each group, or of each node. */
static dsflow_data_id *add_kept_errors(struct step *s, enum dsf_of_group what,
                                       struct dsflow_data_spec spec,
                                       const struct dsf_unit *unit)
{
    const struct dsflow_plan *plan = s->plan;
    const int32_t n = dsf_kept_count(plan, what);
    dsflow_data_id *errors = dsf_xcalloc((size_t)n, sizeof(*errors));

    for (int32_t i = 0; i < n; i++) {
        spec.kept = dsf_group_kept(plan, what, i);
        errors[i] = dsf_add_named(s->g, &spec, "%s.%s",
                                  plan->kept.v[spec.kept - 1].name, unit->name);
    }
    return errors;
}

/* What coding takes from the gradient of each group, where it is carried over,
 * and from the sum of each node, where that is coded: with one gradient of a
 * tied unit, there is one error. */
static void add_errors(struct step *s, struct unit_data *d,
                       struct dsflow_data_spec spec,
                       const struct dsf_unit *unit)
{
    const struct dsflow_plan *plan = s->plan;
    struct gradients *g = &d->grad;

    d->server = dsf_no_data();
    if (!dsf_has_errors(plan->job, plan->model, unit))
        return;
    spec.dtype = (uint8_t)dsf_error_type(plan->job);
    spec.ring_class = DSF_RING_ERROR;
    spec.persistent = 1;
    g->errors = add_kept_errors(s, DSF_OF_ERROR, spec, unit);
    if (dsf_carries_errors(plan->job) && dsf_compress_node(plan) > 0)
        g->node_errors = add_kept_errors(s, DSF_OF_NODE_ERROR, spec, unit);
    spec.kept = dsf_onebit_server(plan);
    spec.dtype = DSFLOW_FP32;
    spec.role = DSFLOW_STATES;
    if (spec.kept != 0)
        d->server = dsf_add_named(s->g, &spec, "%s.%s",
                                  plan->kept.v[spec.kept - 1].name, unit->name);
}

/* What 1-bit LAMB has beside the states of LAMB. */
static void add_lamb(struct step *s, struct unit_data *d,
                     struct dsflow_data_spec spec, const struct dsf_unit *unit)
{
    const struct dsflow_kept *kept = s->plan->kept.v;
    const struct dsf_coding coding =
        dsf_onebit_coding(s->plan->job, s->model, unit);

    spec.kept = dsf_onebit_fresh(s->plan);
    if (spec.kept == 0)
        return;
    spec.role = DSFLOW_STATES;
    spec.persistent = 1;
    d->fresh = dsf_add_named(s->g, &spec, "%s.%s", kept[spec.kept - 1].name,
                             unit->name);
    spec.kept = dsf_onebit_lamb(s->plan);
    spec.role = DSFLOW_BUFFERS;
    spec.dtype = DSFLOW_FP64;
    spec.elems = spec.block = dsf_kept_elems(&kept[spec.kept - 1]);
    d->lamb = dsf_add_named(s->g, &spec, "%s.%s", kept[spec.kept - 1].name,
                            unit->name);
    d->coded_before = s->ncoded;
    for (int64_t i = 0; i < coding.ntensors; i++)
        s->ncoded += coding.tensors[i].elems;
    s->ncoded_tensors += coding.ntensors;
}

/* Has the unit tensors that the optimizer needs whole? */
static bool is_whole(const struct step *s, const struct dsf_unit *unit)
{
    bool matrix = false;

    for (unsigned i = 0; i < unit->ntensors; i++)
        matrix |= !unit->tensors[i].vector && unit->matrices == DSFLOW_MATRIX;
    return s->optimizer->whole == DSFLOW_WHOLE_TENSORS ||
           (s->optimizer->whole == DSFLOW_WHOLE_MATRICES && matrix);
}

static void add_unit(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct unit_data *d = &s->units[u];
    struct dsflow_data_spec grad =
        DSFLOW_DATA(.elems = unit->elems, .dtype = DSFLOW_FP32,
                    .role = DSFLOW_GRADS, .home = DSFLOW_ANYWHERE,
                    .unit = (int32_t)u,
                    /* One block is never cut. */
                    .block = is_whole(s, unit) ? unit->elems : unit->block);
    struct dsflow_data_spec param = grad, state;

    param.role = DSFLOW_PARAMS;
    param.persistent = 1;
    state = param;
    state.role = DSFLOW_STATES;
    param.kept = 1 + DSF_KEPT_PARAM;
    d->param = dsf_add_named(s->g, &param, "%s", unit->name);
    d->states = dsf_xcalloc(s->nstates + 1, sizeof(*d->states));
    for (unsigned i = 0; i < s->nstates; i++) {
        const int64_t from = dsf_reference_state_from(unit, s->optimizer, i);

        d->states[i] = dsf_no_data();
        if (from == unit->elems)
            continue;
        state.at = from;
        state.elems = unit->elems - from;
        state.block = from > 0 ? state.elems : param.block;
        state.kept = (uint16_t)(1 + DSF_KEPT_STATE + i);
        state.stream = dsf_state_stream(s->plan->job->main.seed,
                                        s->optimizer->states[i], (int32_t)u, 0);
        d->states[i] = dsf_add_named(s->g, &state, "%s.%s",
                                     s->optimizer->states[i], unit->name);
    }
    add_gradients(s, &d->grad, grad, DSF_RING_GRAD, DSF_RING_SUM, unit->name);
    if (s->model->tied && u == 0)
        add_gradients(s, &d->tied, grad, DSF_RING_TIED, DSF_RING_TIED_SUM,
                      unit->name);
    add_errors(s, d, grad, unit);
    add_lamb(s, d, grad, unit);
    dsf_zeroone_add_data(s, u, &grad);
}

/* --- what segments leave for each other ---------------------------------- */

struct dsflow_site dsf_step_site(const struct step *s, int l,
                                 const struct dsflow_segment *segment, int t,
                                 int k)
{
    const struct dsflow_plan *plan = s->plan;
    const struct dsf_tile_rows *tile = &plan->tiles[t];
    const struct dsf_key_buffer keys = dsf_plan_key_buffer(plan, k);
    const bool diagonal = keys.first == dsf_plan_key_tile(plan, t);
    const bool alone = keys.each == 0;
    const int32_t at = diagonal ? tile->pos - plan->tiles[keys.first].pos : 0;
    struct dsflow_site site = {
        .tile = dsf_model_tile(s->model, l),
        .parts = 1,
        .tokens = (double)plan->nmicro * plan->micro * plan->sequence,
        .keys = alone      ? plan->tiles[k].rows
                : diagonal ? at + tile->rows
                           : keys.rows,
        .diagonal = diagonal,
        .first_keys = dsf_plan_sees_first(plan, l, segment, t, k),
        .last_queries = dsf_plan_sees_last(plan, l, segment, t, k),
        .key_pos = plan->tiles[keys.first].pos,
        .key_tile = keys.each,
        .kv_rows = alone ? 0 : keys.rows,
        .kv_at = at,
        .window = dsf_model_layer(s->model, l)->dims.window,
    };
    int32_t number;

    site.layout = dsf_plan_layout_of(plan, l, &number);

    site.tile.rows = tile->rows;
    site.tile.nseq = tile->nseq;
    site.tile.pos = tile->pos;
    site.padding = site.tile.vocab - s->model->dims.vocab;
    site.columns = plan->head_columns;
    for (unsigned u = 0; dsf_segment_unit(segment, u) != NULL; u++)
        site.at[u] =
            s->model->units[dsf_model_unit(s->model, l, segment, u)].at;
    return site;
}

static bool has_segment(const struct step *s, int l,
                        const struct dsflow_segment *segment)
{
    const struct dsflow_segment *const *segments = dsf_step_segments(s, l);

    while (*segments != NULL && *segments != segment)
        segments++;
    return *segments != NULL;
}

/* The most that layers `first`, `first` + `step`, … have of tile `t` on the
 * port that data of the class `ring` is made for. */
static struct dsflow_need most_needed(const struct step *s, int32_t ring,
                                      int first, int step, int t)
{
    const struct dsflow_segment *segment = dsf_ring_segment(ring);
    struct dsflow_need most = { .rows = 0 };

    for (int l = first; l == first || l < s->model->layers; l += step) {
        struct dsflow_site site;
        struct dsflow_need need;

        if (!has_segment(s, l, segment))
            continue;
        site = dsf_step_site(s, l, segment, t, t);
        need = dsf_segment_need(segment, &site, dsf_ring_port(ring));
        if (need.rows * need.cols > most.rows * most.cols)
            most = need;
    }
    return most;
}

/* Where the head works on slices, the stream of a slice and its gradient stand
 * behind those of all layers. So does the gradient of a tile, into which copies
 * put those of its slices: whoever uses a buffer that something copies to waits
 * for the end of tasks, and not for their launch. */
enum { SLICE_SLOTS = 2 };

static int32_t slice_level(const struct step *s)
{
    return s->model->layers + 1;
}

static int32_t sliced_level(const struct step *s)
{
    return s->model->layers + 2;
}

static int32_t gradient_level(const struct step *s, enum dsflow_from from,
                              int l)
{
    if (from == DSFLOW_FROM_BRIEF)
        return -1;
    return from == DSFLOW_FROM_DIN && s->plan->nslices > 0 &&
                   l == s->model->layers
               ? sliced_level(s)
               : l % s->plan->depth;
}

/* Where a piece of data stands among those of its class. */
struct spot {
    int32_t ring;              /* the class */
    int32_t level, slot, tile; /* level, tile: -1 where there is but one */
};

static struct spot spot_of(const struct step *s, enum dsflow_from from,
                           int32_t ring, int l, int t)
{
    const struct dsflow_plan *plan = s->plan;
    int32_t chunk = dsflow_plan_chunk_of(plan, l), m = s->micro_step;
    int32_t slots = plan->activation_slots[chunk];
    const struct dsf_head_tiles heads = dsf_plan_head_tiles(plan);

    if (t >= plan->ntiles &&
        (from == DSFLOW_FROM_IN || from == DSFLOW_FROM_DIN))
        return (struct spot){ ring, slice_level(s), t % SLICE_SLOTS, -1 };
    switch (from) {
    case DSFLOW_FROM_IN:
        /* What comes from another stage may be under way while all slots are
         * in use. */
        if (dsflow_plan_stage_of(plan, l) !=
                dsflow_plan_stage_of(plan, l - 1) &&
            slots < plan->micro_steps)
            slots++;
        return (struct spot){ ring, l, m % slots, t };
    case DSFLOW_FROM_KEPT:
        return (struct spot){ ring, l, m % slots, t };
    case DSFLOW_FROM_BATCH:
        return (struct spot){ ring, -1, m % slots, t };
    case DSFLOW_FROM_LOGITS:
        return (struct spot){ ring, -1,
                              (m * heads.n + t - heads.first) % plan->logits,
                              -1 };
    default: /* gradients: each chunk of a stage has slots of its own, as they
                take turns in another order than the micro-batches */
        return (struct spot){ ring, gradient_level(s, from, l),
                              chunk / plan->nstages * s->ngrad_slots +
                                  m % plan->grad_slots[chunk],
                              t };
    }
}

/* The data at `at`, made for layer `l`; what other layers put there fits, too.
 */
static dsflow_data_id make(struct step *s, enum dsflow_from from, int l,
                           const struct spot *at)
{
    const struct dsflow_plan *plan = s->plan;
    int32_t chunk = dsflow_plan_chunk_of(plan, l), layers = s->model->layers;
    struct dsflow_data_spec spec = DSF_BUFFER(.ring_class = at->ring);
    char level[16] = "", tile[16] = "";
    const bool slice = at->level == slice_level(s);
    struct dsflow_need need;

    if (from == DSFLOW_FROM_IN || from == DSFLOW_FROM_DIN)
        need =
            dsf_matrix((size_t)plan->tiles[slice ? s->largest : at->tile].rows,
                       (size_t)s->model->dims.width);
    else if (from == DSFLOW_FROM_BATCH)
        need = (struct dsflow_need){ 2, plan->tiles[at->tile].rows,
                                     DSFLOW_INT32 };
    else if (from == DSFLOW_FROM_BRIEF)
        need = most_needed(s, at->ring, 0, 1, at->tile);
    else if (from == DSFLOW_FROM_PASSING)
        need = most_needed(s, at->ring, at->level, plan->depth, at->tile);
    else
        need = most_needed(s, at->ring, l, layers + 1,
                           at->tile < 0 ? s->largest : at->tile);
    set_dims(&spec, need.rows, need.cols);
    spec.dtype = (uint8_t)need.dtype;
    if (from != DSFLOW_FROM_BATCH && !slice)
        spec.role = DSFLOW_ACTIVATIONS;
    /* Gradient slots are as many as activation slots, or as workers. */
    if (from == DSFLOW_FROM_DIN || from == DSFLOW_FROM_PASSING ||
        from == DSFLOW_FROM_BRIEF)
        chunk -= chunk % plan->nstages;
    spec.ring = from == DSFLOW_FROM_LOGITS || slice
                    ? "machine.workers"
                    : dsf_plan_ring(plan, chunk);
    if (slice)
        snprintf(level, sizeof(level), ".slice");
    else if (at->level == sliced_level(s))
        snprintf(level, sizeof(level), ".head");
    else if (at->level >= 0)
        snprintf(level, sizeof(level), ".l%d", (int)at->level);
    if (at->tile >= 0)
        snprintf(tile, sizeof(tile), ".t%d", (int)at->tile);
    return dsf_add_named(s->g, &spec, "%s%s.s%d%s",
                         from == DSFLOW_FROM_BATCH ? "batch"
                                                   : dsf_ring_name(at->ring).s,
                         level, (int)at->slot, tile);
}

dsflow_data_id dsf_step_in_ring(struct step *s, enum dsflow_from from,
                                int32_t ring, int l, int t)
{
    struct spot at = spot_of(s, from, ring, l, t);
    size_t ntiles = (size_t)s->plan->ntiles + (size_t)s->plan->nslices;
    size_t row = (size_t)s->nslots * ntiles;
    uint32_t **made = &s->made[ring], *id;

    if (*made == NULL)
        *made =
            dsf_xcalloc(((size_t)s->model->layers + 4) * row, sizeof(**made));
    id = *made + (size_t)(at.level + 1) * row + (size_t)at.slot * ntiles +
         (at.tile < 0 ? 0 : at.tile);
    if (*id == 0)
        *id = make(s, from, l, &at).i + 1;
    return (dsflow_data_id){ *id - 1 };
}

/* --- all of it ----------------------------------------------------------- */

/* Constants, which know by their `part` which layout they are. */
static void add_layouts(struct step *s)
{
    const struct dsf_attention_layout *layout;

    for (int32_t i = 0; (layout = dsf_plan_layout_at(s->plan, i)) != NULL;
         i++) {
        const struct dsflow_need need =
            dsf_layout_need(layout->heads, layout->blocks);
        struct dsflow_data_spec spec =
            DSF_BUFFER(.dtype = DSFLOW_INT64, .persistent = 1, .constant = 1,
                       .part = i);

        set_dims(&spec, need.rows, need.cols);
        s->layouts =
            dsf_xrealloc(s->layouts, (size_t)i + 1, sizeof(*s->layouts));
        s->layouts[i] = dsf_add_named(s->g, &spec, "layout%d", (int)i);
    }
}

static dsflow_data_id add_counter(struct step *s, const char *name,
                                  uint16_t kept, enum dsflow_dtype dtype,
                                  int64_t elems)
{
    return dsflow_graph_add_data(
        s->g, &DSF_BUFFER(.name = name, .dtype = (uint8_t)dtype, .elems = elems,
                          .persistent = 1, .kept = (uint16_t)(1 + kept)));
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

void dsf_step_add_data(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    const struct dsf_dims *dims = &s->model->dims;
    const struct dsf_head_tiles heads = dsf_plan_head_tiles(plan);
    struct dsflow_data_spec rope =
        DSF_BUFFER(.name = "rope", .dtype = DSFLOW_FP32, .persistent = 1,
                   .constant = 1);

    s->cursor =
        add_counter(s, "cursor", DSF_KEPT_CURSOR, DSFLOW_INT64, DSF_CURSOR);
    s->eval_cursor = add_counter(s, "eval_cursor", DSF_KEPT_EVAL_CURSOR,
                                 DSFLOW_INT64, DSF_CURSOR);
    s->control = add_counter(s, "control", DSF_KEPT_CONTROL, DSFLOW_BYTES,
                             sizeof(struct dsflow_control));
    s->scale = dsf_reference_loss_scale(plan->job);
    if (dsf_is_scaled(&s->scale))
        s->scaler = add_counter(
            s, DSF_KEPT_SCALER,
            (uint16_t)(dsflow_plan_kept(plan, DSF_KEPT_SCALER) - 1),
            DSFLOW_BYTES, sizeof(struct dsf_scaler));
    set_dims(&rope, dims->context, dims->head_dim);
    if (dims->rope)
        s->rope = dsflow_graph_add_data(s->g, &rope);
    add_layouts(s);
    s->units = dsf_xcalloc(s->model->nunits, sizeof(*s->units));
    for (unsigned u = 0; u < s->model->nunits; u++)
        add_unit(s, u);
    s->largest = heads.first;
    for (int t = heads.first; t < heads.first + heads.n; t++)
        if (plan->tiles[t].rows > plan->tiles[s->largest].rows)
            s->largest = t;
    s->nslots = larger(plan->logits, SLICE_SLOTS);
    for (int c = 0; c < plan->nchunks; c++) {
        s->nslots = larger(s->nslots, plan->activation_slots[c] + 1);
        s->ngrad_slots = larger(s->ngrad_slots, plan->grad_slots[c]);
    }
    s->nslots =
        larger(s->nslots, plan->nchunks / plan->nstages * s->ngrad_slots);
}

void dsf_step_free(struct step *s)
{
    for (unsigned u = 0; u < s->model->nunits; u++) {
        free(s->units[u].states);
        free(s->units[u].grad.of);
        free(s->units[u].grad.begun);
        free(s->units[u].grad.errors);
        free(s->units[u].grad.node_errors);
        free(s->units[u].tied.of);
        free(s->units[u].tied.begun);
        dsf_zeroone_free_data(&s->units[u]);
    }
    for (int32_t ring = 0; ring < DSF_NRINGS; ring++)
        free(s->made[ring]);
    free(s->units);
    free(s->layouts);
    dsf_step_end_key_sums(s);
}
