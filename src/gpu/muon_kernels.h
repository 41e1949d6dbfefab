/* muon_kernels.h - what the CUDA side of Muon launches beside products. */
#ifndef DSF_GPU_MUON_KERNELS_H
#define DSF_GPU_MUON_KERNELS_H

#include <dsflow/codelet.h>
#include <dsflow/optimizer.h>

DSFLOW_BEGIN_DECLS

/* A matrix of a unit, which begins at number `at` of it; of a task of muon. */
struct dsf_gpu_matrix {
    const struct dsflow_call *call;
    int64_t at;
    size_t numbers;
    int decays;
    double length; /* of a step: the rate is this times that of the control */
};

/* m = the mean of gradients, and x = what is to become orthogonal; m stays
 * where the step is skipped. */
void dsf_gpu_muon_mix(const struct dsf_gpu_matrix *of, float *x, void *stream);

/* x, of n numbers from 16 bytes on, is divided by its norm. sums:
 * dsf_gpu_muon_sums(n) bytes. */
void dsf_gpu_muon_normalize(float *x, size_t n, void *sums, void *stream);
size_t dsf_gpu_muon_sums(size_t n);

/* poly[n][n] = a I + b square + c poly, both from 16 bytes on. */
void dsf_gpu_muon_polynomial(float *poly, const float *square, size_t n,
                             float a, float b, float c, void *stream);

/* The parameters move by x, unless the step is skipped, and so do copies. */
void dsf_gpu_muon_move(const struct dsf_gpu_matrix *of, const float *x,
                       void *stream);

/* update_cuda.cu: numbers at .. at + n of the unit, of a task of muon, become
 * what AdamW makes of them, with the bits of cores. */
void dsf_gpu_muon_others(const struct dsflow_call *call, int64_t at, int64_t n,
                         int decays, void *stream);

DSFLOW_END_DECLS

#endif
