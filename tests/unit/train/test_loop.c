/* test_loop.c - the steps of a run as the program around it sees them: told one
 * after the other, stopped where it says so, and gone on with. */
#include "train/run.h"

#include "lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 6 };

static char folder[] = "/tmp/dsflow-loop.XXXXXX";

/* What a run told. */
struct told {
    double loss[STEPS + 1], validated[STEPS + 1];
    int64_t step, last, saved; /* the last step; none may begin after `last` */
    unsigned steps, validations, stages[3];
    bool stop; /* the validation */
};

static bool may_begin(void *user, int64_t step)
{
    const struct told *t = user;

    return step <= t->last;
}

static bool is_stopped(void *user)
{
    const struct told *t = user;

    return t->stop;
}

static void on_stage(void *user, enum dsf_run_stage stage)
{
    struct told *t = user;

    t->stages[stage]++;
}

static void on_progress(void *user, int64_t done, int64_t saved)
{
    struct told *t = user;

    assert_true(done >= t->step);
    t->saved = saved;
}

static void on_step(void *user, const struct dsf_step *step)
{
    struct told *t = user;

    assert_int_equal(step->step, t->step + 1);
    assert_true(isfinite(step->loss) && step->seconds > 0);
    assert_true(step->peak_bytes > 0);
    t->step = step->step;
    t->loss[step->step] = step->loss;
    t->steps++;
}

static void on_validation(void *user, const struct dsf_validation *v)
{
    struct told *t = user;

    assert_int_equal(v->step, t->step);
    assert_true(isfinite(v->loss));
    t->validated[v->step] = v->loss;
    t->validations++;
}

static char *path_in(const char *name)
{
    static char path[200];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* Open a run of that output; the caller closes it. */
static void open_run(struct dsf_run *r, struct told *t, const char *output,
                     bool resume)
{
    char set[200];
    const char *sets[] = { set };
    struct dsflow_err err = { .msg = "" };

    snprintf(set, sizeof(set), "job.output=%s/%s", folder, output);
    dsf_run_init(r);
    r->executor = DSFLOW_SERIAL;
    r->start.asked = resume;
    r->calls = (struct dsf_run_calls){ t,        may_begin,   is_stopped,
                                       on_stage, on_progress, on_step,
                                       on_validation };
    /* As if it had been measured. */
    dsf_machine_model_init(&r->machine);
    r->has_machine = true;
    if (dsf_session_model(&r->s, path_in("job.toml"), sets, 1, &err) < 0 ||
        dsf_run_check(r, &err) < 0 || dsf_run_plan(r, &err) < 0 ||
        dsf_run_text(r, &err) < 0 || dsf_run_predict(r, &err) < 0 ||
        dsf_run_open(r, &err) < 0)
        fail_msg("%s", err.msg);
    t->step = r->done;
}

static void train(struct dsf_run *r)
{
    struct dsflow_err err = { .msg = "" };

    if (dsf_run_train(r, &err) < 0)
        fail_msg("%s", err.msg);
}

/* How many lines of the metrics have this in them. */
static unsigned lines_with(const char *output, const char *what)
{
    char name[100], line[4096];
    unsigned n = 0;
    FILE *f;

    snprintf(name, sizeof(name), "%s/metrics.jsonl", output);
    f = fopen(path_in(name), "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, what) != NULL;
    fclose(f);
    return n;
}

static struct told whole = { .last = STEPS };

static void every_step_is_told(void **state)
{
    struct dsf_run r;

    open_run(&r, &whole, "whole", false);
    train(&r);
    assert_int_equal(r.done, STEPS);
    assert_int_equal(whole.steps, STEPS);
    assert_int_equal(whole.validations, 2); /* after 4, and at the end */
    assert_int_equal(whole.stages[DSF_RUN_SAVES], 1);
    assert_int_equal(whole.stages[DSF_RUN_VALIDATES], 2);
    assert_int_equal(whole.saved, STEPS);
    dsf_run_end(&r, DSF_FINISHED, NULL);
    dsf_run_close(&r);
    assert_int_equal(lines_with("whole", "\"loss\""), STEPS);
    assert_int_equal(lines_with("whole", "\"finished\""), 1);
}

static void a_run_that_is_stopped_goes_on_with_the_same_losses(void **state)
{
    struct told part = { .last = 3 };
    struct dsflow_err err = { .msg = "" };
    struct dsf_run r;

    open_run(&r, &part, "parts", false);
    train(&r);
    assert_int_equal(r.done, 3);
    assert_int_equal(r.saved, -1);
    assert_int_equal(dsf_run_save(&r, &err), DSFLOW_OK);
    assert_int_equal(r.saved, 3);
    assert_int_equal(part.saved, 3);
    dsf_run_end(&r, DSF_STOPPED, NULL);
    dsf_run_close(&r);
    assert_int_equal(lines_with("parts", "\"stopped\""), 1);

    part.last = STEPS;
    open_run(&r, &part, "parts", true);
    assert_int_equal(r.done, 3);
    train(&r);
    dsf_run_end(&r, DSF_FINISHED, NULL);
    dsf_run_close(&r);
    for (int i = 1; i <= STEPS; i++)
        assert_true(part.loss[i] == whole.loss[i]);
    assert_int_equal(lines_with("parts", "\"loss\""), STEPS);
    assert_int_equal(lines_with("parts", "\"stopped\""), 0);
}

static void a_validation_that_is_stopped_says_nothing(void **state)
{
    struct told t = { .last = STEPS, .stop = true };
    struct dsf_run r;

    open_run(&r, &t, "stopped", false);
    train(&r);
    assert_int_equal(t.steps, STEPS);
    assert_int_equal(t.validations, 0);
    dsf_run_close(&r);
}

/* As if a signal had come when step `last` was done: it is saved, and not
 * validated. */
static void stop_at(struct told *t, const char *output, int64_t last,
                    bool resume)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_run r;

    t->last = last;
    t->stop = true;
    open_run(&r, t, output, resume);
    train(&r);
    assert_int_equal(dsf_run_save(&r, &err), DSFLOW_OK);
    assert_int_equal(r.saved, last);
    dsf_run_end(&r, DSF_STOPPED, NULL);
    dsf_run_close(&r);
}

static void a_validation_that_was_stopped_is_made_up_for(void **state)
{
    struct told t = { .step = 0 };
    struct dsflow_err err = { .msg = "" };
    struct dsf_run r;

    stop_at(&t, "made-up", 4, false);
    assert_int_equal(t.validations, 0);
    stop_at(&t, "made-up", STEPS, true); /* nor is it now */
    assert_int_equal(t.validations, 0);
    t.stop = false;
    open_run(&r, &t, "made-up", true);
    train(&r);
    dsf_run_end(&r, DSF_FINISHED, NULL);
    dsf_run_close(&r);
    assert_true(t.validated[STEPS] == whole.validated[STEPS]);
    open_run(&r, &t, "made-up", true); /* it is there now */
    train(&r);
    dsf_run_close(&r);
    assert_int_equal(t.validations, 1);

    t = (struct told){ .step = 0 };
    stop_at(&t, "between", 4, false);
    t.stop = false;
    t.last = STEPS;
    open_run(&r, &t, "between", true);
    assert_int_equal(dsf_run_step(&r, &err), DSFLOW_OK);
    assert_int_equal(dsf_run_step(&r, &err), DSFLOW_OK);
    dsf_run_close(&r);
    assert_int_equal(t.validations, 2);
    assert_true(t.validated[4] == whole.validated[4]);
    for (int i = 1; i <= STEPS; i++)
        assert_true(t.loss[i] == whole.loss[i]);
}

static void two_runs_do_not_share_a_folder(void **state)
{
    struct told t = { .last = 0 };
    struct dsflow_err err = { .msg = "" };
    char set[200];
    const char *sets[] = { set };
    struct dsf_run a, b;

    open_run(&a, &t, "one", false);
    snprintf(set, sizeof(set), "job.output=%s/one", folder);
    dsf_run_init(&b);
    b.executor = DSFLOW_SERIAL;
    assert_int_equal(
        dsf_session_model(&b.s, path_in("job.toml"), sets, 1, &err), DSFLOW_OK);
    assert_int_equal(dsf_run_check(&b, &err), DSFLOW_OK);
    assert_int_equal(dsf_run_plan(&b, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "another run is writing it"));
    dsf_run_close(&b);
    dsf_run_close(&a);
}

static int make_folder(void **state)
{
    FILE *f;

    if (mkdtemp(folder) == NULL)
        return -1;
    f = fopen(path_in("text.txt"), "w");
    for (int i = 0; f != NULL && i < 300; i++)
        fprintf(f, "Line %d of a text: the number is %d.\n", i, i * i);
    if (f == NULL || fclose(f) != 0)
        return -1;
    f = fopen(path_in("job.toml"), "w");
    if (f == NULL)
        return -1;
    fprintf(f,
            "[job]\nsteps = %d\n"
            "[model]\nlayers = 1\nheads = 2\nwidth = 32\ncontext = 32\n"
            "[data]\ntrain = \"%s/text.txt\"\nvalidation = 0.1\n"
            "[validation]\nevery = 4\nsequences = 4\n"
            "[batch]\nsequences = 2\nmicro = 1\n"
            "[sample]\ntokens = 0\n",
            STEPS, folder);
    return fclose(f);
}

static int remove_folder(void **state)
{
    char command[200];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_is_told),
        cmocka_unit_test(a_run_that_is_stopped_goes_on_with_the_same_losses),
        cmocka_unit_test(a_validation_that_is_stopped_says_nothing),
        cmocka_unit_test(a_validation_that_was_stopped_is_made_up_for),
        cmocka_unit_test(two_runs_do_not_share_a_folder),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
