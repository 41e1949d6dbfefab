/* shapes.c - checks of the shapes that an op meets on its ports. */
#include "tasks/shapes.h"

#include "kernels/narrow.h"
#include "tasks/coding.h"

#include <dsflow/optimizer.h>

static const char *port_name(const struct dsflow_op *op, unsigned p)
{
    return op->ports[p < op->nports ? p : op->nports - 1].name;
}

static int type_check(const struct dsflow_case *c, unsigned p,
                      enum dsflow_dtype dtype, struct dsflow_err *err)
{
    if (c->shapes[p].dtype == dtype)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: expected %s, is %s",
                       c->op->name, port_name(c->op, p),
                       dsflow_dtype_str(dtype),
                       dsflow_dtype_str(c->shapes[p].dtype));
}

bool dsf_has_port(const struct dsflow_case *c, unsigned p)
{
    return c->n > p && c->shapes[p].bytes > 0;
}

double dsf_port_bytes(const struct dsflow_case *c, unsigned p, int64_t elems)
{
    return dsf_has_port(c, p)
               ? (double)dsflow_dtype_bytes(c->shapes[p].dtype, elems)
               : 0;
}

enum dsflow_dtype dsf_float_type(const struct dsflow_case *c, unsigned p)
{
    const unsigned last = c->op->nports - 1;
    const enum dsflow_dtype is = c->shapes[p].dtype;

    return c->op->ports[p < last ? p : last].floats != DSFLOW_FP32_ONLY &&
                   dsf_is_narrow(is)
               ? is
               : DSFLOW_FP32;
}

int dsf_port_check(const struct dsflow_case *c, unsigned p,
                   enum dsflow_dtype dtype, int64_t elems,
                   struct dsflow_err *err)
{
    int64_t has = c->shapes[p].elems;
    int status = type_check(c, p, dtype, err);

    if (status < 0 || has >= elems)
        return status;
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: %lld %s: expected %lld",
                       c->op->name, port_name(c->op, p), (long long)has,
                       dsflow_dtype_str(dtype), (long long)elems);
}

int dsf_ports_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned p = 0; p < c->n && status == DSFLOW_OK; p++) {
        unsigned of = p < c->op->nports ? p : c->op->nports - 1;

        status = dsf_port_check(c, p, c->op->ports[of].dtype, 1, err);
    }
    return status;
}

int dsf_range_check(const struct dsflow_case *c, unsigned p,
                    enum dsflow_dtype dtype, int64_t at, int64_t elems,
                    struct dsflow_err *err)
{
    int64_t has = c->shapes[p].elems;
    int status = type_check(c, p, dtype, err);

    if (status < 0 || (at >= 0 && elems >= 0 && at <= has && elems <= has - at))
        return status;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %s: %lld numbers from %lld on, of %lld",
                       c->op->name, port_name(c->op, p), (long long)elems,
                       (long long)at, (long long)has);
}

int dsf_control_check(const struct dsflow_case *c, unsigned p,
                      struct dsflow_err *err)
{
    return dsf_port_check(c, p, DSFLOW_BYTES, sizeof(struct dsflow_control),
                          err);
}

void dsf_few_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    for (unsigned i = 0; i < c->n; i++) {
        cost->bytes += (double)c->shapes[i].bytes;
        cost->flops += (double)c->shapes[i].elems;
    }
}

size_t dsf_block_scratch(const struct dsflow_case *c)
{
    const struct dsf_coding *coding = c->args;

    return dsflow_dtype_bytes(DSFLOW_FP32, coding->block);
}

size_t dsf_errors_scratch(const struct dsflow_case *c)
{
    return 3 * dsf_block_scratch(c);
}
