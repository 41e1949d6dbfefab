/* policy.h - a policy turns one graph into another. */
#ifndef DSFLOW_POLICY_H
#define DSFLOW_POLICY_H

#include <dsflow/graph.h>
#include <dsflow/option.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_POLICY_ABI 1

struct dsflow_plan;

struct dsflow_policy {
    unsigned abi;        /* DSFLOW_POLICY_ABI */
    const char *name;    /* "zero": its table in job.toml is [zero] */
    const char *summary; /* one line, for `dsflow list policies` */

    /* The policy's own part of the plan: what it was asked, as described by
     * `options` (NULL: it has no table), then what it decides. Zeroed, then
     * filled from job.toml. */
    const struct dsflow_option *options;
    size_t part_size;

    /* Choose. Reads the job, the model and the machine; writes `part` and the
     * plan. Sees no graph. */
    int (*decide)(void *part, struct dsflow_plan *plan, struct dsflow_err *err);

    /* Apply. Reads the tasks of `in` in order, emits tasks into `out`. Chooses
     * nothing, keeps nothing: same plan and `in`, same `out`. */
    int (*rewrite)(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err);
};

DSFLOW_END_DECLS

#endif
