/* gemm.c - matrix products, by oneDNN. */
#include "kernels/gemm.h"
#include "kernels/kernels.h"

#include "base/fatal.h"

#include <dnnl.h>
#include <omp.h>

/* Of the kernels that this thread has run. */
static _Thread_local struct dsflow_err failure;

int dsf_kernels_failed(struct dsflow_err *err)
{
    int status = failure.status;

    if (status < 0 && err != NULL)
        *err = failure;
    failure.status = DSFLOW_OK;
    return status;
}

void dsf_gemm_alone(void)
{
    static _Thread_local int alone;

    if (!alone)
        omp_set_num_threads(1);
    alone = 1;
}

void dsf_gemm_failed(int status, size_t m, size_t n, size_t k)
{
    /* It copies blocks of its operands: the few megabytes may be missing. */
    if (status != dnnl_out_of_memory)
        dsf_fatal("bug: oneDNN refuses a product of %zu x %zu x %zu: %d", m, n,
                  k, status);
    dsflow_fail(&failure, DSFLOW_ENOMEM,
                "not enough memory for a product of matrices of %zu x %zu x "
                "%zu",
                m, n, k);
}

void dsf_gemm(int ta, int tb, size_t m, size_t n, size_t k, const float *a,
              size_t lda, const float *b, size_t ldb, float beta, float *c,
              size_t ldc)
{
    dnnl_status_t status;

    dsf_gemm_alone();
    status = dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', (dnnl_dim_t)m,
                        (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a, (dnnl_dim_t)lda, b,
                        (dnnl_dim_t)ldb, beta, c, (dnnl_dim_t)ldc);
    if (status != dnnl_success)
        dsf_gemm_failed((int)status, m, n, k);
}
