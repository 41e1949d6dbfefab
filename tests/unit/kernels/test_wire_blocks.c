/* test_wire_blocks.c - numbers in 8 and 4 bits, and signs: each byte is that of
 * a plain reference, with every set of instructions. */
#include "unit/kernels/numeric.h"

#include "base/random.h"
#include "kernels/wire_blocks.h"

#include <stdbool.h>

enum { BLOCKS = 100000, MOST = 256 };

static const size_t sizes[] = { 16, 32, 48, 80, MOST };
enum { NSIZES = sizeof(sizes) / sizeof(*sizes) };

static float from_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Blocks of several sorts: ordinary ones, zeroes, denormals, ties, any bits,
 * and infinities and NaNs here and there. */
static void fill(float *x, size_t n, uint64_t *state)
{
    const uint64_t sort = dsf_random(state) % 16;
    const float least = (float)exp2(-149 + (double)(dsf_random(state) % 30));
    const double size = exp2((double)(dsf_random(state) % 240) - 120);

    for (size_t i = 0; i < n; i++) {
        const uint64_t r = dsf_random(state);
        const double v = (double)(int32_t)r / 2147483648.0;

        switch (sort) {
        case 0:
            x[i] = r & 1 ? 0.0f : -0.0f;
            break;
        case 1: /* denormals, of which s may be 0 */
            x[i] = (float)((int)(r % 301) - 150) * least;
            break;
        case 2: /* halves of a code in 8 bits; the largest is that of -128 */
            x[i] = (float)(ldexp((double)((int)(r % 511) - 255), 20) / 2);
            x[0] = -128 * 1048576.0f;
            break;
        case 3: /* and in 4 */
            x[i] = (float)((int)(r % 31) - 15) / 2;
            x[n / 2] = 8;
            break;
        case 4:
            x[i] = from_bits((uint32_t)r);
            break;
        case 5:
            x[i] = (float)v;
            break;
        case 6:
            x[i] = (float)(v * size);
            x[n - 1] = r & 1 ? INFINITY : -INFINITY;
            break;
        case 7:
            x[i] = (float)v;
            x[n / 3] = NAN;
            break;
        case 8:
            x[i] = r & 1 ? 3.4028234e38f : -3.4028234e38f;
            break;
        default:
            x[i] = (float)(v * size);
        }
    }
}

/* --- the reference ------------------------------------------------------- */

static float scale_ref(const float *x, size_t n, int bits)
{
    double most = 0;
    float s;

    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return from_bits(0x7fc00000);
        most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
    }
    s = (float)(2 * most / exp2(bits));
    return s == 0 ? 1 : s;
}

static int code_ref(float x, float s, int bits)
{
    const int half = 1 << (bits - 1);
    int code = (int)rint((double)(x / s));

    return code < -half ? -half : code > half - 1 ? half - 1 : code;
}

/* Signs: the root of the mean square, but for its last bit, which is that of
 * the order in which squares are added up. */
static size_t signs_ref(const float *x, size_t n, uint8_t *bytes, float *back)
{
    const float s = dsf_wire1_scale(dsf_square_sum(x, n), n);
    long double squares = 0;

    for (size_t i = 0; i < n; i++)
        squares += (long double)x[i] * (long double)x[i];
    squares = sqrtl(squares / (long double)n);
    if (isfinite(squares))
        assert_true(fabsl((long double)s - squares) <=
                    squares * 0x1p-23L + 0x1p-149L);
    else
        assert_true(isnan(s));
    memcpy(bytes, &s, sizeof(s));
    bytes += sizeof(s);
    memset(bytes, 0, n / 8);
    for (size_t i = 0; i < n; i++) {
        back[i] = x[i] < 0 ? -s : s;
        bytes[i / 8] |= (uint8_t)((x[i] < 0) << i % 8);
    }
    return sizeof(s) + n / 8;
}

/* The bytes, and what becomes of the numbers. */
static size_t block_ref(const float *x, size_t n, int bits, uint8_t *bytes,
                        float *back)
{
    const float s = scale_ref(x, n, bits);

    if (bits == 1)
        return signs_ref(x, n, bytes, back);
    memcpy(bytes, &s, sizeof(s));
    bytes += sizeof(s);
    memset(bytes, 0, n * (size_t)bits / 8);
    for (size_t i = 0; i < n; i++) {
        int code = isnan(s) ? 0 : code_ref(x[i], s, bits);

        back[i] = (float)code * s;
        if (bits == 8)
            bytes[i] = (uint8_t)code;
        else
            bytes[i % (n / 2)] |= (uint8_t)((code & 15) << (i < n / 2 ? 0 : 4));
    }
    return sizeof(s) + n * (size_t)bits / 8;
}

/* --- the test ------------------------------------------------------------ */

static const struct format {
    int bits;
    void (*encode)(size_t block, const float *in, uint8_t *out, size_t n);
    void (*decode)(size_t block, const uint8_t *in, float *out, size_t n);
    size_t (*bytes)(size_t block);
} formats[] = {
    { 8, dsf_wire8_encode, dsf_wire8_decode, dsf_wire8_bytes },
    { 4, dsf_wire4_encode, dsf_wire4_decode, dsf_wire4_bytes },
    { 1, dsf_wire1_encode, dsf_wire1_decode, dsf_wire1_bytes },
};

static bool same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isnan(a[i]) ? !isnan(b[i]) : memcmp(&a[i], &b[i], 4) != 0)
            return false;
    return true;
}

static void check_block(const struct format *f, const float *x, size_t n)
{
    uint8_t want[sizeof(float) + MOST], got[2 * (sizeof(float) + MOST)];
    float back[MOST], decoded[MOST];
    size_t bytes = block_ref(x, n, f->bits, want, back);

    assert_int_equal(bytes, f->bytes(n));
    memset(got, 0x5a, sizeof(got));
    f->encode(n, x, got, 1);
    assert_memory_equal(got, want, bytes);
    assert_int_equal(got[bytes], 0x5a);
    f->decode(n, got, decoded, 1);
    assert_true(same(back, decoded, n));
}

static void check_blocks(void)
{
    uint64_t state = 1;
    float x[MOST];

    for (int i = 0; i < BLOCKS; i++) {
        const size_t n = sizes[i % 64 == 0 ? NSIZES - 1 : i % (NSIZES - 1)];

        fill(x, n, &state);
        for (size_t f = 0; f < 3; f++)
            check_block(&formats[f], x, n);
    }
}

static void each_block_has_the_bytes_of_the_reference(void **state)
{
    with_every_isa(check_blocks);
}

/* Many at a time, at any address, and no byte beyond them. */
static void check_runs(void)
{
    enum { RUN = 9, N = 48 };
    struct guarded in = guarded_new(RUN * N * sizeof(float) + 4);
    float *x = (float *)(void *)(in.p + 4);
    uint64_t state = 7;

    for (size_t i = 0; i < RUN; i++)
        fill(x + i * N, N, &state);
    for (size_t k = 0; k < 3; k++) {
        const struct format *f = &formats[k];
        const size_t bytes = f->bytes(N);
        struct guarded packed = guarded_new(RUN * bytes);
        struct guarded out = guarded_new(RUN * N * sizeof(float));
        uint8_t one[sizeof(float) + N];

        f->encode(N, x, (uint8_t *)packed.p, RUN);
        f->decode(N, (uint8_t *)packed.p, (float *)(void *)out.p, RUN);
        for (size_t i = 0; i < RUN; i++) {
            float back[N];

            f->encode(N, x + i * N, one, 1);
            assert_memory_equal(packed.p + i * bytes, one, bytes);
            f->decode(N, one, back, 1);
            assert_true(same(back, (float *)(void *)out.p + i * N, N));
        }
        guarded_free(&packed);
        guarded_free(&out);
    }
    guarded_free(&in);
}

static void blocks_of_a_run_are_those_by_themselves(void **state)
{
    with_every_isa(check_runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_block_has_the_bytes_of_the_reference),
        cmocka_unit_test(blocks_of_a_run_are_those_by_themselves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
