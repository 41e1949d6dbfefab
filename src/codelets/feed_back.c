/* feed_back.c - what coding takes from a gradient, for the next one. */
#include "codelets/cast.h"
#include "codelets/codelets.h"
#include "codelets/trials.h"
#include "kernels/wire_blocks.h"

#include <string.h>

enum { CONTROL, GRAD, ERROR };

struct feed {
    const struct dsflow_call *call;
    const struct dsf_feed_back_args *a;
    struct dsf_error_step by;
    bool anew; /* errors count as 0 */
    int64_t step;
    float *error, *sent; /* of so many numbers */
    uint8_t *coded;
};

static struct feed begin(const struct dsflow_call *call)
{
    const struct dsf_feed_back_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;
    struct feed f = { .call = call, .a = a, .step = dsf_feed_back_step(a) };

    f.by = (struct dsf_error_step){ .beta = (float)a->beta,
                                    .rest = (float)(1 - a->beta),
                                    .scale = (float)c->loss_scale };
    f.anew = c->step <= 1 || (a->reset > 0 && (c->step - 1) % a->reset == 0);
    f.error = call->scratch;
    f.sent = f.error + f.step;
    f.coded = (uint8_t *)(f.sent + f.step);
    return f;
}

static float *gradient(const struct feed *f, int64_t i)
{
    return (float *)f->call->bufs[GRAD].ptr + f->a->grad_at + i;
}

static struct dsf_packed errors(const struct feed *f, int64_t i)
{
    const struct dsflow_buf *buf = &f->call->bufs[ERROR];

    return dsf_packed_at(buf->dtype, buf->ptr, buf->elems, f->a->error_at + i);
}

static void read_errors(const struct feed *f, int64_t i, int64_t n)
{
    if (f->anew)
        memset(f->error, 0, (size_t)n * sizeof(*f->error));
    else
        dsf_unpack_at(f->call->bufs[ERROR].dtype, errors(f, i), f->error,
                      (size_t)n);
}

static void add_errors(const struct feed *f, int64_t i, int64_t n)
{
    read_errors(f, i, n);
    dsf_error_add(&f->by, f->error, gradient(f, i), (size_t)n);
}

/* The errors are read, and there is x. */
static void keep_errors(const struct feed *f, const struct dsf_scales *scales,
                        int64_t i, int64_t n)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    const struct dsf_coding *coding = &f->a->coding;
    const float *x = gradient(f, i);

    dsf_coding_encode(coding, scales, f->a->at + i, n, x, f->coded);
    dsf_coding_decode(coding, f->a->at + i, n, f->coded, f->sent);
    dsf_error_keep(&f->by, x, f->sent, f->error, (size_t)n);
    dsf_pack_at(f->call->bufs[ERROR].dtype, &nearest, f->error, errors(f, i),
                (size_t)n);
}

/* Where tensors have a scale, that is of all x. */
static void feed_back_cpu(const struct dsflow_call *call)
{
    const struct feed f = begin(call);
    const int64_t elems = f.a->elems;
    const bool twice = f.a->coding.ntensors > 0;
    struct dsf_scales scales = { { 0 } };

    for (int64_t i = 0; i < elems && twice; i += f.step)
        add_errors(&f, i, elems - i < f.step ? elems - i : f.step);
    if (twice)
        scales = dsf_coding_scales(&f.a->coding, gradient(&f, 0));
    for (int64_t i = 0, n; i < elems; i += n) {
        n = elems - i < f.step ? elems - i : f.step;
        if (twice)
            read_errors(&f, i, n);
        else
            add_errors(&f, i, n);
        keep_errors(&f, &scales, i, n);
    }
}

DSF_CODELET(feed_back, .cpu = feed_back_cpu, .trials = &dsf_trials_compress);
