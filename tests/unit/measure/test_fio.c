/* test_fio.c - what fio is asked and what is read of its answer, by a fio of
 * our own. */
#include "lib/test.h"

#include "measure/fio.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], log_path[80];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/test-fio.XXXXXX");
    if (mkdtemp(dir) == NULL)
        return -1;
    snprintf(log_path, sizeof(log_path), "%s/log", dir);
    return 0;
}

static int remove_dir(void **state)
{
    char command[128];

    snprintf(command, sizeof(command), "/bin/rm -rf '%s'", dir);
    return system(command);
}

/* `body` is what fio does from now on; NULL: there is none. */
static void set_fio(const char *body)
{
    char path[80];
    FILE *out;

    setenv("PATH", dir, 1);
    snprintf(path, sizeof(path), "%s/fio", dir);
    unlink(path);
    if (body == NULL)
        return;
    out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "#!/bin/sh\necho \"$@\" > %s\n%s\n", log_path, body);
    fclose(out);
    assert_int_equal(chmod(path, 0700), 0);
}

static int measure(bool reads, bool writes, struct dsf_disk_rate *rate,
                   struct dsflow_err *err)
{
    static const char *const paths[] = { dir, dir };
    struct dsf_io_options options = {
        .paths = paths, .npaths = 2, .block = 1 << 20, .size = 4 << 20
    };
    struct dsf_disk_load load = { .size = 4 << 20,
                                  .block = 1 << 20,
                                  .depth = 3,
                                  .nfiles = 2,
                                  .threads = 1,
                                  .seconds = 0.25 };
    int status;

    assert_int_equal(dsf_io_open(&options, &load.io, err), DSFLOW_OK);
    status = dsf_fio_measure(&load, reads, writes, rate, err);
    dsf_io_close(load.io);
    return status;
}

/* The words it was called with. */
static const char *asked(void)
{
    static char text[2000];
    FILE *in = fopen(log_path, "r");
    size_t n = fread(text, 1, sizeof(text) - 1, in);

    fclose(in);
    text[n] = '\0';
    return text;
}

static void jobs_are_added_up(void **state)
{
    struct dsf_disk_rate rate;
    struct dsflow_err err = { 0 };

    set_fio("echo 'fio: a warning'\n"
            "echo '{\"jobs\": [{\"read\": {\"bw_bytes\": 100},"
            "\"write\": {\"bw_bytes\": 0}}, {\"read\": {\"bw_bytes\": 20},"
            "\"write\": {\"bw_bytes\": 7}}]}'");
    assert_int_equal(measure(true, true, &rate, &err), DSFLOW_OK);
    assert_true(rate.read == 120 && rate.write == 7);
    assert_non_null(strstr(asked(), "--bs=1048576 --iodepth=3 --size=2097152 "
                                    "--runtime=250ms"));
    assert_non_null(strstr(asked(), "--name=read1 --rw=read --filename="));
    assert_non_null(strstr(asked(), "--name=write1 --rw=write --filename="));
}

static void one_direction_is_asked_for_alone(void **state)
{
    struct dsf_disk_rate rate;
    struct dsflow_err err = { 0 };

    set_fio("echo '{\"jobs\": [{\"write\": {\"bw_bytes\": 9}}]}'");
    assert_int_equal(measure(false, true, &rate, &err), DSFLOW_OK);
    assert_true(rate.read == 0 && rate.write == 9);
    assert_null(strstr(asked(), "--rw=read"));
}

/* They have no names: fio gets them open, at the numbers it is told. */
static void the_files_are_those_of_the_store(void **state)
{
    struct dsf_disk_rate rate;
    struct dsflow_err err = { 0 };

    set_fio("for word; do case $word in --filename=*)\n"
            "[ -e \"${word#--filename=}\" ] || exit 4 ;; esac; done\n"
            "echo '{\"jobs\": [{\"read\": {\"bw_bytes\": 9}}]}'");
    assert_int_equal(measure(true, false, &rate, &err), DSFLOW_OK);
}

static void what_goes_wrong_is_told(void **state)
{
    static const struct {
        const char *body;
        int status;
        const char *msg;
    } cases[] = {
        { NULL, DSFLOW_ENOSYS, "fio is not installed" },
        { "exit 3", DSFLOW_EFAIL, "fio ended with status 3" },
        { "kill -9 $$", DSFLOW_EFAIL, "fio ended with status 137" },
        { "echo nothing", DSFLOW_EFAIL,
          "fio: expected JSON with bw_bytes of its jobs" },
        { "echo '{\"jobs\": [{}]}'", DSFLOW_EFAIL,
          "fio: expected JSON with bw_bytes of its jobs" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_disk_rate rate;
        struct dsflow_err err = { 0 };

        set_fio(cases[i].body);
        assert_int_equal(measure(true, false, &rate, &err), cases[i].status);
        assert_string_equal(err.msg, cases[i].msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_added_up),
        cmocka_unit_test(one_direction_is_asked_for_alone),
        cmocka_unit_test(the_files_are_those_of_the_store),
        cmocka_unit_test(what_goes_wrong_is_told),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
