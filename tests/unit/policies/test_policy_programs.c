/* test_policy_programs.c - a program that a plug-in adds behind `reference`
 * goes through all policies as `step` does. */
#include "policies/policies.h"

#include <dsflow/plan.h>
#include <dsflow/rewrite.h>

#include "lib/test.h"
#include "same/trial.h"

#include <string.h>

/* What the policy below does. */
static enum { NOTHING, AGAIN, ONLY_PLANNED } asked;

static int decide(void *part, struct dsflow_plan *plan, struct dsflow_err *err)
{
    if (asked == NOTHING)
        return DSFLOW_OK;
    return dsflow_plan_add_program(
        plan, &DSFLOW_PROGRAM_STEPS(.name = "again", .first = 5, .every = 5),
        err);
}

/* The tasks of `step` once more, behind those of all programs. */
static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    uint32_t first, n = dsflow_graph_program_tasks(in, DSFLOW_STEP, &first);

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++)
        dsflow_rewrite_task(&rw, dsflow_graph_task(in, (dsflow_task_id){ i }));
    for (uint32_t i = first; i < first + n && asked == AGAIN; i++) {
        struct dsflow_task_spec t =
            *dsflow_graph_task(in, (dsflow_task_id){ i });

        t.program = dsflow_graph_add_program(out, "again");
        dsflow_rewrite_task(&rw, &t);
    }
    dsflow_rewrite_end(&rw);
    return DSFLOW_OK;
}

static const struct dsflow_policy policy = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "again",
    .summary = "the step as another program",
    .after = "reference",
    .decide = decide,
    .rewrite = rewrite,
};

static const struct dsflow_task_spec *task_at(const struct dsflow_graph *g,
                                              uint32_t i)
{
    return dsflow_graph_task(g, (dsflow_task_id){ i });
}

/* The next task of a program that is no swap; the one past its end. */
static uint32_t next(const struct dsflow_graph *g, uint32_t i)
{
    while (i < dsflow_graph_ntasks(g) && task_at(g, i)->op->swaps)
        i++;
    return i;
}

static void assert_same_tasks(const struct dsflow_graph *g,
                              dsflow_program program,
                              const struct dsflow_graph *h, const char *keys)
{
    uint32_t a, b, na = dsflow_graph_program_tasks(g, program, &a) + a;
    uint32_t nb = dsflow_graph_program_tasks(h, DSFLOW_STEP, &b) + b;
    bool swaps = strstr(keys, "offload") != NULL;

    assert_true(na > a);
    assert_true(swaps || na - a == nb - b);
    for (;; a++, b++) {
        const struct dsflow_task_spec *x, *y;

        a = next(g, a);
        b = next(h, b);
        assert_true((a >= na) == (b >= nb));
        if (a >= na)
            return;
        x = task_at(g, a);
        y = task_at(h, b);
        if (x->op != y->op || x->rank != y->rank || x->layer != y->layer ||
            x->microbatch != y->microbatch || x->tile != y->tile ||
            x->pass != y->pass || x->fresh != y->fresh ||
            (!swaps && x->priority != y->priority) || x->ndata != y->ndata)
            fail_msg("%s: task %u: %s of rank %d is %s of rank %d", keys,
                     (unsigned)a, x->op->name, x->rank, y->op->name, y->rank);
    }
}

/* Of data, only which port is used how: slots and rings go on where the program
 * before left them, and so there may be other swaps. */
static void a_copy_of_the_step_is_rewritten_as_the_step(void **state)
{
    static const char *const keys[] = {
        "gpt2",
        "llama recompute.what=block",
        "gpt2 recompute.what=attention",
        "gpt2 mesh.data=2",
        "gpt2 mesh.data=2 zero.stage=1",
        "gpt2 mesh.data=2 zero.stage=2",
        "llama mesh.data=2 zero.stage=3",
        "gpt2 mesh.data=2 zero.stage=2 zero.reduce=micro",
        "gpt2 mesh.pipeline=2 pipeline.schedule=zero_bubble",
        "llama mesh.pipeline=2 mesh.tensor=2 recompute.what=block",
        "gpt2 offload.optimizer=nvme offload.params=cpu",
        ("gpt2 mesh.data=2 zero.stage=3 mesh.pipeline=2 "
         "offload.optimizer=cpu"),
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        dsflow_program program;
        struct trial with, without;

        asked = NOTHING;
        plan_trial(&without, keys[i]);
        asked = AGAIN;
        plan_trial(&with, keys[i]);
        assert_true(dsflow_graph_find_program(with.graph, "again", &program));
        assert_same_tasks(with.graph, DSFLOW_STEP, without.graph, keys[i]);
        assert_same_tasks(with.graph, program, without.graph, keys[i]);
        end_trial(&with);
        end_trial(&without);
    }
}

static void a_program_that_nobody_made_is_refused(void **state)
{
    struct trial trial;
    struct dsflow_graph *g = NULL;
    struct dsflow_err err;

    asked = NOTHING;
    plan_trial(&trial, "gpt2");
    asked = ONLY_PLANNED;
    assert_int_equal(dsf_policies_build(trial.plan, NULL, &g, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "program again: is to run in step 5, and no "
                                 "policy has made its tasks");
    end_trial(&trial);
}

static int add_policy(void **state)
{
    return dsflow_policy_register(&policy, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_of_the_step_is_rewritten_as_the_step),
        cmocka_unit_test(a_program_that_nobody_made_is_refused),
    };

    return cmocka_run_group_tests(tests, add_policy, NULL);
}
