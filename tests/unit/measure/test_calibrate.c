/* test_calibrate.c - the tasks of small steps are measured, all of them and in
 * an order that the graph allows. */
#include "measure/calibrate.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "measure/calibrate_pool.h"
#include "same/trial.h"

#include "lib/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What the host functions of a step were asked for. */
static atomic_uint batches, reports;

static void load(void *user, const struct dsflow_batch *batch)
{
    atomic_fetch_add(&batches, 1);
    memset(batch->tokens, 0, sizeof(*batch->tokens) * (size_t)batch->rows);
    memset(batch->targets, 0, sizeof(*batch->targets) * (size_t)batch->rows);
}

static void report(void *user, const struct dsflow_step_report *of)
{
    atomic_fetch_add(&reports, 1);
}

static void a_step_runs_whole_on_any_number_of_threads(void **state)
{
    const struct dsflow_host host = { NULL, load, report };
    struct dsflow_err err = { .msg = "" };
    struct trial t;

    plan_trial(&t, "gpt2 mesh.data=2 zero.stage=3");
    for (unsigned workers = 1; workers <= 3; workers++) {
        uint32_t n = dsflow_graph_ntasks(t.graph), step = 0, timed = 0;
        double *seconds = dsf_xcalloc(n, sizeof(*seconds));
        struct dsf_pool *pool = NULL;
        unsigned loads;

        if (dsf_pool_open(t.graph, &host, workers, &pool, &err) < 0)
            fail_msg("%s", err.msg);
        batches = reports = 0;
        assert_true(dsf_pool_step(pool, seconds) > 0);
        loads = batches;
        assert_true(loads > 0);
        assert_int_equal(reports, 1);
        assert_true(dsf_pool_step(pool, seconds) > 0);
        assert_int_equal(batches, 2 * loads);
        assert_int_equal(reports, 2);
        for (uint32_t i = 0; i < n; i++) {
            step += dsflow_graph_task(t.graph, (dsflow_task_id){ i })
                        ->program == DSFLOW_STEP;
            timed += seconds[i] > 0;
        }
        assert_true(timed > step / 2 && timed <= step);
        dsf_pool_close(pool);
        free(seconds);
    }
    end_trial(&t);
}

static void every_kind_of_task_of_a_step_has_samples(void **state)
{
    static const char *const kinds[] = { "mlp.forward",
                                         "attention.backward_input", "adam",
                                         "gather" };
    struct dsf_samples samples = { 0 };
    struct dsf_machine machine;
    struct dsflow_err err;

    assert_int_equal(dsf_machine_probe(&machine, &err), DSFLOW_OK);
    dsf_calibrate_tasks(&machine, 2, DSF_CALIBRATE_QUICK, &samples);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        unsigned n = 0;

        for (size_t i = 0; i < samples.n; i++) {
            assert_true(samples.v[i].seconds >= 0);
            n += strcmp(samples.v[i].kind, kinds[k]) == 0;
        }
        if (n == 0)
            fail_msg("no sample of %s", kinds[k]);
    }
    free(samples.v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_runs_whole_on_any_number_of_threads),
        cmocka_unit_test(every_kind_of_task_of_a_step_has_samples),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
