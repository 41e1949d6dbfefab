/* dev_onebit.h - what kernels of 1-bit Adam, 1-bit LAMB and 0/1 Adam share:
 * ports, errors, chunks, what is served. */
#ifndef DSF_GPU_DEV_ONEBIT_H
#define DSF_GPU_DEV_ONEBIT_H

#include "gpu/dev_wire.h"

#include "tasks/args.h"

namespace {

inline const struct dsflow_control *control_of(const struct dsflow_call *call)
{
    return (const struct dsflow_control *)call->bufs[0].ptr;
}

inline float *floats(const struct dsflow_call *call, unsigned port, int64_t at)
{
    return (float *)call->bufs[port].ptr + at;
}

/* What a task leaves out is at the end, or is nowhere. */
inline bool has(const struct dsflow_call *call, unsigned port)
{
    return call->nbufs > port && call->bufs[port].ptr != nullptr;
}

/* Signs are what the policies ask for; where nothing is coded, there may be no
 * format. */
inline const char *lacks(const void *args)
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

/* On a port, from number `at` on. */
inline error_data errors_of(const struct dsflow_call *call, unsigned port,
                            int64_t at)
{
    const struct dsflow_buf *b = &call->bufs[port];
    const bool narrow = b->dtype == DSFLOW_BF16;

    return { (char *)b->ptr + (size_t)at * (narrow ? 2 : 4), narrow };
}

/* Is this the step `last`, if there is one? A block of threads reads the
 * control once; `is_last` is for what comes then. */
DEV void find_last(const struct dsflow_control *control, int64_t last)
{
    if (threadIdx.x == 0 && threadIdx.y == 0)
        *dev_shared<int>() = last > 0 && control->step == last;
    __syncthreads();
}
DEV bool is_last()
{
    return *dev_shared<int>() != 0;
}

/* error = x - x as it is when it has been sent. */
struct keep_error : wire_op {
    enum { FRONT = 16 };
    const struct dsflow_control *control;
    int64_t last; /* the step in which errors become 0 */
    const float *x, *scales;
    error_data error;

    DEV void begin() const
    {
        find_last(control, last);
    }
    DEV void block(wire_team &team, int64_t at) const
    {
        const bool clear = is_last();
        const wire_place of(c);
        float v[WIRE_OWN], sent[WIRE_OWN], e[WIRE_OWN] = {};

        wire_load(x + at, of, v);
        error.load(at, of, e);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            sent[k] = v[k];
        wire_send<wire_sign>(team, c, scales, at, of, sent);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++) {
            const float now = __fsub_rn(v[k], sent[k]);

            e[k] = clear ? 0 : wire_finite_or(__fmaf_rn(0, e[k], now), e[k]);
        }
        error.store(at, of, e);
    }
};

/* tasks/onebit_lamb_args.h: dsf_united_chunk, of a block of this tensor. */
struct united {
    int64_t before, groups, all, by_tensor;

    DEV int64_t chunk(const dsf_coding &c, int64_t tensor, int64_t at) const
    {
        int64_t n = before;

        if (by_tensor)
            return c.tensors[tensor].number;
        for (int64_t i = 0; i < tensor; i++)
            n += c.tensors[i].elems;
        return (n + at - c.tensors[tensor].at) * groups / all;
    }
};
inline united united_of(const dsf_united_args *a)
{
    return { a->before, a->at.groups, a->all, a->by_tensor };
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
