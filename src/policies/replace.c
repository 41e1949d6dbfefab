/* replace.c - other kinds of task in the place of the built-in ones: what the
 * job names for a segment, as in [model] attention = "mine".
 *
 * They have the same ports and arguments (segments.c), so nothing else in the
 * graph changes, and nobody before this policy need know of them; no policy
 * behind it asks which op a task has.
 */
#include "policies/keys.h"

#include <dsflow/rewrite.h>

#include "segments/segment.h"

#include <string.h>

/* Where losses are scaled, the head multiplies gradients by what control says.
 */
static int check_head(const struct dsf_job *job, struct dsflow_err *err)
{
    const struct dsflow_op *op = dsf_job_op(job, &dsf_op_head_forward);

    if (dsf_compute_type(job) != DSFLOW_FP16 ||
        op->nports > DSFLOW_HEAD_CONTROL)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "precision", "compute",
                        "\"fp16\": %s has no port control, by which it would "
                        "scale gradients (model.head): expected one, or "
                        "\"fp32\" or \"bf16\"",
                        op->name);
}

static int replace_decide(void *part, struct dsflow_plan *plan,
                          struct dsflow_err *err)
{
    const char *name;

    for (unsigned i = 0; (name = dsf_segment_name(i)) != NULL; i++)
        if (dsf_job_segment(plan->job, name, err) == NULL)
            return DSFLOW_EINVAL;
    if (plan->head_columns > 0 &&
        strcmp(dsf_job_replacing(plan->job, "head"), "builtin") != 0)
        return dsf_job_fail(
            plan->job, err, DSFLOW_EINVAL, "batch", "head_columns",
            "%d: \"%s\" (model.head) has all logits at a time: "
            "expected 0",
            (int)plan->head_columns, dsf_job_replacing(plan->job, "head"));
    return check_head(plan->job, err);
}

/* A replaced kind may lack the last ports, which tasks leave out then. */
static void replace(void *job, struct dsflow_task_spec *t)
{
    const struct dsflow_op *op = dsf_job_op(job, t->op);

    if (op != t->op)
        t->without &= UINT32_MAX >> (32 - op->nports);
    t->op = op;
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
