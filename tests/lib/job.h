/* job.h - a job in a test, with one more key set. */
#ifndef DSF_TESTS_LIB_JOB_H
#define DSF_TESTS_LIB_JOB_H

#include "config/job.h"

/* `job` is the other job then; where that cannot be, it stays as it is. */
static inline int job_set(struct dsf_job *job, const char *set,
                          struct dsflow_err *err)
{
    struct dsf_job next;
    int status = dsf_job_with(job, DSF_GIVEN, &set, 1, &next, err);

    if (status == DSFLOW_OK) {
        dsf_job_fini(job);
        *job = next;
    }
    return status;
}

#endif
