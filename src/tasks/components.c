/* components.c - what components of every sort have alike. */
#include "tasks/components.h"

int dsf_component_options(struct dsf_registry *r, const char *name,
                          const char *summary,
                          const struct dsflow_option *options, size_t size,
                          struct dsflow_err *err)
{
    int status;

    if (options == NULL)
        return DSFLOW_OK;
    status = dsf_job_add_table(name, summary, options, size, err);
    if (status < 0) {
        char what[128];

        dsf_registry_cut(r, r->n - 1);
        snprintf(what, sizeof(what), "%s %.60s: options", r->sort, name);
        return dsflow_fail_in(err, status, what);
    }
    return DSFLOW_OK;
}

int dsf_job_check_components(const struct dsf_job *job, struct dsflow_err *err)
{
    return dsf_job_optimizer(job, err) == NULL ||
                   dsf_job_lr_schedule(job, err) == NULL
               ? DSFLOW_EINVAL
               : DSFLOW_OK;
}
