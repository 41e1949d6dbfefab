/* bench_measure.h - rates of this machine that need no model. */
#ifndef DSF_MEASURE_BENCH_MEASURE_H
#define DSF_MEASURE_BENCH_MEASURE_H

#include <stddef.h>
#include <dsflow/dtype.h>
#include <dsflow/error.h>

/* C[m][n] = A B of length k: see dsf_gemm, and dsf_product for bf16 and fp16.
 */
struct dsf_bench_product {
    int ta, tb;
    size_t m, n, k;
    enum dsflow_dtype type; /* of A and B */
};

/* Operations a second of one of `workers` threads that all multiply such
 * matrices, for about `seconds`. DSFLOW_ENOMEM: there is no memory, or no
 * thread. */
int dsf_bench_gemm(const struct dsf_bench_product *p, unsigned workers,
                   double seconds, double *rate, struct dsflow_err *err);

/* Bytes a second of one of `workers` threads, each on memory of its own that no
 * cache holds. */
enum dsf_bench_access {
    DSF_BENCH_READ,
    DSF_BENCH_WRITE,
    DSF_BENCH_UPDATE, /* read, and written where it was */
    DSF_BENCH_COPY
};
int dsf_bench_memory(enum dsf_bench_access access, unsigned workers,
                     size_t bytes, double seconds, double *rate,
                     struct dsflow_err *err);

#endif
