/* gpu_peak.h - what a GPU is built to multiply. */
#ifndef DSF_MACHINE_GPU_PEAK_H
#define DSF_MACHINE_GPU_PEAK_H

#include <dsflow/dtype.h>

/* Operations/s of products of dense matrices with sums in fp32, by the data
 * sheet of the GPU that the driver calls `name`; fp32 without TF32. 0: not known
 * of that GPU. */
double dsf_gpu_peak(const char *name, enum dsflow_dtype type);

#endif
