/* What goes and comes between processes has buffers by turns. */
#include "plan/process_buffers.h"

#include "lib/test.h"

static bool leave(struct dsf_process_buffers *b, struct dsflow_graph *g,
                  struct dsf_left what, dsflow_data_id *id)
{
    return dsf_process_leaving(b, g, 1, DSFLOW_FP32, 64, &what, id);
}

static void numbers_leave_once_for_all_who_want_them(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_process_buffers b = { .v = NULL };
    const struct dsf_left what = { { 3 }, 5, 128, DSFLOW_STEP };
    dsflow_data_id first, again;

    assert_false(leave(&b, g, what, &first));
    assert_true(leave(&b, g, what, &again));
    assert_int_equal(first.i, again.i);
    dsf_process_buffers_fini(&b);
    dsflow_graph_free(g);
}

/* A program may run without the one that had copied them there. */
static void other_numbers_leave_by_another_buffer(void **state)
{
    const struct dsf_left what = { { 3 }, 5, 128, DSFLOW_STEP };
    const struct dsf_left others[] = { { { 4 }, 5, 128, DSFLOW_STEP },
                                       { { 3 }, 6, 128, DSFLOW_STEP },
                                       { { 3 }, 5, 0, DSFLOW_STEP },
                                       { { 3 }, 5, 128, DSFLOW_STEP + 1 } };

    for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct dsflow_graph *g = dsflow_graph_new();
        struct dsf_process_buffers b = { .v = NULL };
        dsflow_data_id first, other;

        leave(&b, g, what, &first);
        assert_false(leave(&b, g, others[i], &other));
        assert_int_not_equal(first.i, other.i);
        dsf_process_buffers_fini(&b);
        dsflow_graph_free(g);
    }
}

static void a_buffer_that_is_used_again_has_what_came_last(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_process_buffers b = { .v = NULL };
    dsflow_data_id first, id;

    for (uint32_t i = 0; i < 3; i++)
        assert_false(leave(&b, g, (struct dsf_left){ { i }, 0, 0, 0 },
                           i == 0 ? &first : &id));
    assert_int_equal(first.i, id.i);
    assert_false(leave(&b, g, (struct dsf_left){ { 0 }, 0, 0, 0 }, &id));
    dsf_process_buffers_fini(&b);
    dsflow_graph_free(g);
}

static void tasks_of_a_rank_take_turns(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_process_buffers b = { .v = NULL };
    dsflow_data_id id[3];

    for (int i = 0; i < 3; i++) {
        id[i] = dsf_process_buffer(&b, g, DSF_ARRIVING, 1, DSFLOW_FP32, 64, 0);
        dsf_process_buffers_turn(&b, 1);
    }
    assert_int_not_equal(id[0].i, id[1].i);
    assert_int_equal(id[0].i, id[2].i);
    assert_string_equal(dsflow_graph_data(g, id[1])->name,
                        "arriving.fp32.z64.1.0.r1");
    dsf_process_buffers_fini(&b);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_leave_once_for_all_who_want_them),
        cmocka_unit_test(other_numbers_leave_by_another_buffer),
        cmocka_unit_test(a_buffer_that_is_used_again_has_what_came_last),
        cmocka_unit_test(tasks_of_a_rank_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
