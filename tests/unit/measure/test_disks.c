/* test_disks.c - folders that a job offloads to are looked at first. */
#include "measure/disks.h"

#include "lib/test.h"

#include <math.h>
#include <string.h>

/* A job with these keys; of the program, freed with it. */
static const struct dsf_job *job_of(const char *offload, const char *nvme)
{
    static struct dsf_job job;
    struct dsflow_err err;
    char text[600];

    dsf_job_fini(&job);
    snprintf(text, sizeof(text),
             "[job]\nsteps = 1\n[data]\ntrain = \"-\"\n[offload]\n%s\n"
             "[memory.nvme]\n%s\n",
             offload, nvme);
    if (dsf_job_parse(text, strlen(text), "job.toml", NULL, 0, NULL, &job,
                      &err) < 0)
        fail_msg("%s", err.msg);
    return &job;
}

static void assert_refused(const char *offload, const char *nvme,
                           int (*check)(const struct dsf_job *job,
                                        struct dsflow_err *err),
                           const char *message)
{
    struct dsflow_err err = { .msg = "" };

    assert_int_equal(check(job_of(offload, nvme), &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
}

static void pieces_and_blocks_are_whole_pages(void **state)
{
    struct dsflow_err err;

    assert_int_equal(
        dsf_disks_check_keys(job_of("piece = \"4KiB\"", "block = \"8KiB\""),
                             &err),
        DSFLOW_OK);
    assert_refused("piece = 100", "", dsf_disks_check_keys,
                   "job.toml:6: offload: piece: 100 B: expected a size of 4KiB "
                   "or more");
    assert_refused("", "block = 5000", dsf_disks_check_keys,
                   "job.toml:8: memory.nvme: block: 5000 bytes: expected a "
                   "multiple of 4KiB, at most 1GiB");
}

static void folders_are_there_where_they_are_used(void **state)
{
    struct dsflow_err err;

    assert_false(dsf_disks_are_used(job_of("optimizer = \"cpu\"", "")));
    assert_int_equal(
        dsf_disks_check(job_of("", "path = \"/no/such\""), &err), DSFLOW_OK);
    assert_true(dsf_disks_are_used(job_of("params = \"nvme\"", "")));
    assert_refused("params = \"nvme\"", "", dsf_disks_check,
                   "job.toml:6: offload: params: nvme: expected a folder or "
                   "more in memory.nvme.path");
    assert_refused("params = \"nvme\"", "path = [\".\", \"/no/such\"]",
                   dsf_disks_check,
                   "job.toml:8: memory.nvme: path: /no/such: No such file or "
                   "directory");
    assert_int_equal(
        dsf_disks_check(job_of("params = \"nvme\"", "path = \".\""), &err),
        DSFLOW_OK);
}

static void a_disk_counts_once(void **state)
{
    const struct dsf_job *job = job_of("", "path = [\".\", \".\"]");
    double twice = dsf_disks_free(job), once;
    struct dsflow_err err;

    assert_true(dsf_disks_bytes_beside(job, 100, ".") == 100);
    assert_true(dsf_disks_bytes_beside(job, 100, "/no/such") == 0);
    assert_int_equal(dsf_disks_check_room(job, 1, &err), DSFLOW_OK);
    assert_int_equal(dsf_disks_check_room(job, 1e30, &err), DSFLOW_EFIT);
    once = dsf_disks_free(job_of("", "path = \".\""));
    assert_true(isfinite(once) && once > 0);
    /* Others may write meanwhile. */
    assert_true(twice < 1.5 * once);
}

static void an_executor_is_told_of_them(void **state)
{
    struct dsflow_disk disk = dsf_disks_options(
        job_of("", "path = [\"a\", \"b\"]\nblock = \"1MiB\"\ndepth = 3"));

    assert_int_equal(disk.npaths, 2);
    assert_string_equal(disk.paths[1], "b");
    assert_int_equal(disk.block, 1 << 20);
    assert_int_equal(disk.depth, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_and_blocks_are_whole_pages),
        cmocka_unit_test(folders_are_there_where_they_are_used),
        cmocka_unit_test(a_disk_counts_once),
        cmocka_unit_test(an_executor_is_told_of_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
