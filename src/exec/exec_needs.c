/* exec_needs.c - what a graph takes on devices, before there is an executor: it
 * is placed as an executor places it, and nothing is allocated. */
#include "exec/exec_memory.h"
#include "exec/exec_private.h"

#include "base/alloc.h"

#include <stdlib.h>

/* Devices that nobody opens. */
static void add_devices(struct dsflow_exec *exec,
                        const struct dsflow_exec_options *options)
{
    unsigned n = options->gpus > 0 ? options->gpus : options->virtuals;

    if (n > exec->nranks - exec->first_rank)
        n = exec->nranks - exec->first_rank;
    exec->devices = dsf_xcalloc(n + 1, sizeof(*exec->devices));
    for (unsigned i = 0; i < n; i++)
        exec->devices[i].class =
            options->gpus > 0 ? &dsf_device_cuda : &dsf_device_virtual;
    exec->ndevices = n;
    exec->cpu = &exec->devices[n];
    exec->cpu->class = &dsf_device_cpu;
}

static size_t in_pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static void weigh_rank(const struct dsflow_exec *exec, unsigned rank,
                       struct dsf_exec_need *need)
{
    const struct dsf_arena *arena = &exec->arenas[rank][DSFLOW_DEVICE];

    need->device = in_pages(arena->bytes - arena->scratch) +
                   dsf_exec_scratch_of(exec, rank);
}

static void weigh_near(const struct dsflow_exec *exec,
                       struct dsf_exec_needs *needs)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(exec->graph); i++)
        if (exec->place[i] == DSF_PLACE_NEAR)
            needs->ranks[dsf_exec_home(exec, i)].near +=
                dsflow_graph_data(exec->graph, (dsflow_data_id){ i })->bytes;
    for (unsigned r = 0; r < needs->nranks; r++)
        needs->host += exec->arenas[r][DSF_PLACE_NEAR].bytes;
}

static void weigh(const struct dsflow_exec *exec, unsigned workers,
                  struct dsf_exec_needs *needs)
{
    const size_t each = dsf_exec_stage_each(exec);

    needs->first = exec->first_rank;
    needs->nranks = exec->nranks;
    needs->ranks = dsf_xcalloc(needs->nranks, sizeof(*needs->ranks));
    needs->host = dsf_exec_stage_count(each, workers) * each +
                  workers * in_pages(dsf_exec_most_scratch(exec, exec->cpu));
    for (unsigned r = exec->first_rank; r < needs->nranks; r++)
        weigh_rank(exec, r, &needs->ranks[r]);
    weigh_near(exec, needs);
}

int dsf_exec_needs_find(struct dsflow_graph *graph,
                        const struct dsflow_exec_options *options,
                        struct dsf_exec_needs *needs, struct dsflow_err *err)
{
    struct dsflow_exec exec = { .graph = graph };
    int status;

    *needs = (struct dsf_exec_needs){ 0 };
    dsf_exec_find_ranks(&exec);
    add_devices(&exec, options);
    status = dsf_exec_find_codelets(&exec, err);
    if (status == DSFLOW_OK) {
        dsf_exec_place(&exec);
        dsf_exec_size_arenas(&exec);
        weigh(&exec, options->workers, needs);
    }
    dsf_exec_free_memory(&exec);
    dsf_exec_close_devices(&exec);
    free(exec.calls);
    return status;
}

void dsf_exec_needs_fini(struct dsf_exec_needs *needs)
{
    free(needs->ranks);
    *needs = (struct dsf_exec_needs){ 0 };
}
