/* inputs_cuda.cu - the inputs of products with matrices, as a quantized model
 * has them (codelets/inputs.h): in groups, or by rows. */
#include "gpu/dev_quantize.h"
#include "gpu/kernels.h"

namespace {

template <bool ALIGNED, class T>
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    round_groups(dsf_fake_quantizer q, const T *in, T *out, size_t n)
{
    const team all = { (unsigned)q.group / OWN };
    const size_t stride = (size_t)gridDim.x * blockDim.x * OWN;
    const size_t own = (size_t)(threadIdx.x % 32) * OWN;
    size_t at = ((size_t)blockIdx.x * blockDim.x + threadIdx.x / 32 * 32) * OWN;

    for (; at < n; at += stride) { /* of the whole warp */
        const bool there = at + own < n;
        float v[OWN] = {};

        if (there)
            load<ALIGNED>(in + at + own, v);
        quantize(all, q, v);
        if (there)
            store<ALIGNED>(out + at + own, v);
    }
}

/* A block for each row, which it reads twice. */
enum { ROW_THREADS = 256, WARPS = ROW_THREADS / 32 };

template <bool ALIGNED, class T>
__global__ void __launch_bounds__(ROW_THREADS)
    round_rows(dsf_fake_quantizer q, const T *in, T *out, size_t cols)
{
    extremes *of_warps = dev_shared<extremes>();
    const size_t row = (size_t)blockIdx.x * cols;
    const size_t first = (size_t)threadIdx.x * OWN;
    const team all = { 32 };
    extremes e = { 0, INFINITY, -INFINITY };
    float v[OWN];

    for (size_t at = first; at < cols; at += ROW_THREADS * OWN) {
        load<ALIGNED>(in + row + at, v);
        e.see(v);
    }
    e.see_all(all);
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = e;
    __syncthreads();
    for (int k = 0; k < WARPS; k++)
        e.join(of_warps[k]);
    for (size_t at = first; at < cols; at += ROW_THREADS * OWN) {
        load<ALIGNED>(in + row + at, v);
        quantize_between(q, e, v);
        store<ALIGNED>(out + row + at, v);
    }
}

template <bool ALIGNED, class T>
void launch(const dsf_fake_quantizer &q, const T *in, T *out, size_t rows,
            size_t cols, void *stream)
{
    const size_t n = rows * cols;

    if (q.group > 0)
        dev_launch((round_groups<ALIGNED, T>), dev_each_grid(n, OWN),
                   DEV_EACH_THREADS, 0, stream, q, in, out, n);
    else
        dev_launch((round_rows<ALIGNED, T>), (unsigned)rows, ROW_THREADS,
                   WARPS * sizeof(extremes), stream, q, in, out, cols);
}

template <class T>
void launch(const dsf_fake_quantizer &q, const T *in, T *out, size_t rows,
            size_t cols, void *stream)
{
    if (rows * cols > 0 && dev_all_aligned({ in, out }))
        launch<true>(q, in, out, rows, cols, stream);
    else if (rows * cols > 0)
        launch<false>(q, in, out, rows, cols, stream);
}

} // namespace

void dsf_gpu_round_inputs(const struct dsflow_tile *tile,
                          enum dsflow_dtype type, const void *in, void *out,
                          size_t rows, size_t cols, void *stream)
{
    const dsf_fake_quantizer q = { tile->input_quantizer, tile->input_bits,
                                   tile->input_group, 0, 0 };

    DEV_BY_TYPE(type, T,
                launch(q, (const T *)in, (T *)out, rows, cols, stream));
}
