/* bench_disk_nodes.c - the same chain of tasks on data that does not fit: with
 * StarPU's own disk nodes, and with swaps as tasks.
 *
 *     bench_disk_nodes FOLDER MODE [PIECES [MIB [MS]]]
 *
 * A pass uses PIECES pieces of MIB each, for MS milliseconds each, first to
 * last and back, as the forward and backward pass of a model do; there is memory
 * for four of them. Printed: the time of a pass, beside its compute time. Modes:
 *   starpu    handles without a home, a disk node (unistd, O_DIRECT) and a limit
 *             of memory: StarPU evicts and reads by itself
 *   prefetch  the same, and each task asks for the next piece as it starts
 *   tasks     swap_in tasks into a ring of four, as the policy offload makes them
 */
#include <starpu.h>

#include "base/units.h"
#include "tasks/tasks.h"

#include <dsflow/exec.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4, PASSES = 4, MOST = 256 };

static unsigned npieces = 24;
static size_t bytes = (size_t)16 << 20;
static double work = 10e-3;

/* Reads a little of the piece, and takes its time. */
static void use(const void *piece)
{
    double end = dsf_now() + work;
    volatile const double *v = piece;

    while (dsf_now() < end)
        for (size_t i = 0; i < bytes / sizeof(*v); i += bytes / sizeof(*v) / 64)
            (void)v[i];
}

/* Piece of use `i` of a pass: 0 to n - 1, and back. */
static unsigned piece_at(unsigned i)
{
    return i < npieces ? i : 2 * npieces - 1 - i;
}

static void say(const char *mode, double seconds)
{
    double compute = 2 * npieces * work;

    printf("%-10s %8.1f ms a pass, compute %8.1f ms: %.2f of it\n", mode,
           1e3 * seconds, 1e3 * compute, seconds / compute);
    fflush(stdout);
}

/* --- StarPU's disk nodes -------------------------------------------------- */

static starpu_data_handle_t handles[MOST], chain;
static bool prefetches;

static void run_fill(void *buffers[], void *arg)
{
    memset((void *)STARPU_VARIABLE_GET_PTR(buffers[0]), 1, bytes);
}

static void run_use(void *buffers[], void *arg)
{
    use((const void *)STARPU_VARIABLE_GET_PTR(buffers[1]));
}

static struct starpu_codelet fill_cl = { .cpu_funcs = { run_fill },
                                         .nbuffers = 1,
                                         .modes = { STARPU_W } };
static struct starpu_codelet use_cl = { .cpu_funcs = { run_use },
                                        .nbuffers = 2,
                                        .modes = { STARPU_RW, STARPU_R } };

static void ask_for_next(void *next)
{
    starpu_data_prefetch_on_node(handles[(uintptr_t)next], STARPU_MAIN_RAM, 1);
}

static void submit_pass(void)
{
    for (unsigned i = 0; i < 2 * npieces; i++) {
        struct starpu_task *t = starpu_task_create();

        t->cl = &use_cl;
        t->handles[0] = chain;
        t->handles[1] = handles[piece_at(i)];
        if (prefetches && i + 1 < 2 * npieces) {
            t->prologue_callback_func = ask_for_next;
            t->prologue_callback_arg = (void *)(uintptr_t)piece_at(i + 1);
        }
        if (starpu_task_submit(t) != 0)
            abort();
    }
}

static int run_starpu(const char *folder, const char *mode)
{
    static int link;
    char limit[32];
    double start;

    snprintf(limit, sizeof(limit), "%zu", (SLOTS * bytes >> 20) + 4);
    setenv("STARPU_LIMIT_CPU_MEM", limit, 1);
    setenv("STARPU_SILENT", "1", 0);
    prefetches = strcmp(mode, "prefetch") == 0;
    if (starpu_init(NULL) != 0)
        return 1;
    if (starpu_disk_register(&starpu_disk_unistd_o_direct_ops, (void *)folder,
                             (starpu_ssize_t)(2 * npieces * bytes)) < 0)
        return 1;
    starpu_variable_data_register(&chain, STARPU_MAIN_RAM, (uintptr_t)&link,
                                  sizeof(link));
    for (unsigned i = 0; i < npieces; i++) {
        starpu_variable_data_register(&handles[i], -1, 0, bytes);
        starpu_task_insert(&fill_cl, STARPU_W, handles[i], 0);
        starpu_data_wont_use(handles[i]);
    }
    submit_pass();
    starpu_task_wait_for_all();
    start = dsf_now();
    for (int p = 0; p < PASSES; p++)
        submit_pass();
    starpu_task_wait_for_all();
    say(mode, (dsf_now() - start) / PASSES);
    for (unsigned i = 0; i < npieces; i++)
        starpu_data_unregister_submit(handles[i]);
    starpu_data_unregister(chain);
    starpu_shutdown();
    return 0;
}

/* --- swaps as tasks ------------------------------------------------------- */

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static const struct dsflow_op op_use = {
    .abi = DSFLOW_OP_ABI,
    .name = "bench_use",
    .summary = "takes its time",
    DSFLOW_PORTS({ "chain", DSFLOW_RW }, { "piece", DSFLOW_R }),
    .check = check,
};

static void cpu_use(const struct dsflow_call *call)
{
    use(call->bufs[1].ptr);
}

static const struct dsflow_codelet codelet_use = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &op_use,
    .cpu = cpu_use,
};

static dsflow_data_id add(struct dsflow_graph *g, const char *what, unsigned i,
                          size_t size, enum dsflow_tier tier)
{
    char name[32];

    snprintf(name, sizeof(name), "%s%u", what, i);
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = size, .role = DSFLOW_BUFFERS,
                        .tier = (uint8_t)tier,
                        .persistent = tier == DSFLOW_NVME || size < 64,
                        .unit = -1));
}

static void add_task(struct dsflow_graph *g, const struct dsflow_op *op,
                     dsflow_data_id a, dsflow_data_id b)
{
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = op, .layer = -1, .ndata = 2,
                                          .data = (dsflow_data_id[]){ a, b }));
}

/* What stands in a slot stays until its turn comes: at the turn of a pass the
 * last ones are not read again. */
static struct dsflow_graph *build(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id link = add(g, "chain", 0, 32, DSFLOW_DEVICE);
    dsflow_data_id pieces[MOST], slots[SLOTS];
    unsigned held[SLOTS], next = 0;

    for (unsigned i = 0; i < npieces; i++)
        pieces[i] = add(g, "piece", i, bytes, DSFLOW_NVME);
    for (unsigned i = 0; i < SLOTS; i++) {
        slots[i] = add(g, "slot", i, bytes, DSFLOW_DEVICE);
        held[i] = MOST;
    }
    for (unsigned i = 0; i < 2 * npieces; i++) {
        unsigned at = 0;

        while (at < SLOTS && held[at] != piece_at(i))
            at++;
        if (at == SLOTS) {
            at = next++ % SLOTS;
            add_task(g, &dsf_op_swap_in, pieces[piece_at(i)], slots[at]);
            held[at] = piece_at(i);
        }
        add_task(g, &op_use, link, slots[at]);
    }
    return g;
}

static int run_tasks(const char *folder)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU,
                            .disk = { .paths = &folder, .npaths = 1 });
    struct dsflow_graph *g;
    struct dsflow_exec *exec;
    struct dsflow_err err;
    double start;

    if (dsflow_op_register(&op_use, &err) < 0 ||
        dsflow_codelet_register(&codelet_use, &err) < 0)
        return 1;
    g = build();
    if (dsflow_exec_open(g, &options, NULL, &exec, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    for (unsigned i = 0; i < npieces; i++) {
        char name[32];
        dsflow_data_id id;

        snprintf(name, sizeof(name), "piece%u", i);
        dsflow_graph_find(g, name, &id);
        memset(dsflow_exec_map(exec, id, DSFLOW_W), 1, bytes);
    }
    dsflow_exec_submit(exec, DSFLOW_STEP, &err);
    dsflow_exec_wait(exec, &err);
    start = dsf_now();
    for (int p = 0; p < PASSES; p++)
        dsflow_exec_submit(exec, DSFLOW_STEP, &err);
    if (dsflow_exec_wait(exec, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    say("tasks", (dsf_now() - start) / PASSES);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[2] : "";

    if (argc < 3) {
        fprintf(stderr, "usage: %s FOLDER starpu|prefetch|tasks [PIECES [MIB "
                        "[MS]]]\n",
                argv[0]);
        return 2;
    }
    if (argc > 3)
        npieces = (unsigned)atoi(argv[3]);
    if (argc > 4)
        bytes = (size_t)atoi(argv[4]) << 20;
    if (argc > 5)
        work = atof(argv[5]) / 1e3;
    if (npieces > MOST)
        npieces = MOST;
    return strcmp(mode, "tasks") == 0 ? run_tasks(argv[1])
                                      : run_starpu(argv[1], mode);
}
