/* replace.c - other kinds of task in the place of the built-in ones: what the
 * job names for a segment, as in [model] attention = "mine".
 *
 * They have the same ports and arguments (segments.c), so nothing else in the
 * graph changes, and nobody before this policy need know of them; no policy behind
 * it asks which op a task has.
 */
#include "policies/policies.h"

#include <dsflow/rewrite.h>

#include "segments/segment.h"

static int replace_decide(void *part, struct dsflow_plan *plan,
                          struct dsflow_err *err)
{
    const char *name;

    for (unsigned i = 0; (name = dsf_segment_name(i)) != NULL; i++)
        if (dsf_job_segment(plan->job, name, err) == NULL)
            return DSFLOW_EINVAL;
    return DSFLOW_OK;
}

static void replace(void *job, struct dsflow_task_spec *t)
{
    t->op = dsf_job_op(job, t->op);
}

/* Does the job name anything but built-in kinds? */
static bool replaces(const struct dsf_job *job)
{
    const struct dsflow_op *op;

    for (unsigned i = 0; (op = dsflow_op_at(i)) != NULL; i++)
        if (dsf_job_op(job, op) != op)
            return true;
    return false;
}

static int replace_rewrite(const void *part, const struct dsflow_plan *plan,
                           struct dsflow_graph *in, struct dsflow_graph *out,
                           struct dsflow_err *err)
{
    if (!replaces(plan->job))
        return DSFLOW_UNCHANGED;
    dsflow_rewrite_all(in, out, replace, (void *)plan->job);
    return DSFLOW_OK;
}

const struct dsflow_policy dsf_policy_replace = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "replace",
    .summary = "what plug-ins have for a segment, where the job says so",
    .after = "pipeline",
    .decide = replace_decide,
    .rewrite = replace_rewrite,
};
