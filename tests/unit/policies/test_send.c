/* test_send.c - copies of what another rank made: one for all readers of a
 * rank, until the original is written again. */
#include "exec/exec_private.h"
#include "exec/spread_private.h"
#include "policies/policies.h"
#include "policies/processes.h"

#include "lib/near_wire.h"
#include "tasks/tasks.h"
#include "unit/policies/hand.h"

#include <dsflow/exec.h>

#include <pthread.h>
#include <string.h>

static const struct dsflow_op op_gather = {
    .abi = DSFLOW_OP_ABI,
    .name = "gather_by_hand",
    .comm = DSFLOW_COMM_GATHER,
    DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R }),
    .check = hand_check,
};

/* What the policy makes of `in`, which is freed. */
static struct dsflow_graph *sent(struct dsflow_graph *in)
{
    struct dsflow_graph *out = dsflow_graph_new();
    const struct dsflow_plan plan = { .nranks = 4 };
    struct dsflow_err err;

    assert_int_equal(dsf_policy_send.rewrite(NULL, &plan, in, out, &err),
                     DSFLOW_OK);
    if (dsflow_graph_check(out, &err) < 0)
        fail_msg("%s", err.msg);
    dsflow_graph_free(in);
    return out;
}

static unsigned count(const struct dsflow_graph *g)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++)
        n += hand_task(g, i)->op == &dsf_op_send;
    return n;
}

static void what_is_at_home_is_not_sent(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = hand_data(g, "a", 1), b = hand_data(g, "b", 1);

    hand_make(g, 1, a);
    hand_use(g, &op_use, DSFLOW_STEP, 1, b, a);
    g = sent(g);
    assert_int_equal(dsflow_graph_ntasks(g), 2);
    assert_int_equal(dsflow_graph_ndata(g), 2);
    dsflow_graph_free(g);
}

static void a_reader_gets_a_copy_on_its_rank(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = hand_data(g, "a", 0), b = hand_data(g, "b", 2);
    const struct dsflow_task_spec *send;
    const struct dsflow_data_spec *copy;

    hand_make(g, 0, a);
    hand_use(g, &op_use, DSFLOW_STEP, 2, b, a);
    g = sent(g);
    assert_int_equal(dsflow_graph_ntasks(g), 3);
    send = hand_task(g, 1);
    assert_ptr_equal(send->op, &dsf_op_send);
    /* It is of the reader: its rank, layer and micro-batch. */
    assert_int_equal(send->rank, 2);
    assert_int_equal(send->layer, 3);
    assert_int_equal(send->microbatch, 2);
    assert_string_equal(hand_name(g, 1, 0), "a");
    assert_string_equal(hand_name(g, 1, 1), "a.on2");
    assert_string_equal(hand_name(g, 2, 1), "a.on2");
    copy = dsflow_graph_data(g, send->data[1]);
    assert_int_equal(copy->home, 2);
    assert_int_equal(copy->elems, 8);
    assert_int_equal(copy->dtype, DSFLOW_FP32);
    assert_int_equal(copy->persistent, 0);
    dsflow_graph_free(g);
}

static void readers_of_a_rank_share_a_copy_until_it_is_old(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = hand_data(g, "a", 0), b = hand_data(g, "b", 1);
    dsflow_data_id c = hand_data(g, "c", 2);

    hand_make(g, 0, a);
    hand_use(g, &op_use, DSFLOW_STEP, 1, b, a);
    hand_use(g, &op_use, DSFLOW_STEP, 1, b, a); /* the same copy */
    hand_use(g, &op_use, DSFLOW_STEP, 2, c, a); /* one of its own */
    hand_make(g, 0, a);
    hand_use(g, &op_use, DSFLOW_STEP, 1, b, a); /* sent again, */
    g = sent(g);
    assert_int_equal(count(g), 3);
    assert_int_equal(dsflow_graph_ndata(g), 5); /* … to the same place */
    assert_ptr_equal(hand_task(g, 7)->op, &dsf_op_send);
    assert_string_equal(hand_name(g, 7, 1), "a.on1");
    dsflow_graph_free(g);
}

/* Another program may have written it meanwhile. */
static void each_program_sends_for_itself(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_program more = dsflow_graph_add_program(g, "more");
    dsflow_data_id b = hand_data(g, "b", 1);
    dsflow_data_id kept = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "kept", .elems = 8, .dtype = DSFLOW_FP32,
                        .role = DSFLOW_PARAMS, .persistent = 1, .unit = 3,
                        .kept = 1));
    const struct dsflow_data_spec *copy;

    hand_use(g, &op_use, DSFLOW_STEP, 1, b, kept);
    hand_use(g, &op_use, more, 1, b, kept);
    g = sent(g);
    assert_int_equal(count(g), 2);
    assert_int_equal(hand_task(g, 2)->program, more);
    /* A copy of parameters is no parameter, and of no unit. */
    copy = dsflow_graph_data(g, hand_task(g, 0)->data[1]);
    assert_int_equal(copy->role, DSFLOW_BUFFERS);
    assert_int_equal(copy->persistent, 0);
    assert_int_equal(copy->unit, -1);
    assert_int_equal(copy->kept, 0);
    dsflow_graph_free(g);
}

static void constants_are_there_from_the_start(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id b = hand_data(g, "b", 1);
    dsflow_data_id rope = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "rope", .elems = 8, .dtype = DSFLOW_FP32,
                        .persistent = 1, .constant = 1, .unit = -1));
    const struct dsflow_data_spec *copy;

    hand_use(g, &op_use, DSFLOW_STEP, 1, b, rope);
    g = sent(g);
    assert_int_equal(dsflow_graph_ntasks(g), 1);
    copy = dsflow_graph_data(g, hand_task(g, 0)->data[1]);
    assert_string_equal(copy->name, "rope.on1");
    assert_true(copy->persistent && copy->constant && copy->home == 1);
    dsflow_graph_free(g);
}

static void what_moves_data_itself_reads_it_where_it_is(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = hand_data(g, "a", 0), b = hand_data(g, "b", 1);

    hand_make(g, 0, a);
    hand_use(g, &op_gather, DSFLOW_STEP, 1, b, a);
    g = sent(g);
    assert_int_equal(count(g), 0);
    assert_string_equal(hand_name(g, 1, 1), "a");
    dsflow_graph_free(g);
}

static void only_what_moves_data_reads_in_another_process(void **state)
{
    const struct dsf_processes two = { 4, 2 };
    struct dsflow_graph *g = dsflow_graph_new(), *own;
    struct dsf_graph_part part;
    dsflow_data_id a = hand_data(g, "a", 1), b = hand_data(g, "b", 2);
    struct dsflow_err err;

    hand_make(g, 1, a);
    hand_use(g, &op_gather, DSFLOW_STEP, 2, b, a);
    for (int32_t p = 0; p < 2; p++) {
        assert_int_equal(dsf_process_part(&two, p, g, &part, &err), DSFLOW_OK);
        own = part.graph;
        assert_int_equal(dsflow_graph_ntasks(own), 2);
        assert_ptr_equal(hand_task(own, 0)->op,
                         p == 0 ? &op_make : &dsf_op_receive);
        assert_ptr_equal(hand_task(own, 1)->op,
                         p == 0 ? &dsf_op_transmit : &op_gather);
        /* The message counts as the task that reads it. */
        assert_int_equal(part.tasks[0], p);
        assert_int_equal(part.tasks[1], 1);
        assert_int_equal(part.nth[0], 0);
        assert_int_equal(part.nth[1], p == 0 ? DSF_NOT_IN_PART : 0);
        assert_int_equal(part.ordered[part.first[p]], p);
        assert_int_equal(part.first[p + 1], p + 1);
        assert_int_equal(part.process[a.i], 0);
        assert_int_equal(part.process[b.i], 1);
        assert_int_equal(part.data[p == 0 ? b.i : a.i], DSF_NOT_IN_PART);
        dsf_graph_part_free(&part);
    }
    hand_use(g, &op_use, DSFLOW_STEP, 3, b, a);
    assert_int_equal(dsf_process_part(&two, 1, g, &part, &err), DSFLOW_ENOSYS);
    assert_non_null(strstr(err.msg, "task use of rank 3: a is in another"));
    dsflow_graph_free(g);

    g = dsflow_graph_new();
    a = hand_data(g, "a", 1);
    hand_make(g, DSFLOW_ANYWHERE, a);
    assert_int_equal(dsf_process_part(&two, 0, g, &part, &err), DSFLOW_ENOSYS);
    assert_non_null(strstr(err.msg, "task make has no rank"));
    dsflow_graph_free(g);
}

/* Both ends of a message see that a plan does without it. */
static void a_hash_is_of_the_tasks_and_messages_of_a_process(void **state)
{
    const struct dsf_processes three = { 3, 3 };
    uint64_t hashes[3][3];
    struct dsflow_err err;

    for (int variant = 0; variant < 3; variant++) {
        struct dsflow_graph *g = dsflow_graph_new();
        struct dsf_graph_part part;
        dsflow_data_id a = hand_data(g, "a", 0), b = hand_data(g, "b", 1);

        hand_make(g, 0, a);
        hand_make(g, 1, b);
        hand_make(g, 2, hand_data(g, "c", 2));
        if (variant > 0)
            hand_use(g, &op_gather, DSFLOW_STEP, 1, b, a);
        /* The numbers are the same in each process. */
        assert_int_equal(dsf_process_part(&three, variant, g, &part, &err),
                         DSFLOW_OK);
        memcpy(hashes[variant], part.hashes, sizeof(hashes[variant]));
        dsf_graph_part_free(&part);
        dsflow_graph_free(g);
    }
    assert_memory_equal(hashes[1], hashes[2], sizeof(hashes[1]));
    assert_true(hashes[0][0] != hashes[1][0]);
    assert_true(hashes[0][1] != hashes[1][1]);
    assert_true(hashes[0][2] == hashes[1][2]);
}

static void *serve_without_executor(void *wire)
{
    static struct dsflow_err err;

    return dsf_spread_serve(NULL, NULL, wire, NULL, &err) == DSFLOW_OK ? NULL
                                                                       : &err;
}

/* No executor can run a task `make`: the other process is told to end. */
static void who_serves_ends_with_an_executor_that_did_not_open(void **state)
{
    const struct dsf_processes two = { 2, 2 };
    struct near_wire *wires = near_wires_new(2);
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL, .wire = near_wire(wires, 0));
    struct dsf_graph_part part;
    struct dsflow_exec *exec;
    struct dsflow_err err;
    pthread_t server;
    void *why;

    hand_make(g, 0, hand_data(g, "a", 0));
    hand_make(g, 1, hand_data(g, "b", 1));
    assert_int_equal(dsf_process_part(&two, 0, g, &part, &err), DSFLOW_OK);
    options.part = &part;
    pthread_create(&server, NULL, serve_without_executor, near_wire(wires, 1));
    assert_int_equal(dsflow_exec_open(g, &options, NULL, &exec, &err),
                     DSFLOW_ENOSYS);
    pthread_join(server, &why);
    assert_null(why);
    assert_int_equal(near_wires_free(wires), 0);
    dsf_graph_part_free(&part);
    dsflow_graph_free(g);
}

/* Two processes, each with a number of its own that it takes from the other. */
struct pair {
    struct dsflow_graph *g;
    struct near_wire *wires;
    struct dsf_graph_part parts[2];
    struct dsflow_exec *first, *second;
    pthread_t server;
};

static void take_other(struct dsflow_graph *g, dsflow_data_id *data, int rank)
{
    const struct dsf_range all = { 8, 0, 0 };

    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &dsf_op_copy, .rank = (int16_t)rank, .layer = -1,
                        .microbatch = -1, .tile = -1, .args = &all, .ndata = 2,
                        .data = (dsflow_data_id[]){ data[rank],
                                                    data[1 - rank] }));
}

static void *serve_with_executor(void *user)
{
    struct pair *p = user;
    struct dsflow_err err;

    assert_int_equal(dsf_spread_serve(p->second, &p->parts[1],
                                      near_wire(p->wires, 1), NULL, &err),
                     DSFLOW_OK);
    dsflow_exec_close(p->second);
    return NULL;
}

static void open_pair(struct pair *p)
{
    static const struct dsf_processes two = { 2, 2 };
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL);
    dsflow_data_id data[2];
    struct dsflow_err err;

    p->g = dsflow_graph_new();
    p->wires = near_wires_new(2);
    for (int r = 0; r < 2; r++)
        data[r] = dsflow_graph_add_data(
            p->g, &DSFLOW_DATA(.name = r == 0 ? "a" : "b", .elems = 8,
                               .dtype = DSFLOW_FP32, .role = DSFLOW_PARAMS,
                               .home = (int16_t)r, .unit = -1,
                               .persistent = true));
    take_other(p->g, data, 1);
    take_other(p->g, data, 0);
    for (int32_t i = 0; i < 2; i++)
        assert_int_equal(
            dsf_process_part(&two, i, p->g, &p->parts[i], &err), DSFLOW_OK);
    options.wire = near_wire(p->wires, 1);
    assert_int_equal(dsflow_exec_open(p->parts[1].graph, &options, NULL,
                                      &p->second, &err),
                     DSFLOW_OK);
    options.wire = near_wire(p->wires, 0);
    options.part = &p->parts[0];
    assert_int_equal(dsflow_exec_open(p->g, &options, NULL, &p->first, &err),
                     DSFLOW_OK);
}

static void close_pair(struct pair *p)
{
    dsflow_exec_close(p->first);
    pthread_join(p->server, NULL);
    assert_int_equal(near_wires_free(p->wires), 0);
    dsf_graph_part_free(&p->parts[0]);
    dsf_graph_part_free(&p->parts[1]);
    dsflow_graph_free(p->g);
}

/* Where one has failed, the other has it from the next program, and both come
 * to the end of that: neither waits for a message for ever. */
static void one_that_failed_still_sends(void **state)
{
    static const char *const said[] = { "a disk is gone",
                                        "process 1: a disk is gone" };

    for (int which = 0; which < 2; which++) {
        struct dsflow_err why, err;
        struct pair p;

        open_pair(&p);
        dsflow_fail(&why, DSFLOW_EIO, "a disk is gone");
        dsf_exec_fail(which == 0 ? p.first->spread->own : p.second, &why);
        pthread_create(&p.server, NULL, serve_with_executor, &p);
        assert_int_equal(dsflow_exec_submit(p.first, DSFLOW_STEP, &err),
                         DSFLOW_EIO);
        assert_string_equal(err.msg, said[which]);
        assert_int_equal(dsflow_exec_wait(p.first, &err), DSFLOW_EIO);
        assert_string_equal(err.msg, said[which]);
        close_pair(&p);
    }
}

/* Each rank has a process, in order, and each process a rank. */
static void ranks_are_shared_out_in_order(void **state)
{
    for (int32_t ranks = 1; ranks < 20; ranks++)
        for (int32_t n = 1; n <= ranks; n++) {
            const struct dsf_processes all = { ranks, n };

            assert_int_equal(dsf_process_first(&all, 0), 0);
            assert_int_equal(dsf_process_first(&all, n), ranks);
            for (int32_t p = 0; p < n; p++) {
                int32_t first = dsf_process_first(&all, p);
                int32_t end = dsf_process_first(&all, p + 1);

                assert_true(end - first == ranks / n ||
                            end - first == ranks / n + 1);
                for (int32_t r = first; r < end; r++)
                    assert_int_equal(dsf_process_of(&all, r), p);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_moves_data_reads_in_another_process),
        cmocka_unit_test(a_hash_is_of_the_tasks_and_messages_of_a_process),
        cmocka_unit_test(ranks_are_shared_out_in_order),
        cmocka_unit_test(who_serves_ends_with_an_executor_that_did_not_open),
        cmocka_unit_test(one_that_failed_still_sends),
        cmocka_unit_test(what_is_at_home_is_not_sent),
        cmocka_unit_test(a_reader_gets_a_copy_on_its_rank),
        cmocka_unit_test(readers_of_a_rank_share_a_copy_until_it_is_old),
        cmocka_unit_test(each_program_sends_for_itself),
        cmocka_unit_test(constants_are_there_from_the_start),
        cmocka_unit_test(what_moves_data_itself_reads_it_where_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
