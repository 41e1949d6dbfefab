/* poison.c - a policy that spoils the gradient of the first unit in some steps:
 * [poison] from, steps. What a run does with a gradient that is not finite shows
 * with it. */
#include <dsflow/graph.h>
#include <dsflow/plugin.h>
#include <dsflow/policy.h>
#include <dsflow/rewrite.h>
#include <math.h>
#include <string.h>

struct poison {
    int64_t from, steps;
};
static const struct dsflow_option options[] = {
    DSFLOW_OPTION_INT(struct poison, from, "1", 1, 1000, "the first step"),
    DSFLOW_OPTION_INT(struct poison, steps, "1", 0, 1000, "steps in a row"),
    { 0 },
};

static void poison(const struct dsflow_call *call)
{
    const struct poison *p = call->args;
    int64_t step = *(const int64_t *)call->bufs[1].ptr + 1;
    float *grad = call->bufs[0].ptr;

    if (step >= p->from && step < p->from + p->steps)
        grad[0] = INFINITY;
}

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

/* Each slice is spoilt where it begins. */
static void slice(void *args, int64_t from, int64_t elems, const int64_t *gone)
{
}

static const struct dsflow_op op = {
    .abi = DSFLOW_OP_ABI, .name = "poison", .summary = "an infinite gradient",
    .args_size = sizeof(struct poison), .direction = DSFLOW_DIR_UPDATE,
    DSFLOW_PORTS({ "grad", DSFLOW_RW, DSFLOW_FP32, DSFLOW_ELEMS },
                 { "cursor", DSFLOW_R, DSFLOW_INT64 }),
    .check = check, .slice = slice,
};
static const struct dsflow_codelet codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &op, .cpu = poison,
};

/* The same tasks, and one in front of the first unit's squares. */
static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    dsflow_data_id cursor = { 0 };

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        struct dsflow_task_spec t =
            *dsflow_graph_task(in, (dsflow_task_id){ i });
        struct dsflow_task_spec spoilt = t;

        if (strcmp(t.op->name, "load_batch") == 0)
            cursor = t.data[0];
        spoilt.op = &op;
        spoilt.args = part;
        spoilt.data = (dsflow_data_id[]){ t.data[0], cursor };
        if (strcmp(t.op->name, "square") == 0 &&
            dsflow_graph_data(in, t.data[0])->unit == 0)
            dsflow_rewrite_task(&rw, &spoilt);
        dsflow_rewrite_task(&rw, &t);
    }
    dsflow_rewrite_end(&rw);
    return DSFLOW_OK;
}

static const struct dsflow_policy policy = {
    .abi = DSFLOW_POLICY_ABI, .name = "poison", .after = "reference",
    .summary = "spoils gradients", .options = options,
    .part_size = sizeof(struct poison), .rewrite = rewrite,
};
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI, .name = "poison", .summary = "spoils gradients",
    .ops = (const struct dsflow_op *const[]){ &op, NULL },
    .codelets = (const struct dsflow_codelet *const[]){ &codelet, NULL },
    .policies = (const struct dsflow_policy *const[]){ &policy, NULL },
};
