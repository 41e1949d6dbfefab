/* test_optimizers.c - what a shard of a unit is told of its tensors, and which
 * optimizer a job names. */
#include "tasks/components.h"

#include <dsflow/log.h>

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

    static const int64_t none[4], states[] = { 0, 0, 0, 32 };

    dsflow_update_slice(&a, 32, 32, states);
    assert_int_equal(a.grad_at, 32);
    assert_int_equal(a.param_at, 32);
    assert_int_equal(a.elems, 32);
    assert_int_equal(a.decay, 28);
    assert_int_equal(a.ntensors, 2);
    assert_int_equal(a.tensors[0].at, -32);
    assert_int_equal(a.tensors[0].rows, 5);
    assert_int_equal(a.tensors[1].at, 16);
    assert_int_equal(a.tensors[1].cols, 12);
    dsflow_update_slice(&a, 30, 2, none);
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

/* The warnings so far, a line each. */
static char warnings[2000];

static void collect(void *user, enum dsflow_log_level level, const char *line)
{
    size_t n = strlen(warnings);

    assert_int_equal(level, DSFLOW_WARN);
    snprintf(warnings + n, sizeof(warnings) - n, "%s\n", line);
}

static void warned(const char *rest, const char *message)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_job job;

    read_job(&job, rest);
    if (dsf_job_check_components(&job, &err) < 0)
        fail_msg("%s", err.msg);
    warnings[0] = '\0';
    dsflow_log_sink_set(collect, NULL);
    dsf_job_warn(&job);
    dsflow_log_sink_set(NULL, NULL);
    assert_string_equal(warnings, message);
    dsf_job_fini(&job);
}

static void keys_that_what_is_named_does_not_read_are_warned_of(void **state)
{
    warned("[optimizer]\nkind = \"lion\"\nmomentum = 0.5",
           "t:7: optimizer: momentum: has no effect: optimizer.kind is "
           "\"lion\" (needs sgd)\n");
    warned("[optimizer]\nkind = \"sgd\"\nnesterov = true",
           "t:7: optimizer: nesterov: has no effect: optimizer.momentum is 0 "
           "(needs more than 0)\n");
    warned("[schedule]\nkind = \"one_cycle\"\nwarmup = 3\nhalf_cycle = 2",
           "t:7: schedule: warmup: has no effect: schedule.kind is "
           "\"one_cycle\" (needs warmup or warmup_cosine or "
           "warmup_linear)\n");
    /* That nothing is there is no surprise. */
    warned("[optimizer]\nmomentum = 0.0\nnesterov = false\n[precision]\n"
           "head = \"compute\"\n[offload]\nshare = 0\n[zero]\nstage = 0\n"
           "[memory]\nhost = \"auto\"\n[memory.nvme]\npath = []",
           "t:9: precision: head: has no effect: precision.compute is "
           "\"fp32\"\n");
}

static void a_rise_longer_than_the_run_is_warned_of(void **state)
{
    warned("[schedule]\nkind = \"warmup_linear\"\nwarmup = 5", "");
    warned("[schedule]\nkind = \"warmup_linear\"\nwarmup = 6",
           "t:7: schedule: warmup: 6: longer than the 5 steps of the run: the "
           "full rate is never reached\n");
    warned("[schedule]\nkind = \"warmup\"\nwarmup = 6",
           "t:7: schedule: warmup: 6: longer than the 5 steps of the run: the "
           "full rate is never reached\n");
    warned("[schedule]\nkind = \"warmup_cosine\"\nwarmup = 4\ntotal = 3",
           "t:7: schedule: warmup: 4: longer than the 3 steps of the schedule: "
           "the full rate is never reached\n"
           "t:8: schedule: total: 3: shorter than the 5 steps of the run: the "
           "rate is 0 from then on\n");
    warned("[schedule]\nkind = \"one_cycle\"",
           "t: schedule: half_cycle: 2000: longer than the 5 steps of the run: "
           "the full rate is never reached\n");
}

static void
a_schedule_that_comes_to_nothing_before_the_end_is_warned_of(void **state)
{
    warned("[schedule]\nkind = \"warmup_linear\"\ntotal = 5", "");
    warned("[schedule]\nkind = \"warmup_linear\"\ntotal = 4\n"
           "min_ratio = 0.1",
           "");
    warned("[schedule]\nkind = \"warmup_linear\"\ntotal = 4",
           "t:7: schedule: total: 4: shorter than the 5 steps of the run: the "
           "rate is 0 from then on\n");
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
        cmocka_unit_test(keys_that_what_is_named_does_not_read_are_warned_of),
        cmocka_unit_test(a_rise_longer_than_the_run_is_warned_of),
        cmocka_unit_test(
            a_schedule_that_comes_to_nothing_before_the_end_is_warned_of),
        cmocka_unit_test(a_job_has_the_states_that_its_optimizer_needs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
