/* test_series.c - a timeline played again, and its steps. */
#include "lib/test.h"

#include "shown.h"

#include <string.h>

/* What was told, as a line each. */
struct told {
    char text[4096];
    size_t n;
};

#define TELL(...)                                                              \
    do {                                                                       \
        struct told *told = user;                                              \
        told->n += (size_t)snprintf(told->text + told->n,                      \
                                    sizeof(told->text) - told->n, __VA_ARGS__); \
    } while (0)

static void run(void *user, double t, size_t span, double end)
{
    TELL("%g run %zu to %g\n", t, span, end);
}

static void idle(void *user, double t, unsigned lane)
{
    TELL("%g idle %u\n", t, lane);
}

static void instant(void *user, double t, size_t span)
{
    TELL("%g instant %zu\n", t, span);
}

static void arrow(void *user, double t, uint32_t number,
                  const struct dsf_arrow *a, bool arrives)
{
    TELL("%g %s %u>%u\n", t, arrives ? "arrives" : "leaves", a->from, a->to);
}

static void value(void *user, double t, unsigned rank, enum dsf_series series,
                  double v)
{
    static const char *const names[] = { "memory", "host", "nvme", "flight",
                                         "ready" };

    TELL("%g %s of %u = %g\n", t, names[series], rank, v);
}

static void step(void *user, double t, unsigned number)
{
    TELL("%g step %u\n", t, number);
}

static void lanes_are_at_something_at_any_time(void **state)
{
    struct shown shown;
    struct told told = { "", 0 };

    shown_make(&shown);
    dsf_replay(&shown.view, &(struct dsf_watcher){ .user = &told,
                                                   .run = run,
                                                   .idle = idle,
                                                   .instant = instant });
    /* Spans in order of start: fw0 fw1 send fw0b now bw0 upd. */
    assert_string_equal(told.text, "0 idle 1\n0 idle 2\n"
                                   "0 run 0 to 1\n"
                                   "1 run 1 to 2\n1 run 2 to 2\n"
                                   "2 idle 0\n2 idle 2\n2 run 3 to 3\n"
                                   "2.5 instant 4\n"
                                   "3 run 5 to 4\n"
                                   "4 idle 1\n4 run 6 to 5\n");
    shown_free(&shown);
}

static void memory_goes_from_the_first_use_to_the_last(void **state)
{
    struct shown shown;
    struct told told = { "", 0 };

    shown_make(&shown);
    dsf_replay(&shown.view,
               &(struct dsf_watcher){ .user = &told, .value = value });
    assert_string_equal(told.text, "0 memory of 0 = 110\n0 ready of 0 = 1\n"
                                   "0 ready of 1 = 1\n"
                                   "1 memory of 1 = 10\n1 flight of 1 = 10\n"
                                   "1 memory of 0 = 130\n1 ready of 0 = 0\n"
                                   "2 memory of 1 = 50\n2 flight of 1 = 0\n"
                                   "2 memory of 0 = 120\n"
                                   "2.5 ready of 1 = 0\n"
                                   "3 memory of 1 = 45\n"
                                   "4 memory of 0 = 100\n"
                                   "4 memory of 1 = 5\n");
    shown_free(&shown);
}

static void arrows_lead_to_what_moves_and_on_to_its_first_use(void **state)
{
    struct shown shown;
    struct told told = { "", 0 };

    shown_make(&shown);
    dsf_replay(&shown.view,
               &(struct dsf_watcher){ .user = &told, .arrow = arrow });
    assert_string_equal(told.text, "1 leaves 0>2\n1 arrives 0>2\n"
                                   "2 leaves 2>3\n2 arrives 2>3\n");
    shown_free(&shown);
}

static void each_tier_has_a_curve_and_swaps_have_arrows(void **state)
{
    struct shown shown;
    struct told told = { "", 0 };

    shown_make_tiers(&shown);
    dsf_replay(&shown.view, &(struct dsf_watcher){
                                .user = &told, .value = value, .arrow = arrow });
    assert_string_equal(told.text, "0 memory of 0 = 7\n0 nvme of 0 = 100\n"
                                   "0 ready of 0 = 1\n"
                                   "1 memory of 0 = 0\n1 host of 0 = 120\n"
                                   "1 flight of 0 = 100\n1 ready of 0 = 0\n"
                                   "2 leaves 1>2\n2 arrives 1>2\n"
                                   "2 flight of 0 = 0\n"
                                   "4 leaves 2>3\n4 arrives 2>3\n"
                                   "4 flight of 0 = 100\n");
    shown_free(&shown);
}

static void a_window_cuts_what_reaches_out_of_it(void **state)
{
    struct shown shown;
    struct told told = { "", 0 };

    shown_make(&shown);
    shown.view.window = (struct dsf_window){ 1.5, 3.5 };
    dsf_replay(&shown.view, &(struct dsf_watcher){ .user = &told,
                                                   .run = run,
                                                   .idle = idle,
                                                   .instant = instant,
                                                   .step = step });
    assert_string_equal(told.text, "1.5 idle 1\n"
                                   "1.5 step 0\n"
                                   "1.5 run 1 to 2\n1.5 run 2 to 2\n"
                                   "2 idle 0\n2 idle 2\n2 run 3 to 3\n"
                                   "2.5 instant 4\n"
                                   "3 run 5 to 3.5\n");
    shown_free(&shown);
}

static void the_bound_of_a_step_is_its_longest_way(void **state)
{
    struct shown shown;

    shown_make(&shown);
    assert_int_equal(shown.view.steps.n, 1);
    assert_near(shown.view.steps.v[0].critical, 5);
    assert_near(shown.view.steps.v[0].bound, 5);
    assert_near(dsf_lap_efficiency(&shown.view.steps.v[0]), 1);
    /* Five of ten seconds of the two cores. */
    assert_near(shown.view.steps.v[0].idle, 0.5);
    shown_free(&shown);
}

static void steps_have_the_numbers_of_the_run(void **state)
{
    static const char *const wrong[] = { "6",  "8", "7:8", "x",  "",
                                         "7:x", ":", "7 8", "8:7" };
    struct dsflow_err err;
    struct dsf_window w;
    struct shown shown;

    shown_make(&shown);
    assert_int_equal(dsf_window_parse("7", &shown.trace, &shown.view.steps, &w,
                                      &err),
                     DSFLOW_OK);
    assert_near(w.begin, 0);
    assert_near(w.end, 5);
    assert_int_equal(dsf_window_parse("7:", &shown.trace, &shown.view.steps, &w,
                                      &err),
                     DSFLOW_OK);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(dsf_window_parse(wrong[i], &shown.trace,
                                          &shown.view.steps, &w, &err),
                         DSFLOW_EINVAL);
    shown_free(&shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes_are_at_something_at_any_time),
        cmocka_unit_test(memory_goes_from_the_first_use_to_the_last),
        cmocka_unit_test(arrows_lead_to_what_moves_and_on_to_its_first_use),
        cmocka_unit_test(each_tier_has_a_curve_and_swaps_have_arrows),
        cmocka_unit_test(a_window_cuts_what_reaches_out_of_it),
        cmocka_unit_test(the_bound_of_a_step_is_its_longest_way),
        cmocka_unit_test(steps_have_the_numbers_of_the_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
