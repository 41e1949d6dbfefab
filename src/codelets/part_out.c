/* part_out.c - what some heads add to the attention's output. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

static void forward_cpu(const struct dsflow_call *call)
{
    enum { ATT, UNIT, Y };
    const struct dsflow_out_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);

    dsf_gemm(0, 1, rows, width, nq, dsf_floats(call, ATT), nq,
             dsf_floats(call, UNIT) + a->w, nq, 0, dsf_floats(call, Y), width);
}

const struct dsflow_codelet dsf_codelet_out_part_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_out_part_forward,
    .cpu = forward_cpu,
};
