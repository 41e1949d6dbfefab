/* good.c - a plug-in with a component of every sort, for plugin.sh; BAD, from 1
 * on, makes one thing of it wrong. */
#include <dsflow.h>

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BAD
#define BAD 0
#endif
#define WRONG(n, bad, good) (BAD == (n) ? (bad) : (good))

/* A whole optimizer: each matrix moves by a share of its own length, which no
 * shard of it could know. */
#define PULL struct pull
PULL {
    double share;
    char *note;
};

static const struct dsflow_option pull_options[] = {
    DSFLOW_OPTION_FLOAT(PULL, share, BAD == 1 ? "2.0" : "0.5", 0, 1,
                        "of the gradient that is kept"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, PULL, note, "\"\"", "for people"),
    { 0 },
};

struct pull_args {
    struct dsflow_update_args at;
    double share;
};

static int pull_fill(const void *part,
                     const struct dsflow_optimizer_keys *keys, void *args,
                     struct dsflow_err *err)
{
    const struct pull *p = part;

    if (strcmp(p->note, "refuse") == 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "note: refused");
    ((struct pull_args *)args)->share = p->share;
    return DSFLOW_OK;
}

static void pull_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    dsflow_update_cost(c, 6, cost);
}

static const struct dsflow_op pull_op = {
    .abi = WRONG(2, 77, DSFLOW_OP_ABI),
    .name = WRONG(3, "adam", "pull"),
    .direction = DSFLOW_DIR_UPDATE,
    .update = WRONG(42, 0, 1),
    .summary = "towards the gradient, by the length of each tensor",
    .args_size = WRONG(4, 8, sizeof(struct pull_args)),
    DSFLOW_PORTS(
        { "control", DSFLOW_R },
        { "grad", WRONG(5, DSFLOW_RW, DSFLOW_R), .slice = DSFLOW_ELEMS },
        { "param", DSFLOW_RW, .dtype = WRONG(52, 77, DSFLOW_BYTES),
          .slice = WRONG(53, 9, DSFLOW_ELEMS) },
        { "mean", DSFLOW_RW, .slice = WRONG(44, DSFLOW_BLOCKS, DSFLOW_ELEMS) }),
    .check = WRONG(6, NULL, dsflow_update_check),
    .slice = WRONG(43, NULL, dsflow_update_slice),
    .cost = pull_cost,
};

static void pull_cpu(const struct dsflow_call *call)
{
    const struct pull_args *a = call->args;
    const struct dsflow_control *c = call->bufs[0].ptr;
    const float *grad = (const float *)call->bufs[1].ptr + a->at.grad_at;
    float *param = (float *)call->bufs[2].ptr + a->at.param_at;
    float *mean = call->bufs[3].ptr;

    if (BAD == 51)
        abort();
    if (BAD == 55)
        exit(0);
    for (int32_t t = 0; t < a->at.ntensors; t++) {
        const struct dsflow_tensor *at = &a->at.tensors[t];
        int64_t end = at->at + at->rows * at->cols;
        double sum = 0;

        for (int64_t i = at->at; i < end; i++) {
            mean[i] = (float)(a->share * mean[i] + c->scale * grad[i]);
            sum += (double)mean[i] * mean[i];
        }
        for (int64_t i = at->at; i < end; i++)
            param[i] -= (float)(c->lr * mean[i] / (sqrt(sum) + 1e-12));
    }
}

static const struct dsflow_codelet pull_codelet = {
    .abi = WRONG(7, 77, DSFLOW_CODELET_ABI),
    .op = &pull_op,
    .cpu = WRONG(8, NULL, pull_cpu),
};

static const struct dsflow_optimizer pull = {
    .abi = WRONG(9, 77, DSFLOW_OPTIMIZER_ABI),
    .name = WRONG(10, "lion", "pull"),
    .summary = WRONG(11, NULL, "by the length of each tensor"),
    .op = WRONG(12, NULL, &pull_op),
    .states =
        (const char *const[]){ WRONG(13, "mean_of_gradients", "me.an"), NULL },
    .whole = 1,
    .options = pull_options,
    .part_size = WRONG(14, 4, sizeof(struct pull)),
    .fill = pull_fill,
};

/* A rate that goes down by a half every so often. */
struct halves {
    int64_t every;
};
static const struct dsflow_option halves_options[] = {
    DSFLOW_OPTION_INT(struct halves, every, NULL, 1, 1000, "steps of a rate"),
    { 0 },
};

static double halves_lr(const void *part, const struct dsflow_lr_keys *keys,
                        int64_t step)
{
    return ldexp(keys->lr, -(int)(step / ((const struct halves *)part)->every));
}

static const struct dsflow_lr_schedule halves = {
    .abi = WRONG(15, 77, DSFLOW_LR_SCHEDULE_ABI),
    .name = WRONG(16, "constant", "halves"),
    .summary = "half as much every so often",
    .options = halves_options,
    .part_size = WRONG(17, 129, sizeof(struct halves)),
    .lr = WRONG(18, NULL, halves_lr),
};

/* Attention that leaves the work to the built-in one, and knows of it. */
static int same_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return dsflow_op_find("attention.forward")->check(c, err);
}

static void same_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    dsflow_op_find("attention.forward")->cost(c, cost);
}

static size_t same_scratch(const struct dsflow_case *c)
{
    return dsflow_op_find("attention.forward")->scratch(c);
}

static const struct dsflow_op same_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "same.attention",
    .segment = "attention",
    .direction = WRONG(41, DSFLOW_DIR_NONE, DSFLOW_DIR_FORWARD),
    .summary = "what the built-in attention does",
    .args_size = WRONG(19, 8, sizeof(struct dsflow_attention_args)),
    .nports = WRONG(20, 3, 4),
    .ports = (const struct dsflow_port[]){ { "q", DSFLOW_R },
                                           { WRONG(21, "vk", "kv"), DSFLOW_R },
                                           { "att", DSFLOW_RW },
                                           { "lse", DSFLOW_RW } },
    .check = same_check,
    .cost = same_cost,
    .scratch = same_scratch,
};

static void same_cpu(const struct dsflow_call *call)
{
    dsflow_codelet_find(dsflow_op_find("attention.forward"))->cpu(call);
}

static const struct dsflow_codelet same_codelet = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &same_op,
    .cpu = same_cpu,
};

static const struct dsflow_segment same = {
    .abi = WRONG(22, 77, DSFLOW_SEGMENT_ABI),
    .name = "same",
    .summary = "the built-in attention by another name",
    .replaces = WRONG(23, "norm", "attention"),
    .forward = WRONG(24, NULL, &same_op),
};

/* All forwards before the first backward; but for some chunks, as many as the
 * job says. */
struct hold {
    int64_t chunk, slots;
};
static const struct dsflow_option hold_options[] = {
    DSFLOW_OPTION_INT(struct hold, chunk, NULL, 0, 64, "the chunk"),
    DSFLOW_OPTION_INT(struct hold, slots, "1", 1, 64,
                      "micro-batches that it keeps"),
    { 0 },
};
struct patient {
    int64_t from; /* the first chunk that is */
    struct dsflow_tables hold;
};
static const struct dsflow_option patient_options[] = {
    DSFLOW_OPTION_INT(struct patient, from, "0", 0, 64,
                      "chunks before this one are left alone"),
    DSFLOW_OPTION_TABLES(struct patient, hold, hold_options, struct hold,
                         "a chunk that is less patient"),
    { 0 },
};

static int patient_decide(void *part, struct dsflow_plan *plan,
                          struct dsflow_err *err)
{
    const struct patient *p = part;

    if (p->from > dsflow_plan_chunks(plan))
        return dsflow_plan_fail(plan, err, DSFLOW_EINVAL, "patient", "from",
                                "%d: expected at most the %d chunks",
                                (int)p->from, (int)dsflow_plan_chunks(plan));
    for (int32_t c = (int32_t)p->from; c < dsflow_plan_chunks(plan); c++) {
        dsflow_plan_set_activation_slots(plan, c,
                                         dsflow_plan_micro_steps(plan));
        dsflow_plan_set_grad_slots(plan, c, 2);
    }
    for (unsigned i = 0; i < p->hold.n; i++) {
        const struct hold *hold = (const struct hold *)p->hold.v + i;
        char table[32];

        snprintf(table, sizeof(table), "patient.hold[%u]", i);
        if (hold->chunk >= dsflow_plan_chunks(plan))
            return dsflow_plan_fail(plan, err, DSFLOW_EINVAL, table, "chunk",
                                    "%d: expected less than the %d chunks",
                                    (int)hold->chunk,
                                    (int)dsflow_plan_chunks(plan));
        dsflow_plan_set_activation_slots(plan, (int32_t)hold->chunk,
                                         (int32_t)hold->slots);
    }
    return DSFLOW_OK;
}

static void forwards_first(void *user, struct dsflow_task_spec *t)
{
    t->priority /= 2;
    if (BAD == 35)
        t->rank = 99;
    if (t->pass == DSFLOW_FORWARD)
        t->priority += DSFLOW_TOP_PRIORITY / 2;
}

static int patient_rewrite(const void *part, const struct dsflow_plan *plan,
                           struct dsflow_graph *in, struct dsflow_graph *out,
                           struct dsflow_err *err)
{
    dsflow_rewrite_all(in, out, forwards_first, NULL);
    return DSFLOW_OK;
}

static const struct dsflow_policy patient = {
    .abi = WRONG(25, 77, DSFLOW_POLICY_ABI),
    .name = "patient",
    .summary = "all forwards before the first backward",
    .after = WRONG(26, "nobody", WRONG(27, NULL, "priorities")),
    .options = patient_options,
    .part_size = sizeof(struct patient),
    .decide = patient_decide,
    .rewrite = WRONG(28, NULL, patient_rewrite),
};

/* Every second half of a number: sixteen bits of it. */
static size_t cut_bytes(size_t block)
{
    return 2 * block;
}

static void cut_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < block * n; i++)
        memcpy(out + 2 * i, (const uint8_t *)(in + i) + 2, 2);
}

static void cut_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    memset(out, 0, block * n * sizeof(*out));
    for (size_t i = 0; i < block * n; i++)
        memcpy((uint8_t *)(out + i) + 2, in + 2 * i, 2);
}

static const struct dsflow_wire_format cut = {
    .abi = WRONG(45, 77, DSFLOW_WIRE_FORMAT_ABI),
    .name = WRONG(46, "int8", "cut"),
    .summary = "the upper half of each number",
    .block = WRONG(47, 10, 64),
    .error = 1.0 / 128,
    .bytes = cut_bytes,
    .encode = WRONG(48, NULL, cut_encode),
    .decode = cut_decode,
};

static const struct dsflow_op *const ops[] = { &pull_op,
                                               WRONG(29, NULL, &same_op),
                                               NULL };
static const struct dsflow_codelet *const codelets[] = {
    &same_codelet, WRONG(36, NULL, &pull_codelet), NULL
};
static const struct dsflow_optimizer *const optimizers[] = { &pull, NULL };
static const struct dsflow_lr_schedule *const schedules[] = { &halves, NULL };
static const struct dsflow_segment *const segments[] = { &same, NULL };
static const struct dsflow_policy *const policies[] = { &patient, NULL };
static const struct dsflow_wire_format *const formats[] = { &cut, NULL };

#if BAD == 30
extern int nobody_defines_this(void);
int (*use)(void) = nobody_defines_this;
#endif
#if BAD == 49
/* Not wrong: as -Ofast does, it changes how numbers are rounded. */
__attribute__((constructor)) static void round_upward(void)
{
    fesetround(FE_UPWARD);
}
#endif
#if BAD == 50
__attribute__((constructor)) static void crash(void)
{
    abort();
}
#endif
#if BAD == 54
__attribute__((constructor)) static void leave(void)
{
    exit(0);
}
#endif
#if BAD == 31
#define OBJECT another_name
#else
#define OBJECT dsflow_plugin
#endif
extern DSFLOW_API const struct dsflow_plugin OBJECT;
const struct dsflow_plugin OBJECT = {
    .abi = WRONG(32, 77, DSFLOW_PLUGIN_ABI),
    .name = WRONG(33, NULL, "good"),
    .summary = "a component of every sort",
    .ops = WRONG(34, NULL, ops),
    .codelets = WRONG(34, NULL, codelets),
    .optimizers = WRONG(34, NULL, optimizers),
    .schedules = WRONG(34, NULL, schedules),
    .segments = WRONG(34, NULL, segments),
    .policies = WRONG(34, NULL, policies),
    .formats = WRONG(34, NULL, formats),
};
