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

/* What makes steps slow that another value of a key may help with. */
enum dsflow_cause {
    DSFLOW_CAUSE_SLOTS,  /* tasks wait for a slot of a ring */
    DSFLOW_CAUSE_STAGES, /* stages have unequal work, or wait for each other */
    DSFLOW_CAUSE_MOVING, /* moving data is not hidden */
    DSFLOW_CAUSE_DISK,   /* a disk is busy */
    DSFLOW_CAUSE_AGAIN   /* what was computed is computed again */
};

/* Which values are tried in place of the one a key has. */
enum dsflow_values {
    /* The values of a choice in their order, or all numbers of a key that may
     * be "auto": each needs less memory than the one before it, and no less
     * time. "auto", the last choice if it is one, is the fastest that fits; a
     * plan that does not fit is tried with those behind its own, and one that
     * is slow with those before. */
    DSFLOW_VALUES_RISING,
    DSFLOW_VALUES_ANY,     /* every other one of such a key */
    DSFLOW_VALUES_DEFAULT, /* its default: a bool */
    DSFLOW_VALUES_MORE,    /* 1, 2 and 4 more: a whole number */
    DSFLOW_VALUES_SCALED,  /* half, a quarter, twice and four times: a size */
    DSFLOW_VALUES_QUARTERS /* so many quarters more: a share */
};

/* A key of a policy that is worth changing: for what is "auto", for what would
 * fit, and for the advice of `dsflow trace`. */
struct dsflow_try {
    const char *key; /* of its options */
    enum dsflow_values values;
    enum dsflow_cause cause;
    uint8_t regroups; /* sums have another order: other last bits */
};

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
    const struct dsflow_try *tries; /* ends with a key NULL; NULL: none */

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
