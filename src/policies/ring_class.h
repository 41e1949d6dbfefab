/* ring_class.h - which data of a step may take turns in the same buffers
 * (graph.h: ring_class). */
#ifndef DSF_POLICIES_RING_CLASS_H
#define DSF_POLICIES_RING_CLASS_H

#include <stdint.h>

enum dsf_ring_class {
    DSF_RING_NONE,
    DSF_RING_X,
    DSF_RING_Q,
    DSF_RING_KV,
    DSF_RING_ATT,
    DSF_RING_LSE,
    DSF_RING_MID,
    DSF_RING_H,
    DSF_RING_DATT,
    DSF_RING_DELTA,
    DSF_RING_DX,
    DSF_RING_DMID,
    DSF_RING_DH,
    DSF_RING_DQ,
    DSF_RING_DKV,
    DSF_RING_DNORM_QKV,
    DSF_RING_DNORM_MLP,
    DSF_RING_LOGITS,
    DSF_RING_DNORM,
    DSF_RING_SUM,      /* gradients of the rounds so far */
    DSF_RING_TIED_SUM, /* the same of a tied head */
    DSF_RING_GRAD,     /* gradients of a group: dsf_ring_of_group */
    DSF_RING_TIED,
    DSF_NRINGS
};

/* Each group has buffers of its own. */
int32_t dsf_ring_of_group(enum dsf_ring_class ring, int32_t group);

/* "kv", "grad3": for the names of buffers. */
struct dsf_ring_name {
    char s[32];
};
struct dsf_ring_name dsf_ring_name(int32_t ring);

#endif
