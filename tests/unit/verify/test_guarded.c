/* test_guarded.c - memory that tells when something writes beside it. */
#include "verify/guarded.h"

#include "lib/test.h"

#include <string.h>

static void a_buffer_ends_at_its_page_or_begins_there(void **state)
{
    for (size_t bytes = 1; bytes < 300; bytes += 37)
        for (int at_end = 0; at_end < 2; at_end++) {
            struct dsf_guarded g;

            assert_true(dsf_guarded_init(&g, "x", DSFLOW_W, bytes, at_end));
            assert_int_equal((uintptr_t)g.ptr % 64, 0);
            memset(g.ptr, 0, bytes);
            assert_int_equal(dsf_guarded_spill(&g), 0);
            assert_true(dsf_guarded_has(&g, g.ptr - 1));
            assert_true(dsf_guarded_has(&g, g.ptr + bytes));
            assert_false(dsf_guarded_has(&g, &g));
            dsf_guarded_fini(&g);
            assert_false(dsf_guarded_has(&g, g.ptr));
        }
}

static void what_is_written_beside_it_is_seen(void **state)
{
    struct dsf_guarded g;

    assert_true(dsf_guarded_init(&g, "x", DSFLOW_W, 100, false));
    g.ptr[102] = 1;
    assert_int_equal(dsf_guarded_spill(&g), 3);
    dsf_guarded_fini(&g);

    assert_true(dsf_guarded_init(&g, "x", DSFLOW_W, 100, true));
    g.ptr[-4] = 1;
    assert_int_equal(dsf_guarded_spill(&g), -4);
    dsf_guarded_fini(&g);
}

static void memory_that_there_is_not_is_told(void **state)
{
    struct dsf_guarded g;

    assert_false(
        dsf_guarded_init(&g, "x", DSFLOW_W, (size_t)1 << 60, false));
    assert_null(g.map);
    dsf_guarded_fini(&g);
    assert_false(dsf_guarded_init(&g, "x", DSFLOW_W, SIZE_MAX, false));
    assert_null(g.map);
    dsf_guarded_fini(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_ends_at_its_page_or_begins_there),
        cmocka_unit_test(what_is_written_beside_it_is_seen),
        cmocka_unit_test(memory_that_there_is_not_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
