/* process_own.c - the tasks of one process, as the process that has the run of
 * several keeps them where it has no others: in the places that spans and traces
 * count, with all data that they and messages are of. */
#include "policies/processes.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "policies/policies.h"

#include <dsflow/rewrite.h>
#include <stdlib.h>

/* By tasks of `in`, their numbers in `out`. */
static uint32_t *copy_own(const struct dsf_processes *all, int32_t p,
                          struct dsflow_graph *in, struct dsflow_graph *out)
{
    const uint32_t n = dsflow_graph_ntasks(in);
    uint32_t *at = dsf_xcalloc((size_t)n + 1, sizeof(*at));

    dsf_rewrite_programs(in, out);
    for (uint32_t d = 0; d < dsflow_graph_ndata(in); d++)
        dsflow_graph_add_data(out, dsf_nth_data(in, d));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t = dsf_nth_task(in, i);

        at[i] = DSF_NOT_IN_PART;
        if (dsf_process_of(all, t->rank) != p)
            continue;
        at[i] = dsflow_graph_ntasks(out);
        dsflow_graph_add_task(out, t);
    }
    return at;
}

void dsf_process_keep_own(const struct dsf_processes *all, int32_t p,
                          struct dsflow_graph **graph,
                          struct dsf_graph_part *part)
{
    struct dsflow_graph *out = dsflow_graph_new();
    uint32_t *at = copy_own(all, p, *graph, out);
    const uint32_t n = dsflow_graph_ntasks(out);

    for (uint32_t i = 0; i < dsflow_graph_ntasks(part->graph); i++)
        part->tasks[i] = at[part->tasks[i]];
    for (uint32_t i = 0; i < n; i++)
        part->ordered[i] = i;
    for (int32_t q = 0; q <= all->n; q++)
        part->first[q] = q > p ? n : 0;
    dsflow_graph_free(*graph);
    *graph = out;
    free(at);
}
