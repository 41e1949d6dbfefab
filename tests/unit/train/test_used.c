/* test_used.c - what a run has used is what it measured, beside its plan. */
#include "train/used.h"

#include "lib/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct dsflow_batches batches =
    DSFLOW_BATCHES(.vocab = 50, .train = count_up);

/* Four steps on two ranks, whose states are in main memory, on cores or on so
 * many virtual devices; closed by the caller. */
static void train_on(struct dsf_run *r, enum dsflow_exec_kind kind,
                     int virtuals)
{
    char text[600];
    struct dsflow_err err;
    int status;

    snprintf(text, sizeof(text),
             "[job]\nsteps = 4\noutput = \"%s/run\"\n"
             "[model]\nlayers = 2\nheads = 2\nwidth = 128\ncontext = 48\n"
             "[batch]\nsequences = 4\nmicro = 1\n[mesh]\ndata = 2\n"
             "[offload]\noptimizer = \"cpu\"\n"
             "[machine]\nworkers = %d\nvirtual = %d\n",
             folder, virtuals > 0 ? 1 : 2, virtuals);
    dsf_run_init(r);
    r->executor = kind;
    r->start.overwrite = true;
    read_laptop(&r->machine);
    r->has_machine = true;
    status =
        dsf_session_parse(&r->s, text, "job.toml", NULL, 0, &batches, &err);
    if (status == DSFLOW_OK)
        status = dsf_run_check(r, &err);
    if (status == DSFLOW_OK)
        status = dsf_run_plan(r, &err);
    if (status == DSFLOW_OK)
        status = dsf_run_text(r, &err);
    if (status == DSFLOW_OK)
        status = dsf_run_predict(r, &err);
    if (status == DSFLOW_OK)
        status = dsf_run_open(r, &err);
    if (status == DSFLOW_OK)
        status = dsf_run_train(r, &err);
    if (status < 0)
        fail_msg("%s", err.msg);
}

static void train(struct dsf_run *r, enum dsflow_exec_kind kind)
{
    train_on(r, kind, 0);
}

/* Pages are whole, and what is in them is not. */
static void assert_near(double measured, double planned)
{
    assert_in_range((long)(1e4 * measured / planned), 9800, 10200);
}

static void bytes_are_those_of_the_plan(void **state)
{
    struct dsf_used u;
    struct dsf_run r;

    train(&r, DSFLOW_STARPU);
    dsf_run_used(&r, &u);
    assert_int_equal(u.nranks, 2);
    assert_true(u.tier[DSFLOW_HOST].planned > 0);
    assert_true(u.tier[DSFLOW_HOST].measured >=
                0.98 * u.tier[DSFLOW_HOST].planned);
    assert_true(u.tier[DSFLOW_NVME].planned == 0 &&
                u.tier[DSFLOW_NVME].measured == 0);
    assert_near(u.of_neediest.measured, u.of_neediest.planned);
    assert_near(u.memory.measured, u.memory.planned);
    assert_near((double)r.held[DSFLOW_DEVICE],
                u.memory.planned - u.tier[DSFLOW_HOST].planned);
    assert_true(u.of_neediest.planned < u.memory.planned);
    assert_true(u.memory.measured ==
                u.tier[DSFLOW_DEVICE].measured + u.tier[DSFLOW_HOST].measured);
    assert_true(u.peak >= u.memory.measured);
    dsf_run_close(&r);
}

/* To the byte, scratch included; of one device both ranks have half of that. */
static void devices_have_what_is_planned(void **state)
{
    for (int virtuals = 1; virtuals <= 2; virtuals++) {
        struct dsf_used u;
        struct dsf_run r;

        train_on(&r, DSFLOW_STARPU, virtuals);
        dsf_run_used(&r, &u);
        assert_true(dsf_session_weights(&r.s)->ranks[0].scratch > 0);
        assert_true(u.device.measured == u.device.planned);
        assert_true(u.of_neediest.measured == u.of_neediest.planned);
        assert_true(u.tier[DSFLOW_DEVICE].measured == u.device.planned);
        assert_true((double)r.held[DSFLOW_DEVICE] == u.device.planned);
        dsf_run_close(&r);
    }
}

static void seconds_are_those_of_its_steps(void **state)
{
    struct dsf_used u;
    struct dsf_run r;
    double least = INFINITY, most = 0;

    train(&r, DSFLOW_STARPU);
    for (size_t i = 0; i < r.nseconds; i++) {
        least = fmin(least, r.seconds[i]);
        most = fmax(most, r.seconds[i]);
    }
    dsf_run_used(&r, &u);
    assert_true(u.steps == r.nseconds && u.steps > 0);
    assert_true(u.median >= least && u.median <= most);
    assert_true(u.mean >= least && u.mean <= most);
    assert_true(u.predicted == r.prediction.sim.step_seconds);
    assert_true(u.least > 0 && u.efficiency > 0);
    assert_true(u.disk == 0); /* nothing is on one */
    assert_true(u.exec.tasks > 100 && u.exec.workers == 2);
    dsf_run_close(&r);

    train(&r, DSFLOW_SERIAL);
    dsf_run_used(&r, &u);
    assert_true(isnan(u.predicted)); /* one worker, where the plan has two */
    r.nseconds = 0;
    dsf_run_used(&r, &u);
    assert_int_equal(u.steps, 0);
    dsf_run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_plan),
        cmocka_unit_test(devices_have_what_is_planned),
        cmocka_unit_test(seconds_are_those_of_its_steps),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
