/* test_replace.c - the kinds of task that the job names for a segment stand in
 * the place of the built-in ones, and nothing else changes. */
#include "same/trial.h"

#include <dsflow/segment.h>

#include "lib/test.h"
#include "tasks/tasks.h"

#include <string.h>

static struct dsflow_op forward, backward_input;
static struct dsflow_segment mine = {
    .abi = DSFLOW_SEGMENT_ABI,
    .name = "mine",
    .replaces = "attention",
    .summary = "attention by another name",
    .forward = &forward,
    .backward_input = &backward_input,
};

static const struct dsflow_op *mine_of(const struct dsflow_op *op)
{
    return op == &dsf_op_attention_forward          ? &forward
           : op == &dsf_op_attention_backward_input ? &backward_input
                                                    : op;
}

static void assert_replaced(const char *text, bool all)
{
    struct trial before, after;
    unsigned replaced = 0;

    plan_trial_until(&before, text, "pipeline");
    plan_trial_until(&after, text, "replace");
    assert_int_equal(dsflow_graph_ndata(before.graph),
                     dsflow_graph_ndata(after.graph));
    assert_int_equal(dsflow_graph_ntasks(before.graph),
                     dsflow_graph_ntasks(after.graph));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(after.graph); i++) {
        const struct dsflow_task_spec *x =
            dsflow_graph_task(before.graph, (dsflow_task_id){ i });
        const struct dsflow_task_spec *y =
            dsflow_graph_task(after.graph, (dsflow_task_id){ i });

        assert_ptr_equal(y->op, all ? mine_of(x->op) : x->op);
        assert_int_equal(x->ndata, y->ndata);
        assert_memory_equal(x->data, y->data, x->ndata * sizeof(*x->data));
        assert_memory_equal(x->args, y->args, x->op->args_size);
        assert_int_equal(x->rank, y->rank);
        assert_int_equal(x->fresh, y->fresh);
        assert_int_equal(x->program, y->program);
        replaced += x->op != y->op;
    }
    assert_true((replaced > 0) == all);
    end_trial(&before);
    end_trial(&after);
}

static void what_the_job_names_stands_in_its_place(void **state)
{
    assert_replaced("gpt2 model.attention=mine", true);
    assert_replaced("llama model.attention=mine recompute.what=attention "
                    "mesh.data=2 mesh.pipeline=2",
                    true);
}

static void without_a_name_nothing_changes(void **state)
{
    assert_replaced("gpt2", false);
}

/* The same ports and arguments under other names. */
static int add_segment(void **state)
{
    forward = dsf_op_attention_forward;
    forward.name = "mine.forward";
    backward_input = dsf_op_attention_backward_input;
    backward_input.name = "mine.backward_input";
    return dsflow_op_register(&forward, NULL) < 0 ||
           dsflow_op_register(&backward_input, NULL) < 0 ||
           dsflow_segment_register(&mine, NULL) < 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_job_names_stands_in_its_place),
        cmocka_unit_test(without_a_name_nothing_changes),
    };

    return cmocka_run_group_tests(tests, add_segment, NULL);
}
