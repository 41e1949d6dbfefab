/* test_evaluate.c - what comes of a job with some keys changed; what was tried
 * is not built again. */
#include "tune/evaluate.h"

#include "same/trial.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

/* A small job, and changes of one of its keys. */
struct tried {
    struct trial t;
    struct dsf_tunables table;
    struct dsf_changes changes;
    struct dsf_evaluator e;
    unsigned timed; /* how often somebody asked how long a step takes */
};

/* So many seconds as the plan has micro-batches. */
static int seconds_of(void *user, const struct dsflow_plan *plan,
                      struct dsflow_graph *graph,
                      const struct dsf_effect *effect, double *seconds,
                      struct dsflow_err *err)
{
    ++*(unsigned *)user;
    *seconds = plan->nmicro / (effect->link > 0 ? effect->link : 1);
    return DSFLOW_OK;
}

static void start(struct tried *x, const char *job, const char *key)
{
    memset(x, 0, sizeof(*x));
    plan_trial(&x->t, job);
    dsf_tunables_init(&x->table);
    x->changes.job = &x->t.job;
    x->changes.row = dsf_tunables_find(&x->table, key);
    x->e = (struct dsf_evaluator){ .job = &x->t.job,
                                   .model = &x->t.model,
                                   .machine = x->t.plan->machine,
                                   .seconds = seconds_of,
                                   .user = &x->timed };
}

static struct dsf_choice choose(struct tried *x, const char *to)
{
    return (struct dsf_choice){
        .v = { NULL, dsf_changes_add(&x->changes, strdup("?"), strdup(to)) },
        .n = 2
    };
}

static void end(struct tried *x)
{
    dsf_evaluator_forget(&x->e);
    dsf_changes_fini(&x->changes);
    dsf_tunables_fini(&x->table);
    end_trial(&x->t);
}

static void nothing_is_built_twice(void **state)
{
    struct dsf_choice four, two;
    struct dsf_outcome o;
    struct tried x;

    start(&x, "gpt2", "batch.micro");
    four = choose(&x, "4");
    two = choose(&x, "2");
    dsf_evaluate(&x.e, &four, false, &o);
    assert_int_equal(o.status, DSFLOW_OK);
    assert_true(o.peak > 0 && o.tasks > 0 && !o.timed);
    dsf_evaluate(&x.e, &four, true, &o);
    assert_true(o.timed && o.seconds == 2);
    dsf_evaluate(&x.e, &two, true, &o);
    assert_true(o.seconds == 4);
    assert_int_equal(x.e.builds, 2);
    dsf_evaluate(&x.e, &four, true, &o);
    assert_true(o.seconds == 2);
    assert_int_equal(x.e.builds, 2);
    assert_int_equal(x.timed, 2);
    end(&x);
}

static void what_was_built_last_can_be_taken(void **state)
{
    struct dsf_built built;
    struct dsf_choice four;
    struct dsf_outcome o;
    struct dsflow_err err;
    struct tried x;

    start(&x, "gpt2", "batch.micro");
    x.e.said = DSF_GIVEN;
    four = choose(&x, "4");
    dsf_evaluate(&x.e, &four, true, &o);
    assert_int_equal(dsf_evaluator_take(&x.e, &four, &built, &err), DSFLOW_OK);
    assert_int_equal(x.e.builds, 1);
    assert_int_equal(built.plan->micro, 4);
    assert_ptr_equal(built.plan->job, built.job);
    assert_int_equal(built.job->batch.micro, 4);
    assert_int_equal(x.t.job.batch.micro, 1); /* stays as it was */
    dsf_built_fini(&built);
    /* Taken, it is there no more: it is remembered what came of it. */
    dsf_evaluate(&x.e, &four, true, &o);
    assert_int_equal(x.e.builds, 1);
    assert_int_equal(dsf_evaluator_take(&x.e, &four, &built, &err), DSFLOW_OK);
    assert_int_equal(x.e.builds, 2);
    dsf_built_fini(&built);
    end(&x);
}

/* What is changed of the machine needs no other plan. */
static void what_is_not_of_the_job_is_not_built(void **state)
{
    struct dsf_choice faster, none = { .n = 0 };
    struct dsf_outcome o;
    struct tried x;

    start(&x, "gpt2", "link.bandwidth");
    x.e.plan = x.t.plan;
    x.e.graph = x.t.graph;
    faster = choose(&x, "1e9");
    x.changes.v[0]->effect.link = 4;
    dsf_evaluate(&x.e, &none, true, &o);
    assert_true(o.seconds == 8);
    dsf_evaluate(&x.e, &faster, true, &o);
    assert_true(o.seconds == 2);
    assert_int_equal(x.e.builds, 0);
    end(&x);
}

static void a_choice_that_makes_no_plan_says_why(void **state)
{
    struct dsf_choice three;
    struct dsf_outcome o;
    struct tried x;

    start(&x, "gpt2", "batch.micro");
    three = choose(&x, "3");
    for (int again = 0; again < 2; again++) {
        dsf_evaluate(&x.e, &three, true, &o);
        assert_true(o.status < 0);
        assert_non_null(strstr(o.err.msg, "micro: 3: expected"));
    }
    assert_int_equal(x.e.builds, 1);
    assert_int_equal(x.timed, 0);
    end(&x);
}

static void too_little_memory_is_told(void **state)
{
    struct dsf_choice none = { .n = 0 };
    struct dsf_outcome o;
    struct tried x;

    start(&x, "gpt2 memory.device=1KiB", "batch.micro");
    dsf_evaluate(&x.e, &none, false, &o);
    assert_false(o.fits);
    assert_int_equal(o.shortfall.tier, DSFLOW_DEVICE);
    assert_true(o.shortfall.needs == o.peak);
    assert_true(o.gradients > 0 && o.host == 0);
    end(&x);
}

static void a_choice_reads_like_settings(void **state)
{
    struct dsf_choice four;
    struct tried x;
    char *text;

    start(&x, "gpt2", "batch.micro");
    four = choose(&x, "4");
    x.changes.v[0]->sets[x.changes.v[0]->nsets++] = strdup("batch.tile=auto");
    text = dsf_choice_text(&four);
    assert_string_equal(text, "batch.micro=4 batch.tile=auto");
    free(text);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_built_twice),
        cmocka_unit_test(what_was_built_last_can_be_taken),
        cmocka_unit_test(what_is_not_of_the_job_is_not_built),
        cmocka_unit_test(a_choice_that_makes_no_plan_says_why),
        cmocka_unit_test(too_little_memory_is_told),
        cmocka_unit_test(a_choice_reads_like_settings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
