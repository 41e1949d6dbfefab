/* record.h - a session as a trace: what a timeline is of. */
#ifndef DSF_TRAIN_RECORD_H
#define DSF_TRAIN_RECORD_H

#include "sim/predict.h"
#include "trace/trace.h"
#include "train/session.h"

/* Everything but the timeline. The graph is borrowed. */
void dsf_record_init(struct dsf_trace *trace, const struct dsf_session *s,
                     const struct dsf_machine_model *m,
                     const struct dsf_prediction *prediction,
                     const char *executor);

/* The simulation of the session's plan, as a trace in `path`. */
int dsf_record_simulation(const struct dsf_session *s,
                          const struct dsf_machine_model *m, const char *path,
                          struct dsflow_err *err);

#endif
