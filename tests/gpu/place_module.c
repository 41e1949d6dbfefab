/* place_module.c - sides in the memory of a GPU, through the module.
 * DSFLOW_TESTS_EDGE=0: no bytes around buffers, for compute-sanitizer. */
#include "gpu/place.h"

#include "exec/cuda_module.h"
#include "verify/on_gpu.h"

#include <dsflow/error.h>
#include <dsflow/op.h>
#include <stdio.h>
#include <stdlib.h>

static const struct dsf_gpu *module(void)
{
    static struct dsflow_err err;
    const struct dsf_gpu *found = dsf_cuda_module(&err);

    if (found == NULL) {
        fprintf(stderr, "%s\n", err.msg);
        exit(99);
    }
    return found;
}

const struct dsf_gpu_side *const *place_sides(void)
{
    return module()->sides;
}

const struct dsf_gpu_side *place_side(const char *op)
{
    const struct dsflow_op *kind = dsflow_op_find(op);

    module();
    return kind != NULL ? dsf_cuda_side(kind) : NULL;
}

size_t (*place_scratch(const struct dsf_gpu_side *side))(
    const struct dsflow_case *c)
{
    return NULL;
}

/* Tests launch nothing themselves: the module exports no kernels. */
const char *place_fault(void)
{
    return NULL;
}

void place_order(uint64_t seed)
{
}

const char *place_run(const struct dsf_gpu_side *side,
                      const struct dsflow_call *call)
{
    const char *edge = getenv("DSFLOW_TESTS_EDGE");
    const struct dsf_on_gpu what = { .op = dsflow_op_find(side->op),
                                     .side = side };

    if (edge != NULL)
        dsf_on_gpu_edge = strtoul(edge, NULL, 0);
    return dsf_on_gpu_run(&what, call);
}
