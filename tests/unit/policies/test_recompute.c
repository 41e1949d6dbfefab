/* test_recompute.c - what is computed again, and what is no longer kept. */
#include "same/trial.h"

#include "lib/test.h"
#include "tasks/tasks.h"

#include <string.h>

/* Tasks of the training step, of one kind, in one pass. */
static unsigned count(const struct trial *t, const struct dsflow_op *op,
                      enum dsflow_pass pass)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        n += task->op == op && task->pass == (uint8_t)pass &&
             task->program == DSFLOW_STEP;
    }
    return n;
}

/* Bytes of the data whose names begin so. */
static size_t bytes_of(const struct trial *t, const char *prefix)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(t->graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(t->graph, (dsflow_data_id){ i });

        if (strncmp(d->name, prefix, strlen(prefix)) == 0)
            bytes += d->bytes;
    }
    return bytes;
}

#define BATCH " batch.sequences=2 batch.micro=1 batch.tile=16"

/* 4 layers, 2 micro-batches, 2 tiles. */
static void only_what_is_needed_is_computed_again(void **state)
{
    struct trial t;

    plan_trial(&t, "gpt2" BATCH " recompute.what=none");
    assert_int_equal(count(&t, &dsf_op_qkv_forward, DSFLOW_BACKWARD), 0);
    end_trial(&t);

    plan_trial(&t, "gpt2" BATCH " recompute.what=attention");
    assert_int_equal(count(&t, &dsf_op_qkv_forward, DSFLOW_FORWARD), 16);
    assert_int_equal(count(&t, &dsf_op_qkv_forward, DSFLOW_BACKWARD), 16);
    /* A tile of keys for the first tile of queries, two for the second. */
    assert_int_equal(count(&t, &dsf_op_attention_forward, DSFLOW_BACKWARD), 24);
    assert_int_equal(count(&t, &dsf_op_out_forward, DSFLOW_BACKWARD), 0);
    assert_int_equal(count(&t, &dsf_op_mlp_hidden, DSFLOW_BACKWARD), 0);
    end_trial(&t);

    plan_trial(&t, "gpt2" BATCH " recompute.what=block");
    assert_int_equal(count(&t, &dsf_op_out_forward, DSFLOW_BACKWARD), 16);
    assert_int_equal(count(&t, &dsf_op_mlp_hidden, DSFLOW_BACKWARD), 16);
    assert_int_equal(count(&t, &dsf_op_mlp_forward, DSFLOW_BACKWARD), 0);
    assert_int_equal(count(&t, &dsf_op_head_forward, DSFLOW_BACKWARD), 0);
    end_trial(&t);
}

static void layers_are_those_that_were_named(void **state)
{
    struct trial t;

    plan_trial(&t,
               "gpt2" BATCH " recompute.what=block recompute.layers=\"0,2-3\"");
    assert_int_equal(count(&t, &dsf_op_mlp_hidden, DSFLOW_BACKWARD), 12);
    assert_true(bytes_of(&t, "h.l1.") > 0);
    assert_int_equal(bytes_of(&t, "h.l0."), 0);
    assert_int_equal(bytes_of(&t, "h.l2."), 0);
    end_trial(&t);
}

/* With more layers, only their inputs take more. */
static void a_layer_more_keeps_its_input_only(void **state)
{
    static const char *const texts[] = {
        "gpt2" BATCH " recompute.what=block model.layers=8",
        "gpt2" BATCH " recompute.what=block model.layers=9",
    };
    size_t kept[2], inputs[2];

    for (int i = 0; i < 2; i++) {
        struct trial t;

        plan_trial(&t, texts[i]);
        inputs[i] = bytes_of(&t, "x.l");
        kept[i] = 0;
        for (uint32_t d = 0; d < dsflow_graph_ndata(t.graph); d++) {
            const struct dsflow_data_spec *spec =
                dsflow_graph_data(t.graph, (dsflow_data_id){ d });

            if (spec->role == DSFLOW_ACTIVATIONS)
                kept[i] += spec->bytes;
        }
        end_trial(&t);
    }
    assert_true(inputs[1] > inputs[0]);
    assert_int_equal(kept[1] - kept[0], inputs[1] - inputs[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_needed_is_computed_again),
        cmocka_unit_test(layers_are_those_that_were_named),
        cmocka_unit_test(a_layer_more_keeps_its_input_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
