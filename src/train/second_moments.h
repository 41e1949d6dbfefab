/* second_moments.h - the mean of the squared gradient of each weight, as the
 * optimizer of a checkpoint has it: v of Adam and its like, AdaGrad's sum. */
#ifndef DSF_TRAIN_SECOND_MOMENTS_H
#define DSF_TRAIN_SECOND_MOMENTS_H

#include "train/params.h"

struct dsf_second_moments; /* opaque */

/* Those beside the parameters, which must be of a checkpoint of this run. Both
 * are borrowed. Errors: they are of none; the optimizer keeps none of the
 * weights behind heads and inner columns. */
int dsf_second_moments_open(const struct dsf_session *s,
                            const struct dsf_params *params,
                            struct dsf_second_moments **moments,
                            struct dsflow_err *err);
void dsf_second_moments_close(struct dsf_second_moments *m); /* NULL is fine */

/* A dsf_unit_fn; `moments` is a struct dsf_second_moments. Error: the optimizer
 * keeps none of this unit. */
int dsf_second_moments_read(void *moments, unsigned unit, float *to,
                            struct dsflow_err *err);

#endif
