/* embed.c - tokens to vectors, and the gradient of the table. */
#include "codelets/codelets.h"

#include "codelets/projection.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

#include <string.h>

/* Where the rows of wte and of wpe for row `r` of the tile begin in the unit,
 * each -1 where another part has it or nobody: a token < 0, past the end of a
 * text, has neither, and its gradient goes nowhere. */
static void rows_at(const struct dsflow_call *call, size_t r, int64_t *wte,
                    int64_t *wpe)
{
    const struct dsflow_embed_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const int32_t *tokens = call->bufs[DSFLOW_EMBED_BATCH].ptr;
    const int64_t token = (int64_t)tokens[r] - a->first;
    const int64_t pos =
        (int64_t)t->pos + (int64_t)(r % dsf_tile_length(t)) - a->first_pos;

    *wte = *wpe = -1;
    if (tokens[r] < 0)
        return;
    if (token >= 0 && token < t->vocab)
        *wte = a->wte + token * t->width;
    if (pos >= 0 && pos < a->npos)
        *wpe = a->wpe + pos * t->width;
}

/* Row `i` of the scratch, where what is not fp32 stands as that. */
static float *scratch_row(const struct dsflow_call *call, size_t i, size_t n)
{
    return (float *)call->scratch + i * dsf_round16(n);
}

/* The row of a port that begins at `at`, in fp32: there, or in row `i` of the
 * scratch. NULL: there is none. */
static const float *row_of(const struct dsflow_call *call, unsigned port,
                           int64_t at, size_t n, size_t i)
{
    const enum dsflow_dtype type = call->bufs[port].dtype;

    if (at < 0)
        return NULL;
    if (!dsf_is_narrow(type))
        return dsf_floats(call, port) + at;
    dsf_narrow(type)->widen(dsf_halves(call, port) + at,
                            scratch_row(call, i, n), n);
    return scratch_row(call, i, n);
}

static void sum_of(const float *a, const float *b, float *x, size_t n)
{
    if (a && b)
        dsf_sum(x, a, b, n);
    else if (a || b)
        memcpy(x, a ? a : b, n * sizeof(float));
    else
        memset(x, 0, n * sizeof(float));
}

static void forward_cpu(const struct dsflow_call *call)
{
    const struct dsflow_embed_args *a = call->args;
    const size_t n = (size_t)a->tile.width;
    const enum dsflow_dtype type = call->bufs[DSFLOW_EMBED_X].dtype;

    for (size_t r = 0; r < (size_t)a->tile.rows; r++) {
        float *x = dsf_is_narrow(type)
                       ? scratch_row(call, 2, n)
                       : dsf_floats(call, DSFLOW_EMBED_X) + r * n;
        int64_t wte, wpe;

        rows_at(call, r, &wte, &wpe);
        sum_of(row_of(call, DSFLOW_EMBED_UNIT, wte, n, 0),
               row_of(call, DSFLOW_EMBED_UNIT, wpe, n, 1), x, n);
        if (dsf_is_narrow(type))
            dsf_narrow(type)->narrow(
                x, n, NULL, dsf_halves(call, DSFLOW_EMBED_X) + r * n, n, 1, n);
    }
}

DSF_SEGMENT_CODELET(embed_forward, forward_cpu);

/* The rows of the tile that go to one row of a table are summed in fp32, in
 * their order, and that row is rounded once: rows[r] is where row `r` goes. */
static void add_rows(const struct dsflow_call *call,
                     const struct dsf_gradient *g, int64_t *rows)
{
    const struct dsflow_embed_args *a = call->args;
    const size_t n = (size_t)a->tile.width, end = (size_t)a->tile.rows;
    float *sum = scratch_row(call, 1, n);

    for (size_t r = 0; r < end; r++) {
        const int64_t to = rows[r];

        if (to < 0)
            continue;
        memcpy(sum, row_of(call, DSFLOW_EMBED_DX, (int64_t)(r * n), n, 0),
               n * sizeof(*sum));
        for (size_t i = r + 1; i < end; i++)
            if (rows[i] == to) {
                dsf_add(sum,
                        row_of(call, DSFLOW_EMBED_DX, (int64_t)(i * n), n, 0),
                        n);
                rows[i] = -1;
            }
        dsf_gradient_add(g, to, sum, n);
    }
}

static void backward_weight_narrow(const struct dsflow_call *call)
{
    const struct dsflow_embed_args *a = call->args;
    const size_t n = (size_t)a->tile.width, end = (size_t)a->tile.rows;
    const struct dsf_gradient g =
        dsf_gradient_on(call, DSFLOW_EMBED_GRAD, NULL, 0);
    int64_t *rows = (int64_t *)(void *)scratch_row(call, 2, n), other;

    for (size_t r = 0; r < end; r++)
        rows_at(call, r, &rows[r], &other);
    add_rows(call, &g, rows);
    for (size_t r = 0; r < end; r++)
        rows_at(call, r, &other, &rows[r]);
    add_rows(call, &g, rows);
}

/* Row after row: tokens that come again are added in their order. */
static void backward_weight_cpu(const struct dsflow_call *call)
{
    const struct dsflow_embed_args *a = call->args;
    const size_t n = (size_t)a->tile.width;
    float *grad = dsf_gradient(call, DSFLOW_EMBED_GRAD);

    for (size_t r = 0; r < (size_t)a->tile.rows; r++) {
        const float *dx = row_of(call, DSFLOW_EMBED_DX, (int64_t)(r * n), n, 0);
        int64_t wte, wpe;

        rows_at(call, r, &wte, &wpe);
        if (wte >= 0)
            dsf_add(grad + wte, dx, n);
        if (wpe >= 0)
            dsf_add(grad + wpe, dx, n);
    }
}

DSF_BY_TYPE(embed_backward_weight, DSFLOW_EMBED_GRAD, backward_weight)
DSF_SEGMENT_CODELET(embed_backward_weight, embed_backward_weight_cpu);
