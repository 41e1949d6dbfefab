/* job_private.h - what job.c, job_saved.c, job_where.c and job_with.c share. */
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

/* job_where.c: where a key was set last; NULL: it was not. */
const struct dsf_key_place *dsf_job_place(const struct dsf_job *job,
                                          const char *table, const char *key);

/* Remember where a key was set, and to what; `text` is kept. The key "" is an
 * element of a table that repeats. */
void dsf_job_add_place(struct dsf_job *job, const char *table, const char *key,
                       const char *value, char *text);

/* The elements of table.key are gone. */
void dsf_job_forget_rows(struct dsf_job *job, const char *table,
                         const char *key);

struct dsf_job_where *dsf_job_where_copy(const struct dsf_job_where *from);
void dsf_job_where_free(struct dsf_job_where *where);

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
