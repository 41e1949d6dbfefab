/* cublaslt.cpp - products by cuBLASLt. The library is column-major: our C is
 * its C transposed, so A and B change places.
 *
 * The library's heuristic chooses an algorithm once for each shape and device,
 * from the shape, the types and the alignment that is stated, never by a clock.
 * It gets a workspace of the caller's and may not sum in fewer bits than fp32,
 * so a product has the same bits whenever and on whatever stream it runs. */
#include "gpu/product.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace {

thread_local char said[256];

/* Everything that the choice may depend on. */
using shape = std::array<uint64_t, 14>;

/* The library's, or that it has none. */
struct choice {
    cublasStatus_t status;
    cublasLtMatmulAlgo_t algo;
};

struct device {
    cublasLtHandle_t handle = nullptr;
    std::map<shape, choice> chosen;
};

std::mutex lock;

/* Those that were used, for good: the library's part of a device ends with the
 * process. */
std::map<int, device> &devices()
{
    static auto *all = new std::map<int, device>;

    return *all;
}

/* That which launches go to, with its handle; under the lock. */
cublasStatus_t present(device **here)
{
    int current = 0;

    if (cudaGetDevice(&current) != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *here = &devices()[current];
    return (*here)->handle != nullptr ? CUBLAS_STATUS_SUCCESS
                                      : cublasLtCreate(&(*here)->handle);
}

cudaDataType_t type_of(enum dsflow_dtype type)
{
    return type == DSFLOW_BF16   ? CUDA_R_16BF
           : type == DSFLOW_FP16 ? CUDA_R_16F
                                 : CUDA_R_32F;
}

cublasLtEpilogue_t epilogue_of(const struct dsf_gpu_product *p)
{
    switch (p->epilogue) {
    case DSF_GPU_GELU:
        return p->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                       : CUBLASLT_EPILOGUE_GELU_AUX;
    case DSF_GPU_DGELU:
        return CUBLASLT_EPILOGUE_DGELU;
    default:
        return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* A product in the library's words. */
struct description {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t a, b, c, d; /* ours, row-major; d: the result,
                                                to which c is added */
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS; /* the first that is bad */

    void keep(cublasStatus_t other)
    {
        if (status == CUBLAS_STATUS_SUCCESS)
            status = other;
    }
    template <class T>
    void set(cublasLtMatmulDescAttributes_t which, const T &value)
    {
        keep(cublasLtMatmulDescSetAttribute(&operation, which, &value,
                                            sizeof(value)));
    }
    void matrix(cublasLtMatrixLayoutOpaque_t *layout, enum dsflow_dtype type,
                size_t rows, size_t cols, size_t ld)
    {
        keep(cublasLtMatrixLayoutInit(layout, type_of(type), cols, rows,
                                      (int64_t)ld));
    }
    explicit description(const struct dsf_gpu_product *p);
    void pointers(const void *bias, const void *aux);
};

description::description(const struct dsf_gpu_product *p)
{
    const cublasOperation_t ta = p->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t tb = p->tb ? CUBLAS_OP_T : CUBLAS_OP_N;

    keep(cublasLtMatmulDescInit(&operation,
                                p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                        : CUBLAS_COMPUTE_32F,
                                CUDA_R_32F));
    set(CUBLASLT_MATMUL_DESC_TRANSA, tb);
    set(CUBLASLT_MATMUL_DESC_TRANSB, ta);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p));
    if (p->epilogue != DSF_GPU_AS_IT_IS)
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, (int64_t)p->n);
    matrix(&a, p->type, p->ta ? p->k : p->m, p->ta ? p->m : p->k, p->lda);
    matrix(&b, p->type, p->tb ? p->n : p->k, p->tb ? p->k : p->n, p->ldb);
    matrix(&c, p->out, p->m, p->n, p->ldc);
    matrix(&d, p->out, p->m, p->n, p->ldc);
}

/* Does the result go elsewhere than what is added to it? */
bool is_apart(const struct dsf_gpu_product *p)
{
    return p->add != nullptr && p->add != p->c;
}

void description::pointers(const void *bias, const void *aux)
{
    if (bias)
        set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (aux)
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
}

/* What the library may choose from. */
struct preference {
    cublasLtMatmulPreferenceOpaque_t it;
    cublasStatus_t status;

    template <class T>
    void set(cublasLtMatmulPreferenceAttributes_t which, const T &value)
    {
        if (status == CUBLAS_STATUS_SUCCESS)
            status = cublasLtMatmulPreferenceSetAttribute(&it, which, &value,
                                                          sizeof(value));
    }
    preference(const struct dsf_gpu_product *p, uint32_t alignment)
        : status(cublasLtMatmulPreferenceInit(&it))
    {
        /* No number is aligned to less than its size. */
        const uint32_t least =
            p->out == DSFLOW_FP32 && alignment < 4 ? 4 : alignment;

        set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            (uint64_t)DSF_GPU_WORKSPACE);
        set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, least);
        set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, least);
    }
};

/* The heuristic looks at how pointers of an epilogue are aligned: it gets what
 * is stated in their place. */
cublasStatus_t choose(const struct dsf_gpu_product *p, size_t alignment,
                      cublasLtHandle_t handle, cublasLtMatmulAlgo_t *algo)
{
    const void *stated = reinterpret_cast<const void *>(alignment);
    cublasLtMatmulHeuristicResult_t result = {};
    preference wish(p, (uint32_t)alignment);
    description d(p);
    int found = 0;

    d.pointers(p->bias ? stated : nullptr, p->aux ? stated : nullptr);
    d.keep(wish.status);
    if (d.status == CUBLAS_STATUS_SUCCESS)
        d.keep(cublasLtMatmulAlgoGetHeuristic(handle, &d.operation, &d.b, &d.a,
                                              &d.c, is_apart(p) ? &d.d : &d.c,
                                              &wish.it, 1, &result, &found));
    if (d.status == CUBLAS_STATUS_SUCCESS && found == 0)
        d.keep(CUBLAS_STATUS_NOT_SUPPORTED);
    d.keep(result.state);
    *algo = result.algo;
    return d.status;
}

/* The device that launches go to, and its choice for a product. */
cublasStatus_t chosen(const struct dsf_gpu_product *p, size_t alignment,
                      cublasLtHandle_t *handle, cublasLtMatmulAlgo_t *algo)
{
    const shape key = { (uint64_t)p->type,
                        (uint64_t)p->out,
                        (uint64_t)(p->tf32 != 0),
                        (uint64_t)(p->ta != 0),
                        (uint64_t)(p->tb != 0),
                        p->m,
                        p->n,
                        p->k,
                        p->lda,
                        p->ldb,
                        p->ldc,
                        (uint64_t)epilogue_of(p),
                        is_apart(p),
                        alignment };
    device *here = nullptr;

    std::lock_guard<std::mutex> hold(lock);
    cublasStatus_t status = present(&here);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    *handle = here->handle;
    auto known = here->chosen.find(key);
    if (known != here->chosen.end()) {
        *algo = known->second.algo;
        return known->second.status;
    }
    status = choose(p, alignment, here->handle, algo);
    if (status == CUBLAS_STATUS_SUCCESS ||
        status == CUBLAS_STATUS_NOT_SUPPORTED)
        here->chosen[key] = { status, *algo };
    return status;
}

const char *words(const struct dsf_gpu_product *p, cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return nullptr;
    snprintf(said, sizeof(said),
             "cuBLASLt: a product of %zu x %zu by %zu x %zu numbers in %s: %s",
             p->m, p->k, p->k, p->n,
             p->type == DSFLOW_BF16   ? "bf16"
             : p->type == DSFLOW_FP16 ? "fp16"
                                      : "fp32",
             cublasLtGetStatusString(status));
    return said;
}

} // namespace

const char *dsf_gpu_products_open(void)
{
    device *here = nullptr;
    std::lock_guard<std::mutex> hold(lock);
    cublasStatus_t status = present(&here);

    return status == CUBLAS_STATUS_SUCCESS ? nullptr
                                           : cublasLtGetStatusString(status);
}

unsigned long dsf_gpu_products_version(void)
{
    return cublasLtGetVersion();
}

const char *dsf_gpu_matmul(const struct dsf_gpu_product *p, size_t alignment,
                           void *stream)
{
    const float alpha = 1, beta = p->add ? 1 : 0;
    cublasLtMatmulAlgo_t algo = {};
    cublasLtHandle_t handle = nullptr;
    cublasStatus_t status = chosen(p, alignment, &handle, &algo);
    description d(p);

    d.pointers(p->bias, p->aux);
    d.keep(status);
    if (d.status == CUBLAS_STATUS_SUCCESS)
        d.keep(cublasLtMatmul(handle, &d.operation, &alpha, p->b, &d.b, p->a,
                              &d.a, &beta, p->add ? p->add : p->c, &d.c, p->c,
                              is_apart(p) ? &d.d : &d.c, &algo, p->workspace, DSF_GPU_WORKSPACE,
                              static_cast<cudaStream_t>(stream)));
    return words(p, d.status);
}
