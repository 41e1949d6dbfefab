/* reference_data.c - the data of a step: units, activations in rings, counters.
 *
 * Activations stand in a ring of as many turns as the stage of their layer
 * keeps (plan->slots), gradients of activations in one of plan->lanes turns by
 * plan->depth layers, logits in one of plan->logits tiles. A slot is written
 * again when its last reader is done, and that is all that holds the step back.
 */
#include "policies/reference_private.h"

#include "base/alloc.h"
#include "tasks/stream.h"
#include "policies/ring_class.h"

#include <stdarg.h>
#include <stdlib.h>

/* Dimensions, the last one contiguous; 0: no more. */
struct dims {
    int64_t v[DSFLOW_MAX_DIMS];
};
#define DIMS(...) ((struct dims){ { __VA_ARGS__ } })

static dsflow_data_id add(struct step *s, struct dsflow_data_spec spec,
                          struct dims dims, const char *fmt, ...)
    DSFLOW_PRINTF(4, 5);

static dsflow_data_id add(struct step *s, struct dsflow_data_spec spec,
                          struct dims dims, const char *fmt, ...)
{
    char name[96];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    spec.name = name;
    spec.elems = 1;
    while (spec.ndims < DSFLOW_MAX_DIMS && dims.v[spec.ndims] > 0) {
        spec.dims[spec.ndims] = dims.v[spec.ndims];
        spec.elems *= dims.v[spec.ndims++];
    }
    /* What is flat may be cut: its dimension is how many there are. */
    spec.ndims = spec.ndims > 1 ? spec.ndims : 0;
    spec.home = DSFLOW_ANYWHERE;
    return dsflow_graph_add_data(s->g, &spec);
}

dsflow_data_id dsf_step_add_double(struct step *s, int64_t n, const char *fmt,
                                   ...)
{
    char name[96];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    return add(
        s,
        DSFLOW_DATA(.dtype = DSFLOW_FP64, .role = DSFLOW_BUFFERS, .unit = -1),
        DIMS(n), "%s", name);
}

static void add_gradients(struct step *s, struct gradients *g,
                          struct dsflow_data_spec spec, int64_t elems,
                          enum dsf_ring_class each, enum dsf_ring_class sum,
                          const char *unit)
{
    int32_t groups = s->plan->groups;

    g->of = dsf_xcalloc((size_t)groups, sizeof(*g->of));
    g->begun = dsf_xcalloc((size_t)groups, sizeof(*g->begun));
    for (int32_t i = 0; i < groups; i++) {
        spec.ring_class = dsf_ring_of_group(each, i);
        g->of[i] = add(s, spec, DIMS(elems), "%s.%s",
                       dsf_ring_name(spec.ring_class).s, unit);
    }
    spec.ring_class = sum;
    if (s->plan->reduce_micro)
        g->sum = add(s, spec, DIMS(elems), "%s.%s", dsf_ring_name(sum).s, unit);
}

static void add_unit(struct step *s, unsigned u)
{
    const struct dsf_unit *unit = &s->model->units[u];
    struct unit_data *d = &s->units[u];
    int64_t elems = unit->elems;
    struct dsflow_data_spec grad =
        DSFLOW_DATA(.dtype = DSFLOW_FP32, .role = DSFLOW_GRADS,
                    .unit = (int32_t)u,
                    /* One block is never cut. */
                    .block = s->optimizer->whole ? unit->elems : unit->block);
    struct dsflow_data_spec param = grad, state;

    param.role = DSFLOW_PARAMS;
    param.persistent = 1;
    state = param;
    state.role = DSFLOW_STATES;
    param.kept = 1 + DSF_KEPT_PARAM;
    d->param = add(s, param, DIMS(elems), "%s", unit->name);
    d->states = dsf_xcalloc(s->nstates + 1, sizeof(*d->states));
    for (unsigned i = 0; i < s->nstates; i++) {
        state.kept = (uint16_t)(1 + DSF_KEPT_STATE + i);
        state.stream = dsf_state_stream(s->plan->job->main.seed,
                                        s->optimizer->states[i], (int32_t)u, 0);
        d->states[i] = add(s, state, DIMS(elems), "%s.%s",
                           s->optimizer->states[i], unit->name);
    }
    add_gradients(s, &d->grad, grad, elems, DSF_RING_GRAD, DSF_RING_SUM,
                  unit->name);
    if (s->model->tied && unit->segment == DSF_EMBED)
        add_gradients(s, &d->tied, grad, elems, DSF_RING_TIED,
                      DSF_RING_TIED_SUM, unit->name);
}

/* The same data, of a class. */
static struct dsflow_data_spec of_class(struct dsflow_data_spec spec,
                                        enum dsf_ring_class ring)
{
    spec.ring_class = ring;
    return spec;
}

static const struct dsflow_data_spec activation =
    DSFLOW_DATA(.dtype = DSFLOW_FP32, .role = DSFLOW_ACTIVATIONS, .unit = -1);
static const struct dsflow_data_spec buffer =
    DSFLOW_DATA(.role = DSFLOW_BUFFERS, .unit = -1);

/* What a tile of `rows` has. */
struct tile_dims {
    struct dims x, q, kv, lse, stat, h, dnorm;
};

static struct tile_dims dims_of(const struct step *s, int t)
{
    const struct dsflow_tile *at = &s->shape;
    int64_t rows = s->plan->tiles[t].rows;

    return (struct tile_dims){
        .x = DIMS(rows, at->width),
        .q = DIMS(rows, at->heads * at->head_dim),
        .kv = DIMS(rows, 2, at->kv_heads * at->head_dim),
        .lse = DIMS(2, rows, at->heads),
        .stat = DIMS(rows, at->heads),
        .h = DIMS(rows, at->ffn * (at->swiglu ? 2 : 1)),
        .dnorm = DIMS(2, at->width),
    };
}

static void add_layer(struct step *s, int l)
{
    const struct dsflow_plan *plan = s->plan;
    struct dsflow_data_spec kept = activation;
    struct layer_data *d = &s->layers[l];
    int32_t n = plan->ntiles;

    kept.ring = dsf_plan_ring(plan, dsf_plan_chunk(plan, l));
    d->slots = plan->slots[dsf_plan_chunk(plan, l)];
    d->x_slots = d->slots;
    /* What comes from another stage may be under way while all slots are in
     * use. */
    if (dsf_plan_stage(plan, l) != dsf_plan_stage(plan, l - 1) &&
        d->slots < plan->turns)
        d->x_slots++;
    d->x = dsf_xcalloc((size_t)(d->x_slots * n), sizeof(*d->x));
    d->stash = dsf_xcalloc((size_t)(d->slots * n), sizeof(*d->stash));
    for (int i = 0; i < d->x_slots * n; i++)
        d->x[i] = add(s, of_class(kept, DSF_RING_X), dims_of(s, i % n).x,
                      "x.l%d.s%d.t%d", l, i / n, i % n);
    for (int i = 0; i < d->slots * n && l < s->model->layers; i++) {
        struct tile_dims b = dims_of(s, i % n);

#define KEPT(ring, dims)                                                       \
    add(s, of_class(kept, ring), dims, "%s.l%d.s%d.t%d",                       \
        dsf_ring_name(ring).s, l, i / n, i % n)
        d->stash[i] = (struct stash){
            .q = KEPT(DSF_RING_Q, b.q),
            .kv = KEPT(DSF_RING_KV, b.kv),
            .att = KEPT(DSF_RING_ATT, b.q),
            .lse = KEPT(DSF_RING_LSE, b.lse),
            .mid = KEPT(DSF_RING_MID, b.x),
            .h = KEPT(DSF_RING_H, b.h),
        };
#undef KEPT
    }
}

static void add_lane(struct step *s, int lane, int t)
{
    struct lane_data *d = &s->lanes[lane * s->plan->ntiles + t];
    struct dsflow_data_spec passing = activation;
    struct tile_dims b = dims_of(s, t);

    /* Lanes are as many as slots, or as workers. */
    passing.ring =
        dsf_plan_ring(s->plan, lane / s->nlanes * s->plan->nstages);
    d->datt = add(s, of_class(passing, DSF_RING_DATT), b.q, "datt.s%d.t%d",
                  lane, t);
    d->delta = add(s, of_class(passing, DSF_RING_DELTA), b.stat,
                   "delta.s%d.t%d", lane, t);
    d->flow = dsf_xcalloc((size_t)s->plan->depth, sizeof(*d->flow));
    for (int r = 0; r < s->plan->depth; r++) {
#define PASSING(ring, dims)                                                    \
    add(s, of_class(passing, ring), dims, "%s.l%d.s%d.t%d",                    \
        dsf_ring_name(ring).s, r, lane, t)
        d->flow[r] = (struct flow){
            .dx = PASSING(DSF_RING_DX, b.x),
            .dmid = PASSING(DSF_RING_DMID, b.x),
            .dh = PASSING(DSF_RING_DH, b.h),
            .dq = PASSING(DSF_RING_DQ, b.q),
            .dkv = PASSING(DSF_RING_DKV, b.kv),
            .dnorm_qkv = PASSING(DSF_RING_DNORM_QKV, b.dnorm),
            .dnorm_mlp = PASSING(DSF_RING_DNORM_MLP, b.dnorm),
        };
#undef PASSING
    }
}

static void add_counters(struct step *s)
{
    const struct dsf_dims *dims = &s->model->dims;
    struct dsflow_data_spec counter = buffer, table = buffer, control = buffer;

    counter.dtype = DSFLOW_INT64;
    table.dtype = DSFLOW_FP32;
    counter.persistent = control.persistent = 1;
    table.persistent = table.constant = 1;
    counter.kept = 1 + DSF_KEPT_CURSOR;
    s->cursor = add(s, counter, DIMS(DSF_CURSOR), "cursor");
    counter.kept = 1 + DSF_KEPT_EVAL_CURSOR;
    s->eval_cursor = add(s, counter, DIMS(DSF_CURSOR), "eval_cursor");
    control.kept = 1 + DSF_KEPT_CONTROL;
    s->control =
        add(s, control, DIMS(sizeof(struct dsflow_control)), "control");
    if (dims->rope)
        s->rope = add(s, table, DIMS(dims->context, dims->head_dim), "rope");
}

static void add_logits(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    struct dsflow_data_spec spec = activation;
    int64_t most_rows = 0;

    spec.ring = "machine.workers";
    for (int t = 0; t < plan->ntiles; t++)
        if (plan->tiles[t].rows > most_rows)
            most_rows = plan->tiles[t].rows;
    s->logits = dsf_xcalloc((size_t)plan->logits, sizeof(*s->logits));
    for (int i = 0; i < plan->logits; i++) {
        s->logits[i].logits =
            add(s, of_class(spec, DSF_RING_LOGITS),
                DIMS(most_rows, s->shape.vocab), "logits.%d", i);
        s->logits[i].dnorm = add(s, of_class(spec, DSF_RING_DNORM),
                                 DIMS(2, s->shape.width), "dnorm.%d", i);
    }
}

void dsf_step_add_data(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    int32_t n = plan->ntiles, layers = s->model->layers;
    int32_t nbatches = plan->slots[dsf_plan_chunk(plan, -1)] * n;
    struct dsflow_data_spec batch = buffer;

    batch.dtype = DSFLOW_INT32;
    batch.ring = dsf_plan_ring(plan, dsf_plan_chunk(plan, -1));
    add_counters(s);
    s->units = dsf_xcalloc(s->model->nunits, sizeof(*s->units));
    for (unsigned u = 0; u < s->model->nunits; u++)
        add_unit(s, u);
    s->batch = dsf_xcalloc((size_t)nbatches, sizeof(*s->batch));
    for (int i = 0; i < nbatches; i++)
        s->batch[i] = add(s, batch, DIMS(2, plan->tiles[i % n].rows),
                          "batch.s%d.t%d", i / n, i % n);
    s->layers = dsf_xcalloc((size_t)layers + 1, sizeof(*s->layers));
    for (int l = 0; l <= layers; l++)
        add_layer(s, l);
    for (int c = 0; c < plan->nchunks; c++)
        if (plan->lanes[c] > s->nlanes)
            s->nlanes = plan->lanes[c];
    /* Each chunk of a stage has lanes of its own: they take turns in another
     * order than the micro-batches. */
    s->nchunks = plan->nchunks / plan->nstages;
    s->lanes =
        dsf_xcalloc((size_t)(s->nchunks * s->nlanes * n), sizeof(*s->lanes));
    for (int lane = 0; lane < s->nchunks * s->nlanes; lane++)
        for (int t = 0; t < n; t++)
            add_lane(s, lane, t);
    add_logits(s);
}

void dsf_step_free(struct step *s)
{
    for (unsigned u = 0; u < s->model->nunits; u++) {
        free(s->units[u].states);
        free(s->units[u].grad.of);
        free(s->units[u].grad.begun);
        free(s->units[u].tied.of);
        free(s->units[u].tied.begun);
    }
    for (int l = 0; l <= s->model->layers; l++) {
        free(s->layers[l].x);
        free(s->layers[l].stash);
    }
    for (int i = 0; i < s->nchunks * s->nlanes * s->plan->ntiles; i++)
        free(s->lanes[i].flow);
    free(s->units);
    free(s->layers);
    free(s->lanes);
    free(s->batch);
    free(s->logits);
}
