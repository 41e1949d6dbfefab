/* exec_direct.h - messages that go from a GPU of this process to one of another,
 * or come from there, by NCCL. */
#ifndef DSF_EXEC_EXEC_DIRECT_H
#define DSF_EXEC_EXEC_DIRECT_H

#include "exec/exec_private.h"
#include "net/wire.h"

/* Find what messages of that sort the graph has; once it is known where data is.
 * DSFLOW_ENOSYS: there are some, and NCCL is not there. */
int dsf_direct_open(struct dsflow_exec *exec, struct dsflow_err *err);

/* Meet the other processes, all of which do so; before the first of these
 * messages. */
int dsf_direct_join(struct dsflow_exec *exec, struct dsflow_err *err);

/* When all of them have ended, and before memory goes; waits for the others. */
void dsf_direct_close(struct dsflow_exec *exec);

/* Begin a message, of memory of the device, with the GPU of a rank of its
 * process; as dsf_wire's post. */
void dsf_direct_post(struct dsflow_exec *exec, const struct dsf_device *device,
                     int32_t rank, struct dsf_message *m);

#endif
