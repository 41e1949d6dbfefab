/* test_edges.c - edges with their reasons order what the simulator orders. */
#include "graph/edges.h"
#include "graph/succs.h"

#include "lib/test.h"

#include <stdbool.h>

static const struct dsflow_op any = {
    .abi = DSFLOW_OP_ABI,
    .name = "any",
    DSFLOW_PORTS({ "a", DSFLOW_RW }, { "b", DSFLOW_R, .optional = 1 },
                 { "c", DSFLOW_W, .optional = 1 }),
};

static unsigned roll(unsigned *seed, unsigned n)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % n;
}

enum { NDATA = 9, NTASKS = 30 };

static struct dsflow_graph *random_graph(unsigned seed)
{
    struct dsflow_graph *g = dsflow_graph_new();

    for (unsigned d = 0; d < NDATA; d++) {
        char name[8];

        snprintf(name, sizeof(name), "d%u", d);
        dsflow_graph_add_data(g,
                              &DSFLOW_DATA(.name = name, .persistent = d % 2));
    }
    for (unsigned i = 0; i < NTASKS; i++) {
        unsigned first = roll(&seed, NDATA);
        struct dsflow_task_spec t =
            DSFLOW_TASK(.op = &any, .fresh = roll(&seed, 2),
                        .ndata = 1 + roll(&seed, 3));
        dsflow_data_id ids[3];

        for (unsigned p = 0; p < 3; p++)
            ids[p].i = (first + p * (1 + roll(&seed, 2))) % NDATA;
        if (ids[1].i == ids[2].i || ids[2].i == ids[0].i)
            t.ndata = 1;
        t.data = ids;
        dsflow_graph_add_task(g, &t);
    }
    return g;
}

/* Of two steps: does y wait for x, be it through others? */
struct reach {
    bool v[2 * NTASKS][2 * NTASKS];
};

static void close_over(struct reach *r)
{
    for (unsigned k = 0; k < 2 * NTASKS; k++)
        for (unsigned i = 0; i < 2 * NTASKS; i++)
            for (unsigned j = 0; r->v[i][k] && j < 2 * NTASKS; j++)
                r->v[i][j] = r->v[i][j] || r->v[k][j];
}

static struct reach reach_of_edges(const struct dsflow_graph *g)
{
    struct reach r = { 0 };
    struct dsf_edges e;

    dsf_edges_init(&e, g);
    for (uint32_t t = 0; t < NTASKS; t++)
        for (uint32_t i = e.first[t]; i < e.first[t + 1]; i++) {
            const struct dsf_edge *x = &e.v[i];

            r.v[x->task + (x->before ? 0 : NTASKS)][t + NTASKS] = true;
            if (!x->before)
                r.v[x->task][t] = true;
        }
    dsf_edges_fini(&e);
    close_over(&r);
    return r;
}

static struct reach reach_of_succs(struct dsflow_graph *g)
{
    struct reach r = { 0 };
    struct dsf_succs s;

    dsf_succs_init(&s, g, 0, NTASKS, true);
    for (uint32_t t = 0; t < NTASKS; t++) {
        uint32_t n;
        const uint32_t *list = dsf_succs(&s, t, &n);

        for (uint32_t i = 0; i < n; i++)
            r.v[t][list[i]] = r.v[t + NTASKS][list[i] + NTASKS] = true;
        list = dsf_succs_next(&s, t, &n);
        for (uint32_t i = 0; i < n; i++)
            r.v[t][list[i] + NTASKS] = true;
    }
    dsf_succs_fini(&s);
    close_over(&r);
    return r;
}

static void they_order_what_the_simulator_orders(void **state)
{
    for (unsigned seed = 1; seed <= 100; seed++) {
        struct dsflow_graph *g = random_graph(seed);
        struct reach mine = reach_of_edges(g), theirs = reach_of_succs(g);

        for (unsigned i = 0; i < 2 * NTASKS; i++)
            for (unsigned j = 0; j < 2 * NTASKS; j++)
                assert_int_equal(mine.v[i][j], theirs.v[i][j]);
        dsflow_graph_free(g);
    }
}

static void only_what_is_written_over_is_a_slot(void **state)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id x = dsflow_graph_add_data(g, &DSFLOW_DATA(.name = "x"));
    dsflow_data_id p =
        dsflow_graph_add_data(g, &DSFLOW_DATA(.name = "p", .persistent = 1));
    struct dsf_edges e;

    /* Writes x; adds to x; writes x anew; adds to p, twice. */
    for (unsigned i = 0; i < 5; i++)
        dsflow_graph_add_task(
            g, &DSFLOW_TASK(.op = &any, .fresh = i == 0 || i == 2, .ndata = 1,
                            .data = (dsflow_data_id[]){ i < 3 ? x : p }));
    dsf_edges_init(&e, g);
    assert_int_equal(e.first[5], 5);
    assert_true(e.v[0].slot && e.v[0].before && e.v[0].task == 2);
    assert_false(e.v[1].slot || e.v[1].before);
    assert_true(e.v[2].slot && !e.v[2].before && e.v[2].task == 1);
    assert_false(e.v[3].slot);
    assert_false(e.v[4].slot);
    dsf_edges_fini(&e);
    dsflow_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_order_what_the_simulator_orders),
        cmocka_unit_test(only_what_is_written_over_is_a_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
