/* exec_needs.c - what a graph takes on GPUs, before there is an executor: it is
 * placed as an executor places it, and nothing is allocated. */
#include "exec/exec_memory.h"
#include "exec/exec_private.h"

#include "base/alloc.h"

#include <stdlib.h>

/* Devices that nobody opens. */
static void add_devices(struct dsflow_exec *exec, unsigned gpus)
{
    if (gpus > exec->nranks - exec->first_rank)
        gpus = exec->nranks - exec->first_rank;
    exec->devices = dsf_xcalloc(gpus + 1, sizeof(*exec->devices));
    for (unsigned i = 0; i < gpus; i++)
        exec->devices[i].class = &dsf_device_cuda;
    exec->ndevices = gpus;
    exec->cpu = &exec->devices[gpus];
    exec->cpu->class = &dsf_device_cpu;
}

static size_t in_pages(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* Ranks that share a GPU share its scratch memory, which only the first has in
 * its arena. */
static void weigh_rank(const struct dsflow_exec *exec, unsigned rank,
                       struct dsf_exec_need *need)
{
    unsigned first =
        exec->first_rank + (rank - exec->first_rank) % exec->ndevices;
    unsigned sharing = (exec->nranks - first - 1) / exec->ndevices + 1;
    const struct dsf_arena *arena = &exec->arenas[rank][DSFLOW_DEVICE];
    size_t scratch = exec->arenas[first][DSFLOW_DEVICE].scratch;

    need->device =
        in_pages(arena->bytes - arena->scratch) + scratch / sharing;
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
    needs->first = exec->first_rank;
    needs->nranks = exec->nranks;
    needs->ranks = dsf_xcalloc(needs->nranks, sizeof(*needs->ranks));
    needs->host = DSF_STAGE_BUFFERS * dsf_exec_stage_each(exec) +
                  workers * in_pages(dsf_exec_most_scratch(exec, exec->cpu));
    for (unsigned r = exec->first_rank; r < needs->nranks; r++)
        weigh_rank(exec, r, &needs->ranks[r]);
    weigh_near(exec, needs);
}

int dsf_exec_needs_find(struct dsflow_graph *graph, unsigned gpus,
                        unsigned workers, struct dsf_exec_needs *needs,
                        struct dsflow_err *err)
{
    struct dsflow_exec exec = { .graph = graph };
    int status;

    *needs = (struct dsf_exec_needs){ 0 };
    dsf_exec_find_ranks(&exec);
    add_devices(&exec, gpus);
    status = dsf_exec_find_codelets(&exec, err);
    if (status == DSFLOW_OK) {
        dsf_exec_place(&exec);
        dsf_exec_size_arenas(&exec);
        weigh(&exec, workers, needs);
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
