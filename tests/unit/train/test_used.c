/* test_used.c - what a run has used is what it measured, beside its plan. */
#include "train/used.h"

#include "lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64];

static int make_folder(void **state)
{
    strcpy(folder, "/tmp/test-used.XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static int count_up(void *user, int64_t index, int64_t pos, int64_t n,
                    int32_t *tokens, int32_t *targets)
{
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)((index + pos + i) % 50);
        targets[i] = (int32_t)((index + pos + i + 1) % 50);
    }
    return 0;
}

static const struct dsflow_batches batches =
    DSFLOW_BATCHES(.vocab = 50, .train = count_up);

/* A machine that is described, as measuring one takes time. */
static void describe_machine(struct dsf_run *r)
{
    const char *source = getenv("srcdir");
    char path[600];
    struct dsflow_err err;

    snprintf(path, sizeof(path), "%s/examples/machines/laptop.toml",
             source != NULL ? source : ".");
    if (dsf_machine_model_read(path, &r->machine, &err) < 0)
        fail_msg("%s", err.msg);
    r->has_machine = true;
}

/* Four steps on two ranks, whose states are in main memory; closed by the
 * caller. */
static void train(struct dsf_run *r, enum dsflow_exec_kind kind)
{
    char text[600];
    struct dsflow_err err;
    int status;

    snprintf(text, sizeof(text),
             "[job]\nsteps = 4\noutput = \"%s/run\"\n"
             "[model]\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 16\n"
             "[batch]\nsequences = 4\nmicro = 1\n[mesh]\ndata = 2\n"
             "[offload]\noptimizer = \"cpu\"\n[machine]\nworkers = 2\n",
             folder);
    dsf_run_init(r);
    r->executor = kind;
    r->start.overwrite = true;
    describe_machine(r);
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
    assert_true(u.of_neediest.measured > 0);
    assert_true(u.of_neediest.planned < u.memory.planned);
    assert_true(u.memory.measured ==
                u.tier[DSFLOW_DEVICE].measured + u.tier[DSFLOW_HOST].measured);
    assert_true(u.peak >= u.memory.measured);
    dsf_run_close(&r);
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
        cmocka_unit_test(seconds_are_those_of_its_steps),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
