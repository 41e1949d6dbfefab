/* task_update.c - the optimizers. They differ in their ports and in their
 * arithmetic only. */
#include "tasks/tasks.h"

#include "tasks/components.h"
#include "tasks/lamb.h"
#include "tasks/shapes.h"

#include <stdbool.h>

/* The port `copy` of ops that have both means, m and v. */
enum { M = 3, LAST = 5 };

int dsf_update_check_but(const struct dsflow_case *c, unsigned but,
                         struct dsflow_err *err)
{
    const struct dsflow_update_args *a = c->args;
    const int64_t at[] = { 0, a->grad_at, a->param_at };
    int status;

    if (a->elems < 0 || a->decay < 0 || a->decay > a->elems ||
        a->grad_at < 0 || a->param_at < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld of %lld numbers decay", c->op->name,
                           (long long)a->decay, (long long)a->elems);
    status = dsf_control_check(c, 0, err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        if (i < 3 || (c->shapes[i].bytes > 0 && i != but &&
                      i != dsf_optimizer_copy_port(c->op)))
            status = dsf_range_check(c, i, dsf_float_type(c, i),
                                     i < 3 ? at[i] : 0, a->elems, err);
    return status;
}

int dsflow_update_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return dsf_update_check_but(c, 0, err);
}

/* The tensors that have numbers among these, as seen from the first of them. */
static void slice_tensors(struct dsflow_update_args *a, int64_t from)
{
    int32_t n = 0;

    for (int32_t i = 0; i < a->ntensors; i++) {
        struct dsflow_tensor t = a->tensors[i];

        t.at -= from;
        if (t.at < a->elems && t.at + t.rows * t.cols > 0)
            a->tensors[n++] = t;
    }
    a->ntensors = n;
}

void dsflow_update_slice(void *args, int64_t from, int64_t elems,
                         const int64_t *gone)
{
    struct dsflow_update_args *a = args;

    a->elems = elems;
    if (from < 0) {
        a->ntensors = 0;
        return;
    }
    a->decay = a->decay < from ? 0 : a->decay - from;
    a->decay = a->decay > elems ? elems : a->decay;
    a->grad_at += from - gone[1];
    a->param_at += from - gone[2];
    slice_tensors(a, from);
}

void dsflow_update_cost(const struct dsflow_case *c, double flops,
                        struct dsflow_cost *cost)
{
    const struct dsflow_update_args *a = c->args;

    cost->flops = flops * (double)a->elems;
    for (unsigned i = 1; i < c->n; i++)
        if (c->shapes[i].bytes > 0)
            cost->bytes +=
                (i == 1 || i == dsf_optimizer_copy_port(c->op) ? 1.0 : 2.0) *
                (double)dsflow_dtype_bytes(c->shapes[i].dtype, a->elems);
}

static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    dsflow_update_cost(c, 12, cost);
}

int dsf_update_copy_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_update_args *a = c->args;
    const unsigned copy = dsf_optimizer_copy_port(c->op);
    const bool has = copy < c->n && c->shapes[copy].bytes > 0;

    if (has != (a->copies != 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: copy: expected it where the arguments say so, "
                           "and only there",
                           c->op->name);
    if (!has)
        return DSFLOW_OK;
    if (c->shapes[copy].dtype != DSFLOW_BF16 &&
        c->shapes[copy].dtype != DSFLOW_FP16)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: copy: %s: expected bf16 or fp16", c->op->name,
                           dsflow_dtype_str(c->shapes[copy].dtype));
    return dsf_range_check(c, copy, c->shapes[copy].dtype, a->copy_at,
                           a->at.elems, err);
}

static int update_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_update_args *a = c->args;
    int status = dsflow_update_check(c, err);

    if (status == DSFLOW_OK && a->m_at != 0)
        status = dsf_range_check(c, M, DSFLOW_FP32, a->m_at, a->at.elems, err);
    return status < 0 ? status : dsf_update_copy_check(c, err);
}

/* Kinds of task with the arguments of this file have the same check. */
unsigned dsf_optimizer_copy_port(const struct dsflow_op *op)
{
    return op->check == update_check || op->check == dsf_op_lamb.check ||
                   op->check == dsf_op_muon.check
               ? op->nports - 1
               : 0;
}

/* `gone` has an entry for the copy where the task has one. */
void dsf_update_slice_with_copy(void *args, int64_t from, int64_t elems,
                                const int64_t *gone, unsigned copy)
{
    struct dsf_update_args *a = args;

    dsflow_update_slice(args, from, elems, gone);
    if (copy == LAST && from >= 0)
        a->m_at += from - gone[M];
    if (a->copies && from >= 0)
        a->copy_at += from - gone[copy];
}

/* An op of an optimizer with these states. */
#define UPDATE(name, what, ...)                                                \
    static void name##_slice(void *args, int64_t from, int64_t elems,          \
                             const int64_t *gone)                              \
    {                                                                          \
        dsf_update_slice_with_copy(args, from, elems, gone,                    \
                                   dsf_op_##name.nports - 1);                  \
    }                                                                          \
    DSF_OP(name, .summary = what, .direction = DSFLOW_DIR_UPDATE, .update = 1, \
           .args_size = sizeof(struct dsf_update_args),                        \
           DSFLOW_PORTS(                                                       \
               { "control", DSFLOW_R },                                        \
               { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS,                      \
                 .floats = DSFLOW_NARROW_ALONE },                              \
               { "param", DSFLOW_RW, .slice = DSFLOW_ELEMS }, __VA_ARGS__,     \
               { "copy", DSFLOW_RW, .slice = DSFLOW_ELEMS, .optional = 1 }),   \
           .check = update_check, .cost = cost, .slice = name##_slice)

UPDATE(adam, "Adam or AdamW update of a unit",
       { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS },
       { "v", DSFLOW_RW, .slice = DSFLOW_ELEMS });
UPDATE(sgd, "SGD update of a unit, with or without momentum",
       { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS, .optional = 1 });
UPDATE(lion, "Lion update of a unit",
       { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS });
UPDATE(adagrad, "AdaGrad update of a unit",
       { "sum", DSFLOW_RW, .slice = DSFLOW_ELEMS });
