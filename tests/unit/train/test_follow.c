/* test_follow.c - a run as its folder shows it, while it grows and when it has
 * ended. */
#include "train/follow.h"

#include "lib/folder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct dsf_step step_of(int64_t n)
{
    return (struct dsf_step){ .step = n,
                              .loss = 10.0 / (double)n,
                              .seconds = 0.5,
                              .tokens = 100,
                              .efficiency = 0.5,
                              .io_seconds = NAN };
}

static void add_step(struct dsf_metrics *m, int64_t n)
{
    struct dsf_step s = step_of(n);

    assert_int_equal(dsf_metrics_step(m, &s, NULL), DSFLOW_OK);
}

static void count(void *user, const struct dsf_line *line)
{
    ++*(unsigned *)user;
}

static void a_run_grows_and_ends(void **state)
{
    struct dsf_validation v = { .step = 2, .loss = 3 };
    struct dsf_follow f;
    struct dsf_metrics m;
    struct dsflow_err err;
    unsigned lines = 0;

    assert_int_equal(dsf_follow_open(&f, folder, &err), DSFLOW_OK);
    f.on_line = count;
    f.user = &lines;
    dsf_follow_poll(&f);
    assert_int_equal(f.state, DSF_RUN_NONE);

    assert_int_equal(dsf_metrics_open(&m, path_in("metrics.jsonl"), &err),
                     DSFLOW_OK);
    assert_true(dsf_follow_poll(&f));
    assert_int_equal(f.state, DSF_RUN_STARTING);
    add_step(&m, 1);
    add_step(&m, 2);
    dsf_metrics_validation(&m, &v, NULL);
    assert_true(dsf_follow_poll(&f));
    assert_int_equal(f.state, DSF_RUN_GOING);
    assert_false(dsf_follow_poll(&f)); /* nothing is new */
    assert_int_equal(f.last.step, 2);
    assert_int_equal(f.nlosses, 2);
    assert_int_equal(f.nvalidations, 1);
    assert_int_equal(lines, 3);
    assert_true(f.pace.rate == 200);

    /* It goes on from step 1: what came after is forgotten. */
    dsf_metrics_begin(&m, 1, NULL);
    assert_true(dsf_follow_poll(&f));
    assert_int_equal(f.nlosses, 1);
    add_step(&m, 2);
    add_step(&m, 3);
    add_step(&m, 4);
    assert_true(dsf_follow_poll(&f));
    assert_int_equal(f.nlosses, 4);
    assert_int_equal(f.nvalidations, 0);
    assert_false(dsf_follow_is_over(&f));

    dsf_metrics_end(&m, 4, DSF_FAILED, "no luck", NULL);
    dsf_metrics_close(&m);
    assert_true(dsf_follow_poll(&f));
    assert_int_equal(f.state, DSF_RUN_FAILED);
    assert_string_equal(f.why, "no luck");
    assert_true(dsf_follow_is_over(&f));
    dsf_follow_close(&f);
}

static void a_run_without_its_last_line_is_gone(void **state)
{
    struct dsf_follow f;
    struct dsf_metrics m;
    struct dsflow_err err;

    unlink(path_in("metrics.jsonl"));
    assert_int_equal(dsf_metrics_open(&m, path_in("metrics.jsonl"), &err),
                     DSFLOW_OK);
    add_step(&m, 1);
    dsf_metrics_close(&m);
    assert_int_equal(dsf_follow_open(&f, folder, &err), DSFLOW_OK);
    dsf_follow_poll(&f);
    assert_int_equal(f.state, DSF_RUN_GONE);
    dsf_follow_close(&f);
    assert_int_equal(dsf_follow_open(&f, "/no/such", &err), DSFLOW_EINVAL);
    dsf_follow_close(&f);
}

/* A line that is being written is read when it is whole; one that was cut off,
 * as by a run that goes on, is forgotten, though what replaces it is as long. */
static void half_a_line_is_read_when_it_is_whole(void **state)
{
    struct dsf_step other = step_of(2);
    struct dsf_follow f;
    struct dsf_metrics m;
    struct dsflow_err err;
    struct stat one, two;

    unlink(path_in("metrics.jsonl"));
    assert_int_equal(dsf_metrics_open(&m, path_in("metrics.jsonl"), &err),
                     DSFLOW_OK);
    add_step(&m, 1);
    assert_int_equal(stat(path_in("metrics.jsonl"), &one), 0);
    add_step(&m, 2);
    assert_int_equal(stat(path_in("metrics.jsonl"), &two), 0);
    assert_int_equal(truncate(path_in("metrics.jsonl"), two.st_size - 2), 0);

    assert_int_equal(dsf_follow_open(&f, folder, &err), DSFLOW_OK);
    assert_true(dsf_follow_poll(&f));
    assert_int_equal(f.nlosses, 1);
    assert_false(dsf_follow_poll(&f));

    assert_int_equal(truncate(path_in("metrics.jsonl"), one.st_size), 0);
    other.loss = 4;
    assert_int_equal(dsf_metrics_step(&m, &other, NULL), DSFLOW_OK);
    assert_true(dsf_follow_poll(&f));
    assert_int_equal(f.nlosses, 2);
    assert_true(f.last.step == 2 && f.last.loss == 4);
    assert_true(f.losses[1].loss == 4);
    dsf_metrics_close(&m);
    dsf_follow_close(&f);
}

static void a_pace_is_smooth_and_ignores_what_is_unknown(void **state)
{
    struct dsf_pace p = { 0 };
    struct dsf_step s = step_of(1);

    s.seconds = 5; /* the first one touches memory */
    dsf_pace_add(&p, &s);
    assert_true(p.step_seconds == 5);
    for (int64_t i = 2; i < 200; i++) {
        s = step_of(i);
        s.efficiency = i % 2 == 0 ? NAN : 0.5;
        dsf_pace_add(&p, &s);
    }
    assert_true(fabs(p.step_seconds - 0.5) < 1e-3);
    assert_true(fabs(p.rate - 200) < 1);
    assert_true(p.efficiency == 0.5);
    assert_true(dsf_pace_has_shares(&p));
    p = (struct dsf_pace){ 0 };
    assert_false(dsf_pace_has_shares(&p));
}

/* Late are ten seconds without a line, or five steps; only while it runs. */
static void a_run_that_says_nothing_is_late(void **state)
{
    struct dsf_follow f = { .state = DSF_RUN_GOING, .has_step = true };

    clock_gettime(CLOCK_REALTIME, &f.changed);
    f.pace.step_seconds = 1;
    assert_false(dsf_follow_is_late(&f));
    f.changed.tv_sec -= 3600;
    assert_true(dsf_follow_age(&f) >= 3600);
    assert_true(dsf_follow_is_late(&f));
    f.pace.step_seconds = 1800;
    assert_false(dsf_follow_is_late(&f));
    f.pace.step_seconds = 1;
    f.state = DSF_RUN_FINISHED;
    assert_false(dsf_follow_is_late(&f));
}

static void the_newest_checkpoint_is_known(void **state)
{
    struct dsf_follow f = { .folder = folder };

    assert_int_equal(dsf_follow_saved(&f), -1);
    assert_int_equal(mkdir(path_in("checkpoints"), 0700), 0);
    assert_int_equal(dsf_follow_saved(&f), -1);
    assert_int_equal(mkdir(path_in("checkpoints/step-7"), 0700), 0);
    assert_int_equal(mkdir(path_in("checkpoints/step-20"), 0700), 0);
    assert_int_equal(dsf_follow_saved(&f), 20);
    rmdir(path_in("checkpoints/step-7"));
    rmdir(path_in("checkpoints/step-20"));
    rmdir(path_in("checkpoints"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_grows_and_ends),
        cmocka_unit_test(a_run_without_its_last_line_is_gone),
        cmocka_unit_test(half_a_line_is_read_when_it_is_whole),
        cmocka_unit_test(a_run_that_says_nothing_is_late),
        cmocka_unit_test(the_newest_checkpoint_is_known),
        cmocka_unit_test(a_pace_is_smooth_and_ignores_what_is_unknown),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
