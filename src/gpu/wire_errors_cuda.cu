/* wire_errors_cuda.cu - what coding takes from a gradient, for the next one:
 * `feed_back`. Errors in 8 bits are unpacked and packed beside it, some at a
 * time, which stay in the cache. */
#include "gpu/dev_wire.h"
#include "gpu/gpu.h"
#include "gpu/pack.h"
#include "gpu/wire.h"

#include "tasks/compress_args.h"

namespace {

/* Numbers whose errors are unpacked at a time, and at least as many as a step
 * of the task: few where they are emulated, so that small units are several,
 * too. */
#ifdef __CUDACC__
enum { SLICE = 1 << 22 };
#else
enum { SLICE = 1 << 10 };
#endif

enum { CONTROL, GRAD, ERROR };
enum { ADD = 1, KEEP = 2 }; /* what of it is done; x may be there before */

struct begun {
    float scale, rest; /* rest = (1 - beta) / scale */
    bool anew;         /* errors count as 0 */
};

template <class F, int DOES> struct feed : wire_op {
    enum { FRONT = 16 };
    const struct dsflow_control *control;
    float beta, rest;
    int64_t reset;
    float *x, *error;
    const float *scales;

    /* A block of threads reads the control once: it is in main memory. */
    DEV void begin() const
    {
        begun *b = dev_shared<begun>();

        if (threadIdx.x == 0 && threadIdx.y == 0) {
            const int64_t step = control->step;

            b->scale = (float)control->loss_scale;
            b->rest = __fdiv_rn(rest, b->scale);
            b->anew = step <= 1 || (reset > 0 && (step - 1) % reset == 0);
        }
        __syncthreads();
    }
    DEV void block(wire_team &team, int64_t at) const
    {
        const begun b = *dev_shared<begun>();
        const wire_place of(c);
        const int64_t i = at - range.at;
        float v[WIRE_OWN], was[WIRE_OWN];

        wire_load(x + i, of, v);
        wire_load(error + i, of, was);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++) {
            was[k] = b.anew ? 0 : was[k];
            v[k] = DOES & ADD ? __fmaf_rn(b.scale, was[k], v[k]) : v[k];
        }
        if (DOES & ADD)
            wire_store(x + i, of, v);
        if (DOES & KEEP)
            keep(team, b.rest, at, of, v, was);
    }
    DEV void keep(wire_team &team, float share, int64_t at,
                  const wire_place &of, const float (&v)[WIRE_OWN],
                  float (&was)[WIRE_OWN]) const
    {
        float sent[WIRE_OWN];

        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            sent[k] = v[k];
        wire_send<F>(team, c, scales, at, of, sent);
        DEV_UNROLL
        for (int k = 0; k < WIRE_OWN; k++)
            was[k] = wire_finite_or(
                __fmaf_rn(beta, was[k],
                          __fmul_rn(share, __fsub_rn(v[k], sent[k]))),
                was[k]);
        wire_store(error + (at - range.at), of, was);
    }
};

const dsf_feed_back_args *args_of(const struct dsflow_call *call)
{
    return (const dsf_feed_back_args *)call->args;
}

const float *gradient(const struct dsflow_call *call, unsigned)
{
    return (const float *)call->bufs[GRAD].ptr + args_of(call)->grad_at;
}

/* Whole blocks of the coding, and of packed errors. */
int64_t slice_of(const dsf_feed_back_args *a)
{
    int64_t each = DSFLOW_BLOCK_ELEMS;

    while (each % a->coding.block != 0)
        each += DSFLOW_BLOCK_ELEMS;
    return (SLICE + each - 1) / each * each;
}

/* `n` numbers from number `i` on. */
template <class F, int DOES>
void feed_some(const struct dsflow_call *call, const float *scales, int64_t i,
               int64_t n, void *stream)
{
    const dsf_feed_back_args *a = args_of(call);
    const struct dsflow_buf *errors = &call->bufs[ERROR];
    const struct dsf_gpu_packed at = dsf_gpu_packed_at(
        errors->dtype, errors->ptr, errors->elems, a->error_at + i);
    const struct dsf_gpu_rounding nearest = {};
    float *error =
        at.codes == nullptr ? (float *)at.numbers : (float *)call->scratch;
    feed<F, DOES> op = {};

    op.c = a->coding;
    op.range = { a->at + i, n };
    op.control = (const struct dsflow_control *)call->bufs[CONTROL].ptr;
    op.beta = (float)a->beta;
    op.rest = (float)(1 - a->beta);
    op.reset = a->reset;
    op.x = (float *)call->bufs[GRAD].ptr + a->grad_at + i;
    op.error = error;
    op.scales = scales;
    if (at.codes != nullptr)
        dsf_gpu_unpack8((const uint16_t *)at.numbers, at.codes, error,
                        (size_t)n, stream);
    wire_launch<F>(op, n, 1, 0, stream);
    if (at.codes != nullptr && (DOES & KEEP))
        dsf_gpu_pack8(&nearest, error, (uint16_t *)at.numbers, at.codes,
                      (size_t)n, stream);
}

template <class F, int DOES>
void feed_all(const struct dsflow_call *call, const float *scales, void *stream)
{
    const int64_t elems = args_of(call)->elems;
    const bool packed = call->bufs[ERROR].dtype == DSFLOW_INT8_BLOCK;
    const int64_t step = packed ? slice_of(args_of(call)) : elems;

    for (int64_t i = 0; i < elems; i += step)
        feed_some<F, DOES>(call, scales, i, elems - i < step ? elems - i : step,
                           stream);
}

/* Of signs all x are there before the first is sent: the scale of a tensor is
 * of all of them, and one pass for both would take more registers than there
 * are. */
template <class F>
void launch_feed(const struct dsflow_call *call, void *stream)
{
    const struct dsf_coding *c = &args_of(call)->coding;
    char *scratch = (char *)call->scratch +
                    (call->bufs[ERROR].dtype == DSFLOW_INT8_BLOCK
                         ? (size_t)slice_of(args_of(call)) * sizeof(float)
                         : 0);

    if constexpr (std::is_same<F, wire_sign>::value) {
        feed_all<F, ADD>(call, nullptr, stream);
        feed_all<F, KEEP>(
            call, dsf_gpu_wire_scales(c, call, gradient, 1, scratch, stream),
            stream);
    } else
        feed_all<F, ADD | KEEP>(call, nullptr, stream);
}

void feed_run(const struct dsflow_call *call, void *stream)
{
    WIRE_BY_FORMAT(args_of(call)->coding, F, launch_feed<F>(call, stream));
}

size_t feed_scratch(const struct dsflow_case *c)
{
    const dsf_feed_back_args *a = (const dsf_feed_back_args *)c->args;

    return dsf_gpu_wire_scratch(&a->coding, 1) +
           (c->shapes[ERROR].dtype == DSFLOW_INT8_BLOCK
                ? (size_t)slice_of(a) * sizeof(float)
                : 0);
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_feed_back = { "feed_back", feed_run,
                                                     feed_scratch, 1,
                                                     wire_lacks };
