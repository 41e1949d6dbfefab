/* transport.h - what carries messages between the processes of a job. */
#ifndef DSF_TRAIN_TRANSPORT_H
#define DSF_TRAIN_TRANSPORT_H

#include "config/job.h"
#include "plan/division.h"

/* In the first process: do GPUs send to each other? By mesh.transport, and by
 * what there is, which is said in a line. DSFLOW_EINVAL: the job wants them to,
 * and they cannot. */
int dsf_transport_choose(const struct dsf_job *job,
                         const struct dsf_machine *machine,
                         const struct dsf_processes *all, bool *direct,
                         struct dsflow_err *err);

/* Where there is one process: of a key that only several look at. */
void dsf_transport_warn_of_one(const struct dsf_job *job);

#endif
