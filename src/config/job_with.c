/* job_with.c - a job that is another one with some keys changed. */
#include "config/job_private.h"

#include "base/alloc.h"
#include "config/job_tables.h"
#include "config/option.h"

static void copy_job(struct dsf_job *to, const struct dsf_job *from)
{
    const struct dsf_table *t;

    *to = *from;
    to->path = dsf_xstrdup(from->path);
    to->where = dsf_job_where_copy(from->where);
    to->parts = NULL;
    to->nparts = 0;
    dsf_job_add_empty_parts(to, from->nparts);
    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        if (dsf_job_fields(from, t) != NULL)
            dsf_options_copy(t->options, dsf_job_own_fields(to, t),
                             dsf_job_fields(from, t));
}

int dsf_job_with(const struct dsf_job *from, enum dsf_said said,
                 const char *const *sets, unsigned nsets, struct dsf_job *job,
                 struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    copy_job(job, from);
    job->model.from_run = job->model.from_run || said == DSF_FROM_RUN;
    for (unsigned i = 0; i < nsets && status == DSFLOW_OK; i++)
        status = dsf_job_set(job, sets[i], said, err);
    if (status == DSFLOW_OK)
        status = dsf_job_check_together(job, err);
    if (status < 0)
        dsf_job_fini(job);
    return status;
}
