/* average.c - a program: every fifth step also adds the new parameters to their
 * exponential moving average (Polyak and Juditsky 1992): [average] every = 5.
 *
 * A graph has programs over the same data. `step` stays as it is; `average` has
 * the same tasks, and after each update one more. The plan says which steps run
 * it, and no bit of the training depends on it.
 *
 * The average is kept as states of an optimizer are (plan.h), so checkpoints
 * have it. The op says how it works on some numbers of a unit (op.h: slice), so
 * policies behind this one share the average out and move it as they do
 * parameters. */
#include <dsflow/plugin.h>
#include <dsflow/plan.h>
#include <dsflow/rewrite.h>

struct args { /* of a task; copied into the graph */
    int64_t elems, at, mean_at; /* where parameters and average begin */
    double decay;
};

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct args *a = c->args;

    if (a->elems < 0 || a->at < 0 || a->mean_at < 0 ||
        a->at + a->elems > c->shapes[0].elems ||
        a->mean_at + a->elems > c->shapes[1].elems)
        return dsflow_fail(err, DSFLOW_EINVAL, "average: %lld numbers from %lld"
                           " on: more than there are",
                           (long long)a->elems, (long long)a->at);
    return DSFLOW_OK;
}

static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct args *a = c->args;

    cost->flops = 3.0 * (double)a->elems;
    cost->bytes = 12.0 * (double)a->elems; /* read twice, written once */
}

static void slice(void *args, int64_t from, int64_t elems, const int64_t *gone)
{
    struct args *a = args;

    a->elems = elems;
    a->at += from == DSFLOW_SCATTERED ? 0 : from - gone[0];
    a->mean_at += from == DSFLOW_SCATTERED ? 0 : from - gone[1];
}

static const struct dsflow_op op = {
    .abi = DSFLOW_OP_ABI, .name = "average",
    .summary = "exponential moving average of parameters",
    .args_size = sizeof(struct args),
    DSFLOW_PORTS({ "param", DSFLOW_R, DSFLOW_FP32, DSFLOW_ELEMS },
                 { "mean", DSFLOW_RW, DSFLOW_FP32, DSFLOW_ELEMS }),
    .check = check, .cost = cost, .slice = slice,
};

static void average(const struct dsflow_call *call)
{
    const struct args *a = call->args;
    const float *param = (const float *)call->bufs[0].ptr + a->at;
    float *mean = (float *)call->bufs[1].ptr + a->mean_at;
    float share = (float)(1 - a->decay);

    for (int64_t i = 0; i < a->elems; i++)
        mean[i] += share * (param[i] - mean[i]);
}

/* Random cases for `dsflow codelet check`. */
static int make(const struct dsflow_op *op, uint64_t seed,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh)
{
    struct args *a = args;

    *a = (struct args){ (int64_t)(seed * 37 % 1000), (int64_t)(seed % 5),
                        (int64_t)(seed % 3), 0.9 + 0.01 * (double)(seed % 10) };
    shapes[0] = dsflow_shape_of(DSFLOW_FP32, a->at + a->elems);
    shapes[1] = dsflow_shape_of(DSFLOW_FP32, a->mean_at + a->elems);
    *n = 2;
    return DSFLOW_OK;
}

static const struct dsflow_trials trials = { .make = make };
static const struct dsflow_codelet codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &op, .cpu = average, .trials = &trials,
};

struct part { /* [average] */
    int64_t every;
    double decay;
};
static const struct dsflow_option options[] = {
    DSFLOW_OPTION_INT(struct part, every, "5", 1, 1000000, "steps"),
    DSFLOW_OPTION_FLOAT(struct part, decay, "0.99", 0, 1, "of the mean"),
    { 0 },
};

static int decide(void *part, struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsflow_kept kept = DSFLOW_KEPT(
        .name = "average", .kind = DSFLOW_KEPT_TENSORS, .dtype = DSFLOW_FP32);
    const struct part *p = part;
    int status = dsflow_plan_keep(plan, &kept, err);

    return status < 0 ? status : dsflow_plan_add_program(
        plan, &DSFLOW_PROGRAM_STEPS(.name = "average", .first = p->every,
                                   .every = p->every), err);
}

/* After an update, which has the parameters of a unit on port 2. */
static void add_mean(struct dsflow_rewrite *rw, const struct part *part,
                     const struct dsflow_plan *plan,
                     const struct dsflow_task_spec *update)
{
    struct args args = { .decay = part->decay };
    struct dsflow_data_spec mean = *dsflow_graph_data(rw->in, update->data[2]);
    dsflow_data_id data[2] = { dsflow_rewrite_data(rw, update->data[2]) };
    struct dsflow_task_spec t = *update; /* its layer, priority */

    args.elems = mean.elems;
    mean.role = DSFLOW_STATES;
    mean.kept = dsflow_plan_kept(plan, "average");
    data[1] = dsflow_rewrite_named(rw->out, &mean, "average.%d", mean.unit);
    t.op = &op;
    t.args = &args;
    t.ndata = 2;
    t.data = data;
    dsflow_graph_add_task(rw->out, &t);
}

/* All tasks as they are, and then those of `step` once more. */
static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    dsflow_program program = dsflow_graph_add_program(out, "average");
    uint32_t first, n = dsflow_graph_program_tasks(in, DSFLOW_STEP, &first);

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++)
        dsflow_rewrite_task(&rw, dsflow_graph_task(in, (dsflow_task_id){ i }));
    for (uint32_t i = 0; i < n; i++) {
        struct dsflow_task_spec t =
            *dsflow_graph_task(in, (dsflow_task_id){ first + i });

        t.program = program;
        dsflow_rewrite_task(&rw, &t);
        if (t.op->update)
            add_mean(&rw, part, plan, &t);
    }
    dsflow_rewrite_end(&rw);
    return DSFLOW_OK;
}

static const struct dsflow_policy policy = {
    .abi = DSFLOW_POLICY_ABI, .name = "average", .after = "reference",
    .summary = "a moving average of the parameters, some steps apart",
    .options = options, .part_size = sizeof(struct part),
    .decide = decide, .rewrite = rewrite,
};
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI, .name = "average", .summary = "averages",
    .ops = (const struct dsflow_op *const[]){ &op, NULL },
    .codelets = (const struct dsflow_codelet *const[]){ &codelet, NULL },
    .policies = (const struct dsflow_policy *const[]){ &policy, NULL },
};
