/* test_meter.c - where the time of each step goes, and the steps of a run that
 * are traced. */
#include "small.h"

#include "trace/trace.h"
#include "train/run.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>

enum { STEPS = 6 };

/* The steps of a run, as they were told; `reader`, where it is not -1, is
 * closed after the first. */
struct told {
    struct dsf_step steps[STEPS + 1];
    int64_t last;
    int reader;
};

static bool may_begin(void *user, int64_t step)
{
    const struct told *t = user;

    return step <= t->last;
}

static void on_step(void *user, const struct dsf_step *step)
{
    struct told *t = user;

    t->steps[step->step] = *step;
    if (t->reader >= 0)
        close(t->reader);
    t->reader = -1;
}

/* As many steps as `told->last` says of the small job with these keys. */
static void run(struct told *told, const char *keys, bool resume)
{
    char *all = dsf_xasprintf("job.steps=%d %s", STEPS, keys);
    struct dsflow_err err = { .msg = "" };
    struct dsf_run r;

    dsf_run_init(&r);
    r.executor = DSFLOW_SERIAL;
    r.start.asked = resume;
    r.calls = (struct dsf_run_calls){ .user = told,
                                      .may_begin = may_begin,
                                      .on_step = on_step };
    dsf_machine_model_init(&r.machine); /* as if it had been measured */
    r.has_machine = true;
    open_small(&r.s, TO_MODEL, all);
    must(dsf_run_check(&r, &err), &err);
    must(dsf_run_plan(&r, &err), &err);
    must(dsf_run_text(&r, &err), &err);
    must(dsf_run_predict(&r, &err), &err);
    must(dsf_run_open(&r, &err), &err);
    must(dsf_run_train(&r, &err), &err);
    if (told->last < STEPS)
        must(dsf_run_save(&r, &err), &err);
    dsf_run_close(&r);
    free(all);
}

static void the_time_of_a_step_is_shared_out(void **state)
{
    struct told told = { .last = STEPS, .reader = -1 };

    run(&told, "", false);
    for (int i = 1; i <= STEPS; i++) {
        const struct dsf_step *s = &told.steps[i];
        double sum = 0;

        for (int k = 0; k < DSF_NSHARES; k++) {
            assert_true(s->share[k] >= 0 && s->share[k] <= 1);
            sum += s->share[k];
        }
        assert_float_equal(sum, 1, 1e-6);
        assert_true(s->share[DSF_SHARE_FORWARD] > 0);
        assert_true(s->share[DSF_SHARE_BACKWARD] > 0);
        assert_true(s->share[DSF_SHARE_UPDATE] > 0);
        assert_true(s->io_seconds == 0); /* there is no disk */
        if (i == 1) /* it touches memory for the first time */
            assert_true(isnan(s->efficiency));
        else
            assert_true(s->efficiency > 0 && s->efficiency <= 1.001);
    }
    assert_false(is_there("@/run/trace.dsflow"));
}

/* The trace of a run; to be ended. */
static void read_trace(const char *name, struct dsf_trace *trace)
{
    char *path = in_folder(name);
    struct dsflow_err err;

    must(dsf_trace_read(path, trace, &err), &err);
    free(path);
}

/* What is in it of the steps from..to of the run. */
static void check_steps(const struct dsf_trace *trace, int64_t from, int64_t to)
{
    uint32_t first, n = dsflow_graph_program_tasks(trace->graph, 0, &first);
    unsigned nsteps = (unsigned)(to - from + 1);
    uint32_t *ran = calloc((size_t)n * nsteps, sizeof(*ran));

    assert_int_equal(trace->facts.first, from);
    assert_int_equal(trace->laps.n, nsteps);
    for (size_t i = 0; i < trace->timeline.n; i++) {
        const struct dsf_span *s = &trace->timeline.v[i];

        if (s->kind != DSF_SPAN_TASK || !dsf_trace_is_step(trace, s))
            continue;
        assert_in_range(s->step, 0, nsteps - 1);
        assert_true(s->end >= s->start);
        ran[s->step * n + s->what - first]++;
    }
    for (size_t i = 0; i < (size_t)n * nsteps; i++)
        assert_int_equal(ran[i], 1); /* each task, in each step */
    free(ran);
}

static void the_steps_that_are_asked_for_are_traced(void **state)
{
    struct told told = { .last = STEPS, .reader = -1 };
    struct dsf_trace trace;

    run(&told, "job.output=@/traced trace.steps=[3,4]", false);
    read_trace("@/traced/trace.dsflow", &trace);
    check_steps(&trace, 3, 4);
    assert_false(trace.cut);
    assert_string_equal(trace.facts.executor, "serial");
    assert_string_equal(trace.facts.name, "small");
    assert_false(trace.facts.simulated);
    assert_int_equal(trace.facts.tokens, 4 * 16);
    dsf_trace_fini(&trace);
}

/* Numbers of steps are those of the whole run. */
static void a_run_that_goes_on_traces_what_is_left(void **state)
{
    struct told told = { .last = 4, .reader = -1 };
    struct dsf_trace trace;

    run(&told, "job.output=@/parts trace.steps=[2,3]", false);
    read_trace("@/parts/trace.dsflow", &trace);
    check_steps(&trace, 2, 3);
    dsf_trace_fini(&trace);

    told.last = STEPS;
    run(&told, "job.output=@/parts trace.steps=[2,100]", true);
    read_trace("@/parts/trace.dsflow", &trace);
    check_steps(&trace, 5, 6);
    dsf_trace_fini(&trace);
}

static void a_run_goes_on_where_its_trace_cannot(void **state)
{
    struct told told = { .last = STEPS };
    char *path = in_folder("@/broken/trace.dsflow");

    make_subfolder("broken");
    assert_int_equal(mkfifo(path, 0600), 0);
    told.reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(told.reader >= 0);
    assert_true(fcntl(told.reader, F_SETPIPE_SZ, 1 << 20) > 0);
    signal(SIGPIPE, SIG_IGN);
    hush();
    run(&told, "job.output=@/broken trace.steps=[3,4]", false);
    signal(SIGPIPE, SIG_DFL);
    assert_non_null(strstr(said, "the trace ends here: /broken/trace.dsflow: "
                                 "cannot be written: Broken pipe"));
    assert_int_equal(told.steps[STEPS].step, STEPS);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_of_a_step_is_shared_out),
        cmocka_unit_test(the_steps_that_are_asked_for_are_traced),
        cmocka_unit_test(a_run_that_goes_on_traces_what_is_left),
        cmocka_unit_test(a_run_goes_on_where_its_trace_cannot),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
