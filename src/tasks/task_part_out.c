/* task_part_out.c - what some heads add to the attention's output. Backward,
 * the kinds of the whole segment serve. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

static int forward_check(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_err *err)
{
    const struct dsflow_op *op = &dsf_op_out_part_forward;
    const struct dsflow_out_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    size_t unit = 0, nq = dsf_tile_qwidth(t);
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK && a->b != -1)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: b: %lld: expected -1, a part adds none",
                             op->name, (long long)a->b);
    if (status == DSFLOW_OK)
        status =
            dsf_unit_need(op, "w", a->w, nq * (size_t)t->width, 0, &unit, err);
    if (status < 0)
        return status;
    return dsf_ports_check(
        op, shapes, (size_t[]){ (size_t)t->rows * nq, unit, dsf_tile_x(t) }, n,
        err);
}

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_out_args *a = args;

    cost->flops =
        2.0 * (double)dsf_tile_x(&a->tile) * (double)dsf_tile_qwidth(&a->tile);
    cost->bytes = dsf_ports_bytes(&dsf_op_out_part_forward, shapes, n);
}

const struct dsflow_op dsf_op_out_part_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "out_part.forward",
    .segment = "out",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "projection of the output of some heads",
    .args_size = sizeof(struct dsflow_out_args),
    DSFLOW_PORTS({ "att", DSFLOW_R }, { "unit", DSFLOW_R }, { "y", DSFLOW_W }),
    .check = forward_check,
    .cost = forward_cost,
};
