/* test_schedules.c - the schedules of a pipeline, as their graphs run in the
 * simulator when every stage takes the same time: their order, and how long
 * they leave the stages idle. */
#include "trial.h"

#include "lib/test.h"
#include "sim/sim.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A block is its feed-forward here, and nothing else takes time: a forward, a
 * backward for the input and one for the weights of one second each. */
static double one_second(void *user, const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t)
{
    return t->op == &dsf_op_mlp_forward ||
                   t->op == &dsf_op_mlp_backward_input ||
                   t->op == &dsf_op_mlp_backward_weight
               ? 1
               : 0;
}

static double step_seconds(const char *text, struct dsf_timeline *timeline)
{
    struct dsf_sim_result result;
    struct dsflow_err err;
    struct trial t;
    double seconds;

    plan_trial(&t, text);
    must(text,
         dsf_simulate(
             t.graph,
             &(struct dsf_sim_spec){ .nranks = (unsigned)t.plan->nranks,
                                     .workers = (unsigned)t.plan->nranks,
                                     .links = true,
                                     .program = DSFLOW_STEP,
                                     .steps = 1,
                                     .cost = one_second },
             &result, timeline, &err),
         &err);
    seconds = result.step_seconds;
    for (int32_t r = 0; r < t.plan->nranks; r++)
        assert_true(result.busy[r] == result.busy[0]);
    dsf_sim_result_fini(&result);
    end_trial(&t);
    return seconds;
}

#define STRICT " pipeline.strict=true"

static double simulate(const char *schedule, const char *more, int stages,
                       int layers, int micro)
{
    char text[400];

    snprintf(text, sizeof(text),
             "gpt2 model.layers=%d mesh.pipeline=%d batch.micro=1 "
             "batch.sequences=%d batch.tile=48 pipeline.schedule=%s%s",
             layers, stages, micro, schedule, more);
    return step_seconds(text, NULL);
}

static const struct {
    int stages, micro;
} sizes[] = { { 2, 2 }, { 2, 8 }, { 3, 7 }, { 4, 4 }, { 4, 8 }, { 8, 32 } };

/* Idle (S - 1) of (M + S - 1), of a forward and a backward. */
static void bubbles_are_those_of_the_formula(void **state)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        int s = sizes[i].stages, m = sizes[i].micro;

        assert_true(simulate("gpipe", STRICT, s, s, m) == 3 * (m + s - 1));
        assert_true(simulate("1f1b", STRICT, s, s, m) == 3 * (m + s - 1));
    }
}

/* Each stage passes the gradient on one second sooner: (S - 1) (F + B - W). */
static void bubbles_are_smaller_where_nothing_waits_for_weights(void **state)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        int s = sizes[i].stages, m = sizes[i].micro;

        assert_true(simulate("gpipe", "", s, s, m) == 3 * m + 2 * (s - 1));
        assert_true(simulate("1f1b", "", s, s, m) == 3 * m + 2 * (s - 1));
    }
}

static void interleaving_divides_the_bubble(void **state)
{
    for (int v = 2; v <= 4; v *= 2)
        for (int s = 2; s <= 4; s *= 2) {
            char schedule[80];
            int m = 2 * s;

            snprintf(schedule, sizeof(schedule),
                     "interleaved pipeline.chunks=%d", v);
            assert_true(simulate(schedule, STRICT, s, v * s, m) ==
                        3 * (v * m + s - 1));
        }
}

/* 3 (S - 1) seconds of 1f1b, with one slot more on its first stage (and as many
 * on all others). */
static void zero_bubble_is_idle_for_a_third_of_the_time(void **state)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        int s = sizes[i].stages, m = sizes[i].micro;
        double idle = simulate("zero_bubble", "", s, s, m) - 3 * m;

        assert_true(idle == s - 1);
    }
}

/* "F0 F1 B0 …" of one stage. */
static void order_of(const struct dsf_timeline *timeline, const char *text,
                     int rank, char *out, size_t size)
{
    struct trial t;

    plan_trial(&t, text);
    out[0] = '\0';
    for (size_t i = 0; i < timeline->n; i++) {
        const struct dsf_span *span = &timeline->v[i];
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t.graph, (dsflow_task_id){ span->what });
        bool forward = task->op == &dsf_op_mlp_forward;

        if (span->rank == rank &&
            (forward || task->op == &dsf_op_mlp_backward_input))
            snprintf(out + strlen(out), size - strlen(out), "%s%c%d",
                     out[0] != '\0' ? " " : "", forward ? 'F' : 'B',
                     task->microbatch);
    }
    end_trial(&t);
}

/* The instructions of DeepSpeed's TrainSchedule for 4 stages and 4
 * micro-batches, and for 2 and 3. */
static void the_order_of_1f1b_is_that_of_its_source(void **state)
{
    static const struct {
        const char *text;
        int rank;
        const char *order;
    } golden[] = {
        { "4 model.layers=4 batch.sequences=4", 0, "F0 F1 F2 F3 B0 B1 B2 B3" },
        { "4 model.layers=4 batch.sequences=4", 1, "F0 F1 F2 B0 F3 B1 B2 B3" },
        { "4 model.layers=4 batch.sequences=4", 2, "F0 F1 B0 F2 B1 F3 B2 B3" },
        { "4 model.layers=4 batch.sequences=4", 3, "F0 B0 F1 B1 F2 B2 F3 B3" },
        { "2 model.layers=2 batch.sequences=3", 0, "F0 F1 B0 F2 B1 B2" },
        { "2 model.layers=2 batch.sequences=3", 1, "F0 B0 F1 B1 F2 B2" },
    };

    for (size_t i = 0; i < sizeof(golden) / sizeof(*golden); i++) {
        struct dsf_timeline timeline = { 0 };
        char text[400], got[400];

        snprintf(text, sizeof(text),
                 "gpt2 batch.micro=1 batch.tile=48 mesh.pipeline=%s" STRICT,
                 golden[i].text);
        step_seconds(text, &timeline);
        order_of(&timeline, text, golden[i].rank, got, sizeof(got));
        dsf_timeline_fini(&timeline);
        assert_string_equal(got, golden[i].order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bubbles_are_those_of_the_formula),
        cmocka_unit_test(bubbles_are_smaller_where_nothing_waits_for_weights),
        cmocka_unit_test(interleaving_divides_the_bubble),
        cmocka_unit_test(zero_bubble_is_idle_for_a_third_of_the_time),
        cmocka_unit_test(the_order_of_1f1b_is_that_of_its_source),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
