/* task_table.c - the kinds of task: the built-in ones, and those that a
 * program registers. */
#include "tasks/tasks.h"

#include "tasks/components.h"

#include <stdio.h>

static const struct dsflow_op *const ops[] = {
#define ENTRY(name) &dsf_op_##name,
    DSF_OPS(ENTRY, ENTRY)
#undef ENTRY
        NULL,
};

static int check_ports(const struct dsflow_op *op, struct dsflow_err *err)
{
    unsigned required = 0;

    for (unsigned i = 0; i < op->nports && op->ports != NULL; i++) {
        const struct dsflow_port *port = &op->ports[i];

        if (port->name == NULL) /* of other ops that share the list */
            continue;
        required += !port->optional;
        if (port->access < DSFLOW_R || port->access > DSFLOW_RW)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "port %.40s: expected R, W or RW", port->name);
        if ((unsigned)port->dtype >= DSFLOW_NDTYPES)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "port %.40s: dtype: %u: expected one of dtype.h",
                               port->name, (unsigned)port->dtype);
        if (port->slice > DSFLOW_BLOCKS)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "port %.40s: slice: %u: expected 0 to %d",
                               port->name, port->slice, DSFLOW_BLOCKS);
        if (port->floats > DSFLOW_NARROW_ALONE ||
            (port->floats != DSFLOW_FP32_ONLY &&
             port->dtype != DSFLOW_FP32 && port->dtype != DSFLOW_BYTES))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "port %.40s: floats: %u: expected 0 to %d, and "
                               "0 where its type is not fp32",
                               port->name, port->floats, DSFLOW_NARROW_ALONE);
    }
    if (required == 0 || op->ports[op->nports - 1].name == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%u ports: expected one that is required, and a "
                           "name for the last",
                           op->ports == NULL ? 0 : op->nports);
    if (op->repeats && op->ports[op->nports - 1].access == DSFLOW_RW)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "port %.40s comes again: expected R or W, not RW",
                           op->ports[op->nports - 1].name);
    return DSFLOW_OK;
}

static int check_labels(const struct dsflow_op *op, struct dsflow_err *err)
{
    if (op->direction >= DSFLOW_NDIRECTIONS)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "direction: %u: expected 0 to %d", op->direction,
                           DSFLOW_NDIRECTIONS - 1);
    if (op->comm >= DSFLOW_NCOMMS)
        return dsflow_fail(err, DSFLOW_EINVAL, "comm: %u: expected 0 to %d",
                           op->comm, DSFLOW_NCOMMS - 1);
    return DSFLOW_OK;
}

/* What slices do at the same time must not write the same. */
static int check_slices(const struct dsflow_op *op, struct dsflow_err *err)
{
    unsigned cut = 0;

    for (unsigned i = 0; i < op->nports; i++) {
        cut += op->ports[i].slice == DSFLOW_ELEMS;
        if (op->slice != NULL && op->ports[i].slice == DSFLOW_WHOLE &&
            op->ports[i].access != DSFLOW_R)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "port %.40s: is written by all slices: expected "
                               "R, or a port that is cut with them",
                               op->ports[i].name);
    }
    if ((op->slice != NULL) != (cut > 0))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "expected a function slice together with ports of "
                           "which each slice has its elements");
    return DSFLOW_OK;
}

static int check(const struct dsflow_op *op, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (op->check == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "has no check");
    status = check_ports(op, err);
    if (status == DSFLOW_OK)
        status = check_labels(op, err);
    return status < 0 ? status : check_slices(op, err);
}

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_op *op = thing;
    int status = dsf_registry_check(&dsf_task_kinds, op->abi, op->name,
                                    op->summary, err);
    char what[80];

    if (status < 0)
        return status;
    snprintf(what, sizeof(what), "task %.60s", op->name);
    status = check(op, err);
    return status < 0 ? dsflow_fail_in(err, status, what)
                      : dsf_registry_add(&dsf_task_kinds, op->name, op, origin,
                                         err);
}

struct dsf_registry dsf_task_kinds = {
    .sort = "task",
    .abi = DSFLOW_OP_ABI,
    .add = add,
    .builtin = (const void *const *)ops,
};

int dsflow_op_register(const struct dsflow_op *op, struct dsflow_err *err)
{
    return dsf_task_kinds.add(op, DSF_PROGRAM, err);
}

const struct dsflow_op *dsflow_op_at(unsigned i)
{
    return dsf_registry_thing_at(&dsf_task_kinds, i);
}

const struct dsflow_op *dsflow_op_find(const char *name)
{
    return dsf_registry_thing(&dsf_task_kinds, name);
}
