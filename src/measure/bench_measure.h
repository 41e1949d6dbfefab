/* bench_measure.h - rates of this machine that need no model. */
#ifndef DSF_MEASURE_BENCH_MEASURE_H
#define DSF_MEASURE_BENCH_MEASURE_H

#include <stddef.h>
#include <dsflow/error.h>

/* Operations a second of one of `workers` threads that all multiply matrices
 * of these sizes (see dsf_gemm), for about `seconds`. DSFLOW_ENOMEM: there is no
 * memory, or no thread. */
int dsf_bench_gemm(int ta, int tb, size_t m, size_t n, size_t k,
                   unsigned workers, double seconds, double *rate,
                   struct dsflow_err *err);

/* Bytes a second of one of `workers` threads, each on memory of its own that no
 * cache holds. */
enum dsf_bench_access { DSF_BENCH_READ, DSF_BENCH_WRITE, DSF_BENCH_COPY };
int dsf_bench_memory(enum dsf_bench_access access, unsigned workers,
                     size_t bytes, double seconds, double *rate,
                     struct dsflow_err *err);

#endif
