/* embed.c - tokens to vectors, and the gradient of the table. */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

#include <string.h>

/* The rows of wte and of wpe in `unit` for row `r` of the tile, each NULL where
 * another part has it or nobody: a token < 0, past the end of a text, has
 * neither, and its gradient goes nowhere. */
static void rows_at(const struct dsflow_call *call, float *unit, size_t r,
                    float **wte, float **wpe)
{
    const struct dsflow_embed_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const int32_t *tokens = call->bufs[DSFLOW_EMBED_BATCH].ptr;
    const int64_t token = (int64_t)tokens[r] - a->first;
    const int64_t pos =
        (int64_t)t->pos + (int64_t)(r % dsf_tile_length(t)) - a->first_pos;

    *wte = *wpe = NULL;
    if (tokens[r] < 0)
        return;
    if (token >= 0 && token < t->vocab)
        *wte = unit + a->wte + token * t->width;
    if (pos >= 0 && pos < a->npos)
        *wpe = unit + a->wpe + pos * t->width;
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsflow_embed_args *a = call->args;
    const size_t width = (size_t)a->tile.width;
    float *unit = dsf_floats(call, DSFLOW_EMBED_UNIT);
    float *x = dsf_floats(call, DSFLOW_EMBED_X), *wte, *wpe;

    for (size_t r = 0; r < (size_t)a->tile.rows; r++, x += width) {
        rows_at(call, unit, r, &wte, &wpe);
        if (wte && wpe)
            dsf_sum(x, wte, wpe, width);
        else if (wte || wpe)
            memcpy(x, wte ? wte : wpe, width * sizeof(float));
        else
            memset(x, 0, width * sizeof(float));
    }
}

DSF_SEGMENT_CODELET(embed_forward, forward_cpu);

/* Row after row: tokens that come again are added in their order. */
static void backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsflow_embed_args *a = call->args;
    const size_t width = (size_t)a->tile.width;
    const float *dx = dsf_floats(call, DSFLOW_EMBED_DX);
    float *grad = dsf_gradient(call, DSFLOW_EMBED_GRAD), *wte, *wpe;

    for (size_t r = 0; r < (size_t)a->tile.rows; r++, dx += width) {
        rows_at(call, grad, r, &wte, &wpe);
        if (wte)
            dsf_add(wte, dx, width);
        if (wpe)
            dsf_add(wpe, dx, width);
    }
}

DSF_SEGMENT_CODELET(embed_backward_weight, backward_weight_cpu);
