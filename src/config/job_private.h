/* job_private.h - what job.c, job_saved.c and job_with.c share. */
#ifndef DSF_CONFIG_JOB_PRIVATE_H
#define DSF_CONFIG_JOB_PRIVATE_H

#include "config/job.h"
#include "config/toml_read.h"

struct dsf_key_place {
    char *table, *key;
    char *text;  /* "job.toml:12: batch: micro" */
    char *value; /* as TOML */
};

struct dsf_job_where {
    struct dsf_key_place *v;
    size_t n, cap;
};

/* Set one more key of a job that is being made: "batch.micro=4". */
int dsf_job_set(struct dsf_job *job, const char *set, enum dsf_said said,
                struct dsflow_err *err);

/* dsf_job_read, where `edit` (or NULL) changes what the file says first. */
typedef void (*dsf_edit_fn)(struct dsf_toml *toml, const char *path);
int dsf_job_read_edited(const char *path, const char *const *sets,
                        unsigned nsets, dsf_load_fn load, dsf_edit_fn edit,
                        struct dsf_job *job, struct dsflow_err *err);

/* What concerns several keys, and needs nothing but the job. */
int dsf_job_check_together(const struct dsf_job *job, struct dsflow_err *err);

#endif
