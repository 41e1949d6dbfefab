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

#define LONG "a_section_of_a_table.and_another_one_in_it.and_a_third_one_there."

/* As keys of objects in objects are, which differ at their ends. */
static void long_names_are_compared_to_their_ends(void **state)
{
    static const char *const names[] = { LONG "enabled", LONG "rounding" };

    assert_string_equal(dsf_nearest(LONG "roundin", names, 2), names[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_near_name_is_suggested),
        cmocka_unit_test(long_names_are_compared_to_their_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
