/* policy_table.c - the order of the policies, and the loop over them. */
#include "policies/policies.h"

#include "base/alloc.h"

#include <string.h>

/* The order is knowledge: each policy rewrites what those above it emit. */
const struct dsflow_policy *const dsf_policies[] = {
    &dsf_policy_reference,  /* the plain step: micro-batches, layers, tiles */
    &dsf_policy_recompute,  /* what is computed twice is then placed twice */
    &dsf_policy_tensor_parallel, /* … and cut in parts twice */
    &dsf_policy_pipeline,   /* ranks: what is below knows where things are */
    &dsf_policy_zero,       /* shards, once it is known who shares them */
    &dsf_policy_send,       /* after all that decides who reads what */
    &dsf_policy_priorities, /* last: it reads the whole graph */
};
const unsigned dsf_npolicies = sizeof(dsf_policies) / sizeof(*dsf_policies);

int dsf_policies_build(struct dsflow_plan *plan, const char *until,
                       struct dsflow_graph **graph, struct dsflow_err *err)
{
    struct dsflow_graph *g = dsflow_graph_new();
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < dsf_npolicies && status == DSFLOW_OK; i++) {
        if (plan->parts[i] == NULL)
            plan->parts[i] = dsf_xcalloc(1, dsf_policies[i]->part_size + 1);
        if (dsf_policies[i]->decide != NULL)
            status = dsf_policies[i]->decide(plan->parts[i], plan, err);
    }
    for (unsigned i = 0; i < dsf_npolicies && status == DSFLOW_OK; i++) {
        struct dsflow_graph *next = dsflow_graph_new();

        status = dsf_policies[i]->rewrite(plan->parts[i], plan, g, next, err);
        dsflow_graph_free(g);
        g = next;
        if (until != NULL && strcmp(until, dsf_policies[i]->name) == 0)
            break;
    }
    if (status == DSFLOW_OK)
        status = dsflow_graph_check(g, err);
    if (status < 0) {
        dsflow_graph_free(g);
        return status;
    }
    *graph = g;
    return DSFLOW_OK;
}
