/* gemm.c - matrix products, by oneDNN. */
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

void dsf_gemm(int ta, int tb, size_t m, size_t n, size_t k, const float *a,
              size_t lda, const float *b, size_t ldb, float beta, float *c,
              size_t ldc)
{
    static _Thread_local int alone;
    dnnl_status_t status;

    /* oneDNN would start a team of threads on every core for each caller. */
    if (!alone) {
        omp_set_num_threads(1);
        alone = 1;
    }
    status = dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', (dnnl_dim_t)m,
                        (dnnl_dim_t)n, (dnnl_dim_t)k, 1, a, (dnnl_dim_t)lda, b,
                        (dnnl_dim_t)ldb, beta, c, (dnnl_dim_t)ldc);
    if (status == dnnl_success)
        return;
    /* It copies blocks of its operands: the few megabytes may be missing. */
    if (status != dnnl_out_of_memory)
        dsf_fatal("bug: dnnl_sgemm refuses %zu x %zu x %zu: %d", m, n, k,
                  (int)status);
    dsflow_fail(&failure, DSFLOW_ENOMEM,
                "not enough memory for a product of matrices of %zu x %zu x "
                "%zu",
                m, n, k);
}
