/* test_cast.c - states in fewer bytes: how far from the numbers, in the mean
 * none; the same bits however they are cut and whatever computes them; and
 * packed again, the same bytes. */
#include "unit/kernels/numeric.h"

#include "base/half.h"
#include "base/random.h"
#include "codelets/codelets.h"
#include "codelets/cast.h"
#include "tasks/stream.h"
#include "tasks/tasks.h"

enum { N = 8 * 256 + 77, BLOCK = DSF_PACK_BLOCK };

static const enum dsflow_dtype formats[] = { DSFLOW_BF16, DSFLOW_INT8_BLOCK };

/* How: `elems` numbers from `at` of their unit on, as this type. */
struct packing {
    int64_t elems, at;
    uint64_t stream;
    enum dsflow_dtype format;
};

/* What a test packs. */
struct numbers {
    _Alignas(64) float whole[N];
    _Alignas(64) uint8_t packed[2 * N + 64];
    _Alignas(64) float back[N];
};

static struct numbers x, y;

/* Sizes of many powers of two, 2^-spread to 2^spread; a few zeroes. */
static void fill(float *v, size_t n, uint64_t seed, int spread, bool squares)
{
    uint64_t state = seed;

    for (size_t i = 0; i < n; i++) {
        double e = (2 * dsf_random_unit(&state) - 1) * spread;

        v[i] = (float)(dsf_random_normal(&state) * exp2(e));
        if (squares)
            v[i] = fabsf(v[i]);
        if (dsf_random(&state) % 16 == 0)
            v[i] = 0;
    }
}

/* Checked as in a graph, then run. */
static void cast(const struct dsf_cast_args *args, unsigned n,
                 const struct dsflow_buf *bufs)
{
    const struct dsflow_op *op = &dsf_op_cast;
    struct dsflow_shape shapes[3];
    const struct dsflow_case c = { op, shapes, n, args };
    struct dsflow_cost cost = { .flops = 0, .bytes = 0 };
    struct dsflow_err err;

    for (unsigned i = 0; i < n; i++)
        shapes[i] = dsflow_shape_of(bufs[i].dtype, bufs[i].elems);
    if (op->check(&c, &err) < 0)
        fail_msg("%s", err.msg);
    op->cost(&c, &cost);
    assert_true(cost.bytes > 0 || args->elems == 0);
    dsf_codelet_cast.cpu(
        &(struct dsflow_call){ .bufs = bufs, .nbufs = n, .args = args });
}

static struct dsflow_buf buf_of(void *ptr, enum dsflow_dtype dtype, int64_t n)
{
    struct dsflow_shape s = dsflow_shape_of(dtype, n);

    return (struct dsflow_buf){ ptr, s.bytes, s.elems, s.dtype };
}

static void pack_at(const struct packing *p, int64_t step, float *whole,
                    void *packed)
{
    struct dsflow_control control = { .step = step };

    cast(&(struct dsf_cast_args){ .elems = p->elems,
                                  .at = p->at,
                                  .stream = p->stream,
                                  .rounding = DSF_ROUND_STOCHASTIC },
         3,
         (struct dsflow_buf[]){
             buf_of(whole, DSFLOW_FP32, p->elems),
             buf_of(packed, p->format, p->elems),
             buf_of(&control, DSFLOW_BYTES, sizeof(control)) });
}

static void unpack(const struct packing *p, void *packed, float *whole)
{
    cast(&(struct dsf_cast_args){ .elems = p->elems, .at = p->at }, 2,
         (struct dsflow_buf[]){ buf_of(packed, p->format, p->elems),
                                buf_of(whole, DSFLOW_FP32, p->elems) });
}

/* There and back. */
static void turn(enum dsflow_dtype format, int64_t step, struct numbers *v)
{
    const struct packing args = { .elems = N, .stream = 7, .format = format };

    pack_at(&args, step, v->whole, v->packed);
    unpack(&args, v->packed, v->back);
}

static void nearest(enum dsflow_dtype format, struct numbers *v)
{
    dsf_pack(format, &(struct dsf_rounding){ .nearest = 1 }, v->whole,
             v->packed, N);
    dsf_unpack(format, v->packed, v->back, N);
}

static void is_within(size_t i, double size, double bound)
{
    double error = fabs((double)x.back[i] - (double)x.whole[i]);

    if (!(error < bound))
        fail_msg("number %zu: %g became %g: off by %g of it, more than %g (%s)",
                 i, (double)x.whole[i], (double)x.back[i], error / size,
                 bound / size, dsf_kernels_isa());
}

static void bf16_is_off_by_less_than_its_last_place(void **state)
{
    for (int spread = 1; spread < 140; spread += 23) {
        fill(x.whole, N, (uint64_t)spread, spread < 120 ? spread : 120, false);
        turn(DSFLOW_BF16, spread, &x);
        for (size_t i = 0; i < N; i++) {
            double size = fabs((double)x.whole[i]);

            if (size > 0)
                is_within(i, size, fmax(0x1p-7 * size, 0x1p-133));
            else
                assert_true(x.back[i] == 0);
        }
        nearest(DSFLOW_BF16, &x);
        for (size_t i = 0; i < N; i++)
            if (fabsf(x.whole[i]) > 0x1p-126f)
                is_within(i, fabs((double)x.whole[i]),
                          0x1.01p-8 * fabs((double)x.whole[i]));
    }
}

/* The power of two that the bounds of a block are of. */
static int top_of(size_t block, bool *negative)
{
    double most = 0;
    int e;

    *negative = false;
    for (size_t i = block * BLOCK; i < N && i < (block + 1) * BLOCK; i++) {
        most = fmax(most, fabs((double)x.back[i]));
        *negative |= x.whole[i] < 0;
    }
    frexp(most, &e);
    return e - 1;
}

static void is_within_window(size_t i, int t, bool negative)
{
    double size = fabs((double)x.whole[i]);
    double fine = ldexp(1, t - (negative ? 3 : 7));
    double tiny = ldexp(1, t - (negative ? 10 : 22));

    if (size == 0)
        assert_true(x.back[i] == 0);
    else if (size >= fine)
        is_within(i, size, size / 16 * (1 + 1e-9));
    else if (size >= tiny)
        is_within(i, size, size / 8 * (1 + 1e-9));
    else
        is_within(i, size, tiny / 8 * (1 + 1e-9));
    if (!negative && size > 0)
        assert_true(x.back[i] > 0);
    assert_true((double)x.back[i] * (double)x.whole[i] >= 0);
}

static void int8_is_off_by_what_its_header_says(void **state)
{
    for (int spread = 0; spread < 60; spread++)
        for (int squares = 0; squares < 2; squares++) {
            fill(x.whole, N, (uint64_t)spread, spread, squares);
            turn(DSFLOW_INT8_BLOCK, spread, &x);
            for (size_t i = 0; i < N; i++) {
                bool negative;
                int t = top_of(i / BLOCK, &negative);

                is_within_window(i, t, negative);
            }
        }
}

/* The mean of many steps comes as near as chance lets it: of 4096 errors, each
 * at most `unit`, 5 standard deviations. */
static void the_mean_is_right(void **state)
{
    enum { STEPS = 4096 };
    static double sum[N];

    for (int f = 0; f < 2; f++)
        for (int squares = 0; squares < 2; squares++) {
            memset(sum, 0, sizeof(sum));
            fill(x.whole, N, 5, 8, squares);
            for (int step = 1; step <= STEPS; step++) {
                turn(formats[f], step, &x);
                for (size_t i = 0; i < N; i++)
                    sum[i] += (double)x.back[i];
            }
            for (size_t i = 0; i < N; i++) {
                double size = fabs((double)x.whole[i]), unit;
                bool negative;
                int t = top_of(i / BLOCK, &negative);

                unit = f == 0
                           ? 0x1p-7 * size
                           : fmax(size / 8, ldexp(1, t - (negative ? 13 : 25)));
                /* That is rounded up. */
                if (f == 1 && !negative && size < ldexp(1, t - 25))
                    continue;
                if (fabs(sum[i] / STEPS - (double)x.whole[i]) >
                    5 * unit / 2 / sqrt(STEPS))
                    fail_msg("%g is %g in the mean, format %d",
                             (double)x.whole[i], sum[i] / STEPS, f);
            }
        }
}

/* Errors of neighbours, of one step and the next, of one stream and another,
 * have nothing to do with each other. */
static void random_numbers_are_of_step_stream_and_place(void **state)
{
    static float a[4096], b[4096], in[4096];
    static uint8_t packed[8192];
    const struct {
        uint64_t stream;
        int64_t at, step;
    } other[] = {
        { 1, 0, 2 }, { 2, 0, 1 }, { 1, 4096, 1 }, { 1, INT64_C(1) << 40, 1 },
        { 0, 0, 1 },
    };
    double same = 0, neighbours = 0;

    for (size_t i = 0; i < 4096; i++)
        in[i] = 1 + 0x1p-8f; /* up or down, one as often as the other */
    for (size_t k = 0; k < 5; k++) {
        struct packing args = { 4096, 0, 1, DSFLOW_BF16 };

        pack_at(&args, 1, in, packed);
        unpack(&args, packed, a);
        args.at = other[k].at;
        args.stream = other[k].stream;
        pack_at(&args, other[k].step, in, packed);
        unpack(&args, packed, b);
        same = 0;
        for (size_t i = 0; i < 4096; i++)
            same += (a[i] > in[i]) == (b[i] > in[i]);
        assert_true(fabs(same / 4096 - 0.5) < 5 * 0.5 / 64);
    }
    for (size_t i = 0; i + 1 < 4096; i++)
        neighbours += (a[i] > in[i]) == (a[i + 1] > in[i + 1]);
    assert_true(fabs(neighbours / 4095 - 0.5) < 5 * 0.5 / 64);
}

static void cuts_change_no_bit(void **state)
{
    static const int64_t cuts[] = { 0, 256, 512, 1280, N };

    for (int f = 0; f < 2; f++) {
        struct packing args = { N, 1024, 11, formats[f] };

        fill(x.whole, N, 3, 12, false);
        pack_at(&args, 9, x.whole, x.packed);
        unpack(&args, x.packed, x.back);
        for (size_t k = 0; k + 1 < sizeof(cuts) / sizeof(*cuts); k++) {
            args.at = 1024 + cuts[k];
            args.elems = cuts[k + 1] - cuts[k];
            pack_at(&args, 9, x.whole + cuts[k], y.packed);
            unpack(&args, y.packed, y.back + cuts[k]);
        }
        assert_memory_equal(x.back, y.back, sizeof(x.back));
    }
}

/* Numbers from .. from + elems of unit `x`, of which `out` has the first `gone`
 * no more. */
static void slice_of(const struct dsf_cast_args *whole, enum dsflow_dtype type,
                     struct dsflow_control *control, int64_t from,
                     int64_t elems, int64_t gone, void *out)
{
    struct dsf_cast_args a = *whole;

    dsf_op_cast.slice(&a, from, elems, (int64_t[]){ 0, gone, 0 });
    cast(&a, 3,
         (struct dsflow_buf[]){
             buf_of(x.whole, DSFLOW_FP32, N),
             buf_of(out, type, gone > 0 ? elems : N),
             buf_of(control, DSFLOW_BYTES, sizeof(*control)) });
}

/* One that writes a range of what the others write too, one that has a buffer
 * of its own: each leaves the bits of the whole. */
static void slices_give_the_bits_of_the_whole(void **state)
{
    enum { FROM = 512, ELEMS = N - FROM };
    static uint8_t all[2 * N + 64], parts[2 * N + 64], own[2 * ELEMS + 64];
    static float expected[N], found[N], back[ELEMS];
    struct dsflow_control control = { .step = 4 };

    fill(x.whole, N, 5, 12, false);
    for (int f = 0; f < 2; f++) {
        const struct dsf_cast_args whole = {
            .elems = N,
            .at = 768,
            .stream = 9,
            .rounding = DSF_ROUND_STOCHASTIC,
        };

        slice_of(&whole, formats[f], &control, 0, N, 0, all);
        slice_of(&whole, formats[f], &control, 0, FROM, 0, parts);
        slice_of(&whole, formats[f], &control, FROM, ELEMS, 0, parts);
        slice_of(&whole, formats[f], &control, FROM, ELEMS, FROM, own);
        dsf_unpack(formats[f], all, expected, N);
        dsf_unpack(formats[f], parts, found, N);
        dsf_unpack(formats[f], own, back, ELEMS);
        assert_memory_equal(all, parts, dsflow_dtype_bytes(formats[f], N));
        assert_memory_equal(expected, found, sizeof(expected));
        assert_memory_equal(expected + FROM, back, sizeof(back));
    }
}

static uint8_t first[2][2][2 * N + 64];

static void pack_on_this(void)
{
    bool is_first = strcmp(dsf_kernels_isa(), "portable") == 0;

    for (int f = 0; f < 2; f++)
        for (int squares = 0; squares < 2; squares++) {
            fill(y.whole, N, 21, 30, squares);
            fill(y.whole, BLOCK, 22, 120, squares);
            y.whole[700] = INFINITY;
            y.whole[1000] = NAN;
            memset(&y.packed, 0, sizeof(y.packed));
            turn(formats[f], 5, &y);
            if (is_first)
                memcpy(first[f][squares], y.packed, sizeof(y.packed));
            assert_memory_equal(first[f][squares], y.packed, sizeof(y.packed));
            if (is_first && f == 1)
                memcpy(x.back, y.back, sizeof(y.back));
        }
    assert_memory_equal(x.back, y.back, sizeof(y.back));
}

static void all_instructions_give_the_same_bits(void **state)
{
    with_every_isa(pack_on_this);
}

static void same_bytes_again(enum dsflow_dtype format, struct numbers *v)
{
    struct numbers *w = v == &x ? &y : &x;

    memcpy(w->whole, v->back, sizeof(v->back));
    nearest(format, w);
    assert_memory_equal(w->packed, v->packed, dsflow_dtype_bytes(format, N));
    assert_memory_equal(w->back, v->back, sizeof(v->back));
    turn(format, 99, w);
    assert_memory_equal(w->packed, v->packed, dsflow_dtype_bytes(format, N));
}

static void what_was_unpacked_gives_the_same_bytes(void **state)
{
    for (int f = 0; f < 2; f++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            fill(x.whole, N, seed, (int)seed % 60, seed & 1);
            turn(formats[f], (int64_t)seed, &x);
            same_bytes_again(formats[f], &x);
        }
}

/* Where they are few and small, all may become zero: it is a block without
 * negative numbers then. */
static void blocks_that_lose_their_signs_give_the_same_bytes(void **state)
{
    unsigned lost = 0;

    for (uint64_t seed = 0; seed < 200; seed++) {
        fill(x.whole, N, seed, 14, true);
        for (size_t i = 0; i < N; i += BLOCK)
            x.whole[i + 1] = -1e-9f;
        turn(DSFLOW_INT8_BLOCK, (int64_t)seed, &x);
        lost += x.back[1] == 0;
        same_bytes_again(DSFLOW_INT8_BLOCK, &x);
    }
    assert_true(lost > 150);
}

static void special_numbers(void **state)
{
    static const float odd[] = { INFINITY,         -INFINITY, 0x1.fffffep127f,
                                 -0x1.fffffep127f, -0.0f,     0x1p-149f };

    memset(x.whole, 0, sizeof(x.whole));
    memcpy(x.whole, odd, sizeof(odd));
    x.whole[6] = NAN;
    for (int step = 1; step < 50; step++) {
        turn(DSFLOW_BF16, step, &x);
        assert_true(isinf(x.back[0]) && x.back[0] > 0);
        assert_true(isinf(x.back[1]) && x.back[1] < 0);
        assert_true(x.back[2] == 0x1.fep127f && x.back[3] == -0x1.fep127f);
        assert_true(x.back[4] == 0 && signbit(x.back[4]));
        assert_true(isnan(x.back[6]));
        turn(DSFLOW_INT8_BLOCK, step, &x);
        for (size_t i = 0; i < BLOCK; i++)
            assert_true(isnan(x.back[i]));
        for (size_t i = BLOCK; i < N; i++)
            assert_true(x.back[i] == 0);
        same_bytes_again(DSFLOW_INT8_BLOCK, &x);
        memset(x.whole, 0, sizeof(x.whole));
        memcpy(x.whole, odd, sizeof(odd));
        x.whole[6] = NAN;
    }
    /* NaNs, one of which has bits that are lost alone, are one in 16 bits. */
    memcpy(&x.whole[0], &(uint32_t){ 0x7f800001 }, 4);
    memcpy(&x.whole[1], &(uint32_t){ 0xffc00000 }, 4);
    memcpy(&x.whole[2], &(uint32_t){ 0x7fffffff }, 4);
    for (int step = 0; step < 9; step++) {
        turn(DSFLOW_BF16, step, &x);
        for (int i = 0; i < 3; i++)
            assert_memory_equal(&x.back[i], &(uint32_t){ 0x7fc00000 }, 4);
    }
    memcpy(x.whole, odd, sizeof(odd));
    x.whole[0] = x.whole[1] = x.whole[6] = 0;
    turn(DSFLOW_INT8_BLOCK, 1, &x);
    assert_true(x.back[2] == 0x1.fp127f && x.back[3] == -0x1.fp127f);
}

static void zeroes_are_zeroes(void **state)
{
    for (int f = 0; f < 2; f++) {
        const struct packing args = { .elems = N, .format = formats[f] };

        memset(&x, 0, sizeof(x));
        memset(x.back, 1, sizeof(x.back));
        unpack(&args, x.packed, x.back);
        assert_memory_equal(x.back, x.whole, sizeof(x.back));
        memset(x.packed, 1, sizeof(x.packed));
        turn(formats[f], 3, &x);
        memset(&y, 0, sizeof(y));
        assert_memory_equal(x.packed, y.packed,
                            dsflow_dtype_bytes(formats[f], N));
    }
}

static void another_state_unit_or_part_has_another_stream(void **state)
{
    uint64_t h = dsf_state_stream(1, "m", 10, 0);

    assert_true(h != 0 && dsf_state_stream(1, "m", 10, 0) == h);
    assert_true(dsf_state_stream(2, "m", 10, 0) != h);
    assert_true(dsf_state_stream(1, "m", 10, 1) != h);
    assert_true(dsf_state_stream(1, "m", 11, 0) != h);
    assert_true(dsf_state_stream(1, "v", 10, 0) != h);
    /* Runs that were begun before go on with the same numbers. */
    assert_true(h == UINT64_C(0xfb4e111d898fe978));
}

/* To the nearest, of all numbers of 16 bits and those between two of them. */
static void halves_are_the_nearest(enum dsflow_dtype dtype,
                                   float (*widen)(uint16_t),
                                   uint16_t (*narrow)(float))
{
    enum { ALL = 1 << 16 };
    static float in[ALL], back[ALL];
    static uint16_t half[ALL];
    struct dsf_cast_args a = { .elems = ALL };

    for (int i = 0; i < ALL; i++)
        half[i] = (uint16_t)i;
    cast(&a, 2,
         (struct dsflow_buf[]){ buf_of(half, dtype, ALL),
                                buf_of(back, DSFLOW_FP32, ALL) });
    for (int i = 0; i < ALL; i++) {
        assert_true(back[i] == widen((uint16_t)i) ||
                    (isnan(back[i]) && isnan(widen((uint16_t)i))));
        in[i] = i % 3 == 0 ? back[i] : back[i] * (1 + 0x1p-9f * (float)(i % 5));
    }
    cast(&a, 2,
         (struct dsflow_buf[]){ buf_of(in, DSFLOW_FP32, ALL),
                                buf_of(half, dtype, ALL) });
    for (int i = 0; i < ALL; i++)
        assert_true(isnan(in[i]) ? isnan(widen(half[i]))
                                 : half[i] == narrow(in[i]));
}

static void sixteen_bits_are_rounded_to_the_nearest(void **state)
{
    halves_are_the_nearest(DSFLOW_BF16, dsf_from_bf16, dsf_to_bf16);
    halves_are_the_nearest(DSFLOW_FP16, dsf_from_fp16, dsf_to_fp16);
}

static void doubles_are_rounded_to_the_nearest(void **state)
{
    static double wide[N];
    struct dsf_cast_args a = { .elems = N };
    struct dsflow_buf fp32 = buf_of(x.whole, DSFLOW_FP32, N);
    struct dsflow_buf fp64 = buf_of(wide, DSFLOW_FP64, N);

    fill(x.whole, N, 3, 30, false);
    cast(&a, 2, (struct dsflow_buf[]){ fp32, fp64 });
    for (size_t i = 0; i < N; i++) {
        assert_true(wide[i] == (double)x.whole[i]);
        wide[i] *= 1 + 0x1p-26; /* less than half of a last place */
    }
    memcpy(x.back, x.whole, sizeof(x.back));
    cast(&a, 2, (struct dsflow_buf[]){ fp64, fp32 });
    assert_memory_equal(x.back, x.whole, sizeof(x.back));
}

/* int8_block to the nearest is what checkpoints are read with. */
static void blocks_are_rounded_to_the_nearest(void **state)
{
    struct dsf_cast_args a = { .elems = N };

    fill(x.whole, N, 5, 10, false);
    nearest(DSFLOW_INT8_BLOCK, &x);
    cast(&a, 2,
         (struct dsflow_buf[]){ buf_of(x.whole, DSFLOW_FP32, N),
                                buf_of(y.packed, DSFLOW_INT8_BLOCK, N) });
    assert_memory_equal(x.packed, y.packed,
                        dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, N));
}

static void refuses(struct dsf_cast_args a, struct dsflow_shape in,
                    struct dsflow_shape out, int64_t control, const char *says)
{
    struct dsflow_err err = { .msg = "" };
    const struct dsflow_shape shapes[] = {
        in, out, dsflow_shape_of(DSFLOW_BYTES, control)
    };
    const struct dsflow_case c = { &dsf_op_cast, shapes, control > 0 ? 3 : 2,
                                   &a };

    assert_int_equal(dsf_op_cast.check(&c, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, says);
}

static void what_makes_no_sense_is_refused(void **state)
{
    const struct dsflow_shape fp32 = dsflow_shape_of(DSFLOW_FP32, 512);
    const struct dsflow_shape bf16 = dsflow_shape_of(DSFLOW_BF16, 512);
    const struct dsflow_shape fp16 = dsflow_shape_of(DSFLOW_FP16, 512);
    const int64_t whole = sizeof(struct dsflow_control);
    struct dsf_cast_args a = { 512, 256, 1, DSF_ROUND_STOCHASTIC, 0 };

    refuses(a, fp32, bf16, 8, "cast: control: 8 bytes: expected 80");
    refuses(a, fp32, bf16, 0,
            "cast: 2 ports: expected control where it rounds at random, and "
            "only there");
    refuses(a, dsflow_shape_of(DSFLOW_FP32, 511), bf16, whole,
            "cast: in: 512 numbers from 0 on, of 511");
    refuses(a, fp32, dsflow_shape_of(DSFLOW_BF16, 511), whole,
            "cast: out: 512 numbers from 0 on, of 511");
    refuses(a, fp32, fp16, whole,
            "cast: fp16 rounded at random: expected bf16 or int8_block");
    a.rounding = DSF_ROUND_NEAREST;
    refuses(a, bf16, fp16, 0,
            "cast: bf16 into fp16: expected fp32 and another type of floats");
    refuses(a, fp32, fp32, 0,
            "cast: fp32 into fp32: expected fp32 and another type of floats");
    refuses(a, fp32, dsflow_shape_of(DSFLOW_INT32, 512), 0,
            "cast: fp32 into int32: expected fp32 and another type of floats");
    a.at = 128;
    refuses(a, fp32, bf16, 0,
            "cast: from number 128 on: expected a multiple of 256");
}

/* A buffer that larger ones use too: what is moved of it are the first bytes,
 * scales and codes together. */
static void a_longer_buffer_has_the_bytes_of_its_numbers(void **state)
{
    struct dsf_cast_args a = { .elems = N / 2, .packed = N / 2 };
    size_t bytes = dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, N / 2);

    fill(x.whole, N, 5, 10, false);
    cast(&a, 2,
         (struct dsflow_buf[]){ buf_of(x.whole, DSFLOW_FP32, N),
                                buf_of(x.packed, DSFLOW_INT8_BLOCK, N / 2) });
    memset(&y, 0, sizeof(y));
    cast(&a, 2,
         (struct dsflow_buf[]){ buf_of(x.whole, DSFLOW_FP32, N),
                                buf_of(y.packed, DSFLOW_INT8_BLOCK, N) });
    assert_memory_equal(x.packed, y.packed, bytes);
    memset((char *)y.packed + bytes, 0xff, sizeof(y.packed) - bytes);
    cast(&a, 2,
         (struct dsflow_buf[]){ buf_of(x.packed, DSFLOW_INT8_BLOCK, N / 2),
                                buf_of(x.back, DSFLOW_FP32, N) });
    cast(&a, 2,
         (struct dsflow_buf[]){ buf_of(y.packed, DSFLOW_INT8_BLOCK, N),
                                buf_of(y.back, DSFLOW_FP32, N) });
    assert_memory_equal(x.back, y.back, N / 2 * sizeof(*x.back));
    refuses(a, dsflow_shape_of(DSFLOW_FP32, N),
            dsflow_shape_of(DSFLOW_INT8_BLOCK, N / 2 - 256), 0,
            "cast: numbers 0 to 1062 of 1062 in a buffer of 806: expected a "
            "range of them");
}

static void places_of_packed_numbers_are_those_of_blocks(void **state)
{
    struct dsf_cast_args a = { .elems = 100, .out_at = 100 };

    refuses(a, dsflow_shape_of(DSFLOW_FP32, 512),
            dsflow_shape_of(DSFLOW_INT8_BLOCK, 512), 0,
            "cast: from number 100 on: expected a multiple of 256");
}

/* The sizes of gradients in one block are 2^-10 to 1, and one number in eight
 * has a gradient in one step of ten only: Adam's steps are as large as they
 * would be, and none explodes. Returns the mean distance from the minimum, in
 * units of where it began. */
static double descend(enum dsflow_dtype format, double *longest)
{
    enum { UNKNOWNS = 512, STEPS = 1500 };
    static float p[UNKNOWNS], g[UNKNOWNS], m[UNKNOWNS], v[UNKNOWNS];
    static float before[UNKNOWNS];
    static uint8_t packed[2][4 * UNKNOWNS];
    struct packing args = { UNKNOWNS, 0, 0, format };
    uint64_t state = 1;
    double left = 0;

    *longest = 0;
    memset(m, 0, sizeof(m));
    memset(v, 0, sizeof(v));
    for (size_t i = 0; i < UNKNOWNS; i++)
        p[i] = 1;
    for (int step = 1; step <= STEPS; step++) {
        struct dsf_adam_step a = {
            .scale = 1,
            .lr1 = (float)(0.01 * (1 - step / (STEPS + 1.0)) /
                           (1 - pow(0.9, step))),
            .root2 = (float)sqrt(1 - pow(0.99, step)),
            .beta1 = 0.9,
            .beta2 = 0.99,
            .eps = 1e-12f,
        };

        for (size_t i = 0; i < UNKNOWNS; i++) {
            double noisy = (double)p[i] + 0.5 * dsf_random_normal(&state);
            bool comes = i % 8 != 0 || dsf_random(&state) % 10 == 0;

            g[i] = comes ? (float)(noisy * exp2(-(double)(i % 11))) : 0;
        }
        memcpy(before, p, sizeof(p));
        dsf_adam_update(&a, p, g, m, v, UNKNOWNS);
        for (size_t i = 0; i < UNKNOWNS; i++)
            *longest = fmax(*longest, fabs((double)p[i] - (double)before[i]));
        if (format == DSFLOW_FP32)
            continue;
        args.stream = 1;
        pack_at(&args, step, m, packed[0]);
        unpack(&args, packed[0], m);
        args.stream = 2;
        pack_at(&args, step, v, packed[1]);
        unpack(&args, packed[1], v);
    }
    for (size_t i = 0; i < UNKNOWNS; i++)
        left += fabs((double)p[i]) / UNKNOWNS;
    return left;
}

static void adam_descends_with_packed_states(void **state)
{
    double longest, most, want = descend(DSFLOW_FP32, &longest);

    assert_true(want < 0.1);
    for (int f = 0; f < 2; f++) {
        double left = descend(formats[f], &most);

        if (left > want * 1.25 || most > 2 * longest)
            fail_msg("format %d: %g left, not %g; a step of %g, not %g", f,
                     left, want, most, longest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_is_off_by_less_than_its_last_place),
        cmocka_unit_test(int8_is_off_by_what_its_header_says),
        cmocka_unit_test(the_mean_is_right),
        cmocka_unit_test(random_numbers_are_of_step_stream_and_place),
        cmocka_unit_test(cuts_change_no_bit),
        cmocka_unit_test(slices_give_the_bits_of_the_whole),
        cmocka_unit_test(a_longer_buffer_has_the_bytes_of_its_numbers),
        cmocka_unit_test(places_of_packed_numbers_are_those_of_blocks),
        cmocka_unit_test(all_instructions_give_the_same_bits),
        cmocka_unit_test(what_was_unpacked_gives_the_same_bytes),
        cmocka_unit_test(blocks_that_lose_their_signs_give_the_same_bytes),
        cmocka_unit_test(special_numbers),
        cmocka_unit_test(zeroes_are_zeroes),
        cmocka_unit_test(another_state_unit_or_part_has_another_stream),
        cmocka_unit_test(sixteen_bits_are_rounded_to_the_nearest),
        cmocka_unit_test(doubles_are_rounded_to_the_nearest),
        cmocka_unit_test(blocks_are_rounded_to_the_nearest),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(adam_descends_with_packed_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
