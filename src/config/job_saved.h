/* job_saved.h - the job.toml in the folder of a run, which may be older than the
 * names of some keys. */
#ifndef DSF_CONFIG_JOB_SAVED_H
#define DSF_CONFIG_JOB_SAVED_H

#include "config/job.h"

/* As dsf_job_read. A key that has another name since is read under that, which
 * a line of the log says unless `quiet`. */
int dsf_job_read_saved(const char *path, const char *const *sets,
                       unsigned nsets, dsf_load_fn load, bool quiet,
                       struct dsf_job *job, struct dsflow_err *err);

#endif
