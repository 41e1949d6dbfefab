/* test_early.c - what is wrong with a job is said before anything is read,
 * measured or built. */
#include "small.h"

#include "train/early.h"
#include "train/machine_keys.h"

/* A job that is refused before the plan. */
static void check(const char *keys, int status, const char *message)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_session s;
    int got;

    open_small(&s, TO_MODEL, keys);
    got = dsf_early_check(&s, DSFLOW_SERIAL, &err);
    cut_folder(err.msg);
    if (strncmp(err.msg, message, strlen(message)) != 0)
        fail_msg("%s: %s: expected %s", keys, err.msg, message);
    assert_int_equal(got, status);
    assert_null(s.plan);
    dsf_session_close(&s);
}

static void a_job_that_is_well_goes_on(void **state)
{
    check("", DSFLOW_OK, "");
    check("mesh.data=2 batch.micro=1", DSFLOW_OK, "");
}

static void text_that_is_missing_or_short_is_found(void **state)
{
    check("data.train=@/nothing.txt", DSFLOW_EINVAL,
          "--set: data: train: /nothing.txt: No such file or directory");
    check("model.context=4096", DSFLOW_EFIT,
          "/job.toml:6: data: train: 1369 tokens in 1 file: expected at least "
          "4097, for one sequence");
}

/* A program that has tokens of its own has no text. */
static void own_tokens_need_no_text(void **state)
{
    static const struct dsflow_batches own = { .vocab = 256 };
    struct dsflow_err err;
    struct dsf_session s;

    open_small(&s, TO_MODEL, "data.train=@/nothing.txt");
    s.own = &own;
    must(dsf_early_check_text(&s, &err), &err);
    dsf_session_close(&s);
}

static void a_graph_that_is_too_large_to_build_is_refused(void **state)
{
    check("mesh.data=3 batch.micro=1", DSFLOW_EINVAL,
          "--set: mesh: data: 3: expected a divisor of the 4 micro-batches of "
          "a step");
    check("model.layers=1024 batch.sequences=32000 batch.micro=1", DSFLOW_EFIT,
          "/job.toml: batch: tile: a step has about ");
}

static void a_model_that_fits_nowhere_is_refused(void **state)
{
    check("model.width=65536 model.layers=1024 model.heads=512", DSFLOW_EFIT,
          "--set: model: width: 65536: 52.8 trillion parameters take 576.0 TiB "
          "with the states of adamw: this machine has ");
}

static void folders_of_disks_must_be_there(void **state)
{
    check("offload.optimizer=nvme memory.nvme.path=@/no-disk", DSFLOW_EINVAL,
          "--set: memory.nvme: path: /no-disk: No such file or directory");
}

/* One line, where workers would take turns. */
static void more_workers_than_cores_are_a_warning(void **state)
{
    static const struct {
        const char *keys, *said;
    } cases[] = {
        { "machine.workers=4", "" },
        { "machine.workers=5",
          "--set: machine: workers: 5: this machine has 4 cores: workers take "
          "turns, which is slower than \"auto\"\n" },
        { "machine.workers=3 machine.virtual=2 mesh.data=2 batch.micro=1",
          "--set: machine: workers: 3: this machine has 4 cores, and virtual "
          "devices take one each: workers take turns, which is slower than "
          "\"auto\"\n" },
    };
    struct dsf_machine machine = { .cores = 4 };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_session s;

        open_small(&s, TO_MODEL, cases[i].keys);
        hush();
        dsf_machine_keys_warn(s.job, &machine);
        assert_string_equal(said, cases[i].said);
        dsf_session_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_is_well_goes_on),
        cmocka_unit_test(text_that_is_missing_or_short_is_found),
        cmocka_unit_test(own_tokens_need_no_text),
        cmocka_unit_test(a_graph_that_is_too_large_to_build_is_refused),
        cmocka_unit_test(a_model_that_fits_nowhere_is_refused),
        cmocka_unit_test(folders_of_disks_must_be_there),
        cmocka_unit_test(more_workers_than_cores_are_a_warning),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
