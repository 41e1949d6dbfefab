/* test_io_meter.c - how long disks work, and how much of it is hidden. */
#include "train/io_meter.h"

#include "lib/test.h"

#include <dsflow/graph.h>

static struct dsf_timeline lanes;

static int add_lanes(void **state)
{
    dsf_timeline_add_lane(&lanes, DSF_LANE_WORKER, DSFLOW_ANYWHERE, "core 0");
    dsf_timeline_add_lane(&lanes, DSF_LANE_DISK, DSFLOW_ANYWHERE, "read");
    dsf_timeline_add_lane(&lanes, DSF_LANE_DISK, DSFLOW_ANYWHERE, "write");
    return 0;
}

static int drop_lanes(void **state)
{
    dsf_timeline_fini(&lanes);
    return 0;
}

static double take(struct dsf_io_meter *m, double from, double to,
                   double *hidden)
{
    return dsf_io_meter_take(m, &lanes, from, to, hidden);
}

static void add(struct dsf_io_meter *m, bool disk, unsigned lane, double start,
                double end)
{
    dsf_io_meter_add(m,
                     &(struct dsf_span){ .start = start,
                                         .end = end,
                                         .lane = (uint16_t)lane },
                     disk);
}

/* core   ww..ww..
 * read   rrrr....
 * write  ..wwww..   6 seconds of disk, 4 of them while the core computes */
static void both_ways_at_once_count_once(void **state)
{
    struct dsf_io_meter m = { .until = 0 };
    double hidden;

    add(&m, true, 2, 2, 6);
    add(&m, false, 0, 0, 2);
    add(&m, false, 0, 4, 6);
    add(&m, true, 1, 0, 4);
    assert_true(take(&m, 0, 12, &hidden) == 6);
    assert_true(hidden == 4);
    assert_true(take(&m, 12, 20, &hidden) == 0);
    assert_true(hidden == 0);
    dsf_io_meter_fini(&m);
}

/* Of two steps, whatever is known by the end of the first. */
static void what_is_under_way_counts_when_it_is_known(void **state)
{
    struct dsf_io_meter m = { .until = 0 };
    double first, second, hidden[2];

    add(&m, true, 1, 0, 3);
    add(&m, true, 1, 6, 8);
    add(&m, false, 0, 0, 4);
    /* The core is at a task from 6 to 11, which nobody knows at 10. The
     * longest so far took 4: up to 6. */
    first = take(&m, 0, 10, &hidden[0]);
    assert_true(first == 3 && hidden[0] == 3);
    add(&m, false, 0, 6, 11);
    add(&m, true, 1, 12, 14);
    second = take(&m, 10, 20, &hidden[1]);
    assert_true(second == 4 && hidden[1] == 2);
    dsf_io_meter_fini(&m);
}

static void a_pause_is_left_out(void **state)
{
    struct dsf_io_meter m = { .until = 0 };
    double hidden;

    add(&m, true, 1, 0, 1);
    assert_true(take(&m, 0, 2, &hidden) == 1);
    add(&m, true, 1, 3, 4); /* an evaluation */
    add(&m, true, 1, 6, 7);
    add(&m, false, 0, 6.5, 7.5);
    assert_true(take(&m, 5, 9, &hidden) == 1);
    assert_true(hidden == 0.5);
    dsf_io_meter_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_at_once_count_once),
        cmocka_unit_test(what_is_under_way_counts_when_it_is_known),
        cmocka_unit_test(a_pause_is_left_out),
    };

    return cmocka_run_group_tests(tests, add_lanes, drop_lanes);
}
