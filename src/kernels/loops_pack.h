/* loops_pack.h - numbers in 16 and 8 bits, rounded at random, and back.
 *
 * Whole numbers only, so that every set of instructions gives the same bits.
 * A number that is rounded is the bits of its size, a sum of what is kept and
 * what is not: adding a random number of the width of the latter carries with
 * exactly the probability that makes the mean right.
 */
#ifndef DSF_KERNELS_LOOPS_PACK_H
#define DSF_KERNELS_LOOPS_PACK_H

#include "base/random.h"

typedef uint8_t vu8 __attribute__((vector_size(VW)));
typedef float vreal __attribute__((vector_size(4 * VW)));

enum {
    PACKED = DSF_PACK_BLOCK,
    LEAST_TOP = 32, /* exponent of a block: what is below its window is then
                       still a normal number */
    NO_NUMBER = 255,
    HAS_SIGNS = 0x100,
};

INLINE vu load_bits(const float *p)
{
    vu a;

    memcpy(&a, p, sizeof(a));
    return a;
}

/* The low bytes. Compilers do this one by one for AVX2. */
INLINE void store_bytes(uint8_t *p, vu a)
{
#if defined(DSF_VEC_AVX2)
    const __m256i low = _mm256_set1_epi32(0x0c080400);
    const __m256i ends = _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0);
    __m256i b = _mm256_shuffle_epi8((__m256i)a, low);

    b = _mm256_permutevar8x32_epi32(b, ends);
    _mm_storel_epi64((__m128i *)p, _mm256_castsi256_si128(b));
#else
    vu8 b = __builtin_convertvector(a, vu8);

    memcpy(p, &b, sizeof(b));
#endif
}

/* 32 random bits for each number of a block: a hash of its place (the finalizer
 * lowbias32, with a second key between its rounds). Where the nearest is
 * wanted, the half that makes it so. */
static void draw(const struct dsf_rounding *r, uint64_t block, uint32_t *bits)
{
    uint64_t state = r->key + block, key = dsf_random(&state);
    vu lane = { 0 }, low = lane + (uint32_t)key;
    vu high = lane + (uint32_t)(key >> 32);

    for (uint32_t i = 0; i < VW; i++)
        lane[i] = i;
    for (uint32_t i = 0; i < PACKED; i += VW) {
        vu x = (lane + i) * 0x9e3779b9u ^ low;

        x = (x ^ x >> 16) * 0x7feb352du + high;
        x = (x ^ x >> 15) * 0x846ca68bu;
        x ^= x >> 16;
        if (r->nearest)
            x = (x & 0) + 0x80000000u;
        memcpy(bits + i, &x, sizeof(x));
    }
}

static void pack16_block(const uint32_t *random, const float *in, uint16_t *out)
{
    const vu zero = { 0 };

    for (size_t i = 0; i < PACKED; i += VW) {
        vu x = load_bits(in + i), size = x & 0x7fffffff, r;
        vu16 y;

        memcpy(&r, random + i, sizeof(r));
        /* The largest numbers do not become infinities. Which NaN there is
         * follows from the processor: one is kept for all. */
        r = r >> 16 & below(size, zero + 0x7f7f0000);
        x = choose(below(zero + 0x7f800000, size), zero + 0x7fc0,
                   (x + r) >> 16);
        y = __builtin_convertvector(x, vu16);
        memcpy(out + i, &y, sizeof(y));
    }
}

static void pack16(const struct dsf_rounding *r, const float *in, uint16_t *out,
                   size_t n)
{
    uint32_t random[PACKED];
    float rest[PACKED] = { 0 };
    uint16_t last[PACKED];
    uint64_t block = r->block;

    for (; n >= PACKED; n -= PACKED, in += PACKED, out += PACKED) {
        draw(r, block++, random);
        pack16_block(random, in, out);
    }
    if (n == 0)
        return;
    memcpy(rest, in, n * sizeof(*in));
    draw(r, block, random);
    pack16_block(random, rest, last);
    memcpy(out, last, n * sizeof(*out));
}

/* The window of a block: codes stand for sizes in ascending order.
 *
 *   codes         octaves                            steps of an octave
 *   16 o to 32 o  the o highest, down to fine        16
 *   8 to 16 o     2 o - 1 below them, down to tiny   8
 *   0 to 8        multiples of an eighth of tiny
 *
 * with o = 4 where a bit of the byte is the sign, else 8. */
struct window {
    uint32_t octaves, fine, tiny; /* the exponents as in a float */
};

INLINE struct window window_of(uint32_t top, int has_signs)
{
    uint32_t o = has_signs ? 4 : 8;

    return (struct window){ o, top + 1 - o, top + 2 - 3 * o };
}

/* The largest exponent there is when all are rounded to 16 steps; *negative:
 * is any number below 0? */
static uint32_t find_top(const uint32_t *random, const float *in, int *negative)
{
    const vu zero = { 0 };
    vu most = zero, signs = zero;
    uint32_t top = 0, any = 0;

    for (size_t i = 0; i < PACKED; i += VW) {
        vu x = load_bits(in + i), size = x & 0x7fffffff, r;

        memcpy(&r, random + i, sizeof(r));
        signs |= x & below(zero, size);
        size += r >> 13 & below(size, zero + 0x7f780000);
        most = choose(below(most, size), size, most);
    }
    for (size_t i = 0; i < VW; i++) {
        top = most[i] > top ? most[i] : top;
        any |= signs[i];
    }
    *negative = any >> 31;
    return top >> 23;
}

/* Codes of sizes below `tiny`: shares of it in 32 bits, of which three remain.
 * For other sizes it is anything. */
INLINE vu code_small(vu size, vu r, const struct window *w)
{
    const vu zero = { 0 };
    vu e = size >> 23, normal = below(zero + 0x7fffff, size);
    vu digits = (size & 0x7fffff) | (normal & 0x800000);
    vu shift = w->tiny - 1 - choose(normal, e, zero + 1), share;

    shift = choose(below(shift, zero + 31), shift, zero + 31) & 31;
    share = digits << 8 >> shift;

    return (share >> 29) + (((share & 0x1fffffff) + (r >> 3)) >> 29);
}

/* `least` is what a size that is not zero has at least. */
INLINE vu code_of(vu size, vu r, const struct window *w, uint32_t least)
{
    const vu zero = { 0 };
    vu finite = r >> 13 & below(size, zero + 0x7f780000);
    vu high = ((size + finite) >> 19) + 16 * w->octaves - (w->fine << 4);
    vu low = ((size + (r >> 12)) >> 20) + 16 * w->octaves - (w->fine << 3);
    vu small = code_small(size, r, w);

    small = choose(below(zero, small), small, below(zero, size) & least);
    return choose(below(size, zero + (w->fine << 23)),
                  choose(below(size, zero + (w->tiny << 23)), small, low),
                  high);
}

/* Codes of a window; returns whether any has a sign. */
static int encode(const uint32_t *random, const float *in,
                  const struct window *w, uint32_t least, uint8_t *codes)
{
    const vu zero = { 0 };
    vu signs = zero;
    uint32_t any = 0;

    for (size_t i = 0; i < PACKED; i += VW) {
        vu x = load_bits(in + i), r, code;

        memcpy(&r, random + i, sizeof(r));
        code = code_of(x & 0x7fffffff, r, w, least);
        r = x >> 24 & 0x80 & below(zero, code);
        signs |= r;
        code |= r;
        store_bytes(codes + i, code);
    }
    for (size_t i = 0; i < VW; i++)
        any |= signs[i];
    return any != 0;
}

static void unpack8_block(const uint8_t *codes, uint16_t head, float *out)
{
    const vu zero = { 0 };
    int has_signs = (head & HAS_SIGNS) != 0;
    uint32_t top = (head & 0xffu) + LEAST_TOP;
    struct window w = window_of(top, has_signs);
    vu sign = zero + (has_signs ? 0x80u : 0), lost = zero;
    vu eighth = zero + ((w.tiny - 3) << 23);

    if (top >= NO_NUMBER)
        lost = ~zero;
    for (size_t i = 0; i < PACKED; i += VW) {
        vu code, high, low, small, x;
        vreal share;
        vu8 y;

        memcpy(&y, codes + i, sizeof(y));
        x = __builtin_convertvector(y, vu);
        code = x & ~sign;
        high = (code + (w.fine << 4) - 16 * w.octaves) << 19;
        low = (code + (w.fine << 3) - 16 * w.octaves) << 20;
        share = __builtin_convertvector((vn)code, vreal) * (vreal)eighth;
        small = choose(below(code, zero + 8), (vu)share, low);
        code = choose(below(code, zero + 16 * w.octaves), small, high);
        code |= (x & sign) << 24;
        code = choose(lost, zero + 0x7fc00000, code);
        memcpy(out + i, &code, sizeof(code));
    }
}

static uint16_t pack8_block(const uint32_t *random, const float *in,
                            uint8_t *codes)
{
    float rounded[PACKED];
    int negative;
    uint32_t top = find_top(random, in, &negative);
    uint16_t head;
    struct window w;

    top = top < LEAST_TOP ? LEAST_TOP : top;
    head = (uint16_t)(top - LEAST_TOP + (negative ? HAS_SIGNS : 0));
    if (top == NO_NUMBER) {
        memset(codes, 0, PACKED);
        return NO_NUMBER - LEAST_TOP;
    }
    w = window_of(top, negative);
    if (encode(random, in, &w, !negative, codes) == negative)
        return head;
    /* All that was below 0 has become 0: what is read is coded as any block
     * without signs, so that packing it again gives the same bytes. */
    unpack8_block(codes, head, rounded);
    w = window_of(top, 0);
    encode(random, rounded, &w, 1, codes);
    return head & ~HAS_SIGNS;
}

static void pack8(const struct dsf_rounding *r, const float *in,
                  uint16_t *heads, uint8_t *codes, size_t n)
{
    uint32_t random[PACKED];
    float rest[PACKED] = { 0 };
    uint8_t last[PACKED];
    uint64_t block = r->block;

    for (; n >= PACKED; n -= PACKED, in += PACKED, codes += PACKED) {
        draw(r, block++, random);
        *heads++ = pack8_block(random, in, codes);
    }
    if (n == 0)
        return;
    memcpy(rest, in, n * sizeof(*in));
    draw(r, block, random);
    *heads = pack8_block(random, rest, last);
    memcpy(codes, last, n);
}

static void unpack8(const uint16_t *heads, const uint8_t *codes, float *out,
                    size_t n)
{
    uint8_t last[PACKED] = { 0 };
    float rest[PACKED];

    for (; n >= PACKED; n -= PACKED, out += PACKED, codes += PACKED)
        unpack8_block(codes, *heads++, out);
    if (n == 0)
        return;
    memcpy(last, codes, n);
    unpack8_block(last, *heads, rest);
    memcpy(out, rest, n * sizeof(*out));
}

#endif
