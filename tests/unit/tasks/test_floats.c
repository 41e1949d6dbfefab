/* test_floats.c - which types of floats the ports of a segment's task take. */
#include "tasks/tile.h"

#include "lib/test.h"

enum { X, Y, UNIT, STATS, NPORTS };
enum { ELEMS = 8 };

static int needs(const struct dsflow_op *op, const void *args,
                 struct dsflow_need *need, struct dsflow_err *err)
{
    for (unsigned i = 0; i < NPORTS; i++)
        need[i] = dsf_matrix(1, ELEMS);
    return DSFLOW_OK;
}

static const struct dsflow_op op = {
    .abi = DSFLOW_OP_ABI,
    .name = "a.forward",
    DSFLOW_PORTS({ "x", DSFLOW_R, .floats = DSFLOW_NARROW },
                 { "y", DSFLOW_W, .floats = DSFLOW_NARROW_SUM },
                 { "unit", DSFLOW_R, .floats = DSFLOW_NARROW_ALONE },
                 { "stats", DSFLOW_W }),
};

static int check(enum dsflow_dtype x, enum dsflow_dtype y,
                 enum dsflow_dtype unit, enum dsflow_dtype stats,
                 struct dsflow_err *err)
{
    const struct dsflow_shape shapes[NPORTS] = {
        dsflow_shape_of(x, ELEMS),
        dsflow_shape_of(y, ELEMS),
        dsflow_shape_of(unit, ELEMS),
        dsflow_shape_of(stats, ELEMS),
    };
    const struct dsflow_case c = { &op, shapes, NPORTS, NULL };

    return dsflow_segment_check(&c, needs, err);
}

static void narrow_ports_have_one_type(void **state)
{
    struct dsflow_err err;

    assert_int_equal(
        check(DSFLOW_FP32, DSFLOW_FP32, DSFLOW_FP32, DSFLOW_FP32, &err),
        DSFLOW_OK);
    assert_int_equal(
        check(DSFLOW_BF16, DSFLOW_BF16, DSFLOW_BF16, DSFLOW_FP32, &err),
        DSFLOW_OK);
    assert_int_equal(
        check(DSFLOW_FP16, DSFLOW_BF16, DSFLOW_FP16, DSFLOW_FP32, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "a.forward: y: expected fp16, is bf16");
}

static void sums_may_be_wider(void **state)
{
    struct dsflow_err err;

    assert_int_equal(
        check(DSFLOW_BF16, DSFLOW_FP32, DSFLOW_BF16, DSFLOW_FP32, &err),
        DSFLOW_OK);
    assert_int_equal(
        check(DSFLOW_FP32, DSFLOW_BF16, DSFLOW_FP32, DSFLOW_FP32, &err),
        DSFLOW_EINVAL);
}

static void one_port_may_be_of_another_type(void **state)
{
    struct dsflow_err err;

    assert_int_equal(
        check(DSFLOW_BF16, DSFLOW_BF16, DSFLOW_FP32, DSFLOW_FP32, &err),
        DSFLOW_OK);
    assert_int_equal(
        check(DSFLOW_BF16, DSFLOW_BF16, DSFLOW_INT8, DSFLOW_FP32, &err),
        DSFLOW_EINVAL);
}

static void other_ports_are_fp32(void **state)
{
    struct dsflow_err err;

    assert_int_equal(
        check(DSFLOW_BF16, DSFLOW_BF16, DSFLOW_BF16, DSFLOW_BF16, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "a.forward: stats: expected fp32, is bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrow_ports_have_one_type),
        cmocka_unit_test(sums_may_be_wider),
        cmocka_unit_test(one_port_may_be_of_another_type),
        cmocka_unit_test(other_ports_are_fp32),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
