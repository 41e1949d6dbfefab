/* on_gpu.h - a call in the memory of GPU 0 of the module with the CUDA side:
 * each buffer is an allocation of its own, and bytes around it tell what is
 * written beside it. Of one thread after the other. */
#ifndef DSF_VERIFY_ON_GPU_H
#define DSF_VERIFY_ON_GPU_H

#include "gpu/gpu.h"

/* What computes a kind of task there. */
struct dsf_on_gpu {
    const struct dsflow_op *op;      /* NULL: nobody knows its ports */
    dsflow_cuda_fn cuda;             /* of a plug-in; or NULL: */
    const struct dsf_gpu_side *side; /* of the module */
};

/* Bytes on each side of a buffer. 0: none, for tools that see themselves what is
 * touched beside an allocation. */
extern size_t dsf_on_gpu_edge;

/* Is there a GPU? CUDA begins to work in the calling process: a child that is
 * made later has no GPU. */
int dsf_on_gpu_find(struct dsflow_err *err);

/* What follows is enqueued on a stream of its own. Returns NULL, or what is
 * wrong. */
const char *dsf_on_gpu_new_stream(void);

/* Compute a call whose buffers are in main memory, to its end; its scratch is
 * the GPU's, with what the call before left in it. Data that the program reads
 * and writes as well (control, tokens, losses) is in main memory that the GPU
 * reaches. A buffer that the call leaves as it is, is not written. Returns
 * NULL, or what went wrong: "writes 4 bytes past the end of port out"; valid
 * until the next. */
const char *dsf_on_gpu_run(const struct dsf_on_gpu *what,
                           const struct dsflow_call *call);

#endif
