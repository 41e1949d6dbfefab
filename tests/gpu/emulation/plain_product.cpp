/* plain_product.cpp - dsf_gpu_matmul where cuBLASLt's headers are not: on the
 * emulated stream, and as strict about alignment as the library. */
#include "matmul.h"

namespace {

bool fits(const void *at, size_t cols, size_t ld, enum dsflow_dtype type,
          size_t alignment)
{
    return ld >= cols && emulated_aligned(at, alignment) &&
           ld * emulated_bytes(type) % alignment == 0;
}

bool is_as_stated(const struct dsf_gpu_product *p, size_t alignment)
{
    return fits(p->a, p->ta ? p->m : p->k, p->lda, p->type, alignment) &&
           fits(p->b, p->tb ? p->k : p->n, p->ldb, p->type, alignment) &&
           fits(p->c, p->n, p->ldc, p->out, alignment) &&
           fits(p->aux, 0, p->n, p->type, p->aux ? alignment : 1) &&
           emulated_aligned(p->add, alignment) &&
           emulated_aligned(p->bias, alignment) &&
           emulated_aligned(p->workspace, 256);
}

/* What the library does in one pass: see cublaslt_emulated.cpp. */
bool is_known(const struct dsf_gpu_product *p, size_t alignment)
{
    return (p->bias == nullptr && p->epilogue == DSF_GPU_AS_IT_IS) ||
           (p->type != DSFLOW_FP32 && p->out == p->type &&
            alignment == DSF_GPU_ALIGNMENT);
}

} // namespace

const char *dsf_gpu_products_open(void)
{
    return nullptr;
}

unsigned long dsf_gpu_products_version(void)
{
    return 0;
}

const char *dsf_gpu_matmul(const struct dsf_gpu_product *p, size_t alignment,
                           void *stream)
{
    if (!is_as_stated(p, alignment))
        return "a product of memory that is not aligned as stated";
    if (!is_known(p, alignment) ||
        emulated_refuses(alignment, p->bias || p->epilogue != DSF_GPU_AS_IT_IS))
        return "a product that the library does not do in one pass";
    emulated_matmul(*p, stream);
    return nullptr;
}
