/* exec_memory.c - where the data of a graph is: a piece of memory for each rank
 * and tier, and a range of the store for what is on NVMe. */
#include "exec/exec_private.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

/* Kernels use whole vectors and pages are never shared between tensors. */
size_t dsf_exec_padded(size_t bytes)
{
    size_t to = bytes >= 4096 ? 4096 : 64;

    return (bytes + to - 1) / to * to;
}

static const struct dsflow_data_spec *spec_of(const struct dsflow_exec *exec,
                                              uint32_t data)
{
    return dsflow_graph_data(exec->graph, (dsflow_data_id){ data });
}

/* The rank whose memory holds `data`: what has no home is in that of rank 0. */
static unsigned home_of(const struct dsflow_exec *exec, uint32_t data)
{
    int home = spec_of(exec, data)->home;

    return home < 0 ? 0 : (unsigned)home;
}

size_t dsf_exec_size(const struct dsflow_exec *exec, uint32_t data)
{
    size_t bytes = dsf_exec_padded(spec_of(exec, data)->bytes);

    if (exec->paged[data])
        bytes = (bytes + DSF_IO_ALIGN - 1) / DSF_IO_ALIGN * DSF_IO_ALIGN;
    return bytes;
}

/* What a disk reads or writes, and what is there. */
static void find_paged(struct dsflow_exec *exec)
{
    uint32_t ndata = dsflow_graph_ndata(exec->graph);

    exec->paged = dsf_xcalloc(ndata + 1, sizeof(*exec->paged));
    for (uint32_t i = 0; i < ndata; i++)
        exec->paged[i] = spec_of(exec, i)->tier == DSFLOW_NVME;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        const struct dsf_exec_call *call = &exec->calls[i];

        for (unsigned p = 0; call->by_disk && p < call->task->ndata; p++)
            exec->paged[call->task->data[p].i] = true;
    }
}

static struct dsf_arena *arena_of(struct dsflow_exec *exec, uint32_t data)
{
    return &exec->arenas[home_of(exec, data)][spec_of(exec, data)->tier];
}

static void size_arenas(struct dsflow_exec *exec)
{
    uint32_t n = dsflow_graph_ndata(exec->graph);

    exec->nranks = 1;
    for (uint32_t i = 0; i < n; i++)
        if (home_of(exec, i) >= exec->nranks)
            exec->nranks = home_of(exec, i) + 1;
    exec->arenas = dsf_xcalloc(exec->nranks, sizeof(*exec->arenas));
    for (uint32_t i = 0; i < n; i++)
        arena_of(exec, i)->bytes += dsf_exec_size(exec, i);
}

int dsf_exec_take(struct dsf_device *device, size_t *bytes, const char *what,
                  void **at, struct dsflow_err *err)
{
    if (*bytes == 0)
        return DSFLOW_OK;
    *bytes = (*bytes + 4095) / 4096 * 4096;
    *at = device->class->allocate(device, *bytes, what, err);
    return *at != NULL ? DSFLOW_OK : DSFLOW_ENOMEM;
}

static int take_arenas(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status = DSFLOW_OK;
    char what[64];

    for (unsigned r = 0; r < exec->nranks; r++)
        for (int tier = 0; tier < DSFLOW_NVME && status == DSFLOW_OK; tier++) {
            struct dsf_arena *arena = &exec->arenas[r][tier];

            snprintf(what, sizeof(what), "the %stensors of rank %u",
                     tier == DSFLOW_HOST ? "offloaded " : "", r);
            status = dsf_exec_take(&exec->cpu, &arena->bytes, what, &arena->at,
                                   err);
        }
    return status;
}

int dsf_exec_allocate(struct dsflow_exec *exec, struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ndata(exec->graph);
    int status;

    find_paged(exec);
    size_arenas(exec);
    status = take_arenas(exec, err);
    if (status < 0)
        return status;
    exec->mem = dsf_xcalloc(n + 1, sizeof(*exec->mem));
    /* The large ones first: they then start on pages. */
    for (int small = 0; small < 2; small++)
        for (uint32_t i = 0; i < n; i++) {
            struct dsf_arena *arena = arena_of(exec, i);

            if ((dsf_exec_size(exec, i) < 4096) != small)
                continue;
            if (spec_of(exec, i)->tier != DSFLOW_NVME)
                exec->mem[i] = (char *)arena->at + arena->used;
            arena->used += dsf_exec_size(exec, i);
        }
    return DSFLOW_OK;
}

void dsf_exec_free_memory(struct dsflow_exec *exec)
{
    for (unsigned r = 0; r < exec->nranks; r++)
        for (int tier = 0; tier < DSFLOW_NVME; tier++)
            exec->cpu.class->release(&exec->cpu, exec->arenas[r][tier].at,
                                     exec->arenas[r][tier].bytes);
    free(exec->arenas);
    free(exec->paged);
    free(exec->mem);
}

size_t dsflow_exec_resident(const struct dsflow_exec *exec, unsigned rank,
                            enum dsflow_tier tier)
{
    const struct dsf_arena *arena;

    if (rank >= exec->nranks)
        return 0;
    arena = &exec->arenas[rank][tier];
    return tier == DSFLOW_NVME
               ? arena->used
               : exec->cpu.class->resident(&exec->cpu, arena->at, arena->bytes);
}
