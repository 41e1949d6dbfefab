/* matmul.cpp - a product on memory that cores reach, plainly. */
#include "matmul.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "emulated.h"

namespace {

/* So many products are summed at a time, then those sums: in fp32, as in
 * registers of a GPU. */
enum { PART = 32 };

float load(const void *p, enum dsflow_dtype type, size_t i)
{
    if (type == DSFLOW_FP32)
        return static_cast<const float *>(p)[i];
    const uint16_t bits = static_cast<const uint16_t *>(p)[i];
    return type == DSFLOW_BF16 ? dsf_from_bf16(bits) : dsf_from_fp16(bits);
}

void store(void *p, enum dsflow_dtype type, size_t i, float v)
{
    uint16_t *half = static_cast<uint16_t *>(p);

    if (type == DSFLOW_FP32)
        static_cast<float *>(p)[i] = v;
    else if (std::isnan(v))
        half[i] = 0x7fff;
    else
        half[i] = type == DSFLOW_BF16 ? dsf_to_bf16(v) : dsf_to_fp16(v);
}

/* To the nearest with 10 bits behind the point, ties away from zero. */
float to_tf32(float v)
{
    uint32_t bits;

    if (!std::isfinite(v))
        return v;
    memcpy(&bits, &v, sizeof(bits));
    bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* op(M)[rows][cols] in fp32; `turned`: M is stored [cols][rows]. */
std::vector<float> widened(const void *m, enum dsflow_dtype type, int tf32,
                           int turned, size_t rows, size_t cols, size_t ld)
{
    std::vector<float> out(rows * cols);

    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            out[i * cols + j] = load(m, type, turned ? j * ld + i : i * ld + j);
    for (size_t i = 0; tf32 && i < out.size(); i++)
        out[i] = to_tf32(out[i]);
    return out;
}

/* sum[n] += a b[n]: eight at a time, also without optimization. */
void add_scaled(float *sum, float a, const float *b, size_t n)
{
    typedef float lanes __attribute__((vector_size(32)));
    size_t j = 0;

    for (; j + 8 <= n; j += 8) {
        lanes x, y;

        memcpy(&x, sum + j, sizeof(x));
        memcpy(&y, b + j, sizeof(y));
        x += a * y;
        memcpy(sum + j, &x, sizeof(x));
    }
    for (; j < n; j++)
        sum[j] += a * b[j];
}

float tanh_of(float x)
{
    return tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
}

float gelu(float x)
{
    return 0.5f * x * (1 + tanh_of(x));
}

float gelu_slope(float x)
{
    const float t = tanh_of(x);

    return 0.5f * (1 + t) +
           0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

/* Row `i` of A B becomes that of C. */
void finish(const struct dsf_gpu_product &p, size_t i, const float *sum)
{
    for (size_t j = 0; j < p.n; j++) {
        float v = sum[j];

        if (p.add)
            v += load(p.add, p.out, i * p.ldc + j);
        if (p.bias)
            v += load(p.bias, p.type, j);
        if (p.epilogue == DSF_GPU_DGELU) {
            v *= gelu_slope(load(p.aux, p.type, i * p.n + j));
        } else if (p.epilogue == DSF_GPU_GELU) {
            store(p.aux, p.type, i * p.n + j, v);
            v = gelu(v);
        }
        store(p.c, p.out, i * p.ldc + j, v);
    }
}

/* C as it was, which is no numbers from now on: a GPU writes C while it still
 * reads A and B, which may have nothing of it. */
std::vector<float> taken(const struct dsf_gpu_product &p)
{
    std::vector<float> was(p.m * p.n);

    for (size_t i = 0; i < p.m; i++)
        for (size_t j = 0; j < p.n; j++) {
            was[i * p.n + j] = load(p.c, p.out, i * p.ldc + j);
            store(p.c, p.out, i * p.ldc + j, NAN);
        }
    return was;
}

void give_back(const struct dsf_gpu_product &p, const std::vector<float> &was)
{
    for (size_t i = 0; i < p.m; i++)
        for (size_t j = 0; j < p.n; j++)
            store(p.c, p.out, i * p.ldc + j, was[i * p.n + j]);
}

void compute(const struct dsf_gpu_product &p)
{
    const auto was = taken(p);
    const auto a = widened(p.a, p.type, p.tf32, p.ta, p.m, p.k, p.lda);
    const auto b = widened(p.b, p.type, p.tf32, p.tb, p.k, p.n, p.ldb);
    std::vector<float> sum(p.n), part(p.n);

    if (p.add != nullptr)
        give_back(p, was);
    for (size_t i = 0; i < p.m; i++) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (size_t l = 0; l < p.k; l++) {
            if (l % PART == 0)
                std::fill(part.begin(), part.end(), 0.0f);
            add_scaled(part.data(), a[i * p.k + l], &b[l * p.n], p.n);
            if (l % PART == PART - 1 || l + 1 == p.k)
                add_scaled(sum.data(), 1, part.data(), p.n);
        }
        finish(p, i, sum.data());
    }
}

} // namespace

void emulated_matmul(const struct dsf_gpu_product &p, void *stream)
{
    if (stream != nullptr && emulated_enqueue != nullptr)
        emulated_enqueue(stream,
                         { "a product",
                           [p] { compute(p); },
                           { p.a, p.b, p.c, p.add, p.bias, p.aux } });
    else
        compute(p);
}

bool emulated_refuses(size_t alignment, bool has_epilogue)
{
    const char *least = getenv("DSFLOW_EMULATED_ALIGNMENT");
    const char *fused = getenv("DSFLOW_EMULATED_EPILOGUES");

    return (least != nullptr && alignment < strtoul(least, nullptr, 0)) ||
           (has_epilogue && fused != nullptr && strcmp(fused, "no") == 0);
}

bool emulated_aligned(const void *at, size_t alignment)
{
    return reinterpret_cast<uintptr_t>(at) % alignment == 0;
}

size_t emulated_bytes(enum dsflow_dtype type)
{
    return type == DSFLOW_FP32 ? 4 : 2;
}
