/* test_tensor_units.c - tasks that work on units number by number, in the parts
 * of tensor ranks: whatever their kind is called. */
#include "tests/same/trial.h"
#include "tests/same/unit_ops.h"

#include "lib/test.h"

/* The numbers that tasks of `op` work on, padding included; how many tasks. */
static int64_t elems_of(const struct trial *t, const struct dsflow_op *op,
                        unsigned *n)
{
    int64_t sum = 0;

    *n = 0;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        if (k->op != op)
            continue;
        sum += *(const int64_t *)k->args;
        ++*n;
    }
    return sum;
}

/* Each kind has the parts of all units, and the shared one. */
static void every_kind_has_the_same_parts(void **state)
{
    unsigned squares, updates, shrinks;
    struct trial t;

    plan_trial_until(&t,
                     "llama mesh.tensor=2 optimizer.kind=drift shrink.by=0.9",
                     "tensor_parallel");
    assert_int_equal(elems_of(&t, &op_drift, &updates),
                     elems_of(&t, &dsf_op_square, &squares));
    assert_int_equal(elems_of(&t, &op_shrink, &shrinks),
                     elems_of(&t, &op_drift, &updates));
    assert_int_equal(updates, squares);
    assert_int_equal(updates, shrinks);
    assert_true(updates > 2 * t.model.nunits);
    end_trial(&t);
}

/* An update of a part is told of pieces, which together are all tensors, and
 * how much of the part decays. */
static void an_update_of_a_part_knows_what_it_has_of_tensors(void **state)
{
    int64_t decay = 0, decayed = 0, numbers = 0, padding = 0;
    struct trial t;

    plan_trial_until(&t, "gpt2 mesh.tensor=2 optimizer.kind=drift",
                     "tensor_parallel");
    for (unsigned u = 0; u < t.model.nunits; u++)
        decay += t.model.units[u].decay;
    padding = (t.model.dims.vocab_rows - t.model.dims.vocab) *
              (int64_t)t.model.dims.width * (t.model.tied ? 1 : 2);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });
        const struct dsflow_update_args *a = k->args;

        if (k->op != &op_drift)
            continue;
        assert_true(a->ntensors > 0);
        for (int32_t n = 0; n < a->ntensors; n++) {
            const struct dsflow_tensor *one = &a->tensors[n];

            assert_true(one->at >= 0 &&
                        one->at + one->rows * one->cols <= a->elems);
            assert_int_equal(one->decays, one->at < a->decay);
            numbers += one->rows * one->cols;
        }
        decayed += a->decay;
    }
    assert_true(decayed >= decay);
    assert_true(numbers >= t.model.params &&
                numbers <= t.model.params + padding);
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_the_same_parts),
        cmocka_unit_test(an_update_of_a_part_knows_what_it_has_of_tensors),
    };

    add_unit_ops();
    return cmocka_run_group_tests_name("tensor_units", tests, NULL, NULL);
}
