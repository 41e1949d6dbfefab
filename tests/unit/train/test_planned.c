/* test_planned.c - a job planned for a machine that is described: what is made
 * of it, and what is said where it cannot be. */
#include "lib/train.h"

#include "sim/weights.h"
#include "train/planned.h"

#include <dsflow/log.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char toml[] = "[job]\n"
                           "steps = 4\n"
                           "[model]\n"
                           "layers = 2\n"
                           "heads = 2\n"
                           "width = 32\n"
                           "context = 16\n"
                           "[data]\n"
                           "validation = 0\n"
                           "[batch]\n"
                           "sequences = 4\n"
                           "micro = 1\n"
                           "[mesh]\n"
                           "data = 2\n"
                           "[zero]\n"
                           "stage = 3\n";

static struct dsf_machine_model laptop;

static int describe(void **state)
{
    read_laptop(&laptop);
    return 0;
}

static int free_laptop(void **state)
{
    dsf_machine_model_fini(&laptop);
    return 0;
}

static char warned[512];

static void note(void *user, enum dsflow_log_level level, const char *line)
{
    if (level == DSFLOW_WARN)
        snprintf(warned, sizeof(warned), "%s", line);
}

/* The job with one more key, up to a policy; closed by the caller. */
static int plan(struct dsf_planned *p, const char *set, const char *until,
                struct dsflow_err *err)
{
    int status;

    memset(p, 0, sizeof(*p));
    warned[0] = '\0';
    status = dsf_session_parse(&p->s, toml, "job.toml", &set, 1, NULL, err);
    return status == DSFLOW_OK ? dsf_planned_make(p, &laptop, until, true, err)
                               : status;
}

static void must_plan(struct dsf_planned *p, const char *set, const char *until)
{
    struct dsflow_err err = { 0 };

    if (plan(p, set, until, &err) < 0)
        fail_msg("%s", err.msg);
}

static unsigned count(const struct dsf_planned *p, const char *kind)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(p->s.graph); i++)
        n += strcmp(
                 dsflow_graph_task(p->s.graph, (dsflow_task_id){ i })->op->name,
                 kind) == 0;
    return n;
}

static void a_plan_is_whole_or_up_to_a_policy(void **state)
{
    struct dsf_planned whole, first;

    must_plan(&whole, "job.seed=1", NULL);
    must_plan(&first, "job.seed=1", "reference");
    assert_true(whole.whole && !first.whole);
    assert_ptr_equal(whole.machine, &laptop);
    assert_int_equal(whole.s.machine.cores, laptop.main.workers);
    assert_true(count(&first, "gather") == 0 && count(&whole, "gather") > 0);
    assert_true(count(&first, "mlp.forward") >= 8);
    assert_int_equal(count(&first, "mlp.forward"),
                     count(&whole, "mlp.forward"));
    dsf_planned_close(&whole);
    dsf_planned_close(&first);
}

static void policies_are_known_by_name(void **state)
{
    struct dsflow_err err;

    assert_int_equal(dsf_planned_until(NULL, &err), DSFLOW_OK);
    assert_int_equal(dsf_planned_until("zero", &err), DSFLOW_OK);
    assert_int_equal(dsf_planned_until("zeroo", &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "zeroo: expected one of reference, "));
}

/* A text need not be here; one that is too short is worth a word. */
static void a_short_text_is_a_warning(void **state)
{
    char path[] = "/tmp/test-planned.XXXXXX", set[64];
    int fd = mkstemp(path);
    struct dsf_planned p;

    must_plan(&p, "job.seed=1", NULL);
    assert_string_equal(warned, "");
    dsf_planned_close(&p);
    assert_int_equal(write(fd, "short", 5), 5);
    close(fd);
    snprintf(set, sizeof(set), "data.train=%s", path);
    must_plan(&p, set, NULL);
    assert_non_null(strstr(warned, "5 tokens"));
    assert_true(count(&p, "mlp.forward") > 0);
    dsf_planned_close(&p);
    unlink(path);
}

static void what_does_not_fit_is_told(void **state)
{
    struct dsflow_err err;
    struct dsf_planned p;

    must_plan(&p, "job.seed=1", NULL);
    assert_int_equal(dsf_planned_check(&p, &err), DSFLOW_OK);
    dsf_planned_close(&p);

    must_plan(&p, "memory.device=4KiB", NULL);
    assert_int_equal(dsf_planned_check(&p, &err), DSFLOW_EFIT);
    dsf_planned_close(&p);
}

/* Needs of the neediest rank, with so much memory for each; 0: as much as the
 * machine has. */
static double plan_on(const struct dsf_machine_model *m, const char *share,
                      long long device)
{
    const char *sets[] = { "offload.optimizer=cpu", share, NULL };
    struct dsflow_err err = { .msg = "" };
    struct dsf_planned p = { 0 };
    char limit[48];
    double peak;

    snprintf(limit, sizeof(limit), "memory.device=%lldB", device);
    sets[2] = limit;
    if (dsf_session_parse(&p.s, toml, "job.toml", sets, device > 0 ? 3 : 2,
                          NULL, &err) < 0 ||
        dsf_planned_make(&p, m, NULL, true, &err) < 0 ||
        dsf_planned_check(&p, &err) < 0)
        fail_msg("%s %s: %s", share, limit, err.msg);
    peak = p.s.weights->ranks[dsf_weights_neediest(p.s.weights)].peak;
    dsf_planned_close(&p);
    return peak;
}

/* On GPUs that are described, which have less scratch than as many cores. */
static void what_is_chosen_as_it_fits_is_not_refused(void **state)
{
    static const char text[] = "[machine]\nkind = \"gpu\"\ndevices = 8\n"
                               "memory = \"1GiB\"\nhost = \"1GiB\"\n"
                               "host_bandwidth = 1e11\nhost_link = 1e10\n"
                               "fp32 = 1e12\nbandwidth = 1e11\n"
                               "[link]\nbandwidth = 1e10\n";
    struct dsf_machine_model m;
    struct dsflow_err err = { .msg = "" };
    double least, most;

    if (dsf_machine_model_parse(text, strlen(text), "m.toml", &m, &err) < 0)
        fail_msg("%s", err.msg);
    least = plan_on(&m, "offload.share=0", 0);
    most = plan_on(&m, "offload.share=1", 0);
    assert_true(most > least);
    for (int i = 0; i <= 8; i++) {
        const double device = ceil(least + (most - least) * i / 8);

        assert_true(plan_on(&m, "offload.share=auto", (long long)device) <=
                    device);
    }
    dsf_machine_model_fini(&m);
}

/* Of a device that both ranks are on, and of two. */
static void what_virtual_devices_have_no_room_for_is_told(void **state)
{
    static const char *const sets[] = { "machine.virtual=1",
                                        "machine.virtual_memory=1MiB" };
    static const char *const more[] = { "machine.virtual=2",
                                        "machine.virtual_memory=1MiB" };
    struct dsflow_err err = { .msg = "" };
    struct dsf_planned p = { 0 };

    assert_int_equal(
        dsf_session_parse(&p.s, toml, "job.toml", sets, 2, NULL, &err),
        DSFLOW_OK);
    assert_int_equal(dsf_planned_make(&p, &laptop, NULL, true, &err),
                     DSFLOW_OK);
    assert_int_equal(dsf_planned_check(&p, &err), DSFLOW_EFIT);
    assert_non_null(strstr(err.msg, "machine: virtual_memory: device 0: "));
    assert_non_null(strstr(err.msg, " for the tensors of rank "));
    dsf_planned_close(&p);

    memset(&p, 0, sizeof(p));
    assert_int_equal(
        dsf_session_parse(&p.s, toml, "job.toml", more, 2, NULL, &err),
        DSFLOW_OK);
    assert_int_equal(dsf_planned_make(&p, &laptop, NULL, true, &err),
                     DSFLOW_OK);
    if (dsf_planned_check(&p, &err) < 0)
        fail_msg("%s", err.msg);
    dsf_planned_close(&p);
}

static void a_batch_that_does_not_split_is_found_first(void **state)
{
    struct dsflow_err err;
    struct dsf_planned p;

    assert_int_equal(plan(&p, "batch.micro=3", NULL, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "micro"));
    assert_null(p.s.graph);
    dsf_planned_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_whole_or_up_to_a_policy),
        cmocka_unit_test(policies_are_known_by_name),
        cmocka_unit_test(a_short_text_is_a_warning),
        cmocka_unit_test(what_does_not_fit_is_told),
        cmocka_unit_test(what_is_chosen_as_it_fits_is_not_refused),
        cmocka_unit_test(what_virtual_devices_have_no_room_for_is_told),
        cmocka_unit_test(a_batch_that_does_not_split_is_found_first),
    };

    dsflow_log_sink_set(note, NULL);
    return cmocka_run_group_tests(tests, describe, free_laptop);
}
