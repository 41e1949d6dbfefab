/* ring_class.h - which data of a step may take turns in the same buffers
 * (graph.h: ring_class). */
#ifndef DSF_POLICIES_RING_CLASS_H
#define DSF_POLICIES_RING_CLASS_H

#include <stdint.h>

#include "segments/segment.h"

enum dsf_ring_class {
    DSF_RING_NONE,
    DSF_RING_X,        /* what enters a layer, */
    DSF_RING_DX,       /* and its gradient */
    DSF_RING_SUM,      /* gradients of the rounds so far */
    DSF_RING_TIED_SUM, /* the same of a tied head */
    DSF_RING_GRAD,     /* gradients of a group: dsf_ring_of_group */
    DSF_RING_TIED,
    DSF_RING_ERROR, /* errors of coded gradients, of all groups */
    DSF_RING_OWN,   /* momenta of workers, of all groups, */
    DSF_RING_LOCAL, /* and how far they have moved */
    DSF_RING_PORTS, /* what is made for the ports of segments */
    DSF_NRINGS = DSF_RING_PORTS + DSF_MAX_SEGMENTS * DSFLOW_SEGMENT_PORTS
};

/* Each group has buffers of its own, and so has each port of a segment. */
int32_t dsf_ring_of_group(enum dsf_ring_class ring, int32_t group);
int32_t dsf_ring_of_port(const struct dsflow_segment *segment, unsigned port);

/* Of such a class of a port. */
const struct dsflow_segment *dsf_ring_segment(int32_t ring);
unsigned dsf_ring_port(int32_t ring);

/* "kv", "grad3": for the names of buffers. */
struct dsf_ring_name {
    char s[32];
};
struct dsf_ring_name dsf_ring_name(int32_t ring);

#endif
