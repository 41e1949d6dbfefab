/* test_steps.c - steps of a timeline that run different programs. */
#include "trace/steps.h"

#include "base/alloc.h"
#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct dsflow_op change = {
    .abi = DSFLOW_OP_ABI,
    .name = "change",
    DSFLOW_PORTS({ "what", DSFLOW_RW }),
};

enum { EVAL = 1, MORE, IDLE };

/* Of `step` two tasks one after the other, of `more` three of which two are on
 * other data, of `eval` one. */
static struct dsflow_graph *graph(void)
{
    static const dsflow_program programs[] = { 0, 0, EVAL, MORE, MORE, MORE };
    static const uint32_t uses[] = { 0, 0, 1, 0, 0, 1 };
    struct dsflow_graph *g = dsflow_graph_new();

    assert_int_equal(dsflow_graph_add_program(g, "eval"), EVAL);
    assert_int_equal(dsflow_graph_add_program(g, "more"), MORE);
    assert_int_equal(dsflow_graph_add_program(g, "idle"), IDLE);
    for (int i = 0; i < 2; i++)
        dsflow_graph_add_data(g, &DSFLOW_DATA(.name = i == 0 ? "a" : "b",
                                              .elems = 8, .persistent = 1));
    for (int i = 0; i < 6; i++)
        dsflow_graph_add_task(
            g, &DSFLOW_TASK(.op = &change, .program = programs[i], .ndata = 1,
                            .data = (dsflow_data_id[]){ { uses[i] } }));
    return g;
}

static void add(struct dsf_trace *t, uint32_t what, uint32_t step, double start,
                double end)
{
    dsf_timeline_add(&t->timeline, &(struct dsf_span){ .start = start,
                                                       .end = end,
                                                       .what = what,
                                                       .step = step,
                                                       .kind = DSF_SPAN_TASK });
}

static void a_step_may_run_another_program(void **state)
{
    struct dsf_trace t = {
        .facts = { .nranks = 1, .steps = 1 << MORE },
        .graph = graph(),
    };
    struct dsf_laps laps;

    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 0, "core 0");
    add(&t, 0, 0, 0, 1);
    add(&t, 1, 0, 1, 3);
    add(&t, 2, 9, 3, 4); /* a validation is in no step */
    add(&t, 3, 1, 4, 5);
    add(&t, 4, 1, 5, 6);
    add(&t, 5, 1, 6, 7);
    add(&t, 0, 2, 7, 8);
    add(&t, 1, 2, 8, 9);
    add(&t, 0, 3, 9, 10);
    add(&t, 1, 3, 10, 12);

    dsf_laps_init(&laps, &t);
    assert_int_equal(laps.n, 4);
    assert_int_equal(laps.v[0].program, DSFLOW_STEP);
    assert_int_equal(laps.v[1].program, MORE);
    assert_int_equal(laps.v[2].program, DSFLOW_STEP);
    for (unsigned i = 0; i < 4; i++)
        assert_true(laps.v[i].ran);
    assert_true(laps.v[1].begin == 3 && laps.v[1].end == 7);
    assert_true(laps.v[2].begin == 7 && laps.v[2].end == 9);
    /* The chains of `a`, and all of one worker. */
    assert_true(fabs(laps.v[0].critical - 3) < 1e-12);
    assert_true(fabs(laps.v[1].critical - 2) < 1e-12);
    assert_true(fabs(laps.v[2].critical - 2) < 1e-12);
    assert_true(fabs(laps.v[3].critical - 3) < 1e-12);
    assert_true(fabs(laps.v[1].bound - 3) < 1e-12);
    dsf_laps_fini(&laps);
    dsf_timeline_fini(&t.timeline);
    dsflow_graph_free(t.graph);
}

static void which_programs_run_in_steps_is_kept_in_the_file(void **state)
{
    static const char path[] = "test_steps.got";
    struct dsf_trace t = {
        .facts = { .nranks = 1,
                   .axes = { { "data", 1, 1 } },
                   .naxes = 1,
                   .first = 4,
                   .steps = 1 << DSFLOW_STEP | 1 << MORE },
        .graph = graph(),
    };
    struct dsf_trace_file *file;
    struct dsf_trace got;
    struct dsflow_err err;
    static const struct dsf_trace_task none;

    t.facts.name = t.facts.job = t.facts.machine = t.facts.rates =
        t.facts.executor = (char *)"";
    t.tasks = dsf_xcalloc(6, sizeof(none));
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 0, "core 0");
    add(&t, 3, 2, 0, 1);
    add(&t, 2, 7, 1, 2);
    add(&t, 0, 3, 2, 3);
    assert_int_equal(dsf_trace_create(path, &t, &file, &err), DSFLOW_OK);
    dsf_trace_append(file, t.timeline.v, t.timeline.n, &err);
    dsf_trace_close(file, true, &err);

    if (dsf_trace_read(path, &got, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(dsflow_graph_nprograms(got.graph), 4);
    assert_string_equal(dsflow_graph_program(got.graph, MORE), "more");
    assert_string_equal(dsflow_graph_program(got.graph, IDLE), "idle");
    assert_int_equal(got.facts.steps, 1 << DSFLOW_STEP | 1 << MORE);
    assert_true(dsf_trace_is_step(&got, &got.timeline.v[0]));
    assert_false(dsf_trace_is_step(&got, &got.timeline.v[1]));
    /* The first step there is, whichever program it ran, is step 0. */
    assert_int_equal(got.timeline.v[0].step, 0);
    assert_int_equal(got.timeline.v[1].step, 7);
    assert_int_equal(got.timeline.v[2].step, 1);
    assert_int_equal(got.facts.first, 6);
    dsf_trace_fini(&got);
    remove(path);
    free(t.tasks);
    dsf_timeline_fini(&t.timeline);
    dsflow_graph_free(t.graph);
}

/* Steps 2 to 4 of which the last has no span, as of a run that was killed. */
static int read_back(const unsigned *steps, unsigned n, struct dsf_trace *got,
                     struct dsflow_err *err)
{
    static const char path[] = "test_steps.got";
    struct dsf_trace t = {
        .facts = { .nranks = 1,
                   .axes = { { "data", 1, 1 } },
                   .naxes = 1,
                   .first = 4,
                   .steps = 1 },
        .graph = graph(),
    };
    struct dsf_trace_file *file;
    int status;

    t.facts.name = t.facts.job = t.facts.machine = t.facts.rates =
        t.facts.executor = (char *)"";
    t.tasks = dsf_xcalloc(6, sizeof(*t.tasks));
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 0, "core 0");
    add(&t, 0, 2, 0, 1);
    add(&t, 0, 3, 2, 3);
    assert_int_equal(dsf_trace_create(path, &t, &file, err), DSFLOW_OK);
    dsf_trace_append(file, t.timeline.v, t.timeline.n, err);
    for (unsigned i = 0; i < n; i++)
        dsf_trace_append_lap(file, steps[i],
                             &(struct dsf_lap){ .ran = true,
                                                .begin = steps[i],
                                                .end = steps[i] + 1.0,
                                                .bound = i == 0 ? NAN : 0.5,
                                                .idle = 0.25,
                                                .loss_scale = 512 << i,
                                                .skipped = i == 1 },
                             err);
    dsf_trace_close(file, true, err);
    status = dsf_trace_read(path, got, err);
    remove(path);
    free(t.tasks);
    dsf_timeline_fini(&t.timeline);
    dsflow_graph_free(t.graph);
    return status;
}

static void what_was_found_of_a_step_is_kept_in_the_file(void **state)
{
    struct dsf_trace got;
    struct dsf_lap_scales scales;
    struct dsf_lap_sum sum;
    struct dsflow_err err;

    if (read_back((const unsigned[]){ 2, 3, 4 }, 3, &got, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(got.laps.n, 2);
    assert_int_equal(got.facts.first, 6);
    assert_true(got.laps.v[0].begin == 2 && got.laps.v[1].end == 4);
    assert_true(isnan(dsf_lap_efficiency(&got.laps.v[0])));
    assert_true(dsf_lap_efficiency(&got.laps.v[1]) == 0.5);
    assert_true(got.laps.v[1].idle == 0.25);
    assert_true(got.laps.v[0].loss_scale == 512 && !got.laps.v[0].skipped);
    assert_true(got.laps.v[1].loss_scale == 1024 && got.laps.v[1].skipped);
    scales = dsf_laps_scales(&got.laps);
    assert_true(scales.least == 512 && scales.most == 1024);
    assert_int_equal(scales.n, 2);
    assert_int_equal(scales.skipped, 1);
    sum = dsf_laps_sum(&got.laps, 0, 2);
    assert_int_equal(sum.n, 1);
    assert_true(sum.seconds == 1 && sum.efficiency == 0.5);
    dsf_trace_fini(&got);
    assert_int_equal(read_back((const unsigned[]){ 2, 4 }, 2, &got, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "test_steps.got: is damaged");
    /* It begins after sixty years. */
    assert_int_equal(read_back((const unsigned[]){ 2000000000 }, 1, &got, &err),
                     DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_may_run_another_program),
        cmocka_unit_test(which_programs_run_in_steps_is_kept_in_the_file),
        cmocka_unit_test(what_was_found_of_a_step_is_kept_in_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
