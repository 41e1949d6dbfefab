/* exec_trace.c - spans of each worker, and of each other thread that has some:
 * the thread adds, the program takes them out, and neither waits for the other.
 * They stand in blocks that are made as they are needed and freed when they
 * were taken: a graph of many tasks has many spans, but not for long. Where
 * nobody takes them out, those of a few steps are kept. */
#include "exec/exec_trace.h"

#include "base/alloc.h"
#include "exec/exec_private.h"
#include "exec/spread_private.h"

#include <stdlib.h>

/* Spans of a block; and steps that may be under way, with one that is being
 * taken out. */
enum { EACH = 1024, STEPS = 4 };

struct dsf_exec_spans {
    _Atomic uint32_t n;                    /* how many are there to be taken */
    _Atomic(struct dsf_exec_spans *) next; /* once this one is full */
    struct dsf_span v[EACH];
};

static unsigned nrings(const struct dsflow_exec *exec)
{
    return exec->nworkers + DSF_NOTHER_RINGS + 2 * exec->ndevices;
}

void dsf_exec_add_rings(struct dsflow_exec *exec)
{
    exec->rings = dsf_xcalloc(nrings(exec), sizeof(*exec->rings));
    exec->most_spans = (uint64_t)STEPS * dsflow_graph_ntasks(exec->graph);
    if (exec->most_spans < EACH)
        exec->most_spans = EACH;
    for (unsigned i = 0; i < nrings(exec); i++)
        exec->rings[i].last = exec->rings[i].first =
            dsf_xcalloc(1, sizeof(*exec->rings[i].first));
    exec->runs = dsf_xcalloc((size_t)dsflow_graph_ntasks(exec->graph) + 1,
                             sizeof(*exec->runs));
}

void dsf_exec_free_rings(struct dsflow_exec *exec)
{
    for (unsigned i = 0; exec->rings != NULL && i < nrings(exec); i++)
        for (struct dsf_exec_spans *b = exec->rings[i].first, *next; b != NULL;
             b = next) {
            next = b->next;
            free(b);
        }
    free(exec->rings);
    free(exec->runs);
}

void dsf_exec_note(struct dsflow_exec *exec, unsigned ring,
                   const struct dsf_span *span)
{
    struct dsf_exec_ring *r = &exec->rings[ring];
    struct dsf_exec_spans *b = r->last;
    uint32_t n = atomic_load_explicit(&b->n, memory_order_relaxed);

    if (r->put - atomic_load_explicit(&r->taken, memory_order_acquire) >=
        exec->most_spans) {
        atomic_fetch_add_explicit(&r->lost, 1, memory_order_relaxed);
        return;
    }
    r->put++;
    if (n == EACH) {
        r->last = dsf_xcalloc(1, sizeof(*r->last));
        atomic_store_explicit(&b->next, r->last, memory_order_release);
        b = r->last;
        n = 0;
    }
    b->v[n] = *span;
    atomic_store_explicit(&b->n, n + 1, memory_order_release);
}

static void drain_ring(struct dsf_exec_ring *r, struct dsf_timeline *timeline)
{
    uint64_t before = timeline->n;
    struct dsf_exec_spans *next;

    do {
        struct dsf_exec_spans *b = r->first;
        uint32_t n = atomic_load_explicit(&b->n, memory_order_acquire);

        for (; r->at < n; r->at++)
            dsf_timeline_add(timeline, &b->v[r->at]);
        next = n < EACH ? NULL
                        : atomic_load_explicit(&b->next, memory_order_acquire);
        if (next != NULL) {
            r->first = next;
            r->at = 0;
            free(b);
        }
    } while (next != NULL);
    atomic_fetch_add_explicit(&r->taken, timeline->n - before,
                              memory_order_release);
}

uint64_t dsf_exec_drain(struct dsflow_exec *exec, struct dsf_timeline *timeline)
{
    uint64_t lost = 0;

    if (exec->spread != NULL)
        return dsf_spread_drain(exec, timeline);
    for (unsigned i = 0; i < nrings(exec); i++) {
        drain_ring(&exec->rings[i], timeline);
        lost += atomic_exchange_explicit(&exec->rings[i].lost, 0,
                                         memory_order_relaxed);
    }
    return lost;
}

void dsf_exec_lanes(const struct dsflow_exec *exec,
                    struct dsf_timeline *timeline)
{
    if (exec->spread != NULL) {
        dsf_spread_lanes(exec, timeline);
        return;
    }
    exec->class->lanes(exec, timeline);
    dsf_exec_link_lanes(exec, timeline);
    dsf_exec_disk_lanes(exec, timeline);
    dsf_exec_wire_lanes(exec, timeline);
}

void dsf_exec_time_tasks(struct dsflow_exec *exec, double *seconds)
{
    exec->worked = seconds;
}

bool dsf_exec_sends(const struct dsflow_exec *exec, unsigned lane)
{
    return exec->spread != NULL && dsf_spread_carries(exec->spread, lane, true);
}

bool dsf_exec_receives(const struct dsflow_exec *exec, unsigned lane)
{
    return exec->spread != NULL &&
           dsf_spread_carries(exec->spread, lane, false);
}

double dsf_exec_clocks_within(const struct dsflow_exec *exec)
{
    return exec->spread != NULL ? dsf_spread_clocks_within(exec->spread) : 0;
}

double dsf_exec_began(const struct dsflow_exec *exec)
{
    return exec->spread != NULL ? exec->spread->own->opened : exec->opened;
}
