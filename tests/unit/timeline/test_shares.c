/* test_shares.c - where the time of workers goes. */
#include "timeline/shares.h"

#include "lib/test.h"

static const struct dsflow_op compute = { .name = "compute" };
static const struct dsflow_op send = { .name = "send", .comm = 1 };
static const struct dsflow_op swap = { .name = "swap", .swaps = 1 };

static enum dsf_share share(const struct dsflow_op *op, enum dsflow_pass pass)
{
    struct dsflow_task_spec t = DSFLOW_TASK(.op = op, .pass = pass);

    return dsf_share_of(&t);
}

static void what_carries_data_moves_it_in_any_pass(void **state)
{
    assert_int_equal(share(&compute, DSFLOW_FORWARD), DSF_SHARE_FORWARD);
    assert_int_equal(share(&compute, DSFLOW_BACKWARD), DSF_SHARE_BACKWARD);
    assert_int_equal(share(&compute, DSFLOW_UPDATE), DSF_SHARE_UPDATE);
    assert_int_equal(share(&send, DSFLOW_BACKWARD), DSF_SHARE_MOVE);
    assert_int_equal(share(&swap, DSFLOW_UPDATE), DSF_SHARE_MOVE);
    assert_int_equal(dsf_share_of(NULL), DSF_SHARE_MOVE);
}

/* Only what a worker does is its time. */
static void links_and_disks_are_beside_workers(void **state)
{
    struct dsf_shares s = { .busy = 0 };

    dsf_shares_add(&s, DSF_LANE_WORKER, DSF_SHARE_FORWARD, 2);
    dsf_shares_add(&s, DSF_LANE_WORKER, DSF_SHARE_UPDATE, 1);
    dsf_shares_add(&s, DSF_LANE_WORKER, DSF_SHARE_MOVE, 0.5);
    dsf_shares_add(&s, DSF_LANE_LINK, DSF_SHARE_MOVE, 4);
    dsf_shares_add(&s, DSF_LANE_HOST, DSF_SHARE_UPDATE, 8);
    dsf_shares_add(&s, DSF_LANE_DISK, DSF_SHARE_MOVE, 16);
    assert_true(s.did[DSF_SHARE_FORWARD] == 2 && s.did[DSF_SHARE_UPDATE] == 1);
    assert_true(s.did[DSF_SHARE_BACKWARD] == 0 && s.did[DSF_SHARE_MOVE] == 0.5);
    assert_true(s.computing == 3 && s.moving == 0.5 && s.busy == 3.5);
    assert_true(s.carrying == 4.5); /* what disks do is no traffic of ranks */
    assert_true(s.beside == 28);
}

static void idle_is_the_rest_and_never_less_than_none(void **state)
{
    struct dsf_shares s = { .busy = 0 };

    assert_true(dsf_shares_idle(&s, 0) == 0);
    assert_true(dsf_shares_idle(&s, 4) == 1);
    dsf_shares_add(&s, DSF_LANE_WORKER, DSF_SHARE_BACKWARD, 3);
    assert_true(dsf_shares_idle(&s, 4) == 0.25);
    assert_true(dsf_shares_idle(&s, 2) == 0);
}

static void shares_of_ranks_are_those_of_all(void **state)
{
    struct dsf_shares a = { .busy = 0 }, b = { .busy = 0 };

    dsf_shares_add(&a, DSF_LANE_WORKER, DSF_SHARE_FORWARD, 1);
    dsf_shares_add(&b, DSF_LANE_WORKER, DSF_SHARE_MOVE, 2);
    dsf_shares_add(&b, DSF_LANE_LINK, DSF_SHARE_MOVE, 4);
    dsf_shares_join(&a, &b);
    assert_true(a.did[DSF_SHARE_FORWARD] == 1 && a.did[DSF_SHARE_MOVE] == 2);
    assert_true(a.computing == 1 && a.moving == 2 && a.busy == 3);
    assert_true(a.carrying == 6 && a.beside == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_carries_data_moves_it_in_any_pass),
        cmocka_unit_test(links_and_disks_are_beside_workers),
        cmocka_unit_test(idle_is_the_rest_and_never_less_than_none),
        cmocka_unit_test(shares_of_ranks_are_those_of_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
