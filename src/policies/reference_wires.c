/* reference_wires.c - how the ports of the segments of a layer are connected:
 * where the stream goes, what is made for each port, and for how long. */
#include "policies/reference_private.h"

#include "base/alloc.h"

/* The port of a segment that is connected to `from`; or its number of ports. */
static unsigned port_of(const struct dsf_segment *segment, enum dsf_from from)
{
    unsigned p = 0;

    while (p < segment->nports && segment->ports[p].from != from)
        p++;
    return p;
}

/* The segment whose OUT is the stream after segment `i`: `i` itself or the next
 * that has one; and the last one before it. NULL: there is none. */
static const struct dsf_segment *
writer_from(const struct dsf_segment *const *segments, unsigned i)
{
    for (; segments[i] != NULL; i++)
        if (port_of(segments[i], DSF_FROM_OUT) < segments[i]->nports)
            return segments[i];
    return NULL;
}

static const struct dsf_segment *
writer_before(const struct dsf_segment *const *segments, unsigned i)
{
    while (i-- > 0)
        if (port_of(segments[i], DSF_FROM_OUT) < segments[i]->nports)
            return segments[i];
    return NULL;
}

static bool is_last_writer(const struct dsf_segment *const *segments,
                           const struct dsf_segment *writer)
{
    unsigned i = 0;

    while (segments[i] != writer)
        i++;
    return writer_from(segments, i + 1) == NULL;
}

static struct wire place(struct places *places, enum wire_kind kind,
                         const struct dsf_segment *segment, unsigned port)
{
    int32_t ring = dsf_ring_of_port(segment, port);

    if (places->at[ring] == 0)
        places->at[ring] = (uint16_t)++places->n;
    return (struct wire){ .kind = (uint8_t)kind,
                          .ring = ring,
                          .at = places->at[ring] - 1u };
}

/* A stream within the layer is kept by the segment that writes it, and its
 * gradient stands at the place of that segment's port for it. */
static struct wire stream(struct step *s,
                          const struct dsf_segment *const *segments,
                          const struct dsf_segment *writer, bool gradient)
{
    if (writer == NULL)
        return (struct wire){ .kind = gradient ? WIRE_DX : WIRE_X };
    if (is_last_writer(segments, writer))
        return (struct wire){ .kind = gradient ? WIRE_NEXT_DX : WIRE_NEXT_X };
    if (gradient)
        return place(&s->passing, WIRE_PASSING, writer,
                     port_of(writer, DSF_FROM_DOUT));
    return place(&s->kept, WIRE_KEPT, writer, port_of(writer, DSF_FROM_OUT));
}

static struct wire connect(struct step *s, int l,
                           const struct dsf_segment *const *segments,
                           unsigned i, unsigned p)
{
    const struct dsf_segment *segment = segments[i];
    const struct dsf_port *port = &segment->ports[p];

    switch (port->from) {
    case DSF_FROM_PARAMETERS:
    case DSF_FROM_GRADIENTS:
        return (struct wire){
            .kind = port->from == DSF_FROM_GRADIENTS ? WIRE_GRADIENTS
                                                     : WIRE_PARAMETERS,
            .at = dsf_model_unit(s->model, l, segment, port->unit),
        };
    case DSF_FROM_IN:
    case DSF_FROM_DIN:
        return stream(s, segments, writer_before(segments, i),
                      port->from == DSF_FROM_DIN);
    case DSF_FROM_OUT:
    case DSF_FROM_DOUT:
        return stream(s, segments, writer_from(segments, i),
                      port->from == DSF_FROM_DOUT);
    case DSF_FROM_KEPT:
        return place(&s->kept, WIRE_KEPT, segment, p);
    case DSF_FROM_PASSING:
        return place(&s->passing, WIRE_PASSING, segment, p);
    case DSF_FROM_BRIEF:
        return place(&s->brief, WIRE_BRIEF, segment, p);
    case DSF_FROM_LOGITS:
        return place(&s->logits_places, WIRE_LOGITS, segment, p);
    case DSF_FROM_OTHER:
        for (unsigned k = 0; segments[k] != NULL; k++)
            if (segments[k] == port->other)
                return connect(s, l, segments, k, port->unit);
        return (struct wire){ .kind = WIRE_NONE };
    case DSF_FROM_ROPE:
        return (struct wire){
            .kind = s->model->dims.rope ? WIRE_ROPE : WIRE_NONE
        };
    case DSF_FROM_BATCH:
        return (struct wire){ .kind = WIRE_BATCH };
    case DSF_FROM_LOSS:
        return (struct wire){ .kind = WIRE_LOSS };
    default:
        return (struct wire){ .kind = WIRE_NONE };
    }
}

void dsf_step_add_wires(struct step *s)
{
    for (int l = -1; l <= s->model->layers; l++) {
        const struct dsf_segment *const *segments =
            dsf_model_layer(s->model, l)->segments;
        struct layer_data *d = dsf_step_layer(s, l);
        unsigned n = 0;

        while (segments[n] != NULL)
            n++;
        d->wires = dsf_xcalloc(n, sizeof(*d->wires));
        for (unsigned i = 0; i < n; i++)
            for (unsigned p = 0; p < segments[i]->nports; p++) {
                struct wire *w = &d->wires[i][p];

                *w = connect(s, l, segments, i, p);
                w->of_keys = segments[i]->ports[p].of_keys;
                w->is_own =
                    w->ring != 0 && w->ring == dsf_ring_of_port(segments[i], p);
            }
    }
}
