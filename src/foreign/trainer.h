/* trainer.h - checkpoint-N folders of Hugging Face's Trainer without DeepSpeed,
 * and what Accelerate's save_state writes, as sources. */
#ifndef DSF_FOREIGN_TRAINER_H
#define DSF_FOREIGN_TRAINER_H

#include "foreign/source.h"

/* Has the folder weights of Hugging Face's and, beside them, the state of an
 * optimizer? */
bool dsf_trainer_is(const char *path);

/* `weights_only`: the moments are not looked for. Errors: DSFLOW_EINVAL, which
 * name the file and place; DSFLOW_EIO. */
int dsf_trainer_open(const char *path, bool weights_only,
                     struct dsf_source *source, struct dsflow_err *err);

#endif
