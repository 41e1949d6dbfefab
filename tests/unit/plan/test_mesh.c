/* test_mesh.c - the order of ranks, their coordinates and groups; axes that are
 * registered. */
#include "plan/mesh.h"

#include "lib/test.h"

/* An axis more: outside of all, ranks that do the same. */
static const struct dsflow_axis copies_axis = {
    .abi = DSFLOW_AXIS_ABI,
    .name = "copies",
    .summary = "ranks that do the same",
    .order = 0,
    .max = 4,
};
enum { SEQUENCE = DSF_AXIS_SEQUENCE, COPIES };

static int register_axes(void **state)
{
    struct dsflow_err err;

    assert_int_equal(dsflow_axis_register(&copies_axis, &err), DSFLOW_OK);
    return 0;
}

static struct dsf_mesh mesh_of(int data, int pipeline, int tensor, int sequence,
                               int copies)
{
    struct dsf_mesh mesh;

    dsf_mesh_init(&mesh, (int64_t[DSF_MAX_AXES]){ data, pipeline, tensor,
                                                  sequence, copies, 1, 1, 1 });
    return mesh;
}

static int32_t rank_of(const struct dsf_mesh *mesh, int32_t stage, int32_t d,
                       int32_t t)
{
    int32_t rank = dsf_mesh_peer(mesh, 0, DSF_AXIS_DATA, d);

    rank = dsf_mesh_peer(mesh, rank, DSF_AXIS_PIPELINE, stage);
    return dsf_mesh_peer(mesh, rank, DSF_AXIS_TENSOR, t);
}

static void tensor_is_innermost_and_pipeline_outermost(void **state)
{
    struct dsf_mesh mesh = mesh_of(3, 2, 4, 1, 1);

    assert_int_equal(dsf_mesh_ranks(&mesh), 24);
    assert_int_equal(rank_of(&mesh, 0, 0, 0), 0);
    assert_int_equal(rank_of(&mesh, 0, 0, 1), 1);
    assert_int_equal(rank_of(&mesh, 0, 1, 0), 4);
    assert_int_equal(rank_of(&mesh, 1, 0, 0), 12);
    assert_int_equal(rank_of(&mesh, 1, 2, 3), 23);
    assert_string_equal(dsf_mesh_text(&mesh).s,
                        "data 3 x pipeline 2 x tensor 4 x sequence 1 x "
                        "copies 1");
}

static void an_axis_stands_where_its_order_says(void **state)
{
    struct dsf_mesh mesh = mesh_of(2, 3, 2, 4, 2);

    assert_int_equal(dsf_mesh_ranks(&mesh), 96);
    assert_int_equal(mesh.stride[DSF_AXIS_TENSOR], 1);
    assert_int_equal(mesh.stride[SEQUENCE], 2);
    assert_int_equal(mesh.stride[DSF_AXIS_DATA], 8);
    assert_int_equal(mesh.stride[DSF_AXIS_PIPELINE], 16);
    assert_int_equal(mesh.stride[COPIES], 48);
}

static void a_rank_and_its_coordinates_are_the_same_thing(void **state)
{
    for (int size = 1; size < 243; size++) {
        struct dsf_mesh mesh = mesh_of(1 + size % 3, 1 + size / 3 % 3,
                                       1 + size / 9 % 3, 1 + size / 27 % 3,
                                       1 + size / 81 % 3);

        for (int32_t r = 0; r < dsf_mesh_ranks(&mesh); r++) {
            struct dsf_coords at = dsf_mesh_coords(&mesh, r);
            int32_t rank = 0;

            for (int a = 0; a < DSF_MAX_AXES; a++) {
                assert_in_range(at.at[a], 0, mesh.size[a] - 1);
                assert_int_equal(dsf_mesh_at(&mesh, r, a), at.at[a]);
                rank += at.at[a] * mesh.stride[a];
            }
            assert_int_equal(rank, r);
        }
    }
}

static void a_peer_differs_on_one_axis_only(void **state)
{
    struct dsf_mesh mesh = mesh_of(3, 2, 2, 2, 2);

    for (int32_t r = 0; r < dsf_mesh_ranks(&mesh); r++)
        for (int a = 0; a < DSF_MAX_AXES; a++)
            for (int32_t at = 0; at < mesh.size[a]; at++) {
                int32_t peer = dsf_mesh_peer(&mesh, r, a, at);

                for (int b = 0; b < DSF_MAX_AXES; b++)
                    assert_int_equal(dsf_mesh_at(&mesh, peer, b),
                                     b == a ? at : dsf_mesh_at(&mesh, r, b));
            }
}

static void the_same_weights_are_on_ranks_of_one_stage_and_part(void **state)
{
    struct dsf_mesh mesh = mesh_of(3, 2, 2, 2, 1);
    int32_t ranks[24], stage = 1, part = 1, n = 0;
    int32_t rank = rank_of(&mesh, stage, 2, part);

    assert_int_equal(dsf_mesh_same(&mesh, rank, DSF_SAME_WEIGHTS, NULL), 6);
    assert_int_equal(dsf_mesh_same(&mesh, rank, DSF_SAME_WEIGHTS, ranks), 6);
    for (int32_t r = 0; r < dsf_mesh_ranks(&mesh); r++)
        if (dsf_mesh_at(&mesh, r, DSF_AXIS_PIPELINE) == stage &&
            dsf_mesh_at(&mesh, r, DSF_AXIS_TENSOR) == part)
            assert_int_equal(ranks[n++], r);
    assert_int_equal(n, 6);
}

static void the_same_sequences_are_on_ranks_of_one_replica(void **state)
{
    struct dsf_mesh mesh = mesh_of(2, 2, 2, 2, 2);
    int32_t ranks[32], n;

    n = dsf_mesh_same(&mesh, 31, DSFLOW_SHARE_SEQUENCES, ranks);
    assert_int_equal(n, 16);
    for (int32_t i = 0; i < n; i++)
        assert_int_equal(dsf_mesh_at(&mesh, ranks[i], DSF_AXIS_DATA), 1);
    /* Its tokens too: the ranks along sequence have others. */
    assert_int_equal(dsf_mesh_same(&mesh, 31,
                                   DSFLOW_SHARE_SEQUENCES | DSFLOW_SHARE_TOKENS,
                                   NULL),
                     8);
    /* Nothing is shared out in this: all ranks. */
    assert_int_equal(dsf_mesh_same(&mesh, 31, DSFLOW_SHARE_EXPERTS, NULL), 32);
}

static void an_axis_is_checked_when_it_is_registered(void **state)
{
    struct dsflow_axis axis = copies_axis;
    struct dsflow_err err;

    assert_int_equal(dsflow_axis_register(&axis, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "axis copies: the name is taken (the program)");
    axis.name = "a.b";
    assert_int_equal(dsflow_axis_register(&axis, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "axis a.b: expected a name that can be a key "
                                 "of [mesh]");
    axis.name = "many";
    axis.max = 0;
    assert_int_equal(dsflow_axis_register(&axis, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "axis many: max: 0: expected 1 to 32767");
    axis.max = 2;
    axis.abi = 77;
    assert_int_equal(dsflow_axis_register(&axis, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "axis many: made for interface 77: this dsflow "
                                 "has 1");
    assert_null(dsflow_axis_at(COPIES + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_is_innermost_and_pipeline_outermost),
        cmocka_unit_test(an_axis_stands_where_its_order_says),
        cmocka_unit_test(a_rank_and_its_coordinates_are_the_same_thing),
        cmocka_unit_test(a_peer_differs_on_one_axis_only),
        cmocka_unit_test(the_same_weights_are_on_ranks_of_one_stage_and_part),
        cmocka_unit_test(the_same_sequences_are_on_ranks_of_one_replica),
        cmocka_unit_test(an_axis_is_checked_when_it_is_registered),
    };

    return cmocka_run_group_tests(tests, register_axes, NULL);
}
