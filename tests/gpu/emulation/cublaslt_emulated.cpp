/* cublaslt_emulated.cpp - cuBLASLt without a GPU. The descriptors are the
 * library's own; what needs a device (the handle, the choice, the product) is
 * here, and computes what the descriptors say, on the emulated stream. It
 * refuses what the library refuses, and what we do not know that it computes.
 *
 * The library is opened with the first descriptor: it takes 0.2 s, and 150 MB
 * of memory, that tests without products need not spend. */
#include "matmul.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace {

template <class T>
T attribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which)
{
    T v = {};
    size_t n;

    cublasLtMatmulDescGetAttribute(d, which, &v, sizeof(v), &n);
    return v;
}

template <class T>
T attribute(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t which)
{
    T v = {};
    size_t n;

    cublasLtMatrixLayoutGetAttribute(l, which, &v, sizeof(v), &n);
    return v;
}

template <class T>
T attribute(cublasLtMatmulPreference_t p,
            cublasLtMatmulPreferenceAttributes_t which)
{
    T v = {};
    size_t n;

    cublasLtMatmulPreferenceGetAttribute(p, which, &v, sizeof(v), &n);
    return v;
}

/* Column-major, as the library says. */
struct matrix {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;

    explicit matrix(cublasLtMatrixLayout_t l)
        : type((cudaDataType_t)attribute<uint32_t>(
              l, CUBLASLT_MATRIX_LAYOUT_TYPE)),
          rows(attribute<uint64_t>(l, CUBLASLT_MATRIX_LAYOUT_ROWS)),
          cols(attribute<uint64_t>(l, CUBLASLT_MATRIX_LAYOUT_COLS)),
          ld(attribute<int64_t>(l, CUBLASLT_MATRIX_LAYOUT_LD))
    {
    }
    bool operator==(const matrix &other) const
    {
        return type == other.type && rows == other.rows && cols == other.cols &&
               ld == other.ld;
    }
    bool is_wide_enough() const
    {
        return ld >= (int64_t)rows;
    }
    bool fits(uint32_t alignment) const
    {
        return (size_t)ld * (type == CUDA_R_32F ? 4 : 2) % alignment == 0;
    }
};

enum dsflow_dtype type_of(cudaDataType_t type)
{
    return type == CUDA_R_16BF  ? DSFLOW_BF16
           : type == CUDA_R_16F ? DSFLOW_FP16
                                : DSFLOW_FP32;
}

/* What a product's descriptors say. */
struct product {
    matrix a, b, c, d;
    bool ta, tb, tf32;
    uint32_t epilogue;
    const void *bias;
    void *aux;
    int64_t aux_ld;
    uint64_t m, n, k;

    product(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t la,
            cublasLtMatrixLayout_t lb, cublasLtMatrixLayout_t lc,
            cublasLtMatrixLayout_t ld)
        : a(la), b(lb), c(lc), d(ld),
          ta(attribute<int32_t>(op, CUBLASLT_MATMUL_DESC_TRANSA) !=
             CUBLAS_OP_N),
          tb(attribute<int32_t>(op, CUBLASLT_MATMUL_DESC_TRANSB) !=
             CUBLAS_OP_N),
          tf32(attribute<int32_t>(op, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) ==
               CUBLAS_COMPUTE_32F_FAST_TF32),
          epilogue(attribute<uint32_t>(op, CUBLASLT_MATMUL_DESC_EPILOGUE)),
          bias(attribute<const void *>(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER)),
          aux(attribute<void *>(op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)),
          aux_ld(attribute<int64_t>(op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD)),
          m(d.rows), n(d.cols), k(ta ? a.rows : a.cols)
    {
    }
    bool has_bias() const
    {
        return epilogue & CUBLASLT_EPILOGUE_BIAS;
    }
    bool has_aux() const
    {
        return epilogue & 128;
    }
    bool is_right() const;
    bool is_known() const;
    struct dsf_gpu_product ours() const;
    uint32_t layouts() const;
};

/* Sizes that agree. */
bool product::is_right() const
{
    return (ta ? a.cols : a.rows) == m && (tb ? b.cols : b.rows) == k &&
           (tb ? b.rows : b.cols) == n && c == d && a.is_wide_enough() &&
           b.is_wide_enough() && d.is_wide_enough() &&
           (!has_bias() || bias != nullptr) &&
           (!has_aux() ||
            (aux != nullptr && aux_ld >= (int64_t)m && aux_ld % 8 == 0));
}

/* The types and epilogues of the library's table that a GPU of today has: with
 * an epilogue, all numbers are of one narrow type. */
bool product::is_known() const
{
    const bool narrow = a.type == CUDA_R_16BF || a.type == CUDA_R_16F;
    const uint32_t known[] = { CUBLASLT_EPILOGUE_BIAS,
                               CUBLASLT_EPILOGUE_GELU_AUX,
                               CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                               CUBLASLT_EPILOGUE_DGELU };

    if (tf32 && a.type != CUDA_R_32F)
        return false;
    if (a.type != b.type || (d.type != a.type && d.type != CUDA_R_32F))
        return false;
    if (epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return narrow || a.type == CUDA_R_32F;
    for (uint32_t one : known)
        if (epilogue == one)
            return narrow && d.type == a.type;
    return false;
}

/* Row-major: each matrix is the transpose of the library's. */
struct dsf_gpu_product product::ours() const
{
    struct dsf_gpu_product p = {};

    p.type = type_of(a.type);
    p.out = type_of(d.type);
    p.tf32 = tf32;
    p.ta = tb;
    p.tb = ta;
    p.m = n;
    p.n = m;
    p.k = k;
    p.lda = (size_t)b.ld;
    p.ldb = (size_t)a.ld;
    p.ldc = (size_t)d.ld;
    p.bias = has_bias() ? bias : nullptr;
    p.aux = has_aux() ? aux : nullptr;
    p.epilogue = epilogue == CUBLASLT_EPILOGUE_DGELU ? DSF_GPU_DGELU
                 : has_aux()                         ? DSF_GPU_GELU
                                                     : DSF_GPU_AS_IT_IS;
    return p;
}

/* Of types, transposes and leading dimensions: another number for others. */
uint32_t product::layouts() const
{
    uint32_t x = ta + 2 * tb;

    for (const matrix *one : { &a, &b, &c, &d })
        x = (x * 31 + (uint32_t)one->type) * 65599 + (uint32_t)one->ld;
    return x;
}

/* What stands in an algorithm: for which product and alignment it was chosen.
 */
struct choice {
    uint64_t m, n, k, epilogue, alignment, workspace;
    uint32_t layouts;
    bool tf32;
};
static_assert(sizeof(choice) <= sizeof(cublasLtMatmulAlgo_t), "it fits");

/* A function of the library itself. */
void *own(const char *name)
{
    static void *library = dlopen(EMULATED_CUBLASLT, RTLD_LAZY | RTLD_LOCAL);
    void *at = library == nullptr ? nullptr : dlsym(library, name);

    if (at == nullptr) {
        fprintf(stderr, "%s\n", dlerror());
        abort();
    }
    return at;
}

} // namespace

#define FORWARD(type, name, parameters, ...)                                   \
    type name parameters                                                       \
    {                                                                          \
        static const auto real =                                               \
            reinterpret_cast<decltype(&name)>(own(#name));                     \
                                                                               \
        return real(__VA_ARGS__);                                              \
    }

extern "C" {

FORWARD(const char *, cublasLtGetStatusString, (cublasStatus_t s), s)
FORWARD(cublasStatus_t, cublasLtMatmulDescInit_internal,
        (cublasLtMatmulDesc_t d, size_t size, cublasComputeType_t compute,
         cudaDataType_t scale),
        d, size, compute, scale)
FORWARD(cublasStatus_t, cublasLtMatmulDescSetAttribute,
        (cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which,
         const void *v, size_t size),
        d, which, v, size)
FORWARD(cublasStatus_t, cublasLtMatmulDescGetAttribute,
        (cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t which, void *v,
         size_t size, size_t *written),
        d, which, v, size, written)
FORWARD(cublasStatus_t, cublasLtMatrixLayoutInit_internal,
        (cublasLtMatrixLayout_t l, size_t size, cudaDataType type,
         uint64_t rows, uint64_t cols, int64_t ld),
        l, size, type, rows, cols, ld)
FORWARD(cublasStatus_t, cublasLtMatrixLayoutGetAttribute,
        (cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t which,
         void *v, size_t size, size_t *written),
        l, which, v, size, written)
FORWARD(cublasStatus_t, cublasLtMatmulPreferenceInit_internal,
        (cublasLtMatmulPreference_t p, size_t size), p, size)
FORWARD(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
        (cublasLtMatmulPreference_t p,
         cublasLtMatmulPreferenceAttributes_t which, const void *v,
         size_t size),
        p, which, v, size)
FORWARD(cublasStatus_t, cublasLtMatmulPreferenceGetAttribute,
        (cublasLtMatmulPreference_t p,
         cublasLtMatmulPreferenceAttributes_t which, void *v, size_t size,
         size_t *written),
        p, which, v, size, written)

/* Where there is no emulated runtime, there is one GPU. */
__attribute__((weak)) cudaError_t cudaGetDevice(int *gpu)
{
    *gpu = 0;
    return cudaSuccess;
}

/* As the headers say, without a look at the library. */
size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    static char one;

    *handle = reinterpret_cast<cublasLtHandle_t>(&one);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t wish, int wanted,
    cublasLtMatmulHeuristicResult_t results[], int *found)
{
    const product p(op, a, b, c, d);
    const uint32_t alignment =
        attribute<uint32_t>(wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    const choice chosen = { p.m,
                            p.n,
                            p.k,
                            p.epilogue,
                            alignment,
                            attribute<uint64_t>(
                                wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES),
                            p.layouts(),
                            p.tf32 };

    *found = 0;
    if (!p.is_right() || wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (emulated_refuses(alignment, p.epilogue != CUBLASLT_EPILOGUE_DEFAULT) ||
        !p.is_known() || !p.a.fits(alignment) || !p.b.fits(alignment) ||
        !p.d.fits(alignment))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.epilogue != CUBLASLT_EPILOGUE_DEFAULT && alignment < 16)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    results[0] = {};
    memcpy(&results[0].algo, &chosen, sizeof(chosen));
    results[0].workspaceSize = chosen.workspace;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t op,
                              const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D,
                              cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t bytes, cudaStream_t stream)
{
    const product said(op, a, b, c, d);
    const float factor = *static_cast<const float *>(beta);
    struct dsf_gpu_product p = said.ours();
    choice chosen;

    memcpy(&chosen, algo, sizeof(chosen));
    if (!said.is_right() || chosen.m != said.m || chosen.n != said.n ||
        chosen.k != said.k || chosen.epilogue != said.epilogue ||
        chosen.tf32 != said.tf32 || chosen.layouts != said.layouts() ||
        *static_cast<const float *>(alpha) != 1 || (factor != 0 && factor != 1))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes < chosen.workspace || !emulated_aligned(workspace, 256))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (const void *at : { A, B, C, static_cast<const void *>(D), said.bias,
                            static_cast<const void *>(said.aux) })
        if (!emulated_aligned(at, chosen.alignment))
            return CUBLAS_STATUS_INVALID_VALUE;
    p.a = B;
    p.b = A;
    p.c = D;
    p.add = factor > 0 ? C : nullptr;
    emulated_matmul(p, stream);
    return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
