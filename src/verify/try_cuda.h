/* try_cuda.h - the CUDA side of a codelet on random cases, on GPU 0. */
#ifndef DSF_VERIFY_TRY_CUDA_H
#define DSF_VERIFY_TRY_CUDA_H

#include "verify/case_run.h"
#include "verify/child.h"

/* Is there a GPU to try them on? Tried in a child, as no child has the GPU of
 * its parent. Where there is, the module with the CUDA side is open now. */
int dsf_cuda_find(struct dsflow_err *err);

/* Has the codelet a CUDA side: its own, or one of the module, if that is open? */
bool dsf_cuda_has(const struct dsflow_codelet *codelet);

/* Where its calls are carried to a GPU and back; one at a time in a process. */
struct dsf_computes dsf_cuda_computes(const struct dsflow_codelet *codelet);

/* Does it compute the case, or is that left to cores? */
bool dsf_cuda_takes(const struct dsf_case *c);

/* Its side promises to leave the bits that cores leave. */
bool dsf_cuda_same_bits(const struct dsflow_codelet *codelet);

/* What is wrong with these ends the child (child.h). */

/* A case begins: it is tried on a stream of its own. */
void dsf_cuda_begin(void);

/* An optimizer's update leaves all as it is where its control says so: on cores
 * such a task is not run. */
void dsf_cuda_try_skipped(const struct dsf_case *c,
                          const struct dsf_computes *gpu);

#endif
