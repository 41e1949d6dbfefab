/* test_programs.c - which program a step runs. */
#include "plan/programs.h"

#include <dsflow/plan.h>

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

static struct dsflow_plan *empty(void)
{
    return calloc(1, sizeof(struct dsflow_plan));
}

static void done(struct dsflow_plan *plan)
{
    dsf_plan_free_programs(plan);
    free(plan);
}

static void add(struct dsflow_plan *plan, const char *name, int64_t first,
                int64_t every, int64_t last)
{
    assert_int_equal(dsflow_plan_add_program(
                         plan,
                         &DSFLOW_PROGRAM_STEPS(.name = name, .first = first,
                                              .every = every, .last = last),
                         NULL),
                     DSFLOW_OK);
}

static void a_step_runs_step(void **state)
{
    struct dsflow_plan *plan = empty();

    for (int64_t step = 1; step < 20; step++)
        assert_string_equal(dsflow_plan_program_of(plan, step), "step");
    done(plan);
}

static void every_fifth_runs_another(void **state)
{
    struct dsflow_plan *plan = empty();

    add(plan, "fifth", 5, 5, 0);
    for (int64_t step = 1; step < 100; step++)
        assert_string_equal(dsflow_plan_program_of(plan, step),
                            step % 5 == 0 ? "fifth" : "step");
    done(plan);
}

/* The last one added has the last word; one may have several series. */
static void of_several_the_last_one_runs(void **state)
{
    struct dsflow_plan *plan = empty();

    add(plan, "fifth", 5, 5, 0);
    add(plan, "warm_up", 1, 1, 7);
    add(plan, "fifth", 2, 1, 2);
    add(plan, "fifth", 2, 1, 2); /* as when a plan is built twice */
    assert_int_equal(plan->nprograms, 3);
    assert_string_equal(dsflow_plan_program_of(plan, 1), "warm_up");
    assert_string_equal(dsflow_plan_program_of(plan, 2), "fifth");
    assert_string_equal(dsflow_plan_program_of(plan, 5), "warm_up");
    assert_string_equal(dsflow_plan_program_of(plan, 7), "warm_up");
    assert_string_equal(dsflow_plan_program_of(plan, 8), "step");
    assert_string_equal(dsflow_plan_program_of(plan, 10), "fifth");
    assert_true(dsf_plan_runs_in_steps(plan, "step"));
    assert_true(dsf_plan_runs_in_steps(plan, "warm_up"));
    assert_false(dsf_plan_runs_in_steps(plan, "eval"));
    done(plan);
}

static void assert_runs(const struct dsflow_plan *plan, const char *name,
                        const char *expected)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    dsf_plan_write_runs(plan, name, out);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

static void check_count(const struct dsflow_plan *plan, const char *name)
{
    int64_t n = 0;

    for (int64_t steps = 1; steps < 300; steps++) {
        n += strcmp(dsflow_plan_program_of(plan, steps), name) == 0;
        assert_int_equal(dsf_plan_count_steps(plan, name, steps), n);
    }
}

static void steps_are_counted_without_a_look_at_each(void **state)
{
    struct dsflow_plan *plan = empty();

    assert_int_equal(dsf_plan_count_steps(plan, "step", 1000000000),
                     1000000000);
    add(plan, "fifth", 5, 5, 0);
    add(plan, "warm_up", 1, 1, 7);
    add(plan, "fifth", 2, 1, 2);
    add(plan, "rare", 20, 7, 160);
    add(plan, "rare", 1, INT64_MAX, 0);
    add(plan, "late", 200, 6, 0);
    check_count(plan, "step");
    check_count(plan, "fifth");
    check_count(plan, "warm_up");
    check_count(plan, "rare");
    check_count(plan, "late");
    check_count(plan, "eval");
    done(plan);

    plan = empty();
    add(plan, "local", 2, 2, 1000);
    add(plan, "local", 1008, 8, 0);
    assert_int_equal(dsf_plan_count_steps(plan, "local", 1000000000),
                     500 + (1000000000 - 1000) / 8);
    done(plan);
}

static void when_it_runs_is_said(void **state)
{
    struct dsflow_plan *plan = empty();

    assert_runs(plan, "step", "every step");
    assert_runs(plan, "eval", "validations");
    add(plan, "a", 5, 5, 0);
    add(plan, "b", 1, 1, 100);
    add(plan, "c", 3, 4, 20);
    add(plan, "d", 9, 2, 9);
    add(plan, "a", 1, 1, 2);
    assert_runs(plan, "a", "steps 5, 10, …; steps 1 to 2");
    assert_runs(plan, "b", "steps 1 to 100 less those of others");
    add(plan, "e", 201, 1, 300);
    add(plan, "f", 210, 10, 0);
    assert_runs(plan, "e", "steps 201 to 300 less those of f");
    assert_runs(plan, "c", "steps 3, 7, … to 20");
    assert_runs(plan, "d", "step 9");
    add(plan, "g", 18, 2, 21);
    add(plan, "h", 17, 2, 21);
    assert_runs(plan, "g", "steps 18 and 20");
    assert_runs(plan, "h", "steps 17, 19 and 21");
    assert_runs(plan, "step", "all other steps");
    done(plan);
}

static void steps_that_are_none_are_refused(void **state)
{
    static const struct {
        struct dsflow_program_steps steps;
        const char *msg;
    } bad[] = {
        { { sizeof(struct dsflow_program_steps), "x", 0, 5, 0 },
          "program x: first 0, every 5, last 0: expected steps from 1 on, in "
          "order" },
        { { sizeof(struct dsflow_program_steps), "x", 1, 0, 0 },
          "program x: first 1, every 0, last 0: expected steps from 1 on, in "
          "order" },
        { { sizeof(struct dsflow_program_steps), "x", 7, 1, 6 },
          "program x: first 7, every 1, last 6: expected steps from 1 on, in "
          "order" },
        { { sizeof(struct dsflow_program_steps), "eval", 1, 1, 0 },
          "program eval: it is of validations, and of no step" },
        { { sizeof(struct dsflow_program_steps), NULL, 1, 1, 0 },
          "a program of steps: expected its size and its name" },
        { { 0, "x", 1, 1, 0 },
          "a program of steps: expected its size and its name" },
    };
    struct dsflow_plan *plan = empty();
    struct dsflow_err err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(dsflow_plan_add_program(plan, &bad[i].steps, &err),
                         DSFLOW_EINVAL);
        assert_string_equal(err.msg, bad[i].msg);
    }
    assert_int_equal(plan->nprograms, 0);
    done(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_runs_step),
        cmocka_unit_test(every_fifth_runs_another),
        cmocka_unit_test(of_several_the_last_one_runs),
        cmocka_unit_test(steps_are_counted_without_a_look_at_each),
        cmocka_unit_test(when_it_runs_is_said),
        cmocka_unit_test(steps_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
