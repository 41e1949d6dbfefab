/* test_hidden.c - what is hidden behind what, on timelines drawn by hand. */
#include "timeline/hidden.h"

#include "lib/test.h"

enum { CORE, LINK, READS, WRITES, READS2, WRITES2, NLANES };

static struct dsf_timeline lanes(void)
{
    struct dsf_timeline t = { 0 };

    dsf_timeline_add_lane(&t, DSF_LANE_WORKER, DSFLOW_ANYWHERE, "core 0");
    dsf_timeline_add_lane(&t, DSF_LANE_LINK, DSFLOW_ANYWHERE, "link");
    for (int i = 0; i < 4; i++)
        dsf_timeline_add_lane(&t, DSF_LANE_DISK, DSFLOW_ANYWHERE, "disk %d", i);
    return t;
}

static struct dsf_span span(unsigned lane, double start, double end)
{
    return (
        struct dsf_span){ .lane = (uint16_t)lane, .start = start, .end = end };
}

/* 0         5
 * aa..aaa...   rank 0 computes
 * ....bb....   rank 1 computes
 * .mmm......   moved for rank 0: 2 of 3 seconds are hidden
 * ......nn..   for rank 1: none of 2, as rank 0 computes there
 * ......oo..   for no rank: 1 of 2 */
static void a_rank_hides_what_is_moved_for_it(void **state)
{
    struct dsf_timeline t = lanes();
    struct dsf_hiding h;
    struct dsf_hidden sum;

    dsf_hiding_init(&h, &t, 2, 0, 10);
    dsf_hiding_work(&h, 0, &(struct dsf_span){ .start = 0, .end = 2 });
    dsf_hiding_work(&h, 0, &(struct dsf_span){ .start = 3, .end = 7 });
    dsf_hiding_work(&h, 1, &(struct dsf_span){ .start = 4, .end = 6 });
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(LINK, 1, 4) }, true);
    dsf_hiding_move(&h, 1, (struct dsf_span[]){ span(LINK, 6, 8) }, true);
    dsf_hiding_move(&h, -1, (struct dsf_span[]){ span(LINK, 6, 8) }, true);
    sum = dsf_hiding_end(&h);
    assert_float_equal(sum.comm, 7, 0);
    assert_float_equal(sum.comm_hidden, 2 + 0 + 1, 0);
    assert_float_equal(sum.io, 0, 0);
    dsf_timeline_fini(&t);
}

/* 0         5
 * ..ccc.....   some rank computes
 * rrr.......   disk 0 reads
 * .ww.......   and writes: it works 3 seconds, of which 1 is hidden
 * ....rrr...   disk 1 reads: 1 of 3 is hidden */
static void a_disk_that_reads_and_writes_works_once(void **state)
{
    struct dsf_timeline t = lanes();
    struct dsf_hiding h;
    struct dsf_hidden sum;

    dsf_hiding_init(&h, &t, 1, 0, 10);
    dsf_hiding_work(&h, 0, (struct dsf_span[]){ span(CORE, 2, 5) });
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(READS, 0, 3) }, true);
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(WRITES, 1, 3) }, true);
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(READS2, 4, 8) }, true);
    sum = dsf_hiding_end(&h);
    assert_float_equal(sum.io, 3 + 4, 0);
    assert_float_equal(sum.io_hidden, 1 + 1, 0);
    assert_float_equal(sum.io_most, 4, 0);
    assert_float_equal(sum.comm, 0, 0);
    dsf_timeline_fini(&t);
}

/* 0         10
 * ........cccccccc   the rank computes
 * .........mmmmmm.   moved for the step, which ends at 10: all of it counts
 * nn...........nn.   for other steps: nothing does
 * ..oo.....ooooo..   it is not known for which: what is before 10 does
 * rr......rrrr....   of disks too, whichever step it is for */
static void what_is_late_counts_for_its_step(void **state)
{
    struct dsf_timeline t = lanes();
    struct dsf_hiding h;
    struct dsf_hidden sum;

    dsf_hiding_init(&h, &t, 1, 0, 10);
    dsf_hiding_work(&h, 0, (struct dsf_span[]){ span(CORE, 8, 16) });
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(LINK, 0, 2) }, false);
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(READS, 0, 2) }, true);
    dsf_hiding_part(&h, 0, (struct dsf_span[]){ span(LINK, 2, 4) });
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(READS, 8, 12) }, false);
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(LINK, 9, 15) }, true);
    dsf_hiding_part(&h, 0, (struct dsf_span[]){ span(LINK, 9, 14) });
    dsf_hiding_move(&h, 0, (struct dsf_span[]){ span(LINK, 13, 15) }, false);
    sum = dsf_hiding_end(&h);
    assert_float_equal(sum.comm, 2 + 6 + 1, 0);
    assert_float_equal(sum.comm_hidden, 6 + 1, 0);
    assert_float_equal(sum.io, 2 + 2, 0);
    assert_float_equal(sum.io_hidden, 2, 0);
    dsf_timeline_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_hides_what_is_moved_for_it),
        cmocka_unit_test(a_disk_that_reads_and_writes_works_once),
        cmocka_unit_test(what_is_late_counts_for_its_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
