/* checkpoint.h - what a run leaves in <job.output>/checkpoints. These only read
 * files: any thread may call them at any time, also while a run is open. */
#ifndef DSFLOW_CHECKPOINT_H
#define DSFLOW_CHECKPOINT_H

#include <stdint.h>
#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

/* Is the checkpoint in `folder` ("run/checkpoints/step-120") whole, each file
 * as it was written? *step (NULL is fine): the steps that were done. Errors:
 * DSFLOW_EFAIL, with the file and what is wrong with it. */
DSFLOW_API int dsflow_checkpoint_verify(const char *folder, int64_t *step,
                                        struct dsflow_err *err);

/* The step of the checkpoint that a run with this output goes on from; -1:
 * there is none. Errors: as above, where it is damaged. */
DSFLOW_API int dsflow_checkpoint_latest(const char *output, int64_t *step,
                                        struct dsflow_err *err);

DSFLOW_END_DECLS

#endif
