/* priorities.c - the longest way to the end first.
 *
 * The priority of a task is its bottom level: its own cost plus the largest
 * bottom level of what waits for it (Graham 1969; Topcuoglu et al. 2002, HEFT's
 * upward rank), scaled to whole numbers. Weight gradients and updates, on which
 * little waits, so come after what the next layer needs. Tasks that cost nothing
 * (sums of numbers, reports) go before all: waiting would be dearer.
 */
#include "policies/policies.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <stdlib.h>

/* Only the ratio of arithmetic to memory matters here: a core of today does
 * some ten operations in the time it moves a byte. */
#define FLOPS_PER_BYTE 10.0

/* A task of less, in operations, is over before a scheduler has looked at it. */
#define NOTHING 10000.0

#define HIGHEST 1000000

static double operations(const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t)
{
    struct dsflow_cost cost = dsf_task_cost(g, t);

    return cost.flops + FLOPS_PER_BYTE * cost.bytes;
}

static int priorities_rewrite(const void *part, const struct dsflow_plan *plan,
                              struct dsflow_graph *in, struct dsflow_graph *out,
                              struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ntasks(in);
    double *level = dsf_xcalloc(n + 1, sizeof(*level));
    double top = 1;

    for (uint32_t i = n; i-- > 0;) {
        const dsflow_task_id *preds;
        uint32_t npreds = dsflow_graph_preds(in, (dsflow_task_id){ i }, &preds);

        level[i] += operations(in, dsflow_graph_task(in, (dsflow_task_id){ i }));
        if (level[i] > top)
            top = level[i];
        for (uint32_t k = 0; k < npreds; k++)
            if (level[i] > level[preds[k].i])
                level[preds[k].i] = level[i];
    }
    for (uint32_t i = 0; i < dsflow_graph_ndata(in); i++)
        dsflow_graph_add_data(out, dsflow_graph_data(in, (dsflow_data_id){ i }));
    for (uint32_t i = 0; i < n; i++) {
        struct dsflow_task_spec t = *dsflow_graph_task(in, (dsflow_task_id){ i });

        t.priority = operations(in, &t) < NOTHING
                         ? HIGHEST
                         : (int32_t)(level[i] / top * HIGHEST);
        dsflow_graph_add_task(out, &t);
    }
    free(level);
    return DSFLOW_OK;
}

const struct dsflow_policy dsf_policy_priorities = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "priorities",
    .summary = "the longest way to the end of the step first",
    .rewrite = priorities_rewrite,
};
