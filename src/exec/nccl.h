/* nccl.h - the module with NCCL (gpu/nccl_module.h), which is opened when GPUs of
 * several processes send to each other. */
#ifndef DSF_EXEC_NCCL_H
#define DSF_EXEC_NCCL_H

#include <dsflow/error.h>

#include "gpu/nccl_module.h"

/* The module: one in a process, opened once. NULL: there is none, and the
 * message says why. */
const struct dsf_nccl *dsf_nccl_module_open(struct dsflow_err *err);

/* The version of the library, "2.28.9"; "": it is not there, and why. */
struct dsf_nccl_version {
    char s[32];
};
struct dsf_nccl_version dsf_nccl_version(struct dsflow_err *err);

/* About how much of a GPU it takes for messages with so many GPUs of other
 * processes, of its node and of other nodes. */
size_t dsf_nccl_takes(unsigned near, unsigned far);

#endif
