/* test_move.c - copy, gather and reduce: what goes out comes in, and sums have
 * the order of their tree. */
#include "base/half.h"
#include "codelets/codelets.h"
#include "lib/test.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3000 };

static void run(const struct dsflow_codelet *codelet,
                const void *args, unsigned fresh, unsigned n, float **ptrs,
                const size_t *elems)
{
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS];
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    struct dsflow_err err;

    for (unsigned i = 0; i < n; i++) {
        shapes[i] = dsflow_shape_of(DSFLOW_FP32, (int64_t)elems[i]);
        bufs[i] = (struct dsflow_buf){ ptrs[i], shapes[i].bytes,
                                       shapes[i].elems, DSFLOW_FP32 };
    }
    if (codelet->op->check(
            &(struct dsflow_case){ codelet->op, shapes, n, args }, &err) < 0)
        fail_msg("%s", err.msg);
    codelet->cpu(
        &(struct dsflow_call){
            .bufs = bufs, .nbufs = n, .args = args, .fresh = fresh });
}

static float *numbers(int n, int seed)
{
    float *x = calloc((size_t)n, sizeof(*x));

    for (int i = 0; i < n; i++)
        x[i] = (float)(sin(i * 1.7 + seed) * pow(10, i % 7));
    return x;
}

static void what_was_copied_out_is_gathered(void **state)
{
    float *whole = numbers(N, 1), *back = calloc(N, sizeof(*back));
    struct dsf_gather_args args = { { N, 1, 3, 0 }, -1, -1, 3, 0 };
    float *ports[] = { back, NULL, NULL, NULL };
    size_t elems[4] = { N };

    for (int32_t i = 0; i < 3; i++) {
        struct dsf_range move = { dsf_pieces_elems(&args.pieces, i), 0,
                                 dsf_pieces_at(&args.pieces, i) };

        ports[i + 1] = calloc((size_t)move.elems, sizeof(float));
        elems[i + 1] = (size_t)move.elems;
        run(&dsf_codelet_copy, &move, 0, 2, (float *[]){ ports[i + 1], whole },
            (size_t[]){ elems[i + 1], N });
    }
    run(&dsf_codelet_gather, &args, 0, 4, ports, elems);
    assert_memory_equal(whole, back, N * sizeof(float));
    for (int i = 0; i < 4; i++)
        free(ports[i]);
    free(whole);
}

/* Each number once, in order, and none beside; one block is its owner's. */
static void pieces_follow_each_other(void **state)
{
    for (int64_t blocks = 0; blocks < 12; blocks++)
        for (int32_t members = 1; members < 6; members++) {
            struct dsf_pieces p = { blocks, 10, members, members - 1 };
            int32_t some = 0;

            assert_int_equal(dsf_pieces_at(&p, 0), 0);
            assert_int_equal(dsf_pieces_at(&p, members), 10 * blocks);
            for (int32_t i = 0; i < members; i++) {
                int64_t elems = dsf_pieces_elems(&p, i);

                assert_int_equal(elems % 10, 0);
                assert_true(elems >= blocks / members * 10 || blocks == 1);
                some += elems > 0;
            }
            assert_int_equal(dsf_pieces_count(&p), some);
        }
}

/* Leaves at strides of 1, 2, 4 … are added to each other. */
static void stride_tree(float **leaves, int n)
{
    for (int stride = 1; stride < n; stride *= 2)
        for (int g = 0; g + stride < n; g += 2 * stride)
            for (int i = 0; i < N; i++)
                leaves[g][i] += leaves[g + stride][i];
}

/* With `self`, that leaf stands where the sum goes, among other numbers. */
static void check_sum(int n, int self)
{
    float *leaves[12], *ports[13];
    size_t elems[13];
    float *into = numbers(N + 200, 99);
    struct dsf_sum_args args = { N, 100, 0, self < 0 ? 0 : self };
    const float around = into[99];
    unsigned nports = 1;

    ports[0] = into;
    elems[0] = N + 200;
    for (int i = 0; i < n; i++) {
        leaves[i] = numbers(N, i);
        if (i == self) {
            memcpy(into + 100, leaves[i], N * sizeof(float));
            continue;
        }
        elems[nports] = N;
        ports[nports++] = leaves[i];
    }
    run(&dsf_codelet_reduce, &args, self < 0, nports, ports, elems);
    stride_tree(leaves, n);
    assert_memory_equal(into + 100, leaves[0], N * sizeof(float));
    assert_true(into[99] == around);
    for (int i = 0; i < n; i++)
        free(leaves[i]);
    free(into);
}

static void sums_are_in_the_order_of_their_tree(void **state)
{
    for (int n = 1; n <= 12; n++)
        check_sum(n, -1);
    for (int n = 2; n <= 12; n++)
        for (int self = 0; self < n; self++)
            check_sum(n, self);
}

/* into = the sum of n leaves of one number each. */
static uint16_t sum_in_bf16(unsigned n, const uint16_t *leaves)
{
    const struct dsf_sum_args args = { .elems = 1 };
    struct dsflow_buf bufs[9];
    uint16_t into = 0;

    for (unsigned i = 0; i <= n; i++)
        bufs[i] = (struct dsflow_buf){ i == 0 ? (void *)&into
                                              : (void *)(leaves + i - 1),
                                       2, 1, DSFLOW_BF16 };
    dsf_codelet_reduce.cpu(&(struct dsflow_call){
        .bufs = bufs, .nbufs = n + 1, .args = &args, .fresh = 1 });
    return into;
}

/* 256 and 1 are 256 in bf16, which has eight bits; two ranks with half of the
 * numbers each get what one with all of them does. */
static void in_bf16_each_sum_of_two_is_rounded(void **state)
{
    static const float numbers[] = { 256, 1, 1, 1, 300, 5, 0.7f, 3 };
    uint16_t leaves[8], halves[2];

    for (int i = 0; i < 8; i++)
        leaves[i] = dsf_to_bf16(numbers[i]);
    assert_int_equal(sum_in_bf16(4, leaves), dsf_to_bf16(258)); /* not 259 */
    halves[0] = sum_in_bf16(4, leaves);
    halves[1] = sum_in_bf16(4, leaves + 4);
    assert_int_equal(sum_in_bf16(2, halves), sum_in_bf16(8, leaves));
}

/* Two ports of so many floats. */
static int check_two(const struct dsflow_op *op, int64_t a, int64_t b,
                     const void *args, struct dsflow_err *err)
{
    const struct dsflow_shape shapes[] = { dsflow_shape_of(DSFLOW_FP32, a),
                                           dsflow_shape_of(DSFLOW_FP32, b) };

    return op->check(&(struct dsflow_case){ op, shapes, 2, args }, err);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    struct dsf_range move = { 10, 5, 0 };
    struct dsf_sum_args sum = { .elems = 10, .self = 3 };
    struct dsf_gather_args gather = { { 2, 5, 2, 0 }, -1, 1, 2, 0 };
    struct dsflow_err err;

    assert_int_equal(check_two(&dsf_op_copy, 14, 10, &move, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "copy: out: 10 numbers from 5 on, of 14");
    assert_int_equal(check_two(&dsf_op_copy, 15, 10, &move, &err), DSFLOW_OK);
    move.elems = INT64_MAX;
    assert_int_equal(check_two(&dsf_op_copy, 15, 10, &move, &err),
                     DSFLOW_EINVAL);
    assert_int_equal(check_two(&dsf_op_gather, 10, 5, &gather, &err),
                     DSFLOW_OK);
    assert_int_equal(check_two(&dsf_op_gather, 10, 4, &gather, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "gather: in: 5 numbers from 0 on, of 4");
    assert_int_equal(check_two(&dsf_op_reduce, 10, 10, &sum, &err),
                     DSFLOW_EINVAL);
    assert_int_equal(check_two(&dsf_op_send, 10, 11, NULL, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "send: 10 fp32 into 11 fp32");
}

static void another_type_is_refused(void **state)
{
    const struct dsflow_shape shapes[] = { dsflow_shape_of(DSFLOW_FP32, 4),
                                           dsflow_shape_of(DSFLOW_BF16, 4) };
    struct dsf_range move = { 4, 0, 0 };
    struct dsflow_err err;

    assert_int_equal(dsf_op_copy.check(&(struct dsflow_case){ &dsf_op_copy,
                                                              shapes, 2,
                                                              &move },
                                       &err),
                     DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_copied_out_is_gathered),
        cmocka_unit_test(pieces_follow_each_other),
        cmocka_unit_test(sums_are_in_the_order_of_their_tree),
        cmocka_unit_test(in_bf16_each_sum_of_two_is_rounded),
        cmocka_unit_test(what_is_out_of_bounds_is_refused),
        cmocka_unit_test(another_type_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
