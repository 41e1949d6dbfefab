/* task_lamb.c - LAMB, whose rate is another one for each tensor. A tensor may
 * be cut into shards, pieces and parts, so an update is three tasks: new
 * moments and what each block adds to the norms, the ratios, and new
 * parameters. */
#include "tasks/tasks.h"

#include "tasks/components.h"
#include "tasks/lamb.h"
#include "tasks/onebit.h"
#include "tasks/shapes.h"

#include <dsflow/option.h>

/* Ports: those of both kinds with a control. */
enum { CONTROL, GRAD, RATIO = GRAD, PARAM, M, V, LAST };

/* --- keys ----------------------------------------------------------------- */

#define KEYS      struct dsf_lamb_keys
#define WITH_LAMB "optimizer.kind = lamb"
const struct dsflow_option dsf_lamb_options[] = {
    DSFLOW_OPTION_FLOAT(KEYS, max_coeff, "10.0", 0, 1e12,
                        "largest ratio of the norms of a tensor and of its "
                        "update",
                        WITH_LAMB),
    DSFLOW_OPTION_FLOAT(KEYS, min_coeff, "0.01", 0, 1e12, "smallest one",
                        WITH_LAMB),
    { 0 },
};

int64_t dsf_lamb_width(int32_t ntensors)
{
    int64_t width = 2;

    while (width < 2 * (int64_t)ntensors)
        width *= 2;
    return width;
}

int dsf_lamb_check_keys(const void *part, struct dsflow_err *err)
{
    const struct dsf_lamb_keys *k = part;

    if (k->min_coeff > k->max_coeff)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "lamb.min_coeff: %g: expected at most lamb.max_coeff, %g",
            k->min_coeff, k->max_coeff);
    return DSFLOW_OK;
}

struct dsf_lamb_keys dsf_lamb_limits(const struct dsflow_optimizer *o,
                                     const void *part)
{
    const struct dsf_onebit_lamb_keys *k = part;

    return o->options == dsf_lamb_options
               ? *(const struct dsf_lamb_keys *)part
               : (struct dsf_lamb_keys){ .max_coeff = k->max_coeff,
                                         .min_coeff = k->min_coeff };
}

void dsf_lamb_fill_ratio(const struct dsf_lamb_keys *limits,
                         const struct dsf_update_args *of,
                         struct dsf_ratio_args *args)
{
    *args = (struct dsf_ratio_args){ .least = limits->min_coeff,
                                     .most = limits->max_coeff,
                                     .n = of->at.ntensors,
                                     .width = of->width };
}

const struct dsf_optimizer_front *
dsf_optimizer_front(const struct dsflow_op *op)
{
    static const struct dsf_optimizer_front lamb = { &dsf_op_lamb_moments,
                                                     &dsf_op_lamb_ratio };

    return op == &dsf_op_lamb ? &lamb : NULL;
}

/* --- moments -------------------------------------------------------------- */

/* Have all tensors a place, and are there numbers to be worked on? */
static int check_args(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_update_args *a = c->args;
    bool right = a->at.elems >= 0 && a->at.grad_at >= 0 &&
                 a->at.param_at >= 0 && a->at.ntensors >= 0 &&
                 a->at.ntensors <= DSFLOW_MAX_TENSORS && a->width >= 2;

    for (int32_t i = 0; i < a->at.ntensors && right; i++) {
        const struct dsflow_tensor *t = &a->at.tensors[i];

        right = t->number >= 0 && 2 * t->number + 1 < a->width &&
                t->at < a->at.elems && t->at + t->rows * t->cols > 0;
    }
    if (!right)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld numbers of %d tensors, with %d sums for "
                           "each block",
                           c->op->name, (long long)a->at.elems,
                           (int)a->at.ntensors, (int)a->width);
    return dsf_control_check(c, CONTROL, err);
}

static int lamb_moments_check(const struct dsflow_case *c,
                              struct dsflow_err *err)
{
    const struct dsf_update_args *a = c->args;
    const int64_t at[] = { 0, a->at.grad_at, a->at.param_at, a->m_at, 0 };
    int status = check_args(c, err);

    if (status == DSFLOW_OK &&
        (a->at.block < 1 || a->at.elems % a->at.block != 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld numbers in blocks of %lld", c->op->name,
                           (long long)a->at.elems, (long long)a->at.block);
    for (unsigned i = GRAD; i < LAST && status == DSFLOW_OK; i++)
        status = dsf_range_check(c, i, dsf_float_type(c, i), at[i], a->at.elems,
                                 err);
    return status < 0
               ? status
               : dsf_range_check(c, LAST, DSFLOW_FP64, 0,
                                 a->at.elems / a->at.block * a->width, err);
}

static void lamb_moments_cost(const struct dsflow_case *c,
                              struct dsflow_cost *cost)
{
    const double n =
        (double)((const struct dsf_update_args *)c->args)->at.elems;

    cost->flops = 16 * n;
    cost->bytes =
        (double)dsflow_dtype_bytes(c->shapes[GRAD].dtype, (int64_t)n) + 20 * n;
}

static void lamb_moments_slice(void *args, int64_t from, int64_t elems,
                               const int64_t *gone)
{
    struct dsf_update_args *a = args;

    dsflow_update_slice(args, from, elems, gone);
    if (from >= 0)
        a->m_at += from - gone[M];
}

DSF_OP(lamb_moments,
       .summary =
           "LAMB: new moments of a unit, and norms of its tensors, block "
           "by block",
       .direction = DSFLOW_DIR_UPDATE, .update = 1,
       .args_size = sizeof(struct dsf_update_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS,
                      .floats = DSFLOW_NARROW_ALONE },
                    { "param", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "v", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "sums", DSFLOW_W, DSFLOW_FP64, DSFLOW_BLOCKS }),
       .check = lamb_moments_check, .cost = lamb_moments_cost,
       .slice = lamb_moments_slice);

/* --- ratios --------------------------------------------------------------- */

static int lamb_ratio_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_ratio_args *a = c->args;
    int status;

    if (a->n < 0 || a->width < 2 * a->n || !(a->least <= a->most))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "lamb_ratio: %d tensors, %d sums, limits %g and %g",
                           (int)a->n, (int)a->width, a->least, a->most);
    status = dsf_port_check(c, 0, DSFLOW_FP64, a->n, err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++) {
        status = dsf_port_check(c, i, DSFLOW_FP64, a->width, err);
        if (status == DSFLOW_OK && c->shapes[i].elems % a->width != 0)
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "lamb_ratio: %lld sums: expected %d for each "
                                 "block",
                                 (long long)c->shapes[i].elems, (int)a->width);
    }
    return status;
}

DSF_OP(lamb_ratio, .summary = "LAMB: the ratio of norms of each tensor",
       .direction = DSFLOW_DIR_UPDATE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .joins = 1, .args_size = sizeof(struct dsf_ratio_args),
       DSFLOW_PORTS({ "ratio", DSFLOW_W, DSFLOW_FP64 },
                    { "sums", DSFLOW_R, DSFLOW_FP64 }),
       .check = lamb_ratio_check, .cost = dsf_few_cost);

/* --- parameters ----------------------------------------------------------- */

static int lamb_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_update_args *a = c->args;
    int status = check_args(c, err);

    for (int32_t i = 0; i < a->at.ntensors && status == DSFLOW_OK &&
                        c->shapes[RATIO].bytes > 0;
         i++)
        status = dsf_port_check(c, RATIO, DSFLOW_FP64,
                                a->at.tensors[i].number + 1, err);
    for (unsigned i = PARAM; i < LAST && status == DSFLOW_OK; i++)
        status = dsf_range_check(c, i, DSFLOW_FP32,
                                 i == PARAM ? a->at.param_at
                                 : i == M   ? a->m_at
                                            : 0,
                                 a->at.elems, err);
    return status < 0 ? status : dsf_update_copy_check(c, err);
}

static void lamb_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_update_args *a = c->args;

    cost->flops = 10 * (double)a->at.elems;
    cost->bytes = (a->copies ? 18 : 16) * (double)a->at.elems;
}

static void lamb_slice(void *args, int64_t from, int64_t elems,
                       const int64_t *gone)
{
    dsf_update_slice_with_copy(args, from, elems, gone, LAST);
}

DSF_OP(lamb, .summary = "LAMB: new parameters of a unit",
       .direction = DSFLOW_DIR_UPDATE, .update = 1,
       .args_size = sizeof(struct dsf_update_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "ratio", DSFLOW_R, DSFLOW_FP64, .optional = 1 },
                    { "param", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "m", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "v", DSFLOW_R, .slice = DSFLOW_ELEMS },
                    { "copy", DSFLOW_RW, .slice = DSFLOW_ELEMS,
                      .optional = 1 }),
       .check = lamb_check, .cost = lamb_cost, .slice = lamb_slice);
