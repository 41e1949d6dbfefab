/* onebit.c - 1-bit Adam, and what 1-bit LAMB has of it: what is sent of a
 * momentum, and what comes of it. */
#include "codelets/cast.h"
#include "codelets/codelets.h"
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

struct feed {
    const struct dsflow_call *call;
    const struct dsf_momentum_args *a;
    const struct dsflow_buf *errors; /* NULL: there are none */
    const struct dsf_lamb *lamb; /* NULL: momenta are as large as they are */
    int64_t step;
    float *error, *sent;
    uint8_t *coded;
};

/* What the momentum from number `i` on is multiplied by. */
static double scale_at(const struct feed *f, int64_t i)
{
    int64_t chunk = f->lamb == NULL ? -1 : dsf_chunk_of(&f->a->coding, 1, i);

    return chunk < 0 ? 1 : f->lamb[chunk].scale;
}

/* x in the place of the gradient, from number `i` on. */
static void make_momentum(const struct feed *f, int64_t i, int64_t n)
{
    const struct dsflow_control *c = f->call->bufs[CONTROL].ptr;
    const double beta1 = f->a->beta1, scale = scale_at(f, i);
    const struct dsf_momentum_step by = {
        .beta = (float)(scale * beta1 / (double)f->a->groups),
        .rest = (float)(scale * (1 - beta1) / c->loss_scale),
    };
    float *x = floats(&f->call->bufs[GRAD], f->a->grad_at + i);

    dsf_momentum_mean(&by, floats(&f->call->bufs[M], i), x, (size_t)n);
    if (f->errors == NULL)
        return;
    dsf_unpack_at(f->errors->dtype,
                  dsf_packed_at(f->errors->dtype, f->errors->ptr,
                                f->errors->elems, f->a->error_at + i),
                  f->error, (size_t)n);
    dsf_add(x, f->error, (size_t)n);
}

static void keep_error(const struct feed *f, const struct dsf_scales *scales,
                       int64_t i, int64_t n)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    const struct dsf_error_step by = { .beta = 0, .rest = 1, .scale = 1 };
    const struct dsf_packed at = dsf_packed_at(
        f->errors->dtype, f->errors->ptr, f->errors->elems, f->a->error_at + i);
    const float *x = floats(&f->call->bufs[GRAD], f->a->grad_at + i);

    dsf_coding_encode(&f->a->coding, scales, i, n, x, f->coded);
    dsf_coding_decode(&f->a->coding, i, n, f->coded, f->sent);
    /* What is not finite leaves it as it was. */
    dsf_unpack_at(f->errors->dtype, at, f->error, (size_t)n);
    dsf_error_keep(&by, x, f->sent, f->error, (size_t)n);
    dsf_pack_at(f->errors->dtype, &nearest, f->error, at, (size_t)n);
}

static void feed_momentum_cpu(const struct dsflow_call *call)
{
    const struct dsf_momentum_args *a = call->args;
    const bool coded = call->nbufs > ERROR && call->bufs[ERROR].ptr != NULL;
    struct feed f = { .call = call, .a = a, .step = a->coding.block };
    struct dsf_scales scales;

    if (!coded) {
        make_momentum(&f, 0, a->elems);
        return;
    }
    if (call->nbufs > LAMB)
        f.lamb = call->bufs[LAMB].ptr;
    f.errors = &call->bufs[ERROR];
    f.error = call->scratch;
    f.sent = f.error + f.step;
    f.coded = (uint8_t *)(f.sent + f.step);
    for (int64_t i = 0; i < a->elems; i += f.step)
        make_momentum(&f, i, f.step);
    if (f.lamb != NULL) /* send_signs */
        return;
    scales =
        dsf_coding_scales(&a->coding, floats(&call->bufs[GRAD], a->grad_at));
    for (int64_t i = 0; i < a->elems; i += f.step)
        keep_error(&f, &scales, i, f.step);
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
