/* follow.c - a run as its folder shows it. */
#include "train/follow.h"

#include "base/alloc.h"
#include "checkpoint/checkpoint.h"
#include "config/job.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int dsf_follow_open(struct dsf_follow *f, const char *folder,
                    struct dsflow_err *err)
{
    struct stat st;
    size_t n = strlen(folder), start;

    *f = (struct dsf_follow){ .fd = -1 };
    if (stat(folder, &st) < 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", folder);
    if (!S_ISDIR(st.st_mode))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: expected the folder of a run, which is output "
                           "in [job]",
                           folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    f->folder = dsf_xstrndup(folder, n);
    for (start = n; start > 0 && folder[start - 1] != '/'; start--)
        ;
    f->name = dsf_xstrdup(f->folder + start);
    return DSFLOW_OK;
}

/* As if nothing had been read. */
static void forget(struct dsf_follow *f)
{
    f->nlosses = f->nvalidations = f->ntext = 0;
    f->nskipped = 0;
    f->has_step = f->ended = false;
    f->at = 0;
    memset(&f->pace, 0, sizeof(f->pace));
}

static void close_file(struct dsf_follow *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    forget(f);
}

void dsf_follow_close(struct dsf_follow *f)
{
    close_file(f);
    free(f->folder);
    free(f->name);
    free(f->losses);
    free(f->validations);
    free(f->text);
}

/* What the job says of the run; later when it is just being written. */
static void read_job(struct dsf_follow *f)
{
    char *path = dsf_xasprintf("%s/job.toml", f->folder);
    struct dsf_job job;
    struct stat st;

    if (stat(path, &st) == 0 &&
        (st.st_mtim.tv_sec != f->job_read.tv_sec ||
         st.st_mtim.tv_nsec != f->job_read.tv_nsec) &&
        dsf_job_read_main(path, &job, NULL) == DSFLOW_OK) {
        f->job_read = st.st_mtim;
        f->steps = job.main.steps;
        f->log_every = job.main.log_every;
        free(f->name);
        f->name = dsf_xstrdup(job.main.name);
        dsf_job_fini(&job);
    }
    free(path);
}

/* Of steps that are done again only the last time counts. */
static void add_point(struct dsf_point **v, size_t *n, size_t *cap,
                      int64_t step, double loss)
{
    while (*n > 0 && (*v)[*n - 1].step >= step)
        --*n;
    if (!isfinite(loss))
        return;
    if (*n == *cap)
        dsf_grow(v, cap, *n + 1, sizeof(**v));
    (*v)[(*n)++] = (struct dsf_point){ step, loss };
}

static void take_line(struct dsf_follow *f, const struct dsf_line *line)
{
    f->ended = line->kind == DSF_LINE_END;
    if (line->kind == DSF_LINE_STEP) {
        add_point(&f->losses, &f->nlosses, &f->cap_losses, line->step.step,
                  line->step.loss);
        f->last = line->step;
        f->has_step = true;
        if (line->step.skipped) {
            f->nskipped++;
            f->skipped = line->step.step;
        }
        dsf_pace_add(&f->pace, &line->step);
    } else if (line->kind == DSF_LINE_VALIDATION) {
        add_point(&f->validations, &f->nvalidations, &f->cap_validations,
                  line->validation.step, line->validation.loss);
    } else {
        f->end = *line;
        memcpy(f->why, line->end.why, sizeof(f->why));
    }
}

/* What was read, up to position f->at, behind what was left of before. */
static void take_text(struct dsf_follow *f, const char *text, size_t n)
{
    struct dsf_line line;
    size_t start = 0;
    char *end;

    dsf_grow(&f->text, &f->cap_text, f->ntext + n, 1);
    memcpy(f->text + f->ntext, text, n);
    f->ntext += n;
    while ((end = memchr(f->text + start, '\n', f->ntext - start)) != NULL) {
        size_t size = (size_t)(end - f->text) - start;
        bool known = dsf_metrics_parse(f->text + start, size, &line);

        start += size + 1;
        if (!known) /* not ours, or half of what was cut and written again */
            continue;
        take_line(f, &line);
        if (f->on_line != NULL && f->at - (off_t)(f->ntext - start) > f->news)
            f->on_line(f->user, &line);
    }
    f->ntext -= start;
    memmove(f->text, f->text + start, f->ntext);
}

/* What is not a whole line yet is read again: it may be cut off, and another line
 * may be there then. */
static bool read_lines(struct dsf_follow *f)
{
    char text[1 << 16];
    off_t before = f->at;
    ssize_t n;

    while ((n = pread(f->fd, text, sizeof(text), f->at)) > 0) {
        f->at += n;
        take_text(f, text, (size_t)n);
    }
    f->at -= (off_t)f->ntext;
    f->ntext = 0;
    return f->at > before;
}

/* Is it still the file that was opened? */
static bool find_file(struct dsf_follow *f)
{
    char *path = dsf_xasprintf("%s/metrics.jsonl", f->folder);
    struct stat st;
    bool is = stat(path, &st) == 0;

    if (f->fd >= 0 &&
        (!is || st.st_ino != f->st.st_ino || st.st_dev != f->st.st_dev))
        close_file(f);
    if (is && f->fd < 0) {
        f->fd = open(path, O_RDONLY | O_CLOEXEC);
        f->news = f->waited ? 0 : st.st_size;
    }
    f->waited = true;
    if (is)
        f->st = st;
    free(path);
    return f->fd >= 0;
}

static enum dsf_run_state state_of(const struct dsf_follow *f, int open)
{
    static const enum dsf_run_state ends[] = {
        [DSF_FINISHED] = DSF_RUN_FINISHED,
        [DSF_STOPPED] = DSF_RUN_STOPPED,
        [DSF_FAILED] = DSF_RUN_FAILED,
    };

    if (open == 1)
        return f->ended || f->at == 0 ? DSF_RUN_STARTING : DSF_RUN_GOING;
    if (f->ended)
        return ends[f->end.end.end];
    if (f->at == 0)
        return DSF_RUN_NONE;
    return open == 0 ? DSF_RUN_GONE : DSF_RUN_GOING;
}

bool dsf_follow_poll(struct dsf_follow *f)
{
    enum dsf_run_state state = DSF_RUN_NONE;
    bool any = false;
    int open;

    read_job(f);
    if (find_file(f)) {
        /* Asked first: a run that ends now may add lines after that. */
        open = dsf_metrics_is_open(f->fd);
        if (f->st.st_size < f->at) { /* it goes on from an earlier step */
            forget(f);
            f->news = f->st.st_size;
            any = true;
        }
        any = read_lines(f) || any;
        state = state_of(f, open);
    }
    f->changed = f->st.st_mtim;
    any = any || state != f->state;
    f->state = state;
    return any;
}

bool dsf_follow_is_over(const struct dsf_follow *f)
{
    return f->state >= DSF_RUN_FINISHED;
}

double dsf_follow_age(const struct dsf_follow *f)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)(now.tv_sec - f->changed.tv_sec) +
           1e-9 * (double)(now.tv_nsec - f->changed.tv_nsec);
}

bool dsf_follow_is_late(const struct dsf_follow *f)
{
    return f->state == DSF_RUN_GOING && f->has_step &&
           dsf_follow_age(f) > fmax(10, 5 * f->pace.step_seconds);
}

int64_t dsf_follow_saved(const struct dsf_follow *f)
{
    char *dir = dsf_xasprintf("%s/checkpoints", f->folder);
    struct dsf_ckpt_use use = dsf_ckpt_use(dir);

    free(dir);
    return use.n > 0 ? use.newest : -1;
}
