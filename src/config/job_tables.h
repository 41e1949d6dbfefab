/* job_tables.h - what the tables of job.toml and the reader of jobs share. */
#ifndef DSF_CONFIG_JOB_TABLES_H
#define DSF_CONFIG_JOB_TABLES_H

#include "config/job.h"

/* The table of this name, or NULL. */
const struct dsf_table *dsf_job_find_table(const char *name);

/* Tables of what dsflow has itself on higher floors, the built-in policies:
 * added by dsf_job_add_table, before the first table is asked for. Defined
 * where they are listed, in policies/policy_table.c. */
void dsf_job_add_builtin_tables(void);

/* The fields of a table in `job`; NULL where it was added after the job was
 * read. */
void *dsf_job_fields(const struct dsf_job *job, const struct dsf_table *table);

/* Parts with their defaults, for tables that were added since. */
void dsf_job_add_parts(struct dsf_job *job);

#endif
