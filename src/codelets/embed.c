/* embed.c - tokens to vectors, and the gradient of the table. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <assert.h>
#include <string.h>

/* The token of a row, or -1 for none (past the end of a text): a row of zeroes,
 * whose gradient goes nowhere. */
static int32_t token_at(const struct dsflow_call *call,
                        const struct dsflow_tile *t, size_t row)
{
    const int32_t *tokens = call->bufs[0].ptr;

    assert(tokens[row] < t->vocab);
    return tokens[row];
}

static void forward_cpu(const struct dsflow_call *call)
{
    enum { BATCH, EMBED, X };
    const struct dsflow_embed_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, length = dsf_tile_length(t);
    const float *wte = dsf_floats(call, EMBED) + a->wte;
    const float *wpe = dsf_tensor_at(dsf_floats(call, EMBED), a->wpe);
    float *x = dsf_floats(call, X);

    for (size_t r = 0; r < (size_t)t->rows; r++, x += width) {
        int32_t token = token_at(call, t, r);

        if (token < 0)
            memset(x, 0, width * sizeof(float));
        else if (wpe)
            dsf_sum(x, wte + (size_t)token * width,
                    wpe + ((size_t)t->pos + r % length) * width, width);
        else
            memcpy(x, wte + (size_t)token * width, width * sizeof(float));
    }
}

const struct dsflow_codelet dsf_codelet_embed_forward = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_embed_forward,
    .cpu = forward_cpu,
    .trials = &dsf_trials_embed_forward,
};

/* Row after row: tokens that come again are added in their order. */
static void backward_weight_cpu(const struct dsflow_call *call)
{
    enum { BATCH, DX, GRAD };
    const struct dsflow_embed_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, length = dsf_tile_length(t);
    const float *dx = dsf_floats(call, DX);
    float *grad = dsf_gradient(call, GRAD);
    float *wte = grad + a->wte, *wpe = dsf_tensor_at(grad, a->wpe);

    for (size_t r = 0; r < (size_t)t->rows; r++, dx += width) {
        int32_t token = token_at(call, t, r);

        if (token < 0)
            continue;
        dsf_add(wte + (size_t)token * width, dx, width);
        if (wpe)
            dsf_add(wpe + ((size_t)t->pos + r % length) * width, dx, width);
    }
}

const struct dsflow_codelet dsf_codelet_embed_backward_weight = {
    .abi = DSFLOW_CODELET_ABI,
    .op = &dsf_op_embed_backward_weight,
    .cpu = backward_weight_cpu,
    .trials = &dsf_trials_embed_backward_weight,
};
