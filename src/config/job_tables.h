/* job_tables.h - what the tables of job.toml and the reader of jobs share. */
#ifndef DSF_CONFIG_JOB_TABLES_H
#define DSF_CONFIG_JOB_TABLES_H

#include "config/job.h"

/* The table of this name, or NULL. "name[2]" is an element of one that repeats.
 */
const struct dsf_table *dsf_job_find_table(const char *name);

/* A key of a table. It begins as { 0 }; each call makes it the next key of all
 * tables, in the order of the manual, until there is none. A key whose value is
 * tables is left out: these have keys of their own. */
struct dsf_table_key {
    const struct dsf_table *table;
    const struct dsflow_option *option;
    unsigned at; /* place of the table */
};
bool dsf_job_next_key(struct dsf_table_key *key);

/* "optimizer.lr" */
struct dsf_key_name {
    char s[160];
};
struct dsf_key_name dsf_key_name(const struct dsf_table_key *key);

/* Tables of what dsflow has itself on higher floors, the built-in policies:
 * added by dsf_job_add_table, before the first table is asked for. Defined
 * where they are listed, in policies/policy_table.c. */
void dsf_job_add_builtin_tables(void);

/* The fields of a table in `job`; NULL where it was added after the job was
 * read, and of one that repeats. Those of a job that is being made may be set.
 */
const void *dsf_job_fields(const struct dsf_job *job,
                           const struct dsf_table *table);
void *dsf_job_own_fields(struct dsf_job *job, const struct dsf_table *table);

/* How many times a table stands in a job: once, but for one that repeats. The
 * i-th time: its fields, which stay where they are until one is added, and its
 * name. */
unsigned dsf_job_rows(const struct dsf_job *job, const struct dsf_table *table);
const void *dsf_job_row(const struct dsf_job *job,
                        const struct dsf_table *table, unsigned i);
struct dsf_row_name {
    char s[120];
};
struct dsf_row_name dsf_row_name(const struct dsf_table *table, unsigned i);

/* One more element, with its defaults. */
void dsf_job_add_row(struct dsf_job *job, const struct dsf_table *table);

/* The table whose field has the elements of one that repeats; of others, they
 * themselves. */
const struct dsf_table *dsf_table_owner(const struct dsf_table *table);

/* Parts with their defaults, for tables that were added since; and the first
 * `n` parts, with nothing in them. */
void dsf_job_add_parts(struct dsf_job *job);
void dsf_job_add_empty_parts(struct dsf_job *job, unsigned n);

#endif
