/* test_pipeline.c - each task is on the rank of its layer and its micro-batch,
 * and nothing writes the memory of another rank. */
#include "same/trial.h"

#include "lib/test.h"

#include <string.h>

static const struct dsflow_task_spec *task_at(const struct dsflow_graph *g,
                                              uint32_t i)
{
    return dsflow_graph_task(g, (dsflow_task_id){ i });
}

static const struct dsflow_data_spec *data_of(const struct dsflow_graph *g,
                                              const struct dsflow_task_spec *t,
                                              unsigned p)
{
    return dsflow_graph_data(g, t->data[p]);
}

/* The coordinate of a rank on an axis. */
static int32_t on(const struct dsflow_plan *plan, int32_t rank, unsigned axis)
{
    return dsf_mesh_coords(&plan->mesh, rank).at[axis];
}

static const char *const meshes[] = {
    "gpt2",
    "gpt2 mesh.data=2",
    "llama mesh.pipeline=3",
    "gpt2 mesh.data=2 mesh.pipeline=2 pipeline.schedule=gpipe",
    "gpt2 mesh.pipeline=2 pipeline.schedule=interleaved pipeline.chunks=2",
    "llama mesh.data=2 mesh.pipeline=2 mesh.tensor=2",
    "llama mesh.pipeline=2 pipeline.split=[1,5] batch.order=layer_major",
};
enum { NMESHES = sizeof(meshes) / sizeof(*meshes) };

static void a_task_is_where_its_layer_and_micro_batch_are(void **state)
{
    for (int i = 0; i < NMESHES; i++) {
        struct trial t;

        plan_trial_until(&t, meshes[i], "pipeline");
        for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++) {
            const struct dsflow_task_spec *task = task_at(t.graph, k);

            assert_in_range(task->rank, 0, t.plan->nranks - 1);
            if (task->microbatch < 0)
                continue;
            assert_int_equal(on(t.plan, task->rank, DSF_AXIS_PIPELINE),
                             dsflow_plan_stage_of(t.plan, task->layer));
            assert_int_equal(on(t.plan, task->rank, DSF_AXIS_DATA),
                             dsflow_plan_replica_of(t.plan, task->microbatch));
        }
        end_trial(&t);
    }
}

static void each_rank_writes_its_own_memory(void **state)
{
    for (int i = 0; i < NMESHES; i++) {
        struct trial t;

        plan_trial_until(&t, meshes[i], "pipeline");
        for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++) {
            const struct dsflow_task_spec *task = task_at(t.graph, k);

            for (unsigned p = 0; p < task->ndata; p++)
                if (dsflow_task_access(task, p) & DSFLOW_W)
                    assert_int_equal(data_of(t.graph, task, p)->home,
                                     task->rank);
        }
        for (uint32_t k = 0; k < dsflow_graph_ndata(t.graph); k++)
            assert_in_range(
                dsflow_graph_data(t.graph, (dsflow_data_id){ k })->home, 0,
                t.plan->nranks - 1);
        end_trial(&t);
    }
}

/* A unit is kept, and updated, by the first replica of its stage. */
static void units_are_on_the_stage_of_their_layer(void **state)
{
    for (int i = 0; i < NMESHES; i++) {
        unsigned updates = 0;
        struct trial t;

        plan_trial_until(&t, meshes[i], "pipeline");
        for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++) {
            const struct dsflow_task_spec *task = task_at(t.graph, k);
            const struct dsflow_data_spec *param;

            if (!task->op->update)
                continue;
            param = data_of(t.graph, task, 2);
            assert_int_equal(
                on(t.plan, param->home, DSF_AXIS_PIPELINE),
                dsflow_plan_stage_of(t.plan, t.model.units[param->unit].layer));
            assert_int_equal(on(t.plan, param->home, DSF_AXIS_DATA), 0);
            assert_int_equal(task->rank, param->home);
            updates++;
        }
        assert_true(updates >= t.model.nunits);
        end_trial(&t);
    }
}

static void the_tasks_keep_their_order(void **state)
{
    for (int i = 0; i < NMESHES; i++) {
        struct trial before, after;

        plan_trial_until(&before, meshes[i], "tensor_parallel");
        plan_trial_until(&after, meshes[i], "pipeline");
        assert_int_equal(dsflow_graph_ntasks(before.graph),
                         dsflow_graph_ntasks(after.graph));
        for (uint32_t k = 0; k < dsflow_graph_ntasks(after.graph); k++) {
            const struct dsflow_task_spec *x = task_at(before.graph, k);
            const struct dsflow_task_spec *y = task_at(after.graph, k);

            assert_ptr_equal(x->op, y->op);
            assert_int_equal(x->layer, y->layer);
            assert_int_equal(x->microbatch, y->microbatch);
            assert_int_equal(x->tile, y->tile);
            assert_int_equal(x->fresh, y->fresh);
            assert_int_equal(x->ndata, y->ndata);
        }
        end_trial(&before);
        end_trial(&after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_where_its_layer_and_micro_batch_are),
        cmocka_unit_test(each_rank_writes_its_own_memory),
        cmocka_unit_test(units_are_on_the_stage_of_their_layer),
        cmocka_unit_test(the_tasks_keep_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
