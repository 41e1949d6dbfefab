/* test_priorities.c - the longest way to the end first; in a pipeline, the
 * order of its schedule. */
#include "same/trial.h"

#include "graph/task.h"
#include "lib/test.h"
#include "plan/schedule_slots.h"

#include <stdlib.h>
#include <string.h>

static const struct dsflow_task_spec *task_at(const struct dsflow_graph *g,
                                              uint32_t i)
{
    return dsflow_graph_task(g, (dsflow_task_id){ i });
}

static void nothing_else_changes(void **state)
{
    struct trial before, after;

    plan_trial_until(&before, "gpt2 mesh.data=2 mesh.pipeline=2", "offload");
    plan_trial_until(&after, "gpt2 mesh.data=2 mesh.pipeline=2", "priorities");
    assert_int_equal(dsflow_graph_ndata(before.graph),
                     dsflow_graph_ndata(after.graph));
    assert_int_equal(dsflow_graph_ntasks(before.graph),
                     dsflow_graph_ntasks(after.graph));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(after.graph); i++) {
        struct dsflow_task_spec x = *task_at(before.graph, i);
        struct dsflow_task_spec y = *task_at(after.graph, i);

        assert_int_equal(x.ndata, y.ndata);
        assert_memory_equal(x.data, y.data, x.ndata * sizeof(*x.data));
        assert_ptr_equal(x.op, y.op);
        assert_int_equal(x.rank, y.rank);
        assert_in_range(y.priority, 0, DSFLOW_TOP_PRIORITY);
    }
    end_trial(&before);
    end_trial(&after);
}

/* Of two tasks of which one waits for the other, that comes first. */
static void what_is_waited_for_comes_first(void **state)
{
    struct trial t;
    unsigned edges = 0;

    plan_trial(&t, "llama batch.tile=16");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const dsflow_task_id *preds;
        uint32_t n = dsflow_graph_preds(t.graph, (dsflow_task_id){ i }, &preds);

        if (task_at(t.graph, i)->priority == DSFLOW_TOP_PRIORITY)
            continue; /* it takes no time */
        for (uint32_t k = 0; k < n; k++, edges++)
            assert_true(task_at(t.graph, preds[k].i)->priority >=
                        task_at(t.graph, i)->priority);
    }
    assert_true(edges > 100);
    end_trial(&t);
}

static void what_moves_data_or_takes_no_time_goes_before_all(void **state)
{
    unsigned moves = 0, instants = 0;
    struct trial t;

    plan_trial(&t, "gpt2 mesh.data=2 mesh.pipeline=2 zero.stage=2");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *task = task_at(t.graph, i);
        struct dsflow_cost cost = dsf_task_cost(t.graph, task);
        bool instant = cost.flops == 0 && cost.bytes < 100;

        if (!task->op->comm && !instant)
            continue;
        assert_int_equal(task->priority, DSFLOW_TOP_PRIORITY);
        moves += task->op->comm != 0;
        instants += instant;
    }
    assert_true(moves > 0 && instants > 0);
    end_trial(&t);
}

/* The turn of a task of a layer: -1, it has none that this test looks at. */
static int32_t turn_of(const struct trial *t, const struct dsflow_task_spec *k,
                       const struct dsf_action *turns, int32_t n, int stage)
{
    const struct dsflow_plan *plan = t->plan;
    int32_t chunk;

    if (k->program != DSFLOW_STEP || k->microbatch < 0 || k->op->comm ||
        k->priority == DSFLOW_TOP_PRIORITY ||
        dsflow_plan_stage_of(plan, k->layer) != stage)
        return -1;
    chunk = dsflow_plan_chunk_of(plan, k->layer) / plan->nstages;
    for (int32_t i = 0; i < n; i++)
        if (turns[i].chunk == chunk &&
            turns[i].micro == dsflow_plan_micro_step_of(plan, k->microbatch) &&
            turns[i].backward == (k->pass == DSFLOW_BACKWARD))
            return i;
    return -1;
}

static void assert_in_order(const char *text,
                            enum dsf_pipeline_schedule schedule)
{
    struct trial t;

    plan_trial(&t, text);
    for (int stage = 0; stage < t.plan->nstages; stage++) {
        int32_t chunks = t.plan->nchunks / t.plan->nstages;
        int32_t n = 2 * chunks * t.plan->micro_steps, seen = 0;
        struct dsf_action *turns = calloc((size_t)n, sizeof(*turns));
        int32_t *least = calloc((size_t)n, sizeof(*least));
        int32_t *most = calloc((size_t)n, sizeof(*most));

        dsf_pipeline_order(schedule, t.plan->nstages, stage, chunks,
                           t.plan->micro_steps, turns);
        for (int32_t i = 0; i < n; i++)
            least[i] = INT32_MAX;
        for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++) {
            const struct dsflow_task_spec *task = task_at(t.graph, k);
            int32_t i = turn_of(&t, task, turns, n, stage);

            if (i < 0)
                continue;
            least[i] = task->priority < least[i] ? task->priority : least[i];
            most[i] = task->priority > most[i] ? task->priority : most[i];
        }
        for (int32_t i = 1; i < n; i++, seen++)
            if (most[i] > least[i - 1])
                fail_msg("%s: stage %d: turn %d goes before turn %d", text,
                         stage, (int)i, (int)i - 1);
        assert_true(seen > 0 && most[0] > 0);
        free(turns);
        free(least);
        free(most);
    }
    end_trial(&t);
}

static void a_stage_prefers_the_order_of_its_schedule(void **state)
{
    assert_in_order("gpt2 mesh.pipeline=2", DSF_1F1B);
    assert_in_order("gpt2 mesh.pipeline=2 pipeline.schedule=gpipe", DSF_GPIPE);
    assert_in_order("gpt2 mesh.pipeline=2 pipeline.schedule=interleaved "
                    "pipeline.chunks=2",
                    DSF_INTERLEAVED);
}

static void zero_bubble_puts_gradients_of_weights_off(void **state)
{
    int32_t most = 0, least = INT32_MAX;
    struct trial t;

    plan_trial(&t, "gpt2 mesh.pipeline=2 pipeline.schedule=zero_bubble");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *task = task_at(t.graph, i);

        if (task->program != DSFLOW_STEP || task->microbatch < 0 ||
            task->layer < 0 || task->layer >= t.model.layers)
            continue;
        if (task->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT)
            most = task->priority > most ? task->priority : most;
        else
            least = task->priority < least ? task->priority : least;
    }
    assert_true(most > 0 && most < least);
    end_trial(&t);
}

/* Updates, but for those that take no time, that come before one that is ahead
 * of them in the graph. */
static unsigned count_ahead(const char *text)
{
    int32_t least = DSFLOW_TOP_PRIORITY;
    unsigned ahead = 0, n = 0;
    struct trial t;

    plan_trial(&t, text);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *task = task_at(t.graph, i);

        if (!task->op->update || task->priority == DSFLOW_TOP_PRIORITY)
            continue;
        n++;
        ahead += task->priority > least;
        least = task->priority < least ? task->priority : least;
    }
    assert_true(n > 2);
    end_trial(&t);
    return ahead;
}

/* Those of the first layer, which the next step needs first, could come last
 * where they are smaller. */
static void updates_on_cores_are_done_in_order(void **state)
{
    assert_int_not_equal(count_ahead("gpt2"), 0);
    assert_int_equal(count_ahead("gpt2 offload.optimizer=cpu"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_else_changes),
        cmocka_unit_test(what_is_waited_for_comes_first),
        cmocka_unit_test(what_moves_data_or_takes_no_time_goes_before_all),
        cmocka_unit_test(a_stage_prefers_the_order_of_its_schedule),
        cmocka_unit_test(zero_bubble_puts_gradients_of_weights_off),
        cmocka_unit_test(updates_on_cores_are_done_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
