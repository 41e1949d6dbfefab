/* test_machine_cache.c - a machine is kept in a file, and believed only where
 * it is this one and can be. */
#include "measure/machine_cache.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/dsflow-cache.XXXXXX";

static void the_cache_is_where_the_user_has_it(void **state)
{
    char *path;

    setenv("XDG_CACHE_HOME", "/a/cache", 1);
    path = dsf_machine_cache_path();
    assert_string_equal(path, "/a/cache/dsflow/machine.toml");
    free(path);
    setenv("XDG_CACHE_HOME", "relative", 1); /* which is not to be used */
    setenv("HOME", "/a/home", 1);
    path = dsf_machine_cache_path();
    assert_string_equal(path, "/a/home/.cache/dsflow/machine.toml");
    free(path);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_null(dsf_machine_cache_path());
}

/* A machine that measuring could have found. */
static void make(struct dsf_machine_model *m, const char *name)
{
    dsf_machine_model_init(m);
    free(m->main.name);
    m->main.name = strdup(name);
    m->main.workers = 2;
    m->main.fp32 = 123e9;
}

static void what_was_measured_is_found_again(void **state)
{
    struct dsf_machine here = { .cpu = "a processor",
                                .isa = "avx2",
                                .cores = 2 };
    struct dsf_machine_model m, again;
    struct dsflow_err err = { .msg = "" };
    char *path;

    setenv("XDG_CACHE_HOME", folder, 1);
    make(&m, "a processor, 2 cores, avx2");
    path = dsf_machine_cache_path();
    if (dsf_machine_save(&m, path, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(dsf_machine_present(&here, &again, &err), DSFLOW_OK);
    assert_float_equal(again.main.fp32, 123e9, 1);
    dsf_machine_model_fini(&again);
    dsf_machine_model_fini(&m);
    unlink(path);
    free(path);
}

/* What was kept before a job computed in bf16 is completed, once, and what it
 * says of fp32 stays. */
static void rates_in_the_type_of_a_job_are_added(void **state)
{
    static const char text[] =
        "[job]\nsteps = 1\n"
        "[model]\nfamily = \"gpt2\"\nlayers = 1\nheads = 1\nwidth = 8\n"
        "context = 8\nvocab = 256\n[data]\ntrain = \"-\"\n"
        "[precision]\ncompute = \"bf16\"\n";
    struct dsf_machine here = { .cpu = "a processor",
                                .isa = "avx2",
                                .cores = 2,
                                .gpus = 1, /* not measured: the cores are */
                                .gpu_memory = INT64_C(1) << 30 };
    struct dsf_machine_model m, kept, again;
    struct dsf_job job;
    struct dsflow_err err = { .msg = "" };
    char *path;

    setenv("DSFLOW_CUDA", "no", 1);
    setenv("XDG_CACHE_HOME", folder, 1);
    make(&m, "a processor, 2 cores, avx2");
    dsf_machine_model_add_kind(&m, "adam", false, DSFLOW_BYTES)->per_byte =
        1.25e-10;
    path = dsf_machine_cache_path();
    if (dsf_job_parse(text, strlen(text), "job", NULL, 0, NULL, &job, &err) <
            0 ||
        dsf_machine_save(&m, path, &err) < 0 ||
        dsf_machine_of_job(&here, &job, &kept, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(dsf_machine_model_knows(&kept, DSFLOW_BF16));
    assert_non_null(
        dsf_machine_model_kind(&kept, "mlp.forward", false, DSFLOW_BF16));
    assert_null(
        dsf_machine_model_kind(&kept, "mlp.forward", false, DSFLOW_FP32));
    assert_float_equal(kept.main.fp32, 123e9, 1);
    assert_float_equal(
        dsf_machine_model_kind(&kept, "adam", false, DSFLOW_FP32)->per_byte /
            1.25e-10,
        1, 1e-6);

    /* Read as it was written: measured again, some figure would differ. */
    assert_int_equal(dsf_machine_of_job(&here, &job, &again, &err), DSFLOW_OK);
    assert_int_equal(again.nkinds, kept.nkinds);
    for (unsigned k = 0; k < kept.nkinds; k++)
        assert_float_equal(again.kinds[k].per_byte, kept.kinds[k].per_byte,
                           1e-6 * kept.kinds[k].per_byte);
    dsf_machine_model_fini(&again);
    dsf_machine_model_fini(&kept);
    dsf_machine_model_fini(&m);
    dsf_job_fini(&job);
    unlink(path);
    free(path);
}

static void what_no_machine_can_be_is_not_saved(void **state)
{
    struct dsf_machine_model m;
    struct dsflow_err err = { .msg = "" };
    char path[100];

    make(&m, "x");
    m.main.fp32 = -1;
    snprintf(path, sizeof(path), "%s/none.toml", folder);
    assert_true(dsf_machine_save(&m, path, &err) < 0);
    assert_int_equal(access(path, F_OK), -1);
    dsf_machine_model_fini(&m);
}

static long peak(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss; /* KiB */
}

/* The run that follows says how much memory it has used at most. */
static void measuring_takes_its_memory_in_another_process(void **state)
{
    struct dsf_machine here = { .cpu = "a processor",
                                .isa = "avx2",
                                .cores = 2 };
    struct dsf_machine_model m;
    long before = peak();

    dsf_machine_measure(&here, &m);
    assert_true(m.main.bandwidth > 1e7);
    assert_true(peak() - before < 100 << 10); /* it takes 256 MiB there */
    dsf_machine_model_fini(&m);
}

static int make_folder(void **state)
{
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    char path[100];

    snprintf(path, sizeof(path), "%s/dsflow", folder);
    rmdir(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_is_where_the_user_has_it),
        cmocka_unit_test(what_was_measured_is_found_again),
        cmocka_unit_test(rates_in_the_type_of_a_job_are_added),
        cmocka_unit_test(measuring_takes_its_memory_in_another_process),
        cmocka_unit_test(what_no_machine_can_be_is_not_saved),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
