/* exec_memory.c - where the data of a graph is: a piece of memory for each rank
 * and tier, and a range of the store for what is on NVMe. */
#include "exec/exec_memory.h"
#include "exec/exec_private.h"
#include "exec/spread_private.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>

/* Kernels use whole vectors and pages are never shared between tensors. */
static size_t padded(size_t bytes)
{
    size_t to = bytes >= 4096 ? 4096 : 64;

    return (bytes + to - 1) / to * to;
}

static const struct dsflow_data_spec *spec_of(const struct dsflow_exec *exec,
                                              uint32_t data)
{
    return dsflow_graph_data(exec->graph, (dsflow_data_id){ data });
}

static bool is_lent(const struct dsflow_exec *exec, uint32_t data)
{
    return exec->lent != NULL && exec->lent[data] != NULL;
}

size_t dsf_exec_size(const struct dsflow_exec *exec, uint32_t data)
{
    size_t bytes = padded(spec_of(exec, data)->bytes);

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

        for (unsigned p = 0; call->by == DSF_BY_DISK && p < call->task->ndata;
             p++)
            exec->paged[call->task->data[p].i] = true;
    }
}

static struct dsf_arena *arena_of(struct dsflow_exec *exec, uint32_t data)
{
    return &exec->arenas[dsf_exec_home(exec, data)][exec->place[data]];
}

/* Whose memory a place of a rank is; NULL: of disks. */
static struct dsf_device *owner_of(const struct dsflow_exec *exec,
                                   unsigned rank, unsigned place)
{
    if (place == DSFLOW_NVME)
        return NULL;
    return place == DSFLOW_DEVICE && exec->ndevices > 0
               ? dsf_exec_device_of(exec, rank)
               : exec->cpu;
}

/* Of the first rank that is on a device. */
static void size_scratch(struct dsflow_exec *exec)
{
    for (unsigned d = 0;
         d < exec->ndevices && exec->first_rank + d < exec->nranks; d++) {
        struct dsf_arena *arena =
            &exec->arenas[exec->first_rank + d][DSFLOW_DEVICE];
        size_t bytes = dsf_exec_most_scratch(exec, &exec->devices[d]);

        arena->scratch = (bytes + 4095) / 4096 * 4096;
        if (arena->scratch > 0)
            arena->bytes = (arena->bytes + 4095) / 4096 * 4096 + arena->scratch;
    }
}

void *dsf_exec_scratch(const struct dsflow_exec *exec,
                       const struct dsf_device *device)
{
    unsigned d = (unsigned)(device - exec->devices);
    const struct dsf_arena *arena;

    if (exec->first_rank + d >= exec->nranks)
        return NULL;
    arena = &exec->arenas[exec->first_rank + d][DSFLOW_DEVICE];
    return arena->scratch > 0
               ? (char *)arena->at + arena->bytes - arena->scratch
               : NULL;
}

size_t dsf_exec_scratch_of(const struct dsflow_exec *exec, unsigned rank)
{
    unsigned first =
        exec->first_rank + (rank - exec->first_rank) % exec->ndevices;
    unsigned sharing = (exec->nranks - first - 1) / exec->ndevices + 1;

    return exec->arenas[first][DSFLOW_DEVICE].scratch / sharing;
}

void dsf_exec_size_arenas(struct dsflow_exec *exec)
{
    uint32_t n = dsflow_graph_ndata(exec->graph);

    find_paged(exec);
    exec->arenas = dsf_xcalloc(exec->nranks, sizeof(*exec->arenas));
    for (uint32_t i = 0; i < n; i++)
        if (!is_lent(exec, i))
            arena_of(exec, i)->bytes += dsf_exec_size(exec, i);
    /* What begin_page may leave free. */
    for (unsigned r = 0; r < exec->nranks; r++)
        for (unsigned p = 0; p < DSF_NPLACES; p++)
            if (owner_of(exec, r, p) == exec->cpu && exec->ndevices > 0 &&
                exec->arenas[r][p].bytes > 0)
                exec->arenas[r][p].bytes += 4095;
    size_scratch(exec);
}

int dsf_exec_take(struct dsf_device *device, size_t *bytes, const char *what,
                  void **at, struct dsflow_err *err)
{
    struct dsflow_err why;

    if (*bytes == 0)
        return DSFLOW_OK;
    *bytes = (*bytes + 4095) / 4096 * 4096;
    *at = device->class->allocate(device, *bytes, what, &why);
    return *at != NULL ? DSFLOW_OK
                       : dsflow_fail(err, why.status, "%s", why.msg);
}

static int take_arenas(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status = DSFLOW_OK;
    char what[64];

    for (unsigned r = 0; r < exec->nranks; r++)
        for (unsigned p = 0; p < DSF_NPLACES && status == DSFLOW_OK; p++) {
            struct dsf_arena *arena = &exec->arenas[r][p];
            struct dsf_device *owner = owner_of(exec, r, p);

            snprintf(what, sizeof(what), "the %stensors of rank %u",
                     p == DSFLOW_HOST ? "offloaded " : "", r);
            if (owner != NULL)
                status =
                    dsf_exec_take(owner, &arena->bytes, what, &arena->at, err);
        }
    return status;
}

/* In front what devices reach, and of that, and of the rest, the large ones
 * first: they then start on pages. */
static void lay_out(struct dsflow_exec *exec, bool pinned, bool small)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(exec->graph); i++) {
        struct dsf_arena *arena = arena_of(exec, i);

        if (is_lent(exec, i))
            exec->mem[i] = exec->lent[i];
        if (is_lent(exec, i) || (dsf_exec_size(exec, i) < 4096) != small ||
            exec->pinned[i] != pinned)
            continue;
        if (exec->place[i] != DSFLOW_NVME)
            exec->mem[i] = (char *)arena->at + arena->used;
        arena->used += dsf_exec_size(exec, i);
    }
}

/* Behind what devices reach. */
static void begin_page(struct dsflow_exec *exec)
{
    for (unsigned r = 0; r < exec->nranks; r++)
        for (unsigned p = 0; p < DSF_NPLACES; p++) {
            struct dsf_arena *arena = &exec->arenas[r][p];

            arena->pinned = arena->used = (arena->used + 4095) / 4096 * 4096;
        }
}

static int pin_arenas(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned r = 0; r < exec->nranks; r++)
        for (unsigned p = 0; p < DSF_NPLACES; p++)
            for (unsigned d = 0; d < exec->ndevices && status == DSFLOW_OK; d++)
                if (exec->arenas[r][p].pinned > 0)
                    status = exec->devices[d].class->pin(
                        &exec->devices[d], exec->arenas[r][p].at,
                        exec->arenas[r][p].pinned, err);
    return status;
}

int dsf_exec_allocate(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status;

    dsf_exec_size_arenas(exec);
    status = take_arenas(exec, err);
    if (status < 0)
        return status;
    exec->mem = dsf_xcalloc((size_t)dsflow_graph_ndata(exec->graph) + 1,
                            sizeof(*exec->mem));
    lay_out(exec, true, false);
    lay_out(exec, true, true);
    begin_page(exec);
    lay_out(exec, false, false);
    lay_out(exec, false, true);
    return pin_arenas(exec, err);
}

static void release(struct dsflow_exec *exec, unsigned rank, unsigned place)
{
    const struct dsf_arena *arena = &exec->arenas[rank][place];
    struct dsf_device *owner = owner_of(exec, rank, place);

    for (unsigned d = 0; d < exec->ndevices && arena->pinned > 0; d++)
        exec->devices[d].class->unpin(&exec->devices[d], arena->at,
                                      arena->pinned);
    if (owner != NULL)
        owner->class->release(owner, arena->at, arena->bytes);
}

void dsf_exec_free_memory(struct dsflow_exec *exec)
{
    for (unsigned r = 0; exec->arenas != NULL && r < exec->nranks; r++)
        for (unsigned p = 0; p < DSF_NPLACES; p++)
            release(exec, r, p);
    free(exec->arenas);
    free(exec->paged);
    free(exec->pinned);
    free(exec->place);
    free(exec->on);
    free(exec->mem);
}

static size_t resident(const struct dsflow_exec *exec, unsigned rank,
                       unsigned place)
{
    const struct dsf_arena *arena = &exec->arenas[rank][place];
    const struct dsf_device *owner = owner_of(exec, rank, place);

    return owner == NULL
               ? arena->used
               : owner->class->resident(owner, arena->at,
                                        arena->bytes - arena->scratch);
}

/* Of cores: what has been touched by the workers of a rank, or its part of that
 * where ranks share one. */
static size_t resident_scratch(const struct dsflow_exec *exec, unsigned rank)
{
    const unsigned n = exec->nworkers, ranks = exec->nranks - exec->first_rank;
    const unsigned sharing = ranks > n ? (ranks - (rank % n) - 1) / n + 1 : 1;
    size_t bytes = 0;

    for (unsigned w = 0; w < n; w++)
        if (dsf_exec_works_for(w, n, rank - exec->first_rank, ranks))
            bytes +=
                exec->cpu->class->resident(exec->cpu, exec->workers[w].scratch,
                                           exec->workers[w].scratch_bytes);
    return bytes / sharing;
}

size_t dsf_exec_on_devices(const struct dsflow_exec *exec)
{
    size_t bytes = 0;

    if (exec->spread != NULL)
        return dsf_spread_on_devices(exec);
    for (unsigned d = 0; d < exec->ndevices; d++)
        bytes += exec->devices[d].used;
    return bytes;
}

size_t dsflow_exec_resident(const struct dsflow_exec *exec, unsigned rank,
                            enum dsflow_tier tier)
{
    if (exec->spread != NULL)
        return dsf_spread_resident(exec, rank, tier);
    if (rank < exec->first_rank || rank >= exec->nranks)
        return 0;
    if (tier != DSFLOW_DEVICE)
        return resident(exec, rank, tier);
    return resident(exec, rank, tier) + (exec->ndevices > 0
                                             ? dsf_exec_scratch_of(exec, rank)
                                             : resident_scratch(exec, rank));
}
