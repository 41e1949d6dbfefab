/* zero.h - checkpoint folders of DeepSpeed as sources. */
#ifndef DSF_FOREIGN_ZERO_H
#define DSF_FOREIGN_ZERO_H

#include "foreign/source.h"

/* The folder `path` of a checkpoint, or one that has it under `tag` or
 * `latest`, such as checkpoint-N of Hugging Face's Trainer: ZeRO 1 to 3,
 * BF16_Optimizer, without ZeRO. `weights_only`: the moments are not looked for.
 * Errors: DSFLOW_EINVAL, which name the file and place; DSFLOW_EIO. */
int dsf_zero_open(const char *path, const char *tag, bool weights_only,
                  struct dsf_source *source, struct dsflow_err *err);

#endif
