/* pack_cuda.cu - numbers in 16 and 8 bits, rounded at random, and back: what
 * kernels/loops_pack.h does, number by number. In 8 bits a warp has a block of
 * 256. */
#include "gpu/dev_bits.h"
#include "gpu/pack.h"

namespace {

enum {
    PACKED = DSFLOW_BLOCK_ELEMS,
    LANE = PACKED / 32, /* numbers of a block that a thread has */
    LEAST_TOP = 32,
    NO_NUMBER = 255,
    HAS_SIGNS = 0x100,
    FINITE8 = 0x7f780000 /* sizes that do not become infinities */
};

/* base/random.h: dsf_random of this state. */
DEV uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The key of a step; where the nearest is wanted, none. */
struct drawing {
    uint64_t key;
    bool nearest;

    /* 32 random bits for number i of a block, of which this is the key. */
    DEV uint32_t bits(uint64_t of_block, uint32_t i) const
    {
        uint32_t x = i * 0x9e3779b9u ^ (uint32_t)of_block;

        x = (x ^ x >> 16) * 0x7feb352du + (uint32_t)(of_block >> 32);
        x = (x ^ x >> 15) * 0x846ca68bu;
        return nearest ? 0x80000000u : x ^ x >> 16;
    }
};

/* A block of threads reads the control once: it is in main memory. */
DEV drawing drawing_of(const struct dsf_gpu_rounding &r)
{
    uint64_t *step = dev_shared<uint64_t>();

    if (threadIdx.x == 0)
        *step = r.control ? (uint64_t)r.control->step : 0;
    __syncthreads();
    return { mix(mix(r.stream) ^ *step), r.control == nullptr };
}

template <int V>
DEV void pack16_at(const drawing &d, uint64_t block, const float *in,
                   uint16_t *out, size_t i)
{
    const uint64_t key = mix(d.key + block + i / PACKED);
    uint32_t bits[V];
    float v[V];

    dev_load_all(in + i, v);
    DEV_UNROLL
    for (int k = 0; k < V; k++)
        bits[k] =
            dev_pack16(v[k], d.bits(key, (uint32_t)(i % PACKED) + (uint32_t)k));
    if constexpr (V == 1)
        out[i] = (uint16_t)bits[0];
    else
        dev_store16(out + i,
                    make_uint4(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16,
                               bits[4] | bits[5] << 16,
                               bits[6] | bits[7] << 16));
}

template <int V>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    pack16(struct dsf_gpu_rounding r, const float *in, uint16_t *out, size_t n)
{
    const drawing d = drawing_of(r);

    dev_each<V>(n, [&](size_t i, auto width) {
        pack16_at<decltype(width)::N>(d, r.block, in, out, i);
    });
}

/* loops_pack.h: struct window. */
struct window {
    uint32_t octaves, fine, tiny;
};

DEV window window_of(uint32_t top, bool has_signs)
{
    const uint32_t o = has_signs ? 4 : 8;

    return { o, top + 1 - o, top + 2 - 3 * o };
}

/* The code of a size below `tiny`. */
DEV uint32_t code_small(uint32_t size, uint32_t random, const window &w)
{
    const bool normal = size > 0x7fffff;
    const uint32_t digits = (size & 0x7fffff) | (normal ? 0x800000 : 0);
    const uint32_t shift = w.tiny - 1 - (normal ? size >> 23 : 1);
    const uint32_t share = digits << 8 >> (shift < 31 ? shift : 31);

    return (share >> 29) + (((share & 0x1fffffff) + (random >> 3)) >> 29);
}

DEV uint32_t code_of(uint32_t size, uint32_t random, const window &w,
                     uint32_t least)
{
    if (size >= w.fine << 23)
        return ((size + (size < FINITE8 ? random >> 13 : 0)) >> 19) +
               16 * w.octaves - (w.fine << 4);
    if (size >= w.tiny << 23)
        return ((size + (random >> 12)) >> 20) + 16 * w.octaves - (w.fine << 3);
    const uint32_t small = code_small(size, random, w);

    return small > 0 ? small : size > 0 ? least : 0;
}

DEV float number_of(uint32_t byte, const window &w, bool has_signs)
{
    const uint32_t code = has_signs ? byte & 0x7f : byte;
    const float eighth = __uint_as_float((w.tiny - 3) << 23);
    const uint32_t sign = has_signs ? (byte & 0x80) << 24 : 0;
    uint32_t size;

    if (code >= 16 * w.octaves)
        size = (code + (w.fine << 4) - 16 * w.octaves) << 19;
    else if (code >= 8)
        size = (code + (w.fine << 3) - 16 * w.octaves) << 20;
    else
        size = __float_as_uint(__fmul_rn((float)(int)code, eighth));
    return __uint_as_float(size | sign);
}

/* Number k of this thread, in its block: ALIGNED: they follow each other. */
template <bool ALIGNED> DEV uint32_t place_of(int k)
{
    const uint32_t lane = threadIdx.x % 32;

    return ALIGNED ? lane * LANE + (uint32_t)k : lane + 32 * (uint32_t)k;
}

/* Those past the n-th of the block are 0. */
template <bool ALIGNED>
DEV void load_block(const float *in, size_t n, float (&v)[LANE])
{
    if (ALIGNED && n == PACKED) {
        dev_load_all(in + place_of<true>(0), v);
        return;
    }
    DEV_UNROLL
    for (int k = 0; k < LANE; k++) {
        const uint32_t i = place_of<ALIGNED>(k);

        v[k] = i < n ? in[i] : 0;
    }
}

template <bool ALIGNED>
DEV void store_block(float *out, size_t n, const float (&v)[LANE])
{
    if (ALIGNED && n == PACKED) {
        dev_store_all(out + place_of<true>(0), v);
        return;
    }
    DEV_UNROLL
    for (int k = 0; k < LANE; k++) {
        const uint32_t i = place_of<ALIGNED>(k);

        if (i < n)
            out[i] = v[k];
    }
}

template <bool ALIGNED>
DEV void store_codes(uint8_t *codes, size_t n, const uint32_t (&c)[LANE])
{
    if (ALIGNED && n == PACKED) {
        dev_store_word(codes + place_of<true>(0),
                       make_uint2(c[0] | c[1] << 8 | c[2] << 16 | c[3] << 24,
                                  c[4] | c[5] << 8 | c[6] << 16 | c[7] << 24));
        return;
    }
    DEV_UNROLL
    for (int k = 0; k < LANE; k++) {
        const uint32_t i = place_of<ALIGNED>(k);

        if (i < n)
            codes[i] = (uint8_t)c[k];
    }
}

template <bool ALIGNED>
DEV void load_codes(const uint8_t *codes, size_t n, uint32_t (&c)[LANE])
{
    if (ALIGNED && n == PACKED) {
        const uint2 raw = dev_load_word<uint2>(codes + place_of<true>(0));

        DEV_UNROLL
        for (int k = 0; k < LANE; k++)
            c[k] = (k < 4 ? raw.x >> 8 * k : raw.y >> 8 * (k - 4)) & 0xff;
        return;
    }
    DEV_UNROLL
    for (int k = 0; k < LANE; k++) {
        const uint32_t i = place_of<ALIGNED>(k);

        c[k] = i < n ? codes[i] : 0;
    }
}

/* The codes of what this thread has; whether any has a sign. */
DEV bool encode(const float (&v)[LANE], const uint32_t (&random)[LANE],
                const window &w, uint32_t least, uint32_t (&codes)[LANE])
{
    uint32_t signs = 0;

    DEV_UNROLL
    for (int k = 0; k < LANE; k++) {
        const uint32_t x = __float_as_uint(v[k]);
        const uint32_t code = code_of(x & 0x7fffffff, random[k], w, least);
        const uint32_t sign = code > 0 ? x >> 24 & 0x80 : 0;

        codes[k] = (code | sign) & 0xff;
        signs |= sign;
    }
    return __any_sync(~0u, signs != 0);
}

/* The largest exponent of the block when all are rounded to 16 steps. */
DEV uint32_t find_top(const float (&v)[LANE], const uint32_t (&random)[LANE],
                      bool *negative)
{
    uint32_t most = 0, signs = 0;

    DEV_UNROLL
    for (int k = 0; k < LANE; k++) {
        const uint32_t x = __float_as_uint(v[k]);
        uint32_t size = x & 0x7fffffff;

        signs |= size > 0 ? x : 0;
        size += size < FINITE8 ? random[k] >> 13 : 0;
        most = size > most ? size : most;
    }
    for (unsigned apart = 16; apart > 0; apart /= 2) {
        const uint32_t other = __shfl_xor_sync(~0u, most, apart);

        most = other > most ? other : most;
    }
    *negative = __any_sync(~0u, (signs >> 31) != 0);
    return most >> 23;
}

/* Returns the head of the block. */
DEV uint32_t pack8_block(float (&v)[LANE], const uint32_t (&random)[LANE],
                         uint32_t (&codes)[LANE])
{
    bool negative;
    uint32_t top = find_top(v, random, &negative);
    window w;

    if (top < LEAST_TOP)
        top = LEAST_TOP;
    if (top == NO_NUMBER) {
        DEV_UNROLL
        for (int k = 0; k < LANE; k++)
            codes[k] = 0;
        return NO_NUMBER - LEAST_TOP;
    }
    w = window_of(top, negative);
    if (encode(v, random, w, !negative, codes) == negative)
        return top - LEAST_TOP + (negative ? HAS_SIGNS : 0);
    /* All that was below 0 has become 0: it is coded as a block without
     * signs. */
    DEV_UNROLL
    for (int k = 0; k < LANE; k++)
        v[k] = number_of(codes[k], w, true);
    encode(v, random, window_of(top, false), 1, codes);
    return top - LEAST_TOP;
}

DEV size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

template <bool ALIGNED>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    pack8(struct dsf_gpu_rounding r, const float *in, uint16_t *heads,
          uint8_t *codes, size_t n)
{
    const drawing d = drawing_of(r);
    const size_t warps = blockDim.x / 32;
    size_t b = blockIdx.x * warps + threadIdx.x / 32;

    for (; b * PACKED < n; b += gridDim.x * warps) {
        const uint64_t key = mix(d.key + r.block + b);
        const size_t at = b * PACKED, here = fewer(n - at, PACKED);
        uint32_t random[LANE], code[LANE], head;
        float v[LANE];

        load_block<ALIGNED>(in + at, here, v);
        DEV_UNROLL
        for (int k = 0; k < LANE; k++)
            random[k] = d.bits(key, place_of<ALIGNED>(k));
        head = pack8_block(v, random, code);
        store_codes<ALIGNED>(codes + at, here, code);
        if (threadIdx.x % 32 == 0)
            heads[b] = (uint16_t)head;
    }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    unpack8(const uint16_t *heads, const uint8_t *codes, float *out, size_t n)
{
    const size_t warps = blockDim.x / 32;
    size_t b = blockIdx.x * warps + threadIdx.x / 32;

    for (; b * PACKED < n; b += gridDim.x * warps) {
        const size_t at = b * PACKED, here = fewer(n - at, PACKED);
        const uint32_t top = (heads[b] & 0xffu) + LEAST_TOP;
        const bool has_signs = heads[b] & HAS_SIGNS;
        const window w = window_of(top, has_signs);
        uint32_t code[LANE];
        float v[LANE];

        load_codes<ALIGNED>(codes + at, here, code);
        DEV_UNROLL
        for (int k = 0; k < LANE; k++)
            v[k] = top >= NO_NUMBER ? __uint_as_float(0x7fc00000)
                                    : number_of(code[k], w, has_signs);
        store_block<ALIGNED>(out + at, here, v);
    }
}

/* May blocks be read and written in whole words? */
bool is_aligned8(const float *whole, const uint8_t *codes)
{
    return dev_all_aligned({ whole }) && (uintptr_t)codes % sizeof(uint2) == 0;
}

} // namespace

void dsf_gpu_pack16(const struct dsf_gpu_rounding *r, const float *in,
                    uint16_t *out, size_t n, void *stream)
{
    if (n == 0)
        return;
    if (dev_all_aligned({ in, out }))
        dev_launch(pack16<8>, dev_each_grid(n, 8), DEV_EACH_THREADS,
                   sizeof(uint64_t), stream, *r, in, out, n);
    else
        dev_launch(pack16<1>, dev_each_grid(n, 1), DEV_EACH_THREADS,
                   sizeof(uint64_t), stream, *r, in, out, n);
}

void dsf_gpu_pack8(const struct dsf_gpu_rounding *r, const float *in,
                   uint16_t *heads, uint8_t *codes, size_t n, void *stream)
{
    if (n == 0)
        return;
    if (is_aligned8(in, codes))
        dev_launch(pack8<true>, dev_each_grid(n, LANE), DEV_EACH_THREADS,
                   sizeof(uint64_t), stream, *r, in, heads, codes, n);
    else
        dev_launch(pack8<false>, dev_each_grid(n, LANE), DEV_EACH_THREADS,
                   sizeof(uint64_t), stream, *r, in, heads, codes, n);
}

void dsf_gpu_unpack8(const uint16_t *heads, const uint8_t *codes, float *out,
                     size_t n, void *stream)
{
    if (n == 0)
        return;
    if (is_aligned8(out, codes))
        dev_launch(unpack8<true>, dev_each_grid(n, LANE), DEV_EACH_THREADS, 0,
                   stream, heads, codes, out, n);
    else
        dev_launch(unpack8<false>, dev_each_grid(n, LANE), DEV_EACH_THREADS, 0,
                   stream, heads, codes, out, n);
}
