/* saved_numbers.h - numbers that are kept between steps, in a checkpoint. */
#ifndef DSF_TRAIN_SAVED_NUMBERS_H
#define DSF_TRAIN_SAVED_NUMBERS_H

#include "train/session.h"

/* "control.step" and its like, as they are now. */
void dsf_numbers_list(struct dsf_session *s, struct dsf_ckpt_fields *numbers);

/* As they were in the checkpoint `folder`; those that it has not are 0. Errors:
 * DSFLOW_EINVAL, by name. */
int dsf_numbers_read(struct dsf_session *s, const char *folder,
                     struct dsflow_err *err);

#endif
