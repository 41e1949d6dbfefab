/* test_division.c - which process, node and GPU a rank is on. */
#include "plan/division.h"

#include "lib/test.h"

static void ranks_follow_each_other_in_processes(void **state)
{
    for (int32_t ranks = 1; ranks < 40; ranks++)
        for (int32_t n = 1; n <= ranks; n++) {
            const struct dsf_processes all = { .ranks = ranks, .n = n };

            assert_int_equal(dsf_process_first(&all, 0), 0);
            assert_int_equal(dsf_process_first(&all, n), ranks);
            for (int32_t r = 0; r < ranks; r++) {
                const int32_t p = dsf_process_of(&all, r);

                assert_true(dsf_process_first(&all, p) <= r &&
                            r < dsf_process_first(&all, p + 1));
            }
        }
}

static void workers_are_shared_out_by_ranks(void **state)
{
    const struct dsf_processes three = { .ranks = 4, .n = 3 };
    const struct dsf_processes large = { .ranks = 32767, .n = 2 };

    assert_int_equal(dsf_process_workers(&three, 0, 9), 2);
    assert_int_equal(dsf_process_workers(&three, 2, 9), 4);
    assert_int_equal(dsf_process_workers(&three, 0, 1), 1);
    assert_int_equal(dsf_process_workers(&large, 1, 1 << 18), 131076);
}

static void assert_gpus(struct dsf_machine machine, int32_t ranks, unsigned n,
                        unsigned most)
{
    const struct dsf_gpus_used used = dsf_gpus_of(&machine, ranks);

    if (used.n != n || used.most != most)
        fail_msg("%d ranks: %u GPUs, %u ranks on one, not %u and %u",
                 (int)ranks, used.n, used.most, n, most);
}

static void gpus_are_those_of_each_node(void **state)
{
    static const int32_t uneven[] = { 0, 0, 1 };
    struct dsf_machine one = { .gpus = 8 };
    struct dsf_machine two = { .gpus = 8, .processes = 2, .nodes = 2 };
    struct dsf_machine three = {
        .gpus = 2, .processes = 3, .nodes = 2, .node_of = uneven
    };

    assert_gpus((struct dsf_machine){ .processes = 2, .nodes = 2 }, 4, 0, 0);
    assert_gpus(one, 4, 4, 1);
    assert_gpus(one, 12, 8, 2);
    assert_gpus(two, 4, 4, 1);
    assert_gpus(two, 16, 16, 1);
    assert_gpus(two, 17, 16, 2);
    assert_gpus(three, 6, 4, 2);
    assert_gpus(three, 3, 3, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_follow_each_other_in_processes),
        cmocka_unit_test(workers_are_shared_out_by_ranks),
        cmocka_unit_test(gpus_are_those_of_each_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
