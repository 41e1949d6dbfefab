/* test_pack.c - states in fewer bytes: how far from the numbers, in the mean
 * none; the same bits however they are cut and whatever computes them; and
 * packed again, the same bytes. */
#include "unit/kernels/numeric.h"

#include "base/random.h"
#include "codelets/codelets.h"
#include "codelets/pack.h"
#include "tasks/tasks.h"

enum { N = 8 * 256 + 77, BLOCK = DSF_PACK_BLOCK };

static const enum dsf_states formats[] = { DSF_STATES_BF16, DSF_STATES_INT8 };

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

static void task(const struct dsflow_codelet *c,
                 const struct dsf_pack_args *args, struct dsflow_buf *bufs)
{
    struct dsflow_shape shapes[3];
    struct dsflow_cost cost = { .flops = -1, .bytes = -1 };
    struct dsflow_err err;

    for (unsigned i = 0; i < c->op->nports; i++)
        shapes[i] = dsflow_shape_of(bufs[i].dtype, bufs[i].elems);
    if (c->op->check(shapes, c->op->nports, args, &err) < 0)
        fail_msg("%s", err.msg);
    c->op->cost(shapes, c->op->nports, args, &cost);
    assert_true(cost.bytes > 0 || args->elems == 0);
    c->cpu(&(struct dsflow_call){
        .bufs = bufs, .nbufs = c->op->nports, .args = args });
}

static struct dsflow_buf buf_of(void *ptr, struct dsflow_shape s)
{
    return (struct dsflow_buf){ ptr, s.bytes, s.elems, s.dtype };
}

static struct dsflow_buf whole_buf(const struct dsf_pack_args *args,
                                   float *whole)
{
    return buf_of(whole, dsflow_shape_of(DSFLOW_FP32, args->elems));
}

static struct dsflow_buf packed_buf(const struct dsf_pack_args *args,
                                    void *packed)
{
    return buf_of(packed,
                  dsflow_shape_of(dsf_packed_dtype(args->format), args->elems));
}

static void pack_at(const struct dsf_pack_args *args, int64_t step,
                    float *whole, void *packed)
{
    struct dsflow_control control = { .step = step };

    task(&dsf_codelet_pack, args,
         (struct dsflow_buf[]){
             { &control, sizeof(control), sizeof(control), DSFLOW_BYTES },
             whole_buf(args, whole),
             packed_buf(args, packed) });
}

static void unpack(const struct dsf_pack_args *args, void *packed, float *whole)
{
    task(&dsf_codelet_unpack, args,
         (struct dsflow_buf[]){ packed_buf(args, packed),
                                whole_buf(args, whole) });
}

/* There and back. */
static void turn(enum dsf_states format, int64_t step, struct numbers *v)
{
    const struct dsf_pack_args args = { .elems = N,
                                        .stream = 7,
                                        .format = format };

    pack_at(&args, step, v->whole, v->packed);
    unpack(&args, v->packed, v->back);
}

static void nearest(enum dsf_states format, struct numbers *v)
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
        turn(DSF_STATES_BF16, spread, &x);
        for (size_t i = 0; i < N; i++) {
            double size = fabs((double)x.whole[i]);

            if (size > 0)
                is_within(i, size, fmax(0x1p-7 * size, 0x1p-133));
            else
                assert_true(x.back[i] == 0);
        }
        nearest(DSF_STATES_BF16, &x);
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
            turn(DSF_STATES_INT8, spread, &x);
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
        struct dsf_pack_args args = { 4096, 0, 1, DSF_STATES_BF16 };

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
        struct dsf_pack_args args = { N, 1024, 11, formats[f] };

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

static void same_bytes_again(enum dsf_states format, struct numbers *v)
{
    struct numbers *w = v == &x ? &y : &x;

    memcpy(w->whole, v->back, sizeof(v->back));
    nearest(format, w);
    assert_memory_equal(w->packed, v->packed, dsf_packed_bytes(format, N));
    assert_memory_equal(w->back, v->back, sizeof(v->back));
    turn(format, 99, w);
    assert_memory_equal(w->packed, v->packed, dsf_packed_bytes(format, N));
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
        turn(DSF_STATES_INT8, (int64_t)seed, &x);
        lost += x.back[1] == 0;
        same_bytes_again(DSF_STATES_INT8, &x);
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
        turn(DSF_STATES_BF16, step, &x);
        assert_true(isinf(x.back[0]) && x.back[0] > 0);
        assert_true(isinf(x.back[1]) && x.back[1] < 0);
        assert_true(x.back[2] == 0x1.fep127f && x.back[3] == -0x1.fep127f);
        assert_true(x.back[4] == 0 && signbit(x.back[4]));
        assert_true(isnan(x.back[6]));
        turn(DSF_STATES_INT8, step, &x);
        for (size_t i = 0; i < BLOCK; i++)
            assert_true(isnan(x.back[i]));
        for (size_t i = BLOCK; i < N; i++)
            assert_true(x.back[i] == 0);
        same_bytes_again(DSF_STATES_INT8, &x);
        memset(x.whole, 0, sizeof(x.whole));
        memcpy(x.whole, odd, sizeof(odd));
        x.whole[6] = NAN;
    }
    /* A NaN whose last bits alone say so. */
    memcpy(&x.whole[0], &(uint32_t){ 0x7f800001 }, 4);
    turn(DSF_STATES_BF16, 1, &x);
    assert_true(isnan(x.back[0]));
    memcpy(x.whole, odd, sizeof(odd));
    x.whole[0] = x.whole[1] = x.whole[6] = 0;
    turn(DSF_STATES_INT8, 1, &x);
    assert_true(x.back[2] == 0x1.fp127f && x.back[3] == -0x1.fp127f);
}

static void zeroes_are_zeroes(void **state)
{
    for (int f = 0; f < 2; f++) {
        const struct dsf_pack_args args = { .elems = N, .format = formats[f] };

        memset(&x, 0, sizeof(x));
        memset(x.back, 1, sizeof(x.back));
        unpack(&args, x.packed, x.back);
        assert_memory_equal(x.back, x.whole, sizeof(x.back));
        memset(x.packed, 1, sizeof(x.packed));
        turn(formats[f], 3, &x);
        memset(&y, 0, sizeof(y));
        assert_memory_equal(x.packed, y.packed,
                            dsf_packed_bytes(formats[f], N));
    }
}

static void bytes_say_how_many_numbers_there_are(void **state)
{
    assert_int_equal(dsf_packed_bytes(DSF_STATES_FP32, 1000), 4000);
    assert_int_equal(dsf_packed_bytes(DSF_STATES_BF16, 1000), 2000);
    assert_int_equal(dsf_packed_bytes(DSF_STATES_INT8, 1024), 1032);
    for (int64_t n = 0; n < 2000; n++)
        for (int f = DSF_STATES_FP32; f <= DSF_STATES_INT8; f++)
            assert_int_equal(dsf_packed_elems(f, dsf_packed_bytes(f, n)), n);
}

static void replicas_and_shards_have_one_stream(void **state)
{
    struct dsflow_data_spec m = DSFLOW_DATA(.name = "m.layer3.qkv", .unit = 10);
    uint64_t h = dsf_packed_stream(1, &m);

    m.name = "m.layer3.qkv.s1.c4";
    m.at = 4096;
    assert_true(dsf_packed_stream(1, &m) == h);
    assert_true(dsf_packed_stream(2, &m) != h);
    m.part = 1;
    assert_true(dsf_packed_stream(1, &m) != h);
    m.part = 0;
    m.unit = 11;
    assert_true(dsf_packed_stream(1, &m) != h);
    m.unit = 10;
    m.name = "v.layer3.qkv";
    assert_true(dsf_packed_stream(1, &m) != h);
}

static void refuses(const struct dsf_pack_args *a, int64_t whole,
                    struct dsflow_shape packed, const char *says)
{
    struct dsflow_err err;
    struct dsflow_shape shapes[] = { packed,
                                     dsflow_shape_of(DSFLOW_FP32, whole) };

    assert_int_equal(dsf_op_unpack.check(shapes, 2, a, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, says));
}

static void what_does_not_fit_is_refused(void **state)
{
    struct dsf_pack_args a = { 512, 256, 1, DSF_STATES_INT8 };
    struct dsflow_err err;
    const struct dsflow_shape packed = dsflow_shape_of(DSFLOW_INT8_BLOCK, 512);
    struct dsflow_shape shapes[] = { dsflow_shape_of(DSFLOW_BYTES, 8),
                                     dsflow_shape_of(DSFLOW_FP32, 512),
                                     packed };

    assert_int_equal(
        dsf_op_unpack.check((struct dsflow_shape[]){ packed, shapes[1] }, 2, &a,
                            &err),
        DSFLOW_OK);
    refuses(&a, 511, packed, "whole: 512 numbers from 0 on, of 511");
    refuses(&a, 512, dsflow_shape_of(DSFLOW_INT8_BLOCK, 511), "512 numbers");
    refuses(&a, 512, dsflow_shape_of(DSFLOW_BF16, 512),
            "unpack: packed: expected int8_block, is bf16");
    a.at = 128;
    refuses(&a, 512, packed, "from number 128 on: expected a multiple of 256");
    a.at = 0;
    a.format = DSF_STATES_FP32;
    refuses(&a, 512, dsflow_shape_of(DSFLOW_FP32, 512),
            "expected bf16 or int8");
    a.format = DSF_STATES_INT8;
    assert_int_equal(dsf_op_pack.check(shapes, 3, &a, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "pack: control: 8 bytes: expected 48");
}

/* The sizes of gradients in one block are 2^-10 to 1, and one number in eight
 * has a gradient in one step of ten only: Adam's steps are as large as they
 * would be, and none explodes. Returns the mean distance from the minimum, in
 * units of where it began. */
static double descend(enum dsf_states format, double *longest)
{
    enum { UNKNOWNS = 512, STEPS = 1500 };
    static float p[UNKNOWNS], g[UNKNOWNS], m[UNKNOWNS], v[UNKNOWNS];
    static float before[UNKNOWNS];
    static uint8_t packed[2][4 * UNKNOWNS];
    struct dsf_pack_args args = { UNKNOWNS, 0, 0, format };
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
        if (format == DSF_STATES_FP32)
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
    double longest, most, want = descend(DSF_STATES_FP32, &longest);

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
        cmocka_unit_test(all_instructions_give_the_same_bits),
        cmocka_unit_test(what_was_unpacked_gives_the_same_bytes),
        cmocka_unit_test(blocks_that_lose_their_signs_give_the_same_bytes),
        cmocka_unit_test(special_numbers),
        cmocka_unit_test(zeroes_are_zeroes),
        cmocka_unit_test(bytes_say_how_many_numbers_there_are),
        cmocka_unit_test(replicas_and_shards_have_one_stream),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(adam_descends_with_packed_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
