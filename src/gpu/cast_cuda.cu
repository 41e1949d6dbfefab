/* cast_cuda.cu - numbers of one type as numbers of another. */
#include "gpu/dev_bits.h"
#include "gpu/gpu.h"
#include "gpu/pack.h"

#include "tasks/args.h"

namespace {

template <int V, class T> DEV void narrow_at(const float *in, T *out, size_t i)
{
    float v[V];

    dev_load_all(in + i, v);
    dev_store_half(out + i, v);
}

template <int V, class T>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    narrow(const float *in, T *out, size_t n)
{
    dev_each<V>(n, [&](size_t i, auto width) {
        narrow_at<decltype(width)::N>(in, out, i);
    });
}

template <int V, class T> DEV void widen_at(const T *in, float *out, size_t i)
{
    float v[V];

    dev_load_all(in + i, v);
    dev_store_all(out + i, v);
}

template <int V, class T>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    widen(const T *in, float *out, size_t n)
{
    dev_each<V>(n, [&](size_t i, auto width) {
        widen_at<decltype(width)::N>(in, out, i);
    });
}

/* Between fp32 and fp64. */
template <class From, class To>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    convert(const From *in, To *out, size_t n)
{
    dev_each<1>(n, [&](size_t i, auto) { out[i] = (To)in[i]; });
}

template <class T>
void launch_narrow(const float *in, void *to, size_t n, void *stream)
{
    T *out = (T *)to;

    if (dev_all_aligned({ in, out }))
        dev_launch((narrow<8, T>), dev_each_grid(n, 8), DEV_EACH_THREADS, 0,
                   stream, in, out, n);
    else
        dev_launch((narrow<1, T>), dev_each_grid(n, 1), DEV_EACH_THREADS, 0,
                   stream, in, out, n);
}

template <class T>
void launch_widen(const void *from, float *out, size_t n, void *stream)
{
    const T *in = (const T *)from;

    if (dev_all_aligned({ in, out }))
        dev_launch((widen<8, T>), dev_each_grid(n, 8), DEV_EACH_THREADS, 0,
                   stream, in, out, n);
    else
        dev_launch((widen<1, T>), dev_each_grid(n, 1), DEV_EACH_THREADS, 0,
                   stream, in, out, n);
}

template <class From, class To>
void launch_convert(const void *from, void *to, size_t n, void *stream)
{
    dev_launch((convert<From, To>), dev_each_grid(n, 1), DEV_EACH_THREADS, 0,
               stream, (const From *)from, (To *)to, n);
}

typedef struct dsf_gpu_packed place;

place place_of(const struct dsflow_buf *buf, int64_t at, int64_t packed)
{
    return dsf_gpu_packed_at(buf->dtype, buf->ptr,
                             packed == 0 ? buf->elems : packed, at);
}

void narrow_to(enum dsflow_dtype type, const struct dsf_gpu_rounding *r,
               const float *in, place out, size_t n, void *stream)
{
    if (type == DSFLOW_INT8_BLOCK)
        dsf_gpu_pack8(r, in, (uint16_t *)out.numbers, out.codes, n, stream);
    else if (r->control != nullptr)
        dsf_gpu_pack16(r, in, (uint16_t *)out.numbers, n, stream);
    else if (type == DSFLOW_BF16)
        launch_narrow<bf16>(in, out.numbers, n, stream);
    else if (type == DSFLOW_FP16)
        launch_narrow<fp16>(in, out.numbers, n, stream);
    else
        launch_convert<float, double>(in, out.numbers, n, stream);
}

void widen_from(enum dsflow_dtype type, place in, float *out, size_t n,
                void *stream)
{
    if (type == DSFLOW_INT8_BLOCK)
        dsf_gpu_unpack8((const uint16_t *)in.numbers, in.codes, out, n, stream);
    else if (type == DSFLOW_BF16)
        launch_widen<bf16>(in.numbers, out, n, stream);
    else if (type == DSFLOW_FP16)
        launch_widen<fp16>(in.numbers, out, n, stream);
    else
        launch_convert<double, float>(in.numbers, out, n, stream);
}

enum { IN, OUT, CONTROL };

void run(const struct dsflow_call *call, void *stream)
{
    const dsf_cast_args *a = (const dsf_cast_args *)call->args;
    const place in = place_of(&call->bufs[IN], a->in_at, a->packed);
    const place out = place_of(&call->bufs[OUT], a->out_at, a->packed);
    const bool at_random = a->rounding == DSF_ROUND_STOCHASTIC;
    const struct dsf_gpu_rounding rounding = {
        a->stream, (uint64_t)a->at / DSFLOW_BLOCK_ELEMS,
        at_random ? (const struct dsflow_control *)call->bufs[CONTROL].ptr
                  : nullptr
    };
    const size_t n = (size_t)a->elems;

    if (n == 0)
        return;
    if (call->bufs[IN].dtype == DSFLOW_FP32)
        narrow_to(call->bufs[OUT].dtype, &rounding, (const float *)in.numbers,
                  out, n, stream);
    else
        widen_from(call->bufs[IN].dtype, in, (float *)out.numbers, n, stream);
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_cast = { "cast", run, nullptr, 1 };
