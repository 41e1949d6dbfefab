/* ring_class.c - names for classes of buffers. */
#include "policies/ring_class.h"

#include <stdio.h>

int32_t dsf_ring_of_group(enum dsf_ring_class ring, int32_t group)
{
    return (int32_t)ring + group * DSF_NRINGS;
}

struct dsf_ring_name dsf_ring_name(int32_t ring)
{
    static const char *const names[DSF_NRINGS] = {
        [DSF_RING_NONE] = "none",
        [DSF_RING_X] = "x",
        [DSF_RING_Q] = "q",
        [DSF_RING_KV] = "kv",
        [DSF_RING_ATT] = "att",
        [DSF_RING_LSE] = "lse",
        [DSF_RING_MID] = "mid",
        [DSF_RING_H] = "h",
        [DSF_RING_DATT] = "datt",
        [DSF_RING_DELTA] = "delta",
        [DSF_RING_DX] = "dx",
        [DSF_RING_DMID] = "dmid",
        [DSF_RING_DH] = "dh",
        [DSF_RING_DQ] = "dq",
        [DSF_RING_DKV] = "dkv",
        [DSF_RING_DNORM_QKV] = "dnorm_qkv",
        [DSF_RING_DNORM_MLP] = "dnorm_mlp",
        [DSF_RING_LOGITS] = "logits",
        [DSF_RING_DNORM] = "dnorm",
        [DSF_RING_SUM] = "sum",
        [DSF_RING_TIED_SUM] = "tiedsum",
        [DSF_RING_GRAD] = "grad",
        [DSF_RING_TIED] = "tied",
    };
    struct dsf_ring_name name;
    int32_t kind = ring % DSF_NRINGS;

    if (ring < 0) /* of a plug-in */
        snprintf(name.s, sizeof(name.s), "own%d", (int)-(ring + 1));
    else if (kind >= DSF_RING_GRAD)
        snprintf(name.s, sizeof(name.s), "%s%d", names[kind],
                 (int)(ring / DSF_NRINGS));
    else
        snprintf(name.s, sizeof(name.s), "%s", names[kind]);
    return name;
}
