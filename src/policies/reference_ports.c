/* reference_ports.c - tasks of the plain step, and the data on their ports, as
 * the segments say. */
#include "policies/reference_private.h"

#include "plan/key_tiles.h"
#include "plan/sight.h"
#include "plan/stretch.h"

#include <limits.h>
#include <string.h>

static void add_task(struct step *s, const struct dsflow_op *op,
                     const void *args, int l, unsigned fresh, unsigned without,
                     unsigned n, const dsflow_data_id *data)
{
    struct dsflow_task_spec t =
        DSFLOW_TASK(.op = op, .args = args, .layer = (int16_t)l,
                    .microbatch = (int16_t)s->m, .tile = (int16_t)s->t,
                    .rank = DSFLOW_ANYWHERE, .program = s->program,
                    .pass = s->pass, .fresh = fresh, .without = without,
                    .data = data, .ndata = n);

    dsflow_graph_add_task(s->g, &t);
}

void dsf_step_emit(struct step *s, const struct dsflow_op *op, const void *args,
                   int l, unsigned fresh, unsigned n,
                   const dsflow_data_id *data)
{
    add_task(s, op, args, l, fresh, 0, n, data);
}

void dsf_step_emit_without(struct step *s, const struct dsflow_op *op,
                           const void *args, int l, unsigned without,
                           unsigned n, const dsflow_data_id *data)
{
    add_task(s, op, args, l, 0, without, n, data);
}

/* The gradient that the present tile adds to, of unit `i` of a segment, and
 * whether it is the first. A unit that another segment has is a tied one. */
static dsflow_data_id begin_gradient(const struct step *s, int l,
                                     const struct dsflow_segment *segment,
                                     unsigned i, bool *fresh)
{
    unsigned u = dsf_model_unit(s->model, l, segment, i);
    int32_t sum = dsf_plan_sum_of(s->plan, s->m, s->t);
    const struct gradients *of = s->model->units[u].segment == segment
                                     ? &s->units[u].grad
                                     : &s->units[u].tied;

    *fresh = !of->begun[sum];
    of->begun[sum] = true;
    return of->of[sum];
}

/* The port of a segment that is connected to `from`; or its number of ports. */
static unsigned port_of(const struct dsflow_segment *segment,
                        enum dsflow_from from)
{
    unsigned p = 0;

    while (p < segment->nports && segment->ports[p].from != from)
        p++;
    return p;
}

/* The last segment before the `i`-th that leaves a stream; `next`: the first
 * one from the `i`-th on. NULL: there is none. */
static const struct dsflow_segment *
writer(const struct dsflow_segment *const *segments, unsigned i, bool next)
{
    const struct dsflow_segment *last = NULL;

    for (unsigned k = 0; segments[k] != NULL && (next || k < i); k++) {
        if (port_of(segments[k], DSFLOW_FROM_OUT) == segments[k]->nports)
            continue;
        if (k >= i)
            return segments[k];
        last = segments[k];
    }
    return next ? NULL : last;
}

/* The stream before segment `i` of layer `l`, or the next one; or its gradient.
 * Within the layer it is kept by the segment that writes it, and its gradient
 * stands at the place of that segment's port for it. */
static dsflow_data_id stream(struct step *s, int l, unsigned i, bool next,
                             bool gradient, int t)
{
    const struct dsflow_segment *const *segments = dsf_step_segments(s, l);
    const struct dsflow_segment *of = writer(segments, i, next);
    enum dsflow_from port = gradient ? DSFLOW_FROM_DOUT : DSFLOW_FROM_OUT;

    if (of != NULL && of != writer(segments, UINT_MAX, false))
        return dsf_step_in_ring(
            s, gradient ? DSFLOW_FROM_PASSING : DSFLOW_FROM_KEPT,
            dsf_ring_of_port(of, port_of(of, port)), l, t);
    return dsf_step_in_ring(s, gradient ? DSFLOW_FROM_DIN : DSFLOW_FROM_IN,
                            gradient ? DSF_RING_DX : DSF_RING_X,
                            of != NULL ? l + 1 : l, t);
}

/* That of the attention of a layer; no data where it has none. */
static dsflow_data_id layout_of(const struct step *s, int l)
{
    int32_t number;

    return dsf_plan_layout_of(s->plan, l, &number) != NULL ? s->layouts[number]
                                                           : dsf_no_data();
}

dsflow_data_id dsf_step_on_port(struct step *s, int l, unsigned i, unsigned p,
                                int t)
{
    const struct dsflow_segment *const *segments = dsf_step_segments(s, l);
    const struct dsflow_segment_port *port = &segments[i]->ports[p];

    switch (port->from) {
    case DSFLOW_FROM_PARAMETERS:
        return dsf_zeroone_weights(
            s, dsf_model_unit(s->model, l, segments[i], port->unit));
    case DSFLOW_FROM_IN:
    case DSFLOW_FROM_DIN:
        return stream(s, l, i, false, port->from == DSFLOW_FROM_DIN, t);
    case DSFLOW_FROM_OUT:
    case DSFLOW_FROM_DOUT:
        return stream(s, l, i, true, port->from == DSFLOW_FROM_DOUT, t);
    case DSFLOW_FROM_KEPT:
    case DSFLOW_FROM_PASSING:
    case DSFLOW_FROM_BRIEF:
    case DSFLOW_FROM_LOGITS:
        return dsf_step_in_ring(s, port->from, dsf_ring_of_port(segments[i], p),
                                l, t);
    case DSFLOW_FROM_OTHER:
        for (i = 0; segments[i] != NULL; i++)
            if (strcmp(segments[i]->name, port->other) == 0)
                return dsf_step_on_port(s, l, i, port->unit, t);
        return dsf_no_data();
    case DSFLOW_FROM_ROPE:
        return s->model->dims.rope ? s->rope : dsf_no_data();
    case DSFLOW_FROM_LAYOUT:
        return layout_of(s, l);
    case DSFLOW_FROM_BATCH:
        return dsf_step_in_ring(s, DSFLOW_FROM_BATCH, DSF_RING_NONE, -1, t);
    case DSFLOW_FROM_LOSS:
        return s->loss;
    case DSFLOW_FROM_CONTROL:
        return dsf_is_scaled(&s->scale) && s->trains ? s->control
                                                     : dsf_no_data();
    default:
        return dsf_no_data();
    }
}

/* What a task has there, and whether it is the first to add to it. */
static dsflow_data_id connect(struct step *s, int l, unsigned i,
                              const struct dsflow_op *op, unsigned p, int t,
                              int k, bool *fresh)
{
    const struct dsflow_segment *segment = dsf_step_segments(s, l)[i];
    const struct dsflow_segment_port *port = &segment->ports[p];

    if (port->from == DSFLOW_FROM_GRADIENTS)
        return begin_gradient(s, l, segment, port->unit, fresh);
    if (!port->of_keys)
        return dsf_step_on_port(s, l, i, p, t);
    k = dsf_plan_key_tile(s->plan, k);
    return segment->pairs && op == segment->backward_input &&
                   op->ports[p].access & DSFLOW_W
               ? dsf_step_key_sum(s, l, i, p, t, k)
               : dsf_step_on_port(s, l, i, p, k);
}

/* Tasks that see all of the keys have no layout. */
static bool has_port(const struct dsflow_segment *segment,
                     const struct dsflow_segment_port *port, const void *args)
{
    return segment != &dsf_segment_attention ||
           port->from != DSFLOW_FROM_LAYOUT ||
           ((const struct dsflow_attention_args *)args)->block > 0;
}

void dsf_step_emit_segment(struct step *s, int l, unsigned i,
                           const struct dsflow_op *op, int t, int k)
{
    const struct dsflow_segment *segment = dsf_step_segments(s, l)[i];
    const struct dsflow_site site = dsf_step_site(s, l, segment, t, k);
    _Alignas(16) unsigned char args[DSFLOW_SEGMENT_ARGS] = { 0 };
    struct dsf_binding b = { .n = 0 };

    segment->fill(&site, args);
    if (segment->fresh != NULL)
        b.fresh = segment->fresh(op, args);
    for (unsigned p = 0; p < op->nports; p++) {
        dsflow_data_id id = dsf_no_data();
        bool fresh = false;

        if (op->ports[p].name != NULL &&
            has_port(segment, &segment->ports[p], args))
            id = connect(s, l, i, op, p, t, k, &fresh);
        if (dsf_is_data(id))
            dsf_bind(&b, p, id);
        else
            dsf_leave_out(&b, p);
        b.fresh |= (uint32_t)fresh << p;
    }
    add_task(s, op, args, l, b.fresh, b.without, b.n, b.data);
}
