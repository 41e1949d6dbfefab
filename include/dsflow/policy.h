/* policy.h - a policy turns one graph into another.
 *
 * The order of the policies is one rule: each comes after the one it names in
 * `after`. Of the built-in ones each names the one before it; a policy of a
 * plug-in stands behind the one it names and before the built-in one that
 * followed it, those of several plug-ins in the order they were loaded.
 * (`dsflow list policies` shows the order.)
 *
 * In that order first all of them decide, when there is no graph yet, and then
 * all of them rewrite: a policy that comes after `pipeline` finds its choices
 * in the plan (plan.h) when it decides, and the graph that it left when it
 * rewrites; one that comes after `priorities` decides last, and finds the
 * priorities that tasks have, which it may change.
 */
#ifndef DSFLOW_POLICY_H
#define DSFLOW_POLICY_H

#include <dsflow/graph.h>
#include <dsflow/option.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_POLICY_ABI 4

/* Priorities of tasks are 0 to this: the larger is run first. */
#define DSFLOW_TOP_PRIORITY 1000000

/* What a rewrite returns that leaves the graph as it is, but for priorities. */
#define DSFLOW_UNCHANGED 1

struct dsflow_plan; /* plan.h */

struct dsflow_policy {
    unsigned abi;        /* DSFLOW_POLICY_ABI */
    const char *name;    /* "zero" */
    const char *summary; /* one line, for `dsflow list policies` */
    const char *after;   /* the name of the policy it comes after; NULL: it is
                            the first, which only `reference` can be */

    /* The policy's own part of the plan: what it was asked, as described by
     * `options` (the table of job.toml that has its name; NULL: it has none),
     * then what it decides. Zeroed, then filled from job.toml. */
    const struct dsflow_option *options;
    size_t part_size;

    /* Choose. Reads the job, the model and the machine; writes `part` and the
     * plan. Sees no graph. NULL: there is nothing to choose. */
    int (*decide)(void *part, struct dsflow_plan *plan, struct dsflow_err *err);

    /* Apply. Reads the tasks of `in` in order, emits tasks into `out`
     * (rewrite.h helps). Chooses nothing, keeps nothing: same plan and `in`,
     * same `out`. DSFLOW_UNCHANGED: `in` goes on as it is, and `out` is not
     * used. */
    int (*rewrite)(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err);
};

/* Make it known by its name, and give it its place. It is borrowed for good:
 * make it static. */
DSFLOW_API int dsflow_policy_register(const struct dsflow_policy *policy,
                                      struct dsflow_err *err);
DSFLOW_API const struct dsflow_policy *dsflow_policy_find(const char *name);

/* The i-th that is applied; NULL past the last. */
DSFLOW_API const struct dsflow_policy *dsflow_policy_at(unsigned i);

DSFLOW_END_DECLS

#endif
