/* test_mesh.c - the order of ranks. */
#include "plan/mesh.h"

#include "lib/test.h"

static void tensor_is_innermost_and_pipeline_outermost(void **state)
{
    struct dsf_mesh mesh = { .data = 3, .pipeline = 2, .tensor = 4 };

    assert_int_equal(dsf_mesh_ranks(&mesh), 24);
    assert_int_equal(dsf_mesh_rank(&mesh, 0, 0, 0), 0);
    assert_int_equal(dsf_mesh_rank(&mesh, 0, 0, 1), 1);
    assert_int_equal(dsf_mesh_rank(&mesh, 0, 1, 0), 4);
    assert_int_equal(dsf_mesh_rank(&mesh, 1, 0, 0), 12);
    assert_int_equal(dsf_mesh_rank(&mesh, 1, 2, 3), 23);
}

static void a_rank_and_its_coordinates_are_the_same_thing(void **state)
{
    for (int p = 1; p < 5; p++)
        for (int d = 1; d < 5; d++)
            for (int t = 1; t < 5; t++) {
                struct dsf_mesh mesh = { .data = d,
                                         .pipeline = p,
                                         .tensor = t };

                for (int32_t r = 0; r < dsf_mesh_ranks(&mesh); r++) {
                    int32_t stage, replica, part;

                    dsf_mesh_coords(&mesh, r, &stage, &replica, &part);
                    assert_int_equal(dsf_mesh_rank(&mesh, stage, replica, part),
                                     r);
                }
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_is_innermost_and_pipeline_outermost),
        cmocka_unit_test(a_rank_and_its_coordinates_are_the_same_thing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
