/* feed_back.c - what coding takes from a gradient, for the next one. */
#include "codelets/cast.h"
#include "codelets/codelets.h"
#include "codelets/trials.h"
#include "kernels/wire_blocks.h"

#include <string.h>

enum { CONTROL, GRAD, ERROR };

/* Errors count as 0 in the first step, and in every so many of them. */
static bool begins(const struct dsf_feed_back_args *a,
                   const struct dsflow_control *c)
{
    return c->step <= 1 || (a->reset > 0 && (c->step - 1) % a->reset == 0);
}

/* Errors from `at` on: scales stand before all codes. */
static struct dsf_packed errors_at(const struct dsflow_buf *buf, int64_t at)
{
    return dsf_packed_at(buf->dtype, buf->ptr, buf->elems, at);
}

static void feed_back_cpu(const struct dsflow_call *call)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    const struct dsf_feed_back_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    const struct dsflow_buf *errors = &call->bufs[ERROR];
    const bool anew = begins(a, c);
    const int64_t step = dsf_feed_back_step(a);
    float *sent = call->scratch, *error = sent + step;
    uint8_t *coded = (uint8_t *)(error + step);
    const struct dsf_error_step by = { .beta = (float)a->beta,
                                       .rest = (float)(1 - a->beta),
                                       .scale = (float)c->loss_scale };

    for (int64_t i = 0, n; i < a->elems; i += n) {
        float *x = (float *)call->bufs[GRAD].ptr + a->grad_at + i;
        struct dsf_packed at = errors_at(errors, a->error_at + i);

        n = a->elems - i < step ? a->elems - i : step;
        if (anew)
            memset(error, 0, (size_t)n * sizeof(*error));
        else
            dsf_unpack_at(errors->dtype, at, error, (size_t)n);
        dsf_error_add(&by, error, x, (size_t)n);
        dsf_coding_encode(&a->coding, a->at + i, n, x, coded);
        dsf_coding_decode(&a->coding, a->at + i, n, coded, sent);
        dsf_error_keep(&by, x, sent, error, (size_t)n);
        dsf_pack_at(errors->dtype, &nearest, error, at, (size_t)n);
    }
}

DSF_CODELET(feed_back, .cpu = feed_back_cpu, .trials = &dsf_trials_compress);
