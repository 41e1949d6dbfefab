/* test_dtype.c - types of elements: their names, and the bytes they take. */
#include <dsflow/dtype.h>

#include "lib/test.h"

#include <string.h>

static void every_type_has_a_name_of_its_own(void **state)
{
    for (int a = 0; a < DSFLOW_NDTYPES; a++) {
        assert_string_not_equal(dsflow_dtype_str((enum dsflow_dtype)a), "?");
        for (int b = 0; b < a; b++)
            assert_string_not_equal(dsflow_dtype_str((enum dsflow_dtype)a),
                                    dsflow_dtype_str((enum dsflow_dtype)b));
    }
    assert_string_equal(dsflow_dtype_str(DSFLOW_NDTYPES), "?");
}

static void bytes_follow_from_the_elements(void **state)
{
    static const struct {
        enum dsflow_dtype dtype;
        size_t bytes;
    } of_1000[] = {
        { DSFLOW_BYTES, 1000 },      { DSFLOW_FP32, 4000 },
        { DSFLOW_BF16, 2000 },       { DSFLOW_FP16, 2000 },
        { DSFLOW_FP64, 8000 },       { DSFLOW_INT8, 1000 },
        { DSFLOW_INT32, 4000 },      { DSFLOW_INT64, 8000 },
        { DSFLOW_INT8_BLOCK, 1008 }, /* four scales */
        { DSFLOW_INT16, 2000 },      { DSFLOW_UINT8, 1000 },
        { DSFLOW_UINT16, 2000 },     { DSFLOW_UINT32, 4000 },
        { DSFLOW_UINT64, 8000 },     { DSFLOW_BOOLEAN, 1000 },
        { DSFLOW_FP8_E4M3, 1000 },   { DSFLOW_FP8_E5M2, 1000 },
    };

    assert_int_equal(sizeof(of_1000) / sizeof(*of_1000), DSFLOW_NDTYPES);
    for (size_t i = 0; i < DSFLOW_NDTYPES; i++) {
        assert_int_equal(dsflow_dtype_bytes(of_1000[i].dtype, 1000),
                         of_1000[i].bytes);
        assert_int_equal(dsflow_dtype_bytes(of_1000[i].dtype, 0), 0);
        assert_int_equal(dsflow_dtype_bytes(of_1000[i].dtype, -1), 0);
    }
    assert_int_equal(dsflow_dtype_bytes(DSFLOW_FP32, INT64_C(1) << 40),
                     (size_t)4 << 40);
}

static void a_block_has_one_scale_however_full_it_is(void **state)
{
    const size_t block = DSFLOW_BLOCK_ELEMS;

    assert_int_equal(dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, 1), 1 + 2);
    assert_int_equal(dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, (int64_t)block),
                     block + 2);
    assert_int_equal(dsflow_dtype_bytes(DSFLOW_INT8_BLOCK, (int64_t)block + 1),
                     block + 1 + 4);
}

static void a_shape_has_the_bytes_of_its_elements(void **state)
{
    struct dsflow_shape s = dsflow_shape_of(DSFLOW_FP16, 7);

    assert_true(s.dtype == DSFLOW_FP16);
    assert_int_equal(s.elems, 7);
    assert_int_equal(s.bytes, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_a_name_of_its_own),
        cmocka_unit_test(bytes_follow_from_the_elements),
        cmocka_unit_test(a_block_has_one_scale_however_full_it_is),
        cmocka_unit_test(a_shape_has_the_bytes_of_its_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
