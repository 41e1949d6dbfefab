/* shapes.c - checks of the shapes that an op meets on its ports. */
#include "tasks/shapes.h"

#include <dsflow/optimizer.h>

static const char *port_name(const struct dsflow_op *op, unsigned p)
{
    return op->ports[p < op->nports ? p : op->nports - 1].name;
}

static int type_check(const struct dsflow_op *op, unsigned p,
                      const struct dsflow_shape *shape, enum dsflow_dtype dtype,
                      struct dsflow_err *err)
{
    if (shape->dtype == dtype)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: expected %s, is %s",
                       op->name, port_name(op, p), dsflow_dtype_str(dtype),
                       dsflow_dtype_str(shape->dtype));
}

int dsf_port_check(const struct dsflow_op *op, unsigned p,
                   const struct dsflow_shape *shape, enum dsflow_dtype dtype,
                   int64_t elems, struct dsflow_err *err)
{
    int status = type_check(op, p, shape, dtype, err);

    if (status == DSFLOW_OK && shape->elems < elems)
        status =
            dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: %lld %s: expected %lld",
                        op->name, port_name(op, p), (long long)shape->elems,
                        dsflow_dtype_str(dtype), (long long)elems);
    return status;
}

int dsf_range_check(const struct dsflow_op *op, unsigned p,
                    const struct dsflow_shape *shape, enum dsflow_dtype dtype,
                    int64_t at, int64_t elems, struct dsflow_err *err)
{
    int status = type_check(op, p, shape, dtype, err);

    if (status == DSFLOW_OK &&
        (at < 0 || elems < 0 || at > shape->elems || elems > shape->elems - at))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %s: %lld numbers from %lld on, of %lld",
                             op->name, port_name(op, p), (long long)elems,
                             (long long)at, (long long)shape->elems);
    return status;
}

int dsf_control_check(const struct dsflow_op *op, unsigned p,
                      const struct dsflow_shape *shape, struct dsflow_err *err)
{
    return dsf_port_check(op, p, shape, DSFLOW_BYTES,
                          sizeof(struct dsflow_control), err);
}
