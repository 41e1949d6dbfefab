/* same_folder.c - whether all processes have one output folder. */
#include "train/same_folder.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

int dsf_same_folder_begin(struct dsf_same_folder *f, const struct dsf_job *job,
                          struct dsflow_err *err)
{
    uint64_t number = 0;
    char *path;
    int status = DSFLOW_OK;

    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0)
        number = (uint64_t)getpid();
    path = dsf_xasprintf("%s/.begins-%016" PRIx64, job->main.output, number);
    if (dsf_aside_open(&f->file, path) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    else
        snprintf(f->name, sizeof(f->name), "%s",
                 strrchr(f->file.beside, '/') + 1);
    free(path);
    return status;
}

int dsf_same_folder_check(const struct dsf_job *job, const char *name,
                          struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/%s", job->main.output, name);
    int why = access(path, W_OK) == 0 ? 0 : errno;

    free(path);
    if (why == 0)
        return DSFLOW_OK;
    if (why != ENOENT)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output", "%s: %s",
                            job->main.output, strerror(why));
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output",
                        "%s: it does not have what process 0 has there: "
                        "expected a folder on a file system that all hosts "
                        "share",
                        job->main.output);
}

void dsf_same_folder_end(struct dsf_same_folder *f)
{
    if (f->name[0] != '\0')
        dsf_aside_close(&f->file, false);
    f->name[0] = '\0';
}
