/* test_shape.c - shapes of data: how they are written, that they agree, and
 * that tasks get the types they declare. */
#include "graph/shape_text.h"

#include "lib/test.h"

#include <string.h>

static int any(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static int never(const struct dsflow_case *c, struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL, "scale: more than there are");
}

static const struct dsflow_op scale = {
    .abi = DSFLOW_OP_ABI,
    .name = "scale",
    DSFLOW_PORTS({ "x", DSFLOW_RW, DSFLOW_BF16 }),
    .check = any,
};
static const struct dsflow_op refuse = {
    .abi = DSFLOW_OP_ABI,
    .name = "scale",
    .repeats = 1,
    DSFLOW_PORTS({ "x", DSFLOW_RW }, { "by", DSFLOW_R }),
    .check = never,
};

static const struct dsflow_op refuse_some = {
    .abi = DSFLOW_OP_ABI,
    .name = "scale",
    DSFLOW_PORTS({ "x", DSFLOW_RW },
                 { "by", DSFLOW_R, .optional = 1 }, [3] = { "y", DSFLOW_W }),
    .check = never,
};

static void shapes_are_written_with_their_type(void **state)
{
    struct dsflow_data_spec d =
        DSFLOW_DATA(.elems = 196608, .dtype = DSFLOW_BF16, .ndims = 2,
                    .dims = { 256, 768 });

    assert_string_equal(dsf_shape_text(&d).s, "[256, 768] bf16");
    d.ndims = 0;
    assert_string_equal(dsf_shape_text(&d).s, "[196608] bf16");
    d.dtype = DSFLOW_BYTES;
    assert_string_equal(dsf_shape_text(&d).s, "196608 bytes");
    d = DSFLOW_DATA(.elems = 1, .dtype = DSFLOW_INT8_BLOCK, .ndims = 4,
                    .dims = { INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX });
    assert_non_null(strstr(dsf_shape_text(&d).s, "] int8_block"));
}

static void bytes_follow_from_elements_and_type(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id id = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "x", .elems = 12, .dtype = DSFLOW_BF16,
                        .bytes = 1, .ndims = 2, .dims = { 3, 4 }));

    assert_int_equal(dsflow_graph_data(g, id)->bytes, 24);
    dsflow_graph_free(g);
}

/* What the check of a graph of one task, on `n` pieces of data, says. */
static void says(const struct dsflow_op *op, uint32_t without,
                 const struct dsflow_data_spec *data, unsigned n,
                 const char *expected)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id ids[8];
    struct dsflow_err err = { .msg = "" };

    for (unsigned i = 0; i < n; i++)
        ids[i] = dsflow_graph_add_data(g, &data[i]);
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = op, .without = without, .ndata = n, .data = ids));
    assert_int_equal(dsflow_graph_check(g, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, expected);
    dsflow_graph_free(g);
}

static void another_type_is_refused(void **state)
{
    says(&scale, 0,
         &DSFLOW_DATA(.name = "x", .elems = 8, .dtype = DSFLOW_FP32,
                      .persistent = 1),
         1, "scale: x: expected bf16, is fp32");
}

static void dimensions_of_other_elements_are_refused(void **state)
{
    says(&scale, 0,
         &DSFLOW_DATA(.name = "x", .elems = 13, .dtype = DSFLOW_BF16,
                      .ndims = 2, .dims = { 3, 4 }, .persistent = 1),
         1, "x: [3, 4] bf16: has 13 elements");
    says(&scale, 0,
         &DSFLOW_DATA(.name = "x", .elems = 12, .dtype = DSFLOW_BF16,
                      .ndims = 2, .dims = { -3, -4 }, .persistent = 1),
         1, "x: [-3, -4] bf16: has 12 elements");
    says(&scale, 0,
         &DSFLOW_DATA(.name = "x", .elems = 0, .dtype = DSFLOW_BF16, .ndims = 2,
                      .dims = { INT64_C(1) << 32, INT64_C(1) << 32 },
                      .persistent = 1),
         1, "x: [4294967296, 4294967296] bf16: has 0 elements");
}

static void a_refusal_shows_the_shapes_there_are(void **state)
{
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    struct dsflow_data_spec data[5];

    for (int i = 0; i < 5; i++)
        data[i] = DSFLOW_DATA(.name = names[i], .elems = 8,
                              .dtype = DSFLOW_FP32, .persistent = 1);
    data[0].ndims = 2;
    data[0].dims[0] = 2;
    data[0].dims[1] = 4;
    says(&refuse, 0, data, 2,
         "scale: more than there are (x [2, 4] fp32, by [8] fp32)");
    says(&refuse, 0, data, 5,
         "scale: more than there are (x [2, 4] fp32, by [8] fp32, by [8] "
         "fp32, by [8] fp32, …)");
    says(&refuse_some, 1 << 1 | 1 << 2, data, 2,
         "scale: more than there are (x [2, 4] fp32, y [8] fp32)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_written_with_their_type),
        cmocka_unit_test(bytes_follow_from_elements_and_type),
        cmocka_unit_test(another_type_is_refused),
        cmocka_unit_test(dimensions_of_other_elements_are_refused),
        cmocka_unit_test(a_refusal_shows_the_shapes_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
