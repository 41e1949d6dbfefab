/* job.c - jobs as values. */
#include "api/api.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/file.h"
#include "plugin/plugin.h"
#include "tasks/components.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20 };

static int parse(const struct dsflow_job *job, struct dsf_job *read,
                 struct dsflow_err *err)
{
    return dsf_job_parse(job->text, strlen(job->text), job->path,
                         (const char *const *)job->sets, job->nsets,
                         dsflow_plugin_load, read, err);
}

/* A job of this text and these keys, which are looked at. */
static int make(const char *text, const char *path, char *const *sets,
                unsigned nsets, struct dsflow_job **out, struct dsflow_err *err)
{
    struct dsflow_job *job = dsf_xcalloc(1, sizeof(*job));
    struct dsf_job read = { 0 };
    locale_t own = dsf_api_enter();
    int status;

    job->text = dsf_xstrdup(text);
    job->path = dsf_xstrdup(path);
    job->sets = dsf_xcalloc(nsets, sizeof(*job->sets));
    for (; job->nsets < nsets; job->nsets++)
        job->sets[job->nsets] = dsf_xstrdup(sets[job->nsets]);
    status = parse(job, &read, err);
    if (status == DSFLOW_OK)
        status = dsf_job_check_components(&read, err);
    dsf_job_fini(&read);
    dsf_api_leave(own);
    *out = status == DSFLOW_OK ? job : NULL;
    if (status < 0)
        dsflow_job_free(job);
    return status;
}

/* A run that was moved is where it was found. */
static char *output_of(const char *folder)
{
    return dsf_xasprintf("job.output=%s", folder);
}

int dsflow_job_read(const char *path, struct dsflow_job **job,
                    struct dsflow_err *err)
{
    bool is_run = dsf_is_run(path);
    char *file =
        is_run ? dsf_xasprintf("%s/job.toml", path) : dsf_xstrdup(path);
    char *output = output_of(path), *text = NULL;
    size_t n;
    int status = dsf_file_load(file, MOST_BYTES, &text, &n, err);

    if (status == DSFLOW_OK && strlen(text) != n)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: has a byte 0: expected text", file);
    if (status == DSFLOW_OK)
        status = make(text, file, &output, is_run, job, err);
    free(text);
    free(output);
    free(file);
    return status;
}

int dsflow_job_parse(const char *toml, const char *name,
                     struct dsflow_job **job, struct dsflow_err *err)
{
    return make(toml, name, NULL, 0, job, err);
}

int dsflow_job_with(const struct dsflow_job *job, const char *const *sets,
                    unsigned nsets, struct dsflow_job **with,
                    struct dsflow_err *err)
{
    char **all = dsf_xcalloc(job->nsets + nsets, sizeof(*all));
    int status;

    if (job->nsets > 0)
        memcpy(all, job->sets, job->nsets * sizeof(*all));
    if (nsets > 0)
        memcpy(all + job->nsets, sets, nsets * sizeof(*all));
    status = make(job->text, job->path, all, job->nsets + nsets, with, err);
    free(all);
    return status;
}

int dsflow_job_write(const struct dsflow_job *job, const char *path,
                     struct dsflow_err *err)
{
    struct dsf_job read = { 0 };
    struct dsf_aside file;
    locale_t own = dsf_api_enter();
    int status = parse(job, &read, err);

    if (status == DSFLOW_OK && dsf_aside_open(&file, path) < 0)
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    if (status < 0)
        goto out_fini;
    dsf_job_write(&read, file.out);
    if (dsf_aside_close(&file, true) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);

out_fini:
    dsf_job_fini(&read);
    dsf_api_leave(own);
    return status;
}

void dsflow_job_free(struct dsflow_job *job)
{
    if (job == NULL)
        return;
    for (unsigned i = 0; i < job->nsets; i++)
        free(job->sets[i]);
    free(job->sets);
    free(job->text);
    free(job->path);
    free(job);
}

int dsf_api_open(const struct dsflow_job *job, const struct dsflow_batches *own,
                 struct dsf_session *s, struct dsflow_err *err)
{
    return dsf_session_parse(s, job->text, job->path,
                             (const char *const *)job->sets, job->nsets, own,
                             err);
}

int dsf_api_check_step(int64_t step, struct dsflow_err *err)
{
    if (step >= DSFLOW_LATEST_STEP)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "step %lld: expected the number of a step, or "
                       "DSFLOW_LATEST_STEP",
                       (long long)step);
}

int dsf_api_check_size(const char *name, uint32_t size, size_t wanted,
                       struct dsflow_err *err)
{
    if (size >= wanted)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: size is %u: expected %zu, as its macro sets it",
                       name, size, wanted);
}
