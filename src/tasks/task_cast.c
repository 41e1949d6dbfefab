/* task_cast.c - numbers of one type as numbers of another. */
#include "tasks/each_number.h"
#include "tasks/shapes.h"
#include "tasks/tasks.h"

#include <stdbool.h>

enum { IN, OUT, CONTROL };

static bool is_float(enum dsflow_dtype dtype)
{
    return dtype == DSFLOW_FP32 || dtype == DSFLOW_BF16 ||
           dtype == DSFLOW_FP16 || dtype == DSFLOW_FP64 ||
           dtype == DSFLOW_INT8_BLOCK;
}

static int types_check(enum dsflow_dtype in, enum dsflow_dtype out,
                       const struct dsf_cast_args *a, struct dsflow_err *err)
{
    if (!is_float(in) || !is_float(out) ||
        (in == DSFLOW_FP32) == (out == DSFLOW_FP32))
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "cast: %s into %s: expected fp32 and another type of floats",
            dsflow_dtype_str(in), dsflow_dtype_str(out));
    if (a->rounding == DSF_ROUND_STOCHASTIC && out != DSFLOW_BF16 &&
        out != DSFLOW_INT8_BLOCK)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "cast: %s rounded at random: expected bf16 or int8_block",
            dsflow_dtype_str(out));
    return DSFLOW_OK;
}

static int fail_at(int64_t at, struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "cast: from number %lld on: expected a multiple of %d",
                       (long long)at, DSFLOW_BLOCK_ELEMS);
}

static int args_check(unsigned n, const struct dsf_cast_args *a,
                      struct dsflow_err *err)
{
    if (a->rounding != DSF_ROUND_NEAREST && a->rounding != DSF_ROUND_STOCHASTIC)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "cast: rounding %d: expected nearest or stochastic",
                           (int)a->rounding);
    if (a->at < 0 || a->at % DSFLOW_BLOCK_ELEMS != 0)
        return fail_at(a->at, err);
    if (a->packed < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "cast: packed %lld: expected a number of elements",
                           (long long)a->packed);
    if (n != (a->rounding == DSF_ROUND_STOCHASTIC ? 3 : 2))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "cast: %u ports: expected control where it rounds "
                           "at random, and only there",
                           n);
    return DSFLOW_OK;
}

static int cast_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_cast_args *a = c->args;
    const struct dsflow_shape *s = c->shapes;
    const int64_t at[] = { a->in_at, a->out_at };
    int status = args_check(c->n, a, err);

    if (status == DSFLOW_OK)
        status = types_check(s[IN].dtype, s[OUT].dtype, a, err);
    for (unsigned i = IN; i <= OUT && status == DSFLOW_OK; i++)
        if (s[i].dtype == DSFLOW_INT8_BLOCK && a->packed > 0 &&
            (a->packed > s[i].elems || at[i] + a->elems > a->packed))
            status =
                dsflow_fail(err, DSFLOW_EINVAL,
                            "cast: numbers %lld to %lld of %lld in a "
                            "buffer of %lld: expected a range of them",
                            (long long)at[i], (long long)(at[i] + a->elems),
                            (long long)a->packed, (long long)s[i].elems);
    for (unsigned i = IN; i <= OUT && status == DSFLOW_OK; i++)
        status = s[i].dtype == DSFLOW_INT8_BLOCK && at[i] % DSFLOW_BLOCK_ELEMS
                     ? fail_at(at[i], err)
                     : dsf_range_check(c, i, s[i].dtype, at[i], a->elems, err);
    if (status == DSFLOW_OK && c->n > CONTROL)
        status = dsf_control_check(c, CONTROL, err);
    return status;
}

#define CAST(place) offsetof(struct dsf_cast_args, place)
DSF_EACH_NUMBER(cast, .elems = CAST(elems), .first = CAST(at),
                .ports = { { IN, CAST(in_at), 1 }, { OUT, CAST(out_at), 1 } })

DSF_OP(
    cast,
    .summary = "numbers in another type, to the nearest or rounded at random",
    .direction = DSFLOW_DIR_UPDATE, .args_size = sizeof(struct dsf_cast_args),
    DSFLOW_PORTS({ "in", DSFLOW_R, .slice = DSFLOW_ELEMS },
                 { "out", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                 { "control", DSFLOW_R, .optional = 1 }),
    .check = cast_check, .cost = cast_cost, .slice = cast_slice);
