/* test_exec_programs.c - any number of programs over the same data, submitted
 * in any order: every executor gives the numbers of that order. */
#include <dsflow/exec.h>

#include "exec/exec_waiting.h"
#include "lib/test.h"

#include <string.h>

enum { NPROGRAMS = 10, NDATA = 6, WORDS = 500, RUNS = 60, NRANKS = 3 };

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

/* x = x * k + y: the order of such tasks shows in the result. */
static void mix_cpu(const struct dsflow_call *call)
{
    uint32_t *x = call->bufs[0].ptr;
    const uint32_t *y = call->bufs[1].ptr;
    uint32_t k = *(const uint32_t *)call->args;

    for (size_t i = 0; i < WORDS; i++)
        x[i] = x[i] * k + y[i] + (uint32_t)i;
}

static const struct dsflow_op mix = {
    .abi = DSFLOW_OP_ABI,
    .name = "test_mix",
    .summary = "x = x * k + y",
    .args_size = sizeof(uint32_t),
    DSFLOW_PORTS({ "x", DSFLOW_RW }, { "y", DSFLOW_R }),
    .check = check,
};
static const struct dsflow_codelet mix_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                   .op = &mix,
                                                   .cpu = mix_cpu };

/* Program p has p + 1 tasks, and multiplies by numbers of its own. */
static struct dsflow_graph *programs(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id d[NDATA];
    char name[16];

    for (int i = 0; i < NDATA; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        d[i] = dsflow_graph_add_data(
            g, &DSFLOW_DATA(.name = name, .elems = WORDS * sizeof(uint32_t),
                            .persistent = 1));
    }
    for (uint32_t p = 0; p < NPROGRAMS; p++) {
        snprintf(name, sizeof(name), p == 0 ? "step" : "program%u",
                 (unsigned)p);
        for (uint32_t i = 0; i <= p; i++)
            dsflow_graph_add_task(
                g,
                &DSFLOW_TASK(.op = &mix,
                             .args = &(uint32_t){ 2 * (p + 7 * i) + 3 },
                             .program = dsflow_graph_add_program(g, name),
                             .rank = (int16_t)(i % NRANKS),
                             .ndata = 2,
                             .data = (dsflow_data_id[]){
                                 d[(p + i) % NDATA],
                                 d[(p + i + 1 + i % (NDATA - 1)) % NDATA] }));
    }
    return g;
}

/* The programs in an order that has no pattern, and what they leave. */
static void run(enum dsflow_exec_kind kind, uint32_t (*left)[WORDS])
{
    struct dsflow_graph *g = programs();
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = kind, .workers = NRANKS,
                            .ranks = NRANKS);
    struct dsflow_host host = { 0 };
    struct dsflow_exec_stats stats;
    struct dsflow_exec *exec;
    struct dsf_waiting waiting;
    uint64_t tasks = 0;
    dsflow_program program;
    unsigned seed = 5, n;
    uint32_t first, times;

    assert_int_equal(dsflow_graph_check(g, NULL), DSFLOW_OK);
    assert_int_equal(dsflow_exec_open(g, &options, &host, &exec, NULL),
                     DSFLOW_OK);
    for (int i = 0; i < RUNS; i++) {
        seed = seed * 1103515245 + 12345;
        program = (dsflow_program)((seed >> 16) % NPROGRAMS);
        tasks += dsflow_graph_program_tasks(g, program, &first);
        assert_int_equal(dsflow_exec_submit(exec, program, NULL), DSFLOW_OK);
    }
    assert_int_equal(dsflow_exec_wait(exec, NULL), DSFLOW_OK);
    assert_int_equal(dsf_exec_waiting(exec, &program, &times, &waiting, 1, &n),
                     0);
    dsflow_exec_stats(exec, &stats);
    assert_int_equal(stats.tasks, tasks);
    for (uint32_t i = 0; i < NDATA; i++)
        memcpy(left[i], dsflow_exec_map(exec, (dsflow_data_id){ i }, DSFLOW_R),
               sizeof(*left));
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static void ten_programs_leave_what_their_order_says(void **state)
{
    static uint32_t serial[NDATA][WORDS], starpu[NDATA][WORDS],
        in_order[NDATA][WORDS];

    run(DSFLOW_SERIAL, serial);
    run(DSFLOW_STARPU, starpu);
    run(DSFLOW_IN_ORDER, in_order);
    assert_memory_equal(serial, starpu, sizeof(serial));
    assert_memory_equal(serial, in_order, sizeof(serial));
    assert_int_not_equal(serial[0][1], 0);
}

static void what_the_graph_does_not_have_is_refused(void **state)
{
    struct dsflow_graph *g = programs();
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_SERIAL);
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec;
    struct dsflow_err err;

    assert_int_equal(dsflow_exec_open(g, &options, &host, &exec, &err),
                     DSFLOW_OK);
    assert_int_equal(dsflow_exec_submit(exec, NPROGRAMS, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "program 10: expected one of the 10 of the graph");
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
}

static int add_codelet(void **state)
{
    return dsflow_op_register(&mix, NULL) < 0 ||
           dsflow_codelet_register(&mix_codelet, NULL) < 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_programs_leave_what_their_order_says),
        cmocka_unit_test(what_the_graph_does_not_have_is_refused),
    };

    return cmocka_run_group_tests(tests, add_codelet, NULL);
}
