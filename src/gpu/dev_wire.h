/* dev_wire.h - numbers in a format for the wire (tasks/coding.h,
 * kernels/wire_blocks.h), with the bits of cores: a team of threads has a block
 * of a coding in its registers, and reads and writes it once. A block is 16 to
 * 4096 numbers, of which each thread has 8 that follow each other in the first
 * half and 8 in the second one: in 4 bits these share bytes. */
#ifndef DSF_GPU_DEV_WIRE_H
#define DSF_GPU_DEV_WIRE_H

#include "gpu/dev_wire_team.h"

#include "tasks/args.h"

/* --- formats -------------------------------------------------------------- */

/* Each has: the bytes of a block; those of shared memory that a team needs; the
 * scale of a block; what a number becomes of a scale when it is coded and
 * decoded; and a block put into its bytes, and taken out of them. */

DEV void wire_put_scale(uint8_t *out, const wire_place &at, float scale)
{
    const uint32_t w[1] = { __float_as_uint(scale) };

    if (at.at == 0)
        wire_put(out, w);
}
DEV float wire_get_scale(const uint8_t *in)
{
    uint32_t w[1];

    wire_get(in, w);
    return __uint_as_float(w[0]);
}

struct wire_bf16 {
    static DEV_BOTH size_t bytes(size_t block)
    {
        return block * sizeof(uint16_t);
    }
    static DEV_BOTH size_t room(size_t)
    {
        return 0;
    }
    static DEV float scale(wire_team &, const wire_place &,
                           const float (&)[WIRE_OWN])
    {
        return 1;
    }
    static DEV float as_sent(float v, float)
    {
        return __uint_as_float(dev_half_bits<bf16>(v) << 16);
    }
    static DEV void put(uint8_t *out, const wire_place &at, float,
                        const float (&v)[WIRE_OWN])
    {
        wire_put_halves<bf16>(out + 2 * at.at, v);
        wire_put_halves<bf16>(out + 2 * (at.half + at.at), v + WIRE_PIECE);
    }
    static DEV void get(const uint8_t *in, const wire_place &at,
                        float (&v)[WIRE_OWN])
    {
        DEV_UNROLL
        for (int p = 0; p < 2; p++) {
            uint32_t w[4];

            wire_get(in + 2 * (p * at.half + at.at), w);
            DEV_UNROLL
            for (int k = 0; k < WIRE_PIECE; k++)
                v[p * WIRE_PIECE + k] = __uint_as_float(
                    k % 2 ? w[k / 2] & 0xffff0000u : w[k / 2] << 16);
        }
    }
};

/* Whole numbers of 8 or 4 bits. */
template <int BITS> struct wire_whole {
    static DEV_BOTH size_t bytes(size_t block)
    {
        return DSF_WIRE_SCALE + block * BITS / 8;
    }
    static DEV_BOTH size_t room(size_t)
    {
        return 0;
    }
    static DEV float scale(wire_team &team, const wire_place &,
                           const float (&v)[WIRE_OWN])
    {
        uint32_t most = 0;
        float s;

        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++) {
            const uint32_t size = __float_as_uint(v[k]) & 0x7fffffff;

            most = size > most ? size : most;
        }
        most = team.most(most);
        if (most >= 0x7f800000)
            return __uint_as_float(WIRE_NAN);
        s = __fmul_rn(__uint_as_float(most), 2.0f / (1 << BITS));
        return s == 0 ? 1 : s;
    }
    /* From -2^(BITS-1) on; 0, where the scale is no number. */
    static DEV int code(float v, float s)
    {
        const float most = (1 << (BITS - 1)) - 1, x = __fdiv_rn(v, s);

        return s == s ? __float2int_rn(x < -most - 1 ? -most - 1
                                       : x > most    ? most
                                                     : x)
                      : 0;
    }
    static DEV float as_sent(float v, float s)
    {
        return __fmul_rn((float)code(v, s), s);
    }
    static DEV void put(uint8_t *out, const wire_place &at, float s,
                        const float (&v)[WIRE_OWN])
    {
        uint32_t w[2][2] = {};

        wire_put_scale(out, at, s);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++) {
            const uint32_t c = (uint32_t)code(v[k], s);
            const int p = k / WIRE_PIECE, i = k % WIRE_PIECE;

            if (BITS == 8)
                w[p][i / 4] |= (c & 255) << i % 4 * 8;
            else
                w[0][i / 4] |= (c & 15) << (i % 4 * 8 + p * 4);
        }
        wire_put(out + DSF_WIRE_SCALE + at.at, w[0]);
        if (BITS == 8)
            wire_put(out + DSF_WIRE_SCALE + at.half + at.at, w[1]);
    }
    static DEV void get(const uint8_t *in, const wire_place &at,
                        float (&v)[WIRE_OWN])
    {
        const float s = wire_get_scale(in);
        uint32_t w[2][2] = {};

        wire_get(in + DSF_WIRE_SCALE + at.at, w[0]);
        if (BITS == 8)
            wire_get(in + DSF_WIRE_SCALE + at.half + at.at, w[1]);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++) {
            const int p = k / WIRE_PIECE, i = k % WIRE_PIECE;
            const uint32_t raw = BITS == 8
                                     ? w[p][i / 4] << (24 - i % 4 * 8)
                                     : w[0][i / 4] << (28 - i % 4 * 8 - p * 4);

            v[k] = __fmul_rn((float)((int32_t)raw >> (32 - BITS)), s);
        }
    }
};

DEV float wire_sign_scale(double squares, double n)
{
    const float scale = __double2float_rn(__dsqrt_rn(__ddiv_rn(squares, n)));

    return (__float_as_uint(scale) & 0x7fffffff) < 0x7f800000
               ? scale
               : __uint_as_float(WIRE_NAN);
}

struct wire_sign {
    static DEV_BOTH size_t bytes(size_t block)
    {
        return DSF_WIRE_SCALE + block / 8;
    }
    static DEV_BOTH size_t room(size_t block)
    {
        return block * sizeof(float);
    }
    static DEV float scale(wire_team &team, const wire_place &at,
                           const float (&v)[WIRE_OWN])
    {
        return wire_sign_scale(team.squares(at, v, 2 * at.half),
                               (double)(2 * at.half));
    }
    static DEV float as_sent(float v, float s)
    {
        return v < 0 ? -s : s;
    }
    static DEV void put(uint8_t *out, const wire_place &at, float s,
                        const float (&v)[WIRE_OWN])
    {
        uint32_t signs = 0;

        wire_put_scale(out, at, s);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            signs |= v[k] < 0 ? 1u << k : 0;
        out += DSF_WIRE_SCALE;
        out[at.at / 8] = (uint8_t)signs;
        out[(at.half + at.at) / 8] = (uint8_t)(signs >> 8);
    }
    static DEV void get(const uint8_t *in, const wire_place &at,
                        float (&v)[WIRE_OWN])
    {
        const float s = wire_get_scale(in);
        uint32_t signs;

        in += DSF_WIRE_SCALE;
        signs = in[at.at / 8] | (uint32_t)in[(at.half + at.at) / 8] << 8;
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            v[k] = signs >> k & 1 ? -s : s;
    }
};

/* CALL, with F the format that the coding names. */
#define WIRE_BY_FORMAT(coding, F, CALL)                                        \
    do {                                                                       \
        if (strcmp((coding).format, "bf16") == 0) {                            \
            typedef wire_bf16 F;                                               \
            CALL;                                                              \
        } else if (strcmp((coding).format, "int8") == 0) {                     \
            typedef wire_whole<8> F;                                           \
            CALL;                                                              \
        } else if (strcmp((coding).format, "int4") == 0) {                     \
            typedef wire_whole<4> F;                                           \
            CALL;                                                              \
        } else {                                                               \
            typedef wire_sign F;                                               \
            CALL;                                                              \
        }                                                                      \
    } while (0)

/* --- blocks --------------------------------------------------------------- */

/* What a block's numbers are when they have been sent. `scales`: of tensors;
 * NULL: each block has its own. */
template <class F>
DEV void wire_send(wire_team &team, const dsf_coding &c, const float *scales,
                   int64_t at, const wire_place &of, float (&v)[WIRE_OWN])
{
    const int64_t tensor = wire_tensor(c, at);
    float s;

    if (tensor == WIRE_PLAIN)
        return;
    s = tensor >= 0 && scales != nullptr ? scales[tensor]
                                         : F::scale(team, of, v);
    DEV_UNROLL
    for (int k = 0; k < WIRE_OWN; k++)
        v[k] = F::as_sent(v[k], s);
}

/* Numbers of a block into their bytes, and out of these. */
template <class F>
DEV void wire_encode(wire_team &team, const dsf_coding &c, const float *scales,
                     int64_t at, const wire_place &of,
                     const float (&v)[WIRE_OWN], uint8_t *out)
{
    const int64_t tensor = wire_tensor(c, at);
    float s;

    if (tensor == WIRE_PLAIN) {
        wire_store((float *)out, of, v);
        return;
    }
    s = tensor >= 0 && scales != nullptr ? scales[tensor]
                                         : F::scale(team, of, v);
    if (of.is_there())
        F::put(out, of, s, v);
}
template <class F>
DEV void wire_decode(const dsf_coding &c, int64_t at, const wire_place &of,
                     const uint8_t *in, float (&v)[WIRE_OWN])
{
    if (wire_tensor(c, at) == WIRE_PLAIN)
        wire_load((const float *)in, of, v);
    else if (of.is_there())
        F::get(in, of, v);
}

/* loops_signs.h: finite_or. */
DEV float wire_finite_or(float a, float b)
{
    return (__float_as_uint(a) & 0x7fffffff) < 0x7f800000 ? a : b;
}

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

/* What a kernel does with each block of a range: an OP has the coding c, a
 * function `begin` that all threads call before the first one, for FRONT bytes
 * at the beginning of shared memory, `of` with the range, and `block`. */
struct wire_range {
    int64_t at, elems; /* of the unit */
};
struct wire_op {
    enum { FRONT = 0 };
    dsf_coding c;
    wire_range range;

    DEV void begin() const
    {
    }
    DEV wire_range of() const
    {
        return range;
    }
};

template <class OP>
__global__ void __launch_bounds__(WIRE_MOST_THREADS)
    wire_blocks(const OP op, size_t room)
{
    const wire_range r = op.of();
    const int64_t n = r.elems / op.c.block;
    int64_t b = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    wire_team team = { dev_shared<char>() + OP::FRONT + threadIdx.y * room, 0 };

    op.begin();
    for (; b < n; b += (int64_t)gridDim.x * blockDim.y)
        op.block(team, r.at + b * op.c.block);
}

/* How many threads, teams and blocks. */
struct wire_shape {
    dim3 block;
    unsigned grid;
};
inline wire_shape wire_shape_of(const dsf_coding &c, int64_t elems)
{
    const unsigned lanes = (unsigned)c.block / WIRE_OWN;
    const unsigned threads = lanes <= 32             ? 32
                             : lanes <= WIRE_THREADS ? WIRE_THREADS
                                                     : WIRE_MOST_THREADS;
    const unsigned teams = threads < WIRE_THREADS ? WIRE_THREADS / threads : 1;
    const unsigned blocks = dev_div_up((size_t)(elems / c.block), teams);

    return { dim3(threads, teams),
             blocks < DEV_EACH_BLOCKS ? blocks : (unsigned)DEV_EACH_BLOCKS };
}

/* Of `elems` numbers, or as many at most in each of `parts`; `more`: bytes of
 * shared memory of a thread. */
template <class F, class OP>
void wire_launch(const OP &op, int64_t elems, unsigned parts, size_t more,
                 void *stream)
{
    const wire_shape s = wire_shape_of(op.c, elems);
    const size_t room =
        wire_team::ROOM + F::room((size_t)op.c.block) + more * s.block.x;

    if (elems > 0 && parts > 0)
        dev_launch((wire_blocks<OP>), dim3(s.grid, parts), s.block,
                   OP::FRONT + room * s.block.y, stream, op, room);
}

/* A side's `lacks`: its arguments begin with a coding. */
inline const char *wire_lacks(const void *args)
{
    const char *format = ((const struct dsf_coding *)args)->format;

    for (const char *known : { "bf16", "int8", "int4", "sign" })
        if (strcmp(format, known) == 0)
            return nullptr;
    return "a format of a plug-in";
}

#endif
