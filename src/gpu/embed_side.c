/* embed_side.c - tokens to vectors, and the gradient of the table, on a GPU. */
#include "gpu/gpu.h"
#include "gpu/numbers.h"
#include "tasks/tile.h"

/* Tokens are in main memory, and blocks read them again and again: they are
 * copied first. */
static size_t tokens_scratch(const struct dsflow_case *c)
{
    const struct dsflow_embed_args *a = c->args;

    return (size_t)a->tile.rows * sizeof(int32_t);
}

/* And what sorts them. */
static size_t backward_scratch(const struct dsflow_case *c)
{
    const struct dsflow_embed_args *a = c->args;

    return tokens_scratch(c) + dsf_gpu_embed_scratch((size_t)a->tile.rows);
}

static struct dsf_gpu_embed embed_of(const struct dsflow_call *call,
                                     void *stream)
{
    const struct dsflow_embed_args *a = call->args;

    dsf_gpu_fetch_tokens(call->scratch, call->bufs[DSFLOW_EMBED_BATCH].ptr,
                         (size_t)a->tile.rows, stream);
    return (struct dsf_gpu_embed){
        .tokens = call->scratch,
        .first = a->first,
        .vocab = a->tile.vocab,
        .pos = a->tile.pos,
        .first_pos = a->first_pos,
        .npos = a->npos,
        .length = dsf_tile_length(&a->tile),
        .width = (size_t)a->tile.width,
    };
}

static void forward(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_embed_args *a = call->args;
    const struct dsf_gpu_embed e = embed_of(call, stream);
    const struct dsflow_buf *x = &call->bufs[DSFLOW_EMBED_X];

    dsf_gpu_embed_forward(&e, call->bufs[DSFLOW_EMBED_UNIT].dtype,
                          dsf_gpu_number(call, DSFLOW_EMBED_UNIT, a->wte),
                          dsf_gpu_number(call, DSFLOW_EMBED_UNIT, a->wpe),
                          x->dtype, x->ptr, (size_t)a->tile.rows, stream);
}

const struct dsf_gpu_side dsf_gpu_side_embed_forward = {
    .op = "embed.forward",
    .run = forward,
    .scratch = tokens_scratch,
};

static void backward_weight(const struct dsflow_call *call, void *stream)
{
    const struct dsflow_embed_args *a = call->args;
    const struct dsf_gpu_embed e = embed_of(call, stream);
    const struct dsflow_buf *dx = &call->bufs[DSFLOW_EMBED_DX];
    const struct dsf_gpu_gradient grad =
        dsf_gpu_gradient(call, DSFLOW_EMBED_GRAD, stream);

    dsf_gpu_embed_backward(
        &e, dx->dtype, dx->ptr, grad.type, dsf_gpu_gradient_at(&grad, a->wte),
        dsf_gpu_gradient_at(&grad, a->wpe), (size_t)a->tile.rows,
        (int32_t *)call->scratch + a->tile.rows, stream);
}

const struct dsf_gpu_side dsf_gpu_side_embed_backward_weight = {
    .op = "embed.backward_weight",
    .run = backward_weight,
    .scratch = backward_scratch,
};
