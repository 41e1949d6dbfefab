/* job.h - what is trained, and how: the tables of a job.toml, as a value.
 *
 * A job does not change: another value of a key makes another job. One thread
 * at a time makes jobs (dsflow.h), of one that an open run has, too.
 */
#ifndef DSFLOW_JOB_H
#define DSFLOW_JOB_H

#include <stddef.h>
#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

struct dsflow_job; /* opaque */

/* Of the file `path`, or of the run in the folder `path`. Every error names
 * file and line, or table and key, and what was expected: DSFLOW_EINVAL. */
DSFLOW_API int dsflow_job_read(const char *path, struct dsflow_job **job,
                               struct dsflow_err *err);

/* Of the text of a job.toml; `name` stands for the file in messages. */
DSFLOW_API int dsflow_job_parse(const char *toml, const char *name,
                                struct dsflow_job **job,
                                struct dsflow_err *err);

/* Another job: with `nsets` keys "table.key=value" that have other values (the
 * value as in TOML; a bare word is a string). */
DSFLOW_API int dsflow_job_with(const struct dsflow_job *job,
                               const char *const *sets, unsigned nsets,
                               struct dsflow_job **with,
                               struct dsflow_err *err);

/* The keys that were given, as TOML that makes the same job again, into the
 * file `path`. */
DSFLOW_API int dsflow_job_write(const struct dsflow_job *job, const char *path,
                                struct dsflow_err *err);

DSFLOW_API void dsflow_job_free(struct dsflow_job *job); /* NULL is fine */

DSFLOW_END_DECLS

#endif
