/* test_fit.c - sizes that a job leaves open are those of the fastest plan that
 * fits; where none does, it is said what would. */
#include "tune/fit.h"

#include "same/trial.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

/* How often a graph is built: the linker puts this in front of it. */
static unsigned builds;

int __real_dsf_policies_build(struct dsflow_plan *plan, const char *until,
                              struct dsflow_graph **graph,
                              struct dsflow_err *err);
int __wrap_dsf_policies_build(struct dsflow_plan *plan, const char *until,
                              struct dsflow_graph **graph,
                              struct dsflow_err *err);
int __wrap_dsf_policies_build(struct dsflow_plan *plan, const char *until,
                              struct dsflow_graph **graph,
                              struct dsflow_err *err)
{
    builds++;
    return __real_dsf_policies_build(plan, until, graph, err);
}

/* A small job and a machine that is described; its plan is of dsf_fit. */
struct fitted {
    struct trial t;
    struct dsf_machine_model m;
    struct dsf_setup s;
    struct dsflow_err err;
    int status;
};

static void fit_on(struct fitted *f, enum dsf_machine_kind kind,
                   const char *text)
{
    plan_trial_until(&f->t, text, "reference");
    dsf_machine_model_init(&f->m);
    f->m.main.kind = kind;
    f->m.main.host_bandwidth = 1e9; /* cores take long */
    f->s = (struct dsf_setup){ .job = &f->t.job,
                               .model = &f->t.model,
                               .machine = f->t.plan->machine };
    f->err.msg[0] = '\0';
    builds = 0;
    f->status = dsf_fit(&f->s, &f->m, NULL, &f->err);
}

static void fit(struct fitted *f, const char *text)
{
    fit_on(f, DSF_MACHINE_CPU, text);
}

static void end_fit(struct fitted *f)
{
    dsflow_graph_free(f->s.graph);
    dsf_plan_free(f->s.plan);
    if (f->s.chosen != NULL)
        dsf_job_fini(f->s.chosen);
    free(f->s.chosen);
    free(f->s.why);
    dsf_machine_model_fini(&f->m);
    end_trial(&f->t);
}

static void a_job_without_open_sizes_is_planned_as_it_is(void **state)
{
    struct fitted f;

    fit(&f, "gpt2 batch.micro=2");
    assert_false(dsf_fit_is_open(&f.t.job));
    assert_int_equal(f.status, DSFLOW_OK);
    assert_int_equal(f.s.plan->micro, 2);
    assert_null(f.s.chosen);
    assert_null(f.s.why);
    end_fit(&f);
}

static void what_is_open_is_chosen_and_said(void **state)
{
    struct fitted f;

    fit(&f, "gpt2 batch.micro=auto recompute.what=auto memory.device=1GiB");
    assert_true(dsf_fit_is_open(&f.t.job));
    if (f.status < 0)
        fail_msg("%s", f.err.msg);
    assert_non_null(f.s.chosen);
    assert_false(dsf_fit_is_open(f.s.chosen));
    assert_int_equal(f.s.plan->micro, f.s.chosen->batch.micro);
    assert_true(f.t.job.batch.micro < 0); /* the job stays as it was */
    /* Four sizes, three ways to recompute, of which none is the fastest, and
     * one in flight or more. */
    assert_non_null(strstr(f.s.why, "recompute.what=none"));
    assert_non_null(strstr(f.s.why, "the fastest of 24 that fit"));
    assert_int_equal(builds, 24); /* the fastest is kept */
    assert_true(dsf_job_has(f.s.chosen, "batch", "micro"));
    end_fit(&f);
}

/* Memory for all but the largest micro-batch. */
static void what_does_not_fit_is_not_chosen(void **state)
{
    struct fitted f;
    struct dsf_shortfall shortfall;
    struct dsf_weights w;
    char text[200];
    double peak;

    fit(&f, "gpt2 batch.micro=8");
    dsf_fit_weigh(f.s.plan, f.s.graph, &f.m, &w);
    peak = w.ranks[0].peak;
    dsf_weights_fini(&w);
    end_fit(&f);
    snprintf(text, sizeof(text), "gpt2 batch.micro=auto memory.device=%.0f",
             peak - 1);
    fit(&f, text);
    if (f.status < 0)
        fail_msg("%s", f.err.msg);
    assert_non_null(strstr(f.s.why, "; 1 needs more than "));
    assert_true(f.s.plan->micro < 8);
    dsf_fit_weigh(f.s.plan, f.s.graph, &f.m, &w);
    assert_false(dsf_fit_shortfall(f.s.plan, f.s.graph, &f.m, &w, &shortfall));
    dsf_weights_fini(&w);
    end_fit(&f);
}

static void where_nothing_fits_it_is_said(void **state)
{
    struct fitted f;

    fit(&f, "gpt2 batch.micro=auto memory.device=1KiB");
    assert_int_equal(f.status, DSFLOW_EFIT);
    assert_int_equal(builds, 4);
    assert_non_null(strstr(f.err.msg, "4 ways to fill in what is auto"));
    assert_non_null(strstr(f.err.msg, "there are 1.0 KiB"));
    end_fit(&f);
}

static void a_plan_that_does_not_fit_has_advice(void **state)
{
    struct fitted f;
    struct dsf_weights w;
    char text[200];
    double peak;

    fit(&f, "gpt2 batch.micro=8");
    dsf_fit_weigh(f.s.plan, f.s.graph, NULL, &w);
    peak = w.ranks[0].peak;
    assert_int_equal(dsf_fit_check(&f.s, NULL, &w, &f.err), DSFLOW_OK);
    dsf_weights_fini(&w);
    end_fit(&f);

    snprintf(text, sizeof(text), "gpt2 batch.micro=8 memory.device=%.0f",
             peak - 1);
    fit(&f, text);
    dsf_fit_weigh(f.s.plan, f.s.graph, NULL, &w);
    builds = 0;
    assert_int_equal(dsf_fit_check(&f.s, NULL, &w, &f.err), DSFLOW_EFIT);
    assert_int_equal(builds, 1); /* the next smaller fits; its own was there */
    dsf_weights_fini(&w);
    assert_non_null(strstr(f.err.msg, "rank 0 needs"));
    assert_non_null(strstr(f.err.msg, "would fit"));
    assert_non_null(f.s.plan); /* it is still there */
    end_fit(&f);
}

static void gradients_that_stay_whole_are_said(void **state)
{
    struct fitted f;
    char *text;

    fit(&f, "gpt2 mesh.data=2 batch.groups=2 zero.stage=2");
    text = dsf_fit_gradients_text(&f.s, NULL);
    assert_non_null(text);
    assert_non_null(strstr(text, "zero.reduce = \"micro\""));
    free(text);
    end_fit(&f);
    fit(&f, "gpt2 mesh.data=2 zero.stage=1");
    assert_null(dsf_fit_gradients_text(&f.s, NULL));
    end_fit(&f);
}

#define ON_CORES "gpt2 batch.micro=1 machine.workers=1 offload.optimizer=cpu"

/* A GPU goes on with as many micro-batches while cores update. */
static void more_are_in_flight_beside_cores_that_update(void **state)
{
    static const char job[] = ON_CORES;
    struct fitted f;
    int32_t slots;

    fit_on(&f, DSF_MACHINE_GPU, job);
    assert_int_equal(f.status, DSFLOW_OK);
    slots = f.s.plan->activation_slots[0];
    assert_in_range(slots, 3, f.s.plan->micro_steps);
    assert_int_equal(f.s.chosen->batch.in_flight, slots);
    assert_memory_equal(f.s.why, "batch.in_flight=", 16);
    assert_in_range(builds, 2, 6);
    end_fit(&f);

    fit_on(&f, DSF_MACHINE_GPU, ON_CORES " batch.in_flight=2");
    assert_int_equal(f.s.plan->activation_slots[0], 2);
    end_fit(&f);
    fit_on(&f, DSF_MACHINE_GPU, "gpt2 batch.micro=1");
    assert_int_equal(builds, 1); /* nothing is updated on cores */
    end_fit(&f);
    fit(&f, job);
    assert_int_equal(builds, 1); /* they compute, too */
    assert_null(f.s.why);
    end_fit(&f);
}

static double peak_of(const char *text)
{
    struct dsf_weights w;
    struct fitted f;
    double peak;

    fit_on(&f, DSF_MACHINE_GPU, text);
    dsf_fit_weigh(f.s.plan, f.s.graph, &f.m, &w);
    peak = w.ranks[0].peak;
    dsf_weights_fini(&w);
    end_fit(&f);
    return peak;
}

/* As many are in flight as fit, or one. */
static void what_is_in_flight_fits(void **state)
{
    for (int n = 1; n <= 3; n += 2) {
        struct fitted f;
        char text[200];

        snprintf(text, sizeof(text), ON_CORES " batch.in_flight=%d", n);
        snprintf(text, sizeof(text), ON_CORES " memory.device=%.0f",
                 peak_of(text));
        fit_on(&f, DSF_MACHINE_GPU, text);
        assert_int_equal(f.status, DSFLOW_OK);
        assert_int_equal(f.s.plan->activation_slots[0], n);
        assert_non_null(strstr(f.s.why, "more than"));
        end_fit(&f);
    }
}

/* Beside other sizes that are open, too. */
static void what_is_in_flight_is_chosen_with_the_rest(void **state)
{
    struct fitted f;

    fit_on(&f, DSF_MACHINE_GPU, ON_CORES " recompute.what=auto");
    assert_int_equal(f.status, DSFLOW_OK);
    assert_non_null(strstr(f.s.why, " recompute.what=none: the fastest of"));
    assert_in_range(f.s.chosen->batch.in_flight, 3, f.s.plan->micro_steps);
    end_fit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_open_sizes_is_planned_as_it_is),
        cmocka_unit_test(what_is_open_is_chosen_and_said),
        cmocka_unit_test(what_does_not_fit_is_not_chosen),
        cmocka_unit_test(where_nothing_fits_it_is_said),
        cmocka_unit_test(a_plan_that_does_not_fit_has_advice),
        cmocka_unit_test(gradients_that_stay_whole_are_said),
        cmocka_unit_test(more_are_in_flight_beside_cores_that_update),
        cmocka_unit_test(what_is_in_flight_fits),
        cmocka_unit_test(what_is_in_flight_is_chosen_with_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
