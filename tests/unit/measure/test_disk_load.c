/* test_disk_load.c - threads that keep a store busy move what is asked for, and
 * end with nothing under way, also where the disk fails. */
#include "unit/io/store.h"

#include "measure/disk_load.h"

#include <fcntl.h>
#include <math.h>

enum { BLOCK = 4 * DSF_IO_ALIGN, BLOCKS = 64, SIZE = BLOCKS * BLOCK };

static struct folders folders;
static struct dsf_disk_load load;

static int open_disks(void **state)
{
    make_folders(&folders);
    load = (struct dsf_disk_load){
        .io = open_store(&(struct dsf_io_options){ .paths = folders.paths,
                                                   .npaths = 2,
                                                   .block = BLOCK,
                                                   .depth = 2,
                                                   .size = SIZE }),
        .size = SIZE,
        .block = BLOCK,
        .depth = 2,
        .nfiles = 2,
        .threads = 2,
        .seconds = 0.02,
    };
    return 0;
}

static int close_disks(void **state)
{
    dsf_io_close(load.io);
    remove_folders(&folders);
    return 0;
}

static void fill_all(void)
{
    struct dsflow_err err;
    int64_t filled;

    assert_int_equal(dsf_disk_fill(&load, 1e9, &filled, &err), DSFLOW_OK);
    assert_int_equal(filled, SIZE);
}

static void a_store_is_filled_whole_or_for_a_time(void **state)
{
    struct dsf_io_stats before, after;
    struct dsflow_err err;
    int64_t filled;

    dsf_io_stats(load.io, &before);
    fill_all();
    dsf_io_stats(load.io, &after);
    assert_int_equal(after.written - before.written, SIZE);
    /* However short the time is, there is a block on each file. */
    assert_int_equal(dsf_disk_fill(&load, 0, &filled, &err), DSFLOW_OK);
    assert_in_range(filled, 2 * BLOCK, SIZE - 1);
    assert_int_equal(filled % (2 * BLOCK), 0);
}

/* Nothing is known of the disk here but which way bytes go. */
static void only_what_is_asked_for_is_moved(void **state)
{
    static const bool asked[][2] = { { true, false },
                                     { false, true },
                                     { true, true } };

    fill_all();
    for (int i = 0; i < 3; i++) {
        bool reads = asked[i][0], writes = asked[i][1];
        struct dsf_io_stats before, after, later;
        struct dsf_disk_rate rate;
        struct dsflow_err err;

        dsf_io_stats(load.io, &before);
        assert_int_equal(dsf_disk_measure(&load, reads, writes, &rate, &err),
                         DSFLOW_OK);
        dsf_io_stats(load.io, &after);
        assert_int_equal(after.read > before.read, reads);
        assert_int_equal(after.written > before.written, writes);
        assert_true(isfinite(rate.read) && (reads || rate.read == 0));
        assert_true(isfinite(rate.write) && (writes || rate.write == 0));
        assert_true(rate.scatter >= 0);
        dsf_io_stats(load.io, &later); /* nothing goes on */
        assert_int_equal(later.read, after.read);
        assert_int_equal(later.written, after.written);
    }
}

static void a_page_takes_some_time(void **state)
{
    struct dsflow_err err;
    double seconds = 0;

    fill_all();
    assert_int_equal(dsf_disk_latency(&load, &seconds, &err), DSFLOW_OK);
    assert_true(seconds > 0);
}

/* The message names the folder, and what was asked of it. */
static void check_failed(int status, const struct dsflow_err *err,
                         unsigned disk, const char *what)
{
    assert_int_equal(status, DSFLOW_EIO);
    assert_true(strncmp(err->msg, folders.paths[disk],
                        strlen(folders.paths[disk])) == 0);
    assert_non_null(strstr(err->msg, what));
}

static void a_disk_that_fails_ends_it(void **state)
{
    int bad = open("/dev/null", O_RDONLY);
    struct dsf_disk_rate rate;
    struct dsflow_err err;
    double seconds;
    int64_t filled;

    fill_all();
    assert_true(bad >= 0 && dup2(bad, dsf_io_fd(load.io, 1)) >= 0);
    close(bad);
    load.seconds = 1e6; /* it does not wait for the end */
    check_failed(dsf_disk_measure(&load, false, true, &rate, &err), &err, 1,
                 ": write of ");
    check_failed(dsf_disk_measure(&load, true, true, &rate, &err), &err, 1,
                 " of ");
    check_failed(dsf_disk_fill(&load, 1e9, &filled, &err), &err, 1,
                 ": write of ");
    assert_int_equal(filled % (2 * BLOCK), 0);
    assert_true(filled < SIZE);
    assert_int_equal(ftruncate(dsf_io_fd(load.io, 0), 0), 0);
    check_failed(dsf_disk_latency(&load, &seconds, &err), &err, 0,
                 ": read of 4096 bytes at 0: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_store_is_filled_whole_or_for_a_time,
                                        open_disks, close_disks),
        cmocka_unit_test_setup_teardown(only_what_is_asked_for_is_moved,
                                        open_disks, close_disks),
        cmocka_unit_test_setup_teardown(a_page_takes_some_time, open_disks,
                                        close_disks),
        cmocka_unit_test_setup_teardown(a_disk_that_fails_ends_it, open_disks,
                                        close_disks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
