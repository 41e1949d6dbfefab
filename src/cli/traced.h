/* traced.h - which steps of a run are traced: [trace] steps, --trace. */
#ifndef DSF_CLI_TRACED_H
#define DSF_CLI_TRACED_H

#include "cli/meter.h"
#include "sim/predict.h"

/* Are the steps of the job a first and a last one that it has? */
int dsf_traced_check(const struct dsf_job *job, struct dsflow_err *err);

/* Those of --trace, which then are those of the job. `done`: steps that were
 * done before this run. */
int dsf_traced_choose(struct dsf_job *job, const struct dsf_cli_args *args,
                      int64_t done, struct dsflow_err *err);

/* The trace in the folder of the run, where the job asks for one; otherwise the
 * one of a run that this run starts anew is removed. */
int dsf_traced_open(struct dsf_meter *meter, const struct dsf_session *s,
                    const struct dsf_machine_model *machine,
                    const struct dsf_prediction *prediction,
                    const struct dsf_cli_args *args, int64_t done,
                    struct dsflow_err *err);

#endif
