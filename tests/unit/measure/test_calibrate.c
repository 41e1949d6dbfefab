/* test_calibrate.c - the tasks of small steps are measured, all of them, with
 * StarPU and where it does not start, whatever policies a program brings. */
#include "measure/calibrate.h"

#include <dsflow/policy.h>

#include "base/alloc.h"
#include "measure/apart.h"

#include "lib/folder.h"
#include "lib/test.h"

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* As where an assertion of StarPU's fails: it ends the process. The linker puts
 * this function in front of StarPU's. */
static bool starpu_ends;
struct starpu_conf;
int __real_starpu_init(struct starpu_conf *conf);
int __wrap_starpu_init(struct starpu_conf *conf);
int __wrap_starpu_init(struct starpu_conf *conf)
{
    if (starpu_ends)
        raise(SIGKILL);
    return __real_starpu_init(conf);
}

static int add(void *user, void *answer, struct dsflow_err *err)
{
    int *sum = answer;

    *sum += *(int *)user;
    return *sum == 7 ? DSFLOW_OK
                     : dsflow_fail(err, DSFLOW_EFIT, "%d is not 7", *sum);
}

static int die(void *user, void *answer, struct dsflow_err *err)
{
    raise(SIGKILL);
    return DSFLOW_OK;
}

static void what_is_done_apart_ends_only_its_own_process(void **state)
{
    struct dsflow_err err = { .msg = "" };
    int answer = 3;

    assert_int_equal(dsf_apart(add, &(int){ 7 }, &answer, sizeof(answer), &err),
                     DSFLOW_OK);
    assert_int_equal(answer, 7);
    assert_int_equal(dsf_apart(add, &(int){ 8 }, &answer, sizeof(answer), &err),
                     DSFLOW_EFIT);
    assert_string_equal(err.msg, "8 is not 7");
    assert_int_equal(dsf_apart(die, NULL, &answer, sizeof(answer), &err),
                     DSFLOW_EFAIL);
    assert_int_equal(answer, 7);
}

static void assert_all_kinds(const struct dsf_machine *machine,
                             enum dsflow_dtype type)
{
    static const struct {
        const char *name;
        bool is_narrow; /* in a job in a narrow type */
    } kinds[] = { { "mlp.forward", true },
                  { "attention.backward_input", true },
                  { "adam", false },
                  { "gather", true } };
    struct dsf_samples samples = { 0 };

    dsf_calibrate_tasks(machine, 2, DSF_CALIBRATE_QUICK, type, &samples);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
        const bool is_narrow = kinds[k].is_narrow && type != DSFLOW_FP32;
        double most = 0;

        for (size_t i = 0; i < samples.n; i++)
            if (strcmp(samples.v[i].kind, kinds[k].name) == 0 &&
                samples.v[i].dtype == (is_narrow ? type : DSFLOW_BYTES) &&
                samples.v[i].seconds > most)
                most = samples.v[i].seconds;
        if (most == 0)
            fail_msg("no sample of %s in a step in %s", kinds[k].name,
                     dsflow_dtype_str(type));
    }
    free(samples.v);
}

static int refuse(void *part, struct dsflow_plan *plan, struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL, "no job is good enough");
}

static int keep_all(const void *part, const struct dsflow_plan *plan,
                    struct dsflow_graph *in, struct dsflow_graph *out,
                    struct dsflow_err *err)
{
    return DSFLOW_UNCHANGED;
}

static int add_policy(void)
{
    static const struct dsflow_policy policy = {
        .abi = DSFLOW_POLICY_ABI,
        .name = "refuses",
        .summary = "refuses every job",
        .after = "priorities",
        .decide = refuse,
        .rewrite = keep_all,
    };

    return dsflow_policy_register(&policy, NULL);
}

static void every_kind_of_task_of_a_step_has_samples(void **state)
{
    struct dsf_machine_model m;
    struct dsf_machine machine;
    struct dsflow_err err;

    assert_int_equal(add_policy(), DSFLOW_OK);
    assert_int_equal(dsf_machine_probe(&machine, &err), DSFLOW_OK);
    assert_all_kinds(&machine, DSFLOW_FP32);
    dsf_machine_model_init(&m);
    m.main.workers = machine.cores;
    if (dsf_calibrate_overhead(&machine, &m, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(m.main.overhead > 0);

    starpu_ends = true;
    assert_all_kinds(&machine, DSFLOW_BF16);
    m.main.overhead = 3;
    assert_int_equal(dsf_calibrate_overhead(&machine, &m, &err), DSFLOW_EFAIL);
    assert_non_null(strstr(err.msg, "StarPU does not start"));
    assert_true(m.main.overhead == 3);
    starpu_ends = false;
    dsf_machine_model_fini(&m);
}

/* 100 tasks one after the other, of a microsecond each. */
static double hundred(const void *user, const struct dsf_machine_model *m)
{
    return 100 * (1e-6 + m->main.overhead);
}

static void no_runtime_takes_as_long_as_a_machine_that_is_busy(void **state)
{
    struct dsf_machine_model m;
    char text[256];

    dsf_machine_model_init(&m);
    m.scatter.overhead = 0.1;
    dsf_overhead_fit(&m, 100 * 21e-6, hundred, NULL);
    assert_float_equal(m.main.overhead, 20e-6, 0.1e-6);
    assert_false(dsf_machine_model_scattered(&m, text, sizeof(text)));

    dsf_overhead_fit(&m, 100 * 2100e-6, hundred, NULL);
    assert_float_equal(m.main.overhead, 20e-6, 0.1e-6);
    assert_float_equal(m.scatter.overhead, 99, 1);
    assert_true(dsf_machine_model_scattered(&m, text, sizeof(text)));
    dsf_machine_model_fini(&m);
}

/* Processes that end so leave StarPU's files. */
static int make_temporary(void **state)
{
    char path[PATH_MAX];

    return make_folder(state) < 0 || realpath(folder, path) == NULL
               ? -1
               : setenv("TMPDIR", path, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_done_apart_ends_only_its_own_process),
        cmocka_unit_test(every_kind_of_task_of_a_step_has_samples),
        cmocka_unit_test(no_runtime_takes_as_long_as_a_machine_that_is_busy),
    };

    return cmocka_run_group_tests(tests, make_temporary, remove_folder);
}
