/* dev_wire_team.h - a block of a coding (dev_wire.h), and the team of threads
 * that has it: which numbers each thread has and where they are in memory, at
 * any address, and what the team finds out together. */
#ifndef DSF_GPU_DEV_WIRE_TEAM_H
#define DSF_GPU_DEV_WIRE_TEAM_H

#include "gpu/dev_squares.h"

#include "kernels/wire_blocks.h"
#include "tasks/coding.h"

#define DEV_BOTH __host__ __device__ inline /* the host asks it, too */

enum {
    WIRE_PIECE = 8,
    WIRE_OWN = 2 * WIRE_PIECE,
    WIRE_MOST_THREADS = DSFLOW_WIRE_FORMAT_MOST / WIRE_OWN,
    WIRE_THREADS = 128, /* of several teams, or of one that needs no more */
    WIRE_NAN = 0x7fc00000,
    WIRE_PLAIN = -2, /* instead of a tensor: the block is not coded, */
    WIRE_ALONE = -1  /* or has a scale of its own */
};

/* --- which numbers, and where --------------------------------------------- */

/* Of the numbers in front of `at` so many are coded. */
DEV_BOTH int64_t wire_coded_before(const dsf_coding &c, int64_t at)
{
    int64_t n = 0;

    if (c.ntensors == 0)
        return at < c.coded ? at : c.coded;
    for (int64_t i = 0; i < c.ntensors && c.tensors[i].at < at; i++) {
        const int64_t of = at - c.tensors[i].at;

        n += of < c.tensors[i].elems ? of : c.tensors[i].elems;
    }
    return n;
}

/* The tensor of the block that begins with number `at`. */
DEV_BOTH int64_t wire_tensor(const dsf_coding &c, int64_t at)
{
    if (c.ntensors == 0)
        return at < c.coded ? WIRE_ALONE : WIRE_PLAIN;
    for (int64_t i = 0; i < c.ntensors; i++)
        if (at < c.tensors[i].at + c.tensors[i].elems)
            return at < c.tensors[i].at ? (int64_t)WIRE_PLAIN : i;
    return WIRE_PLAIN;
}

/* The bytes of numbers from .. to, which are whole blocks; of a block:
 * F::bytes. */
template <class F>
DEV_BOTH int64_t wire_bytes(const dsf_coding &c, int64_t from, int64_t to)
{
    const int64_t coded = wire_coded_before(c, to) - wire_coded_before(c, from);
    const int64_t step = DSFLOW_WIRE_FORMAT_STEP;
    const uint32_t blocks =
        (uint32_t)(coded / step) / (uint32_t)(c.block / step);

    return blocks * (int64_t)F::bytes((size_t)c.block) +
           (to - from - coded) * (int64_t)sizeof(float);
}

/* The numbers of this thread: piece p is `half` * p + at .. + 8 of the block.
 */
struct wire_place {
    size_t half, at;

    explicit DEV wire_place(const dsf_coding &c)
        : half((size_t)c.block / 2), at((size_t)threadIdx.x * WIRE_PIECE)
    {
    }
    DEV bool is_there() const
    {
        return at < half;
    }
};

/* --- memory --------------------------------------------------------------- */

DEV bool wire_is_at(const void *p, unsigned width)
{
    return (uintptr_t)p % width == 0;
}

/* N words at any address: 16 bytes at a time where it is a multiple of that. */
template <int N> DEV void wire_get(const void *p, uint32_t (&w)[N])
{
    const uint8_t *bytes = (const uint8_t *)p;

    if (N % 4 == 0 && wire_is_at(p, 16)) {
        DEV_UNROLL
        for (int i = 0; i + 4 <= N; i += 4) {
            const uint4 raw = dev_load16(bytes + i * 4);

            memcpy(w + i, &raw, sizeof(raw));
        }
        return;
    }
    if (wire_is_at(p, 4)) {
        DEV_UNROLL
        for (int i = 0; i < N; i++)
            w[i] = dev_load_word<uint32_t>(bytes + 4 * i);
        return;
    }
    DEV_UNROLL
    for (int i = 0; i < N; i++)
        w[i] = bytes[4 * i] | (uint32_t)bytes[4 * i + 1] << 8 |
               (uint32_t)bytes[4 * i + 2] << 16 |
               (uint32_t)bytes[4 * i + 3] << 24;
}

template <int N> DEV void wire_put(void *p, const uint32_t (&w)[N])
{
    uint8_t *bytes = (uint8_t *)p;

    if (N % 4 == 0 && wire_is_at(p, 16)) {
        DEV_UNROLL
        for (int i = 0; i + 4 <= N; i += 4)
            dev_store16(bytes + i * 4,
                        make_uint4(w[i], w[i + 1], w[i + 2], w[i + 3]));
        return;
    }
    if (wire_is_at(p, 4)) {
        DEV_UNROLL
        for (int i = 0; i < N; i++)
            dev_store_word(bytes + 4 * i, w[i]);
        return;
    }
    DEV_UNROLL
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 4; k++)
            bytes[4 * i + k] = (uint8_t)(w[i] >> 8 * k);
}

/* A piece in fp32, as it is. */
DEV void wire_get_floats(const void *p, float *v)
{
    uint32_t w[WIRE_PIECE];

    wire_get(p, w);
    DEV_UNROLL
    for (int k = 0; k < WIRE_PIECE; k++)
        v[k] = __uint_as_float(w[k]);
}
DEV void wire_put_floats(void *p, const float *v)
{
    uint32_t w[WIRE_PIECE];

    DEV_UNROLL
    for (int k = 0; k < WIRE_PIECE; k++)
        w[k] = __float_as_uint(v[k]);
    wire_put(p, w);
}

/* Those of this thread in a block in fp32 at `p`; 0: it has none. */
DEV void wire_load(const float *p, const wire_place &at, float (&v)[WIRE_OWN])
{
    DEV_UNROLL
    for (int k = 0; k < WIRE_OWN; k++)
        v[k] = 0;
    if (!at.is_there())
        return;
    wire_get_floats(p + at.at, v);
    wire_get_floats(p + at.half + at.at, v + WIRE_PIECE);
}
DEV void wire_store(float *p, const wire_place &at, const float (&v)[WIRE_OWN])
{
    if (!at.is_there())
        return;
    wire_put_floats(p + at.at, v);
    wire_put_floats(p + at.half + at.at, v + WIRE_PIECE);
}

/* A piece in 16 bits, as words. */
template <class T> DEV void wire_halves(const float *v, uint32_t (&w)[4])
{
    DEV_UNROLL
    for (int k = 0; k < 4; k++)
        w[k] = dev_half_bits<T>(v[2 * k]) | dev_half_bits<T>(v[2 * k + 1])
                                                << 16;
}
template <class T> DEV void wire_put_halves(void *p, const float *v)
{
    uint32_t w[4];

    wire_halves<T>(v, w);
    if (wire_is_at(p, 4)) {
        wire_put(p, w);
        return;
    }
    DEV_UNROLL
    for (int k = 0; k < WIRE_PIECE; k++)
        ((uint16_t *)p)[k] = (uint16_t)(w[k / 2] >> k % 2 * 16);
}

template <class T> DEV void wire_get_halves(const void *p, float *v)
{
    uint32_t w[4];

    if (wire_is_at(p, 4))
        wire_get(p, w);
    else
        for (int k = 0; k < 4; k++)
            w[k] = ((const uint16_t *)p)[2 * k] |
                   (uint32_t)((const uint16_t *)p)[2 * k + 1] << 16;
    DEV_UNROLL
    for (int k = 0; k < WIRE_PIECE; k++) {
        const uint16_t bits = (uint16_t)(w[k / 2] >> k % 2 * 16);
        T half;

        memcpy(&half, &bits, sizeof(half));
        v[k] = dev_wide(half);
    }
}

/* Numbers from `at` on of data that may be narrow. */
struct wire_out {
    void *at;
    int64_t type; /* of enum dsflow_dtype */

    DEV void put(int64_t i, const float *v) const
    {
        if (type == DSFLOW_FP32)
            wire_put_floats((float *)at + i, v);
        else if (type == DSFLOW_BF16)
            wire_put_halves<bf16>((uint16_t *)at + i, v);
        else
            wire_put_halves<fp16>((uint16_t *)at + i, v);
    }
    /* Of the block that begins with number i. */
    DEV void store(int64_t i, const wire_place &of,
                   const float (&v)[WIRE_OWN]) const
    {
        if (!of.is_there())
            return;
        put(i + (int64_t)of.at, v);
        put(i + (int64_t)(of.half + of.at), v + WIRE_PIECE);
    }
};

/* --- teams ---------------------------------------------------------------- */

/* The threads of one threadIdx.y, which are whole warps: one, or all of the
 * block. `room`: its shared memory. What several do has all of them. */
struct wire_team {
    char *room;
    unsigned turn;

    enum { WARPS = WIRE_MOST_THREADS / 32 };
    enum { ROOM = 2 * WARPS * 4 + 16 }; /* and a block, where squares are */

    DEV unsigned warps() const
    {
        return blockDim.x / 32;
    }
    DEV void sync() const
    {
        if (warps() > 1)
            __syncthreads();
        else
            __syncwarp();
    }

    /* The largest of all, in each thread. Turns have memory of their own: who
     * is a barrier behind still reads that of the last one. */
    DEV uint32_t most(uint32_t v)
    {
        uint32_t *of = (uint32_t *)room + (turn++ % 2) * WARPS;

        for (unsigned apart = 16; apart > 0; apart /= 2) {
            const uint32_t other = __shfl_xor_sync(~0u, v, apart);

            v = other > v ? other : v;
        }
        if (warps() == 1)
            return v;
        if (threadIdx.x % 32 == 0)
            of[threadIdx.x / 32] = v;
        __syncthreads();
        for (unsigned i = 0; i < warps(); i++)
            v = of[i] > v ? of[i] : v;
        return v;
    }

    /* The sum of the squares of the block, of so many numbers of it at a time,
     * in each thread: by one warp. */
    DEV double squares(const wire_place &at, const float (&v)[WIRE_OWN],
                       size_t some) const
    {
        double *sum = (double *)(room + 2 * WARPS * 4);
        float *block = (float *)(room + ROOM);
        const size_t n = 2 * at.half;
        double own = 0;

        sync();
        wire_store(block, at, v);
        sync();
        for (size_t k = 0; k < n && threadIdx.x < 32; k += some)
            own = __dadd_rn(own, dev_squares_of<false>(
                                     block + k, n - k < some ? n - k : some));
        if (threadIdx.x == 0)
            *sum = own;
        sync();
        return *sum;
    }
};

#endif
