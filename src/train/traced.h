/* traced.h - which steps of a run are traced: [trace] steps. */
#ifndef DSF_TRAIN_TRACED_H
#define DSF_TRAIN_TRACED_H

#include "sim/predict.h"
#include "train/meter.h"

/* Are the steps of the job a first and a last one that it has? */
int dsf_traced_check(const struct dsf_job *job, struct dsflow_err *err);

/* Five in the middle of `steps`, when all memory has been touched; the last
 * ones of a short run. `done`: steps that were done before this run. */
void dsf_traced_some(int64_t steps, int64_t done, int64_t *first,
                     int64_t *last);

/* The trace in the folder of the run, where the job asks for one; otherwise the
 * one of a run that this run starts anew is removed. */
int dsf_traced_open(struct dsf_meter *meter, const struct dsf_session *s,
                    const struct dsf_machine_model *machine,
                    const struct dsf_prediction *prediction,
                    const char *executor, int64_t done,
                    struct dsflow_err *err);

#endif
