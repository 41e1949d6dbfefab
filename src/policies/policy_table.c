/* policy_table.c - the policies there are, their order, and the loop over them.
 */
#include "policies/policies.h"

#include "base/alloc.h"
#include "base/returned.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "plan/programs.h"
#include "policies/asked.h"
#include "tasks/components.h"

#include <string.h>

/* The order is knowledge: each policy rewrites what those above it emit, and
 * names the one above it in `after`. */
static const void *const builtin[] = {
    &dsf_policy_reference, /* the plain step: micro-batches, layers, tiles */
    &dsf_policy_recompute, /* what is computed twice is then placed twice */
    &dsf_policy_tensor_parallel, /* … and cut in parts twice */
    &dsf_policy_sequence_parallel, /* tiles know their sequence, and parts */
    &dsf_policy_pipeline,   /* ranks: what is below knows where things are */
    &dsf_policy_replace,    /* so far all kinds of task were known ones */
    &dsf_policy_precision,  /* from here on data may have other types */
    &dsf_policy_weights,    /* … and passes use other weights than updates */
    &dsf_policy_compress,   /* … and what is sent is not what is kept */
    &dsf_policy_zero,       /* shards, once it is known who shares them */
    &dsf_policy_collectives, /* all that ranks do together has been said */
    &dsf_policy_strict,     /* it knows the stages, and adds what they send */
    &dsf_policy_send,       /* after all that decides who reads what */
    &dsf_policy_offload,    /* what is where, while each task uses it */
    &dsf_policy_priorities, /* it reads the whole graph */
    NULL,
};

static bool is_builtin(const struct dsf_registered *r)
{
    return strcmp(r->origin, DSF_BUILTIN) == 0;
}

/* In the order they are applied. A registry may be cut: this follows from it.
 */
static unsigned in_order(const struct dsflow_policy *order[DSF_MAX_POLICIES])
{
    const struct dsf_registered *r;
    bool brought[DSF_MAX_POLICIES]; /* by a plug-in or a program */
    unsigned n = 0;

    for (size_t i = 0; (r = dsf_registry_at(&dsf_policies, i)) != NULL; i++) {
        const struct dsflow_policy *policy = r->thing;
        bool own = is_builtin(r);
        unsigned at = 0;

        while (policy->after != NULL && at < n &&
               strcmp(order[at++]->name, policy->after) != 0)
            ;
        while (!own && at < n && brought[at])
            at++;
        memmove(order + at + 1, order + at, (n - at) * sizeof(*order));
        memmove(brought + at + 1, brought + at, (n - at) * sizeof(*brought));
        order[at] = policy;
        brought[at] = !own;
        n++;
    }
    return n;
}

/* Has a key of this type such values? */
static bool suits(enum dsflow_values values, const struct dsflow_option *o)
{
    enum { FEW = 64 };
    bool few = o->type == DSFLOW_AUTO && o->max - o->min < FEW;

    switch (values) {
    case DSFLOW_VALUES_RISING:
    case DSFLOW_VALUES_ANY:
        return o->type == DSFLOW_CHOICE || few;
    case DSFLOW_VALUES_DEFAULT:
        return o->type == DSFLOW_BOOL;
    case DSFLOW_VALUES_MORE:
        return o->type == DSFLOW_INT;
    case DSFLOW_VALUES_SCALED:
        return o->type == DSFLOW_SIZE;
    case DSFLOW_VALUES_QUARTERS:
        return o->type == DSFLOW_SHARE;
    }
    return false;
}

static int check_try(const struct dsflow_try *how,
                     const struct dsflow_option *options,
                     struct dsflow_err *err)
{
    const struct dsflow_option *o =
        options != NULL ? dsf_option_find(options, how->key) : NULL;

    if (o == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "tries: %.60s: unknown key",
                           how->key);
    if (!suits(how->values, o))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "tries: %.60s: a key of this type has no such "
                           "values",
                           how->key);
    return DSFLOW_OK;
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_policy *policy = thing;
    size_t n = dsf_registry_count(&dsf_policies);
    int status = dsf_registry_check(&dsf_policies, policy->abi, policy->name,
                                    policy->summary, err);

    if (status < 0)
        return status;
    if (n == DSF_MAX_POLICIES)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "policy %.60s: expected at most %d policies in all",
                           policy->name, DSF_MAX_POLICIES);
    if (policy->rewrite == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "policy %.60s: has no function rewrite",
                           policy->name);
    if (n > 0 && (policy->after == NULL ||
                  dsf_registry_find(&dsf_policies, policy->after) == NULL))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "policy %.60s: after: %.60s: expected the name of a "
                           "policy that it comes after",
                           policy->name,
                           policy->after != NULL ? policy->after : "NULL");
    for (const struct dsflow_try *t = policy->tries;
         t != NULL && t->key != NULL; t++)
        if (check_try(t, policy->options, err) < 0) {
            char what[100];

            snprintf(what, sizeof(what), "policy %.60s", policy->name);
            return dsflow_fail_in(err, DSFLOW_EINVAL, what);
        }
    status = dsf_registry_add(&dsf_policies, policy->name, policy, origin, err);
    if (status == DSFLOW_OK)
        status =
            dsf_component_options(&dsf_policies, policy->name, policy->summary,
                                  policy->options, policy->part_size, err);
    return status;
}

struct dsf_registry dsf_policies = {
    .sort = "policy",
    .abi = DSFLOW_POLICY_ABI,
    .add = add,
    .builtin = builtin,
};

void dsf_job_add_builtin_tables(void)
{
    (void)dsf_registry_count(&dsf_policies); /* adds those of the list */
    (void)dsf_registry_count(&dsf_optimizers);
}

int dsflow_policy_register(const struct dsflow_policy *policy,
                           struct dsflow_err *err)
{
    return dsf_policies.add(policy, DSF_PROGRAM, err);
}

const struct dsflow_policy *dsflow_policy_find(const char *name)
{
    return dsf_registry_thing(&dsf_policies, name);
}

const struct dsflow_policy *dsflow_policy_at(unsigned i)
{
    const struct dsflow_policy *order[DSF_MAX_POLICIES];
    unsigned n = in_order(order);

    return i < n ? order[i] : NULL;
}

/* What the job says to a policy; strings stay the job's. */
static void *part_of(const struct dsflow_plan *plan,
                     const struct dsflow_policy *policy)
{
    const void *said = dsf_job_part(plan->job, policy->options);
    void *part = dsf_xcalloc(1, policy->part_size + 1);

    if (said != NULL)
        memcpy(part, said, policy->part_size);
    return part;
}

/* What a built-in policy leaves is checked at the end; that of another at once,
 * so that its name stands in the message. */
static int check_brought(const struct dsflow_plan *plan,
                         const struct dsflow_policy *policy,
                         struct dsflow_graph *g, struct dsflow_err *err)
{
    const struct dsflow_task_spec *t;
    int status = DSFLOW_OK;
    char what[100];

    if (is_builtin(dsf_registry_find(&dsf_policies, policy->name)))
        return DSFLOW_OK;
    for (uint32_t i = 0;
         (t = dsf_nth_task(g, i)) != NULL && status == DSFLOW_OK; i++)
        if (t->rank < DSFLOW_ANYWHERE || t->rank >= plan->nranks)
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "task %u, %s: rank %d: expected 0 to %d", i,
                                 t->op->name, t->rank, plan->nranks - 1);
    if (status == DSFLOW_OK)
        status = dsflow_graph_check(g, err);
    snprintf(what, sizeof(what), "policy %.60s", policy->name);
    return status < 0 ? dsflow_fail_in(err, status, what) : DSFLOW_OK;
}

static int decide(struct dsflow_plan *plan,
                  const struct dsflow_policy *const *order, unsigned n,
                  struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++) {
        if (plan->parts[i] == NULL)
            plan->parts[i] = part_of(plan, order[i]);
        status = dsf_job_check_part(plan->job, order[i]->options, err);
        if (status < 0 || order[i]->decide == NULL)
            continue;
        dsf_no_message(err);
        status =
            dsf_returned(order[i]->decide(plan->parts[i], plan, err), DSFLOW_OK,
                         "policy", order[i]->name, "decide", err);
    }
    return status;
}

/* *g, as the policy leaves it; only the tasks that are asked for, if `asked` is
 * not NULL. */
static int rewrite(const struct dsflow_plan *plan,
                   const struct dsflow_policy *policy, const void *part,
                   struct dsf_asked *asked, struct dsflow_graph **g,
                   struct dsflow_err *err)
{
    struct dsflow_graph *next = dsflow_graph_new();
    int status;

    dsf_rewrite_programs(*g, next);
    dsf_asked_set(next, asked);
    dsf_no_message(err);
    status =
        dsf_returned(policy->rewrite(part, plan, *g, next, err),
                     DSFLOW_UNCHANGED, "policy", policy->name, "rewrite", err);
    if (status == DSFLOW_UNCHANGED && asked != NULL) {
        dsf_asked_copy(*g, next);
        status = DSFLOW_OK;
    }
    dsflow_graph_free(status == DSFLOW_UNCHANGED ? next : *g);
    *g = status == DSFLOW_UNCHANGED ? *g : next;
    return status == DSFLOW_UNCHANGED ? DSFLOW_OK : status;
}

static int build(struct dsflow_plan *plan, const char *until,
                 const struct dsflow_policy *const *order, unsigned n,
                 struct dsflow_graph **graph, struct dsflow_err *err)
{
    struct dsflow_graph *g = dsflow_graph_new();
    int status = decide(plan, order, n, err);

    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++) {
        status = rewrite(plan, order[i], plan->parts[i], NULL, &g, err);
        if (status == DSFLOW_OK)
            status = check_brought(plan, order[i], g, err);
        if (until != NULL && strcmp(until, order[i]->name) == 0)
            break;
    }
    if (status == DSFLOW_OK)
        status = dsflow_graph_check(g, err);
    if (status == DSFLOW_OK && until == NULL)
        status = dsf_plan_check_programs(plan, g, err);
    if (status < 0) {
        dsflow_graph_free(g);
        return status;
    }
    *graph = g;
    return DSFLOW_OK;
}

int dsf_policies_build(struct dsflow_plan *plan, const char *until,
                       struct dsflow_graph **graph, struct dsflow_err *err)
{
    const struct dsflow_policy *order[DSF_MAX_POLICIES];
    unsigned n = in_order(order);

    return build(plan, until, order, n, graph, err);
}

int dsf_policies_build_builtin(struct dsflow_plan *plan,
                               struct dsflow_graph **graph,
                               struct dsflow_err *err)
{
    const struct dsflow_policy *order[DSF_MAX_POLICIES];
    unsigned n = 0;

    for (; builtin[n] != NULL; n++)
        order[n] = builtin[n];
    return build(plan, NULL, order, n, graph, err);
}

/* Those that were brought may ask for tasks of any rank. */
static bool all_builtin(const struct dsflow_policy *const *order, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (!is_builtin(dsf_registry_find(&dsf_policies, order[i]->name)))
            return false;
    return true;
}

int dsf_policies_build_asked(struct dsflow_plan *plan,
                             const struct dsf_processes *all, int32_t p,
                             struct dsf_asked_graph *out,
                             struct dsflow_err *err)
{
    const struct dsflow_policy *order[DSF_MAX_POLICIES];
    unsigned n = in_order(order);
    struct dsf_asked asked = { .tasks = NULL };
    struct dsflow_graph *g;
    int status;

    *out = (struct dsf_asked_graph){ .is_whole = true };
    if (!all_builtin(order, n))
        return dsf_policies_build(plan, NULL, &out->graph, err);
    status = decide(plan, order, n, err);
    g = dsflow_graph_new();
    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++) {
        /* What is behind it makes more and more of each task. */
        bool here = order[i] == &dsf_policy_tensor_parallel;

        if (here) {
            out->plain = dsf_process_hash_plain(g);
            dsf_asked_find(plan, all, p, g, &asked);
        }
        status = rewrite(plan, order[i], plan->parts[i], here ? &asked : NULL,
                         &g, err);
    }
    out->is_whole = false;
    dsf_asked_fini(&asked);
    if (status < 0)
        dsflow_graph_free(g);
    else
        out->graph = g;
    return status;
}
