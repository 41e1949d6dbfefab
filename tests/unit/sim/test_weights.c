/* test_weights.c - bytes, tasks and traffic of a graph, by rank. */
#include "sim/weights.h"

#include "lib/test.h"
#include "tasks/tasks.h"

static int any(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void cost_of(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->flops = 10;
}

static size_t scratch_of(const struct dsflow_case *c)
{
    return c->shapes[0].bytes / 2;
}

static const struct dsflow_op work = {
    .abi = DSFLOW_OP_ABI,
    .name = "work",
    DSFLOW_PORTS({ "out", DSFLOW_W }),
    .check = any,
    .cost = cost_of,
    .scratch = scratch_of,
};
static const struct dsflow_op move = {
    .abi = DSFLOW_OP_ABI,
    .name = "move",
    DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R }),
    .comm = 1,
    .check = any,
    .cost = cost_of,
};

static dsflow_data_id data(struct dsflow_graph *g, const char *name,
                           size_t bytes, enum dsflow_role role, int home)
{
    return dsflow_graph_add_data(g, &DSFLOW_DATA(.name = name, .elems = bytes,
                                                 .role = role,
                                                 .home = (int16_t)home));
}

static void add(struct dsflow_graph *g, const struct dsflow_op *op, int rank,
                dsflow_program program, dsflow_data_id a, dsflow_data_id b)
{
    dsflow_graph_add_task(g,
                          &DSFLOW_TASK(.op = op, .rank = (int16_t)rank,
                                       .program = program, .ndata = op->nports,
                                       .data = (dsflow_data_id[]){ a, b }));
}

static void each_rank_has_what_is_at_home_there(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = data(g, "a", 100, DSFLOW_PARAMS, 0);
    dsflow_data_id b = data(g, "b", 40, DSFLOW_GRADS, 1);
    dsflow_data_id c = data(g, "c", 7, DSFLOW_BUFFERS, DSFLOW_ANYWHERE);
    struct dsf_weights w;

    add(g, &work, 0, DSFLOW_STEP, a, c);
    add(g, &work, 1, DSFLOW_STEP, b, c);
    add(g, &work, DSFLOW_ANYWHERE, DSFLOW_STEP, c, c);
    add(g, &move, 1, DSFLOW_STEP, b, a); /* from rank 0 */
    add(g, &move, 0, DSFLOW_STEP, c, a); /* its own, and of no home */
    add(g, &work, 1, dsflow_graph_add_program(g, "eval"), b, c);
    dsf_weights_init(&w, g, 2, NULL);
    dsf_weights_share_workers(&w, 0, 2, 6);

    assert_int_equal(w.ntasks, 5);
    assert_int_equal(w.ndata, 3);
    assert_int_equal(w.nkinds, 2);
    assert_true(w.kinds[0].op == &work && w.kinds[0].tasks == 3);
    assert_true(w.flops == 50);
    assert_true(w.ranks[0].role_bytes[DSFLOW_PARAMS] == 100);
    assert_true(w.ranks[0].role_bytes[DSFLOW_BUFFERS] == 7);
    assert_true(w.ranks[0].scratch == 3 * 50);
    assert_true(w.ranks[0].peak == 100 + 7 + 150);
    assert_true(w.ranks[1].peak == 40 + 60);
    assert_true(w.ranks[0].tasks[0] == 2 && w.ranks[1].tasks[0] == 1);
    assert_true(w.ranks[1].moved[1] == 100 && w.ranks[0].moved[1] == 0);
    assert_true(w.moved == 100 && w.kinds[1].moved == 100);
    dsf_weights_fini(&w);
    dsflow_graph_free(g);
}

/* Scratch of ranks: 50, 20 and 4 bytes of a worker each. */
static void workers_have_scratch_for_the_ranks_they_work_for(void **state)
{
    static const struct {
        unsigned workers;
        double scratch[3];
    } cases[] = {
        { 3, { 50, 20, 4 } },  { 6, { 100, 40, 8 } },
        { 5, { 100, 40, 4 } }, /* workers 0 and 1, 2 and 3, and 4 */
        { 2, { 25, 20, 25 } }, /* the first is of ranks 0 and 2 */
        { 1, { 17, 17, 17 } },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsflow_graph *g = dsflow_graph_new();
        const size_t bytes[] = { 100, 40, 8 };
        struct dsf_weights w;

        for (int r = 0; r < 3; r++) {
            dsflow_data_id d = data(g, (const char *[]){ "a", "b", "c" }[r],
                                    bytes[r], DSFLOW_PARAMS, r);

            add(g, &work, r, DSFLOW_STEP, d, d);
        }
        dsf_weights_init(&w, g, 3, NULL);
        dsf_weights_share_workers(&w, 0, 3, cases[i].workers);
        for (int r = 0; r < 3; r++) {
            assert_float_equal(w.ranks[r].scratch, cases[i].scratch[r], 1e-9);
            assert_float_equal(w.ranks[r].peak,
                               (double)bytes[r] + cases[i].scratch[r], 1e-9);
        }
        dsf_weights_fini(&w);
        dsflow_graph_free(g);
    }
}

static int64_t half(const struct dsflow_op *op, const void *args, unsigned port)
{
    return port == 0 ? 0 : 50;
}

static int64_t numbers(const struct dsflow_op *op, const void *args,
                       unsigned port)
{
    return port == 0 ? 0 : 40;
}

static const struct dsflow_op decode = {
    .abi = DSFLOW_OP_ABI,
    .name = "decode",
    DSFLOW_PORTS({ "out", DSFLOW_W }, { "in", DSFLOW_R }),
    .comm = 1,
    .repeats = 1,
    .reads = half,
    .numbers = numbers,
    .check = any,
};

/* Ranks 0 and 1 share a node. What is read coded is counted as it is, and as
 * the numbers that it stands for, in the type of the first port. */
static void traffic_is_of_wires_and_beside_what_is_dense(void **state)
{
    const int32_t node_of[] = { 0, 0, 1 };
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id out = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "out", .elems = 80, .dtype = DSFLOW_BF16));
    dsflow_data_id in[3];
    struct dsf_weights w;
    struct dsf_traffic t;

    for (int r = 0; r < 3; r++)
        in[r] = data(g, (const char *[]){ "a", "b", "c" }[r], 100,
                     DSFLOW_BUFFERS, r);
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &decode, .rank = 0, .ndata = 4,
                                          .data = (dsflow_data_id[]){
                                              out, in[0], in[1], in[2] }));
    add(g, &move, 2, DSFLOW_STEP, in[2], in[0]);
    dsf_weights_init(&w, g, 3, node_of);
    t = w.ranks[0].traffic;
    assert_true(t.bytes[DSF_WIRES_INSIDE] == 50);
    assert_true(t.bytes[DSF_WIRES_BETWEEN] == 50);
    assert_true(t.dense[DSF_WIRES_INSIDE] == 80);
    assert_true(t.dense[DSF_WIRES_BETWEEN] == 80);
    t = w.ranks[2].traffic;
    assert_true(t.bytes[DSF_WIRES_BETWEEN] == 100 && t.dense[1] == 100);
    assert_true(w.traffic.bytes[DSF_WIRES_BETWEEN] == 150);
    assert_true(dsf_traffic_bytes(&w.traffic) == w.moved && w.moved == 200);
    assert_true(dsf_traffic_dense(&w.traffic) == 260);
    assert_true(dsf_traffic_dense(&w.kinds[0].traffic) == 160);
    dsf_weights_fini(&w);
    dsflow_graph_free(g);
}

static dsflow_data_id data_in(struct dsflow_graph *g, const char *name,
                              size_t bytes, enum dsflow_role role,
                              enum dsflow_tier tier)
{
    return dsflow_graph_add_data(g, &DSFLOW_DATA(.name = name, .elems = bytes,
                                                 .role = role,
                                                 .tier = (uint8_t)tier));
}

static void tiers_and_what_moves_between_them_are_apart(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id home = data_in(g, "m", 100, DSFLOW_STATES, DSFLOW_NVME);
    dsflow_data_id slot = data_in(g, "slot", 120, DSFLOW_STATES, DSFLOW_HOST);
    dsflow_data_id kept = data_in(g, "w", 30, DSFLOW_PARAMS, DSFLOW_HOST);
    dsflow_data_id used = data_in(g, "w'", 50, DSFLOW_PARAMS, DSFLOW_DEVICE);
    struct dsf_weights w;

    add(g, &dsf_op_swap_in, 0, DSFLOW_STEP, home, slot);
    add(g, &dsf_op_swap_out, 0, DSFLOW_STEP, slot, home);
    add(g, &dsf_op_swap_in, 0, DSFLOW_STEP, kept, used);
    add(g, &dsf_op_swap_in, 0, dsflow_graph_add_program(g, "eval"), kept, used);
    dsf_weights_init(&w, g, 1, NULL);

    assert_true(w.ranks[0].peak == 50);
    assert_true(w.ranks[0].tier_bytes[DSFLOW_HOST] == 150);
    assert_true(w.ranks[0].tier_bytes[DSFLOW_NVME] == 100);
    assert_true(w.ranks[0].in_tier[DSFLOW_HOST][DSFLOW_STATES] == 120);
    assert_true(w.ranks[0].in_tier[DSFLOW_HOST][DSFLOW_PARAMS] == 30);
    assert_true(w.ranks[0].in_tier[DSFLOW_DEVICE][DSFLOW_PARAMS] == 50);
    /* Of the larger of the two memories; the smaller of the two sizes. */
    assert_true(w.ranks[0].in[DSFLOW_NVME] == 100);
    assert_true(w.ranks[0].out[DSFLOW_NVME] == 100);
    assert_true(w.ranks[0].in[DSFLOW_HOST] == 30);
    assert_true(w.ranks[0].out[DSFLOW_HOST] == 0);
    dsf_weights_fini(&w);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_has_what_is_at_home_there),
        cmocka_unit_test(workers_have_scratch_for_the_ranks_they_work_for),
        cmocka_unit_test(traffic_is_of_wires_and_beside_what_is_dense),
        cmocka_unit_test(tiers_and_what_moves_between_them_are_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
