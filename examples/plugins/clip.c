/* clip.c - a task: the gradient of each unit of parameters (a segment of a
 * layer) is scaled down to a norm of its own: [unit_clip] norm = 0.2.
 *
 * A kind of task is an op (what the graph sees), a codelet (what computes it),
 * and something that puts such tasks into the graph: here, a policy. */
#include "clip.h"
#include <dsflow/plugin.h>
#include <dsflow/plan.h>
#include <dsflow/rewrite.h>
#include <math.h>

/* The graph asks once for each task: do its shapes make sense? */
static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct args *a = c->args;

    if (a->elems < 0 || a->elems > c->shapes[0].elems)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "unit_clip: %lld numbers of %lld",
                           (long long)a->elems, (long long)c->shapes[0].elems);
    return DSFLOW_OK;
}

/* The simulator and the scheduler ask what it takes. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct args *a = c->args;

    cost->flops = 3.0 * (double)a->elems;
    cost->bytes = 12.0 * (double)a->elems; /* read twice, written once */
}

/* Working memory, of the CUDA side: the sum of each block. */
static size_t scratch(const struct dsflow_case *c)
{
    return (size_t)blocks(c->args) * sizeof(double);
}

static const struct dsflow_op op = {
    .abi = DSFLOW_OP_ABI, .name = "unit_clip",
    .summary = "the gradient of a unit, scaled to a norm",
    .args_size = sizeof(struct args), DSFLOW_PORTS({ "grad", DSFLOW_RW, DSFLOW_FP32 }),
    .check = check, .cost = cost, .scratch = scratch,
};

/* One thread, nothing kept, and sums in one order: the same bits every time. */
static void clip(const struct dsflow_call *call)
{
    const struct args *a = call->args;
    float *grad = call->bufs[0].ptr, factor;
    double sum = 0;

    for (int64_t i = 0; i < a->elems; i++)
        sum += (double)grad[i] * grad[i];
    factor = (float)fmin(1, a->norm / sqrt(sum));
    for (int64_t i = 0; i < a->elems; i++)
        grad[i] *= factor;
}

/* Random cases for `dsflow codelet check`. */
static int make(const struct dsflow_op *op, uint64_t seed,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh)
{
    struct args *a = args;

    a->elems = (int64_t)(seed * 379 % 5000);
    a->norm = seed % 4; /* 0: everything is clipped */
    shapes[0] = dsflow_shape_of(DSFLOW_FP32, a->elems + seed % 3 * 16);
    *n = 1;
    return DSFLOW_OK;
}

static const struct dsflow_trials trials = { .make = make };
static const struct dsflow_codelet codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &op, .cpu = clip, .trials = &trials,
#ifdef HAVE_CUDA
    .cuda = unit_clip_cuda,
#endif
};

/* The policy's table in job.toml, and its place in the plan. */
struct part {
    double norm;
};
static const struct dsflow_option options[] = {
    DSFLOW_OPTION_FLOAT(struct part, norm, "1", 0, 1e9,
                        "the largest norm of the gradient of a unit"),
    { 0 },
};

static int decide(void *part, struct dsflow_plan *plan, struct dsflow_err *err)
{
    if (dsflow_plan_axis(plan, "data") > 1 ||
        dsflow_plan_axis(plan, "tensor") > 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "unit_clip: expected mesh.data = 1 and mesh.tensor "
                           "= 1: a rank must have whole units");
    return DSFLOW_OK;
}

/* Is it the task of an optimizer? Its ports are control, grad, param, … */
static int updates(const struct dsflow_task_spec *t)
{
    const struct dsflow_optimizer *o;

    for (unsigned i = 0; (o = dsflow_optimizer_at(i)) != NULL; i++)
        if (o->op == t->op)
            return 1;
    return 0;
}

/* The same tasks, and before each update one that clips its gradient. */
static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    const struct part *p = part;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        dsflow_task_id id = { i };
        struct dsflow_task_spec t = *dsflow_graph_task(in, id);

        if (updates(&t)) {
            const struct dsflow_update_args *update = t.args;
            struct args a = { update->elems, p->norm };
            struct dsflow_task_spec clip = t; /* its rank, layer, priority */

            clip.op = &op;
            clip.args = &a;
            clip.ndata = 1;
            clip.data = &t.data[1];
            dsflow_rewrite_task(&rw, &clip);
        }
        dsflow_rewrite_task(&rw, &t);
    }
    dsflow_rewrite_end(&rw);
    return DSFLOW_OK;
}

static const struct dsflow_policy policy = {
    .abi = DSFLOW_POLICY_ABI, .name = "unit_clip", .after = "priorities",
    .summary = "the gradient of each unit clipped by its own norm",
    .options = options, .part_size = sizeof(struct part),
    .decide = decide, .rewrite = rewrite,
};
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI, .name = "clip", .summary = "clipping by unit",
    .ops = (const struct dsflow_op *const[]){ &op, NULL },
    .codelets = (const struct dsflow_codelet *const[]){ &codelet, NULL },
    .policies = (const struct dsflow_policy *const[]){ &policy, NULL },
};
