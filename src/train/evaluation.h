/* evaluation.h - the loss of a model on the validation text, without a run. */
#ifndef DSF_TRAIN_EVALUATION_H
#define DSF_TRAIN_EVALUATION_H

#include "train/metrics.h"
#include "train/session.h"

/* Of the model of the checkpoint of `step`, as dsf_params_open has it; v->step
 * is that, or 0 where it is of none. The session has its model, and is closed
 * whatever the status. Errors: DSFLOW_EINVAL where there is no such text or no
 * such checkpoint; DSFLOW_EFIT. */
int dsf_session_evaluate(struct dsf_session *s, enum dsflow_exec_kind kind,
                         int64_t step, struct dsf_validation *v,
                         struct dsflow_err *err);

#endif
