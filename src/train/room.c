/* room.c - is there room on disk for the checkpoints of a run? */
#include "train/room.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

/* Of a file system that is not known. */
static const double usual_block = 4096;

void dsf_room_look(const char *path, struct dsf_room *room)
{
    char *at = dsf_xstrdup(path), *slash;
    struct statvfs fs;
    struct rlimit limit;
    int there;

    /* The folder may not be there yet: then what it will be made in counts. */
    while ((there = statvfs(at, &fs)) < 0 && at[0] != '\0' && at[1] != '\0' &&
           (slash = strrchr(at, '/')) != NULL)
        slash[slash == at] = '\0';
    if (there < 0)
        there = statvfs(".", &fs);
    *room = (struct dsf_room){ INFINITY, usual_block, INFINITY };
    if (there == 0) {
        room->free = (double)fs.f_bavail * (double)fs.f_frsize;
        room->block = (double)fs.f_frsize;
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        room->file = (double)limit.rlim_cur;
    free(at);
}

double dsf_room_saves(const struct dsf_job *job, int64_t done)
{
    const struct dsf_job_checkpoint *c = &job->checkpoint;
    int64_t steps = job->main.steps, every = c->every.steps;
    double saves = 0;

    if (done >= steps)
        return 0;
    if (c->every.seconds > 0)
        return INFINITY;
    if (every > 0)
        saves = (double)(steps / every - done / every);
    if (c->at_end && (every == 0 || steps % every != 0))
        saves++;
    return saves;
}

/* Of one checkpoint, with its folder, its manifest and `latest`. */
static double bytes_of_one(const struct dsf_room_use *use, double block)
{
    double bytes = 3 * block;

    for (int i = 0; i < 2; i++)
        bytes += ceil(use->bytes[i] / block) * block;
    return bytes;
}

/* Checkpoints of this run that are there at once: a new one is whole before the
 * oldest is removed. */
static double count_new(const struct dsf_room_use *use, int64_t keep)
{
    return keep == 0 ? fmin(use->saves, 1) : fmin(use->saves, (double)keep + 1);
}

struct dsf_plan_saves dsf_room_plan(const struct dsf_job *job,
                                    const struct dsf_room_use *use)
{
    const double keep =
        job->checkpoint.keep == 0 ? INFINITY : (double)job->checkpoint.keep;

    return (struct dsf_plan_saves){ .bytes = bytes_of_one(use, usual_block),
                                    .n = use->saves,
                                    .kept = fmin(use->saves, keep),
                                    .most = fmin(use->saves, keep + 1) };
}

/* Bytes beside what is there now. Checkpoints of before make way in time. */
static double bytes_needed(const struct dsf_room_use *use, int64_t keep,
                           double one)
{
    double n = count_new(use, keep);
    double gone = keep == 0 ? 0 : fmax(0, use->there + n - 1 - (double)keep);
    double each = use->there > 0 ? use->there_bytes / use->there : 0;

    gone = fmin(gone, use->there);
    return fmax(fmin(n, 1) * one, n * one - gone * each) + use->others;
}

/* The most that may be kept for there to be room; 0: nothing would do. */
static int64_t keep_that_fits(const struct dsf_room_use *use, int64_t keep,
                              double one, double free)
{
    double most = floor((free - use->others) / one) - 1;
    int64_t k = most < (double)keep ? (int64_t)most : keep - 1;

    while (k > 0 && bytes_needed(use, k, one) > free)
        k--;
    return k > 0 ? k : 0;
}

static int refuse(const struct dsf_job *job, const struct dsf_room_use *use,
                  double one, double free, struct dsflow_err *err)
{
    int64_t keep = job->checkpoint.keep;
    int64_t fits = keep_that_fits(use, keep, one, free);
    double n = count_new(use, keep), needed = bytes_needed(use, keep, one);
    char count[128] = "", others[64] = "", less[64] = "";

    if (n > 1)
        snprintf(count, sizeof(count),
                 " (%.0f of %s at a time, with checkpoint.keep = %lld)", n,
                 dsf_size_text(one).s, (long long)keep);
    if (use->others > 0)
        snprintf(others, sizeof(others), ", with %s for memory.nvme.path",
                 dsf_size_text(use->others).s);
    if (fits > 0)
        snprintf(less, sizeof(less), ", or checkpoint.keep = %lld",
                 (long long)fits);
    return dsf_job_fail(job, err, DSFLOW_EFIT, "job", "output",
                        "%s: %s need%s %s%s%s and %s are free there: set "
                        "job.output to a folder with more room%s",
                        job->main.output,
                        n > 1 ? "the checkpoints" : "a checkpoint",
                        n > 1 ? "" : "s", dsf_size_text(needed).s, count,
                        others, dsf_size_text(free).s, less);
}

/* All are kept: nobody can say that this is too many, but it should be known.
 */
static void say_all_are_kept(const struct dsf_job *job,
                             const struct dsf_room_use *use, double one,
                             double free)
{
    if (job->checkpoint.keep != 0 || use->saves <= 1)
        return;
    if (isinf(use->saves))
        dsf_info("checkpoint.keep = 0 keeps every checkpoint, %s each; %s are "
                 "free",
                 dsf_size_text(one).s, dsf_size_text(free).s);
    else if (use->saves * one + use->others > free)
        dsf_warn("checkpoint.keep = 0 keeps all %.0f checkpoints, %s in all, "
                 "and %s are free: set checkpoint.keep, or a longer "
                 "checkpoint.every",
                 use->saves, dsf_size_text(use->saves * one).s,
                 dsf_size_text(free).s);
}

int dsf_room_check(const struct dsf_job *job, const struct dsf_room_use *use,
                   const struct dsf_room *room, struct dsflow_err *err)
{
    double one = bytes_of_one(use, room->block);
    double free = room->free + use->removed;
    double largest = fmax(use->bytes[0], use->bytes[1]);

    if (use->saves > 0 && largest > room->file)
        return dsf_job_fail(job, err, DSFLOW_EFIT, "job", "output",
                            "%s: a checkpoint has a file of %s and files may "
                            "have %s here: raise the limit (ulimit -f)",
                            job->main.output, dsf_size_text(largest).s,
                            dsf_size_text(room->file).s);
    if (use->saves > 0 && bytes_needed(use, job->checkpoint.keep, one) > free)
        return refuse(job, use, one, free, err);
    if (!use->early)
        say_all_are_kept(job, use, one, free);
    return DSFLOW_OK;
}
