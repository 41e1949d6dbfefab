/* onebit.c - 1-bit Adam, and what 1-bit LAMB has of it: what is sent of a
 * momentum, and what comes of it. */
#include "codelets/cast.h"
#include "codelets/codelets.h"
#include "codelets/errors.h"
#include "codelets/trials.h"
#include "kernels/wire_blocks.h"

#include <math.h>
#include <string.h>

static float *floats(const struct dsflow_buf *buf, int64_t at)
{
    return (float *)buf->ptr + at;
}

/* --- feed_momentum -------------------------------------------------------- */

enum { CONTROL, GRAD, M, ERROR, LAMB };

/* What the momentum from number `i` on is multiplied by; `lamb`: NULL, it is as
 * large as it is. */
static double scale_at(const struct dsf_momentum_args *a,
                       const struct dsf_lamb *lamb, int64_t i)
{
    int64_t chunk = lamb == NULL ? -1 : dsf_chunk_of(&a->coding, 1, i);

    return chunk < 0 ? 1 : lamb[a->coding.tensors[chunk].number].scale;
}

/* x in the place of the gradient, from number `i` on; without m, beta1 is 0. */
static void make_momentum(const struct dsflow_call *call,
                          const struct dsf_lamb *lamb, int64_t i, int64_t n)
{
    const struct dsf_momentum_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const double scale = scale_at(a, lamb, i);
    const struct dsf_momentum_step by = {
        .beta = (float)(scale * a->beta1 / (double)a->groups),
        .rest = (float)(scale * (1 - a->beta1) / c->loss_scale),
    };
    float *x = floats(&call->bufs[GRAD], a->grad_at + i);
    const bool has_m = call->nbufs > M && call->bufs[M].ptr != NULL;

    dsf_momentum_mean(&by, has_m ? floats(&call->bufs[M], i) : x, x, (size_t)n);
}

static void feed_momentum_cpu(const struct dsflow_call *call)
{
    const struct dsf_momentum_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const bool coded = call->nbufs > ERROR && call->bufs[ERROR].ptr != NULL;
    const struct dsf_lamb *lamb =
        coded && call->nbufs > LAMB ? call->bufs[LAMB].ptr : NULL;
    const int64_t step = coded ? a->coding.block : a->elems;
    const struct dsf_errors errors = {
        .coding = &a->coding,
        .elems = a->elems,
        .at = a->error_at,
        .x = floats(&call->bufs[GRAD], a->grad_at),
        .buf = coded ? &call->bufs[ERROR] : NULL,
        .scratch = call->scratch,
        .clear = a->last > 0 && c->step == a->last,
    };

    for (int64_t i = 0; i < a->elems; i += step) {
        make_momentum(call, lamb, i, step);
        if (coded)
            dsf_errors_add(&errors, i);
    }
    if (coded && lamb == NULL) /* else send_signs */
        dsf_errors_keep(&errors);
}

DSF_CODELET(feed_momentum, .cpu = feed_momentum_cpu,
            .trials = &dsf_trials_onebit);

/* --- chunks --------------------------------------------------------------- */

/* grad + server, of a block. */
static void chunk_squares_cpu(const struct dsflow_call *call)
{
    enum { SOME = 2048 };
    const struct dsf_chunk_args *a = call->args;
    const int64_t n = a->coding.block;
    const bool server = call->bufs[1].ptr != NULL;
    double *sums = call->bufs[2].ptr;
    const float *x;

    for (int64_t i = 0; i < a->elems; i += n, sums++) {
        *sums = 0;
        if (dsf_chunk_of(&a->coding, a->groups, a->at + i) < 0)
            continue;
        x = floats(&call->bufs[0], a->grad_at + i);
        if (server) {
            x = call->scratch;
            dsf_sum(call->scratch, floats(&call->bufs[0], a->grad_at + i),
                    floats(&call->bufs[1], a->server_at + i), (size_t)n);
        }
        for (int64_t k = 0, some; k < n; k += some) {
            some = n - k < SOME ? n - k : SOME;
            *sums += dsf_square_sum(x + k, (size_t)some);
        }
    }
}

DSF_CODELET(chunk_squares, .cpu = chunk_squares_cpu,
            .trials = &dsf_trials_onebit);

static void chunk_scales_cpu(const struct dsflow_call *call)
{
    const struct dsf_chunk_scales_args *a = call->args;
    const int64_t nscales = a->coding.ntensors * a->groups;
    double *scales = call->bufs[0].ptr;
    int64_t at = 0;

    memset(scales, 0, (size_t)nscales * sizeof(*scales));
    for (unsigned i = 1; i < call->nbufs; i++)
        for (int64_t b = 0; b < call->bufs[i].elems; b++) {
            int64_t chunk = dsf_chunk_of(&a->coding, a->groups, at);

            if (chunk >= 0)
                scales[chunk] += ((const double *)call->bufs[i].ptr)[b];
            at += a->coding.block;
        }
    for (int64_t k = 0; k < nscales; k++) {
        int64_t n = dsf_chunk_elems(&a->coding, a->groups, k);

        scales[k] = n > 0 ? (double)dsf_wire1_scale(scales[k], (size_t)n) : 0;
    }
}

DSF_CODELET(chunk_scales, .cpu = chunk_scales_cpu,
            .trials = &dsf_trials_onebit);

/* --- serve ---------------------------------------------------------------- */

enum { SUM = 1, SCALES, SERVER, MOMENTUM };

static void serve_cpu(const struct dsflow_call *call)
{
    const struct dsf_chunk_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const bool coded = call->bufs[SERVER].ptr != NULL;
    const double *scales = call->bufs[SCALES].ptr;
    const int64_t n = coded ? a->coding.block : a->elems;

    for (int64_t i = 0; i < a->elems && !c->skip; i += n) {
        const float *x = floats(&call->bufs[SUM], a->grad_at + i);
        float *m = floats(&call->bufs[MOMENTUM], a->m_at + i);
        int64_t chunk =
            coded ? dsf_chunk_of(&a->coding, a->groups, a->at + i) : -1;

        if (chunk < 0)
            memmove(m, x, (size_t)n * sizeof(*m));
        else
            dsf_wire1_serve((float)scales[chunk], x,
                            floats(&call->bufs[SERVER], a->server_at + i), m,
                            (size_t)n);
    }
}

DSF_CODELET(serve, .cpu = serve_cpu, .trials = &dsf_trials_onebit);
