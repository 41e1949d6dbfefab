/* test_feed_back.c - errors that are carried over: each number is that of a
 * plain reference, with every set of instructions; and what is sent adds up to
 * what was to be sent. */
#include "lib/test.h"

#include "base/random.h"
#include "codelets/cast.h"
#include "codelets/codelets.h"
#include "kernels/loops.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 48, STEP = 768, UNIT = 4 * STEP, CODED = UNIT - 2 * BLOCK };

static float g[UNIT], x[UNIT], e[UNIT];
static _Alignas(64) char packed[UNIT * 4], was[UNIT * 4];
static _Alignas(64) float scratch[3 * STEP];

static void fill(float *v, uint64_t seed)
{
    for (int i = 0; i < UNIT; i++)
        v[i] = (float)dsf_random_normal(&seed);
}

static struct dsf_feed_back_args args_of(const char *format)
{
    struct dsf_feed_back_args a = { .coding = { .block = BLOCK,
                                                .coded = CODED },
                                    .elems = UNIT,
                                    .reset = 3,
                                    .beta = 0.75 };

    snprintf(a.coding.format, sizeof(a.coding.format), "%s", format);
    return a;
}

static int check(const struct dsf_feed_back_args *a, enum dsflow_dtype dtype,
                 struct dsflow_err *err)
{
    const struct dsflow_shape shapes[] = {
        dsflow_shape_of(DSFLOW_BYTES, sizeof(struct dsflow_control)),
        dsflow_shape_of(DSFLOW_FP32, UNIT), dsflow_shape_of(dtype, UNIT)
    };
    const struct dsflow_case c = { &dsf_op_feed_back, shapes, 3, a };

    if (dsf_op_feed_back.check(&c, err) < 0)
        return DSFLOW_EINVAL;
    assert_true(dsf_op_feed_back.scratch(&c) <= sizeof(scratch));
    return DSFLOW_OK;
}

/* One step: `grad` and `errors` change. */
static void run(const struct dsf_feed_back_args *a, enum dsflow_dtype dtype,
                int64_t step, double scale, float *grad, void *errors)
{
    struct dsflow_control control = { .step = step, .loss_scale = scale };
    const struct dsflow_buf bufs[] = {
        { &control, sizeof(control), sizeof(control), DSFLOW_BYTES },
        { grad, UNIT * 4, UNIT, DSFLOW_FP32 },
        { errors, dsflow_dtype_bytes(dtype, UNIT), UNIT, dtype },
    };
    struct dsflow_err err;

    if (check(a, dtype, &err) < 0)
        fail_msg("%s", err.msg);
    dsf_codelet_feed_back.cpu(&(struct dsflow_call){
        .bufs = bufs, .nbufs = 3, .args = a, .scratch = scratch });
}

/* The same, plainly: x and the new errors from g and the old ones. */
static void reference(const struct dsf_feed_back_args *a, bool anew,
                      float scale, const float *grad, const float *old,
                      float *sum, float *errors)
{
    static uint8_t coded[UNIT * 4];
    static float sent[UNIT];
    struct dsf_scales scales;

    for (int i = 0; i < UNIT; i++)
        sum[i] = fmaf(scale, anew ? 0 : old[i], grad[i]);
    scales = dsf_coding_scales(&a->coding, sum);
    dsf_coding_encode(&a->coding, &scales, 0, UNIT, sum, coded);
    dsf_coding_decode(&a->coding, 0, UNIT, coded, sent);
    for (int i = 0; i < UNIT; i++) {
        float before = anew ? 0 : old[i];
        float rest = (float)(1 - a->beta) / scale;

        errors[i] = fmaf((float)a->beta, before, rest * (sum[i] - sent[i]));
        if (!isfinite(errors[i]))
            errors[i] = before;
    }
}

static void each_isa(void (*test)(void))
{
    static const char *const isas[] = { "portable", "avx2", "avx512",
                                        "avx512_bf16" };
    const struct dsf_loops *own = dsf_loops();

    for (size_t i = 0; i < 4; i++)
        if (dsf_loops_find(isas[i]) != NULL) {
            dsf_loops_use(dsf_loops_find(isas[i]));
            test();
        }
    dsf_loops_use(own);
}

static void check_fp32(void)
{
    static const char *const formats[] = { "bf16", "int8", "int4" };
    static float sum[UNIT], errors[UNIT];

    for (size_t f = 0; f < 3; f++) {
        struct dsf_feed_back_args a = args_of(formats[f]);

        fill(e, 9);
        for (int64_t step = 1; step <= 5; step++) {
            const float scale = step == 5 ? 1024 : 1;

            fill(g, (uint64_t)step);
            g[5] = step == 2 ? NAN : g[5];
            reference(&a, step == 1 || step == 4, scale, g, e, sum, errors);
            memcpy(x, g, sizeof(x));
            run(&a, DSFLOW_FP32, step, scale, x, e);
            assert_memory_equal(x, sum, sizeof(x));
            assert_memory_equal(e, errors, sizeof(e));
        }
        assert_true(e[5] != 0 && isfinite(e[5]));
        for (int i = CODED; i < UNIT; i++)
            assert_true(e[i] == 0 && x[i] == g[i]);
    }
}

static void numbers_are_those_of_the_formula(void **state)
{
    each_isa(check_fp32);
}

/* As if the errors stood in fp32, and were packed after each step. */
static void check_int8(void)
{
    static float sum[UNIT], errors[UNIT], old[UNIT];
    const struct dsf_rounding nearest = { .nearest = 1 };
    const size_t bytes = dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, UNIT);
    struct dsf_feed_back_args a = args_of("int4");

    memset(packed, 0, sizeof(packed));
    for (int64_t step = 1; step <= 5; step++) {
        fill(g, (uint64_t)step);
        dsf_unpack(DSFLOW_INT8_BLOCK, packed, old, UNIT);
        reference(&a, step == 1 || step == 4, 1, g, old, sum, errors);
        dsf_pack(DSFLOW_INT8_BLOCK, &nearest, errors, was, UNIT);
        memcpy(x, g, sizeof(x));
        run(&a, DSFLOW_INT8_BLOCK, step, 1, x, packed);
        assert_memory_equal(x, sum, sizeof(x));
        assert_memory_equal(packed, was, bytes);
    }
    /* A checkpoint has them in fp32. */
    dsf_unpack(DSFLOW_INT8_BLOCK, packed, old, UNIT);
    dsf_pack(DSFLOW_INT8_BLOCK, &nearest, old, was, UNIT);
    assert_memory_equal(packed, was, bytes);
}

static void errors_in_bytes_are_those_that_are_packed(void **state)
{
    each_isa(check_int8);
}

/* In pieces of a unit, as offload may cut it. */
static void pieces_are_what_the_whole_is(void **state)
{
    static float sum[UNIT], errors[UNIT];
    struct dsf_feed_back_args a = args_of("int8");

    fill(g, 1);
    fill(e, 2);
    reference(&a, false, 1, g, e, sum, errors);
    memcpy(x, g, sizeof(x));
    for (int64_t at = 0; at < UNIT; at += STEP) {
        struct dsf_feed_back_args piece = a;

        dsf_op_feed_back.slice(&piece, at, STEP, (const int64_t[]){ 0, 0, 0 });
        run(&piece, DSFLOW_FP32, 2, 1, x, e);
    }
    assert_memory_equal(x, sum, sizeof(x));
    assert_memory_equal(e, errors, sizeof(e));
}

/* The mean of what is sent for one gradient, over many steps, is nearer to it
 * than what is sent once. */
static void what_is_lost_is_sent_later(void **state)
{
    static uint8_t coded[UNIT * 4];
    static float sent[UNIT];
    static double mean[UNIT];
    struct dsf_feed_back_args a = args_of("int4");
    double once = 0, often = 0;
    enum { STEPS = 200 };

    a.reset = 0;
    memset(mean, 0, sizeof(mean));
    memset(e, 0, sizeof(e));
    fill(g, 4);
    for (int step = 1; step <= STEPS; step++) {
        memcpy(x, g, sizeof(x));
        run(&a, DSFLOW_FP32, step, 1, x, e);
        dsf_coding_encode(&a.coding, NULL, 0, UNIT, x, coded);
        dsf_coding_decode(&a.coding, 0, UNIT, coded, sent);
        for (int i = 0; i < UNIT; i++) {
            mean[i] += (double)sent[i] / STEPS;
            if (step == 1)
                once += pow((double)(sent[i] - g[i]), 2);
        }
    }
    for (int i = 0; i < UNIT; i++)
        often += pow(mean[i] - (double)g[i], 2);
    assert_true(once > 0 && often < once / 2);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct dsf_feed_back_args a = args_of("int8");
    struct dsflow_err err;

    a.beta = 1.5;
    assert_int_equal(check(&a, DSFLOW_FP32, &err), DSFLOW_EINVAL);
    assert_string_equal(
        err.msg, "feed_back: beta 1.5, reset 3: expected 0 to 1, and steps");
    a.beta = 1;
    a.error_at = BLOCK;
    a.elems = STEP;
    assert_int_equal(check(&a, DSFLOW_FP32, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "feed_back: from number 0 on, and from 48 of the "
                        "errors: expected multiples of 256");
    a.error_at = 0;
    assert_int_equal(check(&a, DSFLOW_FP64, &err), DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_formula),
        cmocka_unit_test(errors_in_bytes_are_those_that_are_packed),
        cmocka_unit_test(pieces_are_what_the_whole_is),
        cmocka_unit_test(what_is_lost_is_sent_later),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
