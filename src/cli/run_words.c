/* run_words.c - what a run says at its start and at its end. */
#include "cli/run_words.h"

#include "base/log.h"
#include "base/units.h"
#include "sim/weights.h"
#include "tune/fit.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

void dsf_run_say_start(struct dsf_run *r, struct dsf_progress *p)
{
    struct dsf_setup setup = dsf_session_setup(&r->s);
    char *gradients = dsf_fit_gradients_text(&setup, NULL);

    dsf_progress_say(p,
                     "%s: %.2f M parameters; %lld tokens to train on, %lld to "
                     "validate%s",
                     r->s.job->main.name, (double)r->s.model.params / 1e6,
                     (long long)r->s.text.train_tokens,
                     (long long)r->s.text.validation_tokens,
                     r->s.text.cached ? " (from the cache)" : "");
    if (r->s.why != NULL)
        dsf_progress_say(p, "%s", r->s.why);
    if (gradients != NULL)
        dsf_progress_say(p, "%s", gradients);
    free(gradients);
    if (r->start.folder != NULL && r->done == r->s.job->main.steps)
        dsf_progress_say(p, "all %lld steps of %s are done: --steps for more",
                         (long long)r->done, r->s.job->main.output);
    else if (r->start.folder != NULL)
        dsf_progress_say(p, "goes on from %s", r->start.folder);
    else if (r->start.asked)
        dsf_progress_say(p, "%s has no checkpoint: starts from the beginning",
                         r->s.job->main.output);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median_of(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), ascending);
    return v[n / 2];
}

/* A step as it was, as it was predicted, and as it could be at best. */
static void say_time(struct dsf_run *r, struct dsf_progress *p,
                     unsigned workers)
{
    double predicted = r->prediction.sim.step_seconds, median, mean;
    char text[96] = "", on_average[64] = "";

    if (r->nseconds == 0)
        return;
    median = median_of(r->seconds, r->nseconds);
    if (workers == r->s.plan->workers) /* not the serial executor's one */
        snprintf(text, sizeof(text), ", predicted %s: %s",
                 dsf_seconds_text(predicted).s,
                 dsf_against_text(median, predicted).s);
    dsf_progress_say(p, "step %s (median)%s",
                     dsf_seconds_text(median).s, text);
    /* It is of all time; what is said of a step is the median. */
    mean = r->taken / (double)r->nseconds;
    if (mean > 1.02 * median)
        snprintf(on_average, sizeof(on_average), " of %s on average",
                 dsf_seconds_text(mean).s);
    dsf_progress_say(p,
                     "efficiency %.1f %%%s: with tasks like these no order "
                     "takes less than %s",
                     100 * dsf_efficiency(r->least, r->taken), on_average,
                     dsf_seconds_text(r->least / (double)r->nseconds).s);
}

/* What the ranks have in a larger memory. */
static void say_tier(struct dsf_run *r, struct dsf_progress *p,
                     const struct dsf_weights *w,
                     enum dsflow_tier tier)
{
    double planned = 0, measured = 0;

    for (unsigned i = 0; i < w->nranks; i++) {
        planned += w->ranks[i].tier_bytes[tier];
        measured += (double)dsflow_exec_resident(r->s.exec, i, tier);
    }
    if (planned > 0)
        dsf_progress_say(p, "offloaded to %s: %s, planned %s",
                         dsflow_tier_str(tier), dsf_size_text(measured).s,
                         dsf_size_text(planned).s);
}

/* Of all ranks, and of the one that has most. */
static void say_memory(struct dsf_run *r, struct dsf_progress *p)
{
    const struct dsf_weights *w = dsf_session_weights(&r->s);
    unsigned most = dsf_weights_neediest(w);
    double planned = 0, tensors = 0, peak;
    struct rusage usage;

    for (unsigned i = 0; i < w->nranks; i++) {
        planned += w->ranks[i].peak + w->ranks[i].tier_bytes[DSFLOW_HOST];
        for (int t = DSFLOW_DEVICE; t < DSFLOW_NVME; t++)
            tensors +=
                (double)dsflow_exec_resident(r->s.exec, i, (enum dsflow_tier)t);
    }
    getrusage(RUSAGE_SELF, &usage);
    peak = fmax(1024.0 * (double)usage.ru_maxrss, tensors);
    dsf_progress_say(p,
                     "peak memory %s: %s tensors, %s the program and its "
                     "libraries; planned %s",
                     dsf_size_text(peak).s, dsf_size_text(tensors).s,
                     dsf_size_text(peak - tensors).s, dsf_size_text(planned).s);
    if (w->nranks > 1)
        dsf_progress_say(
            p, "tensors of rank %u, which has most: %s, planned %s",
            most,
            dsf_size_text(
                (double)dsflow_exec_resident(r->s.exec, most, DSFLOW_DEVICE))
                .s,
            dsf_size_text(w->ranks[most].peak - w->ranks[most].scratch).s);
    say_tier(r, p, w, DSFLOW_HOST);
    say_tier(r, p, w, DSFLOW_NVME);
}

/* What a step had to do with disks. */
static void say_io(struct dsf_run *r, struct dsf_progress *p)
{
    if (r->io > 0)
        dsf_progress_say(p,
                         "disk: %s read, %s written a step; busy %.4g ms, "
                         "%.1f %% hidden behind compute",
                         dsf_size_text(r->read).s, dsf_size_text(r->written).s,
                         1e3 * r->io / (double)r->nseconds,
                         100 * r->io_hidden / r->io);
}

/* Where the trace is, if there is one. */
static void say_trace(struct dsf_run *r, struct dsf_progress *p)
{
    if (r->meter.written == 0)
        return;
    dsf_progress_say(p, "steps %lld to %lld are traced: dsflow trace %s",
                     (long long)(r->first + r->meter.first + 1),
                     (long long)(r->first + r->meter.last + 1),
                     r->s.job->main.output);
    if (r->meter.lost > 0)
        dsf_progress_say(p, "%llu tasks are missing in the trace",
                         (unsigned long long)r->meter.lost);
}

void dsf_run_say_end(struct dsf_run *r, struct dsf_progress *p)
{
    struct dsflow_exec_stats stats;

    if (p->skipped > 0)
        dsf_progress_say(p,
                         "%lld of %lld steps were skipped: loss or gradient "
                         "was not finite",
                         (long long)p->skipped,
                         (long long)(r->done - r->first));
    dsflow_exec_stats(r->s.exec, &stats);
    if (stats.wall_seconds > 0)
        dsf_progress_say(
            p, "%llu tasks, kernels %.1f %% of %u workers x %.1f s",
            (unsigned long long)stats.tasks,
            100 * stats.kernel_seconds / (stats.wall_seconds * stats.workers),
            stats.workers, stats.wall_seconds);
    say_memory(r, p);
    say_io(r, p);
    say_time(r, p, stats.workers);
    say_trace(r, p);
}
