/* cuda_module.h - the module with the CUDA side (gpu/gpu.h), which is opened
 * when somebody asks for GPUs. */
#ifndef DSF_EXEC_CUDA_MODULE_H
#define DSF_EXEC_CUDA_MODULE_H

#include <stdbool.h>

#include "gpu/gpu.h"

/* The environment variable that says which file it is, or "no". */
#define DSF_CUDA_VARIABLE "DSFLOW_CUDA"

/* The module: one in a process, opened once. NULL: there is none, and the
 * message says why. */
const struct dsf_gpu *dsf_cuda_module(struct dsflow_err *err);

/* Before CUDA begins, and before MPI does, which begins CUDA where it is to
 * send what GPUs have (UCX): it loads all kernels then. Else it loads each when
 * it is first launched, and may wait for all that the GPU has begun: for a
 * message, too, whose other end may wait for what this process would do next.
 * And streams have as many queues of the GPU as there may be: in one queue,
 * what goes would wait for what comes, as it would where each launch waits for
 * its kernel. NCCL puts its communicators in no order, nor waits for those of
 * the process: what goes is another one than what comes; and its functions
 * return when they are done. Also where the environment says otherwise: PyTorch
 * puts LAZY there, Megatron-LM asks for one queue, and who looks for a fault,
 * for launches that wait. */
void dsf_cuda_expect_messages(void);
/* The environment is again what it was. */
void dsf_cuda_expect_none(void);

/* How many GPUs the driver shows, one at least. DSFLOW_ENOSYS: none, and why.
 */
int dsf_cuda_count(unsigned *n, struct dsflow_err *err);

/* Of a GPU; CUDA may begin to use it. */
int dsf_cuda_about(unsigned gpu, struct dsf_gpu_about *about,
                   struct dsflow_err *err);

/* Are operands of products in fp32 rounded to TF32 from now on, on all GPUs? */
void dsf_cuda_round_to_tf32(bool does);

/* "CUDA 13.0 (driver for 13.0), cuBLASLt 13.1.0": with the model of the GPU, what
 * decides on the last bits. The module is open. */
void dsf_cuda_versions(char *text, size_t size);

/* Of the module, if it is open; NULL: that kind of task has none. */
const struct dsf_gpu_side *dsf_cuda_side(const struct dsflow_op *op);

#endif
