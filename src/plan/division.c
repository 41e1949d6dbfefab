/* division.c - ranks, processes and nodes: who is where. */
#include "plan/division.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <stdlib.h>

struct dsf_processes dsf_processes_of(const struct dsf_machine *machine,
                                      int32_t ranks)
{
    int32_t n = machine->processes > 0 ? (int32_t)machine->processes : 1;

    return (struct dsf_processes){ .ranks = ranks, .n = n < ranks ? n : ranks };
}

int32_t dsf_process_first(const struct dsf_processes *all, int32_t p)
{
    return (int32_t)((int64_t)p * all->ranks / all->n);
}

int32_t dsf_process_of(const struct dsf_processes *all, int32_t rank)
{
    return (int32_t)((((int64_t)rank + 1) * all->n - 1) / all->ranks);
}

unsigned dsf_process_workers(const struct dsf_processes *all, int32_t p,
                             unsigned workers)
{
    int32_t own = dsf_process_first(all, p + 1) - dsf_process_first(all, p);
    uint64_t share = (uint64_t)workers * (unsigned)own / (unsigned)all->ranks;

    return share > 0 ? (unsigned)share : 1;
}

unsigned dsf_share_of_workers(unsigned all, unsigned n, unsigned i)
{
    const uint64_t end = ((uint64_t)i + 1) * all, first = (uint64_t)i * all;

    return (unsigned)((end + n - 1) / n - (first + n - 1) / n);
}

int32_t dsf_process_node(const struct dsf_processes *all,
                         const struct dsf_machine *machine, int32_t p)
{
    if (machine == NULL || machine->nodes < 2)
        return 0;
    if (machine->node_of != NULL)
        return machine->node_of[p];
    return (int32_t)((int64_t)p * machine->nodes / all->n);
}

int32_t dsf_rank_node(const struct dsf_machine *machine, int32_t ranks,
                      int32_t rank)
{
    const struct dsf_processes all = dsf_processes_of(machine, ranks);

    if (machine->node_devices > 0)
        return rank / (int32_t)machine->node_devices;
    return dsf_process_node(&all, machine, dsf_process_of(&all, rank));
}

int32_t *dsf_rank_nodes(const struct dsf_machine *machine, int32_t ranks)
{
    int32_t *nodes = dsf_xcalloc((size_t)ranks, sizeof(*nodes));

    for (int32_t r = 0; r < ranks; r++)
        nodes[r] = dsf_rank_node(machine, ranks, r);
    return nodes;
}

/* Ranks by node, for the caller to free. */
static unsigned *ranks_on(const struct dsf_processes *all,
                          const struct dsf_machine *machine, unsigned nodes)
{
    unsigned *n = dsf_xcalloc(nodes, sizeof(*n));

    for (int32_t p = 0; p < all->n; p++)
        n[dsf_process_node(all, machine, p)] +=
            (unsigned)(dsf_process_first(all, p + 1) -
                       dsf_process_first(all, p));
    return n;
}

struct dsf_gpus_used dsf_gpus_of(const struct dsf_machine *machine,
                                 int32_t ranks)
{
    const struct dsf_processes all = dsf_processes_of(machine, ranks);
    const unsigned gpus = machine->gpus;
    const unsigned nodes = machine->nodes > 1 ? machine->nodes : 1;
    struct dsf_gpus_used used = { 0 };
    unsigned *own;

    if (gpus == 0)
        return used;
    own = ranks_on(&all, machine, nodes);
    for (unsigned i = 0; i < nodes; i++) {
        const unsigned most = (own[i] + gpus - 1) / gpus;

        used.n += own[i] < gpus ? own[i] : gpus;
        used.most = most > used.most ? most : used.most;
    }
    free(own);
    return used;
}

static bool may_cross(const struct dsf_processes *all,
                      const struct dsflow_task_spec *t)
{
    return all->n > 1 && t->op->comm && t->rank >= 0;
}

/* Is the data of another process than the task? */
static bool is_far(const struct dsf_processes *all,
                   const struct dsflow_graph *g,
                   const struct dsflow_task_spec *t, unsigned i)
{
    int32_t home = dsflow_graph_data(g, t->data[i])->home;

    return home >= 0 &&
           dsf_process_of(all, home) != dsf_process_of(all, t->rank);
}

double dsf_process_sent(const struct dsf_processes *all,
                        const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    double bytes = 0;

    for (unsigned i = 0; i < t->ndata && may_cross(all, t); i++)
        if (is_far(all, g, t, i))
            bytes += dsf_task_moves(g, t, i);
    return bytes;
}

bool dsf_process_crosses(const struct dsf_processes *all,
                         const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t)
{
    for (unsigned i = 0; i < t->ndata && may_cross(all, t); i++)
        if (is_far(all, g, t, i))
            return true;
    return false;
}
