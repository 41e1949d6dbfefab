/* loss_side.c - what the parts of a head do once all have their logits, on a GPU.
 */
#include "gpu/gpu.h"
#include "gpu/numbers.h"

#include <dsflow/optimizer.h>

static void loss(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_buf *b = call->bufs;
    const struct dsflow_control *c = b[DSFLOW_HEAD_CONTROL].ptr;
    const struct dsf_gpu_logits l = {
        .type = b[DSFLOW_HEAD_LOGITS].dtype,
        .logits = b[DSFLOW_HEAD_LOGITS].ptr,
        .rows = (size_t)a->tile.rows,
        .vocab = (size_t)a->tile.vocab,
        .ld = (size_t)a->tile.vocab,
        .targets = (const int32_t *)b[DSFLOW_HEAD_BATCH].ptr + a->tile.rows,
        .first = a->first,
        .scale = a->scale,
        .loss_scale = c == NULL ? NULL : &c->loss_scale,
    };

    dsf_gpu_logit_gradients(&l, b[DSFLOW_HEAD_TOPS].ptr,
                            b[DSFLOW_HEAD_ALL_STATS].ptr, (unsigned)a->parts,
                            b[DSFLOW_HEAD_LOSS].ptr, call->scratch, stream);
}

static size_t loss_scratch(const struct dsflow_case *c)
{
    const struct dsflow_head_args *a = c->args;

    return (size_t)a->tile.rows * sizeof(double);
}

const struct dsf_gpu_side dsf_gpu_side_head_loss = {
    .op = "head.loss",
    .run = loss,
    .scratch = loss_scratch,
};
