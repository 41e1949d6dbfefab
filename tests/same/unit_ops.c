/* unit_ops.c - an optimizer, a policy whose tasks follow its updates, and one
 * that scales losses. */
#include "unit_ops.h"

#include "plan/kept.h"
#include "tasks/tasks.h"

#include <dsflow/codelet.h>
#include <dsflow/optimizer.h>
#include <dsflow/policy.h>
#include <dsflow/rewrite.h>

#include "lib/test.h"

#include <string.h>

/* drift: m = m / 2 + g; param -= lr * m, a number that decays 1 % too. */
static void drift_cpu(const struct dsflow_call *call)
{
    const struct dsflow_update_args *a = call->args;
    const struct dsflow_control *c = call->bufs[0].ptr;
    const float *grad = (const float *)call->bufs[1].ptr + a->grad_at;
    float *param = (float *)call->bufs[2].ptr + a->param_at;
    float *m = call->bufs[3].ptr;

    for (int64_t i = 0; i < a->elems; i++) {
        m[i] = m[i] / 2 + grad[i] * (float)c->scale;
        param[i] -= (float)c->lr * m[i];
        if (i < a->decay)
            param[i] *= 0.99f;
    }
}

const struct dsflow_op op_drift = {
    .abi = DSFLOW_OP_ABI,
    .name = "drift",
    .summary = "an update that a test brings",
    .direction = DSFLOW_DIR_UPDATE,
    .update = 1,
    .args_size = sizeof(struct dsflow_update_args),
    DSFLOW_PORTS({ "control", DSFLOW_R },
                 { "grad", DSFLOW_R, DSFLOW_FP32, DSFLOW_ELEMS },
                 { "param", DSFLOW_RW, DSFLOW_FP32, DSFLOW_ELEMS },
                 { "m", DSFLOW_RW, DSFLOW_FP32, DSFLOW_ELEMS }),
    .check = dsflow_update_check,
    .slice = dsflow_update_slice,
};

static const struct dsflow_codelet codelet_drift = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &op_drift,
    .cpu = drift_cpu,
};

static const struct dsflow_optimizer drift = {
    .abi = DSFLOW_OPTIMIZER_ABI,
    .name = "drift",
    .summary = "an optimizer that a test brings",
    .op = &op_drift,
    .states = (const char *const[]){ "m", NULL },
};

/* shrink: each number of a unit is multiplied. */
struct shrink_args {
    int64_t elems, at;
    double by;
};

static void shrink_cpu(const struct dsflow_call *call)
{
    const struct shrink_args *a = call->args;
    float *x = (float *)call->bufs[0].ptr + a->at;

    for (int64_t i = 0; i < a->elems; i++)
        x[i] *= (float)a->by;
}

static int shrink_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct shrink_args *a = c->args;

    return a->at >= 0 && a->elems <= c->shapes[0].elems - a->at
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EINVAL, "shrink: out of bounds");
}

static void shrink_slice(void *args, int64_t from, int64_t elems,
                         const int64_t *gone)
{
    struct shrink_args *a = args;

    a->elems = elems;
    a->at += from < 0 ? 0 : from - gone[0];
}

const struct dsflow_op op_shrink = {
    .abi = DSFLOW_OP_ABI,
    .name = "shrink",
    .summary = "each number of a unit, made smaller",
    .direction = DSFLOW_DIR_UPDATE,
    .args_size = sizeof(struct shrink_args),
    DSFLOW_PORTS({ "param", DSFLOW_RW, DSFLOW_FP32, DSFLOW_ELEMS }),
    .check = shrink_check,
    .slice = shrink_slice,
};

static const struct dsflow_codelet codelet_shrink = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &op_shrink,
    .cpu = shrink_cpu,
};

struct shrink {
    double by;
};

static const struct dsflow_option options[] = {
    DSFLOW_OPTION_FLOAT(struct shrink, by, "1", 0, 1,
                        "what parameters are multiplied by after each update"),
    { 0 },
};

/* Behind each update of a unit, a task that shrinks its parameters. */
static int shrink_rewrite(const void *part, const struct dsflow_plan *plan,
                          struct dsflow_graph *in, struct dsflow_graph *out,
                          struct dsflow_err *err)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    const struct shrink *p = part;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        struct dsflow_task_spec t =
            *dsflow_graph_task(in, (dsflow_task_id){ i });
        struct shrink_args args = { 0, 0, p->by };

        dsflow_rewrite_task(&rw, &t);
        if (!t.op->update || p->by == 1)
            continue;
        args.elems = ((const struct dsflow_update_args *)t.args)->elems;
        t.op = &op_shrink;
        t.args = &args;
        t.data = &t.data[2];
        t.ndata = 1;
        dsflow_rewrite_task(&rw, &t);
    }
    dsflow_rewrite_end(&rw);
    return DSFLOW_OK;
}

static const struct dsflow_policy shrink = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "shrink",
    .summary = "parameters that a test makes smaller",
    .after = "reference",
    .options = options,
    .part_size = sizeof(struct shrink),
    .rewrite = shrink_rewrite,
};

struct scaled {
    double initial;
    int64_t window, hysteresis;
};

static const struct dsflow_option scaled_options[] = {
    DSFLOW_OPTION_FLOAT(struct scaled, initial, "0", 0, 1e6,
                        "the first loss scale; 0: losses are not scaled"),
    DSFLOW_OPTION_INT(struct scaled, window, "1000", 1, 1000,
                      "steps after which it doubles"),
    DSFLOW_OPTION_INT(struct scaled, hysteresis, "1", 1, 1000,
                      "overflows after which it is halved"),
    { 0 },
};

/* What a task gets in place of its own. */
struct scaling {
    struct dsf_loss_scale scale;
    dsflow_data_id control, scaler, data[DSFLOW_SEGMENT_PORTS];
    struct dsf_begin_args begin;
    struct dsf_clip_args clip;
};

/* One port more, the last one. */
static void add_port(struct scaling *s, struct dsflow_task_spec *t,
                     dsflow_data_id id)
{
    memcpy(s->data, t->data, t->ndata * sizeof(*s->data));
    s->data[t->ndata++] = id;
    t->data = s->data;
}

static void scale_task(void *user, struct dsflow_task_spec *t)
{
    struct scaling *s = user;

    if (t->op == &dsf_op_begin || t->op == &dsf_op_clip ||
        t->op == &dsf_op_report)
        add_port(s, t, s->scaler);
    if (t->op == &dsf_op_begin) {
        s->begin = *(const struct dsf_begin_args *)t->args;
        s->begin.scale = s->scale;
        t->args = &s->begin;
    }
    if (t->op == &dsf_op_clip) {
        s->clip = *(const struct dsf_clip_args *)t->args;
        s->clip.scale = s->scale;
        t->args = &s->clip;
    }
    if (t->op == &dsf_op_head_forward && t->program == DSFLOW_STEP) {
        add_port(s, t, s->control);
        t->without &= ~(1u << DSFLOW_HEAD_CONTROL);
    }
}

static int scaled_decide(void *part, struct dsflow_plan *plan,
                         struct dsflow_err *err)
{
    const struct scaled *p = part;

    return p->initial == 0
               ? DSFLOW_OK
               : dsflow_plan_keep(
                     plan,
                     &DSFLOW_KEPT(.name = "scaled", .kind = DSFLOW_KEPT_ONE,
                                  .dtype = DSFLOW_BYTES, .ndims = 1,
                                  .dims = { sizeof(struct dsf_scaler) }),
                     err);
}

static int scaled_rewrite(const void *part, const struct dsflow_plan *plan,
                          struct dsflow_graph *in, struct dsflow_graph *out,
                          struct dsflow_err *err)
{
    const struct scaled *p = part;
    struct scaling s = { .scale = { .initial = p->initial,
                                    .least = 1,
                                    .window = p->window,
                                    .hysteresis = (int32_t)p->hysteresis } };

    if (p->initial == 0)
        return DSFLOW_UNCHANGED;
    while (dsflow_graph_data(in, s.control)->kept != 1 + DSF_KEPT_CONTROL)
        s.control.i++;
    s.scaler = dsflow_graph_add_data(
        in, &DSFLOW_DATA(.name = "scaled", .dtype = DSFLOW_BYTES,
                         .elems = sizeof(struct dsf_scaler), .unit = -1,
                         .role = DSFLOW_BUFFERS, .home = DSFLOW_ANYWHERE,
                         .persistent = 1,
                         .kept = dsflow_plan_kept(plan, "scaled")));
    dsflow_rewrite_all(in, out, scale_task, &s);
    return DSFLOW_OK;
}

static const struct dsflow_policy scaled = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "scaled",
    .summary = "losses that a test scales",
    .after = "reference",
    .options = scaled_options,
    .part_size = sizeof(struct scaled),
    .decide = scaled_decide,
    .rewrite = scaled_rewrite,
};

void add_unit_ops(void)
{
    struct dsflow_err err;

    assert_int_equal(dsflow_op_register(&op_drift, &err), DSFLOW_OK);
    assert_int_equal(dsflow_op_register(&op_shrink, &err), DSFLOW_OK);
    assert_int_equal(dsflow_codelet_register(&codelet_drift, &err), DSFLOW_OK);
    assert_int_equal(dsflow_codelet_register(&codelet_shrink, &err),
                     DSFLOW_OK);
    if (dsflow_optimizer_register(&drift, &err) < 0 ||
        dsflow_policy_register(&shrink, &err) < 0 ||
        dsflow_policy_register(&scaled, &err) < 0)
        fail_msg("%s", err.msg);
}
