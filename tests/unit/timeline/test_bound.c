/* test_bound.c - timelines whose bound can be found by hand. */
#include "timeline/bound.h"
#include "timeline/critical.h"

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>

/* Two workers of rank 0, one of rank 1, a link of each, a disk. */
static struct dsf_timeline lanes_of_two_ranks(void)
{
    struct dsf_timeline t = { 0 };

    dsf_timeline_add_lane(&t, DSF_LANE_WORKER, 0, "core 0");
    dsf_timeline_add_lane(&t, DSF_LANE_WORKER, 0, "core 1");
    dsf_timeline_add_lane(&t, DSF_LANE_WORKER, 1, "core 2");
    dsf_timeline_add_lane(&t, DSF_LANE_LINK, 0, "link of 0");
    dsf_timeline_add_lane(&t, DSF_LANE_LINK, 1, "link of 1");
    dsf_timeline_add_lane(&t, DSF_LANE_DISK, DSFLOW_ANYWHERE, "disk read");
    dsf_timeline_add_lane(&t, DSF_LANE_DISK, DSFLOW_ANYWHERE, "disk write");
    return t;
}

/* Seconds by lane, all of tasks that have a rank. */
static void assert_bound(const struct dsf_timeline *lanes, bool duplex,
                         const double *seconds, double critical, double bound,
                         enum dsf_bound what)
{
    struct dsf_teams teams;
    struct dsf_load load;
    enum dsf_bound got;

    dsf_teams_init(&teams, lanes, duplex);
    dsf_load_init(&load, &teams);
    dsf_load_add(&load, 0, 100, true);
    dsf_load_clear(&load);
    for (unsigned l = 0; l < lanes->nlanes; l++)
        dsf_load_add(&load, l, seconds[l], true);
    assert_float_equal(dsf_bound_seconds(&load, critical, &got), bound, 1e-12);
    assert_int_equal(got, what);
    dsf_load_fini(&load);
    dsf_teams_fini(&teams);
}

static void the_bound_is_the_busiest_team_or_the_critical_path(void **state)
{
    struct dsf_timeline t = lanes_of_two_ranks();

    /* Rank 0 has 9 seconds for two workers, rank 1 has 4 for one. */
    assert_bound(&t, true, (double[]){ 8, 1, 4, 1, 1, 1, 1 }, 3, 4.5,
                 DSF_BOUND_WORK);
    assert_bound(&t, true, (double[]){ 2, 1, 4, 1, 1, 1, 1 }, 3, 4,
                 DSF_BOUND_WORK);
    assert_bound(&t, true, (double[]){ 2, 1, 4, 1, 1, 1, 1 }, 7, 7,
                 DSF_BOUND_CRITICAL);
    assert_bound(&t, true, (double[]){ 2, 1, 4, 1, 6, 1, 1 }, 3, 6,
                 DSF_BOUND_LINK);
    dsf_timeline_fini(&t);
}

static void the_two_ways_of_a_disk_are_one_unless_it_is_duplex(void **state)
{
    struct dsf_timeline t = lanes_of_two_ranks();
    const double seconds[] = { 1, 1, 1, 1, 1, 3, 5 };

    assert_bound(&t, false, seconds, 1, 8, DSF_BOUND_DISK);
    assert_bound(&t, true, seconds, 1, 5, DSF_BOUND_WRITES);
    assert_bound(&t, true, (double[]){ 1, 1, 1, 1, 1, 6, 5 }, 1, 6,
                 DSF_BOUND_READS);
    dsf_timeline_fini(&t);
}

/* Each of the ranks that share it keeps to its worker. */
static void a_shared_worker_has_work_of_its_own(void **state)
{
    struct dsf_timeline t = { 0 };

    dsf_timeline_add_lane(&t, DSF_LANE_WORKER, DSFLOW_ANYWHERE, "core 0");
    dsf_timeline_add_lane(&t, DSF_LANE_WORKER, DSFLOW_ANYWHERE, "core 1");
    assert_bound(&t, false, (double[]){ 6, 2 }, 1, 6, DSF_BOUND_WORK);
    dsf_timeline_fini(&t);
}

static void what_is_of_no_rank_is_shared_by_all_workers(void **state)
{
    struct dsf_timeline t = lanes_of_two_ranks();
    struct dsf_teams teams;
    struct dsf_load load;
    enum dsf_bound what;

    dsf_teams_init(&teams, &t, false);
    dsf_load_init(&load, &teams);
    dsf_load_add(&load, 2, 9, false);
    dsf_load_add(&load, 0, 3, true);
    /* 12 seconds for three workers; rank 0 has 1.5 for each of its two. */
    assert_float_equal(dsf_bound_seconds(&load, 0, &what), 4, 1e-12);
    assert_int_equal(what, DSF_BOUND_WORK);
    dsf_load_fini(&load);
    dsf_teams_fini(&teams);
    dsf_timeline_fini(&t);
}

static void an_efficiency_is_one_at_most(void **state)
{
    assert_float_equal(dsf_efficiency(3, 4), 0.75, 0);
    assert_float_equal(dsf_efficiency(5, 4), 1, 0);
    assert_float_equal(dsf_efficiency(0, 0), 1, 0);
    assert_true(isnan(dsf_efficiency(NAN, 4)));
}

static const struct dsflow_op change = {
    .abi = DSFLOW_OP_ABI,
    .name = "change",
    DSFLOW_PORTS({ "what", DSFLOW_RW }, { "from", DSFLOW_R, .optional = 1 }),
};

static void add(struct dsflow_graph *g, uint32_t fresh, dsflow_data_id to,
                unsigned ndata, dsflow_data_id from)
{
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &change, .fresh = fresh, .ndata = ndata,
                        .data = (dsflow_data_id[]){ to, from }));
}

/* x changes, 2 seconds; z becomes a copy of it, 1 second; y changes by z, 3.
 * A step alone takes 6. While its y changes, the next x does, so that the next
 * step ends 4 seconds later: its copy waits for this y. */
static void steps_overlap_on_the_critical_path(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id x = dsflow_graph_add_data(g, &DSFLOW_DATA(.name = "x"));
    dsflow_data_id y = dsflow_graph_add_data(g, &DSFLOW_DATA(.name = "y"));
    dsflow_data_id z = dsflow_graph_add_data(g, &DSFLOW_DATA(.name = "z"));
    const double seconds[] = { 2, 1, 3 };
    struct dsf_succs edges;
    uint32_t *path, n;

    add(g, 0, x, 1, x);
    add(g, 1, z, 2, x);
    add(g, 0, y, 2, z);
    dsf_succs_init(&edges, g, 0, 3, true);
    assert_float_equal(dsf_critical(&edges, seconds, 3, 0, &path, &n), 6, 0);
    assert_int_equal(n, 3);
    free(path);
    assert_float_equal(dsf_critical(&edges, seconds, 3, 1, &path, &n), 4, 0);
    assert_int_equal(n, 2);
    assert_true(path[0] == 1 && path[1] == 2);
    free(path);
    assert_float_equal(dsf_critical(&edges, seconds, 3, 2, NULL, NULL), 4, 0);
    dsf_succs_fini(&edges);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_is_the_busiest_team_or_the_critical_path),
        cmocka_unit_test(the_two_ways_of_a_disk_are_one_unless_it_is_duplex),
        cmocka_unit_test(a_shared_worker_has_work_of_its_own),
        cmocka_unit_test(what_is_of_no_rank_is_shared_by_all_workers),
        cmocka_unit_test(an_efficiency_is_one_at_most),
        cmocka_unit_test(steps_overlap_on_the_critical_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
