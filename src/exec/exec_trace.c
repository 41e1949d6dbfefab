/* exec_trace.c - a ring of spans for each worker, and for each other thread that
 * has some: the thread adds, the program takes them out, and neither waits for
 * the other. */
#include "exec/exec_trace.h"

#include "base/alloc.h"
#include "base/units.h"
#include "exec/exec_private.h"

#include <stdlib.h>

/* Steps that may be under way, and one that is being taken out. */
enum { STEPS = 4, LEAST = 1024 };

static unsigned nrings(const struct dsflow_exec *exec)
{
    return exec->nworkers + DSF_NOTHER_RINGS;
}

void dsf_exec_add_rings(struct dsflow_exec *exec)
{
    size_t most = LEAST;

    while (most < (size_t)STEPS * dsflow_graph_ntasks(exec->graph))
        most *= 2;
    exec->rings = dsf_xcalloc(nrings(exec), sizeof(*exec->rings));
    for (unsigned i = 0; i < nrings(exec); i++) {
        exec->rings[i].mask = most - 1;
        exec->rings[i].v = dsf_xcalloc(most, sizeof(*exec->rings[i].v));
    }
    exec->runs = dsf_xcalloc((size_t)dsflow_graph_ntasks(exec->graph) + 1,
                             sizeof(*exec->runs));
}

void dsf_exec_free_rings(struct dsflow_exec *exec)
{
    for (unsigned i = 0; exec->rings != NULL && i < nrings(exec); i++)
        free(exec->rings[i].v);
    free(exec->rings);
    free(exec->runs);
}

void dsf_exec_note(struct dsflow_exec *exec, unsigned ring,
                   const struct dsf_span *span)
{
    struct dsf_exec_ring *r = &exec->rings[ring];
    uint64_t at = atomic_load_explicit(&r->put, memory_order_relaxed);

    if (at - atomic_load_explicit(&r->taken, memory_order_acquire) > r->mask) {
        atomic_fetch_add_explicit(&r->lost, 1, memory_order_relaxed);
        return;
    }
    r->v[at & r->mask] = *span;
    atomic_store_explicit(&r->put, at + 1, memory_order_release);
}

uint64_t dsf_exec_drain(struct dsflow_exec *exec, struct dsf_timeline *timeline)
{
    uint64_t lost = 0;

    for (unsigned i = 0; i < nrings(exec); i++) {
        struct dsf_exec_ring *r = &exec->rings[i];
        uint64_t at = atomic_load_explicit(&r->taken, memory_order_relaxed);
        uint64_t end = atomic_load_explicit(&r->put, memory_order_acquire);

        for (; at < end; at++)
            dsf_timeline_add(timeline, &r->v[at & r->mask]);
        atomic_store_explicit(&r->taken, at, memory_order_release);
        lost += atomic_exchange_explicit(&r->lost, 0, memory_order_relaxed);
    }
    return lost;
}

void dsf_exec_lanes(const struct dsflow_exec *exec,
                    struct dsf_timeline *timeline)
{
    exec->class->lanes(exec, timeline);
    dsf_exec_disk_lanes(exec, timeline);
}

double dsf_exec_began(const struct dsflow_exec *exec)
{
    return exec->opened;
}
