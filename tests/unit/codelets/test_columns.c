/* test_columns.c - columns of several buffers side by side, whatever types
 * those have. */
#include "unit/codelets/segment.h"

enum { ROWS = 2, N = 3, COLS = 5, FROM = 1, IN = ROWS * COLS, OUT = ROWS * N };

static const struct dsf_columns_args args = {
    .rows = ROWS, .n = N, .from = FROM, .cols = COLS
};

/* Numbers that fp16 rounds to 2049 / 2048 and the like, and bf16 to fewer. */
static void fill(float *wide, uint16_t *narrow, enum dsflow_dtype type,
                 float first)
{
    for (int i = 0; i < IN; i++) {
        wide[i] = first + (float)i / 3;
        narrow[i] = narrow_of(type, wide[i]);
    }
}

static void check_out(const struct dsflow_buf *out, const float *a,
                      const float *b)
{
    const uint16_t *narrow = out->ptr;
    const float *wide = out->ptr;

    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < 2 * N; i++) {
            const float *from = i < N ? a : b;
            const float x = from[r * COLS + FROM + i % N];
            const int at = r * 2 * N + i;

            if (is_narrow(out->dtype))
                assert_int_equal(narrow[at], narrow_of(out->dtype, x));
            else
                assert_true(wide[at] == x);
        }
}

static void what_is_of_another_type_is_cast(void **state)
{
    static const enum dsflow_dtype types[] = { DSFLOW_BF16, DSFLOW_FP16 };

    for (int t = 0; t < 2; t++) {
        float wide[IN], other[IN], was[IN], to_wide[2 * OUT];
        uint16_t narrow[IN], rounded[IN], to_narrow[2 * OUT];
        struct dsflow_buf bufs[] = {
            { to_wide, sizeof(to_wide), 2 * OUT, DSFLOW_FP32 },
            { wide, sizeof(wide), IN, DSFLOW_FP32 },
            { narrow, sizeof(narrow), IN, types[t] },
        };
        const struct dsflow_call call = { .bufs = bufs,
                                          .nbufs = 3,
                                          .args = &args };

        fill(wide, rounded, types[t], 1);
        fill(other, narrow, types[t], 100);
        for (int i = 0; i < IN; i++)
            was[i] = wide_of(types[t], narrow[i]);
        dsf_codelet_columns.cpu(&call);
        check_out(&bufs[0], wide, was);
        bufs[0] = (struct dsflow_buf){ to_narrow, sizeof(to_narrow), 2 * OUT,
                                       types[t] };
        dsf_codelet_columns.cpu(&call);
        check_out(&bufs[0], wide, other);
    }
}

static int check(enum dsflow_dtype out, enum dsflow_dtype in, int64_t elems,
                 struct dsflow_err *err)
{
    const struct dsflow_shape shapes[] = { dsflow_shape_of(out, 2 * OUT),
                                           dsflow_shape_of(DSFLOW_FP32, IN),
                                           dsflow_shape_of(in, elems) };

    return dsf_op_columns.check(
        &(struct dsflow_case){ &dsf_op_columns, shapes, 3, &args }, err);
}

static void one_of_two_types_is_fp32(void **state)
{
    struct dsflow_err err;

    assert_int_equal(check(DSFLOW_FP32, DSFLOW_BF16, IN, &err), DSFLOW_OK);
    assert_int_equal(check(DSFLOW_FP16, DSFLOW_FP32, IN, &err), DSFLOW_OK);
    assert_int_equal(check(DSFLOW_FP16, DSFLOW_FP16, IN, &err), DSFLOW_OK);
    assert_int_equal(check(DSFLOW_FP16, DSFLOW_BF16, IN, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "columns: bf16 into fp16: expected one type, or fp32");
    assert_int_equal(check(DSFLOW_FP32, DSFLOW_INT32, IN, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "columns: in: expected fp32, is int32");
    assert_int_equal(check(DSFLOW_BF16, DSFLOW_BF16, IN - 1, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "columns: in: 9 bf16: expected 10");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_of_another_type_is_cast),
        cmocka_unit_test(one_of_two_types_is_fp32),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
