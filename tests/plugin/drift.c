/* drift.c - something kept between steps that no optimizer has: a few numbers by
 * rank, in two bytes each, that each step changes. */
#include <stdio.h>
#include <string.h>
#include <dsflow/plan.h>
#include <dsflow/plugin.h>
#include <dsflow/rewrite.h>

enum { ROWS = 3, COLUMNS = 4 };

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return c->shapes[0].dtype == DSFLOW_BF16
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EINVAL, "drift: expected bf16");
}

/* x = 3/4 x + i + 1 + rank, what does not fit in two bytes cut off: it depends
 * on all steps so far. */
static void drift(const struct dsflow_call *call)
{
    const int32_t *rank = call->args;
    uint16_t *x = call->bufs[0].ptr;

    for (int64_t i = 0; i < call->bufs[0].elems; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        float f;

        memcpy(&f, &bits, sizeof(f));
        f = 0.75f * f + (float)i + 1 + (float)*rank;
        memcpy(&bits, &f, sizeof(f));
        x[i] = (uint16_t)(bits >> 16);
    }
}

static const struct dsflow_op op = {
    .abi = DSFLOW_OP_ABI,
    .name = "drift",
    .summary = "numbers that depend on all steps so far",
    .args_size = sizeof(int32_t),
    DSFLOW_PORTS({ .name = "x", .access = DSFLOW_RW }),
    .check = check,
};

static const struct dsflow_codelet codelet = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &op,
    .cpu = drift,
};

static int decide(void *part, struct dsflow_plan *plan, struct dsflow_err *err)
{
    return dsflow_plan_keep(plan,
                            &DSFLOW_KEPT(.name = "drift",
                                         .kind = DSFLOW_KEPT_BY_RANK,
                                         .dtype = DSFLOW_BF16, .ndims = 2,
                                         .dims = { ROWS, COLUMNS }),
                            err);
}

static void drift_on(const struct dsflow_plan *plan, struct dsflow_graph *out,
                     int32_t rank)
{
    char name[40];
    dsflow_data_id x;

    snprintf(name, sizeof(name), "drift.r%d", (int)rank);
    x = dsflow_graph_add_data(
        out, &DSFLOW_DATA(.name = name, .role = DSFLOW_STATES,
                          .dtype = DSFLOW_BF16, .elems = ROWS * COLUMNS,
                          .home = (int16_t)rank, .persistent = 1, .unit = -1,
                          .kept = dsflow_plan_kept(plan, "drift")));
    dsflow_graph_add_task(out,
                          &DSFLOW_TASK(.op = &op, .args = &rank, .layer = -1,
                                       .microbatch = -1, .tile = -1,
                                       .rank = (int16_t)rank,
                                       .program = DSFLOW_STEP,
                                       .pass = DSFLOW_UPDATE, .ndata = 1,
                                       .data = &x));
}

static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    uint32_t first, n = dsflow_graph_program_tasks(in, DSFLOW_STEP, &first);

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        dsflow_rewrite_task(&rw, dsflow_graph_task(in, (dsflow_task_id){ i }));
        for (int32_t r = 0; i + 1 == first + n && r < dsflow_plan_ranks(plan);
             r++)
            drift_on(plan, out, r);
    }
    dsflow_rewrite_end(&rw);
    return DSFLOW_OK;
}

static const struct dsflow_policy policy = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "drift",
    .summary = "keeps a few numbers by rank",
    .after = "priorities",
    .decide = decide,
    .rewrite = rewrite,
};

const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI,
    .name = "drift",
    .summary = "something kept by rank",
    .ops = (const struct dsflow_op *const[]){ &op, NULL },
    .codelets = (const struct dsflow_codelet *const[]){ &codelet, NULL },
    .policies = (const struct dsflow_policy *const[]){ &policy, NULL },
};
