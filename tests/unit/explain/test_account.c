/* test_account.c - timelines that can be drawn by hand, and what is said of
 * them. A step is begin, end; letters are tasks, dots idle time. */
#include "explain/account.h"
#include "sim/sim.h"
#include "tasks/tasks.h"

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct dsflow_op work = {
    .abi = DSFLOW_OP_ABI,
    .name = "work",
    .repeats = 1,
    DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R, .optional = 1 }),
};
static const struct dsflow_op bump = {
    .abi = DSFLOW_OP_ABI,
    .name = "bump",
    DSFLOW_PORTS({ "what", DSFLOW_RW }, { "in", DSFLOW_R, .optional = 1 }),
};
static const struct dsflow_op move = {
    .abi = DSFLOW_OP_ABI,
    .name = "move",
    DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R }),
    .comm = 1,
};

static const struct dsflow_op hold = {
    .abi = DSFLOW_OP_ABI,
    .name = "hold",
    DSFLOW_PORTS({ "what", DSFLOW_RW }, { "until", DSFLOW_R }),
};

static struct dsf_trace *new_trace(unsigned nranks, unsigned workers)
{
    struct dsf_trace *t = calloc(1, sizeof(*t));

    t->graph = dsflow_graph_new();
    t->facts.nranks = nranks;
    t->facts.axes[0] = (struct dsf_trace_axis){ "data", nranks, 1 };
    t->facts.naxes = 1;
    t->facts.first = 1;
    for (unsigned w = 0; w < workers; w++)
        dsf_timeline_add_lane(&t->timeline, DSF_LANE_WORKER,
                              nranks > 1 ? (int)(w * nranks / workers) : 0,
                              "core %u", w);
    return t;
}

static void free_trace(struct dsf_trace *t)
{
    dsflow_graph_free(t->graph);
    free(t->tasks);
    dsf_timeline_fini(&t->timeline);
    dsf_laps_fini(&t->laps);
    free(t);
}

static dsflow_data_id data(struct dsf_trace *t, const char *name,
                           const char *ring)
{
    return dsflow_graph_add_data(
        t->graph, &DSFLOW_DATA(.name = name, .elems = 4, .ring = ring));
}

static dsflow_data_id kept(struct dsf_trace *t, const char *name)
{
    return dsflow_graph_add_data(
        t->graph, &DSFLOW_DATA(.name = name, .elems = 4, .persistent = 1));
}

static uint32_t task(struct dsf_trace *t, const struct dsflow_op *op, int rank,
                     unsigned n, const dsflow_data_id *ids)
{
    struct dsflow_task_spec spec =
        DSFLOW_TASK(.op = op, .layer = -1, .rank = (int16_t)rank, .data = ids,
                    .ndata = n);

    return dsflow_graph_add_task(t->graph, &spec).i;
}
#define TASK(t, op, rank, ...)                                                 \
    task(t, op, rank,                                                          \
         sizeof((dsflow_data_id[]){ __VA_ARGS__ }) / sizeof(dsflow_data_id),   \
         (dsflow_data_id[]){ __VA_ARGS__ })

static void ran(struct dsf_trace *t, uint32_t what, uint32_t step,
                unsigned lane, double start, double end)
{
    dsf_timeline_add(&t->timeline,
                     &(struct dsf_span){ .start = start,
                                         .end = end,
                                         .what = what,
                                         .step = step,
                                         .lane = (uint16_t)lane });
}

/* What a trace that was read has. */
static void finish(struct dsf_trace *t)
{
    uint32_t n = dsflow_graph_ntasks(t->graph);

    t->tasks = calloc(n + 1, sizeof(*t->tasks));
    for (uint32_t i = 0; i < n; i++) {
        bool holds = dsflow_graph_task(t->graph, (dsflow_task_id){ i })->op ==
                     &hold;

        t->tasks[i] = (struct dsf_trace_task){ .flops = holds ? 0 : 1,
                                               .predicted = -1 };
    }
    dsf_timeline_sort(&t->timeline);
    dsf_laps_init(&t->laps, t);
}

static void account(struct dsf_account *a, struct dsf_trace *t)
{
    struct dsflow_err err;

    finish(t);
    if (dsf_account_init(a, t, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Busy and idle of all workers is all of their time. */
static void assert_whole(const struct dsf_account *a)
{
    double sum = a->all.did.busy, waits = 0, idle = 0, path = 0;

    for (int c = 0; c < DSF_NCAUSES; c++) {
        idle += a->all.idle[c];
        path += a->path_gaps[c];
    }
    for (size_t i = 0; i < a->nwaits; i++)
        waits += a->waits[i].seconds;
    for (size_t i = 0; i < a->npath; i++)
        path += a->path[i].seconds;
    assert_float_equal(sum + idle, a->seconds * a->trace->timeline.workers,
                       1e-9 * a->seconds);
    assert_float_equal(waits, idle, 1e-9 * a->seconds);
    assert_float_equal(path, a->path_seconds, 1e-9 * a->seconds);
}

/* core 0  aaaa....
 * core 1  ....bbbb    b reads what a writes */
static void a_worker_waits_for_what_a_task_computes(void **state)
{
    struct dsf_trace *t = new_trace(1, 2);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL);
    uint32_t a = TASK(t, &work, 0, x), b = TASK(t, &work, 0, y, x);
    struct dsf_account acc;

    ran(t, a, 0, 0, 0, 4);
    ran(t, b, 0, 1, 4, 8);
    account(&acc, t);
    assert_int_equal(acc.nsteps, 1);
    assert_float_equal(acc.steps.seconds, 8, 0);
    assert_float_equal(acc.all.did.computing, 8, 0);
    assert_float_equal(acc.all.idle[DSF_CAUSE_DATA], 4, 0);
    assert_float_equal(acc.all.idle[DSF_CAUSE_END], 4, 0);
    assert_float_equal(acc.laps.bound / acc.laps.n, 8, 1e-12);
    assert_string_equal(acc.waits[0].what, "work");
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

/* rank 0  aaaa........
 * rank 1  ....~~bb      ~ moves, on rank 1's link, from 4 to 6 */
static void
waiting_for_another_rank_is_told_from_waiting_for_the_wire(void **state)
{
    struct dsf_trace *t = new_trace(2, 2);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL),
                   z = data(t, "z", NULL);
    uint32_t a = TASK(t, &work, 0, x), m = TASK(t, &move, 1, y, x),
             b = TASK(t, &work, 1, z, y);
    struct dsf_account acc;

    dsf_timeline_add_lane(&t->timeline, DSF_LANE_LINK, 1, "link of 1");
    ran(t, a, 0, 0, 0, 4);
    ran(t, m, 0, 2, 4, 6);
    ran(t, b, 0, 1, 6, 8);
    account(&acc, t);
    assert_float_equal(acc.ranks[1].idle[DSF_CAUSE_RANK], 4, 0);
    assert_float_equal(acc.ranks[1].idle[DSF_CAUSE_TRANSFER], 2, 0);
    assert_float_equal(acc.ranks[0].idle[DSF_CAUSE_END], 4, 0);
    assert_float_equal(acc.hidden.comm, 2, 0);
    assert_float_equal(acc.hidden.comm_hidden, 0, 0);
    assert_true(acc.links);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

/* rank 0  aabbbb..
 * rank 1  ......cc      h holds a's result back until b is done */
static void what_only_waits_is_not_what_is_waited_for(void **state)
{
    struct dsf_trace *t = new_trace(2, 2);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL),
                   z = data(t, "z", NULL);
    uint32_t a = TASK(t, &work, 0, x), b = TASK(t, &bump, 0, y),
             h = TASK(t, &hold, 0, x, y), c = TASK(t, &work, 1, z, x);
    struct dsf_account acc;

    ran(t, a, 0, 0, 0, 2);
    ran(t, b, 0, 0, 2, 6);
    ran(t, h, 0, 0, 6, 6);
    ran(t, c, 0, 1, 6, 8);
    account(&acc, t);
    assert_float_equal(acc.ranks[1].idle[DSF_CAUSE_RANK], 6, 0);
    assert_string_equal(acc.waits[0].what, "bump");
    assert_int_equal(acc.waits[0].from, 0);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

/* core 0  aaaabbbbbb    one buffer: c writes it when b has read it
 * core 1  ..........cc */
static void waiting_for_a_slot_names_the_ring(void **state)
{
    struct dsf_trace *t = new_trace(1, 2);
    dsflow_data_id x = data(t, "x", "batch.in_flight"), y = data(t, "y", NULL);
    uint32_t a = TASK(t, &work, 0, x), b = TASK(t, &work, 0, y, x),
             c = TASK(t, &work, 0, x);
    struct dsf_account acc;

    ran(t, a, 0, 0, 0, 4);
    ran(t, b, 0, 0, 4, 10);
    ran(t, c, 0, 1, 10, 12);
    account(&acc, t);
    assert_float_equal(acc.all.idle[DSF_CAUSE_SLOT], 10, 0);
    assert_true(acc.waits[0].ring);
    assert_string_equal(acc.waits[0].what, "batch.in_flight");
    assert_int_equal(acc.nrings, 1);
    assert_float_equal(acc.rings[0].seconds, 10, 0);
    assert_int_equal(acc.rings[0].tasks, 1);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

/* core 0    aa....bb   b is ready at 2; its data is on the way from 3 to 5 */
static void a_ready_task_waits_for_transfers_or_the_runtime(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL);
    uint32_t a = TASK(t, &work, 0, x), b = TASK(t, &work, 0, y, x);
    struct dsf_account acc;

    dsf_timeline_add_lane(&t->timeline, DSF_LANE_LINK, DSFLOW_ANYWHERE,
                          "memory to device 7");
    ran(t, a, 0, 0, 0, 2);
    ran(t, b, 0, 0, 6, 8);
    dsf_timeline_add(&t->timeline,
                     &(struct dsf_span){ .start = 3,
                                         .end = 5,
                                         .what = x.i,
                                         .lane = 1,
                                         .rank = -1,
                                         .kind = DSF_SPAN_TRANSFER });
    account(&acc, t);
    assert_float_equal(acc.all.idle[DSF_CAUSE_TRANSFER], 2, 0);
    assert_float_equal(acc.all.idle[DSF_CAUSE_RUNTIME], 2, 0);
    assert_float_equal(acc.path_gaps[DSF_CAUSE_TRANSFER], 2, 0);
    assert_float_equal(acc.path_gaps[DSF_CAUSE_RUNTIME], 2, 0);
    assert_float_equal(acc.hidden.comm, 2, 0);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

static void add_link(struct dsf_trace *t, const char *name, uint16_t end)
{
    dsf_timeline_add_lane(&t->timeline, DSF_LANE_LINK, DSFLOW_ANYWHERE, "%s",
                          name);
    t->timeline.lanes[t->timeline.nlanes - 1].ends[1] = end;
}

static void copied(struct dsf_trace *t, dsflow_data_id data, uint16_t lane,
                   double start, double end)
{
    dsf_timeline_add(&t->timeline,
                     &(struct dsf_span){ .start = start,
                                         .end = end,
                                         .what = data.i,
                                         .lane = lane,
                                         .rank = -1,
                                         .kind = DSF_SPAN_TRANSFER });
}

/* device 1   aa....bb   b is ready at 2; of what is on the way, a second is
 * copied by device 1, the rest is device 10's */
static void a_device_copies_what_is_on_its_own_links(void **state)
{
    struct dsf_trace *t = new_trace(1, 0);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL),
                   z = data(t, "z", NULL);
    uint32_t a = TASK(t, &work, 0, x), b = TASK(t, &work, 0, y, x);
    struct dsf_account acc;

    dsf_timeline_add_lane(&t->timeline, DSF_LANE_WORKER, 0, "device 1");
    add_link(t, "memory to device 1", 1);
    add_link(t, "memory to device 10", 0);
    ran(t, a, 0, 0, 0, 2);
    ran(t, b, 0, 0, 6, 8);
    copied(t, z, 1, 3, 4);
    copied(t, z, 2, 3, 5);
    account(&acc, t);
    assert_float_equal(acc.all.idle[DSF_CAUSE_TRANSFER], 1, 0);
    assert_float_equal(acc.all.idle[DSF_CAUSE_RUNTIME], 3, 0);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

/* core 0  aaaaaa..   b computes for 2 of the 3 seconds that m takes
 * link    .mmm.... */
static void moving_is_hidden_while_its_rank_computes(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL),
                   p = kept(t, "p");
    uint32_t a = TASK(t, &work, 0, x), m = TASK(t, &move, 0, y, p);
    struct dsf_account acc;

    dsf_timeline_add_lane(&t->timeline, DSF_LANE_LINK, 0, "link of 0");
    ran(t, a, 0, 0, 0, 3);
    ran(t, m, 0, 1, 1, 4);
    account(&acc, t);
    assert_float_equal(acc.hidden.comm, 3, 0);
    assert_float_equal(acc.hidden.comm_hidden, 2, 0);
    assert_null(acc.link);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

/* The second of three steps, from 4 to 8, has what is moved for it from 2 to 5.
 * core 0  bbbb.bbbbbbb
 * link    mm           of the first step, …
 *           mmm
 *              mmmmm   */
static void what_is_moved_for_a_step_is_its_own(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id p = kept(t, "p");
    uint32_t b = TASK(t, &bump, 0, kept(t, "q"));
    uint32_t m = TASK(t, &move, 0, data(t, "x", NULL), p);
    struct dsf_account acc;

    dsf_timeline_add_lane(&t->timeline, DSF_LANE_LINK, 0, "link of 0");
    ran(t, b, 0, 0, 0, 4);
    ran(t, b, 1, 0, 5, 8);
    ran(t, b, 2, 0, 8, 12);
    ran(t, m, 0, 1, 0, 2);
    ran(t, m, 1, 1, 2, 5);
    ran(t, m, 2, 1, 5, 10);
    account(&acc, t);
    assert_float_equal(acc.seconds, 4, 0);
    assert_float_equal(acc.hidden.comm, 3, 0);
    assert_float_equal(acc.hidden.comm_hidden, 2, 0);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

/* core 0  aaa.....   the second link works longest
 * links   .mm.....
 *         .nnnn... */
static void a_link_that_works_longest_is_named(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL),
                   z = data(t, "z", NULL), p = kept(t, "p");
    uint32_t a = TASK(t, &work, 0, x), m = TASK(t, &move, 0, y, p),
             n = TASK(t, &move, 0, z, p);
    struct dsf_account acc;

    dsf_timeline_add_lane(&t->timeline, DSF_LANE_LINK, 0, "one");
    dsf_timeline_add_lane(&t->timeline, DSF_LANE_LINK, 0, "other");
    ran(t, a, 0, 0, 0, 3);
    ran(t, m, 0, 1, 1, 3);
    ran(t, n, 0, 2, 1, 5);
    account(&acc, t);
    assert_string_equal(acc.link->name, "other");
    assert_float_equal(acc.link_seconds, 4, 0);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

/* Three steps of one task that needs the one before: the middle one counts. */
static void a_step_among_steps_is_what_counts(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id p = kept(t, "p");
    uint32_t b = TASK(t, &bump, 0, p);
    struct dsf_account acc;

    ran(t, b, 5, 0, 0, 9);
    ran(t, b, 6, 0, 10, 12);
    ran(t, b, 7, 0, 12, 20);
    account(&acc, t);
    assert_int_equal(acc.steps.from, 6);
    assert_int_equal(acc.steps.to, 7);
    assert_float_equal(acc.steps.seconds, 3, 0);
    assert_float_equal(acc.all.did.computing, 2, 0);
    assert_float_equal(acc.all.idle[DSF_CAUSE_RUNTIME], 1, 0);
    assert_int_equal(acc.edges.first[1], 1);
    assert_true(acc.edges.v[0].before);
    assert_int_equal(acc.kinds[0].count, 1);
    assert_int_equal(acc.kinds[0].all, 3);
    assert_float_equal(acc.kinds[0].all_seconds, 19, 0);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

static void the_way_goes_back_by_what_was_last(void **state)
{
    struct dsf_trace *t = new_trace(1, 2);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL),
                   z = data(t, "z", NULL), p = kept(t, "p");
    uint32_t a = TASK(t, &work, 0, x), b = TASK(t, &bump, 0, p),
             c = TASK(t, &work, 0, y, x), d = TASK(t, &work, 0, z, y);
    struct dsf_account acc;

    ran(t, a, 0, 0, 0, 3);
    ran(t, b, 0, 1, 0, 5);
    ran(t, c, 0, 1, 5, 6); /* ready at 3: its worker was busy */
    ran(t, d, 0, 0, 6, 9);
    account(&acc, t);
    assert_int_equal(acc.npath, 2);
    assert_string_equal(acc.path[0].op->name, "bump");
    assert_float_equal(acc.path[0].seconds, 5, 0);
    assert_int_equal(acc.path[1].count, 2); /* c and d */
    assert_float_equal(acc.path[1].seconds, 4, 0);
    assert_float_equal(acc.queued, 2, 0);
    assert_int_equal(acc.nqueued, 1);
    assert_whole(&acc);
    dsf_account_fini(&acc);
    free_trace(t);
}

static void a_trace_without_a_whole_step_is_refused(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id x = data(t, "x", NULL), y = data(t, "y", NULL);
    uint32_t a = TASK(t, &work, 0, x);
    struct dsf_account acc;
    struct dsflow_err err;

    TASK(t, &work, 0, y, x);
    ran(t, a, 0, 0, 0, 1);
    finish(t);
    assert_int_equal(dsf_account_init(&acc, t, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "the trace has no whole step: expected one "
                                 "that begins and ends in it");
    free_trace(t);
}

static void a_trace_of_steps_of_another_program_is_refused(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id x = data(t, "x", NULL);
    struct dsflow_task_spec other =
        DSFLOW_TASK(.op = &work, .layer = -1, .rank = 0, .data = &x, .ndata = 1,
                    .program = dsflow_graph_add_program(t->graph, "other"));
    struct dsf_account acc;
    struct dsflow_err err;

    TASK(t, &work, 0, x);
    t->facts.steps = 1u << other.program;
    ran(t, dsflow_graph_add_task(t->graph, &other).i, 0, 0, 0, 1);
    finish(t);
    assert_int_equal(dsf_account_init(&acc, t, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "the trace has no whole step of the program step: "
                        "expected one, as those of other are drawn, and not "
                        "explained");
    free_trace(t);
}

static unsigned roll(unsigned *seed, unsigned n)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % n;
}

/* Any graph, on any number of ranks and workers, with links or without. */
static void parts_sum_to_the_whole_whatever_ran(void **state)
{
    for (unsigned seed = 1; seed <= 60; seed++) {
        unsigned s = seed, nranks = 1 + roll(&s, 4), ndata = 12;
        bool links = roll(&s, 2);
        unsigned workers = links ? nranks : 1 + roll(&s, 5);
        struct dsf_trace *t = new_trace(nranks, 0);
        double seconds[80];
        struct dsf_sim_spec spec = { .nranks = nranks,
                                     .workers = workers,
                                     .links = links,
                                     .program = DSFLOW_STEP,
                                     .steps = 4,
                                     .seconds = seconds };
        struct dsf_sim_result result;
        struct dsf_account acc;
        struct dsflow_err err;
        dsflow_data_id ids[12];

        for (unsigned d = 0; d < ndata; d++) {
            char name[8];

            snprintf(name, sizeof(name), "d%u", d);
            ids[d] = d < 4 ? kept(t, name)
                           : data(t, name, d % 2 ? "zero.prefetch" : NULL);
        }
        for (unsigned i = 0; i < 80; i++) {
            const struct dsflow_op *ops[] = { &work, &bump, &move };
            unsigned x = roll(&s, ndata), y = roll(&s, ndata - 1);

            seconds[i] = 0.001 * (1 + roll(&s, 9));
            task(t, ops[roll(&s, 3)], (int)roll(&s, nranks), 2,
                 (dsflow_data_id[]){ ids[x], ids[y < x ? y : y + 1] });
        }
        if (dsf_simulate(t->graph, &spec, &result, &t->timeline, &err) < 0)
            fail_msg("%s", err.msg);
        dsf_sim_result_fini(&result);
        account(&acc, t);
        assert_int_equal(acc.nsteps, 2);
        assert_whole(&acc);
        assert_true(acc.all.idle[DSF_CAUSE_RUNTIME] < 1e-9);
        assert_true(acc.laps.bound / acc.laps.n <=
                    acc.seconds / acc.nsteps + 1e-9);
        dsf_account_fini(&acc);
        free_trace(t);
    }
}

static dsflow_data_id in_tier(struct dsf_trace *t, const char *name,
                              enum dsflow_tier tier, bool persistent)
{
    return dsflow_graph_add_data(
        t->graph, &DSFLOW_DATA(.name = name, .elems = 4, .tier = (uint8_t)tier,
                               .persistent = persistent));
}

/* Two updates of 4 seconds in main memory, each on a core of its own.
 * device  aa....
 * core 0  ..uuuu
 * core 1  ..vvvv */
static void the_cores_beside_a_device_are_there_again(void **state)
{
    for (unsigned cores = 1; cores <= 2; cores++) {
        struct dsf_trace *t = new_trace(1, 1);
        dsflow_data_id x = data(t, "x", NULL);
        struct dsf_account acc;
        uint32_t a, u[2];

        for (unsigned i = 0; i < cores; i++)
            dsf_timeline_add_lane(&t->timeline, DSF_LANE_HOST, DSFLOW_ANYWHERE,
                                  "core %u", i);
        a = TASK(t, &work, 0, x);
        for (int i = 0; i < 2; i++)
            u[i] =
                TASK(t, &bump, 0, in_tier(t, i ? "u" : "v", DSFLOW_HOST, 1), x);
        ran(t, a, 0, 0, 0, 2);
        for (unsigned i = 0; i < 2; i++)
            ran(t, u[i], 0, 1 + i % cores, i < cores ? 2 : 6,
                i < cores ? 6 : 10);
        account(&acc, t);
        assert_float_equal(acc.seconds, cores == 2 ? 6 : 10, 0);
        assert_float_equal(acc.simulated, cores == 2 ? 6 : 10, 0);
        dsf_account_fini(&acc);
        free_trace(t);
    }
}

static void add_disk(struct dsf_trace *t)
{
    dsf_timeline_add_lane(&t->timeline, DSF_LANE_DISK, -1, "disk read");
    dsf_timeline_add_lane(&t->timeline, DSF_LANE_DISK, -1, "disk write");
}

/* core   AAuu.
 *          ^ waits from 2 to 3
 * read   ggg...
 * write  .....p */
static void waiting_for_a_disk_is_waiting_for_data_on_its_way(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id home = in_tier(t, "home", DSFLOW_NVME, true);
    dsflow_data_id slot = in_tier(t, "slot", DSFLOW_HOST, false);
    struct dsf_account acc;
    uint32_t a, g, u, p;

    add_disk(t);
    a = TASK(t, &work, 0, data(t, "a", NULL));
    g = TASK(t, &dsf_op_swap_in, 0, home, slot);
    u = TASK(t, &bump, 0, slot);
    p = TASK(t, &dsf_op_swap_out, 0, slot, home);
    ran(t, a, 0, 0, 0, 2);
    ran(t, g, 0, 1, 0, 3);
    ran(t, u, 0, 0, 3, 5);
    ran(t, p, 0, 2, 5, 6);
    account(&acc, t);
    assert_whole(&acc);
    assert_float_equal(acc.seconds, 6, 0);
    assert_float_equal(acc.all.did.computing, 4, 0);
    assert_float_equal(acc.all.did.moving, 0, 0);
    assert_float_equal(acc.all.idle[DSF_CAUSE_TRANSFER], 1, 0);
    assert_float_equal(acc.all.idle[DSF_CAUSE_END], 1, 0);
    assert_float_equal(acc.all.did.beside, 4, 0);
    assert_float_equal(acc.hidden.io, 4, 0);
    assert_float_equal(acc.hidden.io_hidden, 2, 0);
    assert_float_equal(acc.hidden.comm, 0, 0);
    /* get, update, put */
    assert_float_equal(acc.laps.bound / acc.laps.n, 6, 0);
    assert_false(acc.links);
    for (unsigned k = 0; k < acc.nkinds; k++)
        assert_float_equal(acc.kinds[k].on_workers,
                           acc.kinds[k].op->swaps ? 0 : acc.kinds[k].seconds,
                           0);
    assert_int_equal(acc.waits[0].cause, DSF_CAUSE_TRANSFER);
    assert_string_equal(acc.waits[0].what, "swap_in");
    dsf_account_fini(&acc);
    free_trace(t);
}

/* It works for 6 seconds, 2 of them both ways.
 * read   gggg..
 * write  ..pppp */
static void a_disk_that_does_both_at_once_works_once(void **state)
{
    for (int duplex = 0; duplex < 2; duplex++) {
        struct dsf_trace *t = new_trace(1, 1);
        dsflow_data_id slot = in_tier(t, "kept", DSFLOW_HOST, true);
        struct dsf_account acc;
        uint32_t a, g, p;
        add_disk(t);
        t->facts.duplex = duplex;
        a = TASK(t, &work, 0, data(t, "a", NULL));
        g = TASK(t, &dsf_op_swap_in, 0, in_tier(t, "m", DSFLOW_NVME, true),
                 in_tier(t, "slot", DSFLOW_HOST, false));
        p = TASK(t, &dsf_op_swap_out, 0, slot,
                 in_tier(t, "v", DSFLOW_NVME, true));
        ran(t, a, 0, 0, 1, 2);
        ran(t, g, 0, 1, 0, 4);
        ran(t, p, 0, 2, 2, 6);
        account(&acc, t);
        assert_whole(&acc);
        assert_float_equal(acc.hidden.io, 6, 0);
        assert_float_equal(acc.hidden.io_most, 6, 0);
        assert_float_equal(acc.hidden.io_hidden, 1, 0);
        assert_float_equal(acc.laps.critical / acc.laps.n, 4, 0);
        assert_float_equal(acc.laps.bound / acc.laps.n, duplex ? 4 : 6, 0);
        dsf_account_fini(&acc);
        free_trace(t);
    }
}

/* Back from the end: what had the disk, whichever way.
 * core   ......u
 * read   gg..hh.
 * write  ..pp...  */
static void the_way_goes_over_both_lanes_of_a_disk(void **state)
{
    struct dsf_trace *t = new_trace(1, 1);
    dsflow_data_id slot = in_tier(t, "slot", DSFLOW_HOST, false);
    struct dsf_account acc;
    uint32_t g, p, h, u;

    add_disk(t);
    g = TASK(t, &dsf_op_swap_in, 0, in_tier(t, "m", DSFLOW_NVME, true),
             in_tier(t, "other", DSFLOW_HOST, false));
    p = TASK(t, &dsf_op_swap_out, 0, in_tier(t, "kept", DSFLOW_HOST, true),
             in_tier(t, "v", DSFLOW_NVME, true));
    h = TASK(t, &dsf_op_swap_in, 0, in_tier(t, "w", DSFLOW_NVME, true), slot);
    u = TASK(t, &bump, 0, slot);
    ran(t, g, 0, 1, 0, 2);
    ran(t, p, 0, 2, 2, 4);
    ran(t, h, 0, 1, 4, 6);
    ran(t, u, 0, 0, 6, 7);
    account(&acc, t);
    assert_whole(&acc);
    assert_float_equal(acc.path_seconds, 7, 0);
    for (int c = 0; c < DSF_NCAUSES; c++)
        assert_float_equal(acc.path_gaps[c], 0, 0);
    assert_float_equal(acc.path[0].seconds, 4, 0);
    assert_true(acc.path[0].op == &dsf_op_swap_in);
    assert_true(acc.path[1].op == &dsf_op_swap_out);
    dsf_account_fini(&acc);
    free_trace(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_waits_for_what_a_task_computes),
        cmocka_unit_test(
            waiting_for_another_rank_is_told_from_waiting_for_the_wire),
        cmocka_unit_test(what_only_waits_is_not_what_is_waited_for),
        cmocka_unit_test(waiting_for_a_slot_names_the_ring),
        cmocka_unit_test(a_ready_task_waits_for_transfers_or_the_runtime),
        cmocka_unit_test(a_device_copies_what_is_on_its_own_links),
        cmocka_unit_test(moving_is_hidden_while_its_rank_computes),
        cmocka_unit_test(what_is_moved_for_a_step_is_its_own),
        cmocka_unit_test(a_link_that_works_longest_is_named),
        cmocka_unit_test(a_step_among_steps_is_what_counts),
        cmocka_unit_test(the_way_goes_back_by_what_was_last),
        cmocka_unit_test(a_trace_without_a_whole_step_is_refused),
        cmocka_unit_test(a_trace_of_steps_of_another_program_is_refused),
        cmocka_unit_test(parts_sum_to_the_whole_whatever_ran),
        cmocka_unit_test(the_cores_beside_a_device_are_there_again),
        cmocka_unit_test(waiting_for_a_disk_is_waiting_for_data_on_its_way),
        cmocka_unit_test(a_disk_that_does_both_at_once_works_once),
        cmocka_unit_test(the_way_goes_over_both_lanes_of_a_disk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
