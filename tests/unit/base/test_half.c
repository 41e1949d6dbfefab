/* test_half.c - sixteen bits are rounded to nearest, ties to even. */
#include "base/half.h"

#include "lib/test.h"

#include <math.h>

static void every_half_is_itself(void **state)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        if (!isnan(dsf_from_fp16((uint16_t)h)))
            assert_int_equal(dsf_to_fp16(dsf_from_fp16((uint16_t)h)), h);
        if (!isnan(dsf_from_bf16((uint16_t)h)))
            assert_int_equal(dsf_to_bf16(dsf_from_bf16((uint16_t)h)), h);
    }
}

/* Between each half and the next: below the middle, on it, and above it. */
static void what_lies_between_goes_to_the_nearest(void **state)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float a = dsf_from_fp16((uint16_t)h),
              b = dsf_from_fp16((uint16_t)(h + 1));
        float middle = a + (b - a) / 2;

        assert_int_equal(dsf_to_fp16(nextafterf(middle, a)), h);
        assert_int_equal(dsf_to_fp16(middle), h + (h & 1));
        assert_int_equal(dsf_to_fp16(nextafterf(middle, b)), h + 1);
        assert_int_equal(dsf_to_fp16(-middle), 0x8000 | (h + (h & 1)));
    }
    for (uint32_t h = 1; h < 0x7f7f; h++) {
        uint32_t middle = h << 16 | 0x8000;

        assert_int_equal(dsf_to_bf16(dsf_float_of(middle - 1)), h);
        assert_int_equal(dsf_to_bf16(dsf_float_of(middle)), h + (h & 1));
        assert_int_equal(dsf_to_bf16(dsf_float_of(middle + 1)), h + 1);
    }
}

static void what_is_too_large_is_infinite(void **state)
{
    assert_int_equal(dsf_to_fp16(65504), 0x7bff);
    assert_int_equal(dsf_to_fp16(65519.99f), 0x7bff);
    assert_int_equal(dsf_to_fp16(65520), 0x7c00);
    assert_int_equal(dsf_to_fp16(-1e30f), 0xfc00);
    assert_int_equal(dsf_to_fp16(INFINITY), 0x7c00);
    assert_int_equal(dsf_to_bf16(0x1.fffffep127f), 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_itself),
        cmocka_unit_test(what_lies_between_goes_to_the_nearest),
        cmocka_unit_test(what_is_too_large_is_infinite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
