/* test_zeroone_plan.c - 0/1 Adam in graphs: which steps are of which kind, what
 * ranks read of each other in each, and whose weights a step computes with. */
#include "unit/policies/step_bytes.h"

#include "policies/zeroone.h"

#include <stdio.h>
#include <string.h>

#define ZEROONE                                                                \
    "optimizer.kind=zeroone_adam optimizer.clip=0.0 compress.keep=0 "          \
    "job.steps=200 zeroone_adam.var_freeze_step=30 "                           \
    "zeroone_adam.var_update_scaler=2 zeroone_adam.local_step_scaler=20 "      \
    "zeroone_adam.local_step_clipper=6 "

static void plan_one(struct trial *t, const char *keys, const char *until)
{
    char text[500];

    snprintf(text, sizeof(text), "gpt2 " ZEROONE "%s", keys);
    plan_trial_until(t, text, until);
}

static void assert_programs(const char *keys)
{
    const struct dsf_zeroone_schedule *s;
    struct trial t;

    plan_one(&t, keys, "reference");
    s = &dsf_zeroone_keys(&t.job)->schedule;
    for (int64_t step = 1; step <= 1000; step++)
        if (strcmp(dsflow_plan_program_of(t.plan, step),
                   dsf_zeroone_program(dsf_zeroone_kind(s, step))) != 0)
            fail_msg("%s: step %d runs %s: expected %s", keys, (int)step,
                     dsflow_plan_program_of(t.plan, step),
                     dsf_zeroone_program(dsf_zeroone_kind(s, step)));
    end_trial(&t);
}

static void each_step_runs_the_program_of_its_kind(void **state)
{
    static const int some[] = { 1, 2, 3, 7, 16 };

    assert_programs("");
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 5; k++) {
            char keys[200];

            snprintf(keys, sizeof(keys),
                     "zeroone_adam.var_freeze_step=%d "
                     "zeroone_adam.var_update_scaler=%d "
                     "zeroone_adam.local_step_scaler=%d "
                     "zeroone_adam.local_step_clipper=%d",
                     20 * some[i] / 3, some[k], some[(i + k) % 5],
                     some[(i + 2 * k) % 5]);
            assert_programs(keys);
        }
}

/* In local steps it is losses and norms. */
static void bytes_are_those_of_the_formula(void **state)
{
    for (int n = 2; n <= 8; n *= 2) {
        struct trial t;
        char keys[200];
        double signs, whole;

        snprintf(keys, sizeof(keys),
                 "mesh.data=%d batch.sequences=8 model.width=128 "
                 "model.layers=2",
                 n);
        plan_one(&t, keys, "send");
        expected_bytes(&t, n, &signs, &whole);
        assert_bytes("variance", n, kind(&t, "step").bytes, whole);
        assert_bytes("gradient", n, kind(&t, "compressed").bytes, signs);
        assert_bytes("sync", n, kind(&t, "sync").bytes, signs);
        assert_true(kind(&t, "local").bytes < 1000 * n);
        end_trial(&t);
    }
}

static void the_mean_is_that_of_all_steps(void **state)
{
    static const char *const names[] = { "step", "compressed", "local",
                                         "sync" };
    double bytes = 0;
    int64_t steps = 0;
    struct trial t;

    plan_one(&t, "mesh.data=2", "send");
    for (size_t i = 0; i < 4; i++) {
        const struct dsf_step_kind k = kind(&t, names[i]);

        assert_true(k.steps > 0);
        steps += k.steps;
        bytes += (double)k.steps * k.bytes;
    }
    assert_int_equal(steps, 200);
    assert_true(fabs(dsf_step_mean(t.plan, t.graph, NULL).bytes - bytes / 200) <
                1);
    end_trial(&t);
}

/* Kinds of step that no step is of have no tasks. */
static void programs_are_those_that_run(void **state)
{
    dsflow_program program;
    struct trial t;

    plan_one(&t,
             "zeroone_adam.local_step_clipper=1 "
             "zeroone_adam.var_update_scaler=40",
             "reference");
    assert_false(dsflow_graph_find_program(t.graph, "compressed", &program));
    assert_false(dsflow_graph_find_program(t.graph, "local", &program));
    assert_true(dsflow_graph_find_program(t.graph, "sync", &program));
    end_trial(&t);
}

/* In local steps nothing that computes reads the weights that all have, and
 * nothing writes them. */
static void workers_compute_with_weights_of_their_own(void **state)
{
    struct trial t;
    unsigned nlocal = 0;

    plan_one(&t, "mesh.data=2", NULL);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });
        const char *program = dsflow_graph_program(t.graph, k->program);
        const bool local = strcmp(program, "local") == 0;

        if (!local && strcmp(program, "sync") != 0)
            continue;
        nlocal += k->op == &dsf_op_local_update && local;
        for (uint32_t p = 0; p < k->ndata; p++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(t.graph, k->data[p]);

            if (d->kept != 1 + DSF_KEPT_PARAM)
                continue;
            assert_null(k->op->segment);
            assert_false(local && dsflow_task_access(k, p) & DSFLOW_W);
        }
    }
    assert_int_equal(nlocal, 2 * t.model.nunits);
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_runs_the_program_of_its_kind),
        cmocka_unit_test(bytes_are_those_of_the_formula),
        cmocka_unit_test(the_mean_is_that_of_all_steps),
        cmocka_unit_test(programs_are_those_that_run),
        cmocka_unit_test(workers_compute_with_weights_of_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
