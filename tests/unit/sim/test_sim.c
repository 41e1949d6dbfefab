/* test_sim.c - the simulator on graphs whose timeline can be drawn by hand. */
#include "sim/sim.h"

#include "tasks/tasks.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

static int any(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void by_bytes(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->bytes = (double)c->shapes[0].bytes;
}

static const struct dsflow_op work = {
    .abi = DSFLOW_OP_ABI,
    .name = "work",
    .repeats = 1,
    DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R, .optional = 1 }),
    .check = any,
    .cost = by_bytes,
};
static const struct dsflow_op bump = {
    .abi = DSFLOW_OP_ABI,
    .name = "bump",
    DSFLOW_PORTS({ "what", DSFLOW_RW }),
    .check = any,
    .cost = by_bytes,
};
static const struct dsflow_op move = {
    .abi = DSFLOW_OP_ABI,
    .name = "move",
    DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R }),
    .comm = 1,
    .check = any,
    .cost = by_bytes,
};

static double one(void *user, const struct dsflow_graph *g,
                  const struct dsflow_task_spec *t)
{
    return 1;
}

/* As many seconds as its first data has bytes. */
static double bytes_of_first(void *user, const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    return (double)dsflow_graph_data(g, t->data[0])->bytes;
}

static dsflow_data_id data(struct dsflow_graph *g, size_t bytes, int persistent)
{
    char name[32];

    snprintf(name, sizeof(name), "d%u", dsflow_graph_ndata(g));
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = bytes,
                        .persistent = (uint8_t)persistent));
}

struct at {
    int rank, priority, layer;
};

static uint32_t task(struct dsflow_graph *g, const struct dsflow_op *op,
                     struct at at, unsigned n, const dsflow_data_id *ids)
{
    struct dsflow_task_spec t =
        DSFLOW_TASK(.op = op, .rank = (int16_t)at.rank, .priority = at.priority,
                    .layer = (int16_t)at.layer, .data = ids, .ndata = n);

    return dsflow_graph_add_task(g, &t).i;
}

static const struct dsf_span *span_of(const struct dsf_timeline *timeline,
                                      uint32_t i)
{
    for (size_t k = 0; k < timeline->n; k++)
        if (timeline->v[k].what == i)
            return &timeline->v[k];
    fail_msg("task %u has no span", i);
    return NULL;
}

/* Forward and backward of `micro` micro-batches through `stages` stages, with
 * activations in rings of `slots`[stage]. With one slot less than micro-batches
 * backward of m comes before forward of m + slots in the graph's order. */
static struct dsflow_graph *pipeline(int stages, int micro, const int *slots,
                                     int forward_first)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id act[16][64] = { 0 }, grad[16][64] = { 0 };
    dsflow_data_id sent[16][64] = { 0 };

    for (int s = 0; s < stages; s++)
        for (int m = 0; m < micro; m++) {
            act[s][m] = m < slots[s] ? data(g, 1, 0) : act[s][m - slots[s]];
            grad[s][m] = data(g, 1, 0);
            sent[s][m] = data(g, 1, 0);
        }
    for (int i = 0; i < 2 * micro; i++) {
        /* In the graph stage s does backward i - slots, then forward i. */
        for (int s = stages - 1; s >= 0; s--) {
            struct at at = { s, forward_first ? 0 : 1, s };
            int m = i - slots[s];

            if (m >= 0 && m < micro)
                task(g, &work, at, s + 1 < stages ? 3 : 2,
                     (dsflow_data_id[]){ grad[s][m], act[s][m],
                                         grad[s + 1][m] });
        }
        for (int s = 0; s < stages && i < micro; s++) {
            struct at at = { s, forward_first ? 1 : 0, s };

            /* What the next stage reads is apart from what is kept. */
            task(g, &work, at, s > 0 ? 2 : 1,
                 (dsflow_data_id[]){ act[s][i],
                                     s > 0 ? sent[s - 1][i] : act[s][i] });
            task(g, &move, at, 2, (dsflow_data_id[]){ sent[s][i], act[s][i] });
        }
    }
    return g;
}

/* Forward and backward take 1; sending takes nothing. */
static double moves_are_free(void *user, const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    return t->op->comm ? 0 : 1;
}

static struct dsf_sim_result simulate(struct dsflow_graph *g,
                                      const struct dsf_sim_spec *spec,
                                      struct dsf_timeline *timeline)
{
    struct dsf_sim_result result;
    struct dsflow_err err;

    if (dsf_simulate(g, spec, &result, timeline, &err) < 0)
        fail_msg("%s", err.msg);
    return result;
}

static void check_pipeline(int stages, int micro, const int *slots,
                           int forward_first)
{
    struct dsflow_graph *g = pipeline(stages, micro, slots, forward_first);
    struct dsf_sim_result r =
        simulate(g,
                 &(struct dsf_sim_spec){ .nranks = (unsigned)stages,
                                         .workers = (unsigned)stages,
                                         .links = true,
                                         .steps = 1,
                                         .cost = moves_are_free },
                 NULL);

    assert_true(r.step_seconds == 2.0 * (micro + stages - 1));
    assert_float_equal(r.idle, (stages - 1.0) / (micro + stages - 1), 1e-12);
    assert_true(r.critical_seconds <= r.step_seconds);
    assert_true(r.bound_seconds >= 2.0 * micro);
    for (int s = 0; s < stages; s++)
        assert_true(r.busy[s] == 2.0 * micro);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
}

static void the_bubble_of_gpipe_is_exact(void **state)
{
    for (int stages = 1; stages <= 8; stages++)
        for (int micro = stages; micro <= 32; micro *= 2) {
            int slots[16];

            for (int s = 0; s < stages; s++)
                slots[s] = micro;
            check_pipeline(stages, micro, slots, 1);
        }
}

/* As many slots as stages from here to the end: no other rule. */
static void the_bubble_of_1f1b_is_exact(void **state)
{
    for (int stages = 1; stages <= 8; stages++)
        for (int micro = stages; micro <= 32; micro *= 2) {
            int slots[16];

            for (int s = 0; s < stages; s++)
                slots[s] = stages - s < micro ? stages - s : micro;
            check_pipeline(stages, micro, slots, 0);
        }
}

static void the_higher_priority_goes_first(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    uint32_t t[4];

    for (int i = 0; i < 4; i++)
        t[i] = task(g, &work,
                    (struct at){ 0,
                                 i == 2   ? 5
                                 : i == 3 ? 7
                                          : 5,
                                 0 },
                    1, (dsflow_data_id[]){ data(g, 1, 0) });
    r = simulate(g,
                 &(struct dsf_sim_spec){
                     .nranks = 1, .workers = 1, .steps = 1, .cost = one },
                 &timeline);
    assert_true(r.step_seconds == 4);
    assert_true(span_of(&timeline, t[3])->start == 0);
    assert_true(span_of(&timeline, t[0])->start == 1);
    assert_true(span_of(&timeline, t[1])->start == 2);
    assert_true(span_of(&timeline, t[2])->start == 3);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

/* Rank 0 computes 10, and meanwhile receives for 4, then computes 3 with it. */
static struct dsflow_graph *receive(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id there = data(g, 4, 1), here = data(g, 4, 0);
    dsflow_data_id own = data(g, 10, 0), end = data(g, 3, 0);

    task(g, &work, (struct at){ 0, 1, 1 }, 1, (dsflow_data_id[]){ own });
    task(g, &move, (struct at){ 0, 0, 2 }, 2,
         (dsflow_data_id[]){ here, there });
    task(g, &work, (struct at){ 0, 0, 3 }, 3,
         (dsflow_data_id[]){ end, own, here });
    return g;
}

static void a_link_works_beside_its_device(void **state)
{
    struct dsflow_graph *g = receive();
    struct dsf_sim_spec spec = { .nranks = 1,
                                 .workers = 1,
                                 .links = true,
                                 .steps = 1,
                                 .cost = bytes_of_first };
    struct dsf_sim_result r = simulate(g, &spec, NULL);

    assert_true(r.step_seconds == 13);
    assert_true(r.hidden == 1);
    assert_true(r.comm_seconds == 4);
    assert_true(r.idle == 0);
    assert_int_equal(r.ncritical, 2);
    assert_true(r.holders[0].op == &work && r.holders[0].layer == 1 &&
                r.holders[0].seconds == 10);
    assert_true(r.holders[1].layer == 3 && r.holders[1].seconds == 3);
    assert_null(r.holders[2].op);
    dsf_sim_result_fini(&r);

    spec.links = false;
    r = simulate(g, &spec, NULL);
    assert_true(r.step_seconds == 17);
    assert_true(r.hidden == 0);
    dsf_sim_result_fini(&r);

    spec.workers = 2; /* one moves while the other computes */
    r = simulate(g, &spec, NULL);
    assert_true(r.step_seconds == 13);
    assert_true(r.hidden == 1);
    dsf_sim_result_fini(&r);

    spec.links = true;
    spec.nranks = 2; /* that share a device */
    spec.workers = 1;
    r = simulate(g, &spec, NULL);
    assert_true(r.step_seconds == 13);
    assert_true(r.hidden == 1);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
}

static void what_is_not_hidden_is_seen(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id there = data(g, 8, 1), here = data(g, 8, 0);
    struct dsf_sim_result r;

    task(g, &work, (struct at){ 0, 1, 1 }, 1,
         (dsflow_data_id[]){ data(g, 2, 0) });
    task(g, &move, (struct at){ 0, 0, 2 }, 2,
         (dsflow_data_id[]){ here, there });
    task(g, &work, (struct at){ 0, 0, 3 }, 2,
         (dsflow_data_id[]){ data(g, 1, 0), here });
    r = simulate(g,
                 &(struct dsf_sim_spec){ .nranks = 1,
                                         .workers = 1,
                                         .links = true,
                                         .steps = 1,
                                         .cost = bytes_of_first },
                 NULL);
    assert_true(r.step_seconds == 9);
    assert_true(r.hidden == 0.25);
    assert_float_equal(r.idle, 1 - 3.0 / 9, 1e-12);
    assert_true(r.holders[0].op == &move && r.holders[0].seconds == 8);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
}

/* Each step reads what the one before wrote; its last task nothing needs. */
static void steps_follow_each_other_as_data_says(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id param = data(g, 1, 1), end = data(g, 4, 0);
    struct dsf_sim_spec spec = {
        .nranks = 1, .workers = 2, .steps = 1, .cost = bytes_of_first
    };
    struct dsf_sim_result r;

    task(g, &bump, (struct at){ 0, 1, 0 }, 1, (dsflow_data_id[]){ param });
    task(g, &work, (struct at){ 0, 0, 0 }, 2, (dsflow_data_id[]){ end, param });
    r = simulate(g, &spec, NULL);
    assert_true(r.step_seconds == 5);
    assert_true(r.critical_seconds == 5);
    dsf_sim_result_fini(&r);

    /* bump waits for the reader of the step before: no overlap. */
    spec.steps = 3;
    r = simulate(g, &spec, NULL);
    assert_true(r.step_seconds == 5);
    assert_true(r.critical_seconds == 5);
    assert_true(r.bound_seconds == 5);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);

    /* A chain of 1 and a task of 4 that alternates between two workers' data:
     * steps overlap, and each takes what its last task takes. */
    g = dsflow_graph_new();
    param = data(g, 1, 1);
    dsflow_data_id copy = data(g, 1, 0), slow = data(g, 4, 1);

    task(g, &bump, (struct at){ 0, 1, 0 }, 1, (dsflow_data_id[]){ param });
    task(g, &work, (struct at){ 0, 1, 0 }, 2,
         (dsflow_data_id[]){ copy, param });
    task(g, &bump, (struct at){ 0, 0, 0 }, 1, (dsflow_data_id[]){ slow });
    r = simulate(g, &spec, NULL);
    assert_true(r.step_seconds == 4);
    assert_true(r.critical_seconds == 4);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
}

/* Each rank has tasks of one second; who runs them depends on the workers. */
static double ranks_on_workers(unsigned nranks, unsigned workers, int each)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_result r;
    double seconds;

    for (unsigned rank = 0; rank < nranks; rank++)
        for (int i = 0; i < each; i++)
            task(g, &work, (struct at){ (int)rank, 0, 0 }, 1,
                 (dsflow_data_id[]){ data(g, 1, 0) });
    r = simulate(
        g,
        &(struct dsf_sim_spec){
            .nranks = nranks, .workers = workers, .steps = 1, .cost = one },
        NULL);
    seconds = r.step_seconds;
    assert_true(r.bound_seconds <= seconds);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
    return seconds;
}

static void ranks_share_workers_and_workers_ranks(void **state)
{
    assert_true(ranks_on_workers(1, 4, 8) == 2);
    assert_true(ranks_on_workers(2, 4, 8) == 4);
    assert_true(ranks_on_workers(2, 3, 6) == 6); /* 2 workers, and 1 */
    assert_true(ranks_on_workers(4, 2, 3) == 6);
    assert_true(ranks_on_workers(3, 2, 3) == 6); /* ranks 0 and 2 on one */
}

static void tasks_of_no_rank_go_where_there_is_room(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_result r;

    task(g, &work, (struct at){ 0, 9, 0 }, 1,
         (dsflow_data_id[]){ data(g, 6, 0) });
    for (int i = 0; i < 9; i++)
        task(g, &work, (struct at){ DSFLOW_ANYWHERE, 0, 0 }, 1,
             (dsflow_data_id[]){ data(g, 2, 0) });
    r = simulate(
        g,
        &(struct dsf_sim_spec){
            .nranks = 3, .workers = 3, .steps = 1, .cost = bytes_of_first },
        NULL);
    assert_true(r.step_seconds == 8);
    assert_true(r.idle == 0);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static struct dsflow_graph *random_graph(uint32_t seed, unsigned ntasks,
                                         unsigned nranks)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id ids[200];

    for (int i = 0; i < 200; i++)
        ids[i] = data(g, 1 + next_random(&seed) % 9, 1);
    for (unsigned i = 0; i < ntasks; i++) {
        uint32_t a = next_random(&seed) % 200;
        struct at at = { (int)(next_random(&seed) % nranks),
                         (int)(next_random(&seed) % 4), 0 };

        task(g, next_random(&seed) % 4 ? &work : &move, at, 2,
             (dsflow_data_id[]){
                 ids[a], ids[(a + 1 + next_random(&seed) % 199) % 200] });
    }
    return g;
}

/* Dependencies hold, lanes do one thing at a time, and it is the same again. */
static void a_timeline_keeps_to_the_graph(void **state)
{
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct dsflow_graph *g = random_graph(seed, 500, 4);
        struct dsf_sim_spec spec = { .nranks = 4,
                                     .workers = 4 + 4 * (seed % 2),
                                     .links = seed % 3 == 0,
                                     .steps = 1,
                                     .cost = bytes_of_first };
        enum { NLANES = 12 };
        double until[NLANES] = { 0 };
        struct dsf_timeline a = { 0 }, b = { 0 };
        struct dsf_sim_result r = simulate(g, &spec, &a);
        struct dsf_sim_result again = simulate(g, &spec, &b);

        assert_int_equal(a.n, 500);
        assert_int_equal(b.n, 500);
        assert_memory_equal(a.v, b.v, a.n * sizeof(*a.v));
        assert_true(r.step_seconds == again.step_seconds);
        assert_true(r.bound_seconds <= r.step_seconds);
        assert_true(r.step_seconds > 0);
        for (size_t i = 0; i < a.n; i++) {
            assert_true(a.v[i].lane < NLANES);
            assert_true(a.v[i].start >= until[a.v[i].lane]);
            until[a.v[i].lane] = a.v[i].end;
        }
        for (uint32_t i = 0; i < 500; i++) {
            const dsflow_task_id *preds;
            uint32_t n = dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds);

            for (uint32_t k = 0; k < n; k++)
                assert_true(span_of(&a, preds[k].i)->end <=
                            span_of(&a, i)->start);
        }
        dsf_sim_result_fini(&r);
        dsf_sim_result_fini(&again);
        dsf_timeline_fini(&a);
        dsf_timeline_fini(&b);
        dsflow_graph_free(g);
    }
}

static void a_rank_that_is_not_there_is_named(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_result r;
    struct dsflow_err err;

    task(g, &work, (struct at){ 3, 0, 0 }, 1,
         (dsflow_data_id[]){ data(g, 1, 0) });
    assert_int_equal(
        dsf_simulate(g,
                     &(struct dsf_sim_spec){
                         .nranks = 2, .workers = 2, .steps = 1, .cost = one },
                     &r, NULL, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, "work: rank 3: expected 0 to 1");
    dsflow_graph_free(g);
}

static void more_lanes_than_spans_can_tell_are_refused(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_spec spec = {
        .nranks = 2, .workers = UINT16_MAX - 1, .steps = 1, .cost = one
    };
    struct dsf_sim_result r;
    struct dsflow_err err;

    task(g, &work, (struct at){ 1, 0, 0 }, 1,
         (dsflow_data_id[]){ data(g, 1, 0) });
    assert_int_equal(dsf_simulate(g, &spec, &r, NULL, &err), DSFLOW_OK);
    dsf_sim_result_fini(&r);
    spec.links = true;
    assert_int_equal(dsf_simulate(g, &spec, &r, NULL, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "65536 workers, links and disks: expected at "
                                 "most 65535 to simulate");
    dsflow_graph_free(g);
}

static void a_step_without_tasks_takes_no_time(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_result r =
        simulate(g,
                 &(struct dsf_sim_spec){
                     .nranks = 1, .workers = 1, .steps = 2, .cost = one },
                 NULL);

    assert_true(r.step_seconds == 0);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
}

static const struct dsflow_op bring = {
    .abi = DSFLOW_OP_ABI,
    .name = "bring",
    .swaps = 1,
    DSFLOW_PORTS({ "home", DSFLOW_R }, { "slot", DSFLOW_W }),
    .check = any,
};
static const struct dsflow_op take = {
    .abi = DSFLOW_OP_ABI,
    .name = "take",
    .swaps = 1,
    DSFLOW_PORTS({ "slot", DSFLOW_R }, { "home", DSFLOW_W }),
    .check = any,
};

static dsflow_data_id data_at(struct dsflow_graph *g, size_t bytes,
                              enum dsflow_tier tier)
{
    char name[32];

    snprintf(name, sizeof(name), "d%u", dsflow_graph_ndata(g));
    return dsflow_graph_add_data(g, &DSFLOW_DATA(.name = name, .elems = bytes,
                                                 .tier = (uint8_t)tier,
                                                 .persistent = 1));
}

static void check_span(const struct dsf_timeline *timeline, uint32_t i,
                       const char *lane, double start, double end)
{
    const struct dsf_span *s = span_of(timeline, i);

    assert_string_equal(timeline->lanes[s->lane].name, lane);
    if (s->start != start || s->end != end)
        fail_msg("task %u: %g to %g: expected %g to %g", i, s->start, s->end,
                 start, end);
}

/* Two pieces of 4 seconds each way, and 3 of work on each. */
static void stream(struct dsflow_graph *g, uint32_t *t)
{
    struct at at = { 0, 0, 0 };
    dsflow_data_id home[2], slot[2];

    for (int i = 0; i < 2; i++) {
        home[i] = data_at(g, 4, DSFLOW_NVME);
        slot[i] = data_at(g, 3, DSFLOW_HOST);
    }
    for (int i = 0; i < 2; i++)
        t[i] = task(g, &bring, at, 2, (dsflow_data_id[]){ home[i], slot[i] });
    for (int i = 0; i < 2; i++)
        t[2 + i] = task(g, &bump, at, 1, (dsflow_data_id[]){ slot[i] });
    for (int i = 0; i < 2; i++)
        t[4 + i] =
            task(g, &take, at, 2, (dsflow_data_id[]){ slot[i], home[i] });
}

static double four_or_three(void *user, const struct dsflow_graph *g,
                            const struct dsflow_task_spec *t)
{
    return t->op->swaps ? 4 : 3;
}

static void a_disk_reads_or_writes(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_spec spec = {
        .nranks = 1, .workers = 1, .steps = 1, .cost = four_or_three
    };
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    uint32_t t[6];

    stream(g, t);
    r = simulate(g, &spec, &timeline);
    assert_int_equal(timeline.nlanes, 3);
    assert_int_equal(timeline.workers, 1);
    assert_int_equal(timeline.lanes[1].kind, DSF_LANE_DISK);
    check_span(&timeline, t[0], "disk read", 0, 4);
    check_span(&timeline, t[1], "disk read", 4, 8);
    check_span(&timeline, t[2], "core 0", 4, 7);
    check_span(&timeline, t[4], "disk write", 8, 12);
    check_span(&timeline, t[3], "core 0", 8, 11);
    check_span(&timeline, t[5], "disk write", 12, 16);
    assert_true(r.step_seconds == 16);
    assert_true(r.critical_seconds == 11);
    assert_true(r.bound_seconds == 16 && r.bound == DSF_BOUND_DISK);
    assert_true(r.io_seconds == 16);
    assert_true(r.io_hidden == 6.0 / 16);
    assert_true(r.work_seconds == 6 && r.busy[0] == 6);
    assert_true(r.comm_seconds == 0 && r.moving[0] == 0);
    assert_float_equal(r.idle, 10.0 / 16, 1e-12);
    /* Back from the end: nothing but the disk. */
    assert_true(r.holders[0].op == &bring || r.holders[0].op == &take);
    assert_true(r.holders[0].seconds == 8 && r.holders[1].seconds == 8);
    assert_null(r.holders[2].op);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

static void a_duplex_disk_reads_and_writes(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_spec spec = { .nranks = 1,
                                 .workers = 1,
                                 .steps = 1,
                                 .duplex = true,
                                 .cost = four_or_three };
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    uint32_t t[6];

    stream(g, t);
    r = simulate(g, &spec, &timeline);
    check_span(&timeline, t[1], "disk read", 4, 8);
    check_span(&timeline, t[4], "disk write", 7, 11);
    check_span(&timeline, t[5], "disk write", 11, 15);
    assert_true(r.step_seconds == 15);
    assert_true(r.bound_seconds == 11 && r.bound == DSF_BOUND_CRITICAL);
    assert_true(r.io_seconds == 15); /* not 16: [7, 8] is both */
    assert_true(r.io_hidden == 6.0 / 15);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

/* The second of three steps is from 11 to 18. Of that the disk works 4 seconds,
 * not 8: it writes for the second while it reads for the third.
 * core   ....uuuccc.uuuccc.uuuccc.
 * read   rrrr...rrrr...rrrr.......
 * write  .......wwww...wwww...wwww */
static void steps_have_a_duplex_disk_at_the_same_time(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct at at = { 0, 0, 0 };
    struct dsf_sim_spec spec = { .nranks = 1,
                                 .workers = 1,
                                 .steps = 3,
                                 .duplex = true,
                                 .cost = four_or_three };
    dsflow_data_id slot = data_at(g, 1, DSFLOW_HOST);
    dsflow_data_id new = data_at(g, 1, DSFLOW_HOST);
    struct dsf_sim_result r;

    task(g, &bring, at, 2,
         (dsflow_data_id[]){ data_at(g, 1, DSFLOW_NVME), slot });
    task(g, &work, at, 2, (dsflow_data_id[]){ new, slot });
    task(g, &take, at, 2,
         (dsflow_data_id[]){ new, data_at(g, 1, DSFLOW_NVME) });
    task(g, &work, at, 2,
         (dsflow_data_id[]){ data_at(g, 1, DSFLOW_HOST), new });
    r = simulate(g, &spec, NULL);
    assert_true(r.step_seconds == 7);
    assert_true(r.io_seconds == 4 && r.io_hidden == 3.0 / 4);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
}

static void a_disk_takes_what_comes_first(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_timeline timeline = { 0 };
    dsflow_data_id slot = data_at(g, 1, DSFLOW_DEVICE);
    struct dsf_sim_result r;
    uint32_t t[4];

    t[0] = task(g, &bring, (struct at){ 0, 1, 0 }, 2,
                (dsflow_data_id[]){ data_at(g, 5, DSFLOW_NVME),
                                    data_at(g, 5, DSFLOW_DEVICE) });
    t[1] = task(g, &bring, (struct at){ 0, 9, 0 }, 2,
                (dsflow_data_id[]){ data_at(g, 5, DSFLOW_NVME),
                                    data_at(g, 5, DSFLOW_DEVICE) });
    /* Its slot is free after 1 second. */
    t[2] = task(g, &bump, (struct at){ 0, 0, 0 }, 1, &slot);
    t[3] = task(g, &bring, (struct at){ 0, 99, 0 }, 2,
                (dsflow_data_id[]){ data_at(g, 5, DSFLOW_NVME), slot });
    r = simulate(g,
                 &(struct dsf_sim_spec){ .nranks = 1,
                                         .workers = 1,
                                         .steps = 1,
                                         .cost = bytes_of_first },
                 &timeline);
    check_span(&timeline, t[1], "disk read", 0, 5);
    check_span(&timeline, t[0], "disk read", 5, 10);
    check_span(&timeline, t[2], "core 0", 0, 1);
    check_span(&timeline, t[3], "disk read", 10, 15);
    assert_true(r.io_hidden == 1.0 / 15);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

static void ranks_of_a_node_share_its_disk(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    uint32_t t[4];

    for (int rank = 0; rank < 4; rank++)
        t[rank] = task(g, &bring, (struct at){ rank, 0, 0 }, 2,
                       (dsflow_data_id[]){ data_at(g, 5, DSFLOW_NVME),
                                           data_at(g, 5, DSFLOW_DEVICE) });
    r = simulate(g,
                 &(struct dsf_sim_spec){ .nranks = 4,
                                         .workers = 4,
                                         .node_ranks = 2,
                                         .steps = 1,
                                         .cost = bytes_of_first },
                 &timeline);
    check_span(&timeline, t[0], "disk 0 read", 0, 5);
    check_span(&timeline, t[1], "disk 0 read", 5, 10);
    check_span(&timeline, t[2], "disk 1 read", 0, 5);
    check_span(&timeline, t[3], "disk 1 read", 5, 10);
    assert_true(r.io_seconds == 20 && r.io_hidden == 0);
    assert_true(r.bound_seconds == 10 && r.bound == DSF_BOUND_DISK);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

/* Into main memory from a GPU, where it is updated, and back. */
static void beside_a_gpu_swaps_use_its_link_and_updates_the_cores(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct at at = { 0, 0, 0 };
    dsflow_data_id home = data_at(g, 6, DSFLOW_HOST);
    dsflow_data_id slot = data_at(g, 2, DSFLOW_DEVICE);
    struct dsf_sim_spec spec = { .nranks = 1,
                                 .workers = 1,
                                 .links = true,
                                 .steps = 1,
                                 .cost = bytes_of_first };
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    uint32_t t[4];

    t[0] = task(g, &take, at, 2, (dsflow_data_id[]){ slot, home });
    t[1] = task(g, &bump, at, 1, &home);
    t[2] = task(g, &bring, at, 2, (dsflow_data_id[]){ home, slot });
    t[3] = task(g, &bump, at, 1,
                (dsflow_data_id[]){ data_at(g, 9, DSFLOW_DEVICE) });
    r = simulate(g, &spec, &timeline);
    check_span(&timeline, t[0], "link of 0", 0, 2);
    check_span(&timeline, t[1], "cores of 0", 2, 8);
    check_span(&timeline, t[2], "link of 0", 8, 14);
    check_span(&timeline, t[3], "GPU 0", 0, 9);
    assert_int_equal(timeline.lanes[2].kind, DSF_LANE_HOST);
    assert_int_equal(timeline.workers, 1);
    assert_true(r.busy[0] == 9 && r.work_seconds == 9);
    assert_true(r.comm_seconds == 8 && r.hidden == 3.0 / 8);
    assert_true(r.io_seconds == 0);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);

    /* On a machine of cores all of it is their work. */
    spec.links = false;
    r = simulate(g, &spec, &timeline);
    assert_int_equal(timeline.nlanes, 1);
    assert_true(r.step_seconds == 23 && r.comm_seconds == 8);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

/* Three kernels on the same data, of so many seconds, each of which takes 4 to
 * launch; and, if it is `told`, a core that looks at them. */
static double launched(size_t bytes, bool told)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_spec spec = { .nranks = 1,
                                 .workers = 1,
                                 .links = true,
                                 .two_way = true,
                                 .host_cores = 1,
                                 .launch = 4,
                                 .steps = 1,
                                 .cost = bytes_of_first };
    dsflow_data_id on = data_at(g, bytes, DSFLOW_DEVICE);
    dsflow_data_id near = data_at(g, 1, DSFLOW_HOST);
    struct dsf_sim_result r;
    double took;

    for (int i = 0; i < 3; i++)
        task(g, &bump, (struct at){ 0, 0, 0 }, 1, (dsflow_data_id[]){ on });
    if (told)
        task(g, &work, (struct at){ 0, 0, 0 }, 2,
             (dsflow_data_id[]){ near, on });
    r = simulate(g, &spec, NULL);
    took = r.step_seconds;
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
    return took;
}

/* gpu    ....kkkkkk   it is the first that is ready; the launch takes 4
 * core   hh........
 * link   sss.......   2 of 3 are hidden */
static void what_waits_for_its_launch_hides_in_its_time(void **state)
{
    for (int last = 0; last < 2; last++) {
        struct dsflow_graph *g = dsflow_graph_new();
        struct at at = { 0, 0, 0 };
        struct dsf_sim_spec spec = { .nranks = 1,
                                     .workers = 1,
                                     .links = true,
                                     .two_way = true,
                                     .host_cores = 1,
                                     .launch = 4,
                                     .steps = 1,
                                     .cost = bytes_of_first };
        dsflow_data_id on = data_at(g, 6, DSFLOW_DEVICE);
        dsflow_data_id near = data_at(g, 2, DSFLOW_HOST);
        struct dsf_timeline timeline = { 0 };
        struct dsf_sim_result r;
        uint32_t kernel = 0;

        for (int i = 0; i < 2; i++)
            if (i == last)
                kernel = task(g, &bump, at, 1, &on);
            else
                task(g, &bump, at, 1, &near);
        task(g, &take, at, 2,
             (dsflow_data_id[]){ data_at(g, 3, DSFLOW_DEVICE),
                                 data_at(g, 3, DSFLOW_HOST) });
        r = simulate(g, &spec, &timeline);
        check_span(&timeline, kernel, "device 0", 4, 10);
        assert_true(r.comm_seconds == 3 && r.hidden == 2.0 / 3);
        dsf_sim_result_fini(&r);
        dsf_timeline_fini(&timeline);
        dsflow_graph_free(g);
    }
}

static void kernels_are_launched_while_others_run(void **state)
{
    assert_true(launched(6, false) == 4 + 3 * 6);
    assert_true(launched(1, false) == 3 * 4 + 1);
    /* What others look at is over before that which follows is launched. */
    assert_true(launched(6, true) == 3 * (4 + 6) + 1);
}

/* Two ranks on one device: copies into it, kernels, copies out of it, and the
 * core, each one after the other and all at the same time. */
static void a_device_is_entered_and_left_while_it_computes(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_sim_spec spec = { .nranks = 2,
                                 .workers = 1,
                                 .links = true,
                                 .two_way = true,
                                 .host_cores = 1,
                                 .steps = 1,
                                 .cost = bytes_of_first };
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    uint32_t in[2], out[2], kernel[2], core[2];

    for (int i = 0; i < 2; i++) {
        struct at at = { i, 0, 0 };

        in[i] = task(g, &bring, at, 2,
                     (dsflow_data_id[]){ data_at(g, 4, DSFLOW_HOST),
                                         data_at(g, 4, DSFLOW_DEVICE) });
        out[i] = task(g, &take, at, 2,
                      (dsflow_data_id[]){ data_at(g, 5, DSFLOW_DEVICE),
                                          data_at(g, 5, DSFLOW_HOST) });
        kernel[i] = task(g, &bump, at, 1,
                         (dsflow_data_id[]){ data_at(g, 6, DSFLOW_DEVICE) });
        core[i] = task(g, &bump, at, 1,
                       (dsflow_data_id[]){ data_at(g, 7, DSFLOW_HOST) });
    }
    r = simulate(g, &spec, &timeline);
    for (int i = 0; i < 2; i++) {
        check_span(&timeline, in[i], "into device 0", 4 * i, 4 * i + 4);
        check_span(&timeline, out[i], "out of device 0", 5 * i, 5 * i + 5);
        check_span(&timeline, kernel[i], "device 0", 6 * i, 6 * i + 6);
        check_span(&timeline, core[i], "core 0", 7 * i, 7 * i + 7);
    }
    assert_int_equal(timeline.workers, 1);
    assert_true(r.step_seconds == 14);
    assert_true(r.bound_seconds == 14 && r.bound == DSF_BOUND_HOST);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);

    /* With a core for all, the device and the core beside it take turns. */
    spec.cores = 1;
    r = simulate(g, &spec, NULL);
    assert_true(r.step_seconds == 26);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
}

/* Of what the kernels of two devices sum, an engine that copies can do nothing;
 * but what another node has comes by the wire that copies come by. */
static void sums_over_ranks_are_kernels_of_a_device(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_op sum = move;
    struct dsf_sim_spec spec = { .nranks = 2,
                                 .workers = 2,
                                 .links = true,
                                 .two_way = true,
                                 .host_cores = 1,
                                 .steps = 1,
                                 .cost = bytes_of_first };
    dsflow_data_id d[4];
    uint32_t copied, summed;

    sum.comm = DSFLOW_COMM_REDUCE;
    for (int i = 0; i < 4; i++)
        d[i] = data_at(g, 3, DSFLOW_DEVICE);
    copied = task(g, &move, (struct at){ 1, 0, 0 }, 2, d);
    summed = task(g, &sum, (struct at){ 1, 0, 0 }, 2, d + 2);
    for (unsigned nodes = 1; nodes <= 2; nodes++) {
        struct dsf_timeline timeline = { 0 };
        struct dsf_sim_result r;

        spec.node_ranks = 2 / nodes;
        r = simulate(g, &spec, &timeline);
        check_span(&timeline, copied, "into device 1", 0, 3);
        if (nodes == 1)
            check_span(&timeline, summed, "device 1", 0, 3);
        else
            check_span(&timeline, summed, "into device 1", 3, 6);
        assert_true(r.bound_seconds == 3 * nodes);
        dsf_sim_result_fini(&r);
        dsf_timeline_fini(&timeline);
    }
    dsflow_graph_free(g);
}

/* A copy of rank `to` from data of rank 0, on so many devices, of nodes that
 * have so many ranks. */
static void check_copy(int to, unsigned devices, unsigned node_ranks,
                       const char *lane)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_data_spec d = DSFLOW_DATA(.elems = 3, .unit = -1);
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    dsflow_data_id ids[2];
    uint32_t copied;

    d.name = "from";
    ids[0] = dsflow_graph_add_data(g, &d);
    d.name = "to";
    d.home = (int16_t)to;
    ids[1] = dsflow_graph_add_data(g, &d);
    copied = task(g, &move, (struct at){ to, 0, 0 }, 2, ids);
    r = simulate(g,
                 &(struct dsf_sim_spec){ .nranks = 4,
                                         .workers = devices,
                                         .node_ranks = node_ranks,
                                         .links = true,
                                         .two_way = true,
                                         .host_cores = 1,
                                         .steps = 1,
                                         .cost = bytes_of_first },
                 &timeline);
    check_span(&timeline, copied, lane, 0, 3);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

static void a_copy_in_one_memory_goes_between_kernels(void **state)
{
    check_copy(0, 4, 0, "device 0");
    check_copy(1, 4, 0, "into device 1");
    check_copy(3, 2, 0, "into device 1");
    check_copy(2, 2, 0, "device 0");
    check_copy(2, 2, 2, "into device 0");
}

/* Eight tasks of a second each, of `nranks` ranks, on 4 workers. */
static double seconds_on(unsigned cores, int nranks)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    uint32_t first = 0;
    double seconds;

    for (int i = 0; i < 8; i++)
        first = task(g, &work, (struct at){ i % nranks, i, 0 }, 1,
                     (dsflow_data_id[]){ data(g, 1, 0) });
    r = simulate(g,
                 &(struct dsf_sim_spec){ .nranks = (unsigned)nranks,
                                         .workers = 4,
                                         .cores = cores,
                                         .steps = 1,
                                         .cost = one },
                 &timeline);
    assert_true(span_of(&timeline, first)->start == 0);
    assert_int_equal(timeline.workers, 4);
    seconds = r.step_seconds;
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
    return seconds;
}

static void no_more_workers_compute_than_there_are_cores(void **state)
{
    for (int nranks = 1; nranks <= 4; nranks++) {
        assert_true(seconds_on(2, nranks) == 4);
        assert_true(seconds_on(1, nranks) == 8);
    }
    assert_true(seconds_on(4, 4) == 2 && seconds_on(0, 4) == 2);
    assert_true(seconds_on(9, 1) == 2);
}

/* The task that one core takes next: of those whose input is there, the one of
 * the highest priority, or the first of several. */
static int next_task(const int *priority, const int *input, const bool *done)
{
    int best = -1;

    for (int i = 0; i < 60; i++)
        if (!done[i] && (input[i] < 0 || done[input[i]]) &&
            (best < 0 || priority[i] > priority[best]))
            best = i;
    return best;
}

/* Also where a task becomes ready that comes before what its rank, or another,
 * was to begin next. */
static void a_core_takes_what_comes_first_of_all_ranks(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsf_timeline timeline = { 0 };
    bool done[60] = { false };
    int priority[60], input[60];
    dsflow_data_id out[60];
    struct dsf_sim_result r;
    uint32_t seed = 7;

    for (int i = 0; i < 60; i++) {
        int rank = (int)(next_random(&seed) % 6) - 1;

        input[i] = i > 0 && next_random(&seed) % 2
                       ? (int)(next_random(&seed) % (unsigned)i)
                       : -1;
        priority[i] = (int)(next_random(&seed) % 8);
        out[i] = data(g, 1, 0);
        task(g, &work, (struct at){ rank, priority[i], 0 },
             input[i] < 0 ? 1 : 2,
             (dsflow_data_id[]){ out[i], out[input[i] < 0 ? i : input[i]] });
    }
    r = simulate(
        g,
        &(struct dsf_sim_spec){
            .nranks = 5, .workers = 7, .cores = 1, .steps = 1, .cost = one },
        &timeline);
    for (int n = 0; n < 60; n++) {
        int i = next_task(priority, input, done);

        assert_true(span_of(&timeline, (uint32_t)i)->start == n);
        done[i] = true;
    }
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

/* --- messages between processes ------------------------------------------- */

static dsflow_data_id data_of(struct dsflow_graph *g, size_t bytes, int rank)
{
    char name[32];

    snprintf(name, sizeof(name), "d%u", dsflow_graph_ndata(g));
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = bytes, .home = (int16_t)rank));
}

static uint32_t copy(struct dsflow_graph *g, int rank, dsflow_data_id out,
                     dsflow_data_id in)
{
    struct dsf_range all = { dsflow_graph_data(g, in)->bytes, 0, 0 };
    struct dsflow_task_spec t =
        DSFLOW_TASK(.op = &dsf_op_copy, .rank = (int16_t)rank, .args = &all,
                    .data = (dsflow_data_id[]){ out, in }, .ndata = 2);

    return dsflow_graph_add_task(g, &t).i;
}

/* A message is on its way for as long as this. */
static double half(void *user, const struct dsflow_graph *g,
                   const struct dsflow_task_spec *t)
{
    return 0.5;
}

/* Rank 0 makes 3, then 2, and sends both to rank 1, which meanwhile computes 4
 * and then needs both. */
struct sent {
    uint32_t made[2], sent[2], end;
};

static struct dsflow_graph *two_messages(struct sent *s)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id there[2], here[2], own = data_of(g, 4, 1);

    for (int i = 0; i < 2; i++) {
        there[i] = data_of(g, i == 0 ? 3 : 2, 0);
        here[i] = data_of(g, i == 0 ? 3 : 2, 1);
        s->made[i] = task(g, &work, (struct at){ 0, -i, 0 }, 1, &there[i]);
    }
    task(g, &work, (struct at){ 1, 0, 0 }, 1, &own);
    for (int i = 0; i < 2; i++)
        s->sent[i] = copy(g, 1, here[i], there[i]);
    s->end =
        task(g, &work, (struct at){ 1, 0, 1 }, 4,
             (dsflow_data_id[]){ data_of(g, 1, 1), here[0], here[1], own });
    return g;
}

static void messages_take_their_link_and_no_worker(void **state)
{
    struct sent s;
    struct dsflow_graph *g = two_messages(&s);
    struct dsf_timeline timeline = { 0 };
    struct dsf_machine apart = { .processes = 2, .nodes = 2 };
    struct dsf_sim_spec spec = { .nranks = 2,
                                 .workers = 2,
                                 .processes = { 2, 2 },
                                 .steps = 1,
                                 .cost = bytes_of_first,
                                 .delay = half };
    struct dsf_sim_result r = simulate(g, &spec, &timeline);

    check_span(&timeline, s.sent[0], "into process 1", 3, 6);
    check_span(&timeline, s.sent[1], "into process 1", 6, 8);
    check_span(&timeline, s.end, "core 1", 8.5, 9.5);
    assert_true(r.sent_seconds == 5 && r.sent_hidden == 1.0 / 5);
    assert_true(r.bound == DSF_BOUND_LINK ? !r.by_network : true);
    assert_true(r.steps[0].critical_seconds == r.critical_seconds);
    assert_true(r.steps[0].bound_seconds == r.bound_seconds);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);

    /* The same between two nodes. */
    timeline = (struct dsf_timeline){ 0 };
    spec.on = &apart;
    r = simulate(g, &spec, &timeline);
    check_span(&timeline, s.sent[1], "into node 1", 6, 8);
    assert_true(r.step_seconds == 9.5);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);

    /* One that is in the same process takes a worker. */
    timeline = (struct dsf_timeline){ 0 };
    spec.on = NULL;
    spec.processes.n = 1;
    r = simulate(g, &spec, &timeline);
    assert_true(r.sent_seconds == 0);
    check_span(&timeline, s.sent[0], "core 1", 4, 7);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

/* The share of 3 seconds of a message that is hidden behind 5 of a task of the
 * process that it is for, which begins 3 seconds earlier. */
static double hidden_behind(enum dsflow_comm comm)
{
    const struct dsflow_op op = { .abi = DSFLOW_OP_ABI,
                                  .name = "op",
                                  DSFLOW_PORTS({ "what", DSFLOW_W }),
                                  .comm = comm,
                                  .check = any,
                                  .cost = by_bytes };
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id there = data_of(g, 3, 0), own = data_of(g, 5, 1);
    struct dsf_sim_result r;
    double hidden;

    task(g, &work, (struct at){ 0, 0, 0 }, 1, &there);
    task(g, &op, (struct at){ 1, 0, 0 }, 1, &own);
    copy(g, 1, data_of(g, 3, 1), there);
    r = simulate(g,
                 &(struct dsf_sim_spec){ .nranks = 2,
                                         .workers = 2,
                                         .processes = { 2, 2 },
                                         .steps = 1,
                                         .cost = bytes_of_first },
                 NULL);
    hidden = r.sent_hidden;
    assert_true(r.sent_seconds == 3);
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
    return hidden;
}

static void messages_hide_behind_sums_but_not_behind_copies(void **state)
{
    assert_true(hidden_behind(DSFLOW_COMM_NONE) == 2.0 / 3);
    assert_true(hidden_behind(DSFLOW_COMM_REDUCE) == 2.0 / 3);
    assert_true(hidden_behind(DSFLOW_COMM_GATHER) == 0);
}

static double one_and_a_half(void *user, const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    return 1.5;
}

/* Rank 1 computes 4 and then `then`, while 3 come from rank 0, from 3 on. */
static void check_toll(size_t then, double begin, double end)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id there = data_of(g, 3, 0), here = data_of(g, 3, 1);
    dsflow_data_id own = data_of(g, 4, 1);
    struct dsf_timeline timeline = { 0 };
    struct dsf_sim_result r;
    uint32_t last;

    task(g, &work, (struct at){ 0, 0, 0 }, 1, &there);
    task(g, &work, (struct at){ 1, 0, 0 }, 1, &own);
    copy(g, 1, here, there);
    last = then == 4 ? task(g, &work, (struct at){ 1, 0, 1 }, 2,
                            (dsflow_data_id[]){ data_of(g, then, 1), own })
                     : task(g, &work, (struct at){ 1, 0, 1 }, 2,
                            (dsflow_data_id[]){ data_of(g, then, 1), here });
    r = simulate(g,
                 &(struct dsf_sim_spec){ .nranks = 2,
                                         .workers = 2,
                                         .processes = { 2, 2 },
                                         .steps = 1,
                                         .cost = bytes_of_first,
                                         .toll = one_and_a_half },
                 &timeline);
    check_span(&timeline, last, "core 1", begin, end);
    assert_true(r.busy[1] == 4 + end - begin); /* it is work, too */
    assert_true(r.steps[0].bound_seconds == r.bound_seconds);
    assert_true(r.bound_seconds >= r.busy[1]);
    dsf_sim_result_fini(&r);
    dsf_timeline_fini(&timeline);
    dsflow_graph_free(g);
}

static void messages_take_cores_that_are_not_idle(void **state)
{
    check_toll(4, 4, 9.5); /* right behind: it is the one that pays */
    check_toll(2, 6, 8);   /* it waits for what comes, and loses nothing */
}

/* Of each of two ranks to the other, at the same time. */
static double exchange(bool one_link, bool one_network, unsigned nodes)
{
    struct dsflow_graph *g = dsflow_graph_new();
    const struct dsf_machine on = { .processes = 2, .nodes = nodes };
    struct dsf_sim_result r;
    double seconds;

    for (int i = 0; i < 2; i++) {
        dsflow_data_id there = data_of(g, 2, 1 - i), here = data_of(g, 2, i);

        task(g, &work, (struct at){ 1 - i, 0, 0 }, 1, &there);
        copy(g, i, here, there);
    }
    r = simulate(g,
                 &(struct dsf_sim_spec){ .nranks = 2,
                                         .workers = 2,
                                         .processes = { 2, 2 },
                                         .on = &on,
                                         .one_link = one_link,
                                         .one_network = one_network,
                                         .steps = 1,
                                         .cost = bytes_of_first },
                 NULL);
    seconds = r.step_seconds;
    assert_true(r.bound != DSF_BOUND_LINK || r.by_network == (nodes > 1));
    dsf_sim_result_fini(&r);
    dsflow_graph_free(g);
    return seconds;
}

static void both_ways_share_a_link_that_is_not_duplex(void **state)
{
    assert_true(exchange(false, true, 1) == 4 && exchange(true, false, 1) == 6);
    assert_true(exchange(true, false, 2) == 4 && exchange(false, true, 2) == 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bubble_of_gpipe_is_exact),
        cmocka_unit_test(the_bubble_of_1f1b_is_exact),
        cmocka_unit_test(the_higher_priority_goes_first),
        cmocka_unit_test(a_link_works_beside_its_device),
        cmocka_unit_test(what_is_not_hidden_is_seen),
        cmocka_unit_test(steps_follow_each_other_as_data_says),
        cmocka_unit_test(ranks_share_workers_and_workers_ranks),
        cmocka_unit_test(tasks_of_no_rank_go_where_there_is_room),
        cmocka_unit_test(a_timeline_keeps_to_the_graph),
        cmocka_unit_test(a_rank_that_is_not_there_is_named),
        cmocka_unit_test(more_lanes_than_spans_can_tell_are_refused),
        cmocka_unit_test(a_step_without_tasks_takes_no_time),
        cmocka_unit_test(a_disk_reads_or_writes),
        cmocka_unit_test(a_duplex_disk_reads_and_writes),
        cmocka_unit_test(steps_have_a_duplex_disk_at_the_same_time),
        cmocka_unit_test(a_disk_takes_what_comes_first),
        cmocka_unit_test(ranks_of_a_node_share_its_disk),
        cmocka_unit_test(beside_a_gpu_swaps_use_its_link_and_updates_the_cores),
        cmocka_unit_test(kernels_are_launched_while_others_run),
        cmocka_unit_test(what_waits_for_its_launch_hides_in_its_time),
        cmocka_unit_test(a_device_is_entered_and_left_while_it_computes),
        cmocka_unit_test(sums_over_ranks_are_kernels_of_a_device),
        cmocka_unit_test(a_copy_in_one_memory_goes_between_kernels),
        cmocka_unit_test(no_more_workers_compute_than_there_are_cores),
        cmocka_unit_test(a_core_takes_what_comes_first_of_all_ranks),
        cmocka_unit_test(messages_take_their_link_and_no_worker),
        cmocka_unit_test(messages_hide_behind_sums_but_not_behind_copies),
        cmocka_unit_test(messages_take_cores_that_are_not_idle),
        cmocka_unit_test(both_ways_share_a_link_that_is_not_duplex),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
