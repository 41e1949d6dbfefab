/* test_optimizers.c - what a shard of a unit is told of its tensors, and which
 * optimizer a job names. */
#include "tasks/components.h"

#include "lib/test.h"

#include <string.h>

static void a_shard_knows_the_tensors_that_it_has_a_part_of(void **state)
{
    struct dsflow_update_args a = {
        .elems = 100,
        .decay = 60,
        .ntensors = 3,
        .tensors = { { .at = 0, .rows = 5, .cols = 8 },
                     { .at = 48, .rows = 1, .cols = 12 },
                     { .at = 64, .rows = 6, .cols = 6 } },
    };

    dsf_update_slice(&a, 32, 32);
    assert_int_equal(a.elems, 32);
    assert_int_equal(a.decay, 28);
    assert_int_equal(a.ntensors, 2);
    assert_int_equal(a.tensors[0].at, -32);
    assert_int_equal(a.tensors[0].rows, 5);
    assert_int_equal(a.tensors[1].at, 16);
    assert_int_equal(a.tensors[1].cols, 12);
    dsf_update_slice(&a, 30, 2);
    assert_int_equal(a.decay, 0);
    assert_int_equal(a.ntensors, 0);
}

static void read_job(struct dsf_job *job, const char *rest)
{
    struct dsflow_err err;
    char text[400];
    int n = snprintf(text, sizeof(text),
                     "[job]\nsteps = 5\n[data]\ntrain = \"x\"\n%s\n", rest);

    if (dsf_job_parse(text, (size_t)n, "t", NULL, 0, NULL, job, &err) < 0)
        fail_msg("%s", err.msg);
}

static void refused(const char *rest, const char *message)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_job job;

    read_job(&job, rest);
    assert_int_equal(dsf_job_check_components(&job, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
    dsf_job_fini(&job);
}

static void keys_that_do_not_go_with_what_is_named_are_refused(void **state)
{
    refused("[optimizer]\nkind = \"lion\"\nmomentum = 0.5",
            "t:7: optimizer: momentum: 0.5: expected 0: lion has none");
    refused("[optimizer]\nkind = \"sgd\"\nnesterov = true",
            "t:7: optimizer: nesterov: true: expected an optimizer with a "
            "momentum");
    refused("[schedule]\nkind = \"one_cycle\"\nwarmup = 3",
            "t:7: schedule: warmup: 3: expected 0: a schedule of kind "
            "one_cycle has none");
    refused("[schedule]\nkind = \"warmup_linear\"\nwarmup = 6",
            "t:7: schedule: warmup: 6: expected at most the 5 steps of the "
            "schedule");
    refused("[model]\nhead = \"mine\"",
            "t:6: model: head: \"mine\": expected builtin");
}

static void a_job_has_the_states_that_its_optimizer_needs(void **state)
{
    static const struct {
        const char *rest;
        unsigned n;
    } jobs[] = { { "", 2 },
                 { "[optimizer]\nkind = \"lion\"", 1 },
                 { "[optimizer]\nkind = \"sgd\"", 0 },
                 { "[optimizer]\nkind = \"sgd\"\nmomentum = 0.9", 1 } };

    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
        const struct dsflow_optimizer *o;
        struct dsf_job job;

        read_job(&job, jobs[i].rest);
        o = dsf_job_optimizer(&job, NULL);
        assert_non_null(o);
        assert_int_equal(dsf_optimizer_nstates(o, &job), jobs[i].n);
        dsf_job_fini(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_knows_the_tensors_that_it_has_a_part_of),
        cmocka_unit_test(keys_that_do_not_go_with_what_is_named_are_refused),
        cmocka_unit_test(a_job_has_the_states_that_its_optimizer_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
