/* test_nearest.c - names that were meant. */
#include "base/nearest.h"

#include "lib/test.h"

static void only_a_near_name_is_suggested(void **state)
{
    static const char *const names[] = { "warmup", "min_ratio", "total" };

    assert_string_equal(dsf_nearest("warm_up", names, 3), "warmup");
    assert_string_equal(dsf_nearest("min_ration", names, 3), "min_ratio");
    assert_null(dsf_nearest("gradient", names, 3));
    assert_null(dsf_nearest("", names, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_near_name_is_suggested),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
