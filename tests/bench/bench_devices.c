/* bench_devices.c - a chain of kernels on a virtual device, over data that is in
 * main memory: each piece is copied in, changed, and copied out.
 *
 *     bench_devices [PIECES [MIB [MS]]]
 *
 * A pass uses PIECES pieces of MIB each, for MS milliseconds each; there is room
 * for four of them on the device. The link takes 0.5, 0.9, 1.5 and 3 times as
 * long as the kernels, in each direction. Printed, as the clock of the device
 * has it: the time of a pass beside the longest of kernels, copies in and copies
 * out; how much of the copying is beside kernels; and what the device has.
 */
#include <dsflow/exec.h>

#include "base/units.h"
#include "exec/exec_trace.h"
#include "tasks/tasks.h"
#include "timeline/cover.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 4, PASSES = 4 };

static unsigned npieces = 24;
static size_t bytes = (size_t)4 << 20;
static double work = 10e-3;

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void use_cpu(const struct dsflow_call *call)
{
    double end = dsf_now() + work;
    char *piece = call->bufs[1].ptr;

    while (dsf_now() < end)
        piece[0]++;
}

static const struct dsflow_op op_use = {
    .abi = DSFLOW_OP_ABI,
    .name = "bench_use",
    .summary = "changes a piece, and takes its time",
    DSFLOW_PORTS({ "chain", DSFLOW_RW }, { "piece", DSFLOW_RW }),
    .check = check,
};
static const struct dsflow_codelet codelet_use = { .abi = DSFLOW_CODELET_ABI,
                                                   .op = &op_use,
                                                   .cpu = use_cpu };

static dsflow_data_id add(struct dsflow_graph *g, const char *what, unsigned i,
                          size_t size, enum dsflow_tier tier)
{
    char name[32];

    snprintf(name, sizeof(name), "%s%u", what, i);
    return dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = name, .elems = (int64_t)size,
                        .dtype = DSFLOW_UINT8, .tier = (uint8_t)tier,
                        .persistent = 1, .unit = -1));
}

static void add_task(struct dsflow_graph *g, const struct dsflow_op *op,
                     dsflow_data_id a, dsflow_data_id b)
{
    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = op, .layer = -1, .ndata = 2,
                                          .data = (dsflow_data_id[]){ a, b }));
}

static struct dsflow_graph *build(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id chain = add(g, "chain", 0, 64, DSFLOW_DEVICE), slots[SLOTS];

    for (unsigned i = 0; i < SLOTS; i++)
        slots[i] = add(g, "slot", i, bytes, DSFLOW_DEVICE);
    for (unsigned i = 0; i < npieces; i++) {
        dsflow_data_id piece = add(g, "piece", i, bytes, DSFLOW_HOST);

        add_task(g, &dsf_op_swap_in, piece, slots[i % SLOTS]);
        add_task(g, &op_use, chain, slots[i % SLOTS]);
        add_task(g, &dsf_op_swap_out, slots[i % SLOTS], piece);
    }
    return g;
}

/* Lanes: the core, the device, into it and out of it. */
static void say(double ratio, const struct dsflow_exec *exec,
                const struct dsf_timeline *t)
{
    struct dsf_cover kernels = { 0 };
    double sum[4] = { 0 }, first = INFINITY, last = 0, beside = 0, most = 0;

    for (size_t i = 0; i < t->n; i++) {
        const struct dsf_span *s = &t->v[i];

        sum[s->lane] += s->end - s->start;
        first = fmin(first, s->start);
        last = fmax(last, s->end);
        if (s->lane == 1)
            dsf_cover_add(&kernels, s);
    }
    for (size_t i = 0; i < t->n; i++)
        if (t->v[i].lane > 1)
            beside += dsf_cover_overlap(&kernels, t->v[i].start,
                                        t->v[i].end);
    for (int l = 1; l < 4; l++)
        most = fmax(most, sum[l]);
    printf("link %.1f: %.1f ms a pass; kernels %.1f, in %.1f, out %.1f ms: "
           "%.3f of the longest; %.0f %% of the copying beside kernels; "
           "%s on the device\n",
           ratio, 1e3 * (last - first) / PASSES, 1e3 * sum[1] / PASSES,
           1e3 * sum[2] / PASSES, 1e3 * sum[3] / PASSES, (last - first) / most,
           100 * beside / (sum[2] + sum[3]),
           dsf_size_text((double)dsflow_exec_resident(exec, 0, DSFLOW_DEVICE))
               .s);
    dsf_cover_fini(&kernels);
}

static int measure(double ratio)
{
    struct dsflow_exec_options options = DSFLOW_EXEC_OPTIONS(
            .kind = DSFLOW_STARPU, .workers = 1, .virtuals = 1,
            .virtual_link = (size_t)((double)bytes / (ratio * work)));
    struct dsflow_graph *g = build();
    const struct dsflow_host host = { 0 };
    struct dsf_timeline t = { 0 };
    struct dsflow_exec *exec = NULL;
    struct dsflow_err err;
    int status = dsflow_exec_open(g, &options, &host, &exec, &err);

    /* Once for the pages. */
    for (int p = 0; p <= PASSES && status == DSFLOW_OK; p++) {
        status = dsflow_exec_submit(exec, DSFLOW_STEP, &err);
        if (p > 0 || status < 0)
            continue;
        status = dsflow_exec_wait(exec, &err);
        dsf_exec_drain(exec, &t);
        t.n = 0;
    }
    if (status == DSFLOW_OK)
        status = dsflow_exec_wait(exec, &err);
    if (status == DSFLOW_OK) {
        dsf_exec_drain(exec, &t);
        dsf_timeline_sort(&t);
        say(ratio, exec, &t);
    } else
        fprintf(stderr, "bench_devices: %s\n", err.msg);
    dsf_timeline_fini(&t);
    dsflow_exec_close(exec);
    dsflow_graph_free(g);
    return status < 0;
}

int main(int argc, char **argv)
{
    static const double ratios[] = { 0.5, 0.9, 1.5, 3 };
    int failed = 0;

    if (argc > 1)
        npieces = (unsigned)atoi(argv[1]);
    if (argc > 2)
        bytes = (size_t)atoi(argv[2]) << 20;
    if (argc > 3)
        work = atof(argv[3]) / 1e3;
    if (npieces < SLOTS || bytes == 0 || work <= 0 ||
        dsflow_op_register(&op_use, NULL) < 0 ||
        dsflow_codelet_register(&codelet_use, NULL) < 0) {
        fprintf(stderr, "usage: %s [PIECES [MIB [MS]]]\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < sizeof(ratios) / sizeof(*ratios) && !failed; i++)
        failed = measure(ratios[i]);
    return failed;
}
