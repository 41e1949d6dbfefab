/* test_disk_sweep.c - all ways are tried once, and the best is chosen: on files
 * that are there, with figures that are given. */
#include "lib/test.h"

#include "measure/disk_sweep.h"

#include <string.h>

/* The largest block, a depth of 4 and two files are best; threads are not. */
static int made_up(const struct dsf_disk_load *load, bool reads, bool writes,
                   struct dsf_disk_rate *rate, struct dsflow_err *err)
{
    double depth = load->depth < 4 ? 0.5 : 1;
    double all = 1e9 * depth * (double)load->block / (4 << 20) *
                 (load->nfiles > 1 ? 1.2 : 1);

    *rate = (struct dsf_disk_rate){ .read = reads ? 2 * all : 0,
                                    .write = writes ? all : 0,
                                    .scatter = reads && writes ? 0
                                               : reads         ? 0.1
                                                               : 0.2 };
    return DSFLOW_OK;
}

static int half_of_it(const struct dsf_disk_load *load, bool reads, bool writes,
                      struct dsf_disk_rate *rate, struct dsflow_err *err)
{
    made_up(load, reads, writes, rate, err);
    rate->read /= 2;
    rate->write /= 2;
    return DSFLOW_OK;
}

static int nothing(const struct dsf_disk_load *load, bool reads, bool writes,
                   struct dsf_disk_rate *rate, struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_ENOSYS, "there is none");
}

struct seen {
    unsigned ways[DSF_SWEEP_BESIDE + 1]; /* of each stage */
    enum dsf_sweep_stage stage;
    unsigned figures;
    double part; /* of the last figure */
    bool backwards;
    struct dsf_disk_way last;
};

static void on_stage(void *user, enum dsf_sweep_stage stage)
{
    struct seen *seen = user;

    seen->backwards = seen->backwards || stage < seen->stage;
    seen->stage = stage;
}

static void on_figure(void *user, double part, const char *what)
{
    struct seen *seen = user;

    seen->backwards = seen->backwards || part < seen->part;
    seen->part = part;
    seen->figures++;
}

static void on_way(void *user, const struct dsf_disk_way *way)
{
    struct seen *seen = user;

    seen->ways[seen->stage]++;
    seen->last = *way;
}

static const char *const here[] = { "." };

static struct dsf_disk_sweep sweep_of(struct seen *seen)
{
    return (struct dsf_disk_sweep){
        .folders = here,
        .nfolders = 1,
        .size = 1,
        .seconds = 0.1,
        .blocks = { 1 << 20, 4 << 20 },
        .depths = { 1, 4, 16 },
        .nblocks = 2,
        .ndepths = 3,
        .measure = made_up,
        .beside = half_of_it,
        .user = seen,
        .on_stage = on_stage,
        .on_figure = on_figure,
        .on_way = on_way,
    };
}

static void every_way_is_tried_once(void **state)
{
    struct seen seen = { 0 };
    struct dsf_disk_sweep how = sweep_of(&seen);
    struct dsf_disk_found found;
    struct dsflow_err err = { 0 };

    assert_int_equal(dsf_disk_sweep(&how, &found, &err), DSFLOW_OK);
    assert_int_equal(seen.ways[DSF_SWEEP_REQUESTS], 6);
    assert_int_equal(seen.ways[DSF_SWEEP_FILES], 3);
    assert_int_equal(seen.ways[DSF_SWEEP_BESIDE], 2);
    assert_false(seen.backwards);
    assert_true(seen.part < 1);
    assert_true(seen.part > 1 - 1.5 / seen.figures); /* none was left out */
}

static void the_best_way_is_found(void **state)
{
    struct seen seen = { 0 };
    struct dsf_disk_sweep how = sweep_of(&seen);
    struct dsf_disk_found found;
    struct dsflow_err err = { 0 };

    assert_int_equal(dsf_disk_sweep(&how, &found, &err), DSFLOW_OK);
    assert_int_equal(found.best.block, 4 << 20);
    assert_int_equal(found.best.depth, 4); /* 16 gives no more */
    assert_int_equal(found.best.files, 2);
    assert_int_equal(found.best.threads, 1);
    assert_float_equal(found.best.read, 2.4e9, 1);
    assert_float_equal(found.best.write, 1.2e9, 1);
    assert_float_equal(found.best.both, 3.6e9, 1);
    assert_float_equal(found.best.scatter.read, 0.1, 1e-9);
    assert_float_equal(found.best.scatter.write, 0.2, 1e-9);
    assert_int_equal(found.not_beside.status, DSFLOW_OK);
    assert_float_equal(found.beside.read, 1.2e9, 1);
    assert_true(found.disk.latency > 0);
    assert_float_equal(found.disk.write, 1.2e9, 1);
}

static void what_stands_beside_need_not_be_there(void **state)
{
    struct seen seen = { 0 };
    struct dsf_disk_sweep how = sweep_of(&seen);
    struct dsf_disk_found found;
    struct dsflow_err err = { 0 };

    how.beside = nothing;
    assert_int_equal(dsf_disk_sweep(&how, &found, &err), DSFLOW_OK);
    assert_string_equal(found.not_beside.msg, "there is none");
    assert_int_equal(seen.ways[DSF_SWEEP_BESIDE], 1);
    how.measure = nothing; /* the engine must be */
    assert_int_equal(dsf_disk_sweep(&how, &found, &err), DSFLOW_ENOSYS);
}

static void a_small_depth_is_preferred(void **state)
{
    static const struct dsf_disk_way ways[] = {
        { .block = 1, .depth = 16, .read = 100, .write = 100, .both = 100 },
        { .block = 1, .depth = 4, .read = 98, .write = 98, .both = 98 },
        { .block = 2, .depth = 4, .read = 99, .write = 99, .both = 99 },
        { .block = 2, .depth = 1, .read = 100, .write = 100, .both = 90 },
    };

    assert_ptr_equal(dsf_disk_choose(ways, 4), &ways[2]);
    assert_ptr_equal(dsf_disk_choose(ways, 1), &ways[0]);
}

static void folders_that_are_not_there_are_named(void **state)
{
    static const char *const nowhere[] = { "/nowhere" };
    struct seen seen = { 0 };
    struct dsf_disk_sweep how = sweep_of(&seen);
    struct dsf_disk_found found;
    struct dsflow_err err = { 0 };

    how.folders = nowhere;
    assert_int_equal(dsf_disk_sweep(&how, &found, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "/nowhere: "));
    how.nfolders = 0;
    assert_int_equal(dsf_disk_sweep(&how, &found, &err), DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_is_tried_once),
        cmocka_unit_test(the_best_way_is_found),
        cmocka_unit_test(what_stands_beside_need_not_be_there),
        cmocka_unit_test(a_small_depth_is_preferred),
        cmocka_unit_test(folders_that_are_not_there_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
