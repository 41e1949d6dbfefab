/* reference_data.c - the data of a step: units, activations in rings, counters.
 *
 * Activations stand in a ring of as many micro-steps as the stage of their
 * layer keeps (plan->activation_slots), gradients of activations in one of
 * plan->grad_slots by plan->depth layers, logits in one of plan->logits tiles.
 * A slot is written again when its last reader is done, and that is all that
 * holds the step back.
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

/* Data for a port, of a shape that its segment gives. */
static dsflow_data_id add_shape(struct step *s, struct dsflow_data_spec spec,
                                struct dsf_need need, const char *fmt, ...)
    DSFLOW_PRINTF(4, 5);

static dsflow_data_id add_shape(struct step *s, struct dsflow_data_spec spec,
                                struct dsf_need need, const char *fmt, ...)
{
    char name[96];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    spec.dtype = (uint8_t)need.dtype;
    return add(s, spec, DIMS(need.rows, need.cols), "%s", name);
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
    if (s->model->tied && u == 0)
        add_gradients(s, &d->tied, grad, elems, DSF_RING_TIED,
                      DSF_RING_TIED_SUM, unit->name);
}

static const struct dsflow_data_spec activation =
    DSFLOW_DATA(.dtype = DSFLOW_FP32, .role = DSFLOW_ACTIVATIONS, .unit = -1);
static const struct dsflow_data_spec buffer =
    DSFLOW_DATA(.role = DSFLOW_BUFFERS, .unit = -1);

struct dsf_site dsf_step_site(const struct step *s, int l, unsigned i, int t,
                              int k, const struct dsf_unit **units)
{
    const struct dsflow_plan *plan = s->plan;
    const struct dsf_tile_rows *tile = &plan->tiles[t];
    const struct dsf_segment *segment =
        dsf_model_layer(s->model, l)->segments[i];
    struct dsf_site site = {
        .tile = dsf_model_tile(s->model, l),
        .units = units,
        .tokens = (double)plan->nmicro * plan->micro * plan->sequence,
        .keys = plan->tiles[k].rows,
        .diagonal = k == t,
        .first_keys = plan->tiles[k].pos == 0,
        .last_queries = t + 1 == plan->ntiles || plan->tiles[t + 1].pos == 0,
    };

    site.tile.rows = tile->rows;
    site.tile.nseq = tile->nseq;
    site.tile.pos = tile->pos;
    for (unsigned u = 0; segment->units[u] != NULL; u++)
        units[u] =
            &s->model->units[dsf_model_unit(s->model, l, segment, u)];
    return site;
}

/* The elements on a port of the `i`-th segment of layer `l`, of tile `t`. */
static struct dsf_need need_of(const struct step *s, int l, unsigned i,
                               unsigned port, int t)
{
    const struct dsf_unit *units[DSF_MAX_UNITS];
    const struct dsf_site site = dsf_step_site(s, l, i, t, t, units);

    return dsf_segment_need(dsf_model_layer(s->model, l)->segments[i], &site,
                            port);
}

/* The ports of layer `l` that data is made for. */
enum { DSF_MAX_OWN = 64 };
struct own_port {
    unsigned segment, port;
    const struct wire *wire;
};
static unsigned own_ports(const struct step *s, int l, enum wire_kind kind,
                          struct own_port *list)
{
    const struct dsf_segment *const *segments =
        dsf_model_layer(s->model, l)->segments;
    unsigned n = 0;

    for (unsigned i = 0; segments[i] != NULL; i++)
        for (unsigned p = 0; p < segments[i]->nports; p++) {
            const struct wire *w = &dsf_step_layer(s, l)->wires[i][p];

            if (w->is_own && w->kind == kind)
                list[n++] = (struct own_port){ i, p, w };
        }
    return n;
}

static dsflow_data_id add_need(struct step *s, struct dsflow_data_spec spec,
                               int32_t ring, struct dsf_need need, int place,
                               int slot, int t)
{
    spec.ring_class = ring;
    return add_shape(s, spec, need, "%s.l%d.s%d.t%d", dsf_ring_name(ring).s,
                     place, slot, t);
}

/* What goes from segment to segment. */
static struct dsf_need stream_need(const struct step *s, int t)
{
    return dsf_matrix((size_t)s->plan->tiles[t].rows,
                      (size_t)s->model->dims.width);
}

static void add_layer(struct step *s, int l)
{
    const struct dsflow_plan *plan = s->plan;
    struct dsflow_data_spec kept = activation;
    struct layer_data *d = dsf_step_layer(s, l);
    int32_t n = plan->ntiles;
    struct own_port own[DSF_MAX_OWN];
    unsigned nown = own_ports(s, l, WIRE_KEPT, own);

    kept.ring = dsf_plan_ring(plan, dsf_plan_chunk(plan, l));
    d->slots = plan->activation_slots[dsf_plan_chunk(plan, l)];
    d->x_slots = d->slots;
    /* What comes from another stage may be under way while all slots are in
     * use. */
    if (dsf_plan_stage(plan, l) != dsf_plan_stage(plan, l - 1) &&
        d->slots < plan->micro_steps)
        d->x_slots++;
    d->x = dsf_xcalloc((size_t)(d->x_slots * n), sizeof(*d->x));
    d->kept = dsf_xcalloc((size_t)(d->slots * n) * s->kept.n, sizeof(*d->kept));
    for (int i = 0; i < d->x_slots * n; i++)
        d->x[i] = add_need(s, kept, DSF_RING_X, stream_need(s, i % n), l, i / n,
                           i % n);
    for (int i = 0; i < d->slots * n; i++)
        for (unsigned k = 0; k < nown; k++)
            d->kept[(size_t)i * s->kept.n + own[k].wire->at] = add_need(
                s, kept, own[k].wire->ring,
                need_of(s, l, own[k].segment, own[k].port, i % n), l, i / n,
                i % n);
}

/* The most that a layer needs of what stands at one place, of tile `t`: of the
 * layers that use it, place + depth * i. Whose port it is, in *own. */
static bool most_needed(const struct step *s, enum wire_kind kind, unsigned at,
                        int place, int depth, int t, struct dsf_need *most,
                        int32_t *ring)
{
    bool found = false;

    for (int l = place; l < s->model->layers; l += depth) {
        struct own_port own[DSF_MAX_OWN];
        unsigned n = own_ports(s, l, kind, own);

        for (unsigned k = 0; k < n; k++) {
            struct dsf_need need;

            if (own[k].wire->at != at)
                continue;
            need = need_of(s, l, own[k].segment, own[k].port, t);
            if (!found || need.rows * need.cols > most->rows * most->cols)
                *most = need;
            *ring = own[k].wire->ring;
            found = true;
        }
    }
    return found;
}

static void add_slot(struct step *s, int slot, int t)
{
    struct slot_data *d = &s->grads[slot * s->plan->ntiles + t];
    struct dsflow_data_spec passing = activation;
    int32_t depth = s->plan->depth, ring;
    struct dsf_need need;

    /* Gradient slots are as many as activation slots, or as workers. */
    passing.ring =
        dsf_plan_ring(s->plan, slot / s->ngrad_slots * s->plan->nstages);
    d->brief = dsf_xcalloc(s->brief.n, sizeof(*d->brief));
    for (unsigned k = 0; k < s->brief.n; k++)
        if (most_needed(s, WIRE_BRIEF, k, 0, 1, t, &need, &ring)) {
            passing.ring_class = ring;
            d->brief[k] = add_shape(s, passing, need, "%s.s%d.t%d",
                                    dsf_ring_name(ring).s, slot, t);
        }
    d->passing = dsf_xcalloc((size_t)depth * (1 + s->passing.n),
                             sizeof(*d->passing));
    for (int r = 0; r < depth; r++) {
        dsflow_data_id *at = &d->passing[(size_t)r * (1 + s->passing.n)];

        at[0] =
            add_need(s, passing, DSF_RING_DX, stream_need(s, t), r, slot, t);
        for (unsigned k = 0; k < s->passing.n; k++)
            if (most_needed(s, WIRE_PASSING, k, r, depth, t, &need, &ring))
                at[1 + k] = add_need(s, passing, ring, need, r, slot, t);
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

/* Those of the largest tile: a slot serves all of them. */
static void add_logits(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    struct dsflow_data_spec spec = activation;
    struct own_port own[DSF_MAX_OWN];
    unsigned n = own_ports(s, s->model->layers, WIRE_LOGITS, own);
    int most = 0;

    spec.ring = "machine.workers";
    for (int t = 0; t < plan->ntiles; t++)
        if (plan->tiles[t].rows > plan->tiles[most].rows)
            most = t;
    s->logits = dsf_xcalloc((size_t)plan->logits * n, sizeof(*s->logits));
    for (int i = 0; i < plan->logits; i++)
        for (unsigned k = 0; k < n; k++) {
            spec.ring_class = own[k].wire->ring;
            s->logits[(size_t)i * n + own[k].wire->at] = add_shape(
                s, spec,
                need_of(s, s->model->layers, own[k].segment, own[k].port, most),
                "%s.%d", dsf_ring_name(spec.ring_class).s, i);
        }
}

void dsf_step_add_data(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    int32_t n = plan->ntiles, layers = s->model->layers;
    int32_t nbatches = plan->activation_slots[dsf_plan_chunk(plan, -1)] * n;
    struct dsflow_data_spec batch = buffer;

    batch.dtype = DSFLOW_INT32;
    batch.ring = dsf_plan_ring(plan, dsf_plan_chunk(plan, -1));
    s->layers = dsf_xcalloc((size_t)layers + 2, sizeof(*s->layers));
    dsf_step_add_wires(s);
    add_counters(s);
    s->units = dsf_xcalloc(s->model->nunits, sizeof(*s->units));
    for (unsigned u = 0; u < s->model->nunits; u++)
        add_unit(s, u);
    s->batch = dsf_xcalloc((size_t)nbatches, sizeof(*s->batch));
    for (int i = 0; i < nbatches; i++)
        s->batch[i] = add(s, batch, DIMS(2, plan->tiles[i % n].rows),
                          "batch.s%d.t%d", i / n, i % n);
    for (int l = 0; l <= layers; l++)
        add_layer(s, l);
    for (int c = 0; c < plan->nchunks; c++)
        if (plan->grad_slots[c] > s->ngrad_slots)
            s->ngrad_slots = plan->grad_slots[c];
    /* Each chunk of a stage has gradient slots of its own: they take turns in
     * another order than the micro-batches. */
    s->nchunks = plan->nchunks / plan->nstages;
    s->grads = dsf_xcalloc((size_t)(s->nchunks * s->ngrad_slots * n),
                           sizeof(*s->grads));
    for (int slot = 0; slot < s->nchunks * s->ngrad_slots; slot++)
        for (int t = 0; t < n; t++)
            add_slot(s, slot, t);
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
    for (int l = -1; l <= s->model->layers; l++) {
        free(dsf_step_layer(s, l)->wires);
        free(dsf_step_layer(s, l)->x);
        free(dsf_step_layer(s, l)->kept);
    }
    for (int i = 0; i < s->nchunks * s->ngrad_slots * s->plan->ntiles; i++) {
        free(s->grads[i].brief);
        free(s->grads[i].passing);
    }
    free(s->units);
    free(s->layers);
    free(s->grads);
    free(s->batch);
    free(s->logits);
}
