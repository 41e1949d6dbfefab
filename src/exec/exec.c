/* exec.c - what every executor does alike: memory, codelets, counting. */
#include "exec/exec_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "graph/task.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Kernels use whole vectors and pages are never shared between tensors. */
static size_t padded(size_t bytes)
{
    size_t to = bytes >= 4096 ? 4096 : 64;

    return (bytes + to - 1) / to * to;
}

/* The rank whose memory holds `data`: what has no home is in that of rank 0. */
static unsigned home_of(const struct dsflow_exec *exec, uint32_t data)
{
    const struct dsflow_data_spec *d =
        dsflow_graph_data(exec->graph, (dsflow_data_id){ data });

    return d->home < 0 ? 0 : (unsigned)d->home;
}

static size_t size_of(const struct dsflow_exec *exec, uint32_t data)
{
    return padded(
        dsflow_graph_data(exec->graph, (dsflow_data_id){ data })->bytes);
}

static void size_arenas(struct dsflow_exec *exec)
{
    uint32_t n = dsflow_graph_ndata(exec->graph);

    exec->narenas = 1;
    for (uint32_t i = 0; i < n; i++)
        if (home_of(exec, i) >= exec->narenas)
            exec->narenas = home_of(exec, i) + 1;
    exec->arenas = dsf_xcalloc(exec->narenas, sizeof(*exec->arenas));
    for (uint32_t i = 0; i < n; i++)
        exec->arenas[home_of(exec, i)].bytes += size_of(exec, i);
}

/* Zeroed by the kernel, and in huge pages where it gives them. */
static int map_arena(struct dsf_arena *arena, unsigned rank,
                     struct dsflow_err *err)
{
    arena->bytes = (arena->bytes + 4096) / 4096 * 4096;
    arena->at = mmap(NULL, arena->bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena->at == MAP_FAILED) {
        arena->at = NULL;
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "memory: %s for the tensors of rank %u: %m",
                           dsf_size_text((double)arena->bytes).s, rank);
    }
    madvise(arena->at, arena->bytes, MADV_HUGEPAGE);
    return DSFLOW_OK;
}

static int allocate(struct dsflow_exec *exec, struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ndata(exec->graph);
    int status = DSFLOW_OK;

    size_arenas(exec);
    for (unsigned r = 0; r < exec->narenas && status == DSFLOW_OK; r++)
        status = map_arena(&exec->arenas[r], r, err);
    if (status < 0)
        return status;
    exec->mem = dsf_xcalloc(n + 1, sizeof(*exec->mem));
    /* The large ones first: they then start on pages. */
    for (int small = 0; small < 2; small++)
        for (uint32_t i = 0; i < n; i++) {
            struct dsf_arena *arena = &exec->arenas[home_of(exec, i)];

            if ((size_of(exec, i) < 4096) != small)
                continue;
            exec->mem[i] = arena->at + arena->used;
            arena->used += size_of(exec, i);
        }
    return DSFLOW_OK;
}

size_t dsflow_exec_resident(const struct dsflow_exec *exec, unsigned rank,
                            enum dsflow_tier tier)
{
    const struct dsf_arena *arena;
    unsigned char *pages;
    size_t n, resident = 0;

    if (rank >= exec->narenas || tier != DSFLOW_DEVICE)
        return 0;
    arena = &exec->arenas[rank];
    n = arena->bytes / 4096;
    pages = dsf_xcalloc(n + 1, 1);
    if (mincore(arena->at, arena->bytes, pages) == 0)
        for (size_t i = 0; i < n; i++)
            resident += (pages[i] & 1) * 4096u;
    free(pages);
    return resident;
}

static int find_codelets(struct dsflow_exec *exec, struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ntasks(exec->graph);

    exec->calls = dsf_xcalloc(n + 1, sizeof(*exec->calls));
    for (uint32_t i = 0; i < n; i++) {
        struct dsf_exec_call *call = &exec->calls[i];
        size_t scratch;

        call->exec = exec;
        call->task = dsflow_graph_task(exec->graph, (dsflow_task_id){ i });
        call->codelet = i > 0 && call[-1].task->op == call->task->op
                            ? call[-1].codelet
                            : dsflow_codelet_find(call->task->op);
        if (call->codelet == NULL || call->codelet->cpu == NULL)
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "task %s: no codelet for a CPU",
                               call->task->op->name);
        scratch = padded(dsf_task_scratch(exec->graph, call->task));
        if (scratch > exec->scratch_bytes)
            exec->scratch_bytes = scratch;
        exec->phase_end[call->task->phase] = i + 1;
    }
    for (int p = 1; p < DSFLOW_NPHASES; p++)
        if (exec->phase_end[p] < exec->phase_end[p - 1])
            exec->phase_end[p] = exec->phase_end[p - 1];
    return DSFLOW_OK;
}

int dsf_exec_add_workers(struct dsflow_exec *exec, unsigned n,
                         struct dsflow_err *err)
{
    exec->workers = dsf_xcalloc(n, sizeof(*exec->workers));
    exec->nworkers = n;
    dsf_exec_add_rings(exec);
    if (exec->scratch_bytes == 0)
        return DSFLOW_OK;
    for (unsigned w = 0; w < n; w++) {
        exec->workers[w].scratch = aligned_alloc(64, exec->scratch_bytes);
        if (exec->workers[w].scratch == NULL)
            return dsflow_fail(err, DSFLOW_ENOMEM,
                               "memory: %s of scratch for a worker",
                               dsf_size_text((double)exec->scratch_bytes).s);
        madvise(exec->workers[w].scratch, exec->scratch_bytes, MADV_HUGEPAGE);
    }
    return DSFLOW_OK;
}

void dsf_exec_run(const struct dsf_exec_call *call,
                  const struct dsflow_buf *bufs, unsigned w)
{
    struct dsflow_exec *exec = call->exec;
    struct dsf_exec_worker *worker = &exec->workers[w];
    uint32_t task = (uint32_t)(call - exec->calls);
    double start = dsf_now(), end;

    call->codelet->cpu(&(struct dsflow_call){ .bufs = bufs,
                                              .nbufs = call->task->ndata,
                                              .args = call->task->args,
                                              .fresh = call->task->fresh,
                                              .scratch = worker->scratch,
                                              .host = exec->host });
    end = dsf_now();
    worker->busy += end - start;
    worker->tasks++;
    dsf_exec_note(exec, w,
                  &(struct dsf_span){ .start = start - exec->opened,
                                      .end = end - exec->opened,
                                      .what = task,
                                      .step = exec->runs[task]++,
                                      .lane = (uint16_t)w,
                                      .rank = call->task->rank,
                                      .kind = DSF_SPAN_TASK });
}

int dsflow_exec_open(struct dsflow_graph *graph,
                     const struct dsflow_exec_options *options,
                     const struct dsflow_host *host, struct dsflow_exec **out,
                     struct dsflow_err *err)
{
    struct dsflow_exec *exec = dsf_xcalloc(1, sizeof(*exec));
    int status;

    exec->class =
        options->kind == DSFLOW_SERIAL ? &dsf_exec_serial : &dsf_exec_starpu;
    exec->graph = graph;
    exec->host = host;
    exec->opened = dsf_now();
    exec->link_rate = (double)options->virtual_link;
    status = find_codelets(exec, err);
    if (status == DSFLOW_OK)
        status = allocate(exec, err);
    if (status == DSFLOW_OK)
        status = exec->class->open(exec, options, err);
    if (status < 0) {
        dsflow_exec_close(exec);
        return status;
    }
    *out = exec;
    return DSFLOW_OK;
}

void dsflow_exec_close(struct dsflow_exec *exec)
{
    if (exec == NULL)
        return;
    exec->class->close(exec);
    for (unsigned w = 0; w < exec->nworkers; w++)
        free(exec->workers[w].scratch);
    free(exec->workers);
    dsf_exec_free_rings(exec);
    for (unsigned r = 0; r < exec->narenas; r++)
        if (exec->arenas[r].at != NULL)
            munmap(exec->arenas[r].at, exec->arenas[r].bytes);
    free(exec->arenas);
    free(exec->mem);
    free(exec->calls);
    free(exec);
}

int dsflow_exec_submit(struct dsflow_exec *exec, enum dsflow_phase phase,
                       struct dsflow_err *err)
{
    uint32_t first = phase == 0 ? 0 : exec->phase_end[phase - 1];

    if (exec->busy_since == 0)
        exec->busy_since = dsf_now();
    return exec->class->submit(exec, first, exec->phase_end[phase], err);
}

int dsflow_exec_wait(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status = exec->class->wait(exec, err);

    if (exec->busy_since != 0)
        exec->wall += dsf_now() - exec->busy_since;
    exec->busy_since = 0;
    return status;
}

void *dsflow_exec_map(struct dsflow_exec *exec, dsflow_data_id id,
                      enum dsflow_access access)
{
    return exec->class->map(exec, id.i, access);
}

void dsflow_exec_stats(const struct dsflow_exec *exec,
                       struct dsflow_exec_stats *stats)
{
    *stats = (struct dsflow_exec_stats){ .workers = exec->nworkers,
                                         .wall_seconds = exec->wall };
    if (exec->busy_since != 0)
        stats->wall_seconds += dsf_now() - exec->busy_since;
    for (unsigned w = 0; w < exec->nworkers; w++) {
        stats->kernel_seconds += exec->workers[w].busy;
        stats->tasks += exec->workers[w].tasks;
    }
}
