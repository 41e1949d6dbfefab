/* test_strict.c - what a gradient waits for before it goes to another stage. */
#include "same/trial.h"

#include "lib/test.h"
#include "tasks/tasks.h"

#include <stdlib.h>

static const struct dsflow_task_spec *task_at(const struct trial *t, uint32_t i)
{
    return dsflow_graph_task(t->graph, (dsflow_task_id){ i });
}

static unsigned count(const char *text, const struct dsflow_op *op)
{
    struct trial t;
    unsigned n = 0;

    plan_trial(&t, text);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++)
        n += task_at(&t, i)->op == op;
    end_trial(&t);
    return n;
}

#define STAGES "gpt2 mesh.pipeline=2"

static void nothing_waits_unless_the_job_asks_for_it(void **state)
{
    assert_int_equal(count(STAGES, &dsf_op_wait), 0);
    assert_int_equal(count(STAGES " pipeline.strict=true "
                                  "pipeline.schedule=zero_bubble",
                           &dsf_op_wait),
                     0);
    assert_int_equal(
        count("gpt2 mesh.data=2 pipeline.strict=true", &dsf_op_wait), 0);
    assert_true(count(STAGES " pipeline.strict=true", &dsf_op_wait) >= 8);
}

/* What `i`, a wait or the send behind it, says is written before. */
static bool is_read_by_a_wait(const struct trial *t, uint32_t i,
                              dsflow_data_id gradient)
{
    while (i-- > 0 && task_at(t, i)->op == &dsf_op_wait)
        for (unsigned p = 1; p < task_at(t, i)->ndata; p++)
            if (task_at(t, i)->data[p].i == gradient.i)
                return true;
    return false;
}

/* Gradients that the last layer of the backward pass on `rank` before task
 * `end` added to: each must be read by a wait right before `end`. */
static unsigned assert_waits(const struct trial *t, uint32_t end, int32_t rank)
{
    int layer = INT16_MIN;
    unsigned n = 0;

    for (uint32_t i = end; i-- > 0;) {
        const struct dsflow_task_spec *task = task_at(t, i);

        if (task->pass != DSFLOW_BACKWARD || task->rank != rank)
            continue;
        for (unsigned p = 0; p < task->ndata; p++) {
            if (!(dsflow_task_access(task, p) & DSFLOW_W) ||
                dsflow_graph_data(t->graph, task->data[p])->role !=
                    DSFLOW_GRADS)
                continue;
            if (layer != INT16_MIN && task->layer != layer)
                return n;
            layer = task->layer;
            assert_true(is_read_by_a_wait(t, end, task->data[p]));
            n++;
        }
    }
    return n;
}

/* With all micro-batches of a layer side by side there are gradients of each
 * group: twelve of a layer. */
static void a_stage_waits_for_all_gradients_of_its_layer(void **state)
{
    uint32_t most = 0;
    struct trial t;

    plan_trial(&t, STAGES " pipeline.strict=true batch.order=layer_major "
                          "batch.groups=4 batch.tile=32");
    for (uint32_t i = 1; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *task = task_at(&t, i);
        const struct dsflow_data_spec *from;
        unsigned n;

        if (task->op != &dsf_op_send || task->pass != DSFLOW_BACKWARD ||
            task->program != DSFLOW_STEP)
            continue;
        from = dsflow_graph_data(t.graph, task->data[0]);
        if (from->role != DSFLOW_ACTIVATIONS ||
            task_at(&t, i - 1)->op != &dsf_op_wait)
            continue;
        n = assert_waits(&t, i, from->home);
        most = n > most ? n : most;
    }
    assert_true(most >= 12);
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_waits_unless_the_job_asks_for_it),
        cmocka_unit_test(a_stage_waits_for_all_gradients_of_its_layer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
