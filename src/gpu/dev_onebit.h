/* dev_onebit.h - what kernels of 1-bit Adam and 1-bit LAMB share: ports,
 * errors, what is served. */
#ifndef DSF_GPU_DEV_ONEBIT_H
#define DSF_GPU_DEV_ONEBIT_H

#include "gpu/dev_wire.h"

#include "tasks/args.h"

namespace {

const struct dsflow_control *control_of(const struct dsflow_call *call)
{
    return (const struct dsflow_control *)call->bufs[0].ptr;
}

float *floats(const struct dsflow_call *call, unsigned port, int64_t at)
{
    return (float *)call->bufs[port].ptr + at;
}

/* What a task leaves out is at the end, or is nowhere. */
bool has(const struct dsflow_call *call, unsigned port)
{
    return call->nbufs > port && call->bufs[port].ptr != nullptr;
}

/* Signs are what the policies ask for; where nothing is coded, there may be no
 * format. */
const char *lacks(const void *args)
{
    const char *format = ((const struct dsf_coding *)args)->format;

    return format[0] == '\0' || strcmp(format, "sign") == 0
               ? nullptr
               : "another format than sign";
}

/* tasks/onebit_args.h: dsf_chunk_of. */
DEV int64_t chunk_of(const dsf_coding &c, int64_t groups, int64_t at)
{
    const int64_t tensor = wire_tensor(c, at), step = DSFLOW_WIRE_FORMAT_STEP;

    if (tensor < 0)
        return -1;
    const uint32_t block = (uint32_t)(c.block / step);
    const int64_t of = (at - c.tensors[tensor].at) / step;
    const int64_t b = (uint32_t)of / block;
    const int64_t n = (uint32_t)(c.tensors[tensor].elems / step) / block;
    int64_t chunk = b * groups / n;

    while (n * (chunk + 1) / groups <= b)
        chunk++;
    return tensor * groups + chunk;
}

/* fp32 or bf16, of which is kept what coding takes. */
struct error_data {
    void *at;
    int64_t narrow; /* 1: bf16 */

    DEV void load(int64_t i, const wire_place &of, float (&v)[WIRE_OWN]) const
    {
        if (!narrow) {
            wire_load((const float *)at + i, of, v);
            return;
        }
        if (!of.is_there())
            return;
        wire_get_halves<bf16>((const uint16_t *)at + i + of.at, v);
        wire_get_halves<bf16>((const uint16_t *)at + i + of.half + of.at,
                              v + WIRE_PIECE);
    }
    DEV void put(int64_t i, const float *v) const
    {
        uint16_t *to = (uint16_t *)at + i;
        uint32_t w[WIRE_PIECE];

        DEV_UNROLL
        for (int k = 0; k < WIRE_PIECE; k++)
            w[k] = dev_pack16(v[k], 0x80000000u) & 0xffff;
        if (wire_is_at(to, 16)) {
            dev_store16(to, make_uint4(w[0] | w[1] << 16, w[2] | w[3] << 16,
                                       w[4] | w[5] << 16, w[6] | w[7] << 16));
            return;
        }
        DEV_UNROLL
        for (int k = 0; k < WIRE_PIECE; k++)
            to[k] = (uint16_t)w[k];
    }
    DEV void store(int64_t i, const wire_place &of,
                   const float (&v)[WIRE_OWN]) const
    {
        if (!narrow) {
            wire_store((float *)at + i, of, v);
            return;
        }
        if (!of.is_there())
            return;
        put(i + (int64_t)of.at, v);
        put(i + (int64_t)(of.half + of.at), v + WIRE_PIECE);
    }
};

/* Does the step of this control change nothing? A block of threads reads it
 * once. */
DEV bool skips(const struct dsflow_control *control)
{
    int *skip = dev_shared<int>();

    if (threadIdx.x == 0 && threadIdx.y == 0)
        *skip = control->skip != 0;
    __syncthreads();
    return *skip != 0;
}

/* What is served of y = x + server, with this scale: x = that, and server what
 * it takes. */
DEV void serve_numbers(float scale, float (&v)[WIRE_OWN],
                       float (&server)[WIRE_OWN])
{
    DEV_UNROLL
    for (int k = 0; k < WIRE_OWN; k++) {
        const float y = __fadd_rn(v[k], server[k]);

        v[k] = wire_sign::as_sent(y, scale);
        server[k] = __fsub_rn(y, v[k]);
    }
}

} // namespace

#endif
