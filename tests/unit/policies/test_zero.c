/* test_zero.c - which tasks data ranks share out, and what moves between them:
 * read in the graph that `zero` leaves. */
#include "tests/same/trial.h"
#include "tests/same/unit_ops.h"

#include "policies/collective.h"

#include "lib/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Tasks of a kind in the program "step", on `rank` (-1: on all). */
static unsigned count(const struct trial *t, const struct dsflow_op *op,
                      int rank)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        n += k->op == op && k->program == 0 && (rank < 0 || k->rank == rank);
    }
    return n;
}

/* The graph of four data ranks, as `zero` leaves it. */
static void plan_zero(struct trial *t, const char *keys)
{
    char text[300];

    snprintf(text, sizeof(text), 
             "llama model.tied=false mesh.data=4 batch.sequences=4 %s", keys);
    plan_trial_until(t, text, "zero");
}

/* Of each unit, a task on every rank; of units that are not cut, whose owner has
 * all of it, one less. */
static void check_count(const struct trial *t, const struct dsflow_op *op,
                        bool there)
{
    assert_in_range(count(t, op, -1), there ? 3 * t->model.nunits : 0,
                    there ? 4 * t->model.nunits : 0);
}

/* What each stage keeps says what is done together. */
static void each_stage_has_its_collectives(void **state)
{
    static const struct {
        const char *keys;
        bool sums, gathers;
    } stages[] = {
        { "zero.stage=0", true, false },
        { "zero.stage=1", false, true },
        { "zero.stage=2", false, true },
    };

    for (unsigned i = 0; i < 3; i++) {
        struct trial t;

        plan_zero(&t, stages[i].keys);
        check_count(&t, &dsf_op_all_reduce, stages[i].sums);
        check_count(&t, &dsf_op_all_gather, stages[i].gathers);
        /* One task is left of a sum that one rank owns all of. */
        assert_true((count(&t, &dsf_op_reduce_scatter, -1) > 0) ==
                    stages[i].gathers);
        assert_int_equal(count(&t, &dsf_op_add, -1), 0);
        end_trial(&t);
    }
}

/* With stage 3: before the first use in each pass, and never after an update. */
static void stage_3_gathers_what_is_used(void **state)
{
    struct trial t;
    unsigned blocks = 3 * 6;

    plan_zero(&t, "zero.stage=3 zero.keep=0");
    for (int rank = 0; rank < 4; rank++)
        assert_true(count(&t, &dsf_op_all_gather, rank) >= 2 * blocks);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++)
        assert_true(dsflow_graph_task(t.graph, (dsflow_task_id){ i })->op !=
                        &dsf_op_all_gather ||
                    dsflow_graph_task(t.graph, (dsflow_task_id){ i })->pass !=
                        DSFLOW_UPDATE);
    end_trial(&t);
}

/* One task for each member, all of one number; different members. */
static void members_of_a_collective_share_its_number(void **state)
{
    static const char *const keys[] = { "zero.stage=0", "zero.stage=1",
                                        "zero.stage=3 zero.keep=0" };

    for (unsigned i = 0; i < 3; i++) {
        uint32_t *seen, last;
        struct trial t;

        plan_zero(&t, keys[i]);
        last = dsf_collective_last(t.graph);
        assert_true(last > 0);
        seen = calloc(last + 1, sizeof(*seen));
        for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++) {
            const struct dsflow_task_spec *task =
                dsflow_graph_task(t.graph, (dsflow_task_id){ k });
            uint32_t bit = 1u << task->rank;

            if (task->collective == 0)
                continue;
            if (seen[task->collective] & bit)
                fail_msg("%s: rank %d is twice in collective %u", keys[i],
                         task->rank, task->collective);
            seen[task->collective] |= bit;
        }
        for (uint32_t c = 1; c <= last; c++)
            assert_true(seen[c] != 0);
        free(seen);
        end_trial(&t);
    }
}

/* Groups of one rank are summed there first. */
static void groups_of_a_rank_are_summed_before(void **state)
{
    struct trial t;

    plan_trial_until(&t, "llama model.tied=false mesh.data=2 batch.groups=8 "
                     "zero.stage=2", "zero");
    for (int rank = 0; rank < 2; rank++)
        assert_int_equal(count(&t, &dsf_op_add, rank), t.model.nunits);
    end_trial(&t);
}

/* Elements that the tasks of `op` work on, on each rank, and in all. */
static void check_shares(const struct trial *t, const struct dsflow_op *op)
{
    int64_t on[4] = { 0 }, all = 0, sum = 0;

    for (unsigned u = 0; u < t->model.nunits; u++)
        all += t->model.units[u].elems;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        /* Both kinds of arguments begin so. */
        if (k->op == op)
            on[k->rank] += *(const int64_t *)k->args;
    }
    for (int r = 0; r < 4; r++) {
        sum += on[r];
        assert_true(on[r] < all / 2);
        assert_true(on[r] > all / 8);
    }
    assert_int_equal(sum, all);
}

/* Neither is known to any policy. */
static void ops_of_others_are_done_on_shards(void **state)
{
    static const char *const keys[] = { "zero.stage=1", "zero.stage=2",
                                        "zero.stage=3" };

    for (unsigned i = 0; i < 3; i++) {
        char text[200];
        struct trial t;

        snprintf(text, sizeof(text),
                 "%s optimizer.kind=drift shrink.by=0.9", keys[i]);
        plan_zero(&t, text);
        check_shares(&t, &op_drift);
        if (i == 2)
            check_shares(&t, &op_shrink);
        end_trial(&t);
    }
}

/* Where every rank has all of the parameters, it shrinks all of them: that is
 * less than to send them once more. */
static void what_each_has_whole_is_not_moved(void **state)
{
    struct trial t;

    plan_zero(&t, "zero.stage=1 optimizer.kind=drift shrink.by=0.9");
    for (int r = 0; r < 4; r++)
        assert_int_equal(count(&t, &op_shrink, r), t.model.nunits);
    check_count(&t, &dsf_op_all_gather, true);
    end_trial(&t);
}

/* A piece of data a rank, whatever their number: not one for each pair. */
static void buffers_grow_with_the_ranks_and_no_faster(void **state)
{
    static const char *const stages[] = { "0", "1", "2", "3 zero.keep=0" };

    for (unsigned i = 0; i < 4; i++) {
        uint32_t n[2];

        for (int k = 0; k < 2; k++) {
            char text[200];
            struct trial t;

            snprintf(text, sizeof(text),
                     "gpt2 mesh.data=%d batch.sequences=16 zero.stage=%s",
                     8 << k, stages[i]);
            plan_trial(&t, text);
            n[k] = dsflow_graph_ndata(t.graph);
            end_trial(&t);
        }
        assert_true(n[1] < 2.2 * n[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stage_has_its_collectives),
        cmocka_unit_test(stage_3_gathers_what_is_used),
        cmocka_unit_test(members_of_a_collective_share_its_number),
        cmocka_unit_test(groups_of_a_rank_are_summed_before),
        cmocka_unit_test(ops_of_others_are_done_on_shards),
        cmocka_unit_test(what_each_has_whole_is_not_moved),
        cmocka_unit_test(buffers_grow_with_the_ranks_and_no_faster),
    };

    add_unit_ops();
    return cmocka_run_group_tests_name("zero", tests, NULL, NULL);
}
