/* test_traced.c - which steps are traced, and a plan's simulation as a trace.
 */
#include "small.h"

#include "train/record.h"
#include "train/traced.h"

static void steps_to_trace_are_a_first_and_a_last_one(void **state)
{
    static const struct {
        const char *keys, *message;
    } cases[] = {
        { "", "" },
        { "trace.steps=[1,1]", "" },
        { "trace.steps=[9,30]", "" },
        { "trace.steps=[3]",
          "--set: trace: steps: expected the first and the last step" },
        { "trace.steps=[3,4,5]",
          "--set: trace: steps: expected the first and the last step" },
        { "trace.steps=[4,3]",
          "--set: trace: steps: expected the first and the last step" },
        { "trace.steps=[11,12]",
          "--set: trace: steps: 11: expected at most the 10 steps of the job" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsflow_err err = { .msg = "" };
        struct dsf_session s;
        int status;

        open_small(&s, TO_MODEL, cases[i].keys);
        status = dsf_traced_check(s.job, &err);
        assert_string_equal(err.msg, cases[i].message);
        assert_int_equal(status,
                         err.msg[0] == '\0' ? DSFLOW_OK : DSFLOW_EINVAL);
        dsf_session_close(&s);
    }
}

static void five_steps_are_taken_where_memory_is_warm(void **state)
{
    static const struct {
        int64_t steps, done, first, last;
    } cases[] = {
        { 100, 0, 3, 7 }, { 100, 50, 53, 57 },  { 7, 0, 3, 7 }, { 6, 0, 2, 6 },
        { 5, 0, 1, 5 },   { 100, 97, 98, 102 }, { 2, 0, 1, 5 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t first, last;

        dsf_traced_some(cases[i].steps, cases[i].done, &first, &last);
        assert_int_equal(first, cases[i].first);
        assert_int_equal(last, cases[i].last);
    }
}

/* A trace of another run than the one whose folder it is in misleads. */
static void a_trace_of_before_goes_when_a_run_begins_anew(void **state)
{
    struct dsf_prediction prediction = { 0 };
    struct dsf_machine_model m = { 0 };
    struct dsf_meter meter = { 0 };
    struct dsflow_err err;
    struct dsf_session s;

    make_subfolder("run");
    write_text("run/trace.dsflow", "of before");
    open_small(&s, TO_PLAN, "");
    must(dsf_traced_open(&meter, &s, &m, &prediction, "serial", 3, &err), &err);
    assert_true(is_there("@/run/trace.dsflow"));
    must(dsf_traced_open(&meter, &s, &m, &prediction, "serial", 0, &err), &err);
    assert_false(is_there("@/run/trace.dsflow"));
    dsf_session_close(&s);
    /* Nor is one made of steps that were done before. */
    open_small(&s, TO_PLAN, "trace.steps=[2,3]");
    must(dsf_traced_open(&meter, &s, &m, &prediction, "serial", 3, &err), &err);
    assert_false(is_there("@/run/trace.dsflow"));
    dsf_session_close(&s);
}

static void a_simulation_is_a_trace_of_its_plan(void **state)
{
    char *path = in_folder("@/sim.dsflow");
    struct dsf_machine_model m;
    struct dsf_trace trace;
    struct dsflow_err err;
    struct dsf_session s;

    read_laptop(&m);
    open_small(&s, TO_PLAN, "mesh.data=2 batch.micro=1 optimizer.lr=0.5");
    must(dsf_record_simulation(&s, &m, path, &err), &err);
    must(dsf_trace_read(path, &trace, &err), &err);
    assert_true(trace.facts.simulated);
    assert_false(trace.cut);
    assert_string_equal(trace.facts.executor, "simulation");
    assert_string_equal(trace.facts.name, "small");
    assert_string_equal(trace.facts.machine, m.main.name);
    assert_non_null(strstr(trace.facts.job, "lr = 0.5\n"));
    assert_non_null(strstr(trace.facts.rates, "[machine]"));
    assert_int_equal(trace.facts.nranks, 2);
    assert_int_equal(dsf_trace_axis(&trace.facts, "data"), 2);
    assert_int_equal(trace.facts.tokens, 4 * 16);
    assert_int_equal(dsflow_graph_ntasks(trace.graph),
                     dsflow_graph_ntasks(s.graph));
    assert_true(trace.facts.predicted >= trace.facts.bound);
    assert_true(trace.facts.bound > 0);
    assert_true(trace.timeline.n > 0 && trace.laps.n > 1);
    for (size_t i = 1; i < trace.timeline.n; i++)
        assert_true(trace.timeline.v[i].start >= trace.timeline.v[i - 1].start);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(s.graph); i++)
        assert_true(trace.tasks[i].predicted >= 0);
    dsf_trace_fini(&trace);

    free(path);
    path = in_folder("@/none/sim.dsflow");
    assert_int_equal(dsf_record_simulation(&s, &m, path, &err), DSFLOW_EINVAL);
    check_message(&err, "/none/sim.dsflow: No such file or directory");
    free(path);
    dsf_session_close(&s);
    dsf_machine_model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_to_trace_are_a_first_and_a_last_one),
        cmocka_unit_test(five_steps_are_taken_where_memory_is_warm),
        cmocka_unit_test(a_trace_of_before_goes_when_a_run_begins_anew),
        cmocka_unit_test(a_simulation_is_a_trace_of_its_plan),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
