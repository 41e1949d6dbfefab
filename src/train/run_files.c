/* run_files.c - the output folder of a run, and what says there what it is of.
 */
#include "train/run.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/file.h"
#include "base/synced.h"
#include "sim/plan_report.h"
#include "train/kept.h"
#include "train/machine_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A run writes its job.toml into the folder: one of a user stays. */
static int check_job_file(const struct dsf_job *job, struct dsflow_err *err)
{
    const char *output = job->main.output;
    char *path = dsf_xasprintf("%s/job.toml", output);
    bool written = access(path, F_OK) == 0 && !dsf_is_run(output);

    free(path);
    return written ? dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output",
                                  "%s: has a job.toml that no run wrote, and "
                                  "would lose it: expected a folder of its own",
                                  output)
                   : DSFLOW_OK;
}

/* Cut a path to the folder that the last one of it is in; "" is the current
 * one. */
static void leave_last(char *path)
{
    char *end = path + strlen(path);

    while (end > path && end[-1] != '/')
        end--;
    while (end > path + 1 && end[-1] == '/')
        end--;
    *end = '\0';
}

/* The last folder of the path that is there, or a link to none; freed by the
 * caller. */
static char *find_there(const char *path)
{
    char *there = dsf_xstrdup(path);
    struct stat st;

    while (there[0] != '\0' && lstat(there, &st) < 0 && errno == ENOENT)
        leave_last(there);
    return there;
}

/* Why no file can be made in the folder, which may not be there yet: an errno,
 * or 0. */
static int why_not_into(const char *path)
{
    char *there = find_there(path);
    const char *folder = there[0] != '\0' ? there : ".";
    struct stat st;
    int why = 0;

    if (stat(folder, &st) < 0)
        why = errno;
    else if (!S_ISDIR(st.st_mode))
        why = ENOTDIR;
    else if (access(folder, W_OK | X_OK) < 0)
        why = errno;
    free(there);
    return why;
}

int dsf_run_check_output(const struct dsf_job *job, struct dsflow_err *err)
{
    char *checkpoints = dsf_xasprintf("%s/checkpoints", job->main.output);
    const char *const folders[] = { job->main.output, checkpoints };
    int status = DSFLOW_OK, why;

    for (int i = 0; i < 2 && status == DSFLOW_OK; i++)
        if ((why = why_not_into(folders[i])) != 0)
            status = dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output",
                                  "%s: %s", folders[i], strerror(why));
    free(checkpoints);
    return status == DSFLOW_OK ? check_job_file(job, err) : status;
}

static int make_output(const struct dsf_job *job, struct dsflow_err *err)
{
    const char *output = job->main.output;
    struct dsflow_err why;
    int status = DSFLOW_OK;

    if (dsf_synced_folders(output, &why) < 0)
        status = dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output", "%s",
                              why.msg);
    if (status == DSFLOW_OK && access(output, W_OK | X_OK) < 0)
        status = dsf_job_fail(job, err, DSFLOW_EINVAL, "job", "output",
                              "%s: %s", output, strerror(errno));
    return status;
}

int dsf_run_take_output(const struct dsf_job *job, struct dsf_metrics *m,
                        struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/metrics.jsonl", job->main.output);
    int status = make_output(job, err);

    if (status == DSFLOW_OK)
        status = dsf_metrics_open(m, path, err);
    free(path);
    return status;
}

struct dsf_output_before dsf_run_look(const struct dsf_job *job)
{
    const char *output = job->main.output;
    char *there = find_there(output);
    const struct dsf_output_before before = {
        .folders = strlen(there),
        .metrics = dsf_file_is_in(output, "metrics.jsonl"),
        .cache = dsf_file_is_in(output, "cache"),
        .checkpoints = dsf_file_is_in(output, "checkpoints"),
        .tokenizer = dsf_file_is_in(output, "tokenizer"),
    };

    free(there);
    return before;
}

void dsf_run_clear_output(const struct dsf_job *job,
                          const struct dsf_output_before *before,
                          const struct dsf_metrics *m)
{
    char *checkpoints = dsf_xasprintf("%s/checkpoints", job->main.output);
    char *cache = dsf_xasprintf("%s/cache", job->main.output);
    char *tokenizer = dsf_xasprintf("%s/tokenizer", job->main.output);
    char *path = dsf_xstrdup(job->main.output);

    if (!before->checkpoints)
        rmdir(checkpoints);
    if (!before->cache && m->fd >= 0)
        dsf_synced_remove(cache);
    if (!before->tokenizer && m->fd >= 0)
        dsf_synced_remove(tokenizer);
    if (!before->metrics && m->fd >= 0) /* last: no run begins before */
        unlink(m->path);
    for (; strlen(path) > before->folders &&
           (rmdir(path) == 0 || errno == ENOENT);
         leave_last(path))
        ;
    free(path);
    free(tokenizer);
    free(cache);
    free(checkpoints);
}

/* Write `<output>/name` with `write`, which gets the run. */
static int write_file(struct dsf_run *r, const char *name,
                      int (*write)(struct dsf_run *r, FILE *out,
                                   struct dsflow_err *err),
                      struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/%s", r->s.job->main.output, name);
    struct dsf_aside file;
    int status;

    if (dsf_aside_open(&file, path) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    } else {
        status = write(r, file.out, err);
        if (dsf_aside_close(&file, status == DSFLOW_OK) < 0)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    }
    free(path);
    return status;
}

static int write_job(struct dsf_run *r, FILE *out, struct dsflow_err *err)
{
    fprintf(out, "# The job of this run, with what --set changed.\n");
    dsf_job_write(r->s.job, out); /* failures stay in the file */
    return DSFLOW_OK;
}

static int write_plan(struct dsf_run *r, FILE *out, struct dsflow_err *err)
{
    const struct dsf_weights *w = dsf_session_weights(&r->s);
    const struct dsf_plan_saves saves = dsf_session_saves(&r->s);
    struct dsf_plan_facts facts = { .machine = &r->machine,
                                    .weights = w,
                                    .saves = &saves,
                                    .some = r->s.together.alone,
                                    .prediction = dsf_run_is_predicted(r)
                                                      ? &r->prediction
                                                      : NULL };
    char on[256];

    dsf_machine_keys_describe(&r->s.machine, on, sizeof(on));
    if (r->s.machine.gpus > 0)
        facts.on = on;
    dsf_fit_budgets(r->s.plan, &r->machine, w, facts.budget);
    return dsf_plan_report_json(r->s.plan, r->s.graph, &facts, out, err);
}

int dsf_run_write_files(struct dsf_run *r, struct dsflow_err *err)
{
    int status = write_file(r, "job.toml", write_job, err);

    if (status == DSFLOW_OK)
        status = write_file(r, "plan.json", write_plan, err);
    return status == DSFLOW_OK ? dsf_kept_write_tokenizer(&r->s, err) : status;
}
