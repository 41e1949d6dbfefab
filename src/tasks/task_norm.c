/* task_norm.c - the norm of the whole gradient, and clipping by it. */
#include "tasks/each_number.h"
#include "tasks/shapes.h"
#include "tasks/tasks.h"

static int square_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_square_args *a = c->args;
    int64_t blocks = c->shapes[1].elems;
    int status;

    if (a->elems < 0 || a->at < 0 || blocks < 1 || a->elems % blocks != 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "square: %lld numbers from %lld on, in %lld blocks",
                           (long long)a->elems, (long long)a->at,
                           (long long)blocks);
    status = dsf_range_check(c, 0, dsf_float_type(c, 0), a->at, a->elems, err);
    return status < 0 ? status : dsf_port_check(c, 1, DSFLOW_FP64, 1, err);
}

static void square_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_square_args *a = c->args;

    cost->flops = 2.0 * (double)a->elems;
    cost->bytes = (double)dsflow_dtype_bytes(c->shapes[0].dtype, a->elems);
}

static void square_slice(void *args, int64_t from, int64_t elems,
                         const int64_t *gone)
{
    struct dsf_square_args *a = args;

    a->elems = elems;
    if (from >= 0)
        a->at += from - gone[0];
}

DSF_OP(square, .summary = "squared norm of a gradient",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_square_args),
       DSFLOW_PORTS({ "in", DSFLOW_R, .slice = DSFLOW_ELEMS,
                      .floats = DSFLOW_NARROW_ALONE },
                    { "out", DSFLOW_W, DSFLOW_FP64, DSFLOW_BLOCKS }),
       .check = square_check, .cost = square_cost, .slice = square_slice);

DSF_OP(sum, .summary = "sum of numbers, left to right",
       .direction = DSFLOW_DIR_UPDATE, .comm = DSFLOW_COMM_REDUCE, .repeats = 1,
       .joins = 1,
       DSFLOW_PORTS({ "out", DSFLOW_RW, DSFLOW_FP64 },
                    { "in", DSFLOW_R, DSFLOW_FP64, .optional = 1 }),
       .check = dsf_ports_check, .cost = dsf_few_cost);

static int clip_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_clip_args *a = c->args;
    int status;

    if (!(a->limit >= 0) || a->nonfinite < DSF_NONFINITE_KEEP ||
        a->nonfinite > DSF_NONFINITE_STOP)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "clip: limit %g, nonfinite %d: expected 0 or more, "
                           "and 0 to 2",
                           a->limit, (int)a->nonfinite);
    if (dsf_is_scaled(&a->scale) && a->nonfinite == DSF_NONFINITE_KEEP)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "clip: a loss scale: expected updates that wait for "
                           "the norm");
    status = dsf_loss_scale_check(&a->scale, c, 3, err);
    if (status == DSFLOW_OK)
        status = dsf_port_check(c, 0, DSFLOW_FP64, 1, err);
    if (status == DSFLOW_OK)
        status = dsf_port_check(c, 1, DSFLOW_FP64, 1, err);
    return status < 0 ? status : dsf_control_check(c, 2, err);
}

static void clip_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->bytes = 2 * sizeof(struct dsflow_control);
}

DSF_OP(clip,
       .summary = "scale that keeps the gradient's norm within the limit, and "
                  "whether loss and norm are finite",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_clip_args),
       DSFLOW_PORTS({ "norm2", DSFLOW_R, DSFLOW_FP64 },
                    { "loss", DSFLOW_R, DSFLOW_FP64 },
                    { "control", DSFLOW_RW },
                    { "scaler", DSFLOW_RW, .optional = 1 }),
       .check = clip_check, .cost = clip_cost);

/* --- of a group ----------------------------------------------------------- */

#define CLIP(place) offsetof(struct dsf_clip_group_args, place)
DSF_EACH_NUMBER(clip_group, .elems = CLIP(elems), .flops = 1, .control = 1,
                .ports = { { 1, CLIP(at), 2 } })

static int clip_group_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_clip_group_args *a = c->args;
    int status = dsf_each_number_check(&clip_group_each, c, err);

    if (status == DSFLOW_OK && (!(a->limit > 0) || a->groups < 1))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "clip_group: limit %g, %lld groups: expected more "
                           "than 0",
                           a->limit, (long long)a->groups);
    return status < 0 ? status : dsf_port_check(c, 2, DSFLOW_FP64, 1, err);
}

DSF_OP(clip_group,
       .summary = "gradient of a group, within the limit of its own norm",
       .direction = DSFLOW_DIR_UPDATE,
       .args_size = sizeof(struct dsf_clip_group_args),
       DSFLOW_PORTS({ "control", DSFLOW_R },
                    { "grad", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                    { "norm2", DSFLOW_R, DSFLOW_FP64 }),
       .check = clip_group_check, .cost = clip_group_cost,
       .slice = clip_group_slice);
