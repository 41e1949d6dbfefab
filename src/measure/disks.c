/* disks.c - the folders that a job offloads to: are they there, and have they
 * room? */
#include "measure/disks.h"

#include "base/units.h"
#include "io/io.h"
#include "policies/keys.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Files, requests and pieces are whole pages. */
enum { PAGE = 4096 };

int dsf_disks_check_keys(const struct dsf_job *job, struct dsflow_err *err)
{
    int64_t piece = dsf_offload_keys(job)->piece, block = job->nvme.block;

    if (piece < PAGE)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "offload", "piece",
                            "%s: expected a size of 4KiB or more",
                            piece < 0 ? "auto"
                                      : dsf_size_text((double)piece).s);
    if (block == 0 || (block > 0 && block % PAGE != 0) ||
        block > DSF_IO_MOST_BLOCK)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "memory.nvme", "block",
                            "%lld bytes: expected a multiple of 4KiB, at most "
                            "1GiB",
                            (long long)block);
    return DSFLOW_OK;
}

/* The key that asks for NVMe; NULL: none does. */
static const char *asking_key(const struct dsf_job *job)
{
    const int *home = dsf_offload_keys(job)->home;

    return home[DSFLOW_STATES] == DSFLOW_NVME        ? "optimizer"
           : home[DSFLOW_PARAMS] == DSFLOW_NVME      ? "params"
           : home[DSFLOW_GRADS] == DSFLOW_NVME       ? "gradients"
           : home[DSFLOW_ACTIVATIONS] == DSFLOW_NVME ? "activations"
                                                     : NULL;
}

bool dsf_disks_are_used(const struct dsf_job *job)
{
    return asking_key(job) != NULL;
}

static int check_folder(const struct dsf_job *job, const char *path,
                        struct dsflow_err *err)
{
    struct stat st;
    const char *why = NULL;

    if (stat(path, &st) < 0)
        why = strerror(errno);
    else if (!S_ISDIR(st.st_mode))
        why = "is no folder";
    else if (access(path, W_OK | X_OK) < 0)
        why = strerror(errno);
    if (why == NULL)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "memory.nvme", "path",
                        "%s: %s", path, why);
}

int dsf_disks_check(const struct dsf_job *job, struct dsflow_err *err)
{
    const struct dsflow_strings *paths = &job->nvme.path;
    const char *key = asking_key(job);
    int status = DSFLOW_OK;

    if (key == NULL)
        return DSFLOW_OK;
    if (paths->n == 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "offload", key,
                            "nvme: expected a folder or more in "
                            "memory.nvme.path");
    for (unsigned i = 0; i < paths->n && status == DSFLOW_OK; i++)
        status = check_folder(job, paths->v[i], err);
    return status;
}

static double free_of(const char *path)
{
    struct statvfs fs;

    if (statvfs(path, &fs) < 0)
        return INFINITY; /* the file will tell */
    return (double)fs.f_bavail * (double)fs.f_frsize;
}

/* How many of the folders are on the same disk as `path`. */
static unsigned count_beside(const struct dsflow_strings *paths,
                             const char *path)
{
    struct stat here, there;
    unsigned n = 0;

    if (stat(path, &here) < 0)
        return 0;
    for (unsigned i = 0; i < paths->n; i++)
        n += stat(paths->v[i], &there) == 0 && there.st_dev == here.st_dev;
    return n;
}

double dsf_disks_bytes_beside(const struct dsf_job *job, double bytes,
                              const char *path)
{
    const struct dsflow_strings *paths = &job->nvme.path;

    return paths->n == 0 ? 0 : bytes / paths->n * count_beside(paths, path);
}

int dsf_disks_check_room(const struct dsf_job *job, double bytes,
                         struct dsflow_err *err)
{
    const struct dsflow_strings *paths = &job->nvme.path;

    /* Every folder takes as much as the others. */
    for (unsigned i = 0; i < paths->n; i++) {
        double needed = dsf_disks_bytes_beside(job, bytes, paths->v[i]);

        if (needed > free_of(paths->v[i]))
            return dsf_job_fail(job, err, DSFLOW_EFIT, "memory.nvme", "path",
                                "%s: %s are needed and %s are free",
                                paths->v[i], dsf_size_text(needed).s,
                                dsf_size_text(free_of(paths->v[i])).s);
    }
    return DSFLOW_OK;
}

double dsf_disks_free(const struct dsf_job *job)
{
    const struct dsflow_strings *paths = &job->nvme.path;
    double bytes = 0;

    if (paths->n == 0)
        return free_of(".");
    for (unsigned i = 0; i < paths->n; i++)
        bytes += free_of(paths->v[i]) / count_beside(paths, paths->v[i]);
    return bytes;
}

struct dsflow_disk dsf_disks_options(const struct dsf_job *job)
{
    const struct dsf_job_nvme *nvme = &job->nvme;

    return (struct dsflow_disk){
        .paths = (const char *const *)nvme->path.v,
        .npaths = nvme->path.n,
        .block = nvme->block < 0 ? 0 : (size_t)nvme->block,
        .depth = (unsigned)nvme->depth,
        .verify = nvme->verify,
    };
}
