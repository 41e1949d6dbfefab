/* test_move.c - split, gather and reduce_scatter: what goes out comes in, and
 * sums have the order of their tree. */
#include "codelets/codelets.h"
#include "lib/test.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3000, CUT = 1100 };

static void run(const struct dsflow_codelet *codelet,
                const struct dsf_move_args *args, unsigned n, float **ptrs,
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
    if (codelet->op->check(shapes, n, args, &err) < 0)
        fail_msg("%s", err.msg);
    codelet->cpu(
        &(struct dsflow_call){ .bufs = bufs, .nbufs = n, .args = args });
}

static float *numbers(int n, int seed)
{
    float *x = calloc((size_t)n, sizeof(*x));

    for (int i = 0; i < n; i++)
        x[i] = (float)(sin(i * 1.7 + seed) * pow(10, i % 7));
    return x;
}

static void what_was_split_is_gathered(void **state)
{
    float *whole = numbers(N, 1), *back = calloc(N, sizeof(*back));
    float *a = calloc(CUT, sizeof(*a)), *b = calloc(N - CUT, sizeof(*b));
    struct dsf_move_args args = { .elems = { CUT, N - CUT },
                                  .at = { 0, CUT },
                                  .self = -1 };

    run(&dsf_codelet_split, &args, 3, (float *[]){ whole, a, b },
        (size_t[]){ N, CUT, N - CUT });
    run(&dsf_codelet_gather, &args, 3, (float *[]){ back, a, b },
        (size_t[]){ N, CUT, N - CUT });
    assert_memory_equal(whole, back, N * sizeof(float));
    free(whole);
    free(back);
    free(a);
    free(b);
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
    float *leaves[8], *ports[8];
    size_t elems[8];
    float *into = numbers(N + 200, 99);
    struct dsf_move_args args = { .elems = { N }, .at = { 100 }, .self = self };
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
        args.from[nports - 1] = 0;
        elems[nports] = N;
        ports[nports++] = leaves[i];
    }
    run(&dsf_codelet_reduce_scatter, &args, nports, ports, elems);
    stride_tree(leaves, n);
    assert_memory_equal(into + 100, leaves[0], N * sizeof(float));
    assert_true(into[99] == around);
    for (int i = 0; i < n; i++)
        free(leaves[i]);
    free(into);
}

static void sums_are_in_the_order_of_their_tree(void **state)
{
    for (int n = 1; n <= 7; n++)
        check_sum(n, -1);
    for (int n = 2; n <= 8; n++)
        for (int self = 0; self < n; self++)
            check_sum(n, self);
}

/* The op's check, of two ports with as many numbers. */
static int check_two(const struct dsflow_op *op, int64_t a, int64_t b,
                     const struct dsf_move_args *args, struct dsflow_err *err)
{
    const struct dsflow_shape shapes[] = { dsflow_shape_of(DSFLOW_FP32, a),
                                           dsflow_shape_of(DSFLOW_FP32, b) };

    return op->check(shapes, 2, args, err);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    struct dsf_move_args args = { .elems = { 10 }, .at = { 5 }, .self = -1 };
    struct dsflow_err err;

    assert_int_equal(check_two(&dsf_op_split, 14, 10, &args, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "split: in: 10 numbers from 5 on, of 14");
    assert_int_equal(check_two(&dsf_op_split, 15, 10, &args, &err), DSFLOW_OK);
    args.elems[0] = INT64_MAX;
    assert_int_equal(check_two(&dsf_op_gather, 15, 10, &args, &err),
                     DSFLOW_EINVAL);
    args = (struct dsf_move_args){ .elems = { 10 }, .self = 3 };
    assert_int_equal(check_two(&dsf_op_reduce_scatter, 10, 10, &args, &err),
                     DSFLOW_EINVAL);
    assert_int_equal(check_two(&dsf_op_send, 10, 11, NULL, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "send: 10 fp32 into 11 fp32");
}

static void another_type_is_refused(void **state)
{
    const struct dsflow_shape shapes[] = { dsflow_shape_of(DSFLOW_FP32, 10),
                                           dsflow_shape_of(DSFLOW_BF16, 10) };
    struct dsf_move_args args = { .elems = { 10 }, .self = -1 };
    struct dsflow_err err;

    assert_int_equal(dsf_op_split.check(shapes, 2, &args, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "split: out: expected fp32, is bf16");
    assert_int_equal(dsf_op_gather.check(shapes, 2, &args, &err),
                     DSFLOW_EINVAL);
    assert_int_equal(dsf_op_reduce_scatter.check(shapes, 2, &args, &err),
                     DSFLOW_EINVAL);
    assert_int_equal(dsf_op_send.check(shapes, 2, NULL, &err), DSFLOW_EINVAL);
    assert_int_equal(dsf_op_swap_in.check(shapes, 2, NULL, &err),
                     DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_split_is_gathered),
        cmocka_unit_test(sums_are_in_the_order_of_their_tree),
        cmocka_unit_test(what_is_out_of_bounds_is_refused),
        cmocka_unit_test(another_type_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
