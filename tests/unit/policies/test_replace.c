/* test_replace.c - the kinds of task that the job names for a segment stand in
 * the place of the built-in ones, and nothing else changes. */
#include "same/trial.h"

#include <dsflow/segment.h>

#include "lib/test.h"
#include "tasks/tasks.h"

#include <string.h>

static struct dsflow_op forward, backward_input, head_forward;
static struct dsflow_segment mine = {
    .abi = DSFLOW_SEGMENT_ABI,
    .name = "mine",
    .replaces = "attention",
    .summary = "attention by another name",
    .forward = &forward,
    .backward_input = &backward_input,
};

/* Written before a head could scale losses. */
static struct dsflow_segment plain = {
    .abi = DSFLOW_SEGMENT_ABI,
    .name = "plain",
    .replaces = "head",
    .summary = "a head without its last port",
    .forward = &head_forward,
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

static void a_head_without_control_does_not_scale_losses(void **state)
{
    struct trial trial;
    struct dsflow_graph *graph;
    struct dsflow_err err = { .msg = "" };
    char *builtin;

    plan_trial(&trial, "gpt2 model.head=plain mesh.data=2 zero.stage=3");
    end_trial(&trial);
    plan_trial(&trial, "gpt2 precision.compute=fp16");
    builtin = trial.job.model.head;
    trial.job.model.head = (char *)"plain";
    assert_int_equal(dsf_policies_build(trial.plan, NULL, &graph, &err),
                     DSFLOW_EINVAL);
    assert_non_null(strstr(
        err.msg, "precision: compute: \"fp16\": plain.forward has no port "
                 "control, by which it would scale gradients (model.head): "
                 "expected one, or \"fp32\" or \"bf16\""));
    trial.job.model.head = builtin;
    end_trial(&trial);
}

/* The same ports and arguments under other names. */
static int add_segment(void **state)
{
    forward = dsf_op_attention_forward;
    forward.name = "mine.forward";
    backward_input = dsf_op_attention_backward_input;
    backward_input.name = "mine.backward_input";
    head_forward = dsf_op_head_forward;
    head_forward.name = "plain.forward";
    head_forward.nports = DSFLOW_HEAD_TOPS + 1;
    return dsflow_op_register(&forward, NULL) < 0 ||
           dsflow_op_register(&head_forward, NULL) < 0 ||
           dsflow_segment_register(&plain, NULL) < 0 ||
           dsflow_op_register(&backward_input, NULL) < 0 ||
           dsflow_segment_register(&mine, NULL) < 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_job_names_stands_in_its_place),
        cmocka_unit_test(without_a_name_nothing_changes),
        cmocka_unit_test(a_head_without_control_does_not_scale_losses),
    };

    return cmocka_run_group_tests(tests, add_segment, NULL);
}
