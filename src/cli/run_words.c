/* run_words.c - what a run says at its start and at its end. */
#include "cli/run_words.h"

#include "base/units.h"
#include "exec/exec_trace.h"
#include "net/net.h"
#include "train/used.h"
#include "tune/fit.h"

#include <math.h>
#include <stdlib.h>

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
    if (r->wire != NULL)
        dsf_progress_say(p, "in %d processes (%s)", (int)r->wire->nprocesses,
                         dsf_net_version(NULL));
    if (r->s.together.alone)
        dsf_progress_say(
            p,
            "%.2g million tasks: each process has those of its own "
            "ranks; no step is predicted, and shares, efficiency "
            "and traces are of process 0 (run.whole)",
            dsf_session_weights(&r->s)->ntasks / 1e6);
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

/* A step as it was, as it was predicted, and as it could be at best. */
static void say_time(const struct dsf_used *u, struct dsf_progress *p)
{
    char text[96] = "", on_average[64] = "";

    if (u->steps == 0)
        return;
    if (!isnan(u->predicted))
        snprintf(text, sizeof(text), ", predicted %s: %s",
                 dsf_seconds_text(u->predicted).s,
                 dsf_against_text(u->median, u->predicted).s);
    dsf_progress_say(p, "step %s (median)%s", dsf_seconds_text(u->median).s,
                     text);
    if (isnan(u->efficiency))
        return;
    /* It is of all time; what is said of a step is the median. */
    if (u->mean > 1.02 * u->median)
        snprintf(on_average, sizeof(on_average), " of %s on average",
                 dsf_seconds_text(u->mean).s);
    dsf_progress_say(p,
                     "efficiency %.1f %%%s: with tasks like these no order "
                     "takes less than %s",
                     100 * u->efficiency, on_average,
                     dsf_seconds_text(u->least).s);
    if (!isnan(u->mfu))
        dsf_progress_say(p, "MFU %.3g %%: of what %u such GPU%s built for",
                         100 * u->mfu, u->gpus, u->gpus == 1 ? " is" : "s are");
}

/* What the ranks have in a larger memory. */
static void say_tier(const struct dsf_used *u, struct dsf_progress *p,
                     enum dsflow_tier tier)
{
    if (u->tier[tier].planned > 0)
        dsf_progress_say(p, "offloaded to %s: %s, planned %s",
                         dsflow_tier_str(tier),
                         dsf_size_text(u->tier[tier].measured).s,
                         dsf_size_text(u->tier[tier].planned).s);
}

/* Of all ranks, and of the one that has most. What the program takes is known
 * of this process alone. */
static void say_memory(const struct dsf_run *r, const struct dsf_used *u,
                       struct dsf_progress *p)
{
    if (r->wire != NULL)
        dsf_progress_say(p, "memory: %s tensors in all processes; planned %s",
                         dsf_size_text(u->memory.measured).s,
                         dsf_size_text(u->memory.planned).s);
    else
        dsf_progress_say(p,
                         "peak memory %s: %s tensors, %s the program and its "
                         "libraries; planned %s",
                         dsf_size_text(u->peak).s,
                         dsf_size_text(u->memory.measured).s,
                         dsf_size_text(u->peak - u->memory.measured).s,
                         dsf_size_text(u->memory.planned).s);
    if (u->nranks > 1)
        dsf_progress_say(p,
                         "tensors of rank %u, which has most: %s, planned %s",
                         u->neediest, dsf_size_text(u->of_neediest.measured).s,
                         dsf_size_text(u->of_neediest.planned).s);
    if (u->gpus > 0)
        dsf_progress_say(p, "on %u GPU%s: %s, planned %s", u->gpus,
                         u->gpus == 1 ? "" : "s",
                         dsf_size_text(u->device.measured).s,
                         dsf_size_text(u->device.planned).s);
    say_tier(u, p, DSFLOW_HOST);
    say_tier(u, p, DSFLOW_NVME);
}

static void say_lacking(const struct dsf_run *r, struct dsf_progress *p)
{
    double share;
    char *kinds = dsf_run_lacking(r, &share);

    if (kinds != NULL)
        dsf_progress_say(p,
                         "on cores, as they have no CUDA side: %s: %.1f %% of "
                         "the time of all kernels",
                         kinds, 100 * share);
    free(kinds);
}

/* Where the trace is, if there is one. */
static void say_trace(struct dsf_run *r, struct dsf_progress *p)
{
    const double apart = dsf_exec_clocks_within(r->s.exec);

    if (r->meter.written == 0)
        return;
    dsf_progress_say(p, "steps %lld to %lld are traced: dsflow trace %s",
                     (long long)(r->first + r->meter.first + 1),
                     (long long)(r->first + r->meter.last + 1),
                     r->s.job->main.output);
    if (apart > 0)
        dsf_progress_say(p,
                         "clocks of its machines differ: times of one beside "
                         "another's are known to %.2g ms",
                         1e3 * apart);
    if (r->meter.lost > 0)
        dsf_progress_say(p, "%llu tasks are missing in the trace",
                         (unsigned long long)r->meter.lost);
}

void dsf_run_say_end(struct dsf_run *r, struct dsf_progress *p)
{
    const struct dsflow_exec_stats *stats;
    struct dsf_used u;

    if (p->skipped > 0)
        dsf_progress_say(p,
                         "%lld of %lld steps were skipped: loss or gradient "
                         "was not finite",
                         (long long)p->skipped,
                         (long long)(r->done - r->first));
    dsf_run_used(r, &u);
    stats = &u.exec;
    if (stats->wall_seconds > 0)
        dsf_progress_say(p, "%s%llu tasks, kernels %.1f %% of %u %s x %.1f s",
                         r->wire != NULL ? "process 0: " : "",
                         (unsigned long long)stats->tasks,
                         100 * stats->kernel_seconds /
                             (stats->wall_seconds * stats->workers),
                         stats->workers,
                         u.gpus == 0          ? "workers"
                         : stats->workers > 1 ? "GPUs"
                                              : "GPU",
                         stats->wall_seconds);
    say_lacking(r, p);
    say_memory(r, &u, p);
    if (u.disk > 0)
        dsf_progress_say(p,
                         "disk: %s read, %s written a step; busy %.4g ms, "
                         "%.1f %% hidden behind compute",
                         dsf_size_text(r->read).s, dsf_size_text(r->written).s,
                         1e3 * u.disk, 100 * u.disk_hidden);
    if (u.sent > 0)
        dsf_progress_say(p,
                         "messages: %s a step between processes; under way "
                         "%.4g ms, %.1f %% hidden behind compute",
                         dsf_size_text(u.sent_bytes).s, 1e3 * u.sent,
                         100 * u.sent_hidden);
    say_time(&u, p);
    say_trace(r, p);
}
