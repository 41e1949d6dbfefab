/* bench_tasks.c - what the executor itself takes for a task: tasks with six
 * ports on a GPU, whose kernels are empty.
 *
 *     DSFLOW_CUDA=…/tests/gpu/.libs/dsflow-cuda-emulated.so \
 *         DSFLOW_EMULATED_LATE=0 DSFLOW_EMULATED_GUARD=0 bench_tasks [TASKS]
 *
 * The emulated GPU is not late on purpose then, and its memory is not guarded,
 * which would take longer than all else.
 *
 * A pass has TASKS of them (2000), each of which changes one of eight pieces of
 * data and reads five others. Printed, of 30 passes: wall-clock time of a task,
 * from the submission of a pass to its end, the median and the least; and the
 * processor time that all threads took for it.
 */
#include <dsflow/codelet.h>
#include <dsflow/exec.h>

#include "base/by_value.h"
#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PORTS = 6, CHAINS = 8, PIECES = 64, PASSES = 30 };

static unsigned ntasks = 2000;

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static const char *nothing(const struct dsflow_call *call, void *stream)
{
    return NULL;
}

/* The executor wants one, and does not call it. */
static void on_core(const struct dsflow_call *call)
{
    fprintf(stderr, "bench_tasks: a task ran on a core\n");
    exit(1);
}

static const struct dsflow_op op_nothing = {
    .abi = DSFLOW_OP_ABI,
    .name = "bench_nothing",
    .summary = "an empty kernel",
    DSFLOW_PORTS({ "chain", DSFLOW_RW }, { "a", DSFLOW_R }, { "b", DSFLOW_R },
                 { "c", DSFLOW_R }, { "d", DSFLOW_R }, { "e", DSFLOW_R }),
    .check = check,
};
static const struct dsflow_codelet codelet_nothing = { .abi =
                                                           DSFLOW_CODELET_ABI,
                                                       .op = &op_nothing,
                                                       .cpu = on_core,
                                                       .cuda = nothing };

static dsflow_data_id add(struct dsflow_graph *g, const char *what, unsigned i)
{
    char name[32];

    snprintf(name, sizeof(name), "%s%u", what, i);
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = 4096, .dtype = DSFLOW_UINT8,
                        .tier = DSFLOW_DEVICE, .persistent = 1, .unit = -1));
}

static struct dsflow_graph *build(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id chains[CHAINS], pieces[PIECES];

    for (unsigned i = 0; i < CHAINS; i++)
        chains[i] = add(g, "chain", i);
    for (unsigned i = 0; i < PIECES; i++)
        pieces[i] = add(g, "piece", i);
    for (unsigned i = 0; i < ntasks; i++) {
        dsflow_data_id on[PORTS] = { chains[i % CHAINS] };

        for (unsigned p = 1; p < PORTS; p++)
            on[p] = pieces[(i * 7 + p * 11) % PIECES];
        dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &op_nothing, .layer = -1,
                                              .ndata = PORTS, .data = on));
    }
    return g;
}

static double processor_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Passes one after the other; the first ones are not counted. */
static int measure(struct dsflow_exec *exec, struct dsflow_err *err)
{
    double wall[PASSES], processor = 0;
    int status = DSFLOW_OK;

    for (int p = -3; p < PASSES && status == DSFLOW_OK; p++) {
        double start = dsf_now();

        if (p == 0)
            processor = processor_time();
        status = dsflow_exec_submit(exec, DSFLOW_STEP, err);
        if (status == DSFLOW_OK)
            status = dsflow_exec_wait(exec, err);
        if (p >= 0)
            wall[p] = (dsf_now() - start) / ntasks;
    }
    if (status < 0)
        return status;
    processor = (processor_time() - processor) / PASSES / ntasks;
    qsort(wall, PASSES, sizeof(*wall), dsf_by_value);
    printf("%u tasks of %d ports: %.2f us a task (median), %.2f us at least; "
           "%.2f us of processor time\n",
           ntasks, PORTS, 1e6 * wall[PASSES / 2], 1e6 * wall[0],
           1e6 * processor);
    return DSFLOW_OK;
}

int main(int argc, char **argv)
{
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = 1, .gpus = 1);
    const struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = NULL;
    struct dsflow_graph *g;
    struct dsflow_err err;
    int status;

    if (argc > 1)
        ntasks = (unsigned)atoi(argv[1]);
    if (argc > 2 || ntasks == 0) {
        fprintf(stderr, "usage: bench_tasks [TASKS]\n");
        return 2;
    }
    status = dsflow_op_register(&op_nothing, &err);
    if (status == DSFLOW_OK)
        status = dsflow_codelet_register(&codelet_nothing, &err);
    if (status < 0) {
        fprintf(stderr, "bench_tasks: %s\n", err.msg);
        return 1;
    }
    g = build();
    status = dsflow_exec_open(g, &options, &host, &exec, &err);
    if (status == DSFLOW_OK)
        status = measure(exec, &err);
    if (status < 0)
        fprintf(stderr, "bench_tasks: %s\n", err.msg);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
    return status < 0;
}
