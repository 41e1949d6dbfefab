/* drift.c - things kept between steps that no optimizer has: a few numbers by
 * rank, by unit and by worker, in two bytes each, that each step changes. */
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

/* x = 3/4 x + i + 1 + k, what does not fit in two bytes cut off: it depends on
 * all steps so far. */
static void drift(const struct dsflow_call *call)
{
    const int32_t *k = call->args;
    uint16_t *x = call->bufs[0].ptr;

    for (int64_t i = 0; i < call->bufs[0].elems; i++) {
        uint32_t bits = (uint32_t)x[i] << 16;
        float f;

        memcpy(&f, &bits, sizeof(f));
        f = 0.75f * f + (float)i + 1 + (float)*k;
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
    static const struct {
        const char *name;
        enum dsflow_kept_kind kind;
    } things[] = { { "drift", DSFLOW_KEPT_BY_RANK },
                   { "drift_unit", DSFLOW_KEPT_BY_UNIT },
                   { "drift_worker", DSFLOW_KEPT_BY_WORKER } };
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < 3 && status == DSFLOW_OK; i++)
        status = dsflow_plan_keep(plan,
                                  &DSFLOW_KEPT(.name = things[i].name,
                                               .kind = things[i].kind,
                                               .dtype = DSFLOW_BF16, .ndims = 2,
                                               .dims = { ROWS, COLUMNS }),
                                  err);
    return status;
}

/* The thing `kept`, of a unit (-1: none) and a part, on a rank, drifts by k. */
static void drift_on(const struct dsflow_plan *plan, struct dsflow_graph *out,
                     const char *kept, int32_t rank, int32_t unit, int32_t part,
                     int32_t k)
{
    char name[60];
    dsflow_data_id x;

    snprintf(name, sizeof(name), "%s.%d.%d.%d", kept, (int)rank, (int)unit,
             (int)part);
    x = dsflow_graph_add_data(
        out,
        &DSFLOW_DATA(.name = name, .role = DSFLOW_STATES, .dtype = DSFLOW_BF16,
                     .elems = ROWS * COLUMNS, .block = ROWS * COLUMNS,
                     .home = (int16_t)rank, .persistent = 1, .unit = unit,
                     .part = part, .kept = dsflow_plan_kept(plan, kept)));
    dsflow_graph_add_task(
        out,
        &DSFLOW_TASK(.op = &op, .args = &k, .layer = -1, .microbatch = -1,
                     .tile = -1, .rank = (int16_t)rank, .program = DSFLOW_STEP,
                     .pass = DSFLOW_UPDATE, .ndata = 1, .data = &x));
}

/* What drifts at the end of a step: on each rank its own, and that of two
 * workers; on the first, that of the first two units. */
static void drift_all(const struct dsflow_plan *plan, struct dsflow_graph *out)
{
    for (int32_t r = 0; r < dsflow_plan_ranks(plan); r++) {
        drift_on(plan, out, "drift", r, -1, 0, r);
        for (int32_t w = 0; w < 2; w++)
            drift_on(plan, out, "drift_worker", r, -1, w, 10 * r + w);
    }
    for (int32_t u = 0; u < 2; u++)
        drift_on(plan, out, "drift_unit", 0, u, 0, 100 + u);
}

static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    uint32_t first, n = dsflow_graph_program_tasks(in, DSFLOW_STEP, &first);

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        dsflow_rewrite_task(&rw, dsflow_graph_task(in, (dsflow_task_id){ i }));
        if (i + 1 == first + n)
            drift_all(plan, out);
    }
    dsflow_rewrite_end(&rw);
    return DSFLOW_OK;
}

static const struct dsflow_policy policy = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "drift",
    .summary = "keeps a few numbers by rank, unit and worker",
    .after = "priorities",
    .decide = decide,
    .rewrite = rewrite,
};

const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI,
    .name = "drift",
    .summary = "things kept by rank, unit and worker",
    .ops = (const struct dsflow_op *const[]){ &op, NULL },
    .codelets = (const struct dsflow_codelet *const[]){ &codelet, NULL },
    .policies = (const struct dsflow_policy *const[]){ &policy, NULL },
};
