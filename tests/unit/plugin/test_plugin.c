/* test_plugin.c - plug-ins of a program itself: all of one, or nothing. (The
 * loading of libraries is tests/cli/plugin.sh.) */
#include "plugin/plugin.h"

#include "config/job.h"
#include "lib/test.h"
#include "policies/policies.h"

#include <stdlib.h>
#include <string.h>

static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static double lr(const void *part, const struct dsflow_lr_keys *keys,
                 int64_t step)
{
    return 1;
}

struct part {
    int64_t n;
};
static const struct dsflow_option options[] = {
    DSFLOW_OPTION_INT(struct part, n, "4", 0, 9, "a number"),
    { 0 },
};

#define POLICY(id, behind)                                                     \
    static const struct dsflow_policy id = { .abi = DSFLOW_POLICY_ABI,         \
                                             .name = #id,                      \
                                             .summary = "of the test",         \
                                             .after = behind,                  \
                                             .rewrite = rewrite };             \
    static const struct dsflow_policy *const list_##id[] = { &id, NULL };      \
    static const struct dsflow_plugin plugin_##id = { .abi =                   \
                                                          DSFLOW_PLUGIN_ABI,   \
                                                      .name = #id,             \
                                                      .summary = "a policy",   \
                                                      .policies = list_##id }

POLICY(early, "pipeline");
POLICY(later, "pipeline");
POLICY(behind_early, "early");
POLICY(last, "priorities");

static void must(int status, const struct dsflow_err *err)
{
    if (status < 0)
        fail_msg("%s", err->msg);
}

static void policies_stand_behind_the_one_they_name(void **state)
{
    static const char *const order[] = {
        "reference",    "recompute", "tensor_parallel",
        "pipeline",     "early",     "later",
        "behind_early", "zero",      "strict",
        "send",         "offload",   "replace",
        "priorities",   "last",      NULL
    };
    struct dsflow_err err;

    must(dsflow_plugin_add(&plugin_last, "test", &err), &err);
    must(dsflow_plugin_add(&plugin_early, "test", &err), &err);
    must(dsflow_plugin_add(&plugin_later, "test", &err), &err);
    must(dsflow_plugin_add(&plugin_behind_early, "test", &err), &err);
    for (unsigned i = 0; order[i] != NULL; i++)
        assert_string_equal(dsflow_policy_at(i)->name, order[i]);
    assert_null(dsflow_policy_at(14));
}

/* A schedule that is fine, then a policy that is not. */
static void of_a_plug_in_that_is_wrong_nothing_stays(void **state)
{
    static const struct dsflow_lr_schedule ones = { .abi =
                                                        DSFLOW_LR_SCHEDULE_ABI,
                                                    .name = "ones",
                                                    .summary = "1",
                                                    .options = options,
                                                    .part_size =
                                                        sizeof(struct part),
                                                    .lr = lr };
    static const struct dsflow_lr_schedule *const schedules[] = { &ones, NULL };
    static struct dsflow_policy policy = { .abi = DSFLOW_POLICY_ABI,
                                           .name = "zero",
                                           .summary = "another",
                                           .after = "send",
                                           .rewrite = rewrite };
    static const struct dsflow_policy *const policies[] = { &policy, NULL };
    static const struct dsflow_plugin plugin = { .abi = DSFLOW_PLUGIN_ABI,
                                                 .name = "half",
                                                 .summary = "half of it",
                                                 .schedules = schedules,
                                                 .policies = policies };
    unsigned ntables = dsf_job_added_tables(), n = 0;
    struct dsflow_err err;

    while (dsflow_plugin_at(n, NULL) != NULL)
        n++;
    assert_int_equal(dsflow_plugin_add(&plugin, "test", &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "test: policy zero: the name is taken "
                                 "(built-in)");
    assert_null(dsflow_lr_schedule_find("ones"));
    assert_null(dsflow_plugin_at(n, NULL));
    assert_int_equal(dsf_job_added_tables(), ntables);

    policy.name = "another";
    must(dsflow_plugin_add(&plugin, "test", &err), &err);
    assert_ptr_equal(dsflow_lr_schedule_find("ones"), &ones);
    assert_int_equal(dsf_job_added_tables(), ntables + 1);
    /* Once more is nothing new. */
    must(dsflow_plugin_add(&plugin, "again", &err), &err);
    assert_null(dsflow_plugin_at(n + 1, NULL));
}

static void a_table_of_a_plug_in_is_read_and_written_like_others(void **state)
{
    static const char text[] = "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n"
                               "[ones]\nn = 7\n";
    struct dsflow_err err;
    struct dsf_job job;
    char *out = NULL;
    size_t bytes;
    FILE *f;

    must(dsf_job_parse(text, sizeof(text) - 1, "t", NULL, 0, NULL, &job, &err), &err);
    assert_int_equal(((const struct part *)dsf_job_part(&job, options))->n, 7);
    f = open_memstream(&out, &bytes);
    assert_int_equal(dsf_job_write(&job, f), DSFLOW_OK);
    fclose(f);
    assert_non_null(strstr(out, "[ones]\nn = 7\n"));
    free(out);
    dsf_job_fini(&job);
    must(dsf_job_parse(text, 35, "t", NULL, 0, NULL, &job, &err), &err);
    assert_int_equal(((const struct part *)dsf_job_part(&job, options))->n, 4);
    must(dsf_job_set(&job, "ones.n=2", &err), &err);
    assert_int_equal(((const struct part *)dsf_job_part(&job, options))->n, 2);
    assert_int_equal(dsf_job_set(&job, "ones.n=12", &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "--set: ones: n: 12: expected a whole number, "
                                 "0 to 9");
    dsf_job_fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_stand_behind_the_one_they_name),
        cmocka_unit_test(of_a_plug_in_that_is_wrong_nothing_stays),
        cmocka_unit_test(a_table_of_a_plug_in_is_read_and_written_like_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
