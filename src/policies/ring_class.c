/* ring_class.c - classes of buffers, and their names. */
#include "policies/ring_class.h"

#include <stdio.h>

int32_t dsf_ring_of_group(enum dsf_ring_class ring, int32_t group)
{
    return (int32_t)ring + group * DSF_NRINGS;
}

int32_t dsf_ring_of_port(const struct dsflow_segment *segment, unsigned port)
{
    return DSF_RING_PORTS + (int32_t)(dsf_segment_number(segment) *
                                          DSFLOW_SEGMENT_PORTS +
                                      port);
}

const struct dsflow_segment *dsf_ring_segment(int32_t ring)
{
    return dsf_segment_at((unsigned)(ring - DSF_RING_PORTS) /
                          DSFLOW_SEGMENT_PORTS);
}

unsigned dsf_ring_port(int32_t ring)
{
    return (unsigned)(ring - DSF_RING_PORTS) % DSFLOW_SEGMENT_PORTS;
}

struct dsf_ring_name dsf_ring_name(int32_t ring)
{
    static const char *const names[DSF_RING_PORTS] = {
        [DSF_RING_NONE] = "none",    [DSF_RING_X] = "x",
        [DSF_RING_DX] = "dx",        [DSF_RING_SUM] = "total",
        [DSF_RING_GRAD] = "grad",    [DSF_RING_TIED_SUM] = "tiedsum",
        [DSF_RING_TIED] = "tied",    [DSF_RING_ERROR] = "error",
        [DSF_RING_OWN] = "momentum", [DSF_RING_LOCAL] = "local",
    };
    struct dsf_ring_name name;
    int32_t kind = ring % DSF_NRINGS;

    if (ring < 0) /* of a plug-in */
        snprintf(name.s, sizeof(name.s), "own%d", (int)-(ring + 1));
    else if (kind >= DSF_RING_PORTS)
        snprintf(name.s, sizeof(name.s), "%s",
                 dsf_ring_segment(ring)->ports[dsf_ring_port(ring)].name);
    else if (kind == DSF_RING_GRAD || kind == DSF_RING_TIED)
        snprintf(name.s, sizeof(name.s), "%s%d", names[kind],
                 (int)(ring / DSF_NRINGS));
    else
        snprintf(name.s, sizeof(name.s), "%s", names[kind]);
    return name;
}
