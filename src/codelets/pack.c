/* pack.c - states of the optimizer in fewer bytes. */
#include "codelets/pack.h"

#include "base/random.h"
#include "codelets/trials.h"
#include "tasks/tasks.h"

#include <string.h>

_Static_assert(DSF_PACK_BLOCK == DSF_PACKED_BLOCK, "one size of blocks");

/* Codes stand behind the heads of all blocks. */
static size_t heads_bytes(size_t n)
{
    return dsf_packed_bytes(DSF_STATES_INT8, (int64_t)n) - n;
}

void dsf_pack(enum dsf_states format, const struct dsf_rounding *r,
              const float *whole, void *packed, size_t n)
{
    switch (format) {
    case DSF_STATES_BF16:
        dsf_pack16(r, whole, packed, n);
        break;
    case DSF_STATES_INT8:
        dsf_pack8(r, whole, packed, (uint8_t *)packed + heads_bytes(n), n);
        break;
    case DSF_STATES_FP32:
        memcpy(packed, whole, n * sizeof(*whole));
        break;
    }
}

void dsf_unpack(enum dsf_states format, const void *packed, float *whole,
                size_t n)
{
    switch (format) {
    case DSF_STATES_BF16:
        dsf_unpack16(packed, whole, n);
        break;
    case DSF_STATES_INT8:
        dsf_unpack8(packed, (const uint8_t *)packed + heads_bytes(n), whole, n);
        break;
    case DSF_STATES_FP32:
        memcpy(whole, packed, n * sizeof(*whole));
        break;
    }
}

static void pack_cpu(const struct dsflow_call *call)
{
    const struct dsf_pack_args *a = call->args;
    const struct dsflow_control *c = call->bufs[0].ptr;
    uint64_t state = a->stream;
    struct dsf_rounding r = { .block = (uint64_t)a->at / DSF_PACK_BLOCK };

    state = dsf_random(&state) ^ (uint64_t)c->step;
    r.key = dsf_random(&state);
    dsf_pack(a->format, &r, call->bufs[1].ptr, call->bufs[2].ptr,
             (size_t)a->elems);
}

static void unpack_cpu(const struct dsflow_call *call)
{
    const struct dsf_pack_args *a = call->args;

    dsf_unpack(a->format, call->bufs[0].ptr, call->bufs[1].ptr,
               (size_t)a->elems);
}

const struct dsflow_codelet dsf_codelet_pack = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_pack,
    .cpu = pack_cpu,
    .trials = &dsf_trials_pack,
};

const struct dsflow_codelet dsf_codelet_unpack = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_unpack,
    .cpu = unpack_cpu,
    .trials = &dsf_trials_unpack,
};
