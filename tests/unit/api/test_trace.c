/* test_trace.c - the trace of a run, and of a simulation, by the public
 * interface alone. */
#include <dsflow.h>

#include "lib/train.h"

#include <stdlib.h>
#include <string.h>

static const char toml[] = "[job]\n"
                           "steps = 4\n"
                           "[model]\n"
                           "layers = 2\n"
                           "heads = 2\n"
                           "width = 32\n"
                           "context = 16\n"
                           "[batch]\n"
                           "sequences = 4\n"
                           "micro = 1\n"
                           "[mesh]\n"
                           "data = 2\n"
                           "[trace]\n"
                           "steps = [2, 3]\n";

/* The job in a folder of this test. */
static struct dsflow_job *job_of(const char *output)
{
    struct dsflow_job *all, *job;
    struct dsflow_err err;
    char set[128];
    const char *const sets[] = { set };

    snprintf(set, sizeof(set), "job.output=%s/%s", folder, output);
    must(dsflow_job_parse(toml, "test", &all, &err), &err);
    must(dsflow_job_with(all, sets, 1, &job, &err), &err);
    dsflow_job_free(all);
    return job;
}

/* How often a kind of task ran in a step, in all of a trace. */
static unsigned count(const struct dsflow_trace *trace, const char *kind,
                      int64_t step)
{
    struct dsflow_span s = DSFLOW_SPAN();
    double before = 0;
    unsigned n = 0;

    for (size_t i = 0; dsflow_trace_span(trace, i, &s) == DSFLOW_OK; i++) {
        assert_true(s.begin >= before && s.end >= s.begin);
        assert_true(s.rank >= -1 && s.rank < 2 && s.lane[0] != '\0');
        before = s.begin;
        n += strcmp(s.kind, kind) == 0 && s.step == step;
    }
    return n;
}

/* Has the file a line, or a part of one, that is `text`? */
static bool has(const char *path, const char *text)
{
    FILE *in = fopen(path, "r");
    static char all[1 << 20];
    size_t n;

    assert_non_null(in);
    n = fread(all, 1, sizeof(all) - 1, in);
    all[n] = '\0';
    fclose(in);
    return strstr(all, text) != NULL;
}

static struct dsflow_trace *train(const char *output)
{
    struct dsflow_job *job = job_of(output);
    struct dsflow_batches batches =
        DSFLOW_BATCHES(.vocab = 50, .train = count_up);
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches);
    struct dsflow_trace *trace;
    struct dsflow_err err;
    char path[128];

    must(dsflow_train(job, &options, &err), &err);
    snprintf(path, sizeof(path), "%s/%s", folder, output);
    must(dsflow_trace_read(path, &trace, &err), &err);
    dsflow_job_free(job);
    return trace;
}

/* Two layers, four micro-batches: eight tasks a step, in the steps of the job
 * that were asked for. */
static void the_steps_of_a_run_are_there(void **state)
{
    struct dsflow_trace *trace = train("spans");
    struct dsflow_span small = { .size = 4 }, s = DSFLOW_SPAN();

    assert_int_equal(count(trace, "mlp.forward", 1), 0);
    assert_int_equal(count(trace, "mlp.forward", 2), 8);
    assert_int_equal(count(trace, "mlp.forward", 3), 8);
    assert_int_equal(count(trace, "mlp.forward", 4), 0);
    assert_int_equal(dsflow_trace_span(trace, 0, &small), DSFLOW_EINVAL);
    assert_int_equal(dsflow_trace_span(trace, 1 << 20, &s), DSFLOW_EINVAL);
    dsflow_trace_free(trace);
}

static void others_can_read_it(void **state)
{
    static const struct {
        const char *form, *steps, *text;
    } cases[] = {
        { "paje", NULL, "%EventDef" },
        { "chrome", "2", "\"mlp.forward\"" },
        { "dot", NULL, "digraph" },
        { "svg", "2:3", "</svg>" },
    };
    struct dsflow_trace *trace = train("forms");
    struct dsflow_err err;
    char path[128];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, cases[i].form);
        must(dsflow_trace_write(trace, cases[i].form, cases[i].steps, path,
                                &err),
             &err);
        assert_true(has(path, cases[i].text));
    }
    snprintf(path, sizeof(path), "%s/summary", folder);
    must(dsflow_trace_explain(trace, 1, path, &err), &err);
    assert_true(has(path, "\"steps\""));
    dsflow_trace_free(trace);
}

static void what_cannot_be_written_is_told(void **state)
{
    struct dsflow_trace *trace = train("wrong"), *none;
    struct dsflow_err err;
    char path[128];

    snprintf(path, sizeof(path), "%s/out", folder);
    assert_int_equal(dsflow_trace_write(trace, "png", NULL, path, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "png: expected paje, chrome, dot or svg");
    assert_int_equal(dsflow_trace_write(trace, "svg", "9", path, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "9 to 9: expected steps from 2 to 3");
    assert_int_equal(
        dsflow_trace_write(trace, "svg", NULL, "/dev/null/x", &err),
        DSFLOW_EINVAL);
    assert_int_equal(dsflow_trace_write(trace, "svg", NULL, "/dev/full", &err),
                     DSFLOW_EIO);
    assert_int_equal(dsflow_trace_read(folder, &none, &err), DSFLOW_EINVAL);
    assert_null(none);
    dsflow_trace_free(none); /* NULL is fine */
    dsflow_trace_free(trace);
}

/* Without running anything. */
static void a_plan_has_a_trace_too(void **state)
{
    struct dsflow_job *job = job_of("plan");
    struct dsflow_planned *planned;
    struct dsflow_trace *trace;
    struct dsflow_err err;
    char path[128];

    snprintf(path, sizeof(path), "%s/simulated", folder);
    must(dsflow_plan_job(job, NULL, "zero", &planned, &err), &err);
    assert_int_equal(dsflow_planned_trace(planned, path, &err), DSFLOW_EINVAL);
    dsflow_planned_free(planned);
    must(dsflow_plan_job(job, NULL, NULL, &planned, &err), &err);
    must(dsflow_planned_trace(planned, path, &err), &err);
    must(dsflow_trace_read(path, &trace, &err), &err);
    assert_int_equal(count(trace, "mlp.forward", 1), 8);
    dsflow_trace_free(trace);
    dsflow_planned_free(planned);
    dsflow_job_free(job);
}

static void quiet(void *user, enum dsflow_log_level level, const char *line)
{
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_steps_of_a_run_are_there),
        cmocka_unit_test(others_can_read_it),
        cmocka_unit_test(what_cannot_be_written_is_told),
        cmocka_unit_test(a_plan_has_a_trace_too),
    };

    dsflow_log_sink_set(quiet, NULL);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
